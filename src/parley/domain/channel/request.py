"""The life of a request after it is posted, and who may do what in which state.

    open ──> partially answered ──> answered
      │              │
      ├──────────────┼──> withdrawn    by its sender
      └──────────────┴──> expired      at its `expires_at`, or when its channel closes or who was asked leaves

Whoever was asked may hand an open request on: it sends a request of its own, whose answer goes to the first sender.

    alice ── R ──> bob ── F, in place of R ──> carol ── the answer, to R ──> alice

`answered`, `withdrawn` and `expired` are final. Most requests need nothing beside their post. Of the others, a
`RequestState` holds what the post does not say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from parley.domain.errors.team import (
    AlreadyAnswered,
    ForwardLoop,
    MessageExpired,
    NotARequest,
    NotAsker,
    PartialNotAccepted,
    RequestForwarded,
    RequestWithdrawn,
    TooManyParts,
)
from parley.domain.message.message import Pattern
from parley.domain.record import Expect, Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from datetime import timedelta

    from parley.domain.channel.post import Post

# How many partial answers a request may have.
PARTS_MAX = 1_000
# How often a request may be handed on.
FORWARDS_MAX = 8


class RequestPhase(StrEnum):
    """Where a request stands."""

    OPEN = "open"
    PARTIALLY_ANSWERED = "partially_answered"
    FORWARDED = "forwarded"
    ANSWERED = "answered"
    QUESTION = "question"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """An agent has handed a request on, by a request of its own."""

    by: str
    to: str
    request_id: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState(Record):
    """What happened to a request beside being answered. Its id is the request's."""

    kind: ClassVar[str] = "request"

    channel_id: str
    # Who sent the request.
    asker: str
    withdrawn_at: str = ""
    # Of a request that accepts partial answers: how many it has, and whether its answer is there.
    parts: int = 0
    answered: bool = False
    forwards: tuple[Forwarding, ...] = ()
    # Of a request that stands for another: that one, the requests between them, and the agents that handed it on.
    root: str = ""
    path: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    # Of such a request: whom it went to.
    asked: tuple[str, ...] = ()
    # When it can be forgotten; empty: together with its channel.
    forget_at: str = ""
    # The exchange that the request is part of.
    exchange_id: str = ""

    @property
    def parent(self) -> str:
        return self.channel_id

    @property
    def due(self) -> str:
        return self.forget_at

    def forwarded_by(self, agent: str) -> Forwarding | None:
        """How this agent has handed the request on, if it has."""
        return next((forwarding for forwarding in self.forwards if forwarding.by == agent), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMark(Record):
    """Changes with every `RequestState` of one sender in one channel.

    An answer depends on this version, so an answer and a withdrawal that cross cannot both be written. Without a mark
    there is no state to read, so most answers cost no lookup.
    """

    kind: ClassVar[str] = "request_mark"

    channel_id: str
    # The request that changed last.
    request_id: str

    @property
    def parent(self) -> str:
        return self.channel_id


def mark_id(request: Post) -> str:
    """The id of the mark for a request's sender in its channel."""
    return f"{request.channel_id}/{request.sender}"


def expect_no_mark(request: Post) -> Expect:
    """The expectation that no request of this sender in this channel was withdrawn, handed on, or accepts parts."""
    return Expect(RequestMark.kind, mark_id(request), 0)


def expects_no_mark(expect: Expect) -> bool:
    """Whether an expectation is that of `expect_no_mark`."""
    return expect.kind == RequestMark.kind and not expect.version


def new_mark(tenant: str, request: Post) -> RequestMark:
    """The first mark for a request's sender in its channel."""
    return RequestMark(id=mark_id(request), tenant_id=tenant, channel_id=request.channel_id, request_id=request.id)


def new_state(tenant: str, request: Post, retention: timedelta) -> RequestState:
    """The state of a request to which nothing happened yet."""
    forget_at = stamp(from_stamp(request.expires_at) + retention) if request.expires_at else ""
    return RequestState(
        id=request.id,
        tenant_id=tenant,
        channel_id=request.channel_id,
        asker=request.sender,
        forget_at=forget_at,
        exchange_id=request.exchange_id,
    )


def evicted_request(state: RequestState, forward: Post) -> Post:
    """A request that its channel has evicted, without its content: from its state and one that stands for it."""
    by = tuple([forwarding.by for forwarding in state.forwards])
    return forward._replace(
        id=state.id,
        sender=state.asker,
        to=by[0] if by else "",
        recipients=by,
        payload=b"{}",
        metadata=b"{}",
        exchange_id=state.exchange_id,
    )


def phase_of(request: Post, state: RequestState | None, now: str) -> RequestPhase:
    """Where a request stands at this moment."""
    if state is not None and state.withdrawn_at:
        return RequestPhase.WITHDRAWN
    if request.answered:
        return RequestPhase.ANSWERED
    if request.over(now):
        return RequestPhase.EXPIRED
    if state is not None and state.forwards and all(map(state.forwarded_by, request.recipients or ())):
        return RequestPhase.FORWARDED
    return RequestPhase.PARTIALLY_ANSWERED if state is not None and state.parts else RequestPhase.OPEN


def check_not_withdrawn(request: Post, state: RequestState | None) -> None:
    """Refuse what comes after the withdrawal of a request."""
    if state is not None and state.withdrawn_at:
        raise RequestWithdrawn(f"{request.id} was withdrawn by {request.sender}")


def check_not_forwarded(request: Post, state: RequestState | None, agent: str) -> None:
    """Refuse an agent that has handed the request on: it no longer answers it."""
    forwarding = state.forwarded_by(agent) if state is not None and state.forwards else None
    if forwarding is not None:
        raise RequestForwarded(f"{agent} has handed {request.id} on to {forwarding.to}")


def check_chain(asker: str, chain: tuple[str, ...], recipients: tuple[str, ...]) -> None:
    """Refuse to hand a request back to anybody who had it, and to hand it on more often than allowed."""
    back = [agent for agent in recipients if agent == asker or agent in chain]
    path = " -> ".join((asker, *chain, *back))
    if back:
        raise ForwardLoop(f"{path}: {back[0]} had this request before", facts={"agents": [asker, *chain]})
    if len(chain) > FORWARDS_MAX:
        detail = f"{path}: a request is handed on at most {FORWARDS_MAX} times"
        raise ForwardLoop(detail, facts={"agents": [asker, *chain]})


def check_accepts_part(request: Post, state: RequestState | None) -> None:
    """Refuse a partial answer unless the request accepts some, has no answer yet, and does not have too many parts."""
    if not request.partial:
        raise PartialNotAccepted(f"{request.id} accepts no partial answers: send one answer")
    if state is not None and state.answered:
        raise AlreadyAnswered(f"{request.id} is answered already: nothing more can be added")
    if state is not None and state.parts >= PARTS_MAX:
        raise TooManyParts(f"{request.id} has {PARTS_MAX} partial answers already: send the answer")


def with_answer(state: RequestState, answer: Post) -> RequestState:
    """The state of a request that accepts partial answers, after one of them or the answer."""
    return replace(state, parts=state.parts + 1) if answer.partial else replace(state, answered=True)


def check_withdrawable(request: Post, state: RequestState | None, agent: str, now: str) -> None:
    """Refuse a withdrawal unless this agent sent the request, for itself, and it is open."""
    if request.pattern is not Pattern.REQUEST:
        raise NotARequest(f"{request.id} is a {request.pattern.value}; only a request is withdrawn")
    if agent != request.sender:
        raise NotAsker(f"{request.id} was sent by {request.sender}: only its sender withdraws it")
    if state is not None and state.root:
        # Without it nobody could answer the first request any more.
        raise NotAsker(f"{request.id} hands on {state.root}: only whoever asked first withdraws it")
    check_open(request, now)


def check_open(request: Post, now: str) -> None:
    """Refuse a change to a request that is answered or expired."""
    if request.answered:
        raise AlreadyAnswered(f"{request.id} is answered already")
    if request.over(now):
        raise MessageExpired(f"{request.id} has expired")
