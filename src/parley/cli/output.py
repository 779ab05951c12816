"""Printing for people: tables, colours, and text made safe for terminals."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from parley.domain.content.visible import UNSAFE
from parley.domain.content.visible import safe as safe  # noqa: PLC0414  # commands take both from here
from parley.domain.content.visible import safe_text as safe_text  # noqa: PLC0414
from parley.domain.times import ago, clock_time, parse_time
from parley.settings import columns, wants_colour
from parley.wire.oacp.format import OacpFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from parley.domain.mailbox.listing import FoundMessage, Item, RefusedFile
    from parley.domain.message.message import Message, Value

PRIORITY_COLOURS = {"P0": "red", "P1": "yellow", "P3": "dim"}
_TIMES = frozenset({"created_at_utc", "expires_at"})
UNLIMITED = 10_000
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36", "dim": "2"}


def json_text(value: object, indent: int | None = None) -> str:
    """Encode `value` as JSON, with control characters escaped."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isascii() and "\x7f" not in text:
        return text
    # Lone surrogates (from file names) cannot be written either; their escape means the same.
    return re.sub(f"(?!\n){UNSAFE}|[\ud800-\udfff]", lambda match: json.dumps(match[0])[1:-1], text)


def terminal_width() -> int:
    """Return the columns of the terminal, or those that COLUMNS names; `UNLIMITED` without both."""
    wanted = columns()
    if wanted:
        return wanted
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or UNLIMITED
    except (OSError, ValueError):
        return UNLIMITED


# How many bad files one line names.
_FILES_NAMED = 3
# What to do when no one may approve: on a server, and in a mailbox.
NO_DECIDER_HINT = "set the agent's person with: parley agent register AGENT --user USER; or set approvers in the policy"
NO_DECIDER_MAILBOX_HINT = "set the agent's user_id in governance.yaml, or approvers in the policy"


def join_with_or(names: Sequence[str], if_none: str) -> str:
    """Join names: `ann, bea or cy`."""
    if len(names) < 2:
        return safe(names[0]) if names else if_none
    return f"{', '.join(map(safe, names[:-1]))} or {safe(names[-1])}"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 message`, `2 messages`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def is_interactive() -> bool:
    """Whether a person at a terminal can answer questions."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str) -> bool:
    """Ask a yes/no question on the terminal; anything but yes is no."""
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Screen:
    """Standard output, with colours on a terminal."""

    def __init__(self, *, colour: bool = True) -> None:
        self._columns = 0
        self.has_colour = colour and wants_colour(is_terminal=sys.stdout.isatty())
        # A terminal that cannot show a character must not end the command.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")

    def width(self) -> int:
        """The columns of the terminal, asked for once."""
        if not self._columns:
            self._columns = terminal_width()
        return self._columns

    def line(self, text: str = "") -> None:
        sys.stdout.write(text + "\n")

    def prose(self, text: str, colour: str = "", indent: str = "  ") -> None:
        """Print a sentence; where the width is limited, in lines of whole words."""
        width = self.width()
        if width == UNLIMITED:
            self.line(self.paint(text, colour))
            return
        from parley.cli.width import wrap

        for line in wrap(text, width, indent):
            self.line(self.paint(line, colour))

    def field(self, label: str, text: str) -> None:
        """Print a value behind its label."""
        sentence, width = f"{label}: {text}", self.width()
        lines = [sentence]
        if width != UNLIMITED:
            from parley.cli.width import wrap

            lines = wrap(sentence, width, "  ")
        lines[0] = self.paint(f"{label}:", "cyan") + lines[0][len(label) + 1 :]
        self.line("\n".join(lines))

    def fitted_line(self, text: str, colour: str = "") -> None:
        """Print a line that does not wrap: a long one is truncated, but for the end of an id in brackets."""
        width = terminal_width()
        from parley.cli.width import display_width

        fits = width == UNLIMITED or display_width(text) <= width
        self.line(self.paint(text if fits else _fit_with_id(text, width), colour))

    def json(self, value: object, *, compact: bool = False) -> None:
        sys.stdout.write(json_text(value, indent=None if compact else 2) + "\n")

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.has_colour and colour else text


# What people call a field, where it is not the field's name in other words.
_LABELS = {
    "conversation_id": "conversation",
    "expires_at": "expires",
    "related_pr": "related pr",
    "related_packet": "related packet",
    "context_keys": "context keys",
    "created_at_utc": "created",
    "parent_message_id": "in reply to",
    "correlation_id": "in reply to",
    "detectedKeywords": "keywords",
    "reply_policy": "replies",
    "policy_version": "policies",
    "exchange_type": "purpose",
    "ocip": "policies",
}
_ENDINGS = (" at", " id")
# Fields of a message that are shown under another name. Fields of other tools keep theirs.
_RENAMED = frozenset(
    {"created_at_utc", "parent_message_id", "conversation_id", "expires_at", "related_pr", "related_packet"}
    | {"context_keys", "ocip"}
)


def label_of(name: str) -> str:
    """The name of a field for people: `exchange` for `exchangeId`, `last message` for `last_message_at`."""
    if name in _LABELS:
        return _LABELS[name]
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", safe(name)).replace("_", " ").lower()
    return next((words.removesuffix(end) for end in _ENDINGS if words.endswith(end)), words)


def _fit_with_id(text: str, room: int) -> str:
    """Truncate `text` to `room` columns; the end of an id such as `[msg-...-a8f3]` stays, since commands accept it."""
    from parley.cli.width import cut

    subject, bracket, name = text.rpartition("  [")
    ending = f"  […{name.rpartition('-')[2]}" if bracket and name.endswith("]") else ""
    if not ending or len(ending) >= room:
        return cut(text, room)
    return cut(subject, room - len(ending)) + ending


def refused_fields(refused: RefusedFile) -> dict[str, Value]:
    """Return a file that is no message as a mapping."""
    return {"file": refused.file, "place": refused.place, "problem": refused.problem}


def names_of(files: Sequence[RefusedFile]) -> str:
    """Name the first files and their problems, and count the others."""
    named = "; ".join(f"{refused.file} ({refused.problem})" for refused in files[:_FILES_NAMED])
    others = len(files) - _FILES_NAMED
    return safe(f"{named}; and {others:,} more" if others > 0 else named)


def item_fields(item: Item) -> dict[str, Value]:
    """Return an item of a list as a mapping with OACP's field names."""
    if item.problem:
        return {"file": item.file, "status": item.status, "problem": item.problem}
    shown: dict[str, Value] = {
        "id": item.id,
        "from": item.sender,
        "to": item.to[0] if len(item.to) == 1 else list(item.to),
        "type": item.kind,
        "priority": item.priority,
        "created_at_utc": item.created_at,
        "subject": item.subject,
        "conversation_id": item.conversation_id or None,
        "parent_message_id": item.in_reply_to or None,
        "expires_at": item.expires_at or None,
        "expired": item.expired,
        "status": item.status,
        "file": item.file,
        "doubts": list(item.doubts),
    }
    return {key: value for key, value in shown.items() if value is not None}


def message_fields(message: Message) -> dict[str, Value]:
    """Return a message as a mapping with OACP's field names, with the label of its author.

    A mailbox belongs to an agent. Only the rules know better, and write the label into the file; any other label there
    is the sender's own.
    """
    from parley.domain.content.disclosure import DISCLOSURE

    fields = OacpFormat().fields(message)
    return fields if "ocip" in fields else {**fields, "disclosure": DISCLOSURE}


def located_message_fields(located: FoundMessage) -> dict[str, Value]:
    """Return a message as a mapping with OACP's field names, with its folder and file."""
    doubts: list[Value] = [str(doubt) for doubt in located.doubts]
    fields = message_fields(located.message)
    return {**fields, "place": located.place, "file": located.file, "doubts": doubts}


def _with_envelope_line(fields: Mapping[str, Value]) -> Mapping[str, Value]:
    """Replace the envelope in the fields by one line."""
    envelope, beside = fields.get("ocip"), fields.get("ocip_ext")
    if not isinstance(envelope, dict):
        return fields
    approval = beside.get("approval") if isinstance(beside, dict) else None
    by = f", approved by {approval.get('by')}" if isinstance(approval, dict) else ""
    line = (
        f"{envelope.get('classification')}, round {envelope.get('exchange_round')} of {envelope.get('max_rounds')}, "
        f"{envelope.get('message_type')}{by}, {envelope.get('reply_policy')}, until {envelope.get('expires_at')}"
    )
    return {key: line if key == "ocip" else value for key, value in fields.items() if key != "ocip_ext"}


def _time_note(key: str, moment: datetime, now: datetime) -> str:
    if key == "expires_at":
        return " (expired)" if moment <= now else ""
    return f" ({ago(moment, now)})"


def show_message(
    screen: Screen, fields: Mapping[str, Value], notes: Iterable[str] = (), now: datetime | None = None
) -> None:
    """Print a message: its fields, an empty line, its body. With `now`, times say how long ago they were."""
    body = fields.get("body", "")
    for key, value in _with_envelope_line(fields).items():
        if key != "body" and value not in (None, "", []):
            text = ", ".join(str(part) for part in value) if isinstance(value, list) else str(value)
            if now is not None and key in _TIMES:
                moment = parse_time(text)
                text = clock_time(moment, now) + _time_note(key, moment, now)
            screen.field(label_of(key) if key in _RENAMED else safe(key), safe(text))
    for note in notes:
        screen.prose(f"note: {safe(note)}", "yellow")
    screen.line()
    if isinstance(body, dict):
        from parley.wire.yaml.write import mapping_text

        body = mapping_text(body)
    screen.line(safe_text(str(body)).rstrip("\n"))
