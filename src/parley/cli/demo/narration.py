"""What the agents of the demo say, as lines on the terminal, and the pace at which they say it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parley.cli.output import Screen, safe, terminal_width
from parley.cli.width import cut
from parley.domain.times import clock_time
from parley.wiring import wall_time

if TYPE_CHECKING:
    from parley.domain.errors.errors import ParleyError
    from parley.wire.api.records.rules import Approval

# Between two messages, so that a person can follow.
PACE_SECONDS = 2.0
_NAMES_WIDTH = 14
_COLOURS = {"held": "yellow", "refused": "red", "approved": "green", "rejected": "red", "answered": "green"}


class Narrator:
    """Prints what happens. A terminal that is gone stops the demo."""

    def __init__(self, stop: asyncio.Event, *, is_silent: bool) -> None:
        self._stop = stop
        self._is_silent = is_silent
        self._screen = Screen(colour=not is_silent)
        # What happened before the links were printed.
        self._opening: list[str] | None = []
        self.pace = 0.0

    def begin(self, lines: list[str]) -> None:
        """Print the beginning, then what happened already; from now on everything as it happens."""
        opening, self._opening = self._opening or [], None
        self.write([*lines, *opening])

    async def pause(self) -> None:
        """Let time pass before the next message."""
        await asyncio.sleep(self.pace)

    def say(self, sender: str, to: str, text: str, state: str = "") -> None:
        """A message, and what became of it when it was not delivered."""
        names = f"{sender} → {to}".ljust(_NAMES_WIDTH)
        self._happen(f"{names}  {safe(text)}", state)

    def decide(self, approval: Approval) -> None:
        """What a person decided about a message that was held."""
        by = f"by {approval.decided_by}" if approval.decided_by else "by nobody in time"
        self._happen(f"{approval.agent} → {approval.to}".ljust(_NAMES_WIDTH), f"{approval.status} {safe(by)}")

    def report(self, error: ParleyError) -> None:
        """Something that could not go on."""
        self._happen(safe(error.message), f"refused: {error.code}")

    def _happen(self, words: str, state: str) -> None:
        if self._is_silent:
            return
        now = datetime.fromtimestamp(wall_time(), UTC)
        room = terminal_width() - len(state) - 12
        line = f"{clock_time(now, now)}  {cut(words, room)}"
        if state:
            line += "  " + self._screen.paint(state, _COLOURS.get(state.partition(" ")[0].rstrip(":"), "yellow"))
        if self._opening is None:
            self.write([line])
        else:
            self._opening.append(line)

    def write(self, lines: list[str]) -> None:
        """Print lines; when nobody can read them any more, stop the demo."""
        try:
            sys.stdout.write("\n".join([*lines, ""]))
            sys.stdout.flush()
        except OSError:
            self._stop.set()
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
