"""Receipts over HTTP: what each act proves to the sender of a message, and that nothing else proves it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from parley.domain.agents.party import Attributes
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

pytestmark = pytest.mark.both_stores

MESSAGES = f"/channels/{CHANNEL}/messages"


async def send(client: Client, to: str = "bob", message_type: str = "notify", **fields: object) -> dict[str, Any]:
    answer = await client.post(MESSAGES, {"to": to, "message_type": message_type, "payload": {"text": "x"}, **fields})
    assert answer.status == 201, answer.body
    message: dict[str, Any] = answer.json
    return message


async def status(client: Client, message: dict[str, Any], query: str = "") -> dict[str, Any]:
    answer = await client.get(f"/messages/{message['id']}/receipts{query}")
    assert answer.status == 200, answer.body
    document: dict[str, Any] = answer.json
    return document


async def proofs(client: Client, message: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Of each recipient its name, its state and what led there."""
    receipts = (await status(client, message))["receipts"]
    return [(one["to"], one["state"], [step["evidence"] for step in one["steps"]]) for one in receipts]


async def bookmark(client: Client, agent: str, start: str = "unanswered", name: str = "default") -> dict[str, Any]:
    opened = await client.post(f"/agents/{agent}/bookmarks/{name}/open", {"start": start})
    assert opened.status in (200, 201), opened.body
    document: dict[str, Any] = opened.json
    return document


async def save(client: Client, agent: str, mark: dict[str, Any], position: int, *still: int) -> None:
    body = {"holder": mark["holder"], "position": position, "open": list(still)}
    saved = await client.request("PUT", f"/agents/{agent}/bookmarks/{mark['name']}", body)
    assert saved.status == 200, saved.body


@with_server
async def test_a_message_is_queued_until_its_recipient_proves_more(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    message = await send(alice)
    listed = await bob.get(MESSAGES)

    assert [one["id"] for one in listed.json] == [message["id"]]
    assert await proofs(alice, message) == [("bob", "queued", [])]
    await bob.patch(f"{MESSAGES}/{message['id']}", {"status": "read"})
    assert await proofs(alice, message) == [("bob", "acknowledged", ["read"])]


@with_server
async def test_a_claim_counts_when_its_lease_is_shown(server: LiveServer) -> None:
    """The answer to the claim may not have arrived: the lease came with the message, and proves that it has."""
    await server.rig.role("coder", "bob")
    alice, bob = await server.client("alice"), await server.client("bob")
    message = await send(alice, "any:coder", "request")
    (job,) = (await bob.post("/agents/bob/claims", {"lease_seconds": 60})).json
    claim = f"/agents/bob/claims/{job['id']}"

    assert await proofs(alice, message) == [("any:coder", "queued", [])]
    await bob.patch(claim, {"lease": job["lease"], "lease_seconds": 60})
    assert await proofs(alice, message) == [("bob", "acknowledged", ["claim"])]
    await bob.patch(claim, {"lease": job["lease"], "status": "failed", "error": "secret", "retry_in": 0})
    receipt = (await status(alice, message))["receipts"][0]
    assert (receipt["to"], receipt["state"]) == ("any:coder", "queued")
    assert [(step["state"], step["evidence"]) for step in receipt["steps"]] == [
        ("acknowledged", "claim"),
        ("queued", "given back"),
    ]
    (job,) = (await bob.post("/agents/bob/claims", {"lease_seconds": 60})).json
    reply = await bob.post(f"{MESSAGES}/{message['id']}/reply", {"payload": {}, "lease": job["lease"]})
    assert await proofs(alice, message) == [("bob", "acted", [f"answered by {reply.json['id']}"])]


@with_server
async def test_a_claim_that_runs_out_is_queued_again_and_a_failure_is_dead(server: LiveServer) -> None:
    await server.rig.role("coder", "bob")
    alice, bob = await server.client("alice"), await server.client("bob")
    message = await send(alice, "any:coder")
    (job,) = (await bob.post("/agents/bob/claims", {"lease_seconds": 60})).json
    claim = f"/agents/bob/claims/{job['id']}"
    await bob.patch(claim, {"lease": job["lease"], "lease_seconds": 60})
    server.rig.clock.pass_by(seconds=120)

    assert (await status(alice, message))["state"] == "queued"
    (job,) = (await bob.post("/agents/bob/claims", {"lease_seconds": 60})).json
    await bob.patch(claim, {"lease": job["lease"], "status": "failed", "error": "secret of another unit"})
    answer = await alice.get(f"/messages/{message['id']}/receipts")
    assert (answer.json["state"], b"secret" in answer.body) == ("dead", False)


@with_server
async def test_a_finished_job_is_acted_on_and_a_message_that_is_marked_as_read_is_not(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    done, read = await send(alice), await send(alice)
    (job,) = (await bob.post("/agents/bob/claims", {"shared": True, "start": "beginning", "lease_seconds": 60})).json
    await bob.patch(f"{MESSAGES}/{read['id']}", {"status": "read"})
    assert await proofs(alice, done) == [("bob", "queued", [])]
    await bob.patch(f"/agents/bob/claims/{job['id']}", {"lease": job["lease"], "status": "done"})

    assert job["item_id"] == done["id"]
    assert await proofs(alice, done) == [("bob", "acted", ["done"])]
    assert await proofs(alice, read) == [("bob", "acknowledged", ["read"])]


@with_server
async def test_a_bookmark_proves_what_its_stream_has_shown(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    before = await send(alice)
    mark = await bookmark(bob, "bob", "now")
    first, second = await send(alice), await send(alice)
    head = (await bob.get("/agents/bob/bookmarks/default")).json["head"]

    assert (await status(alice, first))["state"] == "queued"
    await save(bob, "bob", mark, head, head)
    assert await proofs(alice, before) == [("bob", "queued", [])]
    assert await proofs(alice, first) == [("bob", "acknowledged", ["bookmark"])]
    assert await proofs(alice, second) == [("bob", "queued", [])]
    await save(bob, "bob", mark, head)
    assert await proofs(alice, second) == [("bob", "acknowledged", ["bookmark"])]


@with_server
async def test_a_bookmark_proves_nothing_of_what_its_stream_left_out(server: LiveServer) -> None:
    """A message that was over, or in a channel that the agent could not read at that time."""
    rig = server.rig
    alice, bob = await server.client("alice"), await server.client("bob")
    mark = await bookmark(bob, "bob", "now")
    over = await send(alice, expires_at=(rig.clock.at + timedelta(hours=1)).isoformat())
    rig.clock.pass_by(hours=2)
    hidden = await send(alice)
    await rig.access(assignments=(rig.assignment("alice"),), policy=AccessPolicy.CLOSED)
    await rig.access(assignments=(rig.assignment("alice"), rig.assignment("bob")), policy=AccessPolicy.CLOSED)
    await save(bob, "bob", mark, (await bob.get("/agents/bob/bookmarks/default")).json["head"])

    assert await proofs(alice, over) == [("bob", "expired", [])]
    assert await proofs(alice, hidden) == [("bob", "queued", [])]


@with_server
async def test_mail_that_became_jobs_was_given_to_nobody_yet(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    messages = [await send(alice) for _ in range(3)]
    await bob.post("/agents/bob/claims", {"shared": True, "start": "beginning"})

    assert [(await status(alice, message))["state"] for message in messages] == ["queued"] * 3
    mark = await bookmark(bob, "bob")
    await save(bob, "bob", mark, mark["head"])
    assert [(await status(alice, message))["state"] for message in messages] == ["queued"] * 3


@with_server
async def test_a_request_is_acted_on_when_it_is_answered_or_handed_on(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    request = await send(alice, "bob", "request")
    forward = await bob.post(f"{MESSAGES}/{request['id']}/forward", {"to": "carol"})
    reply = await carol.post(f"{MESSAGES}/{forward.json['id']}/reply", {"payload": {}})

    assert reply.status == 201, reply.body
    assert await proofs(alice, request) == [("bob", "acted", ["handed on to carol"])]
    assert await proofs(bob, forward.json) == [("carol", "acted", [f"answered by {reply.json['id']}"])]
    withdrawn = await send(alice, "bob", "request")
    await alice.delete(f"{MESSAGES}/{withdrawn['id']}")
    assert [one["note"] for one in (await status(alice, withdrawn))["receipts"]] == ["withdrawn"]


@with_server
async def test_every_holder_of_a_role_and_every_member_has_a_receipt(server: LiveServer) -> None:
    rig = server.rig
    alice, bob = await server.client("alice"), await server.client("bob")
    waiting = await send(alice, "role:painter")
    await rig.role("reviewer", "bob", "carol")
    await rig.access(assignments=tuple(map(rig.assignment, ("alice", "bob", "carol"))), policy=AccessPolicy.CLOSED)
    to_role, to_all = await send(alice, "role:reviewer"), await send(alice, "*", "broadcast")
    for message in (to_role, to_all):
        await bob.patch(f"{MESSAGES}/{message['id']}", {"status": "read"})

    expected = [("bob", "acknowledged", ["read"]), ("carol", "queued", [])]
    assert (await proofs(alice, to_role), await proofs(alice, to_all)) == (expected, expected)
    assert (await status(alice, to_all))["state"] == "queued"
    assert [one["note"] for one in (await status(alice, waiting))["receipts"]] == ["nobody holds the role yet"]


@with_server
async def test_only_the_sender_its_person_and_admins_see_receipts(server: LiveServer) -> None:
    rig = server.rig
    alice, bob = await server.client("alice"), await server.client("bob")
    await rig.agent("alice", attributes=Attributes(user_id="maria"))
    message = await send(alice)
    path = f"/messages/{message['id']}/receipts"
    admin = await server.client("", KeyKind.ADMIN)
    keys = [await admin.post("/keys", {"kind": "human", "user_id": name}) for name in ("maria", "paul")]
    person, stranger = [server.with_key(key.json["key"]) for key in keys]

    assert [(await client.get(path)).status for client in (alice, person, admin)] == [200] * 3
    refused = [(await client.get(path)) for client in (bob, stranger)]
    assert [(answer.status, answer.code) for answer in refused] == [(404, "not_found")] * 2
    assert (await alice.get("/messages/msg_00000000000000000000000000/receipts")).body == refused[0].body


@pytest.mark.slow
@with_server
async def test_who_waits_is_woken_by_the_proof(server: LiveServer) -> None:
    alice, other, bob = [await server.client(name) for name in ("alice", "alice", "bob")]
    message, request = await send(alice), await send(alice, "bob", "request")
    waits = [
        asyncio.ensure_future(status(alice, message, "?until=acknowledged&wait=50")),
        asyncio.ensure_future(status(other, request, "?until=acted&wait=50")),
    ]
    await bob.patch(f"{MESSAGES}/{message['id']}", {"status": "read"})
    await bob.post(f"{MESSAGES}/{request['id']}/reply", {"payload": {}})

    assert [one["state"] for one in await asyncio.wait_for(asyncio.gather(*waits), 40)] == ["acknowledged", "acted"]
    late = await status(alice, await send(alice), "?until=acted&wait=0.01")
    assert late["state"] == "queued"
    assert (await alice.get(f"/messages/{message['id']}/receipts?until=injected&wait=1")).code == "invalid"
