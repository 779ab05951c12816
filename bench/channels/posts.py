"""POST of a message, durable, against the reference in memory; and how far from what Python and the disk allow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from bench.channels.processes import AGENT, Server, Worker, echo, load, parley_up, reference, request
from bench.figures import COMMITS, ECHO, IN_MEMORY, REFERENCE, Figure, Goal
from bench.measure import Sample
from bench.workspace import Bench

# With its key a payload of 300 bytes.
TEXT = ("The new signing key is in place; the old one stays valid until Friday noon. " * 4)[:289]
_WARM = 0.2
_NO_WORSE = Goal("<=", 1.0, "x")
_GOALS = {16: Goal(">=", 5.0, "x"), 64: Goal(">=", 8.0, "x")}
_CPU = Goal("<=", 110, "us")

Result = dict[str, Any]


def run(bench: Bench) -> list[Figure]:
    home, figures = f"{bench.folder}/posts", list[Figure]()
    os.mkdir(home)
    with (
        parley_up(f"{home}/data") as ours,
        parley_up(home, ephemeral=True) as in_memory,
        reference(home) as theirs,
        echo(home) as bare,
        Worker("bench.channels.inserts", home) as inserts,
        load() as clients,
    ):
        sides = (
            _posting(clients, ours, post(ours.channel("bench"))),
            _posting(clients, in_memory, post(in_memory.channel("bench"))),
            _posting(clients, theirs, post(theirs.channel("bench"))),
            _posting(clients, bare, request("POST", "/echo", _message())),
            lambda connections, seconds: inserts.do("commits", connections=connections, seconds=seconds, warm=_WARM),
        )
        for connections in (1, 16, 64):
            figures += _figures(connections, _in_turns(bench, connections, sides))
    return figures


def _message() -> dict[str, object]:
    return {"sender": AGENT, "message_type": "notify", "payload": {"text": TEXT}}


def post(channel: str) -> str:
    return request("POST", f"/api/v1/channels/{channel}/messages", _message())


def _posting(clients: Worker, server: Server, message: str) -> Callable[[int, float], Result]:
    def turn(connections: int, seconds: float) -> Result:
        before = server.cpu
        result: Result = clients.do(
            "closed_loop", port=server.port, request=message, connections=connections, seconds=seconds, warm=_WARM
        )
        return result | {"cpu": (server.cpu - before) / result["all"]}

    return turn


def _in_turns(bench: Bench, connections: int, sides: tuple[Callable[[int, float], Result], ...]) -> list[list[Result]]:
    results: list[list[Result]] = [[] for _ in sides]
    for turn in range(3 if bench.quick else 7):
        order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
        for number in order:
            results[number].append(sides[number](connections, 0.5 if bench.quick else 1.5))
    return results


def _figures(connections: int, results: list[list[Result]]) -> list[Figure]:
    ours, in_memory, theirs, bare, inserts = results
    name = "posts"
    what = f"post, {connections} connection{'s' if connections > 1 else ''}: durable over reference in memory"
    worse, cpu = (_NO_WORSE, _CPU) if connections in _GOALS else (None, None)
    row = f"durable POST, {connections} connection{'s' if connections > 1 else ''}"
    rate = of(ours, "rate")
    return [
        Figure(name, what, "/s", rate, of(theirs, "rate"), _GOALS.get(connections), row=row, peer=REFERENCE),
        Figure(name, "  p50", "ms", of(ours, "p50"), of(theirs, "p50"), faster=False),
        _no_faster(name, "  p99", "ms", of(ours, "p99"), of(theirs, "p99"), worse, f"{row}: p99"),
        _no_faster(name, "  CPU of the server", "us", of(ours, "cpu"), of(theirs, "cpu"), cpu, f"{row}: CPU"),
        Figure(name, "  over Parley in memory", "/s", rate, of(in_memory, "rate"), row=row, peer=IN_MEMORY),
        Figure(name, "  over a bare ASGI echo", "/s", rate, of(bare, "rate"), row=row, peer=ECHO),
        Figure(name, "  over group-committed inserts alone", "/s", rate, of(inserts, "rate"), row=row, peer=COMMITS),
    ]


def _no_faster(name: str, what: str, unit: str, ours: Sample, theirs: Sample, goal: Goal | None, row: str) -> Figure:
    """A figure of which less is better, as a part of what the reference takes; in the summary if it has a goal."""
    return Figure(name, what, unit, ours, theirs, goal, faster=False, row=row if goal else "", peer=REFERENCE)


def of(results: list[Result], field: str) -> Sample:
    return Sample(tuple(float(result[field]) for result in results))
