"""When an idle coding agent is woken, and which of its sessions.

One session is woken: the one that was active last. It is woken if (a) its program can be woken and the settings allow
it, (b) it is not in quiet hours, (c) the agent was woken or went on fewer than `per_hour` times in the last hour, and
(d) not all that it was woken for the last time still waits, or that was ten minutes ago: a wake-up can be lost with the
process that got it. New mail alone is no reason, so two agents cannot keep each other awake.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from parley.domain.mailbox.attention import AgentSession, SessionState, is_quiet, last_hour
from parley.domain.mailbox.hook_events import Wake
from parley.domain.record import Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from parley.domain.mailbox.hook_events import AttentionLimits, WaitingMessage

# Coding agents of which an idle session can be woken.
WAKEABLE = frozenset({"claude", "codex", "opencode"})
RING_TRIES = 3
_RING_SECONDS = 60.0
_RETRY_SECONDS = 5.0
_AGAIN = timedelta(minutes=10)
_TURN = timedelta(minutes=2)
# A session whose process is unknown and that was silent for longer is taken for closed.
_SILENCE = timedelta(hours=12)


class WakeDecision(NamedTuple):
    """The messages to wake a session for, and the session after that; without messages, why it is left alone."""

    messages: tuple[str, ...] = ()
    session: AgentSession | None = None
    reason: str = ""


def live_sessions(
    sessions: Iterable[AgentSession], has_ended: Callable[[str], bool], now: datetime
) -> list[AgentSession]:
    """The sessions that have not ended, as far as can be told, the one that was active last first."""
    live = [session for session in sessions if is_live(session, has_ended, now)]
    return sorted(live, key=lambda session: (session.at, session.id), reverse=True)


def is_live(session: AgentSession, has_ended: Callable[[str], bool], now: datetime) -> bool:
    """Whether a session may still be there."""
    if session.state is SessionState.ENDED or not session.at:
        return False
    if session.process:
        return not has_ended(session.process)
    return now - from_stamp(session.at) < _SILENCE


def is_busy(session: AgentSession, now: datetime) -> bool:
    """Whether a session is at work. One that was interrupted does not say that it has stopped."""
    return session.state is SessionState.WORKING and now - from_stamp(session.at) < _TURN


def can_be_woken(session: AgentSession, wake: Wake) -> bool:
    """Whether the settings and its program let a session be woken."""
    if wake is Wake.NEVER or session.harness not in WAKEABLE:
        return False
    return session.attended or wake is Wake.ALWAYS


def decide_wake(
    session: AgentSession,
    messages: Sequence[WaitingMessage],
    waiting: Collection[str],
    others_continued: Sequence[str],
    limits: AttentionLimits,
    now: datetime,
    local_minute: int,
) -> WakeDecision:
    """Whether to wake a session for what `wakeable` has left. `waiting` is every message that waits, and
    `others_continued` when other sessions of this agent went on or were woken.
    """
    if not messages:
        return WakeDecision()
    recent = last_hour(session.continued_at, now)
    if len(recent) + len(last_hour(others_continued, now)) >= limits.per_hour:
        return WakeDecision(reason="too often in this hour")
    if is_quiet(limits.quiet, local_minute):
        return WakeDecision(reason="quiet hours")
    ignored = bool(session.woken_with) and {*session.woken_with} <= {*waiting}
    if ignored and now - from_stamp(session.woken_at) < _AGAIN:
        return WakeDecision(reason="no progress since the last time")
    ids = tuple(message.id for message in messages)
    after = replace(session, continued_at=(*recent, stamp(now)), woken_with=ids, woken_at=stamp(now))
    return WakeDecision(ids, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class RingLease(Record):
    """The right to ring for an agent, and the ring that is under way: without files, none is."""

    kind: ClassVar[str] = "ring"

    # The mark of the process that rings.
    holder: str = ""
    # Until then nobody else rings, and the holder does not try again.
    until: str = ""
    # The session as its program calls it, and the files that it is rung for.
    session: str = ""
    files: tuple[str, ...] = ()
    tries: int = 0


def begin_ring(lease: RingLease, holder: str, session: str, files: tuple[str, ...], now: datetime) -> RingLease:
    """The lease while a session is rung."""
    until = stamp(now + timedelta(seconds=_RING_SECONDS))
    return replace(lease, holder=holder, until=until, session=session, files=files, tries=1)


def is_held(lease: RingLease, has_ended: Callable[[str], bool], now: datetime) -> bool:
    """Whether a ring is under way, or its time to try again has not come."""
    if not lease.files or now >= from_stamp(lease.until):
        return False
    return not (lease.holder and has_ended(lease.holder))


def retry_ring(lease: RingLease, holder: str, now: datetime) -> RingLease | None:
    """The lease of the next try of a ring that failed or whose ringer ended; None when it was tried often enough."""
    if lease.tries >= RING_TRIES:
        return None
    until = stamp(now + timedelta(seconds=_RING_SECONDS))
    return replace(lease, holder=holder, until=until, tries=lease.tries + 1)


def end_ring(lease: RingLease, now: datetime, *, succeeded: bool) -> RingLease:
    """The lease after a try: free, or held until the next one."""
    if succeeded or lease.tries >= RING_TRIES:
        return replace(lease, holder="", until="", session="", files=(), tries=0)
    return replace(lease, until=stamp(now + timedelta(seconds=_RETRY_SECONDS * 6 ** (lease.tries - 1))))
