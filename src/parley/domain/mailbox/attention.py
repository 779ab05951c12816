"""When a coding agent is told that messages wait, and when it is held back from going idle.

start, prompt   everything that waits, once in a session
tool            what is urgent, and answers to what this agent asked, once in a session
stop            what needs an answer: the agent goes on, if it made progress since the last time

Two of the coding agents have no limit of their own on going on, and the third forgets its own with every tool call. So
an agent goes on only if (a) something waits that needs an answer, (b) this is the first time in its turn, or not all
that it was told about the last time still waits, (c) it went on fewer than 20 times in this turn, and (d) fewer than
`per_hour` times in the last hour, outside of quiet hours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from parley.domain.mailbox.hook_events import Moment
from parley.domain.record import Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, WaitingMessage

CONTINUATIONS_PER_TURN = 20
_HOUR = timedelta(hours=1)


class SessionState(StrEnum):
    """What a session did at its last event that was recorded."""

    IDLE = "idle"
    WORKING = "working"
    ENDED = "ended"


_STATES = {
    Moment.START: SessionState.IDLE,
    Moment.PROMPT: SessionState.WORKING,
    Moment.TOOL: SessionState.WORKING,
    Moment.STOP: SessionState.IDLE,
    Moment.END: SessionState.ENDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession(Record):
    """One session of a coding agent."""

    kind: ClassVar[str] = "session"

    harness: str
    session: str
    # The mark of its process, "" where that is unknown.
    process: str = ""
    cwd: str = ""
    attended: bool = True
    state: SessionState = SessionState.IDLE
    last_event: str = ""
    at: str = ""
    turn: str = ""
    # How often it went on in this turn, and what it was told about the last time.
    continuations: int = 0
    continued_with: tuple[str, ...] = ()
    # When it went on, or was woken, within the last hour.
    continued_at: tuple[str, ...] = ()
    # What it was woken for the last time, and when.
    woken_with: tuple[str, ...] = ()
    woken_at: str = ""

    @property
    def parent(self) -> str:
        """The day of its last event."""
        return self.at[:10]


class AttentionDecision(NamedTuple):
    """The messages to mention, whether the agent must go on for them, and the session as it is after that.

    Without messages nothing is said and nothing is written; `reason` says why an agent was let go.
    """

    messages: tuple[str, ...] = ()
    goes_on: bool = False
    session: AgentSession | None = None
    reason: str = ""


def decide(  # everything that the rule depends on
    event: HookEvent,
    session: AgentSession,
    mentioned: Sequence[WaitingMessage],
    waiting: Collection[str],
    others_continued: Sequence[str],
    limits: AttentionLimits,
    now: datetime,
    local_minute: int,
) -> AttentionDecision:
    """Whether to tell a coding agent what `mentionable` has left. `waiting` is every message that waits, and
    `others_continued` when other sessions of this agent went on.
    """
    session = after_event(session, event, now)
    ids = tuple(message.id for message in mentioned)
    if event.moment is not Moment.STOP or not ids:
        return AttentionDecision(ids, session=session)
    return _decide_stop(event, session, ids, waiting, others_continued, limits, now, local_minute)


def after_event(session: AgentSession, event: HookEvent, now: datetime) -> AgentSession:
    """The session as it is after an event that is recorded."""
    state = _STATES.get(event.moment, session.state)
    cwd = event.cwd or session.cwd
    return replace(session, state=state, cwd=cwd, attended=event.attended, last_event=event.moment.value, at=stamp(now))


def _decide_stop(
    event: HookEvent,
    session: AgentSession,
    ids: tuple[str, ...],
    waiting: Collection[str],
    others_continued: Sequence[str],
    limits: AttentionLimits,
    now: datetime,
    local_minute: int,
) -> AttentionDecision:
    if event.turn != session.turn or (not event.turn and not event.continued):
        session = replace(session, turn=event.turn, continuations=0, continued_with=())
    recent, of_others = last_hour(session.continued_at, now), last_hour(others_continued, now)
    if session.continuations and set(session.continued_with) <= {*waiting}:
        return AttentionDecision(reason="no progress since the last time")
    if session.continuations >= CONTINUATIONS_PER_TURN:
        return AttentionDecision(reason="too often in this turn")
    if len(recent) + len(of_others) >= limits.per_hour:
        return AttentionDecision(reason="too often in this hour")
    if is_quiet(limits.quiet, local_minute):
        return AttentionDecision(reason="quiet hours")
    after = replace(
        session,
        state=SessionState.WORKING,
        continuations=session.continuations + 1,
        continued_with=ids,
        continued_at=(*recent, stamp(now)),
    )
    return AttentionDecision(ids, goes_on=True, session=after)


def last_hour(times: Sequence[str], now: datetime) -> tuple[str, ...]:
    """Those of some stamps that are less than an hour old."""
    return tuple(at for at in times if now - from_stamp(at) < _HOUR)


def is_quiet(quiet: tuple[int, int] | None, minute: int) -> bool:
    """Whether a minute of the day is in the quiet hours."""
    if quiet is None:
        return False
    begin, end = quiet
    return begin <= minute < end if begin <= end else minute >= begin or minute < end
