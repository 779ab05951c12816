"""`parley inbox` against `oacp inbox`, ten messages, each time a new process."""

from __future__ import annotations

from bench.figures import OACP, Figure, Goal
from bench.measure import cpus, walls
from bench.workspace import READER, Bench, fill, oacp, parley
from parley import Mailbox

_GOAL = Goal(">=", 2.0, "x")


def run(bench: Bench) -> list[Figure]:
    home = bench.home("cold-inbox")
    fill(home, 10)
    used = bench.home("cold-inbox-used")
    fill(used, 11)
    with Mailbox("demo", agent=READER, home=used) as mailbox:
        message = mailbox.next()
        if message is not None:
            mailbox.done(message.id)
    ours, also_ours, theirs = bench.runner.in_turns(
        bench.repeat(40),
        parley("inbox", home, READER),
        parley("inbox", used, READER),
        oacp("inbox", home, "--agent", READER),
    )
    name, row = "cold_inbox", "cold inbox, 10 messages"
    return [
        Figure(name, "cold inbox, 10 messages", "ms", walls(ours), walls(theirs), _GOAL, row=row, peer=OACP),
        Figure(name, "  CPU time", "ms", cpus(ours), cpus(theirs)),
        Figure(name, "  with a ledger", "ms", walls(also_ours), walls(theirs)),
    ]
