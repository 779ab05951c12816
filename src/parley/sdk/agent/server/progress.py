"""The progress of an agent in its stream while it handles several messages at once; pure.

A bookmark is the highest position that was started, and the positions up to it that are still open. After a restart
the stream begins before the first of those, and everything else up to the bookmark is skipped.
"""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """Everything up to `position` is finished, except what is `open`."""

    position: int
    open: tuple[int, ...] = ()

    @property
    def begin(self) -> int:
        """The position after which the stream has to begin."""
        return min(self.open) - 1 if self.open else self.position


class Progress:
    """The positions that were started and finished since a mark."""

    def __init__(self, mark: Mark) -> None:
        self._position = mark.position
        self._open = set(mark.open)
        # Whether something was finished since the last mark; what was only started needs no save.
        self.unsaved = False

    def is_open(self, position: int) -> bool:
        """Whether the event at this position still has to be handled."""
        return position > self._position or position in self._open

    def start(self, position: int) -> None:
        """Mark a position as being handled."""
        self._position = max(self._position, position)
        self._open.add(position)

    def finish(self, position: int) -> None:
        """Mark a position as finished."""
        self._open.discard(position)
        self.unsaved = True

    def mark(self) -> Mark:
        """The current mark; clears `unsaved`."""
        self.unsaved = False
        return Mark(self._position, tuple(sorted(self._open)))
