"""Tenants and keys over HTTP."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from parley.app.team.directory import keys
from parley.domain.directory.callers import KeyKind
from parley.domain.store.changes import Committed, TeamChanges
from parley.domain.times import stamp
from tests.rigs.behind_the_server import kept
from tests.rigs.team import AT_ONCE, Client, LiveServer, with_server


async def operator(server: LiveServer) -> Client:
    """The key that the first start makes."""
    secret = await keys.first_start(server.rig.team, "")
    assert secret is not None
    return server.with_key(secret)


@with_server
async def test_a_new_key_is_shown_once_and_lets_its_agent_in(server: LiveServer) -> None:
    admin = await operator(server)

    made = await admin.post("/keys", {"kind": "agent", "agent_id": "alice"})

    assert made.status == 201
    assert re.fullmatch(r"pk_[A-Za-z0-9_-]{43}", made.json["key"])
    listed = (await admin.get("/keys")).json
    assert made.json["id"] in [one["id"] for one in listed]
    assert not any("key" in one for one in listed)
    assert (await server.with_key(made.json["key"]).get("/channels/chan_1")).status == 200


@with_server
async def test_a_repeated_request_for_a_tenant_is_answered_when_the_first_answer_was_lost(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, key = await operator(server), {"Idempotency-Key": "k1"}
    commit = server.rig.store.commit

    async def lost(changes: TeamChanges) -> Committed:
        return Committed(0) if changes.saved and changes.saved.answer else await commit(changes)

    monkeypatch.setattr(server.rig.store, "commit", lost)
    first, again = [await admin.post("/tenants", {"id": "acme"}, key) for _ in range(2)]

    assert (first.status, again.status, again.json) == (201, 201, first.json)


@with_server
async def test_a_revoked_key_is_refused_at_once(server: LiveServer) -> None:
    admin = await operator(server)
    made = (await admin.post("/keys", {"kind": "agent", "agent_id": "alice"})).json
    alice = server.with_key(made["key"])
    assert (await alice.get("/agents")).status == 200

    revoked = await admin.delete(f"/keys/{made['id']}")

    assert revoked.status == 200
    assert revoked.json["revoked_at"]
    assert (await alice.get("/agents")).status == 401


@with_server
async def test_a_revoked_key_ends_its_open_stream(server: LiveServer) -> None:
    admin = await operator(server)
    made = (await admin.post("/keys", {"kind": "agent", "agent_id": "alice"})).json
    alice = server.with_key(made["key"])

    async with alice.events("/subscribe/channels/chan_1") as events:
        await admin.delete(f"/keys/{made['id']}")
        told = await events.next(AT_ONCE)

    assert told.event == "revoked"


@with_server
async def test_a_rotated_key_has_a_new_secret_and_the_old_one_is_out(server: LiveServer) -> None:
    admin = await operator(server)
    made = (await admin.post("/keys", {"kind": "agent", "agent_id": "alice"})).json

    rotated = await admin.post(f"/keys/{made['id']}/rotate")

    assert rotated.status == 201
    assert (rotated.json["kind"], rotated.json["agent_id"]) == ("agent", "alice")
    assert (await server.with_key(made["key"]).get("/agents")).status == 401
    assert (await server.with_key(rotated.json["key"]).get("/agents")).status == 200


@with_server
async def test_the_secret_of_a_key_is_not_kept_for_an_idempotency_key(server: LiveServer) -> None:
    admin = await operator(server)
    once = {"Idempotency-Key": "k1"}
    made = await admin.post("/keys", {"kind": "service"}, once)

    again = await admin.post("/keys", {"kind": "service"}, once)

    assert again.status == 409
    assert made.json["key"].encode() not in kept(server.rig)
    assert made.json["id"].encode() in kept(server.rig)
    assert len([one for one in (await admin.get("/keys")).json if one["kind"] == "service"]) == 1


@with_server
async def test_an_admin_rules_its_own_tenant_and_knows_of_no_other(server: LiveServer) -> None:
    boss = await operator(server)
    assert (await boss.post("/tenants", {"id": "acme", "name": "Acme"})).status == 201
    made = (await boss.post("/keys", {"kind": "admin", "tenant_id": "acme"})).json
    acme = server.with_key(made["key"])
    foreign = (await boss.post("/keys", {"kind": "service"})).json

    assert (await acme.post("/keys", {"kind": "service"})).json["tenant_id"] == "acme"
    other = await acme.post("/keys", {"kind": "service", "tenant_id": "default"})
    unknown = await acme.post("/keys", {"kind": "service", "tenant_id": "nowhere"})
    assert (other.status, other.body) == (unknown.status, unknown.body)
    assert other.status == 404
    assert (await acme.delete(f"/keys/{foreign['id']}")).status == 404
    assert (await acme.post(f"/keys/{foreign['id']}/rotate")).status == 404
    assert {one["tenant_id"] for one in (await acme.get("/keys")).json} == {"acme"}
    assert (await acme.post("/tenants", {"id": "more"})).code == "scope_required"
    assert (await acme.get("/tenants")).code == "scope_required"


@with_server
async def test_the_operator_makes_keys_for_any_tenant_that_exists(server: LiveServer) -> None:
    boss = await operator(server)
    await boss.post("/tenants", {"id": "acme", "name": "Acme"})

    assert (await boss.post("/keys", {"kind": "agent", "agent_id": "a", "tenant_id": "acme"})).status == 201
    assert (await boss.post("/keys", {"kind": "agent", "agent_id": "a", "tenant_id": "nowhere"})).status == 404
    assert (await boss.post("/tenants", {"id": "acme"})).status == 409
    assert [one["id"] for one in (await boss.get("/tenants")).json] == ["acme", "default"]


@with_server
async def test_a_key_that_makes_no_sense_is_refused(server: LiveServer) -> None:
    boss = await operator(server)
    past = stamp(server.rig.clock.at - timedelta(seconds=1))

    for body in (
        {"kind": "agent"},
        {"kind": "human"},
        {"kind": "service", "agent_id": "a"},
        {"kind": "agent", "agent_id": "system"},
        {"kind": "agent", "agent_id": "a b"},
        {"kind": "king"},
        {"kind": "service", "operator": True},
        {"kind": "service", "expires_at": past},
        {"kind": "service", "expires_at": "2027-01-01T00:00:00"},
    ):
        assert (await boss.post("/keys", body)).status == 422, body


@with_server
async def test_an_agent_key_makes_no_keys(server: LiveServer) -> None:
    alice = await server.client("alice")
    fleet = await server.client(kind=KeyKind.SERVICE)

    for client in (alice, fleet):
        assert (await client.post("/keys", {"kind": "admin"})).code == "scope_required"
        assert (await client.get("/keys")).code == "scope_required"
