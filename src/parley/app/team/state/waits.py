"""Asks that wait for their answer in this process. An ask that would make agents wait for each other is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.channel.request import RequestState
from parley.domain.directory.callers import Key
from parley.domain.errors.errors import ParleyError, Unavailable
from parley.domain.errors.team import CircularWait, MessageExpired, RequestWithdrawn
from parley.domain.message.message import Pattern
from parley.domain.rules.suspension import Suspensions

if TYPE_CHECKING:
    from parley.domain.channel.post import Post
    from parley.domain.store.changes import Committed


class RightsChanged(Exception):  # a signal, not an error
    """Who waits must check whether it still may: a key of its tenant or a suspension has changed."""


class Wait(NamedTuple):
    """An ask: `agent` waits until one of `others` answers. Without others it waits until an agent holds the role."""

    tenant: str
    agent: str
    others: tuple[str, ...]
    channel_id: str
    # More than one if the same request is sent again while it waits.
    answers: set[asyncio.Future[Post]]

    def resolve(self, answer: Post | ParleyError | RightsChanged) -> None:
        """Give the answer or the error to everyone who waits."""
        for waiter in self.answers:
            if waiter.done():
                continue
            if isinstance(answer, Exception):
                waiter.set_exception(answer)
                waiter.exception()  # marked as retrieved: the caller may have disconnected
            else:
                waiter.set_result(answer)


class Waits:
    """The asks of this process that wait for their answer, by request."""

    def __init__(self) -> None:
        self._by_request: dict[str, Wait] = {}
        self._tenants: Counter[str] = Counter()

    def begin(self, tenant: str, request: Post) -> asyncio.Future[Post]:
        """Wait for the answer to a request that is about to be committed; `CircularWait` names the agents."""
        answer: asyncio.Future[Post] = asyncio.get_running_loop().create_future()
        begun = self._by_request.get(request.id)
        if begun is not None:
            begun.answers.add(answer)
            return answer
        others = request.recipients or ()
        cycle = self._cycle(tenant, request.sender, others)
        if cycle:
            path = " -> ".join(cycle)
            text = f"{path}: these agents would wait for each other"
            if set(cycle) == {request.sender}:
                text = f"{request.sender} asks itself, and would wait for its own answer"
            raise CircularWait(text, facts={"agents": cycle})
        self._by_request[request.id] = Wait(tenant, request.sender, others, request.channel_id, {answer})
        self._tenants[tenant] += 1
        return answer

    def end(self, request_id: str, answer: asyncio.Future[Post]) -> None:
        """Stop waiting, with or without an answer."""
        answer.cancel()
        wait = self._by_request.get(request_id)
        if wait is not None:
            wait.answers.discard(answer)
            if not wait.answers:
                del self._by_request[request_id]
                self._tenants[wait.tenant] -= 1
                if not self._tenants[wait.tenant]:
                    del self._tenants[wait.tenant]

    def has_waits(self, tenant: str) -> bool:
        """Whether an agent of a tenant waits for an answer."""
        return tenant in self._tenants

    def fail(self, error: ParleyError) -> None:
        """End every wait with this error: the store cannot be reached."""
        for wait in self._by_request.values():
            wait.resolve(error)

    def publish(self, tenant: str, committed: Committed) -> None:
        """End the waits that a commit answers, and those that nobody can answer any more."""
        if not self._by_request:
            return
        for post in committed.posts:
            request_wait = self._by_request.get(post.id)
            if request_wait is not None:  # committed, or somebody holds the role by now
                self._by_request[post.id] = request_wait._replace(others=post.recipients or ())
            wait = self._by_request.get(post.in_reply_to)
            if wait is not None and wait.tenant == tenant and post.pattern is Pattern.RESPONSE and not post.partial:
                wait.resolve(post)
        for record in committed.puts:
            if isinstance(record, RequestState):
                self._take_state(tenant, record)
            elif isinstance(record, Key | Suspensions):
                # A key lies outside of all tenants.
                self._recheck(record.owner if isinstance(record, Key) else tenant)
        if committed.missed:
            self._fail_tenant(tenant)
        if committed.ended or committed.departed:
            for request_id, wait in list(self._by_request.items()):
                if wait.tenant == tenant:
                    self._end_hopeless(request_id, wait, committed)

    def _recheck(self, tenant: str) -> None:
        for wait in self._by_request.values():
            if wait.tenant == tenant:
                wait.resolve(RightsChanged())

    def _take_state(self, tenant: str, state: RequestState) -> None:
        """End the wait for a withdrawn request; of one that was handed on, others are waited for now."""
        wait = self._by_request.get(state.root or state.id)
        if wait is None or wait.tenant != tenant:
            return
        if state.root:
            left = tuple([agent for agent in wait.others if agent not in state.chain])
            self._by_request[state.root] = wait._replace(others=(*left, *state.asked))
        elif state.withdrawn_at:
            wait.resolve(RequestWithdrawn(f"{state.id} was withdrawn"))

    def _fail_tenant(self, tenant: str) -> None:
        """End all waits of a tenant: agents may have left in commits that this server did not get."""
        missed = Unavailable(
            "this server was disconnected from the store for a while", hint="ask again with the same idempotency key"
        )
        for wait in self._by_request.values():
            if wait.tenant == tenant:
                wait.resolve(missed)

    def _end_hopeless(self, request_id: str, wait: Wait, committed: Committed) -> None:
        """End a wait in a closed channel, and one for agents that have all left."""
        left = tuple(agent for agent in wait.others if agent not in committed.departed)
        self._by_request[request_id] = wait._replace(others=left)
        hopeless = wait.channel_id in committed.ended or (wait.others and not left) or wait.agent in committed.departed
        if hopeless:
            wait.resolve(MessageExpired("the channel was closed or who was asked has left"))

    def _cycle(self, tenant: str, agent: str, others: tuple[str, ...]) -> list[str]:
        """The cycle of agents that a wait for `others` would make, from `agent` back to itself; empty for none.

        A wait for a role ends with any of its holders, so there is a cycle only if all of them wait for `agent`.
        """
        if not others:
            return []
        paths = self._paths_to(tenant, agent)
        if not paths.keys() >= {*others}:
            return []
        return [agent, *paths[min(others, key=lambda other: len(paths[other]))]]

    def _paths_to(self, tenant: str, target: str) -> dict[str, list[str]]:
        """Every agent that waits for `target`, directly or through others, with its path.

        A breadth-first search: each wait is visited once for each of its agents, so the cost stays linear.
        """
        waiting: dict[str, list[tuple[str, set[str]]]] = {}
        for wait in self._by_request.values():
            if wait.tenant == tenant and wait.others:
                left = {*wait.others}
                for other in left:
                    waiting.setdefault(other, []).append((wait.agent, left))
        paths = {target: [target]}
        reached = [target]
        for at in reached:
            for agent, left in waiting.get(at, ()):
                left.discard(at)
                if not left and agent not in paths:
                    paths[agent] = [agent, *paths[at]]
                    reached.append(agent)
        return paths
