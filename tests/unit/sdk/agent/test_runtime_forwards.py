"""A handler that hands a request on, or asks back: what the asker gets, and how the conversation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.errors.team import AgentFailed
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.results import ask_back
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.governed import put_policy
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import at_work


@Agent("router")
class Router(BaseAgent):
    @on_message(kind="request")
    async def route(self, message: ChannelMessage) -> Any:  # to whom it goes
        return message.forward(message.payload.get("to", "expert"), message.payload.get("instead"))


@Agent("expert")
class Expert(BaseAgent):
    def __init__(self) -> None:
        self.got: list[ChannelMessage] = []

    @on_message(kind="request")
    async def answer(self, message: ChannelMessage) -> AsyncGenerator[dict[str, Any]]:
        self.got.append(message)
        if message.payload.get("wait"):
            await asyncio.Event().wait()
        yield {"part": 1}
        yield {"by": "expert"}


@with_server
async def test_the_ask_gets_the_answer_of_whom_a_handler_hands_its_request_on_to(server: LiveServer) -> None:
    router, expert = Router(), Expert()
    async with at_work(server, router, expert) as alice:
        answer = await alice.ask(CHANNEL, None, "router", {"q": 1})
        other = await alice.ask(CHANNEL, None, "router", {"instead": {"q": 2}})
        await soon(lambda: router.counts["forwarded"] == 2)

    assert (answer.sender, answer.payload, answer.forwarded_by) == ("expert", {"by": "expert"}, ["router"])
    assert other.sender == "expert"
    assert [(one.sender, one.payload, one.forwarded_by) for one in expert.got] == [
        ("router", {"q": 1}, ["router"]),
        ("router", {"q": 2}, ["router"]),
    ]
    assert "answered" not in router.counts


@with_server
async def test_who_follows_gets_the_parts_of_whom_the_request_was_handed_on_to(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    async with at_work(server, Router(), Expert()) as alice:
        parts = [part async for part in alice.ask_stream(CHANNEL, None, "router", {})]

    assert [(part.sender, part.partial, part.payload) for part in parts] == [
        ("expert", "artifact", {"part": 1}),
        ("expert", "artifact", {"by": "expert"}),
    ]


@with_server
async def test_a_cancelled_ask_cancels_the_handler_that_has_its_request_now(server: LiveServer) -> None:
    expert = Expert()
    async with at_work(server, Router(), expert) as alice:
        asking = asyncio.create_task(alice.ask(CHANNEL, None, "router", {"wait": 1}))
        await soon(lambda: len(expert.got) == 1)
        asking.cancel()
        await asyncio.wait([asking])
        await soon(lambda: expert.counts["done"] >= 1)

    assert "answered" not in expert.counts


@with_server
async def test_a_request_that_cannot_be_handed_on_is_answered_with_the_reason(server: LiveServer) -> None:
    async with at_work(server, Router()) as alice:
        with pytest.raises(AgentFailed, match="had this request before"):
            await alice.ask(CHANNEL, None, "router", {"to": "alice"})


@with_server
async def test_a_handler_gets_the_answer_to_what_it_asked_also_when_that_was_handed_on(server: LiveServer) -> None:
    heard: list[ChannelMessage] = []

    @Agent("planner")
    class Planner(BaseAgent):
        @on_message(kind="request")
        async def plan_it(self, message: ChannelMessage) -> dict[str, Any]:
            channel = await self.channels.open(message.channel, message.intent_id)
            return {"from": (await channel.ask("router", {})).sender}

        @on_message(kind="response")
        async def hear(self, message: ChannelMessage) -> None:
            heard.append(message)

    planner = Planner()
    async with at_work(server, Router(), Expert(), planner) as alice:
        assert (await alice.ask(CHANNEL, None, "planner", {})).payload == {"from": "expert"}
        await soon(lambda: planner.counts["done"] == 2)

    assert heard == []


@with_server
async def test_a_handler_that_asks_back_gets_the_rest_in_the_same_conversation(server: LiveServer) -> None:
    # A clarification takes four rounds: the question, the question back, its answer, and the answer.
    await put_policy(server.rig, max_rounds=4)
    got: list[ChannelMessage] = []

    @Agent("weather")
    class Weather(BaseAgent):
        @on_message(kind="request")
        def forecast(self, message: ChannelMessage) -> Any:  # an answer, or a question back
            got.append(message)
            if "city" not in message.payload:
                return ask_back("Which city?", choices=["Rome", "Oslo"])
            return {"sunny": message.payload["city"] == "Rome"}

    async with at_work(server, Weather()) as alice:
        query = {"exchange_type": "information_query"}
        question = await alice.ask(CHANNEL, None, "weather", {}, metadata=query)
        answer = await alice.follow_up(question, {"city": "Rome"})
        plain = await alice.ask(CHANNEL, None, "weather", {})
        last = await alice.follow_up(plain, {"city": "Oslo"})

    assert question.is_question
    assert question.payload == {"question": "Which city?", "choices": ["Rome", "Oslo"]}
    assert not answer.is_question
    assert (answer.payload, last.payload) == ({"sunny": True}, {"sunny": False})
    assert got[1].metadata["follows"] == question.id
    conversations = [one.metadata["ocip"]["conversation_id"] for one in (got[0], question, got[1], answer)]
    assert len(set(conversations)) == 1
