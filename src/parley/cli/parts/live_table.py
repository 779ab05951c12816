"""A table that is redrawn in place while something runs, and lets others print above it."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, TextIO

from parley.cli.output import Screen, safe, terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EVERY_SECONDS = 0.5
_UP_AND_CLEAR = "\x1b[%dA\x1b[J"

# The cells of each row, and its colour.
Rows = tuple[Sequence[Sequence[str]], Sequence[str]]


class LiveTable:
    """Lines at the bottom of the terminal; `rows` says what stands in them now. Any thread may draw or print."""

    def __init__(self, screen: Screen, heads: Sequence[str], rows: Callable[[], Rows]) -> None:
        self._screen = screen
        self._heads = heads
        self._rows = rows
        self._out = sys.stdout
        self._lock = threading.RLock()
        self._shown = 0

    def draw(self) -> None:
        """Show the table as it is now, in place of what it was."""
        with self._lock:
            lines = self._lines()
            self._out.write((_UP_AND_CLEAR % self._shown if self._shown else "") + "".join(lines))
            self._out.flush()
            self._shown = len(lines)

    def _lines(self) -> list[str]:
        """The table, no line of it longer than the terminal is wide: nobody could say how far up it begins."""
        rows, colours = self._rows()
        if not rows:
            return []
        shown = [self._heads, *[[safe(cell) for cell in row] for row in rows]]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        most = terminal_width() - 1
        texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in shown]
        painted = zip(texts, ["dim", *colours], strict=True)
        return [self._screen.paint(text.rstrip()[:most], colour) + "\n" for text, colour in painted]

    def above(self, text: str) -> None:
        """Print something above the table."""
        with self._lock:
            if self._shown:
                self._out.write(_UP_AND_CLEAR % self._shown)
                self._shown = 0
            self._out.write(text)
            self.draw()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Draw again and again; what others print meanwhile goes above it, line by line."""
        ended = threading.Event()

        def redraw() -> None:
            while not ended.wait(_EVERY_SECONDS):
                self.draw()

        drawing = threading.Thread(target=redraw, name="parley-table", daemon=True)
        out, err = _LinesAbove(self), _LinesAbove(self)
        self.draw()
        drawing.start()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                yield
        finally:
            ended.set()
            drawing.join()
            for stream in (out, err):
                stream.end()
            self.draw()


class _LinesAbove(io.TextIOBase):
    """A stream whose lines come out above a table."""

    def __init__(self, table: LiveTable) -> None:
        super().__init__()
        self._table = table
        self._rest = ""
        self._lock = threading.Lock()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            complete, line_end, self._rest = (self._rest + text).rpartition("\n")
        if line_end:
            self._table.above(complete + line_end)
        return len(text)

    def end(self) -> None:
        """What was printed without the end of a line."""
        if self._rest:
            self._table.above(self._rest + "\n")
            self._rest = ""


def terminal() -> TextIO | None:
    """The terminal that a table can be drawn on; None where nobody looks."""
    return sys.stdout if sys.stdout.isatty() and terminal_width() >= 20 else None
