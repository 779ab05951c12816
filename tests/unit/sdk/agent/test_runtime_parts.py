"""Generator handlers: partial answers for whoever follows them, one answer for everybody else, and always an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.errors.team import AgentFailed
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.results import progress
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import asked, at_work


@Agent("bob")
class Writer(BaseAgent):
    """Writes in parts, as a coroutine or in a thread."""

    def __init__(self) -> None:
        self.yielded = 0
        self.closed = 0

    @on_message(kind="request")
    async def write(self, message: ChannelMessage) -> AsyncGenerator[Any]:
        how = message.payload.get("how", "")
        try:
            yield progress("begins", percent=0)
            self.yielded += 1
            if how == "wait":
                await asyncio.Event().wait()
            if how == "fail":
                raise ValueError("no ink")
            while how == "endless":
                yield {"n": self.yielded}
                self.yielded += 1
            for text in ("one", "two"):
                yield {"text": text}
        finally:
            self.closed += 1


@Agent("bob")
class InAThread(BaseAgent):
    @on_message(kind="request")
    def write(self, message: ChannelMessage) -> Generator[Any, None, Any]:
        for text in ("one", "two"):
            yield {"text": text}
        return {"text": "all"} if message.payload.get("returns") else None


async def followed(alice: AsyncClient, payload: dict[str, Any] | None = None) -> list[tuple[str, Any]]:
    """Kind and payload of everything that comes."""
    stream = alice.ask_stream(CHANNEL, None, "bob", payload or {})
    return [(message.partial, dict(message.payload)) async for message in stream]


def now(server: LiveServer) -> None:
    """A client says by its own clock when a question expires."""
    server.rig.clock.at = datetime.now(UTC)


@with_server
async def test_whoever_follows_gets_each_part_and_the_last_one_once(server: LiveServer) -> None:
    now(server)
    bob = Writer()
    async with at_work(server, bob) as alice:
        parts = await followed(alice)

    assert parts == [
        ("progress", {"text": "begins", "percent": 0}),
        ("artifact", {"text": "one"}),
        ("artifact", {"text": "two"}),
    ]
    assert (bob.counts["parts"], bob.counts["answered"], bob.closed) == (3, 1, 1)


@with_server
async def test_a_native_ask_gets_the_last_value_only(server: LiveServer) -> None:
    bob = Writer()
    async with at_work(server, bob) as alice:
        answer = await asked(alice)
        seen = await alice.list_messages(CHANNEL)

    assert (answer.payload, answer.partial) == ({"text": "two"}, "")
    assert [one.message_type for one in seen] == ["request", "response"]


@with_server
async def test_what_a_generator_in_a_thread_returns_is_the_answer_else_its_last_value(server: LiveServer) -> None:
    now(server)
    async with at_work(server, InAThread()) as alice:
        assert await followed(alice) == [("artifact", {"text": "one"}), ("artifact", {"text": "two"})]
        assert (await followed(alice, {"returns": 1}))[-1] == ("", {"text": "all"})
        assert (await asked(alice)).payload == {"text": "two"}
        assert (await asked(alice, {"returns": 1})).payload == {"text": "all"}


@with_server
async def test_a_generator_that_fails_ends_the_stream_with_its_error(server: LiveServer) -> None:
    now(server)
    async with at_work(server, Writer()) as alice:
        with pytest.raises(AgentFailed, match="no ink"):
            await followed(alice, {"how": "fail"})


@with_server
async def test_an_agent_without_parts_gives_one_answer(server: LiveServer) -> None:
    now(server)

    @Agent("bob")
    class Plain(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"a": 1}

    async with at_work(server, Plain()) as alice:
        assert await followed(alice) == [("", {"a": 1})]


@with_server
async def test_who_stops_following_withdraws_the_request_and_the_generator_is_closed(server: LiveServer) -> None:
    now(server)
    bob = Writer()
    async with at_work(server, bob) as alice:
        stream = alice.ask_stream(CHANNEL, None, "bob", {"how": "wait"})
        first = await anext(stream)
        await stream.aclose()

        assert first.correlation_id is not None
        assert (await alice.get_request(CHANNEL, first.correlation_id)).state == "withdrawn"
        await soon(lambda: bob.closed == 1)


@with_server
async def test_a_generator_that_never_ends_is_stopped_after_a_number_of_values(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now(server)
    for module in ("parley.domain.channel.request", "parley.sdk.agent.results"):
        monkeypatch.setattr(f"{module}.PARTS_MAX", 5)
    bob = Writer()
    async with at_work(server, bob) as alice:
        for ask in (followed(alice, {"how": "endless"}), alice.ask(CHANNEL, None, "bob", {"how": "endless"})):
            with pytest.raises(AgentFailed, match="more than 5 values"):
                await ask
    assert bob.closed == 2


@with_server
async def test_a_generator_that_never_ends_is_stopped_when_its_request_expires(server: LiveServer) -> None:
    @Agent("bob")
    class Endless(BaseAgent):
        closed = False

        @on_message()
        async def handle(self, message: ChannelMessage) -> AsyncGenerator[Any]:
            try:
                while True:
                    await asyncio.sleep(0.01)
                    yield {}
            finally:
                self.closed = True

    bob = Endless()
    async with at_work(server, bob) as alice:
        with pytest.raises(TimeoutError):
            await alice.ask(CHANNEL, None, "bob", {}, 0.3)
        await soon(lambda: bob.closed)
        await soon(lambda: bob.counts["done"] == 1)

    assert "failed" not in bob.counts


@with_server
async def test_parts_that_a_handler_follows_go_to_it_and_to_no_other_handler(server: LiveServer) -> None:
    now(server)
    got: list[Any] = []
    heard: list[ChannelMessage] = []

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message(kind="request")
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            channel = await self.channels.open(message.channel, message.intent_id)
            async for part in channel.ask_stream("bob", {}):
                got.append(part.payload)
            return {"n": len(got)}

        @on_message(kind="response")
        async def hear(self, message: ChannelMessage) -> None:
            heard.append(message)

    carol = Carol()
    async with at_work(server, Writer(), carol) as alice:
        assert (await alice.ask(CHANNEL, None, "carol", {})).payload == {"n": 3}
        await soon(lambda: carol.counts["done"] == 5)

    assert heard == []
