"""Signals that end a process which waits: at once while it sleeps, else when it is done with what it does.

An exception out of a signal handler could come between any two steps, and leave one of them half done.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class Stopped(BaseException):
    """A signal asked to stop. Not an `Exception`: nothing on the way handles it."""


class StopSignals:
    """Remembers that a signal has come, and raises `Stopped` where that is safe."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._has_come = False
        self._is_asleep = False
        for number in numbers:
            signal.signal(number, self._handle)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self._has_come = True
        if self._is_asleep:
            raise Stopped

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self._has_come:
            raise Stopped

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """While it lasts a signal raises `Stopped` at once: only around something that may be left at any step."""
        self._is_asleep = True
        try:
            self.check()
            yield
        finally:
            self._is_asleep = False
