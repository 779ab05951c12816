"""Agents that talk directly: neither of them names an intent or a channel."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.results import ask_back
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import at_work


@Agent("writer")
class Writer(BaseAgent):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    @on_message(channel="direct", kind="request")
    async def write(self, message: ChannelMessage) -> AsyncGenerator[Any]:
        if "topic" not in message.payload:
            yield ask_back("Which topic?")
            return
        yield {"text": "draft"}
        yield {"text": message.payload["topic"]}

    @on_message(kind="notify")
    async def hear(self, message: ChannelMessage) -> None:
        self.heard.append(message.payload)


@Agent("planner")
class Planner(BaseAgent):
    @on_message(kind="request")
    async def make_plan(self, message: ChannelMessage) -> dict[str, Any]:
        writer = self.direct("writer")
        question = await writer.ask({})
        answer = await writer.follow_up(question, {"topic": "whales"})
        parts = [part.payload["text"] async for part in writer.ask_stream({"topic": "gulls"})]
        await writer.notify({"thanks": True})
        return {"question": question.is_question, "answer": answer.payload, "parts": parts}


@with_server
async def test_agents_ask_follow_and_tell_each_other_directly(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    writer, planner = Writer(), Planner()
    async with at_work(server, writer, planner) as alice:
        plan = await alice.direct("planner").ask({})
        await soon(lambda: writer.heard == [{"thanks": True}])
        parts = [part.partial async for part in alice.direct("writer").ask_stream({"topic": "x"})]
        told = await alice.direct("writer").notify({"n": 1})
        await soon(lambda: len(writer.heard) == 2)

    assert plan.payload == {"question": True, "answer": {"text": "whales"}, "parts": ["draft", "gulls"]}
    assert parts == ["artifact", "artifact"]
    assert told.channel_id != plan.channel_id
