"""Messages between two, and a third agent that follows its stream from the beginning: what that costs others."""

from __future__ import annotations

import os

from bench.channels.posts import TEXT, Result, of, post
from bench.channels.processes import AGENT, Server, Worker, load, parley_up, request
from bench.figures import ALONE, Figure, Goal
from bench.workspace import Bench

_GOAL = Goal("<=", 1.2, "x")
_ROW = "durable POST beside a stream over hidden messages: p50"
_BATCH = 100
_THIRD = "third"


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/hidden"
    os.mkdir(home)
    count = 20_000 if bench.quick else 100_000
    with parley_up(f"{home}/data") as server, load() as clients:
        busy, calm = server.channel("busy", max_messages=200_000), server.channel("calm")
        _fill(clients, server, busy, count)
        job = {"port": server.port, "request": post(calm), "times": 200}
        follow = request("GET", f"/api/v1/agents/{_THIRD}/subscribe?last_event_id=0", agent=_THIRD)
        clients.do("beside_streams", follow=follow, **job)
        beside, alone = list[Result](), list[Result]()
        for turn in range(bench.repeat(10)):
            for streams in (True, False) if turn % 2 == 0 else (False, True):
                result = clients.do("beside_streams", follow=follow if streams else "", **job)
                (beside if streams else alone).append(result)
    what = f"post beside a stream from 0 over {count:,} hidden messages, p50, over alone"
    return [
        Figure("hidden", what, "ms", of(beside, "p50"), of(alone, "p50"), _GOAL, False, _ROW, ALONE),
        Figure("hidden", "  one such stream until it has caught up", "ms", of(beside, "stream")),
    ]


def _fill(clients: Worker, server: Server, channel: str, count: int) -> None:
    body = {"messages": [{"sender": AGENT, "to": "second", "payload": {"text": TEXT}}] * _BATCH}
    fill = request("POST", f"/api/v1/channels/{channel}/batch", body)
    clients.do("in_order", port=server.port, request=fill, times=count // _BATCH)
