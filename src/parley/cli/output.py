"""Printing for people: tables, colours, and text made safe for terminals."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from parley.domain.times import age, ago, parse_time
from parley.wire.oacp.format import OacpFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from parley.domain.mailbox.listing import FoundMessage, Item, RefusedFile
    from parley.domain.message.message import Message, Value

# Controls, other line breaks, and characters that reorder or hide text.
_EMOJI = "\u2600-\u27bf\ufe0f\U0001f000-\U0001faff"
_UNSAFE = (
    "(?:[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u2028\u2029\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e01ef]"
    f"|(?<![{_EMOJI}])\u200d|\u200d(?![{_EMOJI}]))"  # a joiner is harmless where it makes one emoji of two
)
PRIORITY_COLOURS = {"P0": "red", "P1": "yellow", "P3": "dim"}
_TIMES = frozenset({"created_at_utc", "expires_at"})
UNLIMITED = 10_000
# Below this many columns, lists leave out what can be missed.
_NARROW = 100
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36", "dim": "2"}


def safe(text: str) -> str:
    """Return `text` on one line, with control characters made visible."""
    return text if text.isprintable() else re.sub(_UNSAFE, _visible, text)


def safe_text(text: str) -> str:
    """Like `safe`, keeping line breaks and tabs."""
    return re.sub(f"(?![\n\t]){_UNSAFE}", _visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")


def json_text(value: object, indent: int | None = None) -> str:
    """Encode `value` as JSON, with control characters escaped."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isascii() and "\x7f" not in text:
        return text
    # Lone surrogates (from file names) cannot be written either; their escape means the same.
    return re.sub(f"(?!\n){_UNSAFE}|[\ud800-\udfff]", lambda match: json.dumps(match[0])[1:-1], text)


def terminal_width() -> int:
    """Return the columns of the terminal; `UNLIMITED` without one."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
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

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour and sys.stdout.isatty()
        # A terminal that cannot show a character must not end the command.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")

    def line(self, text: str = "") -> None:
        sys.stdout.write(text + "\n")

    def fitted_line(self, text: str, colour: str = "") -> None:
        """Print a line that does not wrap: a long one is truncated, but for the end of an id in brackets."""
        columns = terminal_width()
        fits = columns == UNLIMITED or _display_width(text) <= columns
        self.line(self.paint(text if fits else _fit_with_id(text, columns), colour))

    def json(self, value: object, *, compact: bool = False) -> None:
        sys.stdout.write(json_text(value, indent=None if compact else 2) + "\n")

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self._colour and colour else text

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> None:
        """Print aligned columns; the last one gets the rest of the terminal's width."""
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)][:-1]
        columns = terminal_width()
        room = max(20, columns - sum(widths) - 2 * len(widths))
        if columns != UNLIMITED:
            rows = [
                (*row[:-1], row[-1] if _display_width(row[-1]) <= room else _fit_with_id(row[-1], room)) for row in rows
            ]
        form = "".join(f"%-{width}s  " for width in widths) + "%s"  # twice as fast as str.format
        lines = [self.paint(form % tuple(heads), "dim"), *[form % tuple(row) for row in rows]]
        if self._colour and colours:
            lines[1:] = [self.paint(line, colour) for line, colour in zip(lines[1:], colours, strict=True)]
        sys.stdout.write("\n".join(lines) + "\n")


def _fit_with_id(text: str, room: int) -> str:
    """Truncate `text` to `room` columns; the end of an id such as `[msg-...-a8f3]` stays, since commands accept it."""
    subject, bracket, name = text.rpartition("  [")
    ending = f"  […{name.rpartition('-')[2]}" if bracket and name.endswith("]") else ""
    if not ending or len(ending) >= room:
        return _truncate(text, room)
    return _truncate(subject, room - len(ending)) + ending


def _display_width(text: str) -> int:
    """Columns that `text` takes on a terminal: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        2 if east_asian_width(character) in "WF" else category(character) not in ("Mn", "Me", "Cf")
        for character in text
    )


def _truncate(text: str, room: int) -> str:
    if _display_width(text) <= room:
        return text
    while text and _display_width(text) > room - 1:
        text = text[:-1]
    return text + "…"


def show_items(
    screen: Screen, items: Sequence[Item], now: str, *, sent: bool = False, inboxes: Sequence[str] = ()
) -> None:
    """Print a list of messages as a table; for sent messages with recipients instead of senders.

    For a list over several mailboxes, `inboxes` names the one of each item, which stands in place of a number.
    """
    moment = parse_time(now)
    firsts = inboxes or [str(number) for number in range(1, len(items) + 1)]
    rows: list[tuple[str, ...]] = []
    colours = []
    for first, item in zip(firsts, items, strict=True):
        # Unpacked at once: looking up each field takes as long as everything else here.
        id_, sender, to, kind, priority, created, subject, _, _, _, file, status, expired, problem, doubts = item
        if problem:
            rows.append((first, "-", "-", "-", "-", status, safe(f"{file}  {problem}")))
            colours.append("red")
            continue
        old = age(parse_time(created), moment)
        who = ",".join(to) if sent else sender
        shown = "expired" if expired else "doubtful" if doubts and status == "new" else status
        rows.append((first, priority, kind, who, old, shown, safe(f"{subject}  [{id_}]")))
        colours.append("dim" if expired else PRIORITY_COLOURS.get(priority, ""))
    heads = ["INBOX" if inboxes else "#", "PRI", "TYPE", "TO" if sent else "FROM", "AGE", "STATUS", "SUBJECT [ID]"]
    if terminal_width() < _NARROW:
        # The subject tells messages apart: it gets the room of a number and of a status that says nothing new.
        usual = {row[5] for row in rows} <= {"sent" if sent else "new"}
        dropped = {index for index, drop in ((0, not inboxes), (5, usual)) if drop}
        heads = [head for index, head in enumerate(heads) if index not in dropped]
        rows = [tuple(cell for index, cell in enumerate(row) if index not in dropped) for row in rows]
    screen.table(heads, rows, colours)
    for item in items:
        for doubt in item.doubts:
            screen.line(screen.paint(safe(f"note: [{item.id}] {doubt}"), "yellow"))


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


def _time_note(key: str, text: str, now: datetime) -> str:
    moment = parse_time(text)
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
                text += _time_note(key, text, now)
            screen.line(f"{screen.paint(safe(key) + ':', 'cyan')} {safe(text)}")
    for note in notes:
        screen.line(screen.paint(f"note: {safe(note)}", "yellow"))
    screen.line()
    if isinstance(body, dict):
        from parley.wire.yaml.write import mapping_text

        body = mapping_text(body)
    screen.line(safe_text(str(body)).rstrip("\n"))
