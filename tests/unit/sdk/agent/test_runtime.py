"""An agent at work: what is called with what, what becomes of what it returns, and how much runs at once."""

from __future__ import annotations

import asyncio
from typing import Any

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.runtime import Slots
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, INTENT, LiveServer, in_loop, soon, with_server
from tests.unit.sdk.agent.at_work import answered, asked, at_work, told

# ---------------------------------------------------------------- what a handler returns


@with_server
async def test_a_returned_mapping_answers_the_request(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"twice": message.payload["n"] * 2}

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice, {"n": 21})
        await soon(lambda: bob.counts["done"] == 1)

    assert answer.payload == {"twice": 42}
    assert (answer.sender, answer.error) == ("bob", "")
    assert bob.counts == {"received": 1, "answered": 1, "done": 1}


@with_server
async def test_none_answers_nothing(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            return None

    bob = Bob()
    async with at_work(server, bob) as alice:
        request = await alice.send_message(CHANNEL, None, "bob", "request", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert await answered(server, request.id) == []


@with_server
async def test_an_empty_mapping_is_an_answer(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {}

    async with at_work(server, Bob()) as alice:
        assert (await asked(alice)).payload == {}


@with_server
async def test_what_is_returned_for_a_notice_answers_nothing(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"thanks": True}

    bob = Bob()
    async with at_work(server, bob) as alice:
        told_by = await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert await answered(server, told_by.id) == []
    assert bob.counts["failed"] == 0


@with_server
async def test_all_handlers_are_called_and_the_first_that_returns_something_answers(server: LiveServer) -> None:
    called: list[str] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def first(self, message: ChannelMessage) -> None:
            called.append("first")

        @on_message()
        def second(self, message: ChannelMessage) -> dict[str, Any]:
            called.append("second")
            return {"by": "second"}

        @on_message()
        async def third(self, message: ChannelMessage) -> dict[str, Any]:
            called.append("third")
            return {"by": "third"}

    bob = Bob()
    async with at_work(server, bob) as alice:
        answer = await asked(alice)
        await soon(lambda: bob.counts["done"] == 1)

    assert called == ["first", "second", "third"]
    assert answer.payload == {"by": "second"}
    assert len(await answered(server, str(answer.correlation_id))) == 1


# ---------------------------------------------------------------- which handler is called


@with_server
async def test_a_handler_is_called_for_its_channel_kind_and_senders_only(server: LiveServer) -> None:
    got: dict[str, list[str]] = {}

    @Agent("bob")
    class Bob(BaseAgent):
        def _note(self, handler: str, message: ChannelMessage) -> None:
            got.setdefault(handler, []).append(message.payload["text"])

        @on_message(channel="side")
        async def by_name(self, message: ChannelMessage) -> None:
            self._note("by_name", message)

        @on_message(channel=CHANNEL)
        async def by_id(self, message: ChannelMessage) -> None:
            self._note("by_id", message)

        @on_message(kind="broadcast")
        async def by_pattern(self, message: ChannelMessage) -> None:
            self._note("by_pattern", message)

        @on_message(kind="question")
        async def by_kind(self, message: ChannelMessage) -> None:
            self._note("by_kind", message)

        @on_message(from_=("carol", "dave"))
        async def by_sender(self, message: ChannelMessage) -> None:
            self._note("by_sender", message)

        @on_message(channel="side", kind="request", from_="carol")
        async def by_all(self, message: ChannelMessage) -> None:
            self._note("by_all", message)

    bob = Bob()
    async with at_work(server, bob) as alice:
        side = (await alice.create_channel(INTENT, "side")).id
        await alice.send_message(CHANNEL, None, "bob", "notify", {"text": "a"})
        await alice.send_message(CHANNEL, None, "*", "broadcast", {"text": "b"})
        await alice.send_message(side, "carol", "bob", "request", {"text": "c"}, metadata={"kind": "question"})
        await alice.send_message(side, "dave", "bob", "request", {"text": "d"})
        await soon(lambda: bob.counts["done"] == 4)

    assert {name: sorted(texts) for name, texts in got.items()} == {
        "by_name": ["c", "d"],
        "by_id": ["a", "b"],
        "by_pattern": ["b"],
        "by_kind": ["c"],
        "by_sender": ["c", "d"],
        "by_all": ["c"],
    }


@with_server
async def test_a_message_that_no_handler_is_for_is_dealt_with(server: LiveServer) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(channel="elsewhere")
        async def handle(self, message: ChannelMessage) -> None:
            raise AssertionError

    bob = Bob()
    async with at_work(server, bob) as alice:
        await alice.send_message(CHANNEL, None, "bob", "request", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert bob.counts["failed"] == 0


@with_server
async def test_an_agent_does_not_hear_itself(server: LiveServer) -> None:
    heard: list[str] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            heard.append(message.sender)
            channel = await self.channels.open(CHANNEL)
            await channel.broadcast({"text": "heard"})

    bob = Bob()
    async with at_work(server, bob) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bob.counts["done"] == 2)

    assert heard == ["alice", "alice"]


@with_server
async def test_a_handler_knows_the_channel_and_the_intent_of_a_message(server: LiveServer) -> None:
    got: list[ChannelMessage] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            got.append(message)

    async with at_work(server, Bob()) as alice:
        side = await alice.create_channel(INTENT, "side")
        await alice.send_message(side.id, None, "bob", "notify", {})
        await soon(lambda: bool(got))

    assert (got[0].channel, got[0].channel_id, got[0].intent_id) == ("side", side.id, INTENT)


# ---------------------------------------------------------------- how much at once


class Crowded:
    """Counts how many are inside at once, and lets them go on when a test says so."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.texts: list[str] = []
        self.go_on = asyncio.Semaphore(0)

    async def pass_through(self, message: ChannelMessage) -> None:
        self.texts.append(message.payload["text"])
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.go_on.acquire()
        self.inside -= 1


@with_server
async def test_never_more_than_concurrency_run_at_once_and_the_stream_waits(server: LiveServer) -> None:
    crowded = Crowded()

    @Agent("bob", concurrency=3)
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            await crowded.pass_through(message)

    bob = Bob()
    async with at_work(server, bob):
        await told(server, "bob", *range(20))
        await soon(lambda: crowded.inside == 3)
        for _ in range(200):  # whoever was let in too early would be in by now
            await asyncio.sleep(0)
        assert crowded.inside == 3
        assert len(crowded.texts) == 3
        for _ in range(20):
            crowded.go_on.release()
        await soon(lambda: bob.counts["done"] == 20)

    assert crowded.most == 3
    assert sorted(map(int, crowded.texts)) == list(range(20))


@with_server
async def test_with_a_concurrency_of_one_the_order_is_kept(server: LiveServer) -> None:
    texts: list[str] = []

    @Agent("bob", concurrency=1)
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            await asyncio.sleep(0 if int(message.payload["text"]) % 2 else 0.002)
            texts.append(message.payload["text"])

    async with at_work(server, Bob()):
        await told(server, "bob", *range(30))
        await soon(lambda: len(texts) == 30)

    assert texts == [str(number) for number in range(30)]


@in_loop
async def test_places_are_counted_and_waited_for() -> None:
    slots = Slots(2)
    await slots.acquire()
    await slots.wait_free()
    await slots.acquire()
    waits = asyncio.ensure_future(slots.wait_free())
    await asyncio.sleep(0)

    assert (slots.free, waits.done()) == (0, False)
    slots.release()
    await waits
    assert slots.free == 1
