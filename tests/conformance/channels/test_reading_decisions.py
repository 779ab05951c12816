"""What Parley answers where RFC-0021 is open about reading: long lists, streams, browsers."""

from __future__ import annotations

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.channel.channel import Options
from tests.conformance.channels.talk import MESSAGES, listed, send
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server

pytestmark = pytest.mark.both_stores


@pytest.mark.requirement("CHAN-12-EVICTED-STREAM")
@with_server
async def test_a_stream_behind_evicted_messages_says_so_first(server: LiveServer) -> None:
    await server.rig.channel("chan_small", label="small", options=Options(max_messages=3))
    bob = await server.client("bob")
    for _ in range(6):
        await server.rig.say("alice", channel_id="chan_small")

    async with bob.events("/channels/chan_small/subscribe", last_event_id="1") as events:
        told = await events.next()
        shown = [(await events.next()).json["seq"] for _ in range(3)]

    assert (told.event, told.json) == ("evicted", {"channel_id": "chan_small", "through": 3, "oldest": 4})
    assert shown == [4, 5, 6]


@pytest.mark.requirement("CHAN-12-PROGRESS")
@with_server
async def test_a_stream_sends_its_place_where_it_has_nothing_to_show(server: LiveServer) -> None:
    bob = await server.client("bob")
    for _ in range(3):
        await server.rig.say("alice", to="carol")

    async with bob.events(f"/channels/{CHANNEL}/subscribe", last_event_id="0") as events:
        assert await events.connection.chunk() == b"id: 3\n\n"


@pytest.mark.requirement("CHAN-12-WHOLE")
@with_server
async def test_a_long_list_without_limit_is_whole(server: LiveServer) -> None:
    alice = await server.client("alice")
    for _ in range(30):
        assert (await alice.post(MESSAGES, {"payload": {"long": ["x" * 60_000]}})).status == 201

    answer = await alice.get(MESSAGES)

    assert [message["seq"] for message in answer.json] == list(range(1, 31))
    assert answer.headers["x-next-cursor"] == answer.json[-1]["id"]


@pytest.mark.requirement("CHAN-9-HINT")
@with_server
async def test_the_refusal_of_a_closed_channel_says_how_its_name_is_free_again(server: LiveServer) -> None:
    alice = await server.client("alice")
    channels = f"/intents/{INTENT}/channels"
    short = (await alice.post(channels, {"name": "short", "options": {"ttl_seconds": 1}})).json["id"]
    server.rig.clock.pass_by(seconds=2)

    for swept in (False, True):
        if swept:
            await sweep(server.rig.team)
        for path in (f"/channels/{short}/messages", f"{channels}/short/messages"):
            refused = await alice.post(path, {"payload": {}})
            assert (refused.status, refused.code) == (409, "channel_closed")
            assert "delete the channel" in refused.json["detail"]
    assert (await alice.delete(f"/channels/{short}")).status == 200
    assert (await alice.post(f"{channels}/short/messages", {"payload": {}})).status == 201


@pytest.mark.requirement("CHAN-13-NAMES")
@pytest.mark.parametrize(("to", "status"), [("bob", 200), ("*", 422), ("role:x", 422)])
@with_server
async def test_the_to_filter_takes_the_name_of_an_agent(server: LiveServer, to: str, status: int) -> None:
    alice = await server.client("alice")

    assert (await alice.get(MESSAGES, to=to)).status == status


@pytest.mark.requirement("CHAN-13-ONESELF")
@with_server
async def test_mail_to_oneself_is_listed_and_streamed(server: LiveServer) -> None:
    bob = await server.client("bob")

    async with bob.events("/agents/bob/subscribe") as events:
        said = await send(bob, "remember", to="bob")
        assert (await events.next()).json["id"] == said["id"]
    assert [message["id"] for message in await listed(bob)] == [said["id"]]


@pytest.mark.requirement("RFC21-2.4-BROWSER")
@with_server
async def test_a_browser_follows_a_stream_with_a_ticket(server: LiveServer) -> None:
    bob, browser = await server.client("bob"), server.with_key("")
    path = f"/api/v1/channels/{CHANNEL}/subscribe"
    ticket = (await bob.post("/streams/tickets", {"path": path})).json["ticket"]

    async with browser.events(f"{path}?ticket={ticket}") as events:
        assert events.status == 200
        await server.rig.say("alice", to="bob")
        assert (await events.next()).event == "channel_message"
    async with browser.events(f"{path}?api_key=secret") as events:
        assert events.status == 401
