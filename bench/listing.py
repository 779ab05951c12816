"""A large inbox listed by a new process: time against `oacp inbox`, and memory.

Cold: no process has listed it yet, and every file is read. Warm: an earlier one has kept the headings.
"""

from __future__ import annotations

import time
from pathlib import Path

from bench.figures import OACP, Figure, Goal
from bench.measure import Child, Sample, cpus, walls
from bench.workspace import READER, Bench, agent_folder, fill, oacp, parley

_COLD = Goal(">=", 20, "x")
_WARM = Goal(">=", 60, "x")
_TIME = Goal("<=", 0.4, "s")
_MEMORY = Goal("<", 80, "MB")
# What is younger is not kept.
_SETTLED_SECONDS = 11


def run_10000(bench: Bench) -> list[Figure]:
    return _run(bench, 10_000, ours_times=9, theirs_times=1, goals=True)


def run_1000(bench: Bench) -> list[Figure]:
    return _run(bench, 1_000, ours_times=9, theirs_times=3, goals=False)


def _run(bench: Bench, count: int, *, ours_times: int, theirs_times: int, goals: bool) -> list[Figure]:
    home = bench.home(f"listing-{count}")
    fill(home, count)
    listing, peers = parley("inbox", home, READER), oacp("inbox", home, "--agent", READER)
    time.sleep(_SETTLED_SECONDS)
    _check(bench, listing, f"{count:,} messages in the inbox")
    index = Path(agent_folder(home, READER, ".parley"), "headings-inbox")
    # Their turn comes in the middle of ours.
    cold, warm = _turn(bench, ours_times, listing, index)
    theirs = [bench.runner.run(peers) for _ in range(theirs_times)]
    for runs, more in zip((cold, warm), _turn(bench, ours_times, listing, index), strict=True):
        runs.extend(more)
    name, what = f"list_{count}", f"listing {count:,} messages"
    figures = []
    for runs, kind, goal in ((cold, "cold", _COLD), (warm, "warm", _WARM)):
        row = f"{what}, {kind}" if goals else ""
        figures += [
            Figure(
                name, f"{what}, {kind}", "s", walls(runs), walls(theirs), goal if goals else None, row=row, peer=OACP
            ),
            Figure(name, "  CPU time", "s", cpus(runs), cpus(theirs)),
        ]
    if goals:
        memory = Sample(tuple(run.megabytes for run in cold))
        peers_memory = Sample(tuple(run.megabytes for run in theirs))
        figures += [
            Figure(name, "  wall time, cold", "s", walls(cold), goal=_TIME),
            Figure(name, "  memory, cold", "MB", memory, peers_memory, _MEMORY, row=f"{what}: memory", peer=OACP),
        ]
    return figures


def _turn(bench: Bench, times: int, listing: list[str], index: Path) -> tuple[list[Child], list[Child]]:
    cold, warm = list[Child](), list[Child]()
    for _ in range(bench.repeat(times)):
        index.unlink()
        cold.append(bench.runner.run(listing))
        warm.append(bench.runner.run(listing))
    return cold, warm


def _check(bench: Bench, listing: list[str], heading: str) -> None:
    output = bench.runner.output_of(listing)
    if not output.startswith(heading) or "unreadable" in output:
        raise RuntimeError(f"the listing does not show what was written: {output[:200]}")
