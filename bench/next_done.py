"""For information: a reader that works off its inbox, claim and archive durable each time."""

from __future__ import annotations

import time

from bench.figures import Figure
from bench.measure import Sample
from bench.workspace import PROJECT, READER, Bench, fill
from parley import Mailbox

_BLOCKS = 5


def run(bench: Bench) -> list[Figure]:
    home = bench.home("next-done")
    each = 10 if bench.quick else 50
    fill(home, each * _BLOCKS)
    rates = []
    with Mailbox(PROJECT, agent=READER, home=home) as mailbox:
        for _ in range(_BLOCKS):
            began = time.perf_counter()
            for _ in range(each):
                message = mailbox.next()
                if message is None:
                    raise RuntimeError("the inbox ran dry")
                mailbox.done(message.id)
            rates.append(each / (time.perf_counter() - began))
    return [Figure("next_done", "next and done", "/s", Sample(tuple(rates)))]
