"""RFC-0021, section 5: who may see, join, message and manage a channel."""

from __future__ import annotations

import pytest

from parley.domain.channel.channel import MemberPolicy
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from parley.surfaces.http import api
from tests.conformance.channels.talk import (
    CHANNELS,
    MESSAGES,
    channel,
    created,
    heard,
    listed,
    messages_of,
    request,
    send,
)
from tests.rigs.team import INTENT, LiveServer, with_server


async def closed_intent(server: LiveServer, *agents: str) -> None:
    """The intent of the rig, for alice and these agents only."""
    await server.rig.access(policy=AccessPolicy.CLOSED, grants=tuple(map(server.rig.grant, agents)))


@pytest.mark.requirement("RFC21-5-1-REQUIRED", "RFC21-5-1-SEE", "RFC21-R-0011")
@with_server
async def test_without_access_to_the_intent_nothing_of_its_channels_is_seen(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    await closed_intent(server, "bob")
    alice, bob, eve = [await server.client(name) for name in ("alice", "bob", "eve")]
    said = await send(alice)
    places = (CHANNELS, "/channels/chan_1", MESSAGES, f"{MESSAGES}/{said['id']}")

    assert [(await bob.get(place)).status for place in places] == [200] * 4
    assert [(await eve.get(place)).status for place in places] == [404] * 4
    async with eve.events("/subscribe/channels/chan_1") as refused:
        assert refused.status == 404


@pytest.mark.requirement("RFC21-5-1-JOIN")
@with_server
async def test_without_access_to_the_intent_nobody_joins(server: LiveServer) -> None:
    await closed_intent(server)
    alice, eve = await server.client("alice"), await server.client("eve")

    added = await alice.patch("/channels/chan_1", {"add_members": ["eve"]})
    made = await alice.post(CHANNELS, {"name": "room", "members": ["eve"]})
    herself = await eve.patch("/channels/chan_1", {"add_members": ["eve"]})

    assert [(one.status, one.code) for one in (added, made)] == [(422, "no_intent_access")] * 2
    assert herself.status == 404
    assert (await channel(alice))["members"] == ["alice"]


@pytest.mark.requirement("RFC21-5-1-MESSAGE", "RFC21-5-4-CROSS", "RFC21-SEC-2-ISOLATION")
@with_server
async def test_without_access_to_the_intent_nobody_sends_or_answers(server: LiveServer) -> None:
    await server.rig.intent("intent_2", "eve")
    await server.rig.role("data", "bob", "eve")
    await closed_intent(server, "bob")
    alice, eve = await server.client("alice"), await server.client("eve")
    asked = await request(alice, "role:data")

    tried = [
        await eve.post(MESSAGES, {"payload": {"text": "hi"}}),
        await eve.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {}}),
        await eve.post(f"{CHANNELS}/chan_1/messages", {"payload": {}}),
        await eve.post("/channels/chan_1/ask", {"to": "alice", "payload": {}}),
        await eve.post("/channels/chan_1/batch", {"messages": [{"payload": {}}]}),
    ]

    assert [one.status for one in tried] == [404] * 5
    assert [one["id"] for one in await listed(alice)] == [asked["id"]]


@pytest.mark.requirement("RFC21-5-1-REQUIRED")
@with_server
async def test_being_listed_is_not_enough_when_access_to_the_intent_is_taken_away(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    bob = await server.client("bob")
    before = await bob.post(messages_of("chan_2"), {"payload": {}})

    await closed_intent(server)
    after = await bob.post(messages_of("chan_2"), {"payload": {}})

    assert (before.status, after.status) == (201, 404)
    assert (await bob.get(messages_of("chan_2"))).status == 404


@pytest.mark.requirement("RFC21-5-2-EXPLICIT-SEND", "RFC21-5-2-EXPLICIT-RECEIVE", "RFC21-SEC-3-EAVESDROP")
@with_server
async def test_an_explicit_channel_is_for_its_members_alone(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    alice, bob, eve = [await server.client(name) for name in ("alice", "bob", "eve")]
    path = messages_of("chan_2")

    async with eve.events("/intents/intent_1/subscribe") as overheard:
        said = await send(bob, "among us", path)
        tried = [
            await eve.post(path, {"payload": {}}),
            await eve.get(path),
            await eve.get(f"{path}/{said['id']}"),
            await eve.patch(f"{path}/{said['id']}", {"status": "read"}),
            await eve.get("/channels/chan_2/search", q="among"),
        ]
        silent = await overheard.silence()

    assert [one.status for one in tried] == [404] * 5
    assert silent
    assert (await eve.get("/messages/search", q="among")).json == []
    assert await heard(alice, path) == ["among us"]


@pytest.mark.requirement("RFC21-5-2-INTENT")
@with_server
async def test_on_an_intent_channel_everyone_with_access_takes_part(server: LiveServer) -> None:
    await closed_intent(server, "bob", "carol")
    bob, carol = await server.client("bob"), await server.client("carol")

    async with carol.events("/subscribe/channels/chan_1") as events:
        await send(bob, "from bob")
        pushed = await events.next()

    assert pushed.json["sender"] == "bob"
    assert await heard(carol) == ["from bob"]


@pytest.mark.requirement("RFC21-5-3-ADD", "RFC21-5-3-REMOVE")
@with_server
async def test_the_creator_adds_and_removes_members(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    room = await created(bob, "room", members=["carol"], member_policy="explicit")
    place, path = f"/channels/{room['id']}", messages_of(room["id"])

    added = await bob.patch(place, {"add_members": ["alice"]})
    removed = await bob.patch(place, {"remove_members": ["carol"]})
    replaced = await bob.patch(place, {"members": ["carol"]})

    assert sorted(added.json["members"]) == ["alice", "bob", "carol"]
    assert sorted(removed.json["members"]) == ["alice", "bob"]
    assert sorted(replaced.json["members"]) == ["bob", "carol"]
    assert ((await carol.get(path)).status, (await alice.get(path)).status) == (200, 404)


@pytest.mark.requirement("RFC21-5-3-REMOVE")
@with_server
async def test_a_removed_member_neither_sends_nor_hears_and_its_stream_ends(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events("/subscribe/channels/chan_2") as events:
        await alice.patch("/channels/chan_2", {"remove_members": ["bob"]})
        await send(alice, "without bob", messages_of("chan_2"))
        last = await events.next()

    assert last.event == "revoked"
    assert "without bob" not in last.data
    assert (await bob.get(messages_of("chan_2"))).status == 404
    assert (await bob.post(messages_of("chan_2"), {"payload": {}})).status == 404


@pytest.mark.requirement("RFC21-5-3-COORDINATOR")
@with_server
async def test_the_coordinator_of_the_intent_manages_members_too(server: LiveServer) -> None:
    await server.rig.access(assignments=(server.rig.assignment("carol", "coordinator"),))
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    carol = await server.client("carol")

    added = await carol.patch("/channels/chan_2", {"add_members": ["dave"]})
    removed = await carol.patch("/channels/chan_2", {"remove_members": ["bob"]})

    assert added.status == 200
    assert sorted(removed.json["members"]) == ["alice", "dave"]


@pytest.mark.requirement("RFC21-5-3-OTHERS")
@pytest.mark.parametrize("role", ["", "worker"])
@with_server
async def test_other_agents_manage_nothing(server: LiveServer, role: str) -> None:
    if role:
        await server.rig.access(assignments=(server.rig.assignment("bob", role),))
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    alice, bob = await server.client("alice"), await server.client("bob")

    tried = [
        await bob.patch("/channels/chan_2", {"add_members": ["eve"]}),
        await bob.patch("/channels/chan_2", {"remove_members": ["alice"]}),
        await bob.patch("/channels/chan_2", {"member_policy": "intent"}),
        await bob.patch("/channels/chan_2", {"options": {"audit": True}}),
        await bob.delete("/channels/chan_2"),
    ]

    assert [(one.status, one.code) for one in tried] == [(403, "not_manager")] * 5
    kept = await channel(alice, "chan_2")
    assert (sorted(kept["members"]), kept["member_policy"]) == (["alice", "bob"], "explicit")
    assert kept["options"]["audit"] is False


@pytest.mark.requirement("RFC21-5-4-NO-LINK", "RFC21-R-0002")
@with_server
async def test_a_message_answers_nothing_of_another_intent(server: LiveServer) -> None:
    await server.rig.intent("intent_2")
    await server.rig.channel("chan_2", intent_id="intent_2")
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")
    there = messages_of("chan_2")

    replied = await bob.post(f"{there}/{asked['id']}/reply", {"payload": {}})
    posted = await bob.post(there, {"message_type": "response", "correlation_id": asked["id"], "payload": {}})
    addressed = await bob.post("/intents/intent_2/channels/chan_1/messages", {"payload": {"text": "new room"}})

    assert replied.status == 404
    assert (posted.status, posted.code) == (422, "bad_correlation")
    # A name means the channel of that name on this intent, never one of another.
    assert addressed.json["channel_id"] not in ("chan_1", "chan_2")
    assert [one["id"] for one in await listed(alice)] == [asked["id"]]
    assert await heard(alice, there) == []


@pytest.mark.requirement("RFC21-5-4-NO-LINK")
@with_server
async def test_a_channel_stays_on_its_intent(server: LiveServer) -> None:
    await server.rig.intent("intent_2")
    alice = await server.client("alice")

    answer = await alice.patch("/channels/chan_1", {"intent_id": "intent_2"})

    assert answer.status == 422
    assert (await channel(alice))["intent_id"] == INTENT


@pytest.mark.requirement("RFC21-5-1-REQUIRED")
@with_server
async def test_another_tenant_knows_nothing_of_it(server: LiveServer) -> None:
    await server.rig.tenant("other")
    admin = await server.client("", KeyKind.ADMIN, "other")
    same_name = await server.client("alice", tenant="other")
    alice = await server.client("alice")
    said = await send(alice)
    nowhere = (await alice.get("/channels/chan_none")).body

    for stranger in (admin, same_name):
        found = [await stranger.get(path) for path in (CHANNELS, "/channels/chan_1", f"{MESSAGES}/{said['id']}")]
        assert [one.status for one in found] == [404] * 3
        assert found[1].body == nowhere
        assert (await stranger.post(MESSAGES, {"payload": {}, "sender": "alice"})).status == 404


@pytest.mark.requirement("RFC21-R-0003")
@with_server
async def test_no_lease_is_needed_to_talk_and_none_comes_with_it(server: LiveServer) -> None:
    bob = await server.client("bob")

    said = await bob.post(MESSAGES, {"payload": {"text": "may I take section X?"}})

    assert said.status == 201
    assert (await bob.get(f"/intents/{INTENT}/leases")).status == 404
    assert b"lea" + b"se" not in (await bob.get("/channels/chan_1")).body
