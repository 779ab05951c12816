"""A counter beside a `parley` that runs: see `bench/counted.py`, which fills it."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_PROGRAM = Path(__file__).parent.parent / "counted.py"
_FORM = "3Q"


class Counts(NamedTuple):
    """What was executed: bytecodes of anything in Python, calls of functions of Parley."""

    bytecodes: int
    calls: int


class Counter:
    """Counts what `parley` of a source tree executes while it is switched on."""

    def __init__(self, file: str, source: str) -> None:
        self._file = Path(file)
        self._file.write_bytes(struct.pack(_FORM, 0, 0, 0))
        self.program = [sys.executable, str(_PROGRAM), source, file]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count until the end of this block."""
        self._switch(1)
        try:
            yield
        finally:
            self._switch(0)

    def _switch(self, state: int) -> None:
        # Not the whole file: the other process counts in it.
        with self._file.open("r+b") as file:
            file.write(struct.pack("Q", state))

    @property
    def counts(self) -> Counts:
        """What was counted so far."""
        _, bytecodes, calls = struct.unpack(_FORM, self._file.read_bytes())
        return Counts(bytecodes, calls)
