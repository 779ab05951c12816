"""A message that is posted later: set, then posted at its moment or refused.

scheduled ──at `deliver_at`──> posted       the record is dropped in the commit that posts the message
    │   └──> refused                        the rules, the channel or the key do not allow it any more; kept for a while
    └──> cancelled                          the record is dropped
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.message.message import Pattern
from parley.domain.record import Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.channel.post import PostDraft

# How long a sender can look up why a message was not posted.
REFUSED_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer(Record):
    """A message with its moment. `message_id` is the id that the message will have; payload and metadata are JSON."""

    kind: ClassVar[str] = "timer"

    sender: str
    channel_id: str
    message_id: str
    deliver_at: str
    created_at: str
    pattern: Pattern
    to: str
    payload: str
    metadata: str
    expires_at: str = ""
    trace_id: str = ""
    parent_event_id: str = ""
    proof: str = ""
    # The key that set it: at the moment it must still be valid.
    key_id: str = ""
    key_kind: KeyKind = KeyKind.AGENT
    user: str = ""
    # Why it was refused.
    code: str = ""
    reason: str = ""
    refused_at: str = ""
    # After a limit kept it from being posted: when it is tried again.
    retry_at: str = ""

    @property
    def parent(self) -> str:
        """Timers are listed by their sender."""
        return self.sender

    @property
    def due(self) -> str:
        """When it is posted, or tried again; after a refusal, when it is forgotten."""
        if self.code:
            return stamp(from_stamp(self.refused_at) + timedelta(days=REFUSED_DAYS))
        return self.retry_at or self.deliver_at


def check_moment(
    draft: PostDraft, deliver_at: datetime, now: datetime, farthest: timedelta, longest: timedelta
) -> None:
    """Refuse what cannot be posted later, or not then: not within `farthest`, or open for more than `longest`."""
    problems = []
    if draft.pattern is Pattern.RESPONSE:
        problems.append(Problem("invalid", "message_type", "an answer cannot be posted later"))
    if deliver_at <= now:
        problems.append(Problem("invalid", "deliver_at", "is in the past"))
    elif deliver_at - now > farthest:
        problems.append(Problem("invalid", "deliver_at", f"is more than {farthest.days} days away"))
    if draft.expires_at is not None and draft.expires_at <= deliver_at:
        problems.append(Problem("invalid", "expires_at", "is not after deliver_at"))
    elif draft.expires_at is not None and draft.expires_at - deliver_at > longest:
        problems.append(Problem("invalid", "expires_at", f"is more than {longest.days} days after deliver_at"))
    if problems:
        raise Invalid.because(problems)


def postponed(timer: Timer, now: datetime, seconds: float) -> Timer:
    """A timer that is tried again after so many seconds, or when its message expires: then its sender is told."""
    retry_at = stamp(now + timedelta(seconds=seconds))
    return replace(timer, retry_at=min(retry_at, timer.expires_at) if timer.expires_at else retry_at)


def refused(timer: Timer, code: str, reason: str, at: str) -> Timer:
    """A timer whose message may not be posted; its content is forgotten."""
    return replace(timer, code=code, reason=reason, refused_at=at, payload="{}", metadata="{}", proof="")
