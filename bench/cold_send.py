"""`parley send`, durable, against `oacp send`, which syncs nothing; each time a new process."""

from __future__ import annotations

from bench.figures import OACP, Figure, Goal
from bench.measure import cpus, walls
from bench.workspace import READER, SENDER, Bench, oacp, parley

_GOAL = Goal(">=", 2.0, "x")
MESSAGE = ("--to", READER, "--type", "question", "--subject", "mTLS or JWT?", "--body", "For internal calls.")


def run(bench: Bench) -> list[Figure]:
    ours, theirs = bench.runner.in_turns(
        bench.repeat(40),
        parley("send", bench.home("cold-send"), SENDER, *MESSAGE),
        oacp("send", bench.home("cold-send-theirs"), "--from", SENDER, *MESSAGE),
    )
    return [
        Figure("cold_send", "cold send", "ms", walls(ours), walls(theirs), _GOAL, row="cold send", peer=OACP),
        Figure("cold_send", "  CPU time", "ms", cpus(ours), cpus(theirs)),
    ]
