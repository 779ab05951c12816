"""RFC-0021, section 1: the channel, field by field, and how it comes and goes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from tests.conformance.channels.talk import (
    CHANNEL_FIELDS,
    CHANNELS,
    MESSAGES,
    OPTION_FIELDS,
    a_task,
    channel,
    created,
    heard,
    messages_of,
    send,
)
from tests.rigs.team import INTENT, LiveServer, with_server


@pytest.mark.requirement("RFC21-1.1-OBJECT")
@with_server
async def test_a_channel_has_exactly_the_fields_of_the_text(server: LiveServer) -> None:
    alice = await server.client("alice")

    made = await created(alice, "data-clarification")

    assert set(made) == CHANNEL_FIELDS
    assert set(made["options"]) == OPTION_FIELDS
    assert await channel(alice, made["id"]) == made


@pytest.mark.requirement("RFC21-1-NAMED", "RFC21-1.2-INTENT-ID")
@with_server
async def test_a_channel_has_its_name_and_the_intent_it_was_made_on(server: LiveServer) -> None:
    await server.rig.intent("intent_2")
    alice = await server.client("alice")

    made = await created(alice, "data-clarification", "/intents/intent_2/channels")

    assert (made["name"], made["intent_id"]) == ("data-clarification", "intent_2")
    assert [one["id"] for one in (await alice.get("/intents/intent_2/channels")).json] == [made["id"]]


@pytest.mark.requirement("RFC21-0-INTENT-SCOPED", "RFC21-R-0001")
@with_server
async def test_there_is_no_channel_without_an_intent(server: LiveServer) -> None:
    alice = await server.client("alice")

    on_nothing = await alice.post("/intents/intent_none/channels", {"name": "lost"})
    beside = await alice.post("/channels", {"name": "lost"})

    # Channels of all intents can be listed there, not created.
    assert (on_nothing.status, beside.status) == (404, 405)


@pytest.mark.requirement("RFC21-0-AGENT-ONLY")
@pytest.mark.parametrize(
    ("method", "path", "body", "refused"),
    [
        ("POST", CHANNELS, {"name": "hall"}, (403, "scope_required")),
        ("PATCH", "/channels/chan_1", {"status": "closed"}, (403, "scope_required")),
        ("GET", CHANNELS, None, (404, "not_found")),
        ("GET", "/channels/chan_1", None, (404, "not_found")),
        ("POST", MESSAGES, {"payload": {}}, (422, "invalid")),
        ("GET", MESSAGES, None, (404, "not_found")),
    ],
)
@with_server
async def test_a_person_who_is_in_no_agents_place_takes_no_part_in_channels(
    server: LiveServer, method: str, path: str, body: dict[str, object] | None, refused: tuple[int, str]
) -> None:
    person = await server.client("", KeyKind.HUMAN)

    answer = await person.request(method, path, body)

    assert (answer.status, answer.code) == refused


@pytest.mark.requirement("RFC21-1.2-ID")
@with_server
async def test_channel_ids_are_unique(server: LiveServer) -> None:
    alice = await server.client("alice")

    ids = [(await created(alice, f"room-{number}"))["id"] for number in range(5)]

    assert len(set(ids)) == 5
    assert all(one.startswith("chan_") for one in ids)


@pytest.mark.requirement("RFC21-1.2-ID-GENERATED")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "chan_mine"),
        ("status", "closed"),
        ("intent_id", "intent_2"),
        ("created_at", "2026-02-13T10:00:00Z"),
        ("message_count", 5),
    ],
)
@with_server
async def test_what_the_server_sets_cannot_be_chosen(server: LiveServer, field: str, value: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post(CHANNELS, {"name": "mine", field: value})

    assert answer.status == 422
    assert field in answer.json["detail"]
    assert [one["name"] for one in (await alice.get(CHANNELS)).json] == ["chan_1"]


@pytest.mark.requirement("RFC21-1.2-TASK-ID")
@with_server
async def test_a_channel_may_be_scoped_to_a_task_of_its_intent(server: LiveServer) -> None:
    await a_task(server)
    alice = await server.client("alice")

    assert (await created(alice, "work", task_id="task_1"))["task_id"] == "task_1"


@pytest.mark.requirement("RFC21-1.2-TASK-NULL")
@with_server
async def test_a_channel_without_a_task_says_null(server: LiveServer) -> None:
    alice = await server.client("alice")

    assert (await created(alice, "work"))["task_id"] is None
    assert (await created(alice, "work-2", task_id=None))["task_id"] is None


@pytest.mark.requirement("RFC21-1.2-TASK-WITHIN")
@pytest.mark.parametrize("task_id", ["task_none", "task_2"])
@with_server
async def test_a_task_of_elsewhere_scopes_nothing(server: LiveServer, task_id: str) -> None:
    await server.rig.intent("intent_2")
    await a_task(server, "task_2", "intent_2")
    alice = await server.client("alice")

    answer = await alice.post(CHANNELS, {"name": "work", "task_id": task_id})

    assert answer.status == 422
    assert answer.json["errors"][0]["field"] == "task_id"


@pytest.mark.requirement("RFC21-1.2-NAME-REQUIRED")
@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": None}, {"name": 7}])
@with_server
async def test_a_channel_needs_a_name(server: LiveServer, body: dict[str, object]) -> None:
    alice = await server.client("alice")

    answer = await alice.post(CHANNELS, body)

    assert answer.status == 422
    assert "name" in answer.json["detail"]


@pytest.mark.both_stores
@pytest.mark.requirement("RFC21-1.2-NAME-UNIQUE")
@with_server
async def test_a_name_is_given_once_on_an_intent(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await created(alice, "hall")

    again = await bob.post(CHANNELS, {"name": "hall"})

    assert (again.status, again.code) == (409, "name_taken")
    assert [one["name"] for one in (await alice.get(CHANNELS)).json].count("hall") == 1


@pytest.mark.requirement("RFC21-1.2-NAME-PER-INTENT")
@with_server
async def test_another_intent_may_have_a_channel_of_the_same_name(server: LiveServer) -> None:
    await server.rig.intent("intent_2")
    alice = await server.client("alice")

    here = await created(alice, "hall")
    there = await created(alice, "hall", "/intents/intent_2/channels")

    assert here["id"] != there["id"]


@pytest.mark.requirement("RFC21-1.2-CREATED-BY")
@with_server
async def test_the_creator_is_the_agent_of_the_key(server: LiveServer) -> None:
    bob = await server.client("bob")
    for_carol = await server.client("", KeyKind.SERVICE, speaks_as="carol")

    assert (await created(bob, "bobs"))["created_by"] == "bob"
    assert (await created(for_carol, "carols"))["created_by"] == "carol"


@pytest.mark.requirement("RFC21-1.2-CREATED-BY")
@with_server
async def test_a_key_for_several_agents_names_the_creator_and_another_names_itself_only(server: LiveServer) -> None:
    fleet, bob = await server.client("", KeyKind.SERVICE), await server.client("bob")

    answer = await fleet.post(CHANNELS, {"name": "as-in-the-example", "created_by": "carol"})
    other = await bob.post(CHANNELS, {"name": "of-another", "created_by": "carol"})

    assert (answer.status, answer.json["created_by"], answer.json["members"]) == (201, "carol", ["carol"])
    assert (other.status, other.code) == (403, "sender_mismatch")
    assert (await bob.post(CHANNELS, {"name": "own", "created_by": "bob"})).status == 201


@pytest.mark.requirement("RFC21-1.2-MEMBERS")
@with_server
async def test_members_are_a_list_of_agents_each_once(server: LiveServer) -> None:
    alice = await server.client("alice")

    made = await created(alice, "hall", members=["bob", "carol", "bob"])
    no_list = await alice.post(CHANNELS, {"name": "no-list", "members": "bob"})
    no_name = await alice.post(CHANNELS, {"name": "no-name", "members": ["role:x"]})

    assert sorted(made["members"]) == ["alice", "bob", "carol"]
    assert (no_list.status, no_name.status) == (422, 422)


@pytest.mark.requirement("RFC21-1.2-MEMBERS-PERMITTED", "RFC21-1.2-POLICY-EXPLICIT")
@with_server
async def test_only_the_listed_talk_on_an_explicit_channel(server: LiveServer) -> None:
    alice, bob, eve = [await server.client(name) for name in ("alice", "bob", "eve")]
    room = await created(alice, "room", members=["bob"], member_policy="explicit")
    path = messages_of(room["id"])

    await send(bob, "from bob", path)
    eves_try = await eve.post(path, {"payload": {"text": "from eve"}})

    assert eves_try.status == 404
    assert await heard(alice, path) == await heard(bob, path) == ["from bob"]
    assert (await eve.get(path)).status == 404


@pytest.mark.requirement("RFC21-1.2-POLICY-INTENT")
@with_server
async def test_everyone_with_access_talks_on_an_intent_channel(server: LiveServer) -> None:
    alice, eve = await server.client("alice"), await server.client("eve")
    room = await created(alice, "room", member_policy="intent", members=["bob"])
    path = messages_of(room["id"])

    await send(eve, "from eve", path)

    assert await heard(alice, path) == await heard(eve, path) == ["from eve"]


@pytest.mark.requirement("RFC21-1.2-POLICY-DEFAULT")
@with_server
async def test_the_policy_is_intent_unless_it_is_said(server: LiveServer) -> None:
    alice = await server.client("alice")

    assert (await created(alice, "room"))["member_policy"] == "intent"
    assert (await created(alice, "closet", member_policy="explicit"))["member_policy"] == "explicit"


@pytest.mark.requirement("RFC21-1.2-POLICY-ENUM")
@pytest.mark.parametrize("policy", ["everyone", "Explicit", "", None, 1])
@with_server
async def test_there_are_two_policies(server: LiveServer, policy: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post(CHANNELS, {"name": "room", "member_policy": policy})

    assert answer.status == 422
    assert "member_policy" in answer.json["detail"]


@pytest.mark.requirement("RFC21-1.2-AUDIT-DEFAULT", "RFC21-1.2-MAX-DEFAULT", "RFC21-1.2-TTL-NULL")
@pytest.mark.parametrize("given", [{}, {"options": {}}, {"options": None}])
@with_server
async def test_options_have_their_defaults(server: LiveServer, given: dict[str, Any]) -> None:
    alice = await server.client("alice")

    made = await created(alice, "room", **given)

    assert made["options"] == {"audit": False, "ttl_seconds": None, "max_messages": 1000}
    server.rig.clock.pass_by(days=400)
    assert (await channel(alice, made["id"]))["status"] == "open"


@pytest.mark.requirement("RFC21-1.2-OPTION-TYPES")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("audit", "yes"),
        ("audit", 1),
        ("ttl_seconds", "60"),
        ("ttl_seconds", 1.5),
        ("ttl_seconds", 0),
        ("ttl_seconds", -1),
        ("max_messages", "3"),
        ("max_messages", 0),
        ("max_messages", None),
        ("colour", "red"),
    ],
)
@with_server
async def test_options_have_their_types(server: LiveServer, option: str, value: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post(CHANNELS, {"name": "room", "options": {option: value}})

    assert answer.status == 422
    assert option in answer.json["detail"]


@pytest.mark.requirement("RFC21-1.2-TTL", "RFC21-1.3-TTL")
@with_server
async def test_a_channel_closes_when_its_time_after_the_last_message_is_over(server: LiveServer) -> None:
    alice = await server.client("alice")
    room = await created(alice, "room", options={"ttl_seconds": 60})
    server.rig.clock.pass_by(seconds=50)
    await send(alice, "still here", messages_of(room["id"]))

    server.rig.clock.pass_by(seconds=59)
    before = await channel(alice, room["id"])
    server.rig.clock.pass_by(seconds=1)
    after = await channel(alice, room["id"])

    assert (before["status"], after["status"]) == ("open", "closed")
    late = await alice.post(messages_of(room["id"]), {"payload": {}})
    assert (late.status, late.code) == (409, "channel_closed")


@pytest.mark.both_stores
@pytest.mark.requirement("RFC21-1.2-MAX")
@with_server
async def test_the_oldest_messages_go_when_there_are_too_many(server: LiveServer) -> None:
    alice = await server.client("alice")
    room = await created(alice, "room", options={"max_messages": 2})
    path = messages_of(room["id"])

    for text in ("one", "two", "three"):
        await send(alice, text, path)

    assert await heard(alice, path) == ["two", "three"]


@pytest.mark.requirement("RFC21-1.2-STATUS", "RFC21-1.3-CREATED-OPEN", "RFC21-1.3-CLOSED", "RFC21-1.2-CLOSED-AT")
@with_server
async def test_a_channel_is_open_and_then_closed(server: LiveServer) -> None:
    alice = await server.client("alice")
    made = await created(alice, "room")
    server.rig.clock.pass_by(minutes=3)

    shut = await alice.patch(f"/channels/{made['id']}", {"status": "closed"})

    assert (made["status"], made["closed_at"]) == ("open", None)
    assert (shut.json["status"], shut.json["closed_at"]) == ("closed", server.rig.at())
    assert await channel(alice, made["id"]) == shut.json


@pytest.mark.requirement("RFC21-1.3-FINAL")
@with_server
async def test_a_closed_channel_stays_closed(server: LiveServer) -> None:
    alice = await server.client("alice")
    await alice.patch("/channels/chan_1", {"status": "closed"})
    closed_at = (await channel(alice))["closed_at"]
    server.rig.clock.pass_by(minutes=3)

    reopened = await alice.patch("/channels/chan_1", {"status": "open"})
    again = await alice.patch("/channels/chan_1", {"status": "closed"})

    assert (reopened.status, reopened.code) == (409, "bad_transition")
    assert again.status == 200
    now = await channel(alice)
    assert (now["status"], now["closed_at"]) == ("closed", closed_at)


@pytest.mark.requirement("RFC21-1.3-CLOSED-REFUSES")
@with_server
async def test_a_closed_channel_takes_no_more_messages(server: LiveServer) -> None:
    alice = await server.client("alice")
    await send(alice, "before")
    await alice.patch("/channels/chan_1", {"status": "closed"})

    refused = await alice.post(MESSAGES, {"payload": {"text": "after"}})
    by_name = await alice.post(f"{CHANNELS}/chan_1/messages", {"payload": {"text": "after"}})

    assert [(one.status, one.code) for one in (refused, by_name)] == [(409, "channel_closed")] * 2
    assert await heard(alice) == ["before"]


@pytest.mark.requirement("RFC21-1.2-CREATED-AT")
@with_server
async def test_a_channel_knows_when_it_was_created(server: LiveServer) -> None:
    alice = await server.client("alice")

    made = await created(alice, "room")

    assert datetime.fromisoformat(made["created_at"]) == server.rig.clock.at


@pytest.mark.requirement("RFC21-1.2-COUNT", "RFC21-1.2-LAST")
@with_server
async def test_a_channel_counts_its_messages_and_knows_the_moment_of_the_last(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    empty = await channel(alice)

    for who in (alice, bob, alice):
        server.rig.clock.pass_by(seconds=5)
        await send(who)
    server.rig.clock.pass_by(seconds=5)
    await alice.post(MESSAGES, {"payload": "refused"})
    full = await channel(bob)

    assert (empty["message_count"], empty["last_message_at"]) == (0, None)
    assert full["message_count"] == 3
    assert full["last_message_at"] == (await alice.get(MESSAGES)).json[-1]["created_at"]


@pytest.mark.requirement("RFC21-1.4-IMPLICIT", "RFC21-1.4-POLICY", "RFC21-1.4-DELIVERED")
@with_server
async def test_a_message_to_a_new_name_makes_an_open_channel_and_is_delivered_in_it(server: LiveServer) -> None:
    bob, carol = await server.client("bob"), await server.client("carol")

    said = await send(bob, "first", f"{CHANNELS}/progress/messages")

    (made,) = [one for one in (await carol.get(CHANNELS)).json if one["name"] == "progress"]
    assert (made["member_policy"], made["created_by"], made["intent_id"]) == ("intent", "bob", INTENT)
    assert made["options"] == {"audit": False, "ttl_seconds": None, "max_messages": 1000}
    assert (said["channel_id"], said["status"]) == (made["id"], "delivered")
    assert await heard(carol, messages_of(made["id"])) == ["first"]


@pytest.mark.requirement("RFC21-1.4-EXISTING")
@with_server
async def test_a_message_to_a_known_name_goes_there(server: LiveServer) -> None:
    bob = await server.client("bob")

    said = await send(bob, "by name", f"{CHANNELS}/chan_1/messages")

    assert said["channel_id"] == "chan_1"
    assert await heard(bob) == ["by name"]
    assert len((await bob.get(CHANNELS)).json) == 1


@pytest.mark.requirement("RFC21-1.4-POLICY")
@with_server
async def test_a_name_opens_no_explicit_channel_to_others(server: LiveServer) -> None:
    await server.rig.channel("chan_2", label="closet", policy=MemberPolicy.EXPLICIT)
    eve = await server.client("eve")

    answer = await eve.post(f"{CHANNELS}/closet/messages", {"payload": {"text": "let me in"}})

    assert answer.status == 404
    alice = await server.client("alice")
    assert await heard(alice, messages_of("chan_2")) == []


@pytest.mark.requirement("RFC21-1.4-IMPLICIT")
@with_server
async def test_nobody_makes_a_channel_by_name_on_an_intent_without_access(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    alice, eve = await server.client("alice"), await server.client("eve")

    answer = await eve.post(f"{CHANNELS}/progress/messages", {"payload": {}})

    assert answer.status == 404
    assert [one["name"] for one in (await alice.get(CHANNELS)).json] == ["chan_1"]


@pytest.mark.requirement("RFC21-1.4-EXPLICIT")
@with_server
async def test_what_is_created_explicitly_has_its_policy_audit_and_retention(server: LiveServer) -> None:
    alice = await server.client("alice")

    made = await created(
        alice,
        "room",
        member_policy="explicit",
        options={"audit": True, "ttl_seconds": 60, "max_messages": 5},
    )

    assert made["member_policy"] == "explicit"
    assert made["options"] == {"audit": True, "ttl_seconds": 60, "max_messages": 5}


@pytest.mark.requirement("RFC21-1.2-MAX")
@with_server
async def test_a_channel_that_keeps_one_message_keeps_the_last(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(max_messages=1))
    alice = await server.client("alice")

    for number in range(100):
        await send(alice, str(number), messages_of("chan_2"))

    assert await heard(alice, messages_of("chan_2")) == ["99"]
