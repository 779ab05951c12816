"""An agent on a real server: its place there, how it stops, takes over, and hears of decisions."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from parley.app.team.work.sweep import sweep
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import BookmarkTaken
from parley.domain.message.message import Pattern
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_approval, on_assignment, on_message
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.intents import Intent
from parley.wire.api.records.rules import Approval
from tests.fault.sdk.door import Door
from tests.rigs.governed import place, put_policy
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, answered, at_work, client_of, shift, told
from tests.unit.sdk.agent.server.bob import Bob


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
async def test_an_agent_says_how_busy_it_is_and_that_it_has_stopped(server: LiveServer, quick: None) -> None:
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

    assert (await alice.get_agent("bob")).status == "dead"
    async with shift(server, Bob()):
        assert (await alice.get_agent("bob")).status == "active"
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
                await channel.ask("alice", {"text": "We promise it."}, metadata={"exchange_type": "information_query"})
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
