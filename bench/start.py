"""For context: what starting Python itself takes, which no command can get below."""

from __future__ import annotations

import sys

from bench.figures import Figure
from bench.measure import walls
from bench.workspace import Bench


def run(bench: Bench) -> list[Figure]:
    (runs,) = bench.runner.in_turns(bench.repeat(20), [sys.executable, "-c", "pass"])
    return [Figure("start", "bare interpreter, start to end", "ms", walls(runs))]
