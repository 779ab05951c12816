"""A large inbox listed by a new process: time against `oacp inbox`, and memory."""

from __future__ import annotations

from bench.figures import Figure, Goal
from bench.measure import Sample, cpus, walls
from bench.workspace import READER, Bench, fill, oacp, parley

_FASTER = Goal(">=", 20, "x")
_TIME = Goal("<=", 0.4, "s")
_MEMORY = Goal("<", 80, "MB")


def run_10000(bench: Bench) -> list[Figure]:
    return _run(bench, 10_000, ours_times=9, theirs_times=1, goals=True)


def run_1000(bench: Bench) -> list[Figure]:
    return _run(bench, 1_000, ours_times=9, theirs_times=3, goals=False)


def _run(bench: Bench, count: int, *, ours_times: int, theirs_times: int, goals: bool) -> list[Figure]:
    home = bench.home(f"listing-{count}")
    fill(home, count)
    listing, peers = parley("inbox", home, READER), oacp("inbox", home, "--agent", READER)
    _check(bench, listing, f"{count} messages in the inbox")
    # Their turn comes in the middle of ours.
    (before,) = bench.runner.in_turns(bench.repeat(ours_times), listing)
    theirs = [bench.runner.run(peers) for _ in range(theirs_times)]
    (after,) = bench.runner.in_turns(bench.repeat(ours_times), listing)
    ours = before + after
    name = f"list_{count}"
    figures = [Figure(name, f"listing {count:,} messages", "s", walls(ours), walls(theirs))]
    if goals:
        memory = Sample(tuple(run.megabytes for run in ours))
        figures = [
            Figure(name, f"listing {count:,} messages", "s", walls(ours), walls(theirs), _FASTER),
            Figure(name, "  wall time", "s", walls(ours), goal=_TIME),
            Figure(name, "  CPU time", "s", cpus(ours), cpus(theirs)),
            Figure(name, "  memory", "MB", memory, Sample(tuple(run.megabytes for run in theirs)), _MEMORY),
        ]
    return figures


def _check(bench: Bench, listing: list[str], heading: str) -> None:
    output = bench.runner.output_of(listing)
    if not output.startswith(heading) or "unreadable" in output:
        raise RuntimeError(f"the listing does not show what was written: {output[:200]}")
