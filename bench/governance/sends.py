"""POST of a message under the rules against one without, on one server: what an exchange and its audit log cost.

With 16 connections also against a plain POST to the reference in memory. Then the store alone commits the same rows,
without a server: this is the part of the database.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from bench.channels import posts
from bench.channels.load import CONVERSATION
from bench.channels.posts import TEXT, of
from bench.channels.processes import AGENT, Server, Worker, load, parley_up, reference, request
from bench.figures import PLAIN, REFERENCE, Figure, Goal
from bench.governance.rows import ANSWERER
from bench.measure import Sample
from bench.workspace import Bench

# A budget that the load cannot spend, and the default of three rounds.
POLICY = "agent-to-agent:\n  enabled: true\n  max_rounds: 3\n  pair_budget: 1000000\n"
_WARM = 0.2
# The store alone commits this many in each turn.
_MESSAGES = 3_000
_GOALS = {16: Goal("<=", 1.6, "x")}
# 1.6 times what a plain POST may take: a goal that does not move when plain messages get faster.
_CPU_GOALS = {16: Goal("<=", 176, "us")}
_BESIDE_REFERENCE = (16,)
_CPU = "  CPU time of the server"

Result = dict[str, Any]
Turn = Callable[[int, float], Result]


def run(bench: Bench) -> list[Figure]:
    home, figures = f"{bench.folder}/sends", list[Figure]()
    os.mkdir(home)
    with parley_up(f"{home}/data") as server, reference(home) as peer, load() as clients:
        set_up(server)
        plain, fresh, rounds = [server.channel(name) for name in ("plain", "fresh", "rounds")]
        sides = (
            _posting(clients, server, [post(plain)]),
            _posting(clients, server, [post(fresh, {"exchange_type": "information_query"})]),
            _posting(clients, server, conversation(rounds)),
        )
        beside = _posting(clients, peer, [posts.post(peer.channel("bench"))])
        for connections in (1, 16, 64):
            turns = (*sides, beside) if connections in _BESIDE_REFERENCE else sides
            figures += _figures(connections, _in_turns(bench, connections, turns))
    with Worker("bench.governance.rows", f"{home}/data", plain, fresh) as rows:
        figures.append(_store_alone(bench, rows, 16))
    return figures


def set_up(server: Server) -> None:
    """Two agents of one org unit, and a policy that stops none of what they say."""
    for agent in (AGENT, ANSWERER):
        server.call(
            "POST",
            "/agents/register",
            {"agent_id": agent, "org_unit": "engineering", "user_id": f"{agent}@example.com"},
        )
    server.call("PUT", "/policies/enterprise/default", {"text": POLICY})


def post(channel: str, metadata: dict[str, object] | None = None, sender: str = AGENT, to: str = ANSWERER) -> str:
    body: dict[str, object] = {"to": to, "message_type": "notify", "payload": {"text": TEXT}}
    if metadata:
        body["metadata"] = metadata
    return request("POST", f"/api/v1/channels/{channel}/messages", body, sender)


def conversation(channel: str) -> list[str]:
    """All rounds that an exchange has: to, fro and to again."""
    named: dict[str, object] = {
        "exchange_type": "information_query",
        "conversation_id": CONVERSATION.decode(),
        "classification": "internal",
    }
    there, back = post(channel, named), post(channel, named, ANSWERER, AGENT)
    return [there, back, there]


def _posting(clients: Worker, server: Server, requests: list[str]) -> Turn:
    def turn(connections: int, seconds: float) -> Result:
        before = server.cpu
        result: Result = clients.do(
            "closed_loop", port=server.port, requests=requests, connections=connections, seconds=seconds, warm=_WARM
        )
        return result | {"cpu": (server.cpu - before) / result["all"]}

    return turn


def _in_turns(bench: Bench, connections: int, sides: tuple[Turn, ...]) -> list[list[Result]]:
    results: list[list[Result]] = [[] for _ in sides]
    for turn in range(3 if bench.quick else 9):
        order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
        for number in order:
            results[number].append(sides[number](connections, 0.5 if bench.quick else 1.5))
    return results


def _store_alone(bench: Bench, rows: Worker, commits: int) -> Figure:
    kinds, seconds = ("governed", "plain"), dict[str, list[float]](governed=[], plain=[])
    for turn in range(bench.repeat(9)):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            result = rows.do("commit", kind=kind, connections=commits, messages=_MESSAGES)
            seconds[kind].append(1 / float(result["rate"]))
    ours, theirs = [Sample(tuple(seconds[kind])) for kind in kinds]
    row = f"rows of a governed message, store alone, {commits} at once"
    return Figure("sends", row, "us", ours, theirs, None, False, row, PLAIN)


def _figures(connections: int, results: list[list[Result]]) -> list[Figure]:
    plain, fresh, rounds, *peers = results
    name = "sends"
    with_s = f"{connections} connection{'s' if connections > 1 else ''}"
    goal, cpu_goal = _GOALS.get(connections), _CPU_GOALS.get(connections)
    row = f"governed POST, {with_s}"
    cpu_row = f"{row}: CPU" if goal else ""
    what = f"governed post over a plain one, {with_s}"
    beside_peer = "  governed and durable over a plain one to the reference in memory"
    seconds, plain_seconds = _seconds_each(fresh), _seconds_each(plain)
    figures = [
        Figure(name, what, "us", seconds, plain_seconds, goal, False, row, PLAIN),
        *[Figure(name, beside_peer, "us", seconds, _seconds_each(peer), None, False, row, REFERENCE) for peer in peers],
        Figure(name, "  rate", "/s", of(fresh, "rate"), of(plain, "rate")),
        Figure(name, "  p50", "ms", of(fresh, "p50"), of(plain, "p50"), faster=False),
        Figure(name, "  p99", "ms", of(fresh, "p99"), of(plain, "p99"), faster=False),
        Figure(name, _CPU, "us", of(fresh, "cpu"), of(plain, "cpu"), cpu_goal, False, cpu_row, PLAIN),
    ]
    in_rounds = f"governed POST, three rounds, {with_s}"
    in_summary = in_rounds if goal else ""
    return [
        *figures,
        Figure(name, in_rounds, "us", _seconds_each(rounds), plain_seconds, None, False, in_summary, PLAIN),
        Figure(name, _CPU, "us", of(rounds, "cpu"), of(plain, "cpu"), faster=False),
    ]


def _seconds_each(results: list[Result]) -> Sample:
    """Seconds for one message: the inverse of the rate."""
    return Sample(tuple(1 / float(result["rate"]) for result in results))
