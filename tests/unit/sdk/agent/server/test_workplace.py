"""An agent on a real server: its place there, and what a restart, an outage or another process do to it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.channel.channel import Options
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Forbidden
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import BookmarkTaken, Unauthorized
from parley.domain.message.message import Pattern
from parley.sdk.agent.agent import Agent, BaseAgent, Plan
from parley.sdk.agent.decorators import on_approval, on_assignment, on_message
from parley.sdk.agent.server.workplace import ServerWorkplace
from parley.sdk.agent.workplace import Arrival
from parley.sdk.client.client import AsyncClient
from parley.sdk.protocol.failures import Failure
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.intents import Event, Intent
from parley.wire.api.records.rules import Approval
from tests.fault.sdk.door import BUSY, CUT, NO_TIME, TOO_MANY, Door
from tests.rigs.governed import place, put_policy
from tests.rigs.team import CHANNEL, INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, Shift, answered, at_work, client_of, shift, told


@Agent("bob", concurrency=1, start="beginning")
class Bob(BaseAgent):
    """Notes what it is told; answers with how much that is."""

    def __init__(self, texts: list[str] | None = None) -> None:
        self.texts: list[str] = [] if texts is None else texts
        self.gate: asyncio.Event | None = None

    @on_message()
    async def handle(self, message: ChannelMessage) -> dict[str, Any]:
        self.texts.append(message.payload["text"])
        if self.gate is not None:
            await self.gate.wait()
        return {"count": len(self.texts)}


def _more_than(texts: list[str], count: int) -> bool:
    return len(texts) > count


# ---------------------------------------------------------------- registered, alive, told to stop


@with_server
async def test_an_agent_is_registered_as_its_class_says(server: LiveServer) -> None:
    @Agent("carol", capabilities=["review"], role="reviewer", title="Carol", concurrency=7)
    class Carol(Bob):
        pass

    async with at_work(server, Carol()) as alice:
        known = await alice.get_agent("carol")

    assert (known.status, known.name, known.role_id, known.capabilities) == ("active", "Carol", "reviewer", ["review"])
    assert known.capacity.max_concurrent_tasks == 7


@with_server
async def test_an_agent_says_how_busy_it_is_and_that_it_drains(server: LiveServer, quick: None) -> None:
    bob = Bob()
    bob.gate = asyncio.Event()
    alice = await client_of(server)

    async def load() -> int:
        return (await alice.get_agent("bob")).capacity.current_load

    async with shift(server, bob):
        await told(server, "bob", 1)
        await soon(lambda: _is(load, 1))
        bob.gate.set()
        await soon(lambda: _is(load, 0))

    assert (await alice.get_agent("bob")).status == "draining"
    await alice.close()


async def _is(asked: Any, wanted: object) -> bool:
    return bool(await asked() == wanted)


@with_server
async def test_an_agent_that_was_taken_for_dead_is_simply_back(server: LiveServer, quick: None) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        server.rig.clock.at += timedelta(hours=1)
        await sweep(server.rig.team)
        server.rig.clock.at += timedelta(seconds=1)
        await soon(lambda: _status(alice, "bob", "active"))
        await told(server, "bob", 1)
        await soon(lambda: bob.texts == ["1"])


async def _status(client: Any, agent: str, wanted: str) -> bool:
    return bool((await client.get_agent(agent)).status == wanted)


@with_server
async def test_an_agent_that_was_deregistered_meanwhile_keeps_its_place(server: LiveServer, quick: None) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        await told(server, "bob", 1)
        await soon(lambda: bob.counts["done"] == 1)
        await (await server.client(kind=KeyKind.ADMIN)).delete("/agents/bob")
        await soon(lambda: _status(alice, "bob", "active"))
        await told(server, "bob", 2)
        await soon(lambda: bob.counts["done"] == 2)
    again = Bob()
    async with shift(server, again):
        await told(server, "bob", 3)
        await soon(lambda: bool(again.texts))

    assert again.texts == ["3"]


@with_server
async def test_an_agent_that_an_admin_drains_stops(server: LiveServer, quick: None, ear: Ear) -> None:
    async with shift(server, Bob()) as one:
        admin = await server.client(kind=KeyKind.ADMIN)
        assert (await admin.patch("/agents/bob/status", {"status": "draining"})).status == 200
        async with asyncio.timeout(10):
            await one.serving

    assert "agent_told_to_stop" in ear.actions


# ---------------------------------------------------------------- stopping


@with_server
async def test_what_runs_when_it_stops_is_finished_and_nothing_new_is_taken(server: LiveServer) -> None:
    bob = Bob()
    bob.gate = asyncio.Event()
    async with shift(server, bob) as one:
        asked = await server.rig.say("alice", "1", to="bob", pattern=Pattern.REQUEST)
        await soon(lambda: bob.texts == ["1"])
        one.stop.set()
        await told(server, "bob", 2, 3)
        alice = await client_of(server)
        await soon(lambda: _status(alice, "bob", "draining"))
        await alice.close()
        assert not one.serving.done()
        bob.gate.set()
        await one.serving

    assert bob.texts == ["1"]
    assert [one["payload"] for one in await answered(server, asked.id)] == [{"count": 1}]
    again = Bob()
    async with shift(server, again):
        await soon(lambda: len(again.texts) == 2)
    assert again.texts == ["2", "3"]


@with_server
async def test_what_does_not_end_in_time_comes_again(server: LiveServer) -> None:
    @Agent("bob", drain=0.01, start="beginning")
    class Slow(Bob):
        pass

    slow = Slow()
    slow.gate = asyncio.Event()
    async with shift(server, slow):
        await told(server, "bob", 1)
        await soon(lambda: slow.texts == ["1"])
    again = Bob()
    async with shift(server, again):
        await soon(lambda: again.texts == ["1"])

    assert slow.counts["done"] == 0


@with_server
async def test_an_agent_can_be_told_to_stop_before_it_begins(server: LiveServer) -> None:
    async with shift(server, Bob()) as one:
        one.stop.set()

    assert one.serving.done()


# ---------------------------------------------------------------- restarts


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
            await soon(partial(_more_than, texts, first))  # and is stopped in the middle
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
            await soon(partial(_more_than, texts, first + 10))
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


# ---------------------------------------------------------------- another process


@with_server
async def test_who_comes_later_takes_over_and_who_was_there_stops(server: LiveServer) -> None:
    first, second = Bob(), Bob()
    async with shift(server, first) as old:
        await told(server, "bob", 1)
        await soon(lambda: first.counts["done"] == 1)
        await soon(lambda: _saved(server))
        async with at_work(server, second) as alice:
            await told(server, "bob", 2)
            assert isinstance(await old.ended(), BookmarkTaken)
            await told(server, "bob", 3)
            await soon(lambda: second.texts == ["2", "3"])
            assert (await alice.get_agent("bob")).status == "active"  # who was there before has not drained it

    assert first.texts[:1] == ["1"]


async def _saved(server: LiveServer) -> bool:
    """Whether bob has on record all there is."""
    client = await client_of(server, "bob")
    known = await client.get_bookmark("bob", "default")
    await client.close()
    return known.position == known.head and not known.open


@with_server
async def test_two_that_answer_at_the_same_time_give_one_answer(server: LiveServer, quick: None) -> None:
    first, second = Bob(), Bob()
    first.gate = second.gate = asyncio.Event()
    async with shift(server, first) as old:
        asked = await server.rig.say("alice", "1", to="bob", pattern=Pattern.REQUEST)
        await soon(lambda: bool(first.texts))
        async with shift(server, second):
            await soon(lambda: bool(second.texts))
            first.gate.set()
            assert isinstance(await old.ended(), BookmarkTaken)
            await soon(lambda: second.counts["done"] == 1)

    assert len(await answered(server, asked.id)) == 1


# ---------------------------------------------------------------- a server that is away, busy, or says no


@with_server
async def test_an_agent_outlasts_its_server(server: LiveServer, quick: None) -> None:
    bob = Bob()
    async with Door(server.listener.port) as door, shift(server, bob, port=door.port):
        for number in range(0, 12, 3):
            await told(server, "bob", number, number + 1)
            await soon(partial(_more_than, bob.texts, number))
            await door.shut()
            await told(server, "bob", number + 2)
            await server.restart()
            door.target = server.listener.port
            await door.open()
        await soon(lambda: bob.counts["done"] == 12)

    assert bob.texts == [str(number) for number in range(12)]
    again = Bob()
    async with shift(server, again):
        await told(server, "bob", 12)
        await soon(lambda: bool(again.texts))
    assert again.texts == ["12"]


@with_server
async def test_a_stream_that_is_cut_again_and_again_misses_and_repeats_nothing(server: LiveServer, quick: None) -> None:
    bob = Bob()
    async with Door(server.listener.port) as door, shift(server, bob, port=door.port):
        for number in range(60):
            await told(server, "bob", number)
            if number % 4 == 0:
                await soon(partial(_more_than, bob.texts, number - 4))
                door.cut()
        await soon(lambda: bob.counts["done"] == 60)
        assert door.streams > 5

    assert bob.texts == [str(number) for number in range(60)]


@pytest.mark.both_stores
@with_server
async def test_an_answer_whose_receipt_is_lost_is_given_once(server: LiveServer, quick: None) -> None:
    async with Door(server.listener.port) as door:
        lost = iter([CUT, NO_TIME, CUT])
        door.swallow = lambda head: next(lost, b"") if b"/reply " in head else b""
        bob = Bob()
        async with shift(server, bob, port=door.port):
            asked = await server.rig.say("alice", "1", to="bob", pattern=Pattern.REQUEST)
            await soon(lambda: bob.counts["done"] == 1)

    assert door.swallowed == 3
    assert [one["payload"] for one in await answered(server, asked.id)] == [{"count": 1}]
    assert bob.counts == {"received": 1, "answered": 1, "done": 1}


@pytest.mark.parametrize("refusal", [NO_TIME, BUSY, TOO_MANY], ids=["503", "503 and a while", "429"])
@pytest.mark.parametrize(
    ("what", "action"),
    [
        (b"/reply ", "agent_answer_late"),
        (b"/bookmarks/default ", "agent_bookmark_late"),
        (b"/heartbeat ", "agent_heartbeat_failed"),
        (f"GET /api/v1/channels/{CHANNEL} ".encode(), ""),
        (f"GET /api/v1/channels/{CHANNEL}/messages?".encode(), ""),
        (f"GET /api/v1/intents/{INTENT} ".encode(), ""),
        (b"/subscribe/agents/bob ", "agent_stream_broke"),
    ],
    ids=["answer", "bookmark", "heartbeat", "channel", "messages", "intent", "stream"],
)
@with_server
async def test_whatever_a_server_has_no_time_for_is_done_later(
    server: LiveServer, what: bytes, action: str, refusal: bytes, quick: None, ear: Ear
) -> None:
    got: list[str] = []

    @Agent("bob", start="beginning")
    class Worker(Bob):
        @on_assignment
        async def begin(self, intent: Intent) -> None:
            got.append(intent.id)

    asked = await server.rig.say("alice", "1", to="bob", pattern=Pattern.REQUEST)
    alice = await client_of(server)
    await alice.assign_agent(INTENT, "bob")
    await alice.close()
    async with Door(server.listener.port) as door:
        bob, left = Worker(), 6

        def refuse(head: bytes) -> bytes:
            nonlocal left
            # A stream that never was open is refused for good.
            if what not in head or (b"subscribe" in what and door.streams == 1):
                return b""
            left -= 1
            return refusal if left > 0 else b""

        door.refuse = refuse
        async with shift(server, bob, port=door.port):
            if b"subscribe" in what:
                await soon(lambda: bob.counts["done"] == 2)
                door.cut()
            await soon(lambda: left <= 0, 20)
            await soon(lambda: bob.counts["done"] == 2)
        again = Worker()
        async with shift(server, again, port=door.port):
            await told(server, "bob", 2)
            await soon(lambda: bool(again.texts))

    assert (bob.texts, again.texts, got) == (["1"], ["2"], [INTENT])
    assert len(await answered(server, asked.id)) == 1
    if action and refusal is NO_TIME:
        assert action in ear.actions


@with_server
async def test_an_agent_whose_key_is_revoked_stops_with_an_error(server: LiveServer, quick: None) -> None:
    async with shift(server, Bob()) as one:
        await server.rig.revoke(kind=KeyKind.SERVICE)
        await told(server, "bob", 1)
        failed = await one.ended()

    assert isinstance(failed, Forbidden | Unauthorized)


@with_server
async def test_an_agent_that_starts_before_its_server_works_as_soon_as_it_is_there(
    server: LiveServer, ear: Ear, quick: None
) -> None:
    bob = Bob()
    async with Door(server.listener.port) as door:
        await door.shut()
        client = await client_of(server, "", door.port)
        one = Shift(client, bob)
        await ear.hears("agent_waits_for_server")
        await door.open()
        await one.begun()
        await told(server, "bob", 1)
        await soon(lambda: bob.texts == ["1"])
        await door.shut()
        await door.open()
        await ear.hears("agent_connected", 2)  # once when it began, once when its stream was back
        await one.end()
        await client.close()


# ---------------------------------------------------------------- what it may no longer see


@with_server
async def test_an_assignment_to_what_is_closed_to_it_by_now_is_passed_over(server: LiveServer) -> None:
    @Agent("bob", start="beginning", concurrency=1)
    class Worker(Bob):
        @on_assignment
        async def begin(self, intent: Intent) -> None:
            self.texts.append(intent.title)

    alice = await client_of(server)
    gone = await alice.create_intent("gone", status="active")
    await alice.assign_agent(gone.id, "bob")
    await alice.close()
    worker = Worker()
    async with Door(server.listener.port) as door:
        door.refuse = lambda head: _FORBIDDEN if f"GET /api/v1/intents/{gone.id} ".encode() in head else b""
        async with shift(server, worker, port=door.port):
            await told(server, "bob", 1)
            await soon(lambda: worker.texts == ["1"])


_FORBIDDEN = (
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: application/problem+json\r\n"
    b'content-length: 34\r\n\r\n{"code":"forbidden","detail":"no"}'
)


@with_server
async def test_a_message_whose_channel_cannot_be_looked_up_still_arrives(server: LiveServer) -> None:
    bob = Bob()
    async with Door(server.listener.port) as door:
        door.refuse = lambda head: _FORBIDDEN if f"GET /api/v1/channels/{CHANNEL} ".encode() in head else b""
        async with shift(server, bob, port=door.port):
            await told(server, "bob", 1)
            await soon(lambda: bob.texts == ["1"])


# ---------------------------------------------------------------- what a person decides


@with_server
async def test_a_person_decides_and_the_agent_hears_of_it(server: LiveServer) -> None:
    await place(server.rig, "alice", user_id="ann")
    await place(server.rig, "bob", user_id="ben")
    await put_policy(server.rig)
    decided: list[Approval] = []
    held: list[str] = []

    @Agent("bob", start="now")
    class Promising(BaseAgent):
        @on_message(kind="notify")
        async def begin(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(message.channel)
            try:
                await channel.ask("alice", {"text": "We promise it."}, exchange_type="information_query")
            except MessageHeld as error:
                held.append(str(error.facts["approval"]))

        @on_approval
        async def heard(self, approval: Approval) -> None:
            decided.append(approval)

    bob = Promising()
    async with shift(server, bob):
        await told(server, "bob", 1)
        await soon(lambda: bool(held))
        admin = await server.client(kind=KeyKind.ADMIN)
        key = (await admin.post("/keys", {"kind": "human", "user_id": "ben"})).json["key"]
        ben = AsyncClient(f"http://127.0.0.1:{server.listener.port}", key=key)
        await ben.approve(await ben.get_approval(held[0]), "fine")
        await ben.close()
        await soon(lambda: bool(decided))

    assert [(one.id, one.status, one.note) for one in decided] == [(held[0], "approved", "fine")]
    assert bob.counts["failed"] == 0


@with_server
async def test_an_answer_that_waits_for_a_person_is_no_failure_and_comes_once(server: LiveServer, ear: Ear) -> None:
    await place(server.rig, "alice", user_id="ann")
    await place(server.rig, "bob", user_id="ben")
    await put_policy(server.rig)

    @Agent("bob", start="beginning")
    class Promising(BaseAgent):
        @on_message(kind="request")
        async def begin(self, message: ChannelMessage) -> dict[str, Any]:
            return {"text": "We promise it."}

    bob = Promising()
    alice = await client_of(server)
    async with shift(server, bob):
        asked = await alice.send_message(
            CHANNEL, None, "bob", "request", {"text": "Will it be?"}, metadata={"exchange_type": "information_query"}
        )
        await soon(lambda: bob.counts["done"] == 1)
        assert "agent_answer_held" in ear.actions
        assert await answered(server, asked.id) == []
        admin = await server.client(kind=KeyKind.ADMIN)
        key = (await admin.post("/keys", {"kind": "human", "user_id": "ben"})).json["key"]
        ben = AsyncClient(f"http://127.0.0.1:{server.listener.port}", key=key)
        [waiting] = await ben.list_approvals("pending")
        await ben.approve(waiting)
        await ben.close()
    await alice.close()

    assert [one["payload"] for one in await answered(server, asked.id)] == [{"text": "We promise it."}]
    assert bob.counts["failed"] == 0


@with_server
async def test_an_agent_that_rests_learns_that_its_place_was_taken(server: LiveServer, quick: None) -> None:
    client = await client_of(server, "bob")
    async with shift(server, Bob()) as resting:
        await client.open_bookmark("bob", "default")

        failed = await resting.ended()
    await client.close()

    assert isinstance(failed, BookmarkTaken)
