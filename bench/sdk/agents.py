"""How many messages one agent in one process deals with: those that waited for it, those that come, and questions.

`python -m bench.sdk.agents NAME COUNT` is the agent.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from bench.channels.posts import TEXT
from bench.channels.processes import AGENT, Server, parley_up
from bench.figures import Figure, Goal
from bench.measure import Sample
from bench.sdk.crew import AgentProcess, say
from bench.workspace import Bench
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.wire.api.records.channels import ChannelMessage

_GOAL = Goal(">=", 1_500.0, "/s")
_MODULE = "bench.sdk.agents"
_BATCH = 100
_COUNT = 3_000


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/agents"
    os.mkdir(home)
    waited, came, ask_times, cpu = list[float](), list[float](), list[float](), list[float]()
    with parley_up(f"{home}/data") as server:
        channel = server.channel("bench", max_messages=1_000_000)
        for turn in range(bench.repeat(10)):
            done = _waiting(server, channel, f"late-{turn}", "notify")
            waited.append(done["rate"])
            cpu.append(done["cpu"] / _COUNT)
            came.append(_coming(server, channel, f"early-{turn}"))
            ask_times.append(_waiting(server, channel, f"asked-{turn}", "request")["rate"])
    return [
        Figure("agents", "notices that waited for an agent", "/s", Sample(tuple(waited)), goal=_GOAL),
        Figure("agents", "  CPU time of the agent for one", "us", Sample(tuple(cpu))),
        Figure("agents", "notices that come while it works", "/s", Sample(tuple(came)), goal=_GOAL),
        Figure("agents", "questions that it answers", "/s", Sample(tuple(ask_times))),
    ]


def _post(server: Server, channel: str, to: str, kind: str) -> None:
    messages = [{"sender": AGENT, "to": to, "message_type": kind, "payload": {"text": TEXT}}] * _BATCH
    for _ in range(_COUNT // _BATCH):
        server.call("POST", f"/channels/{channel}/batch", {"messages": messages})


def _waiting(server: Server, channel: str, name: str, kind: str) -> dict[str, float]:
    """What it does with what was there before it; from the first to the last, as it says itself."""
    _post(server, channel, name, kind)
    with AgentProcess(_MODULE, server.port, name, str(_COUNT)) as agent:
        done: dict[str, float] = agent.read_report()
    return done


def _coming(server: Server, channel: str, name: str) -> float:
    """What it does with what is posted while it works, as fast as one client can."""
    with AgentProcess(_MODULE, server.port, name, str(_COUNT)) as agent:
        server.call("POST", f"/channels/{channel}/messages", {"sender": AGENT, "to": name, "payload": {"hello": 1}})
        agent.read_report()
        _post(server, channel, name, "notify")
        return float(agent.read_report()["rate"])


def _counting(name: str, count: int) -> BaseAgent:
    @Agent(name, start="beginning", concurrency=100)
    class Counting(BaseAgent):
        seen = 0
        before = 0
        began = 0.0
        spent = 0.0

        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any] | None:
            if "hello" in message.payload:
                say(ready=True)
                self.before = 1
                return None
            if not self.seen:
                self.began, self.spent = time.perf_counter(), time.process_time()
            self.seen += 1
            if self.seen == count:
                self.ending = asyncio.ensure_future(self._until_all_are_done())
            return {"text": TEXT} if message.message_type == "request" else None

        async def _until_all_are_done(self) -> None:
            while self.counts["done"] < count + self.before:  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.001)
            say(rate=count / (time.perf_counter() - self.began), cpu=time.process_time() - self.spent)

    return Counting()


if __name__ == "__main__":
    _counting(sys.argv[1], int(sys.argv[2])).run()
