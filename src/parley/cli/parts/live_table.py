"""A table that is redrawn in place while other output goes above it."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, TextIO

from parley.cli.output import Screen, terminal_width
from parley.cli.table import table_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley.cli.table import Column

_EVERY_SECONDS = 0.5
_UP_AND_CLEAR = "\x1b[%dA\x1b[J"

# The cells of each row, and its colour.
Rows = tuple[Sequence[Sequence[str]], Sequence[str]]


class LiveTable:
    """A table at the bottom of the terminal; `rows` returns its present rows. Thread-safe."""

    def __init__(self, screen: Screen, columns: Sequence[Column], rows: Callable[[], Rows]) -> None:
        self._screen = screen
        self._columns = columns
        self._rows = rows
        self._out = sys.stdout
        self._lock = threading.RLock()
        self._shown = 0

    def draw(self) -> None:
        """Redraw the table."""
        with self._lock:
            lines = self._lines()
            self._out.write((_UP_AND_CLEAR % self._shown if self._shown else "") + "".join(lines))
            self._out.flush()
            self._shown = len(lines)

    def _lines(self) -> list[str]:
        """The lines of the table, cut to the width of the terminal: with wrapped lines its height would be unknown."""
        rows, colours = self._rows()
        if not rows:
            return []
        texts = table_lines(self._columns, [*zip(*rows, strict=True)], terminal_width() - 1)
        return [self._screen.paint(text, colour) + "\n" for text, colour in zip(texts, ["dim", *colours], strict=True)]

    def above(self, text: str) -> None:
        """Print text above the table."""
        with self._lock:
            if self._shown:
                self._out.write(_UP_AND_CLEAR % self._shown)
                self._shown = 0
            self._out.write(text)
            self.draw()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Redraw the table periodically; other output goes above it, line by line."""
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
    """A stream whose lines are printed above a table."""

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
        """Print a last line without line end."""
        if self._rest:
            self._table.above(self._rest + "\n")
            self._rest = ""


def terminal() -> TextIO | None:
    """The terminal to draw on; None if standard output is not a terminal."""
    return sys.stdout if sys.stdout.isatty() and terminal_width() >= 20 else None
