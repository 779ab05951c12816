"""A line on the terminal that says what a command waits for, and for how long; nothing in a pipe."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.cli.output import safe
from parley.cli.width import cut

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_EVERY_SECONDS = 0.1
# An answer that comes sooner needs no line.
_FIRST_SECONDS = 0.4
_CLEAR = "\r\x1b[K"


class WaitingLine:
    """A line with a spinner on standard error, drawn by a thread of its own."""

    def __init__(self, text: str) -> None:
        self._text = safe(text)
        self._lock = threading.Lock()
        self._shown = False

    @contextmanager
    def running(self) -> Iterator[WaitingLine]:
        """Draw the line until the context ends."""
        if sys.stderr is None or not sys.stderr.isatty():
            yield self
            return
        ended = threading.Event()
        drawing = threading.Thread(target=self._draw, args=(ended,), name="parley-waiting", daemon=True)
        drawing.start()
        try:
            yield self
        finally:
            ended.set()
            drawing.join()
            with self.hidden():
                pass

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the line away for other output; it comes back by itself."""
        with self._lock:
            if self._shown:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()
                self._shown = False
            yield

    def _draw(self, ended: threading.Event) -> None:
        import os

        from parley.wiring import monotonic

        began = monotonic()
        wait = _FIRST_SECONDS
        while not ended.wait(wait):
            wait = _EVERY_SECONDS
            seconds = monotonic() - began
            try:
                width = os.get_terminal_size(sys.stderr.fileno()).columns
            except (OSError, ValueError):
                width = 80
            line = f"{_FRAMES[int(seconds / _EVERY_SECONDS) % len(_FRAMES)]} {self._text} {seconds:.0f}s"
            with self._lock:
                if not ended.is_set():
                    sys.stderr.write(_CLEAR + cut(line, max(1, width - 1)))
                    sys.stderr.flush()
                    self._shown = True


def waiting_for(text: str) -> WaitingLine:
    """The line of a command that waits."""
    return WaitingLine(f"waiting for {text}")
