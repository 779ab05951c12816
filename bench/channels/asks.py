"""A question and its answer between two connected agents, there and back."""

from __future__ import annotations

import os

from bench.channels.posts import TEXT, of
from bench.channels.processes import AGENT, load, parley_up, request
from bench.figures import Figure, Goal
from bench.workspace import Bench

_GOAL = Goal("<=", 5.0, "ms")
_ANSWERER = "answerer"


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/asks"
    os.mkdir(home)
    with parley_up(f"{home}/data") as server, load() as clients:
        channel = server.channel("bench")
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
    return [
        Figure("asks", "ask and answer, by stream, p50", "ms", of(streamed, "p50"), goal=_GOAL),
        Figure("asks", "  p99", "ms", of(streamed, "p99")),
        Figure("asks", "ask and answer, by long poll, p50", "ms", of(polled, "p50")),
    ]
