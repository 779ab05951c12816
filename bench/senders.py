"""For information: four processes that send to one inbox at the same time, as four agents."""

from __future__ import annotations

import time
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bench.figures import Figure
from bench.measure import Sample
from bench.workspace import PROJECT, READER, SENDERS, Bench, agent_folder
from parley import Mailbox


def run(bench: Bench) -> list[Figure]:
    each, rates = (10 if bench.quick else 50), []
    for turn in range(2 if bench.quick else 3):
        home = bench.home(f"senders-{turn}")
        rates.append(_rate(home, each))
        arrived = len(list(Path(agent_folder(home, READER, "inbox")).glob("*.yaml")))
        if arrived != each * len(SENDERS):
            raise RuntimeError(f"{arrived} messages arrived, not {each * len(SENDERS)}")
    return [Figure("senders", "four senders together, durable", "/s", Sample(tuple(rates)))]


def _rate(home: str, each: int) -> float:
    context = get_context("spawn")
    ready = context.Barrier(len(SENDERS) + 1)
    processes = [context.Process(target=_send, args=(home, agent, each, ready)) for agent in SENDERS]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    for process in processes:
        process.join()
    return each * len(SENDERS) / (time.perf_counter() - began)


def _send(home: str, agent: str, each: int, ready: Barrier) -> None:
    with Mailbox(PROJECT, agent=agent, home=home) as mailbox:
        ready.wait()
        for number in range(each):
            mailbox.send(READER, "notification", f"Part {number}", "Four of us write to one inbox.")
