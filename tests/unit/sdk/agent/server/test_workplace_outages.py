"""An agent whose server is lost, slow, or refuses it."""

from __future__ import annotations

from functools import partial

import pytest

from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Forbidden
from parley.domain.errors.team import Unauthorized
from parley.domain.message.message import Pattern
from parley.sdk.agent.agent import Agent
from parley.sdk.agent.decorators import on_assignment
from parley.wire.api.records.intents import Intent
from tests.fault.sdk.door import BUSY, CUT, NO_TIME, TOO_MANY, Door
from tests.rigs.team import CHANNEL, INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, Shift, answered, client_of, shift, told
from tests.unit.sdk.agent.server.bob import Bob, has_more_than


@with_server
async def test_an_agent_outlasts_its_server(server: LiveServer, quick: None) -> None:
    bob = Bob()
    async with Door(server.listener.port) as door, shift(server, bob, port=door.port):
        for number in range(0, 12, 3):
            await told(server, "bob", number, number + 1)
            await soon(partial(has_more_than, bob.texts, number))
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
                await soon(partial(has_more_than, bob.texts, number - 4))
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
