"""Streams over HTTP: each event once, in order, resumable; and never longer than the right to them."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from parley.domain.channel.channel import MemberPolicy, without_member
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Unavailable
from parley.domain.store.changes import TeamChanges
from parley.domain.store.limits import TeamLimits
from parley.surfaces.http import api, server
from parley.surfaces.http.http1.message import HttpLimits
from tests.rigs.team import (
    AT_ONCE,
    CHANNEL,
    INTENT,
    Events,
    LiveServer,
    in_loop,
    live_server,
    open_rig,
    soon,
    with_server,
)

pytestmark = pytest.mark.both_stores

PLACE = f"/channels/{CHANNEL}/messages"
STREAM = f"/channels/{CHANNEL}/subscribe"


async def seqs(events: Events, count: int) -> list[int]:
    return [(await events.next()).json["seq"] for _ in range(count)]


@with_server
async def test_a_message_reaches_the_streams_of_its_channel_its_intent_and_its_reader(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    for path, name in (
        (STREAM, "channel_message"),
        (f"/subscribe/channels/{CHANNEL}", "channel_message"),
        (f"/intents/{INTENT}/subscribe", "CHANNEL_MESSAGE"),
        (f"/subscribe/intents/{INTENT}", "channel_message"),
        ("/agents/bob/subscribe", "CHANNEL_MESSAGE"),
        ("/subscribe/agents/bob", "channel_message"),
    ):
        async with bob.events(path) as events:
            sent = await alice.post(PLACE, {"payload": {"text": "hello"}})
            event = await events.next()

            assert events.headers["content-type"] == "text/event-stream"
            assert (event.event, event.json) == (name, {**sent.json, "intent_id": INTENT})
            assert re.fullmatch(r"[0-9]+", event.id)


@with_server
async def test_text_cannot_forge_an_event(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    text = "a\n\nevent: x\ndata: y\r\n\r\nid: 9\u2028\u2029\x85\r"

    async with bob.events(STREAM) as events:
        await alice.post(PLACE, {"payload": {"text": text, text: 1}, "metadata": {"m": text}})
        event = await events.next()

        assert event.event == "channel_message"
        assert event.json["payload"] == {"text": text, text: 1}
        assert await events.silence()


@with_server
async def test_an_event_with_a_forged_name_stays_one_event(server: LiveServer) -> None:
    bob = await server.client("bob")
    event = server.rig.team.event(INTENT, "x\ndata: forged\n\nevent: y", "alice", b"{}")

    async with bob.events(f"/subscribe/intents/{INTENT}") as events:
        await server.rig.store.commit(TeamChanges("default", events=(event,)))

        assert (await events.next()).event == "event"
        assert await events.silence()


@with_server
async def test_a_stream_resumes_after_the_last_event_without_loss_or_repeat(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    for n in range(1, 11):
        await alice.post(PLACE, {"payload": {"n": n}, **({"to": "carol"} if n % 4 == 0 else {})})

    seen: list[int] = []
    last = "0"
    for count in (2, 3, 3):
        async with bob.events(STREAM, last_event_id=last) as events:
            for _ in range(count):
                event = await events.next()
                seen.append(event.json["seq"])
                last = event.id
    async with bob.events(f"{STREAM}?last_event_id={last}") as events:
        await alice.post(PLACE, {})
        seen += await seqs(events, 1)

        assert await events.silence()
    assert seen == [1, 2, 3, 5, 6, 7, 9, 10, 11]


@with_server
async def test_a_stream_goes_on_after_a_restart_of_the_server(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    async with bob.events(STREAM) as events:
        await alice.post(PLACE, {})
        last = (await events.next()).id
    await alice.post(PLACE, {})
    await alice.post(PLACE, {})

    await server.restart()

    bob = await server.client("bob")
    async with bob.events(STREAM, last_event_id=last) as events:
        assert await seqs(events, 2) == [2, 3]


@with_server
async def test_many_readers_and_writers_all_see_one_order(server: LiveServer) -> None:
    writers = [await server.client(f"a{n}") for n in range(4)]
    bob = await server.client("bob")

    async def write(n: int) -> None:
        for _ in range(25):
            assert (await writers[n].post(PLACE, {})).status == 201

    async with bob.events(STREAM) as one, bob.events(STREAM, last_event_id="0") as two:
        await asyncio.gather(*map(write, range(4)))

        assert await seqs(one, 100) == await seqs(two, 100) == list(range(1, 101))


@with_server
async def test_a_directed_message_is_on_no_other_stream(server: LiveServer) -> None:
    alice, carol = await server.client("alice"), await server.client("carol")

    for path in (STREAM, f"/intents/{INTENT}/subscribe", "/agents/carol/subscribe"):
        async with carol.events(path, last_event_id="0") as events:
            await alice.post(PLACE, {"to": "bob", "payload": {"secret": 1}})

            assert await events.silence()


# ---------------------------------------------------------------- rights


@pytest.mark.slow
@with_server
async def test_a_removed_member_is_told_at_once_and_then_finds_nothing(server: LiveServer) -> None:
    channel = await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    bob, alice = await server.client("bob"), await server.client("alice")

    async with bob.events("/channels/chan_2/subscribe") as events:
        await server.rig.put(without_member(channel, "bob"))
        await alice.post("/channels/chan_2/messages", {"payload": {"secret": 1}})

        assert (await events.next(AT_ONCE)).event == "revoked"
        with pytest.raises(EOFError):
            await events.next(AT_ONCE)
    refused = await bob.get("/channels/chan_2/subscribe")
    assert refused.status == 404
    assert (await bob.get("/channels/chan_2/messages", since=0)).status == 404


@with_server
async def test_a_revoked_key_ends_its_streams_at_once(server: LiveServer) -> None:
    bob = await server.client("bob")

    async with bob.events(STREAM) as channel, bob.events("/agents/bob/subscribe") as agent:
        await server.rig.revoke("bob")

        assert [(await one.next(AT_ONCE)).event for one in (channel, agent)] == ["revoked", "revoked"]
    assert (await bob.get(PLACE)).status == 401


@with_server
async def test_lost_access_to_the_intent_ends_its_streams_at_once(server: LiveServer) -> None:
    await server.rig.intent("intent_2", policy=AccessPolicy.CLOSED, grants=(server.rig.grant("bob"),))
    await server.rig.channel("chan_2", intent_id="intent_2")
    bob = await server.client("bob")

    async with bob.events("/intents/intent_2/subscribe") as one, bob.events("/channels/chan_2/subscribe") as two:
        await server.rig.access("intent_2", grants=())

        assert [(await stream.next(AT_ONCE)).event for stream in (one, two)] == ["revoked", "revoked"]


@pytest.mark.slow
@with_server
async def test_what_one_may_not_follow_is_not_found_after_a_moment(server: LiveServer) -> None:
    await server.rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    paths = ("/channels/chan_2/subscribe", "/channels/none/subscribe", "/agents/alice/subscribe")
    clients = [await server.client("dave") for _ in paths]
    began = asyncio.get_running_loop().time()

    refusals = await asyncio.gather(
        *(client.get(path) for client, path in zip(clients, paths, strict=True)),
        server.with_key("wrong").get(STREAM),
        (await server.client("dave")).get(STREAM, headers={"Last-Event-ID": "x"}),
    )

    # Whoever is refused comes back at once, for ever: it is made to wait.
    assert asyncio.get_running_loop().time() - began >= 0.9
    assert [one.status for one in refusals] == [404, 404, 404, 401, 422]
    assert refusals[0].body == refusals[1].body


# ---------------------------------------------------------------- limits


@in_loop
async def test_a_key_has_so_many_streams_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    async with open_rig(tmp_path) as rig, live_server(rig) as live:
        rig.team.limits = TeamLimits(streams_per_key=2, streams=3)
        await rig.intent()
        await rig.channel()
        bob, carol, dave = await live.client("bob"), await live.client("carol"), await live.client("dave")

        async with bob.events(STREAM), carol.events(STREAM):
            async with bob.events(STREAM):
                by_key = await bob.get(STREAM)
                of_all = await dave.get(STREAM)
                assert [(one.status, one.code) for one in (by_key, of_all)] == [(429, "rate_limited")] * 2
                assert int(by_key.headers["retry-after"]) >= 1

            async def is_free() -> bool:
                async with bob.events(STREAM) as again:
                    return again.status == 200

            await soon(is_free)


@in_loop
async def test_a_key_for_a_fleet_has_so_many_streams_for_each_agent_and_ten_times_as_many_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    async with open_rig(tmp_path) as rig, live_server(rig) as live, AsyncExitStack() as open_streams:
        rig.team.limits = TeamLimits(streams_per_key=1)
        key = await rig.key("", KeyKind.SERVICE)
        fleet = [live.with_key(key, f"agent-{n}") for n in range(11)]

        for n, one in enumerate(fleet[:10]):
            events = await open_streams.enter_async_context(one.events(f"/agents/agent-{n}/subscribe"))
            assert events.status == 200

        assert (await fleet[0].get("/agents/agent-0/subscribe")).status == 429
        assert (await fleet[10].get("/agents/agent-10/subscribe")).status == 429


@with_server
async def test_a_stream_that_never_began_is_not_counted(server: LiveServer) -> None:
    server.rig.team.limits = TeamLimits(streams_per_key=1)
    bob = await server.client("bob")

    for _ in range(3):
        assert (await bob.request("HEAD", STREAM)).status == 200

    async with bob.events(STREAM) as events:
        assert events.status == 200


@pytest.mark.slow
@in_loop
async def test_a_reader_that_does_not_read_is_cut_off_and_resumes_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HttpLimits", lambda **limits: HttpLimits(write_seconds=0.3, **limits))
    text = "x" * 60_000
    async with open_rig(tmp_path) as rig:
        await rig.intent()
        await rig.channel()
        async with live_server(rig) as live:
            alice, bob = await live.client("alice"), await live.client("bob")
            stuck = await bob.connect()
            stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a read transport too
            asked = f"GET /api/v1{STREAM} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {await rig.key('bob')}\r\n\r\n"
            stuck.writer.write(asked.encode())
            await soon(lambda: bool(rig.team.tail._listeners))

            for _ in range(300):
                await alice.post(PLACE, {"payload": {"text": text}})
            await soon(lambda: not rig.team.tail._listeners)

        monkeypatch.undo()  # on a busy machine one who reads would look like one who does not
        async with live_server(rig) as live, (await live.client("bob")).events(STREAM, last_event_id="0") as events:
            assert await seqs(events, 300) == list(range(1, 301))


@with_server
async def test_a_service_key_follows_any_agent_and_an_agent_only_itself(server: LiveServer) -> None:
    fleet, alice = await server.client(kind=KeyKind.SERVICE), await server.client("alice")

    async with fleet.events("/agents/bob/subscribe") as events:
        await alice.post(PLACE, {"to": "bob"})

        assert (await events.next()).json["to"] == "bob"


@with_server
async def test_an_assignment_is_told_in_the_words_of_the_sdk(server: LiveServer) -> None:
    bob = await server.client("bob")
    await server.rig.access(assignments=(server.rig.assignment("bob"),))
    payload = json.dumps({"agent_id": "bob", "role": "worker"}).encode()
    event = server.rig.team.event(INTENT, "agent_assigned", "alice", payload)

    async with bob.events("/agents/bob/subscribe") as events:
        await server.rig.store.commit(TeamChanges("default", events=(event,)))
        told = await events.next()

        assert told.event == "AGENT_ASSIGNED"
        assert (told.json["intent_id"], told.json["agent_id"], told.json["delegated_by"]) == (INTENT, "bob", "alice")


@with_server
async def test_a_stream_whose_store_is_lost_comes_to_a_proper_end_and_goes_on_later(server: LiveServer) -> None:
    bob = await server.client("bob")
    async with bob.events(STREAM) as events:
        await server.rig.say("alice")
        seen = await events.next()

        server.rig.team.tail.fail(Unavailable("the store is gone"))

        with pytest.raises(EOFError):
            await events.next()
        assert events.comments[-1] == "the store cannot be reached, come back"
    await server.rig.say("alice")
    async with bob.events(STREAM, last_event_id=seen.id) as resumed:
        assert await seqs(resumed, 1) == [2]


@pytest.mark.both_stores
@with_server
async def test_a_stream_sends_the_id_alone_when_it_has_passed_over_what_is_hidden(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    for _ in range(3):
        await alice.post(f"/channels/{CHANNEL}/messages", {"to": "carol", "payload": {}})

    async with bob.events("/agents/bob/subscribe", last_event_id="0") as events:
        assert await events.connection.chunk() == b"id: 3\n\n"


@pytest.mark.both_stores
@with_server
async def test_a_stream_resumed_behind_evicted_messages_begins_with_the_range(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    channel = (await alice.post(f"/intents/{INTENT}/channels", {"name": "small", "options": {"max_messages": 3}})).json[
        "id"
    ]
    for _ in range(8):
        await alice.post(f"/channels/{channel}/messages", {"payload": {}})

    for path, name in ((f"/channels/{channel}/subscribe", "evicted"), ("/agents/bob/subscribe", "EVICTED")):
        async with bob.events(path, last_event_id="1") as events:
            told = await events.next()
            assert (told.id, told.event, told.json) == (
                "1",
                name,
                {"channel_id": channel, "through": 5, "oldest": 6},
            )
            assert [(await events.next()).json["seq"] for _ in range(3)] == [6, 7, 8]
