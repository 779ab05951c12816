"""A question and its answer between two connected agents, there and back."""

from __future__ import annotations

import json
import os
import statistics
import time
from http.client import HTTPConnection

from bench.channels.posts import TEXT, of
from bench.channels.processes import AGENT, KEY, load, parley_up, request
from bench.figures import Figure, Goal
from bench.measure import Sample
from bench.workspace import Bench

_GOAL = Goal("<=", 3.0, "ms")
_MISSING_GOAL = Goal("<=", 10.0, "ms")
_ANSWERER = "answerer"
_OTHERS = 1_000


def _missing_seconds(port: int, channel: str) -> float:
    """How long it takes to learn that nobody has the name, there and back; the median of some."""
    body = json.dumps({"sender": AGENT, "to": "anwserer", "payload": {"text": TEXT}, "timeout": 20})
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    connection, taken = HTTPConnection("127.0.0.1", port), []
    for _ in range(20):
        began = time.perf_counter()
        connection.request("POST", f"/api/v1/channels/{channel}/ask", body, headers)
        answer = connection.getresponse()
        refused = json.load(answer)
        taken.append(time.perf_counter() - began)
        if (answer.status, refused["similar"]) != (404, [_ANSWERER]):
            raise RuntimeError(f"{answer.status} {refused}")
    connection.close()
    return statistics.median(taken)


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/asks"
    os.mkdir(home)
    with parley_up(f"{home}/data") as server, load() as clients:
        channel = server.channel("bench")
        server.call("POST", "/agents/register", {"agent_id": _ANSWERER})
        first = server.call("POST", f"/channels/{channel}/messages", {"sender": AGENT, "payload": {}})["id"]
        messages = f"/api/v1/channels/{channel}/messages"
        question = {"sender": AGENT, "to": _ANSWERER, "payload": {"text": TEXT}, "timeout": 20}
        job = {
            "port": server.port,
            "request": request("POST", f"/api/v1/channels/{channel}/ask", question),
            "follow": request("GET", f"/api/v1/agents/{_ANSWERER}/subscribe", agent=_ANSWERER),
            "poll": request("GET", f"{messages}?since={{last}}&to={_ANSWERER}&wait=20", agent=_ANSWERER),
            "reply": request("POST", f"{messages}/{{id}}/reply", {"payload": {"text": TEXT}}, agent=_ANSWERER),
            "since": first,
        }
        streamed, polled = [], []
        for _ in range(bench.repeat(10)):
            streamed.append(clients.do("ask", by="stream", times=100, **job))
            polled.append(clients.do("ask", by="poll", times=100, **job))
        for number in range(_OTHERS):
            server.call("POST", "/agents/register", {"agent_id": f"colleague-{number}"})
        missing = [_missing_seconds(server.port, channel) for _ in range(bench.repeat(10))]
    return [
        Figure("asks", "ask and answer, by stream, p50", "ms", of(streamed, "p50"), goal=_GOAL),
        Figure("asks", "  p99", "ms", of(streamed, "p99")),
        Figure("asks", "ask and answer, by long poll, p50", "ms", of(polled, "p50")),
        Figure(
            "asks", "ask for a missing name among 1000 agents, p50", "ms", Sample(tuple(missing)), goal=_MISSING_GOAL
        ),
    ]
