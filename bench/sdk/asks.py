"""`channel.ask` between two agents in two processes, against the reference SDK's `client.ask` on the reference server.

`python -m bench.sdk.asks answerer|asker` is one of the two agents.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from statistics import median
from typing import Any

from bench.channels import sdk_asks
from bench.channels.posts import TEXT
from bench.channels.processes import AGENT, parley_up, reference
from bench.figures import SDK, Figure, Goal
from bench.measure import Sample
from bench.sdk.crew import AgentProcess, say
from bench.workspace import Bench
from parley.domain.errors.team import NoResponders
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.wire.api.records.channels import ChannelMessage

_SOON = Goal("<=", 3.0, "ms")
_FASTER = Goal(">=", 100.0, "x")
_ANSWERER = "answerer"
_MODULE = "bench.sdk.asks"
_ASKS = 200
_TRIES = 100
_PAUSE_SECONDS = 0.05


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/agent-asks"
    os.mkdir(home)
    middle, worst, peers = list[float](), list[float](), list[float]()
    with (
        parley_up(f"{home}/data") as ours,
        reference(home) as theirs,
        AgentProcess(_MODULE, ours.port, _ANSWERER),
        AgentProcess(_MODULE, ours.port, AGENT) as asker,
        sdk_asks.asking(theirs, "poll") as ask_theirs,
    ):
        start = {"sender": "bench", "to": AGENT, "payload": {"times": _ASKS}}
        channel = ours.channel("bench")

        def ask_ours() -> list[float]:
            ours.call("POST", f"/channels/{channel}/messages", start)
            return sorted(asker.read_report()["seconds"])

        ask_ours()
        for _ in range(bench.repeat(15)):
            seconds = ask_ours()
            middle.append(median(seconds))
            worst.append(seconds[len(seconds) * 99 // 100])
            peers.append(ask_theirs())
    ask = Sample(tuple(middle))
    return [
        Figure("agent_asks", "ask between two agents, p50", "ms", ask, goal=_SOON, row="ask between two agents: p50"),
        Figure("agent_asks", "  p99", "ms", Sample(tuple(worst))),
        Figure(
            "agent_asks",
            "  beside the reference's SDK and server",
            "ms",
            ask,
            Sample(tuple(peers)),
            _FASTER,
            row="ask between two agents",
            peer=SDK,
        ),
    ]


@Agent(_ANSWERER)
class Answerer(BaseAgent):
    """Answers at once."""

    @on_message(kind="request")
    async def answer(self, message: ChannelMessage) -> dict[str, Any]:
        return {"text": TEXT}


@Agent(AGENT, start="beginning")
class Asker(BaseAgent):
    """Asks as often as it is told, and says how long each took."""

    @on_message(kind="notify")
    async def ask(self, message: ChannelMessage) -> None:
        channel, seconds = await self.channels.open(message.channel), list[float]()
        await self._answered(channel)
        for _ in range(message.payload["times"]):
            began = time.perf_counter()
            await channel.ask(_ANSWERER, {"text": TEXT}, timeout=20)
            seconds.append(time.perf_counter() - began)
        say(seconds=seconds)

    async def _answered(self, channel: Any) -> None:  # noqa: ANN401  # a channel
        """Warm up; the other one may have begun just now."""
        for _ in range(_TRIES):
            with suppress(NoResponders):
                await channel.ask(_ANSWERER, {"text": TEXT}, timeout=20)
                continue
            await asyncio.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    {_ANSWERER: Answerer, AGENT: Asker}[sys.argv[1]]().run()
