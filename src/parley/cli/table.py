"""Tables that fit the terminal.

A command declares its columns. On a terminal, columns that say nothing new are left out, and ids are shown by their
shortest ends that tell them apart, which commands accept. When a table is still too wide, long texts are cut first;
then the least important columns are dropped. Without a terminal and without COLUMNS nothing is left out or cut.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.output import UNLIMITED, safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from parley.cli.output import Screen

# The importance of a column that is never dropped.
ALWAYS = 9
_GAP = 2
# As many as `domain.lookup` accepts; it is not imported for every table.
SUFFIX_MIN_CHARS = 4
# Widths down to which a text and any other value are cut before a column is dropped, and after all others are.
_TEXT_MIN, _VALUE_MIN = 24, 20
_TEXT_LEAST, _VALUE_LEAST = 8, 6


class ColumnKind:
    """What a column holds, which decides how it is shortened. No Enum: to make one takes a hundredth of a command."""

    VALUE = "value"
    ID = "id"
    TEXT = "text"
    ALL = (VALUE, ID, TEXT)


class Column:
    """A column: its heading, its cell for a row, and how important it is (1 is dropped first, `ALWAYS` never).

    A column without any value is left out, and where the width is limited one that holds only its `usual` value. With
    `usual=None` it is never left out.
    """

    __slots__ = ("cell", "head", "importance", "kind", "usual")

    def __init__(
        self,
        head: str,
        cell: Callable[[Any], str],
        importance: int = 5,
        kind: str = ColumnKind.VALUE,
        usual: str | None = "",
    ) -> None:
        self.head = head
        self.cell = cell
        self.importance = importance
        self.kind = kind
        self.usual = usual


def id_column(head: str, cell: Callable[[Any], str], importance: int = ALWAYS) -> Column:
    """A column of ids."""
    return Column(head, cell, importance, ColumnKind.ID)


def text_column(head: str, cell: Callable[[Any], str], importance: int = ALWAYS, usual: str | None = "") -> Column:
    """A column of texts, which are cut first."""
    return Column(head, cell, importance, ColumnKind.TEXT, usual)


def show_rows(screen: Screen, columns: Sequence[Column], rows: Sequence[Any], colours: Sequence[str] = ()) -> None:
    """Print a table with a line for each row, and each line in its colour."""
    show_cells(screen, columns, [[*map(column.cell, rows)] for column in columns], colours)


def show_cells(
    screen: Screen, columns: Sequence[Column], cells: Sequence[Sequence[str]], colours: Sequence[str] = ()
) -> None:
    """Print a table whose cells are given, column by column."""
    heading, *lines = table_lines(columns, cells, screen.width())
    if screen.has_colour:
        heading = screen.paint(heading, "dim")
        if colours:
            lines = [screen.paint(line, colour) for line, colour in zip(lines, colours, strict=True)]
    sys.stdout.write("\n".join((heading, *lines)) + "\n")


def table_lines(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table, its heading first. Below `UNLIMITED`, no line takes more than `width` columns."""
    shown = [_Shown(column, texts) for column, texts in zip(columns, cells, strict=True)]
    limited = width < UNLIMITED
    shown = [part for part in shown if not part.can_go(limited=limited)] or shown[:1]
    if limited:
        for part in shown:
            part.shorten_ids()
        shown = _fitted(shown, width)
    *firsts, last = shown
    if all(part.is_ascii for part in shown):
        form = "".join(f"%-{part.width}s{' ' * _GAP}" for part in firsts) + "%s"  # twice as fast as str.format
        rows = zip(*(part.texts() for part in shown), strict=True)
        if all(last.cells):
            return [*map(form.__mod__, rows)]
        return [(form % row).rstrip() for row in rows]
    from parley.cli.width import pad

    padded = [[pad(text, part.width) for text in part.texts()] for part in firsts]
    return [(" " * _GAP).join(row).rstrip() for row in zip(*padded, last.texts(), strict=True)]


class _Shown:
    """A column as it is shown: its safe cells, their natural width and the width that they get."""

    def __init__(self, column: Column, cells: Iterable[str]) -> None:
        self.column = column
        self.cells = [*cells]
        joined = "".join(self.cells)
        if not joined.isprintable():
            self.cells = [safe(cell) for cell in self.cells]
            joined = "".join(self.cells)
        self._measure(joined)

    def _measure(self, joined: str) -> None:
        self.is_ascii = joined.isascii()
        measure: Callable[[str], int] = len
        if not self.is_ascii:
            from parley.cli.width import display_width as measure
        self.natural = max(map(measure, (self.column.head, *self.cells)))
        self.width = self.natural

    def can_go(self, *, limited: bool) -> bool:
        """Whether it says nothing."""
        usual = self.column.usual
        if usual is None or not self.cells:
            return False
        values = {*self.cells}
        return values <= {"", "-"} or (limited and values == {usual})

    def shorten_ids(self) -> None:
        if self.column.kind is ColumnKind.ID:
            self.cells = short_ids(self.cells)
            self._measure("".join(self.cells))

    def texts(self) -> list[str]:
        """The heading and the cells, cut to the width."""
        texts = [self.column.head, *self.cells]
        if self.width >= self.natural:
            return texts
        from parley.cli.width import cut

        return [cut(text, self.width) for text in texts]


def _fitted(shown: list[_Shown], width: int) -> list[_Shown]:
    """The columns that are shown, with widths that fit."""
    while True:
        room = width - _GAP * (len(shown) - 1)
        for part in shown:
            part.width = part.natural
        _shrink(shown, room, {ColumnKind.TEXT: _TEXT_MIN})
        _shrink(shown, room, {ColumnKind.VALUE: _VALUE_MIN})
        if sum(part.width for part in shown) <= room:
            return shown
        least = min(reversed(shown), key=lambda part: part.column.importance)
        if least.column.importance == ALWAYS or len(shown) == 1:
            break
        shown = [part for part in shown if part is not least]
    _shrink(shown, room, {ColumnKind.TEXT: _TEXT_LEAST})
    _shrink(shown, room, {ColumnKind.TEXT: _TEXT_LEAST, ColumnKind.VALUE: _VALUE_LEAST})
    _shrink(shown, room, dict.fromkeys(ColumnKind.ALL, 1))
    return shown


def _shrink(shown: Sequence[_Shown], room: int, floors: dict[str, int]) -> None:
    """Make the widest of some kinds of columns narrower, down to their floors, until all fit into `room`."""
    over = sum(part.width for part in shown) - room
    while over > 0:
        wider = [part for part in shown if part.width > floors.get(part.column.kind, part.width)]
        if not wider:
            return
        widest = max(wider, key=lambda part: part.width)
        others = [part.width for part in wider if part is not widest]
        less = max(1, widest.width - max([floors[widest.column.kind], *others]))
        widest.width -= min(over, less)
        over -= min(over, less)


def short_ids(ids: Sequence[str]) -> list[str]:
    """The shortest ends of ids that tell them apart and that commands accept; an id without such an end stays whole."""
    wholes = {*ids}
    of_server = {name for name in wholes if "_" in name and "-" not in name.partition("@")[0]}
    shorts = {**_server_ends(of_server), **_mailbox_ends(wholes - of_server)}
    return [shorts.get(name, name) for name in ids]


def _server_ends(ids: set[str]) -> dict[str, str]:
    """Ends of one length of ids like `msg_01M7JZ32CNP1XX48V1HCYGV75R`; none for `msg_...@bob` and `msg_...@amy`."""
    by_name: dict[str, list[str]] = {}
    for whole in ids:
        by_name.setdefault(whole.partition("@")[0], []).append(whole)
    bodies = {name: name.rpartition("_")[2] for name in by_name}
    length, longest = SUFFIX_MIN_CHARS, max(map(len, bodies.values()), default=0)
    while length < longest and len({body[-length:] for body in bodies.values()}) < len(bodies):
        length += 1
    return {
        wholes[0]: bodies[name][-length:]
        for name, wholes in by_name.items()
        if len(wholes) == 1 and len(bodies[name]) >= SUFFIX_MIN_CHARS
    }


def _mailbox_ends(ids: set[str]) -> dict[str, str]:
    """Ends of ids like `msg-20260313T1430Z-claude-a8f3`: as many of their parts as it takes."""
    shorts: dict[str, str] = {}
    left, parts = ids, 1
    while left := {name for name in left if name not in shorts and name.count("-") >= parts}:
        ends: dict[str, list[str]] = {}
        for name in left:
            ends.setdefault("-".join(name.rsplit("-", parts)[1:]), []).append(name)
        shorts |= {names[0]: end for end, names in ends.items() if len(names) == 1 and len(end) >= SUFFIX_MIN_CHARS}
        parts += 1
    return shorts
