"""An agent that comes back: what it missed, what it has dealt with, and assignments."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from parley.domain.channel.channel import Options
from parley.domain.errors.errors import Forbidden
from parley.domain.message.message import Pattern
from parley.sdk.agent.agent import Agent, BaseAgent, Plan
from parley.sdk.agent.decorators import on_assignment, on_message
from parley.sdk.agent.server.workplace import ServerWorkplace
from parley.sdk.agent.workplace import Arrival
from parley.sdk.protocol.failures import Failure
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.intents import Event, Intent
from tests.fault.sdk.door import Door
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, answered, at_work, client_of, shift, told
from tests.unit.sdk.agent.server.bob import Bob, has_more_than


@with_server
async def test_an_agent_that_was_away_too_long_logs_which_messages_are_gone(server: LiveServer, ear: Ear) -> None:
    await server.rig.channel("chan_small", label="small", options=Options(max_messages=3))
    texts: list[str] = []
    async with shift(server, Bob(texts)):
        await server.rig.say("alice", "1", to="bob", channel_id="chan_small")
        await soon(lambda: len(texts) == 1)
    for number in range(2, 9):
        await server.rig.say("alice", str(number), to="bob", channel_id="chan_small")
    async with shift(server, Bob(texts)):
        await ear.hears("agent_messages_evicted")
        await soon(lambda: len(texts) == 4)

    assert texts == ["1", "6", "7", "8"]
    assert any("chan_small, up to message 5" in str(vars(record)) for record in ear.records)


@pytest.mark.both_stores
@with_server
async def test_restarts_neither_miss_nor_repeat(server: LiveServer) -> None:
    texts: list[str] = []
    for first in range(0, 50, 5):
        async with shift(server, Bob(texts)):
            await told(server, "bob", *range(first, first + 3))
            await soon(partial(has_more_than, texts, first))  # and is stopped in the middle
        await told(server, "bob", first + 3, first + 4)  # while it is away
    async with shift(server, Bob(texts)):
        await soon(lambda: len(texts) == 50)

    assert texts == [str(number) for number in range(50)]


@pytest.mark.both_stores
@with_server
async def test_restarts_neither_miss_nor_repeat_when_much_runs_at_once(server: LiveServer) -> None:
    texts: list[str] = []

    @Agent("bob", concurrency=7, start="beginning")
    class Many(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> None:
            for _ in range(int(message.payload["text"]) * 7 % 11):
                await asyncio.sleep(0)
            texts.append(message.payload["text"])

    for first in range(0, 100, 20):
        await told(server, "bob", *range(first, first + 20))
        async with shift(server, Many()):
            await soon(partial(has_more_than, texts, first + 10))
    async with shift(server, Many()):
        await soon(lambda: len(texts) >= 100)

    assert sorted(map(int, texts)) == list(range(100))


@with_server
async def test_an_assignment_is_not_told_again_after_a_restart(server: LiveServer) -> None:
    got: list[str] = []

    @Agent("bob")
    class Worker(BaseAgent):
        @on_assignment
        async def begin(self, intent: Intent) -> None:
            got.append(intent.id)

    async with at_work(server, Worker()) as alice:
        first = await alice.create_intent("first", status="active")
        await alice.assign_agent(first.id, "bob")
        await soon(lambda: len(got) == 1)
        second = await alice.create_intent("second", status="active")
    alice = await client_of(server)
    await alice.assign_agent(second.id, "bob")  # while it is away
    await alice.close()
    async with shift(server, Worker()):
        await soon(lambda: len(got) == 2)

    assert got == [first.id, second.id]


@with_server
async def test_a_failed_assignment_is_an_event_that_others_can_see(server: LiveServer, ear: Ear) -> None:
    @Agent("bob")
    class Worker(BaseAgent):
        @on_assignment
        async def begin(self, intent: Intent) -> None:
            if intent.title == "broken":
                raise ValueError("no such table")
            raise Forbidden("not on a Sunday")

    async with at_work(server, Worker()) as alice:
        broken = await alice.create_intent("broken", status="active")
        refused = await alice.create_intent("refused", status="active")
        for intent in (broken, refused):
            await alice.assign_agent(intent.id, "bob")

        async def failures(intent: Intent) -> list[Event]:
            return await alice.list_events(intent.id, event_type="assignment_failed")

        async def both() -> bool:
            return bool(await failures(broken) and await failures(refused))

        await soon(both)
        (first,), (second,) = await failures(broken), await failures(refused)

    assert (first.actor, first.payload) == (
        "bob",
        {"agent_id": "bob", "code": "handler_failed", "message": "ValueError: no such table"},
    )
    assert second.payload == {"agent_id": "bob", "code": "forbidden", "message": "not on a Sunday"}


@with_server
async def test_a_failed_assignment_is_recorded_once_however_often_it_is_reported(server: LiveServer) -> None:
    client = await client_of(server, "bob")
    workplace = ServerWorkplace(client, Plan("bob"))
    intent = await client.create_intent("broken", status="active")
    for _ in range(2):
        await workplace.report_failed_assignment(Arrival(7, intent=intent), Failure("handler_failed", "no"))
    events = await client.list_events(intent.id, event_type="assignment_failed")
    await client.close()

    assert len(events) == 1


@with_server
async def test_on_a_server_for_the_openintent_sdk_a_failed_assignment_has_the_word_that_it_reads(
    server: LiveServer,
) -> None:
    server.rig.team.sdk_event_names = True
    client = await client_of(server, "bob")
    workplace = ServerWorkplace(client, Plan("bob"))
    intent = await client.create_intent("broken", status="active")
    await workplace.report_failed_assignment(Arrival(7, intent=intent), Failure("handler_failed", "no"))
    events = await client.list_events(intent.id, event_type="failure_recorded")
    await client.close()

    assert [event.payload["code"] for event in events] == ["handler_failed"]


@with_server
async def test_an_agent_begins_at_the_oldest_question_that_nobody_has_answered(server: LiveServer) -> None:
    @Agent("bob", concurrency=1)
    class Fresh(Bob):
        pass

    await told(server, "bob", 1)
    await server.rig.say("alice", "2", to="bob", pattern=Pattern.REQUEST)
    await told(server, "bob", 3)
    fresh = Fresh()
    async with shift(server, fresh):
        await soon(lambda: len(fresh.texts) == 2)

    assert fresh.texts == ["2", "3"]


@with_server
async def test_an_agent_can_begin_now(server: LiveServer) -> None:
    @Agent("bob", concurrency=1, start="now")
    class Fresh(Bob):
        pass

    await server.rig.say("alice", "1", to="bob", pattern=Pattern.REQUEST)
    fresh = Fresh()
    async with shift(server, fresh):
        await told(server, "bob", 2)
        await soon(lambda: bool(fresh.texts))

    assert fresh.texts == ["2"]


@with_server
async def test_what_was_answered_before_a_crash_is_not_dealt_with_again(server: LiveServer) -> None:
    asked = await server.rig.say("alice", "1", to="bob", pattern=Pattern.REQUEST)
    other = await server.rig.say("alice", "2", to="bob", pattern=Pattern.REQUEST)
    await told(server, "bob", 3)
    await _crashed(server, asked.id)
    again = Bob()
    async with shift(server, again):
        await soon(lambda: len(again.texts) == 2)
        await soon(lambda: _answers(server, other.id, 1))

    assert again.texts == ["2", "3"]
    assert [one["payload"] for one in await answered(server, asked.id)] == [{"text": "before the crash"}]


async def _crashed(server: LiveServer, *answered_ids: str) -> None:
    """What an agent leaves behind that has answered, and died before it could save how far it had come."""
    bob = await client_of(server, "bob")
    await bob.open_bookmark("bob", "default", start="beginning")
    for one in answered_ids:
        await bob.reply_to(CHANNEL, one, None, {"text": "before the crash"})
    await bob.close()


async def _answers(server: LiveServer, request_id: str, wanted: int) -> bool:
    return len(await answered(server, request_id)) == wanted


@with_server
async def test_many_questions_from_before_a_crash_cost_little_to_look_through(server: LiveServer) -> None:
    asked = [(await server.rig.say("alice", str(number), to="bob", pattern=Pattern.REQUEST)).id for number in range(60)]
    await _crashed(server, *asked[::2])
    pages = 0

    async with Door(server.listener.port) as door:

        def counting(head: bytes) -> bytes:
            nonlocal pages
            pages += head.startswith(b"GET ") and b"/messages?" in head
            return b""

        door.refuse = counting
        again = Bob()
        async with shift(server, again, port=door.port):
            await soon(lambda: len(again.texts) == 30)
            await soon(lambda: again.counts["done"] == 30)

    assert again.texts == [str(number) for number in range(1, 60, 2)]
    assert pages <= 2
    assert all([len(await answered(server, one)) == 1 for one in asked])
