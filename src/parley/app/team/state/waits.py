"""Who waits for whose answer, and the refusal of an ask that would close a circle."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import ParleyError, Unavailable
from parley.domain.errors.team import CircularWait, MessageExpired

if TYPE_CHECKING:
    from parley.domain.channel.post import Post
    from parley.domain.store.changes import Committed


class Wait(NamedTuple):
    """One agent that holds its breath until one of `others` answers; nobody: until somebody can be asked at all."""

    tenant: str
    agent: str
    others: tuple[str, ...]
    channel_id: str
    # Several only when one asks again for an answer that it already waits for.
    answers: set[asyncio.Future[Post]]

    def settle(self, answer: Post | ParleyError) -> None:
        """Wake all who wait."""
        for waiter in self.answers:
            if waiter.done():
                continue
            if isinstance(answer, ParleyError):
                waiter.set_exception(answer)
                waiter.exception()  # seen: nobody may be there any more to take it
            else:
                waiter.set_result(answer)


class Waits:
    """The asks of this process that are under way."""

    def __init__(self) -> None:
        self._by_request: dict[str, Wait] = {}
        self._tenants: Counter[str] = Counter()

    def begin(self, tenant: str, request: Post) -> asyncio.Future[Post]:
        """Wait for the answer to a request that is about to be committed; `CircularWait` names the circle."""
        answer: asyncio.Future[Post] = asyncio.get_running_loop().create_future()
        begun = self._by_request.get(request.id)
        if begun is not None:
            begun.answers.add(answer)
            return answer
        others = request.recipients or ()
        circle = self._circle(tenant, request.sender, others)
        if circle:
            path = " -> ".join(circle)
            raise CircularWait(f"{path}: these agents would wait for each other", facts={"agents": circle})
        self._by_request[request.id] = Wait(tenant, request.sender, others, request.channel_id, {answer})
        self._tenants[tenant] += 1
        return answer

    def end(self, request_id: str, answer: asyncio.Future[Post]) -> None:
        """Whoever was given this waits no more."""
        answer.cancel()
        wait = self._by_request.get(request_id)
        if wait is not None:
            wait.answers.discard(answer)
            if not wait.answers:
                del self._by_request[request_id]
                self._tenants[wait.tenant] -= 1
                if not self._tenants[wait.tenant]:
                    del self._tenants[wait.tenant]

    def cares(self, tenant: str) -> bool:
        """Whether anybody in a tenant waits for an answer."""
        return tenant in self._tenants

    def lose(self, error: ParleyError) -> None:
        """No answer can be heard any more: everyone's wait ends with this error."""
        for wait in self._by_request.values():
            wait.settle(error)

    def publish(self, tenant: str, committed: Committed) -> None:
        """Wake who was answered, and who waits in vain."""
        if not self._by_request:
            return
        for post in committed.posts:
            request_wait = self._by_request.get(post.id)
            if request_wait is not None:  # committed, or somebody holds the role by now
                self._by_request[post.id] = request_wait._replace(others=post.recipients or ())
            wait = self._by_request.get(post.in_reply_to)
            if wait is not None and wait.tenant == tenant:
                wait.settle(post)
        if committed.missed:
            self._give_up_all(tenant)
        if committed.ended or committed.departed:
            for request_id, wait in list(self._by_request.items()):
                if wait.tenant == tenant:
                    self._give_up(request_id, wait, committed)

    def _give_up_all(self, tenant: str) -> None:
        """Whoever is asked may have left unheard: who still waits has to ask again, and is told then."""
        missed = Unavailable("this server has missed a while", hint="ask again with the same idempotency key")
        for wait in self._by_request.values():
            if wait.tenant == tenant:
                wait.settle(missed)

    def _give_up(self, request_id: str, wait: Wait, committed: Committed) -> None:
        """End the wait in a closed channel, and the one for agents of which none is left."""
        left = tuple(agent for agent in wait.others if agent not in committed.departed)
        self._by_request[request_id] = wait._replace(others=left)
        in_vain = wait.channel_id in committed.ended or (wait.others and not left) or wait.agent in committed.departed
        if in_vain:
            wait.settle(MessageExpired("the channel was closed or who was asked has left"))

    def _circle(self, tenant: str, agent: str, others: tuple[str, ...]) -> list[str]:
        """The circle that would be closed, from `agent` back to itself. Who asks a role waits for any of its holders,
        so a circle is closed only when every one of them waits for us.
        """
        if not others:
            return []
        ways = self._ways_to(tenant, agent)
        if not ways.keys() >= {*others}:
            return []
        return [agent, *ways[min(others, key=lambda other: len(ways[other]))]]

    def _ways_to(self, tenant: str, target: str) -> dict[str, list[str]]:
        """Everyone who cannot go on before `target` does, each with the way there. Each wait is looked at once for each
        of its agents: whoever follows every path instead can be kept busy for ever.
        """
        waiting: dict[str, list[tuple[str, set[str]]]] = {}
        for wait in self._by_request.values():
            if wait.tenant == tenant and wait.others:
                left = {*wait.others}
                for other in left:
                    waiting.setdefault(other, []).append((wait.agent, left))
        ways = {target: [target]}
        reached = [target]
        for at in reached:
            for agent, left in waiting.get(at, ()):
                left.discard(at)
                if not left and agent not in ways:
                    ways[agent] = [agent, *ways[at]]
                    reached.append(agent)
        return ways
