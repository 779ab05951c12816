"""A question that is given up: the request is withdrawn, and whoever works on it stops."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from parley.app.team.channels import requests
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import at_work, client_of


class Slow(BaseAgent):
    """Works on everything until it is cancelled; counts what it began and what was cancelled."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.cancelled: list[Any] = []

    async def work(self, message: ChannelMessage) -> dict[str, Any]:
        number = message.payload.get("n")
        self.begun.append(number)
        if message.payload.get("quick"):
            return {"n": number}
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.append(number)
        return {}


@Agent("bob", concurrency=1)
class Bob(Slow):
    @on_message()
    async def handle(self, message: ChannelMessage) -> dict[str, Any]:
        return await self.work(message)


async def state_of_only_request(server: LiveServer) -> str:
    """Where the first request in the channel stands."""
    feed = await server.rig.store.feed("default", 0)
    request = next(item.post for item in feed if item.post is not None and item.post.pattern == "request")
    return (await requests.get(server.rig.team, server.rig.caller("bob"), CHANNEL, request.id)).phase.value


@with_server
async def test_a_cancelled_ask_withdraws_its_request_and_cancels_the_handler(server: LiveServer) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        asking = asyncio.create_task(alice.ask(CHANNEL, None, "bob", {"n": 1}))
        await soon(lambda: bob.begun == [1])

        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        assert await state_of_only_request(server) == "withdrawn"
        await soon(lambda: bob.cancelled == [1] and bob.counts["done"] >= 1)
        assert (await alice.ask(CHANNEL, None, "bob", {"n": 2, "quick": True})).payload == {"n": 2}


@with_server
async def test_wait_for_withdraws_what_it_gives_up(server: LiveServer) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(alice.ask(CHANNEL, None, "bob", {"n": 1}), 0.5)

        assert await state_of_only_request(server) == "withdrawn"
        await soon(lambda: bob.cancelled == bob.begun)


@with_server
async def test_ask_all_withdraws_what_it_gives_up(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    bob = Bob()
    async with at_work(server, bob) as alice:
        asking = asyncio.create_task(alice.ask_all(CHANNEL, None, "bob", {"n": 1}))
        await soon(lambda: bob.begun == [1])
        asking.cancel()
        await asyncio.wait([asking])

        assert await state_of_only_request(server) == "withdrawn"


@with_server
async def test_an_answer_that_was_faster_stays(server: LiveServer) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await alice.ask(CHANNEL, None, "bob", {"n": 1, "quick": True})
        assert answer.correlation_id is not None
        with pytest.raises(Exception, match="answered already"):
            await alice.withdraw_request(CHANNEL, answer.correlation_id)


@with_server
async def test_a_withdrawn_request_that_waits_for_a_free_handler_is_not_handled(server: LiveServer) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        first = asyncio.create_task(alice.ask(CHANNEL, None, "bob", {"n": 1}))
        await soon(lambda: bob.begun == [1])
        waiting = await alice.send_message(CHANNEL, None, "bob", "request", {"n": 2})
        await alice.withdraw_request(CHANNEL, waiting.id)

        first.cancel()
        await asyncio.wait([first])
        assert (await alice.ask(CHANNEL, None, "bob", {"n": 3, "quick": True})).payload == {"n": 3}

    assert bob.begun == [1, 3]


@with_server
async def test_a_withdrawal_for_which_there_is_no_handler_any_more_is_not_a_message(server: LiveServer) -> None:
    got: list[ChannelMessage] = []

    @Agent("bob")
    class Nothing(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            got.append(message)

    bob = Nothing()
    async with at_work(server, bob) as alice:
        request = await alice.send_message(CHANNEL, None, "bob", "request", {})
        await soon(lambda: bob.counts["done"] == 1)
        await alice.withdraw_request(CHANNEL, request.id)
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bob.counts["done"] == 2)

    assert [one.message_type for one in got] == ["request", "notify"]


@with_server
async def test_an_ask_in_a_handler_that_is_cancelled_is_withdrawn_too(server: LiveServer) -> None:
    carol_has: list[str] = []

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            carol_has.append(message.id)
            await asyncio.Event().wait()

    @Agent("dave")
    class Dave(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            channel = await self.channels.open(message.channel, message.intent_id)
            return dict((await channel.ask("carol", {})).payload)

    async with at_work(server, Carol(), Dave()) as alice:
        asking = asyncio.create_task(alice.ask(CHANNEL, None, "dave", {}))
        await soon(lambda: len(carol_has) == 1)
        asking.cancel()
        await asyncio.wait([asking])

        carol = await client_of(server, "carol")

        async def seen() -> bool:
            return (await carol.get_request(CHANNEL, carol_has[0])).state == "withdrawn"

        await soon(seen)
        await carol.close()
