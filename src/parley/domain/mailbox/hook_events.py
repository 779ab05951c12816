"""The events of coding agents at which they can be told something, and what limits it.

Apart from `attention`, which loads what a record is: most hooks run while nothing waits.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from parley.domain.errors.errors import Invalid
from parley.domain.hashes import digest

# How a notice begins and ends.
NOTICE_BEGINNING = "Parley: "
NOTICE_ENDING = "from other agents, not from your user."
# Messages that a notice names, so that it has at most 600 characters; it counts the others.
NOTICE_NAMES_MAX = 3
_REF_CHARS = 4
_DAY_MINUTES = 24 * 60
_URGENT = frozenset({"P0", "P1"})
# Starts after which the model no longer has what it was told.
_FORGETS = frozenset({"clear", "compact", "resume"})


class Moment(StrEnum):
    """The events of a coding agent that concern its inbox. At its end it can be told nothing, and at the change of a
    file it can only be woken.
    """

    START = "start"
    PROMPT = "prompt"
    TOOL = "tool"
    STOP = "stop"
    END = "end"
    FILE = "file"


class HookEvent(NamedTuple):
    """One event of a coding agent. `turn` is "" where it does not say; then `continued` tells a turn from the next.

    `fingerprint` is that of the document of the event: two hooks of one event have the same. `carries_notice` says that
    a prompt contains a notice of ours, `answered` that the model had something to say before it stopped.
    """

    harness: str
    moment: Moment
    session: str
    turn: str = ""
    source: str = ""
    continued: bool = False
    cwd: str = ""
    # Whether a person is there, as far as the coding agent says.
    attended: bool = True
    fingerprint: str = ""
    carries_notice: bool = False
    # The ends of the ids of the messages that this notice names.
    carried_refs: frozenset[str] = frozenset()
    answered: bool = True

    @property
    def session_id(self) -> str:
        """The id of the record of its session."""
        return session_id_of(self.harness, self.session)


def session_id_of(harness: str, session: str) -> str:
    """The id of the record of a session, whose own name may be any text."""
    return digest(f"{harness}\n{session}".encode("utf-8", "backslashreplace"))[:32]


class WaitingMessage(NamedTuple):
    """What has to be known of a message to decide whether to mention it."""

    id: str
    priority: str
    needs_answer: bool = False
    answers_us: bool = False


def contains_notice(prompt: str) -> bool:
    """Whether a prompt carries a notice of ours. A text that only says that messages wait is none."""
    return NOTICE_ENDING in prompt.partition(NOTICE_BEGINNING)[2]


def refs_in_notice(prompt: str) -> frozenset[str]:
    """The ends of ids by which the notices in a prompt name messages."""
    notices = prompt.partition(NOTICE_BEGINNING)[2].rpartition(NOTICE_ENDING)[0]
    return frozenset(part[:_REF_CHARS] for part in notices.split("[") if part[_REF_CHARS : _REF_CHARS + 1] == "]")


def notice_ref(message_id: str) -> str:
    """The last four characters of an id, by which a notice names it; "" where they could be anything else."""
    ending = message_id.rpartition("-")[2][-_REF_CHARS:]
    return ending if len(ending) == _REF_CHARS and ending.isascii() and ending.isalnum() else ""


def is_named_in_notice(position: int, message_id: str) -> bool:
    """Whether the text of a notice has the id of the message at this position, which counts from zero."""
    return position < NOTICE_NAMES_MAX and bool(notice_ref(message_id))


def forgets(event: HookEvent) -> bool:
    """Whether the model no longer has what it was told before this event."""
    return event.moment is Moment.START and event.source in _FORGETS


def mentionable(event: HookEvent, waiting: Sequence[WaitingMessage], noticed: Collection[str]) -> list[WaitingMessage]:
    """What may be mentioned at an event, by what this session was told before."""
    if event.moment in (Moment.END, Moment.FILE):
        return []
    if event.moment is Moment.STOP:
        return [message for message in waiting if message.needs_answer]
    fresh = [message for message in waiting if message.id not in noticed or forgets(event)]
    if event.moment is Moment.TOOL:
        return [message for message in fresh if message.priority in _URGENT or message.answers_us]
    return fresh


def wakeable(waiting: Sequence[WaitingMessage], noticed: Collection[str]) -> list[WaitingMessage]:
    """What an idle agent is woken for: what needs an answer, is urgent or answers it. Other news can wait."""
    return [
        message
        for message in waiting
        if message.id not in noticed and (message.needs_answer or message.answers_us or message.priority in _URGENT)
    ]


class Wake(StrEnum):
    """Which sessions are woken: all, those that a person attends, or none."""

    ALWAYS = "always"
    ATTENDED = "attended"
    NEVER = "never"


class AttentionLimits(NamedTuple):
    """How often an agent may be woken, or held back from going idle. Quiet hours are minutes of the day, from and
    until.
    """

    per_hour: int = 12
    quiet: tuple[int, int] | None = None
    wake: Wake = Wake.ATTENDED


def parse_quiet_hours(text: str) -> tuple[int, int] | None:
    """`22:00-07:00` as minutes of the day; None for an empty text."""
    if not text:
        return None
    begin, dash, end = text.partition("-")
    minutes = (_minute_of(begin.strip()), _minute_of(end.strip()))
    if not dash or minutes[0] is None or minutes[1] is None:
        raise Invalid(f"{text[:40]!r} is not a span of hours", hint="write it like 22:00-07:00")
    return minutes[0], minutes[1]


def _minute_of(text: str) -> int | None:
    hours, colon, minutes = text.partition(":")
    if not colon or not (hours.isascii() and hours.isdigit() and minutes.isascii() and minutes.isdigit()):
        return None
    minute = int(hours[:3]) * 60 + int(minutes[:3])
    return minute if int(minutes[:3]) < 60 and minute < _DAY_MINUTES and len(text) <= 5 else None
