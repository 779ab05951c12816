"""From the start of the process until the server says that it is ready, with data in its directory."""

from __future__ import annotations

import os
import time

from bench.channels.processes import parley_up, reference
from bench.figures import Figure, Goal
from bench.measure import Sample
from bench.workspace import Bench

_GOAL = Goal("<", 1.0, "s")


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/server-start"
    os.mkdir(home)
    with parley_up(f"{home}/data") as server:
        server.channel("bench")
    ours, theirs = list[float](), list[float]()
    for _ in range(3 if bench.quick else 9):
        began = time.perf_counter()
        with parley_up(f"{home}/data"):
            ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        with reference(home):
            theirs.append(time.perf_counter() - began)
    what = "start of the server until it is ready"
    return [Figure("server_start", what, "s", Sample(tuple(ours)), Sample(tuple(theirs)), _GOAL)]
