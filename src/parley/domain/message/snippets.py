"""The words of a message in brief, for lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.message.message import texts_in

if TYPE_CHECKING:
    from parley.domain.message.message import Message

_BEFORE = 20


def snippet(message: Message, text: str, length: int = 70) -> str:
    """A line of the body around the first place that contains `text` in any case; else its first line."""
    lines = [line for part in texts_in(message.body) for line in map(_one_line, part.splitlines()) if line]
    wanted = text.casefold()
    line = next((line for line in lines if wanted in line.casefold()), lines[0] if lines else "")
    start = max(0, line.casefold().find(wanted) - _BEFORE)
    if len(line) <= length:
        return line
    start = min(start, len(line) - length)
    cut = line[start : start + length]
    return f"{'…' if start else ''}{cut}{'…' if start + length < len(line) else ''}"


def _one_line(line: str) -> str:
    return " ".join(line.split())
