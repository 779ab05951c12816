"""What RFC-0021 needs of its neighbours: intents, access, tasks, the registry."""

from __future__ import annotations

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import KeyKind
from parley.domain.directory.intent import IntentStatus
from tests.conformance.channels.talk import (
    CHANNELS,
    MESSAGES,
    Document,
    created,
    document,
    heard,
    later,
    listed,
    messages_of,
    reply,
    request,
    send,
)
from tests.rigs.team import CHANNEL, INTENT, Answer, Client, LiveServer, with_query, with_server

THIS = f"/intents/{INTENT}"
INTENT_FIELDS = {
    "id",
    "title",
    "description",
    "created_by",
    "status",
    "constraints",
    "state",
    "confidence",
    "version",
    "created_at",
    "updated_at",
}
STATUSES = [status.value for status in IntentStatus]


async def intent(client: Client, intent_id: str = INTENT) -> Document:
    answer = await client.get(f"/intents/{intent_id}")
    assert answer.status == 200, answer
    return document(answer)


async def patch(client: Client, *patches: dict[str, object]) -> Answer:
    version = (await intent(client))["version"]
    return await client.post(f"{THIS}/state", {"patches": list(patches)}, {"If-Match": str(version)})


# ---------------------------------------------------------------- intents


@pytest.mark.requirement("CHAN-INTENT-FIELDS")
@with_server
async def test_an_intent_has_its_fields(server: LiveServer) -> None:
    bob = await server.client("bob")
    body = {"title": "Research Q1", "description": "all of it", "constraints": {"budget": 5}, "state": {"a": 1}}

    made = await bob.post("/intents", body)

    found = made.json
    assert made.status == 201
    assert set(found) >= INTENT_FIELDS
    assert {name: found[name] for name in body} == body
    assert (found["created_by"], found["status"], found["version"]) == ("bob", "draft", 1)
    assert (found["created_at"], found["updated_at"]) == (server.rig.at(), server.rig.at())
    assert await intent(bob, found["id"]) == found


@pytest.mark.requirement("CHAN-INTENT-DRAFT", "CHAN-INTENT-ACTIVE", "CHAN-INTENT-BLOCKED", "CHAN-INTENT-RESOLVED")
@pytest.mark.parametrize(
    ("before", "allowed"),
    [
        ("draft", {"active", "abandoned"}),
        ("active", {"blocked", "completed", "abandoned"}),
        ("blocked", {"active", "abandoned"}),
        ("completed", set()),
        ("abandoned", set()),
    ],
)
@with_server
async def test_an_intent_moves_only_along_its_arrows(server: LiveServer, before: str, allowed: set[str]) -> None:
    alice = await server.client("alice")
    moved: set[str] = set()

    for after in STATUSES:
        await server.rig.intent(f"intent_{after}", status=IntentStatus(before))
        answer = await alice.post(f"/intents/intent_{after}/status", {"status": after}, {"If-Match": "1"})
        if answer.status == 200:
            moved.add(after)
        else:
            assert (answer.status, answer.code) == (409, "bad_transition")
        assert (await intent(alice, f"intent_{after}"))["status"] == (after if answer.status == 200 else before)

    assert moved == allowed


@pytest.mark.requirement("CHAN-INTENT-IF-MATCH", "CHAN-INTENT-ETAG")
@pytest.mark.parametrize("spelled", ["{}", '"{}"', 'W/"{}"'])
@with_server
async def test_a_change_names_the_version_it_is_for_and_the_answer_names_the_next(
    server: LiveServer, spelled: str
) -> None:
    alice = await server.client("alice")

    shown = await alice.get(THIS)
    changed = await alice.post(f"{THIS}/state", {"state": {"a": 1}}, {"If-Match": spelled.format(1)})

    assert shown.headers["etag"] == '"1"'
    assert (changed.status, changed.json["version"], changed.headers["etag"]) == (200, 2, '"2"')


@pytest.mark.requirement("CHAN-INTENT-MISMATCH")
@pytest.mark.parametrize(("path", "body"), [("state", {"state": {"a": 2}}), ("status", {"status": "completed"})])
@with_server
async def test_a_change_for_another_version_is_refused_with_the_current_one(
    server: LiveServer, path: str, body: dict[str, object]
) -> None:
    alice = await server.client("alice")
    await patch(alice, {"op": "set", "path": "a", "value": 1})

    late = await alice.post(f"{THIS}/{path}", body, {"If-Match": "1"})
    unnamed = await alice.post(f"{THIS}/{path}", body)

    assert (late.status, late.code, late.json["current_version"]) == (409, "version_mismatch", 2)
    assert unnamed.status == 428
    now = await intent(alice)
    assert (now["state"], now["status"]) == ({"a": 1}, "active")


@pytest.mark.requirement("CHAN-INTENT-SET", "CHAN-INTENT-APPEND", "CHAN-INTENT-REMOVE")
@with_server
async def test_the_state_is_patched_by_set_append_and_remove(server: LiveServer) -> None:
    alice = await server.client("alice")

    after_set = await patch(
        alice,
        {"op": "set", "path": "a", "value": {"b": 1}},
        {"op": "set", "path": "a/c", "value": 2},
        {"op": "set", "path": "gone", "value": 0},
    )
    after_append = await patch(
        alice, {"op": "append", "path": "list", "value": 1}, {"op": "append", "path": "list", "value": [2]}
    )
    after_remove = await patch(alice, {"op": "remove", "path": "gone"}, {"op": "remove", "path": "a/b"})
    refused = await patch(alice, {"op": "set", "path": "x", "value": 1}, {"op": "append", "path": "a", "value": 1})

    assert after_set.json["state"] == {"a": {"b": 1, "c": 2}, "gone": 0}
    assert after_append.json["state"]["list"] == [1, [2]]
    assert after_remove.json["state"] == {"a": {"c": 2}, "list": [1, [2]]}
    assert refused.status == 422
    assert (await intent(alice))["state"] == after_remove.json["state"]


@pytest.mark.requirement("CHAN-INTENT-EVENTS", "CHAN-INTENT-ACTOR")
@with_server
async def test_an_event_has_its_fields_and_the_actor_of_the_key(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    body = {"event_type": "comment", "payload": {"text": "look"}}

    told = await bob.post(f"{THIS}/events", body)
    forged = await bob.post(f"{THIS}/events", {**body, "actor": "alice"})
    await patch(alice, {"op": "set", "path": "a", "value": 1})

    first, second = (await alice.get(f"{THIS}/events")).json
    assert (told.status, told.json) == (201, first)
    assert set(first) >= {"id", "intent_id", "event_type", "actor", "payload", "created_at"}
    assert (first["intent_id"], first["event_type"], first["payload"]) == (INTENT, "comment", {"text": "look"})
    assert (first["actor"], first["created_at"]) == ("bob", server.rig.at())
    assert (forged.status, forged.code) == (403, "sender_mismatch")
    assert (second["event_type"], second["actor"]) == ("state_patched", "alice")


@pytest.mark.requirement("CHAN-INTENT-ASSIGN", "CHAN-INTENT-UNASSIGN", "CHAN-ACCESS-ASSIGNED")
@with_server
async def test_agents_are_assigned_with_a_role_and_unassigned(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    outside = await bob.get(MESSAGES)

    worker = await alice.post(f"{THIS}/agents", {"agent_id": "bob"})
    coordinator = await alice.post(f"{THIS}/agents", {"agent_id": "carol", "role": "coordinator"})
    other = await alice.post(f"{THIS}/agents", {"agent_id": "dave", "role": "boss"})
    inside = await bob.post(MESSAGES, {"payload": {}})
    managed = await carol.patch("/channels/chan_1", {"add_members": ["bob"]})
    removed = await alice.delete(f"{THIS}/agents/bob")

    assert (worker.json["role"], coordinator.json["role"], other.status) == ("worker", "coordinator", 422)
    assert [one["agent_id"] for one in (await alice.get(f"{THIS}/agents")).json] == ["carol"]
    assert (outside.status, inside.status, managed.status, removed.status) == (404, 201, 200, 204)
    assert (await bob.get(MESSAGES)).status == 404


@pytest.mark.requirement("CHAN-INTENT-ASSIGN")
@with_server
async def test_another_role_takes_the_place_of_the_first(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    for role in ("worker", "coordinator", "coordinator", "worker"):
        assert (await alice.post(f"{THIS}/agents", {"agent_id": "bob", "role": role})).status == 200

    found = [(one["agent_id"], one["role"]) for one in (await alice.get(f"{THIS}/agents")).json]
    assert found == [("bob", "worker")]
    assert (await bob.patch("/channels/chan_1", {"add_members": ["carol"]})).status == 403


# ---------------------------------------------------------------- access


@pytest.mark.requirement("CHAN-ACCESS-ORDER", "CHAN-ACCESS-READ", "CHAN-ACCESS-WRITE", "CHAN-ACCESS-ENTRY")
@pytest.mark.parametrize("permission", list(Permission))
@with_server
async def test_each_permission_allows_what_it_says_and_what_is_below_it(
    server: LiveServer, permission: Permission
) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED, grants=(server.rig.grant("bob", permission),))
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")

    sees = [
        (await bob.get(THIS)).status,
        (await bob.get(CHANNELS)).status,
        (await bob.get(MESSAGES)).status,
        (await bob.patch(f"{MESSAGES}/{asked['id']}", {"status": "read"})).status,
    ]
    async with bob.events("/subscribe/channels/chan_1") as events:
        await send(alice, "news")
        sees.append(200 if (await events.next()).json["payload"] == {"text": "news"} else 0)
    writes = [
        (await bob.post(CHANNELS, {"name": "room"})).status,
        (await bob.post(MESSAGES, {"payload": {}})).status,
        (await bob.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {}})).status,
        (await bob.post(f"{CHANNELS}/by-name/messages", {"payload": {}})).status,
    ]
    rules = await bob.request("PUT", f"{THIS}/acl", {"default_policy": "open", "entries": []})

    assert sees == [200] * 5
    assert writes == ([403] * 4 if permission is Permission.READ else [201] * 4)
    assert rules.status == (200 if permission is Permission.ADMIN else 403)


@pytest.mark.requirement("CHAN-ACCESS-ACL", "CHAN-SDK-ACL")
@with_server
async def test_the_access_list_is_read_and_replaced(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    before = (await alice.get(f"{THIS}/acl")).json
    wanted = {"default_policy": "closed", "entries": [{"principal_id": "bob", "permission": "read"}]}

    after = await alice.request("PUT", f"{THIS}/acl", wanted)

    assert (before["default_policy"], before["entries"]) == ("open", [])
    assert (after.status, after.json["default_policy"]) == (200, "closed")
    (entry,) = after.json["entries"]
    assert (entry["principal_id"], entry["permission"], entry["granted_by"]) == ("bob", "read", "alice")
    assert (await alice.get(f"{THIS}/acl")).json == after.json
    assert ((await bob.get(MESSAGES)).status, (await carol.get(MESSAGES)).status) == (200, 404)


@pytest.mark.requirement("CHAN-ACCESS-ENTRIES")
@with_server
async def test_an_entry_grants_and_its_end_revokes(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    alice, bob = await server.client("alice"), await server.client("bob")

    granted = await alice.post(f"{THIS}/acl/entries", {"principal_id": "bob", "permission": "write"})
    async with bob.events("/subscribe/channels/chan_1") as events:
        inside = await bob.post(MESSAGES, {"payload": {}})
        await events.next()
        revoked = await alice.delete(f"{THIS}/acl/entries/{granted.json['id']}")
        last = await events.next()

    assert (granted.status, inside.status, revoked.status) == (201, 201, 204)
    assert last.event == "revoked"
    assert (await bob.get(MESSAGES)).status == 404
    assert (await alice.delete(f"{THIS}/acl/entries/{granted.json['id']}")).status == 404


@pytest.mark.requirement("CHAN-ACCESS-REQUEST")
@with_server
async def test_access_is_asked_for_and_approved_or_denied(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    alice, bob, eve = [await server.client(name) for name in ("alice", "bob", "eve")]
    path = f"{THIS}/access-requests"
    body = {"requested_permission": "write", "reason": "I can help"}

    bobs, eves = await bob.post(path, body), await eve.post(path, body)
    himself = await bob.post(f"{path}/{bobs.json['id']}/approve", {})
    approved = await alice.post(f"{path}/{bobs.json['id']}/approve", {"decided_by": "alice"})
    denied = await alice.post(f"{path}/{eves.json['id']}/deny", {"reason": "no"})
    again = await alice.post(f"{path}/{eves.json['id']}/approve", {})

    assert [(one.status, one.json["status"]) for one in (bobs, eves)] == [(201, "pending")] * 2
    assert himself.status == 404
    assert (approved.json["status"], approved.json["decided_by"]) == ("approved", "alice")
    assert (denied.json["status"], denied.json["decision_reason"]) == ("denied", "no")
    assert again.status == 409
    assert (await bob.post(MESSAGES, {"payload": {}})).status == 201
    assert (await eve.get(MESSAGES)).status == 404


@pytest.mark.requirement("CHAN-ACCESS-EXPIRES")
@with_server
async def test_a_grant_may_expire(server: LiveServer) -> None:
    await server.rig.access(policy=AccessPolicy.CLOSED)
    alice, bob = await server.client("alice"), await server.client("bob")
    entry = {"principal_id": "bob", "permission": "write", "expires_at": later(server, hours=1)}
    await alice.post(f"{THIS}/acl/entries", entry)

    server.rig.clock.pass_by(minutes=59)
    before = await bob.post(MESSAGES, {"payload": {}})
    server.rig.clock.pass_by(minutes=1)
    after = await bob.post(MESSAGES, {"payload": {}})

    assert (before.status, after.status) == (201, 404)


@pytest.mark.requirement("CHAN-ACCESS-CREATOR", "CHAN-ACCESS-OPEN")
@with_server
async def test_the_creator_has_access_and_an_open_default_gives_it_to_all(server: LiveServer) -> None:
    bob, carol = await server.client("bob"), await server.client("carol")
    made = (await bob.post("/intents", {"title": "mine", "access": "open"})).json["id"]
    path = f"/intents/{made}"

    while_open = [(await one.get(path)).status for one in (bob, carol)]
    await bob.request("PUT", f"{path}/acl", {"default_policy": "closed", "entries": []})
    while_closed = [(await one.get(path)).status for one in (bob, carol)]

    assert (while_open, while_closed) == ([200, 200], [200, 404])
    assert (await bob.post(f"{path}/channels", {"name": "room"})).status == 201


# ---------------------------------------------------------------- tasks


@pytest.mark.requirement("CHAN-TASK-FIELDS")
@with_server
async def test_a_task_has_its_fields(server: LiveServer) -> None:
    alice = await server.client("alice")

    made = await alice.post("/tasks", {"intent_id": INTENT, "name": "load"})
    scoped = await created(alice, "work", task_id=made.json["id"])

    assert made.status == 201
    assert set(made.json) >= {"id", "intent_id", "name", "status", "version"}
    assert (made.json["intent_id"], made.json["name"], made.json["version"]) == (INTENT, "load", 1)
    assert (await alice.get(f"/tasks/{made.json['id']}")).json == made.json
    assert scoped["task_id"] == made.json["id"]
    assert (await alice.post("/tasks", {"intent_id": "intent_none", "name": "x"})).status == 404


# ---------------------------------------------------------------- the registry


@pytest.mark.requirement("CHAN-REG-REGISTER", "CHAN-SDK-RECORD")
@with_server
async def test_an_agent_registers_and_registering_again_updates_it(server: LiveServer) -> None:
    bob, eve = await server.client("bob"), await server.client("eve")

    first = await bob.post("/agents/register", {"agent_id": "bob", "capabilities": ["sql"], "anything": "else"})
    again = await bob.post("/agents/register", {"agent_id": "bob", "capabilities": ["csv"]})
    foreign = await eve.post("/agents/register", {"agent_id": "bob", "capabilities": []})

    assert (first.status, first.json["agent_id"], first.json["status"]) == (200, "bob", "active")
    assert (again.status, again.json["capabilities"]) == (200, ["csv"])
    assert (foreign.status, foreign.code) == (403, "sender_mismatch")
    assert (await eve.get("/agents/bob/record")).json == again.json


@pytest.mark.requirement("CHAN-REG-HEARTBEAT", "CHAN-REG-SILENCE")
@with_server
async def test_silence_makes_an_agent_unhealthy_and_then_dead(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    beat = await bob.post("/agents/bob/heartbeat", {"status": "active", "current_load": 0, "tasks_in_progress": []})

    async def status_after(seconds: float) -> str:
        server.rig.clock.pass_by(seconds=seconds)
        return str((await alice.get("/agents/bob/record")).json["status"])

    assert (beat.status, beat.json["next_heartbeat_at"]) == (200, later(server, seconds=30))
    assert [await status_after(seconds) for seconds in (30, 59, 1, 209, 1)] == [
        "active",
        "active",
        "unhealthy",
        "unhealthy",
        "dead",
    ]


@pytest.mark.requirement("CHAN-REG-HEARTBEAT")
@with_server
async def test_a_heartbeat_makes_an_unhealthy_agent_active_again(server: LiveServer) -> None:
    bob = await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    await bob.post("/agents/bob/heartbeat", {})
    server.rig.clock.pass_by(seconds=200)
    unhealthy = (await bob.get("/agents/bob/record")).json["status"]

    beat = await bob.post("/agents/bob/heartbeat", {})

    assert (unhealthy, beat.json["agent_status"]) == ("unhealthy", "active")
    assert (await bob.get("/agents/bob/record")).json["status"] == "active"


@pytest.mark.requirement("CHAN-REG-STATUS", "CHAN-REG-DRAIN")
@with_server
async def test_an_agent_drains_and_is_active_again(server: LiveServer) -> None:
    bob, eve = await server.client("bob"), await server.client("eve")
    await bob.post("/agents/register", {"agent_id": "bob"})

    foreign = await eve.patch("/agents/bob/status", {"status": "draining"})
    draining = await bob.patch("/agents/bob/status", {"status": "draining"})
    await bob.post("/agents/bob/heartbeat", {"status": "active"})
    still = (await bob.get("/agents/bob/record")).json["status"]
    active = await bob.patch("/agents/bob/status", {"status": "active"})
    unknown = await bob.patch("/agents/bob/status", {"status": "sleepy"})

    assert foreign.status == 403
    assert (draining.json["status"], still, active.json["status"]) == ("draining", "draining", "active")
    assert unknown.status == 422


@pytest.mark.requirement("CHAN-REG-DISCOVERY")
@with_server
async def test_agents_are_found_by_capability_role_and_status(server: LiveServer) -> None:
    service = await server.client("", KeyKind.SERVICE)
    for name, capabilities, role in (("bob", ["sql"], "data"), ("carol", ["sql", "csv"], "io"), ("dave", [], "io")):
        body = {"agent_id": name, "capabilities": capabilities, "role_id": role}
        assert (await service.post("/agents/register", body)).status == 200
    await service.patch("/agents/dave/status", {"status": "draining"})

    async def found(**query: object) -> list[str]:
        return [one["agent_id"] for one in (await service.get(with_query("/agents", query))).json]

    assert await found() == ["bob", "carol", "dave"]
    assert await found(capability="sql") == ["bob", "carol"]
    assert await found(role_id="io") == ["carol", "dave"]
    assert await found(status="draining") == ["dave"]
    assert await found(capability="csv", role_id="data") == []


@pytest.mark.requirement("CHAN-REG-AWAY")
@with_server
async def test_who_was_silent_is_back_with_its_next_heartbeat(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    await bob.post("/agents/bob/heartbeat", {})
    server.rig.clock.pass_by(hours=8)
    await sweep(server.rig.team)

    asked = await request(alice, "bob")
    beat = await bob.post("/agents/bob/heartbeat", {})
    answered = await bob.post(f"/channels/{CHANNEL}/messages/{asked['id']}/reply", {"payload": {}})

    assert (beat.status, beat.json["agent_status"]) == (200, "active")
    assert answered.status == 201


@pytest.mark.requirement("CHAN-REG-HEARTBEAT-CONFIG")
@with_server
async def test_an_agent_says_how_often_it_sends_heartbeats(server: LiveServer) -> None:
    bob = await server.client("bob")
    config = {"interval_seconds": 600, "unhealthy_after_seconds": 1800, "dead_after_seconds": 7200}
    wrong = {"interval_seconds": 600, "unhealthy_after_seconds": 60}

    answer = await bob.post("/agents/register", {"agent_id": "bob", "heartbeat_config": config})
    beat = await bob.post("/agents/bob/heartbeat", {})
    server.rig.clock.pass_by(seconds=1799)

    assert answer.json["heartbeat_config"] == config
    assert beat.json["next_heartbeat_at"] == later(server, seconds=600 - 1799)
    assert (await bob.get("/agents/bob/record")).json["status"] == "active"
    server.rig.clock.pass_by(seconds=1)
    assert (await bob.get("/agents/bob/record")).json["status"] == "unhealthy"
    refused = await bob.post("/agents/register", {"agent_id": "bob", "heartbeat_config": wrong})
    assert (refused.status, refused.code) == (422, "invalid")


@pytest.mark.requirement("CHAN-REG-GONE")
@with_server
async def test_the_heartbeat_of_who_is_gone_is_410(server: LiveServer) -> None:
    bob = await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    await bob.post("/agents/bob/heartbeat", {})
    await bob.patch("/agents/bob/status", {"status": "deregistered"})

    beat = await bob.post("/agents/bob/heartbeat", {})
    back = await bob.post("/agents/register", {"agent_id": "bob"})

    assert (beat.status, beat.code) == (410, "agent_gone")
    assert (back.status, back.json["status"]) == (200, "active")
    assert (await bob.post("/agents/bob/heartbeat", {})).status == 200


@pytest.mark.requirement("CHAN-REG-ROLES")
@with_server
async def test_no_agent_takes_a_role_by_itself(server: LiveServer) -> None:
    admin = await server.client("", KeyKind.ADMIN)
    alice, bob, eve = [await server.client(name) for name in ("alice", "bob", "eve")]

    taken = await eve.post("/agents/register", {"agent_id": "eve", "role_id": "data"})
    granted_herself = await eve.post("/roles/data/holders", {"agent_id": "eve"})
    granted = await admin.post("/roles/data/holders", {"agent_id": "bob"})
    asked = await request(alice, "role:data")
    revoked = await admin.delete("/roles/data/holders/bob")
    later_one = await request(alice, "role:data")

    assert (taken.status, granted_herself.status) == (403, 403)
    assert granted.json["holders"] == ["bob"]
    assert await listed(eve) == []
    assert (await reply(bob, asked))["to"] == "alice"
    assert (revoked.json["holders"], later_one["status"]) == ([], "pending")
    assert await heard(bob, messages_of("chan_1")) == ["well?", "yes"]
