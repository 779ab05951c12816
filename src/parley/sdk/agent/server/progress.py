"""How far an agent has come in its stream, when it deals with several things at once; pure.

A bookmark is the highest place that was taken, and the places up to it that are still being dealt with. After a restart
the stream begins before the first of those, and everything else up to the bookmark is left out.
"""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """Everything up to `position` is dealt with, except what is `open`."""

    position: int
    open: tuple[int, ...] = ()

    @property
    def begin(self) -> int:
        """Behind which place the stream has to begin."""
        return min(self.open) - 1 if self.open else self.position


class Progress:
    """The places that were taken and finished since a mark."""

    def __init__(self, mark: Mark) -> None:
        self._position = mark.position
        self._open = set(mark.open)
        # Whether something was finished that no mark says yet; what was only begun needs none.
        self.unsaved = False

    def is_open(self, position: int) -> bool:
        """Whether what stands at this place still has to be dealt with."""
        return position > self._position or position in self._open

    def start(self, position: int) -> None:
        """It is being dealt with now."""
        self._position = max(self._position, position)
        self._open.add(position)

    def finish(self, position: int) -> None:
        """It is dealt with."""
        self._open.discard(position)
        self.unsaved = True

    def mark(self) -> Mark:
        """Where it stands now; from here on there is no news."""
        self.unsaved = False
        return Mark(self._position, tuple(sorted(self._open)))
