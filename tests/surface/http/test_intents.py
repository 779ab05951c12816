"""Intents over HTTP, as the OpenIntent SDK calls them."""

from __future__ import annotations

import pytest

from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server

AS_THE_SDK_SENDS = {"title": "T", "description": "d", "constraints": {"rules": ["x"]}, "state": {"a": 1}}


@with_server
async def test_an_intent_is_created_shown_and_listed(server: LiveServer) -> None:
    bob = await server.client("bob")

    made = await bob.post("/intents", {**AS_THE_SDK_SENDS, "created_by": "bob"})
    shown = await bob.get(f"/intents/{made.json['id']}")
    listed = await bob.get("/intents", limit=50, offset=0)

    assert (made.status, made.headers["etag"]) == (201, '"1"')
    assert made.json.items() >= {**AS_THE_SDK_SENDS, "created_by": "bob", "status": "draft", "version": 1}.items()
    assert shown.json == made.json
    assert {one["id"] for one in listed.json["intents"]} == {INTENT, made.json["id"]}


@with_server
async def test_who_creates_an_intent_follows_from_the_key(server: LiveServer) -> None:
    bob = await server.client("bob")
    fleet = await server.client(kind=KeyKind.SERVICE)

    refused = await bob.post("/intents", {"title": "T", "created_by": "alice"})
    made = await fleet.post("/intents", {"title": "T", "created_by": "alice"})

    assert (refused.status, refused.code) == (403, "sender_mismatch")
    assert made.json["created_by"] == "alice"


@with_server
async def test_a_page_of_intents_goes_on_where_the_last_one_ended(server: LiveServer) -> None:
    bob = await server.client("bob")
    ids = [(await bob.post("/intents", {"title": str(n), "status": "active"})).json["id"] for n in range(3)]

    first = await bob.get("/intents", limit=2, status="active")
    second = await bob.get("/intents", limit=2, offset=2, status="active")
    none = await bob.get("/intents", status="blocked")

    found = [one["id"] for one in (*first.json["intents"], *second.json["intents"])]
    assert sorted(found) == sorted([INTENT, *ids])
    assert none.json == {"intents": []}


@with_server
async def test_an_intent_that_one_may_not_see_is_as_if_it_were_not_there(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    mallory = await server.client("mallory")

    hidden = await mallory.get(f"/intents/{INTENT}")
    nonexistent = await mallory.get("/intents/nope")
    listed = await mallory.get("/intents")

    assert hidden.status == nonexistent.status == 404
    assert hidden.body == nonexistent.body
    assert listed.json == {"intents": []}


@with_server
async def test_another_tenant_has_no_part_in_it(server: LiveServer) -> None:
    stranger = await server.client("alice", tenant="other")

    answers = [
        await stranger.get(f"/intents/{INTENT}"),
        await stranger.post(f"/intents/{INTENT}/state", {"patches": []}, {"If-Match": "1"}),
        await stranger.post(f"/intents/{INTENT}/status", {"status": "completed"}, {"If-Match": "1"}),
        await stranger.post(f"/intents/{INTENT}/agents", {"agent_id": "alice"}),
        await stranger.delete(f"/intents/{INTENT}/agents/alice"),
    ]

    assert [answer.status for answer in answers] == [404] * 5
    assert (await stranger.get("/intents")).json == {"intents": []}


@with_server
@pytest.mark.parametrize("version", ["1", '"1"', 'W/"1"', "*"])
async def test_a_state_is_patched_for_the_version_that_is_there(server: LiveServer, version: str) -> None:
    alice = await server.client("alice")
    patches = [{"op": "set", "path": "b", "value": 2}, {"op": "set", "path": "x/y", "value": {"z": None}}]

    answer = await alice.post(f"/intents/{INTENT}/state", {"patches": patches}, {"If-Match": version})

    assert (answer.status, answer.headers["etag"]) == (200, '"2"')
    assert answer.json["state"] == {"b": 2, "x": {"y": {"z": None}}}


@with_server
async def test_a_patch_for_another_version_is_told_the_current_one(server: LiveServer) -> None:
    alice = await server.client("alice")
    patch = {"patches": [{"op": "set", "path": "b", "value": 2}]}
    await alice.post(f"/intents/{INTENT}/state", patch, {"If-Match": "1"})

    late = await alice.post(f"/intents/{INTENT}/state", patch, {"If-Match": "1"})
    silent = await alice.post(f"/intents/{INTENT}/state", patch)
    garbled = await alice.post(f"/intents/{INTENT}/state", patch, {"If-Match": "one"})

    assert (late.status, late.code, late.json["current_version"]) == (409, "version_mismatch", 2)
    assert (silent.status, silent.code) == (428, "version_required")
    assert garbled.status == 422


@with_server
async def test_a_resolved_intent_closes_its_channels(server: LiveServer) -> None:
    alice = await server.client("alice")

    done = await alice.post(f"/intents/{INTENT}/status", {"status": "completed", "reason": "r"}, {"If-Match": "1"})
    channel = await alice.get(f"/channels/{CHANNEL}")
    late = await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {}})

    assert (done.status, done.json["status"], done.json["version"]) == (200, "completed", 2)
    assert channel.json["status"] == "closed"
    assert channel.json["closed_at"] is not None
    assert (late.status, late.code) == (409, "channel_closed")


@with_server
async def test_an_intent_goes_only_where_its_status_allows(server: LiveServer) -> None:
    alice = await server.client("alice")

    back = await alice.post(f"/intents/{INTENT}/status", {"status": "draft"}, {"If-Match": "1"})
    unknown = await alice.post(f"/intents/{INTENT}/status", {"status": "asleep"}, {"If-Match": "1"})

    assert (back.status, back.code) == (409, "bad_transition")
    assert unknown.status == 422


@with_server
async def test_an_agent_is_assigned_once_however_often_it_is_said(server: LiveServer) -> None:
    alice = await server.client("alice")

    first = await alice.post(f"/intents/{INTENT}/agents", {"agent_id": "bob"})
    again = await alice.post(f"/intents/{INTENT}/agents", {"agent_id": "bob"})
    listed = await alice.get(f"/intents/{INTENT}/agents")

    assert first.json.items() >= {"intent_id": INTENT, "agent_id": "bob", "role": "worker"}.items()
    assert (again.status, again.json) == (200, first.json)
    assert listed.json == [first.json]


@with_server
async def test_an_agent_is_unassigned(server: LiveServer) -> None:
    alice = await server.client("alice")
    await alice.post(f"/intents/{INTENT}/agents", {"agent_id": "bob", "role": "coordinator"})

    gone = await alice.delete(f"/intents/{INTENT}/agents/bob")
    again = await alice.delete(f"/intents/{INTENT}/agents/bob")

    assert (gone.status, gone.body) == (204, b"")
    assert again.status == 404
    assert (await alice.get(f"/intents/{INTENT}/agents")).json == []


@with_server
async def test_only_who_rules_the_intent_makes_a_coordinator(server: LiveServer) -> None:
    bob = await server.client("bob")

    raised = await bob.post(f"/intents/{INTENT}/agents", {"agent_id": "bob", "role": "coordinator"})
    working = await bob.post(f"/intents/{INTENT}/agents", {})

    assert (raised.status, raised.code) == (403, "forbidden")
    assert (working.status, working.json["agent_id"]) == (200, "bob")


@with_server
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"title": ""},
        {"title": "T", "tenant_id": "other"},
        {"title": "T", "status": "completed"},
        {"title": "T", "parent_intent_id": "nope"},
        {"title": "T", "depends_on": ["nope"]},
        {"title": "T", "governance_policy": {"x": 1}},
        {"title": "T", "access": "public"},
        {"title": "T", "access": {"open": True}},
        {"title": "T", "access": ["two words"]},
        {"title": "T", "access": ["system"]},
        {"title": "T", "access": ["a"] * 257},
    ],
)
async def test_what_is_no_intent_is_refused(server: LiveServer, body: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post("/intents", body)

    assert answer.status == 422
    assert (await alice.get("/intents")).json["intents"][1:] == []
