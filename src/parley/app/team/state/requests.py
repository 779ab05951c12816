"""Requests that this process has seen committed: most replies need not read the request they answer from the store."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from parley.domain.channel.post import check_answerable
from parley.domain.channel.request import RequestMark, RequestState, expect_no_mark, mark_id
from parley.domain.directory.callers import ROLE_PREFIXES
from parley.domain.errors.errors import ParleyError
from parley.domain.message.message import Pattern
from parley.domain.record import expecting

if TYPE_CHECKING:
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.record import Expect
    from parley.domain.store.changes import Committed
    from parley.ports.team import TeamStore

_CACHE_SIZE = 10_000
_NO_REQUEST: tuple[str, Post | None] = ("", None)


class RequestCache:
    """Recent requests by id, and the last unanswered one of each agent in each channel."""

    def __init__(self, store: TeamStore) -> None:
        self._store = store
        self._requests: OrderedDict[str, tuple[str, Post]] = OrderedDict()
        self._unanswered: OrderedDict[tuple[str, str, str], Post] = OrderedDict()

    def __len__(self) -> int:
        return max(len(self._requests), len(self._unanswered))

    async def get(self, tenant: str, message_id: str) -> Post | None:
        """A message that may be answered; one from the cache has neither payload nor metadata."""
        cached = self._requests.get(message_id)
        if cached is not None and cached[0] == tenant:
            post = cached[1]
            return post if post.seq > (await self._store.tally(tenant, post.channel_id)).floor else None
        return await self._store.post(tenant, message_id)

    def answerable(self, tenant: str, agent: str, channel_id: str, answer: PostDraft, now: str) -> Post | None:
        """The request that a whole answer of an agent is to, if memory shows that it may be answered; else None.

        That nothing but answers happened to the request is for the commit to check: `expect_no_mark`.
        """
        tenant_of, request = self._requests.get(answer.in_reply_to, _NO_REQUEST)
        if (
            request is None
            or tenant_of != tenant
            or request.channel_id != channel_id
            or request.partial
            or answer.partial
            or answer.lease
            or answer.to not in ("", request.sender)
            or self._store.cached(RequestMark, tenant, mark_id(request)) is not None
        ):
            return None
        tally = self._store.cached_tally(tenant, channel_id)
        if tally is None or request.seq <= tally.floor:
            return None
        try:
            check_answerable(request, agent, now)
        except ParleyError:
            return None  # where it is decided, the refusal is raised
        return request

    async def state(self, tenant: str, request: Post, expects: list[Expect] | None = None) -> RequestState | None:
        """What happened to a request beside its answers; the decision depends on that, by `expects`."""
        mark = await self._store.get(RequestMark, tenant, mark_id(request))
        if expects is not None:
            expects.append(expecting(mark) if mark is not None else expect_no_mark(request))
        return await self._store.get(RequestState, tenant, request.id) if mark is not None else None

    def unanswered(self, tenant: str, channel_id: str, agent: str) -> Post | None:
        """The agent's last request in a channel, until it is answered. Only requests that this process has seen."""
        return self._unanswered.get((tenant, channel_id, agent))

    def publish(self, tenant: str, committed: Committed) -> None:
        """Take a commit into account."""
        for post in committed.posts:
            if post.pattern is Pattern.REQUEST:
                # Content would fill the memory; only recipients and times are needed.
                request = post._replace(payload=b"", metadata=b"")
                if not post.to.startswith(ROLE_PREFIXES):  # its recipients may change, on another server too
                    self._requests[post.id] = (tenant, request)
                self._unanswered[tenant, post.channel_id, post.sender] = request
                if len(self._requests) > _CACHE_SIZE:
                    self._requests.popitem(last=False)
                if len(self._unanswered) > _CACHE_SIZE:
                    self._unanswered.popitem(last=False)
            elif post.pattern is Pattern.RESPONSE and not post.partial:
                answered = self._unanswered.get((tenant, post.channel_id, post.to))
                if answered is not None and answered.id == post.in_reply_to:
                    del self._unanswered[tenant, post.channel_id, post.to]
        for record in committed.puts:
            if isinstance(record, RequestState):
                self._drop(tenant, record)
        if committed.ended or committed.departed or committed.missed:
            self._requests.clear()
            self._unanswered.clear()

    def _drop(self, tenant: str, state: RequestState) -> None:
        """Drop a request that was withdrawn or changed otherwise: the store knows how it is now."""
        self._requests.pop(state.id, None)
        key = (tenant, state.channel_id, state.asker)
        last = self._unanswered.get(key)
        if last is not None and last.id == state.id and state.withdrawn_at:
            del self._unanswered[key]
