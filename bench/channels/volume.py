"""Many messages: reading what is new in a long channel, and memory."""

from __future__ import annotations

import os
import time

from bench.channels.posts import TEXT, of
from bench.channels.processes import AGENT, Server, Worker, load, parley_up, request
from bench.figures import Figure, Goal
from bench.measure import Sample
from bench.workspace import Bench

_SAME = Goal("<=", 1.2, "x")
_MEMORY = Goal("<", 100, "MB")
_FLAT = Goal("<=", 1.1, "x")
_BATCH = 100


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/volume"
    os.mkdir(home)
    long, most = (20_000, 40_000) if bench.quick else (100_000, 200_000)
    with parley_up(f"{home}/data") as server, load() as clients:
        time.sleep(0.5)
        idle = server.megabytes
        few, many = server.channel("few"), server.channel("many", max_messages=200_000)
        last_of_few = _fill(clients, server, few, 10)
        _fill(clients, server, many, 1_000)
        thousand = server.megabytes
        last_of_many = _fill(clients, server, many, long - 1_000)
        filled = server.megabytes
        sides = [(many, last_of_many), (few, last_of_few)]
        of_many, of_few = _reads(bench, clients, server, sides)
        _fill(clients, server, many, most - long)
        end = server.megabytes
    # Before that many, SQLite's own page caches are not full yet.
    flat = None if bench.quick else _FLAT
    grown = f"memory, {most:,} messages over {long:,}"
    return [
        Figure("volume", f"new in a channel of {long:,} over one of 10", "ms", of_many, of_few, _SAME, False),
        Figure("volume", "memory, idle", "MB", Sample((idle,)), goal=_MEMORY, row="memory of a server at rest"),
        Figure("volume", "memory, 1,000 messages", "MB", Sample((thousand,))),
        Figure("volume", grown, "MB", Sample((end,)), Sample((filled,)), flat, faster=False),
    ]


def _reads(bench: Bench, clients: Worker, server: Server, sides: list[tuple[str, str]]) -> list[Sample]:
    """The median of each block, the two channels in turns."""
    results: list[list[dict[str, float]]] = [[] for _ in sides]
    for turn in range(bench.repeat(20)):
        for number in (0, 1) if turn % 2 == 0 else (1, 0):
            channel, last = sides[number]
            path = f"/api/v1/channels/{channel}/messages?since={last}"
            result = clients.do("in_order", port=server.port, request=request("GET", path), times=100)
            if result["answer"] != "[]":
                raise RuntimeError(f"there is nothing new, but: {result['answer'][:200]}")
            results[number].append(result)
    return [of(result, "p50") for result in results]


def _fill(clients: Worker, server: Server, channel: str, count: int) -> str:
    """So many more messages; the id of the last one."""
    size = min(count, _BATCH)
    body = {"messages": [{"sender": AGENT, "payload": {"text": TEXT}}] * size}
    fill = request("POST", f"/api/v1/channels/{channel}/batch", body)
    answer: str = clients.do("in_order", port=server.port, request=fill, times=count // size)["answer"]
    return answer.rpartition('"id":"')[2].partition('"')[0]
