"""Following, on a real server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.sdk.client.streams import AsyncStreams
from parley.surfaces.http.origins import LOCAL_NAMES
from parley.surfaces.http.server import Reach, serve
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods, recorded

pytestmark = pytest.mark.both_stores


async def taken(items: Any, count: int) -> list[Any]:
    """So many items of a stream, which is closed then."""
    found = []
    async with aclosing(items):
        async for item in items:
            found.append(item)
            if len(found) == count:
                return found
    raise AssertionError("the stream ended")


async def begin_again(server: LiveServer) -> None:
    """End the server and every connection to it, and begin again at the same address."""
    port = server.listener.port
    await server.listener.drain(0.0)
    server.listener = await serve(
        server.rig.team,
        "127.0.0.1",
        port,
        now=server.rig.clock.at.timestamp,
        monotonic=lambda: server.rig.clock.uptime,
        reach=Reach(LOCAL_NAMES),
        limited=False,
    )


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


@with_server
async def test_several_topics_come_on_one_stream(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        said = await alice.send_message(CHANNEL, payload={"text": "hello"})

        (item,) = await taken(alice.follow_live("audit", f"channel:{CHANNEL}", after="0.0"), 1)

        assert (item.name, item.document["id"]) == ("channel_message", said.id)
        assert item.id.endswith(".0")
        with pytest.raises(Invalid):
            await taken(alice.follow_live("weather"), 1)


@with_server
async def test_a_stream_gives_messages_and_events_as_records(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        said = await alice.send_message(CHANNEL, payload={"text": "hello"})
        changed = await alice.update_state(INTENT, {"phase": "two"})

        first, second = await taken(alice.follow(intent=INTENT, after="0"), 2)

        assert (first.name, first.message.id, first.message.intent_id) == ("channel_message", said.id, INTENT)
        assert first.event is None
        assert (second.name, second.event.event_type, second.message) == ("state_changed", "state_patched", None)
        assert second.event.payload["state"] == changed.state
        [again] = await taken(alice.follow(intent=INTENT, after=first.id), 1)
        assert again == second
        ticket = await alice.create_stream_ticket(f"/api/v1/channels/{CHANNEL}/subscribe")
        assert (ticket.path, len(ticket.ticket) > 32) == (f"/api/v1/channels/{CHANNEL}/subscribe", True)
        assert alice.called | {"follow_live"} >= public_methods(AsyncStreams)


@with_server
async def test_channels_and_agents_have_streams_too(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice, recorded(server, "bob") as bob:
        said = await alice.send_message(CHANNEL, None, "bob", payload={"text": "for bob"})

        [heard] = await taken(bob.follow(channel=CHANNEL, after="0"), 1)
        assert heard.message.id == said.id
        [heard] = await taken(bob.follow(agent="bob", after="0"), 1)
        assert heard.message.payload == {"text": "for bob"}


@with_server
async def test_a_stream_goes_on_by_itself_where_the_connection_broke(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        alice.client.connection._pause = at_once
        await alice.send_message(CHANNEL, payload={"n": 0})
        stream = alice.follow(channel=CHANNEL, after="0")
        async with aclosing(stream):
            seen = [await anext(stream)]
            await begin_again(server)
            await alice.send_message(CHANNEL, payload={"n": 1})
            seen.append(await anext(stream))

    assert [item.message.payload["n"] for item in seen] == [0, 1]


@with_server
async def test_what_may_not_be_followed_is_refused(server: LiveServer) -> None:
    async with recorded(server, "bob") as bob:
        with pytest.raises(NotFound):
            await taken(bob.follow(agent="alice"), 1)


@with_server
async def test_one_thing_is_followed_at_a_time(server: LiveServer) -> None:
    async with recorded(server, "bob") as bob:
        with pytest.raises(Invalid, match="name what to follow"):
            await taken(bob.follow(), 1)
        with pytest.raises(Invalid, match="name what to follow"):
            await taken(bob.follow(agent="bob", channel=CHANNEL), 1)


@with_server
async def test_a_stream_to_no_server_is_refused_without_patience(server: LiveServer) -> None:
    async with recorded(server, "bob") as bob:
        await server.listener.drain(0.0)
        with pytest.raises(Unavailable, match="no server answers"):
            await asyncio.wait_for(taken(bob.as_agent("bob", patience=0).follow(agent="bob"), 1), 10)
