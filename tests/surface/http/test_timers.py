"""Messages that are posted later, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

TIMERS = f"/channels/{CHANNEL}/timers"
LATER: dict[str, Any] = {"to": "bob", "payload": {"text": "still waiting"}, "after_seconds": 60}


async def heard(client: Client) -> list[str]:
    return [one["payload"].get("text", "") for one in (await client.get(f"/channels/{CHANNEL}/messages")).json]


@pytest.mark.both_stores
@with_server
async def test_a_message_is_scheduled_listed_and_posted(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    made = await alice.post(TIMERS, {**LATER, "message_type": "request", "metadata": {"kind": "question"}})
    assert made.status == 201
    assert {name: made.json[name] for name in ("sender", "to", "message_type", "status", "payload", "error")} == {
        "sender": "alice",
        "to": "bob",
        "message_type": "request",
        "status": "scheduled",
        "payload": {"text": "still waiting"},
        "error": None,
    }
    path = f"/timers/{made.json['id']}"
    assert (await alice.get("/timers")).json == [made.json] == [(await alice.get(path)).json]
    assert (await bob.get("/timers")).json == []
    assert (await bob.get(path)).status == (await bob.delete(path)).status == 404
    assert await heard(bob) == []

    server.rig.clock.pass_by(seconds=60)
    await sweep(server.rig.team)

    (message,) = (await bob.get(f"/channels/{CHANNEL}/messages")).json
    assert (message["id"], message["metadata"]) == (made.json["message_id"], {"kind": "question"})
    assert (await alice.get(path)).status == 404


@with_server
async def test_a_moment_is_given_once_by_time_or_by_seconds(server: LiveServer) -> None:
    alice = await server.client("alice")
    neither = {name: value for name, value in LATER.items() if name != "after_seconds"}

    for body in (neither, {**LATER, "deliver_at": "2026-03-14T00:00:00Z"}, {**neither, "deliver_at": "soon"}):
        answer = await alice.post(TIMERS, body)
        assert (answer.status, answer.json["errors"][0]["field"]) == (422, "deliver_at")
    for seconds in (0, -1, "x", 1e12):
        assert (await alice.post(TIMERS, {**LATER, "after_seconds": seconds})).status == 422
    at = await alice.post(TIMERS, {**neither, "deliver_at": "2026-03-14T00:00:00Z"})
    assert at.json["deliver_at"] == "2026-03-14T00:00:00.000000+00:00"


@with_server
async def test_a_repeated_call_sets_one_timer(server: LiveServer) -> None:
    alice = await server.client("alice")

    first, again = [await alice.request("POST", TIMERS, LATER, {"Idempotency-Key": "k1"}) for _ in range(2)]

    assert (first.status, first.json) == (again.status, again.json)
    assert len((await alice.get("/timers")).json) == 1


@with_server
async def test_a_timer_is_cancelled_by_its_sender_or_an_admin(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client("", KeyKind.ADMIN)
    made = [(await alice.post(TIMERS, LATER)).json["id"] for _ in range(2)]

    assert (await alice.delete(f"/timers/{made[0]}")).status == 204
    assert (await admin.delete(f"/timers/{made[1]}")).status == 204
    assert (await alice.delete(f"/timers/{made[0]}")).status == 404

    server.rig.clock.pass_by(seconds=60)
    await sweep(server.rig.team)
    assert await heard(alice) == []


@with_server
async def test_only_the_key_s_own_agent_speaks_later_too(server: LiveServer) -> None:
    alice = await server.client("alice")

    assert (await alice.post(TIMERS, {**LATER, "sender": "bob"})).code == "sender_mismatch"
