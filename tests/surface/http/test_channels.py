"""Channels over HTTP: what is accepted, what is refused, and with which words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server

ON_INTENT = f"/intents/{INTENT}/channels"
PLACE = f"/channels/{CHANNEL}"


@with_server
async def test_a_channel_looks_as_the_specification_says(server: LiveServer) -> None:
    bob = await server.client("bob")
    body = {
        "name": "data-clarification",
        "members": ["carol"],
        "member_policy": "explicit",
        "options": {"audit": True, "ttl_seconds": 3600},
    }

    created = await bob.post(ON_INTENT, body)
    shown = await bob.get(f"/channels/{created.json['id']}")

    assert created.status == 201
    assert created.json == shown.json
    assert created.json == {
        "id": created.json["id"],
        "intent_id": INTENT,
        "task_id": None,
        "name": "data-clarification",
        "created_by": "bob",
        "members": ["bob", "carol"],
        "member_policy": "explicit",
        "options": {"audit": True, "ttl_seconds": 3600, "max_messages": 1000},
        "status": "open",
        "created_at": "2026-03-13T14:30:00.000000+00:00",
        "closed_at": None,
        "message_count": 0,
        "last_message_at": None,
    }
    assert created.json["id"].startswith("chan_")


@with_server
async def test_a_name_alone_makes_a_channel_for_everyone_on_the_intent(server: LiveServer) -> None:
    bob = await server.client("bob")

    created = await bob.post(ON_INTENT, {"name": "talk"})

    assert (created.status, created.json["member_policy"], created.json["members"]) == (201, "intent", ["bob"])
    listed = await (await server.client("carol")).get(ON_INTENT)
    assert {one["name"] for one in listed.json} == {CHANNEL, "talk"}


@with_server
async def test_both_prefixes_lead_to_the_same_place(server: LiveServer) -> None:
    bob = await server.client("bob")

    assert (await bob.get(f"/v1{PLACE}")).json == (await bob.get(f"/api/v1{PLACE}")).json


@with_server
async def test_a_taken_name_is_a_conflict_that_names_the_channel(server: LiveServer) -> None:
    bob = await server.client("bob")

    refused = await bob.post(ON_INTENT, {"name": CHANNEL})

    assert (refused.status, refused.code, refused.json["channel_id"]) == (409, "name_taken", CHANNEL)


@with_server
async def test_a_conflict_never_spells_the_word_that_the_sdk_misreads(server: LiveServer) -> None:
    bob = await server.client("bob")
    await bob.post(ON_INTENT, {"name": "release-notes"})

    refused = await bob.post(ON_INTENT, {"name": "release-notes"})

    assert (refused.status, refused.code) == (409, "name_taken")
    assert b"lease" not in refused.body.lower()
    assert refused.json["channel_id"].startswith("chan_")


@pytest.mark.parametrize(
    "extra",
    [
        {"status": "closed"},
        {"tenant_id": "other"},
        {"id": "chan_mine"},
        {"options": {"audit": True, "role_id": "x"}},
        {"message_count": 7},
    ],
)
@with_server
async def test_nothing_is_assigned_that_is_not_offered(server: LiveServer, extra: dict[str, object]) -> None:
    bob = await server.client("bob")

    refused = await bob.post(ON_INTENT, {"name": "talk", **extra})

    assert (refused.status, refused.code) == (422, "invalid")
    assert refused.json["errors"][0]["code"] == "unknown_field"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x" * 65},
        {"name": "a b"},
        {"name": "x\r\nSet-Cookie: y"},
        {"name": "x\n"},
        {"name": 7},
        {"name": "x", "members": ["a\n"]},
        {"name": "x", "members": "bob"},
        {"name": "x", "member_policy": "all"},
        {"name": "x", "options": {"ttl_seconds": 0}},
        {"name": "x", "options": {"ttl_seconds": 1.5}},
        {"name": "x", "options": {"max_messages": 0}},
        {"name": "x", "options": {"max_messages": 1_000_001}},
        {"name": "x", "task_id": "task_none"},
        [],
        "x",
    ],
)
@with_server
async def test_what_is_no_channel_is_refused(server: LiveServer, body: object) -> None:
    bob = await server.client("bob")

    refused = await bob.post(ON_INTENT, body)

    assert refused.status == 422
    assert len((await bob.get(ON_INTENT)).json) == 1


@with_server
async def test_limits_hold_at_the_last_that_fits_and_at_the_first_that_does_not(server: LiveServer) -> None:
    bob = await server.client("bob")
    agents = [f"a{n}" for n in range(256)]

    assert (await bob.post(ON_INTENT, {"name": "x" * 64})).status == 201
    assert (await bob.post(ON_INTENT, {"name": "full", "members": agents[:255]})).status == 201
    assert (await bob.post(ON_INTENT, {"name": "fuller", "members": agents})).status == 422
    options = {"max_messages": 1_000_000, "ttl_seconds": 1}
    assert (await bob.post(ON_INTENT, {"name": "most", "options": options})).status == 201


@with_server
async def test_what_one_may_not_know_of_is_not_found_in_the_same_words(server: LiveServer) -> None:
    rig = server.rig
    await rig.intent("intent_closed", policy=AccessPolicy.CLOSED)
    await rig.channel("chan_closed", intent_id="intent_closed")
    await rig.channel("chan_explicit", policy=MemberPolicy.EXPLICIT)
    dave = await server.client("dave")
    foreign = await server.client("alice", tenant="other")

    for kind, hidden in (("channels", ["chan_closed", "chan_explicit"]), ("intents", ["intent_closed"])):
        tail = "/channels" if kind == "intents" else ""
        missing = await dave.get(f"/{kind}/none{tail}")
        for one in hidden:
            assert await dave.get(f"/{kind}/{one}{tail}") == missing
    missing = await foreign.get("/channels/none")
    assert (await foreign.get(PLACE)).body == missing.body
    assert (await foreign.patch(PLACE, {"status": "closed"})).body == missing.body
    assert (await foreign.delete(PLACE)).body == missing.body
    assert missing.status == 404


@with_server
async def test_members_are_managed_by_those_who_may(server: LiveServer) -> None:
    await server.rig.intent(
        "intent_2", policy=AccessPolicy.CLOSED, grants=(server.rig.grant("bob"), server.rig.grant("eve"))
    )
    await server.rig.channel("chan_2", "bob", intent_id="intent_2", policy=MemberPolicy.EXPLICIT)
    alice, bob = await server.client("alice"), await server.client("bob")

    by_member = await bob.patch("/channels/chan_2", {"add_members": ["eve"]})
    outsider = await alice.patch("/channels/chan_2", {"add_members": ["mallory"]})
    added = await alice.patch("/channels/chan_2", {"add_members": ["eve"], "remove_members": ["bob"]})
    replaced = await alice.patch("/channels/chan_2", {"members": ["bob"]})

    assert (by_member.status, by_member.code) == (403, "not_manager")
    assert (outsider.status, outsider.code) == (422, "no_intent_access")
    assert (added.status, added.json["members"]) == (200, ["alice", "eve"])
    assert replaced.json["members"] == ["alice", "bob"]
    assert (await bob.get("/channels/chan_2")).status == 200


@with_server
async def test_who_only_reads_makes_no_channel(server: LiveServer) -> None:
    await server.rig.intent("intent_2", policy=AccessPolicy.CLOSED, grants=(server.rig.grant("bob", Permission.READ),))
    bob = await server.client("bob")

    refused = await bob.post("/intents/intent_2/channels", {"name": "x"})

    assert (refused.status, refused.code) == (403, "forbidden")
    assert (await bob.get("/intents/intent_2/channels")).json == []


@with_server
async def test_options_are_changed_one_by_one_and_null_ends_a_time_to_live(server: LiveServer) -> None:
    alice = await server.client("alice")

    first = await alice.patch(PLACE, {"options": {"ttl_seconds": 60}})
    second = await alice.patch(PLACE, {"options": {"audit": True}})
    third = await alice.patch(PLACE, {"options": {"ttl_seconds": None}, "member_policy": "explicit"})

    assert first.json["options"] == {"audit": False, "ttl_seconds": 60, "max_messages": 1000}
    assert second.json["options"] == {"audit": True, "ttl_seconds": 60, "max_messages": 1000}
    assert third.json["options"] == {"audit": True, "ttl_seconds": None, "max_messages": 1000}
    assert third.json["member_policy"] == "explicit"


@pytest.mark.parametrize(
    "body", [{"created_by": "mallory"}, {"name": "other"}, {"status": "gone"}, {"members": None}, {"options": {"x": 1}}]
)
@with_server
async def test_what_cannot_be_changed_is_refused(server: LiveServer, body: dict[str, object]) -> None:
    alice = await server.client("alice")
    before = (await alice.get(PLACE)).json

    assert (await alice.patch(PLACE, body)).status == 422
    assert (await alice.get(PLACE)).json == before


@with_server
async def test_a_closed_channel_takes_no_message_and_can_be_read(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await bob.post(f"{PLACE}/messages", {"payload": {"n": 1}})

    closed = await alice.patch(PLACE, {"status": "closed"})
    refused = await bob.post(f"{PLACE}/messages", {"payload": {"n": 2}})
    reopened = await alice.patch(PLACE, {"status": "open"})

    assert (closed.json["status"], closed.json["closed_at"]) == ("closed", server.rig.at())
    assert (refused.status, refused.code) == (409, "channel_closed")
    assert (reopened.status, reopened.code) == (409, "bad_transition")
    assert [one["id"] for one in (await bob.get(f"{PLACE}/messages")).json] == [said.json["id"]]


@with_server
async def test_a_channel_closes_when_its_time_runs_out(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(ttl_seconds=60))
    bob = await server.client("bob")
    ends = server.rig.clock.at + timedelta(seconds=60)

    server.rig.clock.pass_by(seconds=61)

    shown = (await bob.get("/channels/chan_2")).json
    assert (shown["status"], shown["closed_at"]) == ("closed", ends.isoformat(timespec="microseconds"))
    assert (await bob.post("/channels/chan_2/messages", {})).code == "channel_closed"


@with_server
async def test_a_deleted_channel_is_gone_with_all_that_was_said(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await bob.post(f"{PLACE}/messages", {"payload": {"n": 1}})

    refused = await bob.delete(PLACE)
    deleted = await alice.delete(PLACE)

    assert (refused.status, refused.code) == (403, "not_manager")
    assert (deleted.status, deleted.json) == (200, {"status": "closed", "channel_id": CHANNEL})
    missing = await alice.get("/channels/none")
    for gone in (PLACE, f"{PLACE}/messages", f"{PLACE}/messages/{said.json['id']}"):
        assert await alice.get(gone) == missing
    assert (await alice.post(ON_INTENT, {"name": CHANNEL})).status == 201


@with_server
async def test_an_admin_without_a_name_rules_and_a_person_without_one_sees_nothing(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)
    human = await server.client(kind=KeyKind.HUMAN)

    assert (await admin.patch(PLACE, {"add_members": ["eve"]})).status == 200
    assert (await human.get(PLACE)).status == 404
    refused = await human.patch(PLACE, {"add_members": ["eve"]})
    assert (refused.status, refused.code) == (403, "scope_required")
