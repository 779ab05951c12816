"""From a POST to the event at a follower of the channel: durable, against a bare ASGI echo and the reference."""

from __future__ import annotations

import os

from bench.channels.posts import TEXT, of, post
from bench.channels.processes import Worker, echo, load, parley_up, reference, request
from bench.figures import Figure, Goal
from bench.measure import Sample
from bench.workspace import Bench

_GOAL = Goal("<=", 2.0, "x")


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/pushes"
    os.mkdir(home)
    with (
        parley_up(f"{home}/data") as ours,
        reference(home) as theirs,
        echo(home) as bare,
        Worker("bench.channels.inserts", home) as inserts,
        load() as clients,
    ):
        sides = [(bare.port, request("POST", "/say", {"payload": {"text": TEXT}}), request("GET", "/listen"))]
        for server in (ours, theirs):
            channel = server.channel("bench")
            sides.append((server.port, post(channel), request("GET", f"/api/v1/subscribe/channels/{channel}")))
        results: list[list[dict[str, float]]] = [[] for _ in sides]
        commits = []
        for turn in range(bench.repeat(15)):
            order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
            for number in order:
                port, said, follow = sides[number]
                results[number].append(clients.do("push", port=port, request=said, follow=follow, times=100))
            commits.append(inserts.do("commits", connections=1, seconds=0.2, warm=0.05))
    by_echo, by_us, by_them = results
    least = Sample(tuple(echoed["p50"] + commit["p50"] for echoed, commit in zip(by_echo, commits, strict=True)))
    return [
        Figure("pushes", "push, p50, over a bare ASGI echo", "ms", of(by_us, "p50"), of(by_echo, "p50"), _GOAL, False),
        Figure("pushes", "  p99", "ms", of(by_us, "p99"), of(by_echo, "p99"), faster=False),
        Figure(
            "pushes", "push, p50, over the echo and one durable commit", "ms", of(by_us, "p50"), least, faster=False
        ),
        Figure(
            "pushes",
            "push, p50, over the reference in memory",
            "ms",
            of(by_us, "p50"),
            of(by_them, "p50"),
            faster=False,
        ),
    ]
