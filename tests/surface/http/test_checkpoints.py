"""Checkpoints and discovery over HTTP, checked as the OpenIntent SDK checks them."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from tests.rigs.behind_the_server import change
from tests.rigs.team import INTENT, Client, LiveServer, with_server

pytestmark = pytest.mark.both_stores

EVENTS = f"/intents/{INTENT}/events"


async def made(admin: Client) -> dict[str, Any]:
    answer = await admin.post("/admin/checkpoints", {"intent_id": INTENT, "scope": "intent"})
    assert answer.status == 201
    document: dict[str, Any] = answer.json
    return document


async def written(client: Client, count: int) -> list[Any]:
    return [(await client.post(EVENTS, {"event_type": "comment", "payload": {"n": n}})).json for n in range(count)]


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.removeprefix("sha256:") + "=")


def leads_to_the_root(proof: dict[str, Any]) -> bool:
    """What the SDK's MerkleProof.verify() does."""
    current = decoded(proof["event_hash"])
    for step in proof["proof_hashes"]:
        sibling = decoded(step["hash"])
        joined = sibling + current if step["position"] == "left" else current + sibling
        current = hashlib.sha256(joined).digest()
    return current == decoded(proof["merkle_root"])


@with_server
async def test_every_event_of_a_checkpoint_can_be_proved(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
    events = await written(alice, 5)

    checkpoint = await made(admin)
    proofs = [(await alice.get(f"/checkpoints/{checkpoint['checkpoint_id']}/proof/{one['id']}")).json for one in events]

    assert (checkpoint["event_count"], checkpoint["first_sequence"], checkpoint["last_sequence"]) == (5, 1, 5)
    assert [proof["leaf_index"] for proof in proofs] == [0, 1, 2, 3, 4]
    assert all(leads_to_the_root(proof) for proof in proofs)
    assert not leads_to_the_root({**proofs[0], "event_hash": proofs[1]["event_hash"]})


@with_server
async def test_the_root_of_one_event_is_its_hash(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
    (event,) = await written(alice, 1)

    checkpoint = await made(admin)
    proof = (await alice.get(f"/checkpoints/{checkpoint['checkpoint_id']}/proof/{event['id']}")).json

    assert checkpoint["merkle_root"] == event["event_hash"]
    assert proof["proof_hashes"] == []


@with_server
async def test_a_checkpoint_goes_on_where_the_last_one_ended(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
    await written(alice, 2)
    first = await made(admin)
    late = await written(alice, 3)

    second = await made(admin)
    without_news = await admin.post("/admin/checkpoints", {"intent_id": INTENT})
    listed = await alice.get("/checkpoints", intent_id=INTENT, scope="intent")
    elsewhere = await alice.get(f"/checkpoints/{first['checkpoint_id']}/proof/{late[0]['id']}")

    assert (second["first_sequence"], second["last_sequence"]) == (3, 5)
    assert (without_news.status, without_news.json) == (200, second)
    assert listed.json == (await alice.get("/checkpoints")).json == [first, second]
    assert (await alice.get(f"/checkpoints/{first['checkpoint_id']}")).json == first
    assert elsewhere.status == 404


@with_server
async def test_two_checkpoints_of_one_log_are_consistent(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
    events = await written(alice, 2)
    first = (await made(admin))["checkpoint_id"]
    await written(alice, 2)
    await made(admin)
    await written(alice, 2)
    last = (await made(admin))["checkpoint_id"]

    answer = await alice.get("/verify/consistency", from_checkpoint=first, to_checkpoint=last)
    backwards = await alice.get("/verify/consistency", from_checkpoint=last, to_checkpoint=first)
    unnamed = await alice.get("/verify/consistency", from_checkpoint=last)

    assert answer.json == {
        "from_checkpoint": first,
        "to_checkpoint": last,
        "consistent": True,
        "boundary_event": events[1]["id"],
    }
    assert (backwards.status, unnamed.status) == (422, 422)


@with_server
async def test_what_was_changed_between_two_checkpoints_is_found_out(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
    await written(alice, 2)
    first = (await made(admin))["checkpoint_id"]
    await written(alice, 2)
    await made(admin)
    await written(alice, 2)
    last = (await made(admin))["checkpoint_id"]
    change(server.rig, "DELETE FROM event WHERE sequence = 3", guards=False)

    answer = await alice.get("/verify/consistency", from_checkpoint=first, to_checkpoint=last)

    assert answer.json["consistent"] is False


@with_server
async def test_only_an_admin_makes_checkpoints_by_hand(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)

    refused = await alice.post("/admin/checkpoints", {"intent_id": INTENT})
    unknown = await admin.post("/admin/checkpoints", {"intent_id": "nope"})
    empty = await admin.post("/admin/checkpoints", {"intent_id": INTENT})

    assert (refused.status, refused.code) == (403, "scope_required")
    assert (unknown.status, empty.status) == (404, 404)


@with_server
async def test_checkpoints_of_what_one_may_not_see_are_not_there(server: LiveServer) -> None:
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
    (event,) = await written(alice, 1)
    checkpoint = (await made(admin))["checkpoint_id"]
    await server.rig.access(policy=AccessPolicy.CLOSED)

    for client in (await server.client("mallory"), await server.client("alice", tenant="other")):
        answers = [
            await client.get(f"/checkpoints/{checkpoint}"),
            await client.get(f"/checkpoints/{checkpoint}/proof/{event['id']}"),
            await client.get("/checkpoints", intent_id=INTENT),
            await client.get("/verify/consistency", from_checkpoint=checkpoint, to_checkpoint=checkpoint),
        ]
        assert [answer.status for answer in answers] == [404] * 4
        assert (await client.get("/checkpoints")).json == []


@with_server
async def test_anybody_may_ask_what_this_server_speaks(server: LiveServer) -> None:
    nobody = server.with_key("")

    document = await nobody.get("/.well-known/openintent.json")
    config = await nobody.get("/server/config")

    assert document.status == 200
    assert {"intents", "events", "channels"} <= set(document.json["capabilities"])
    assert (await nobody.get(document.json["openApiUrl"])).status == 200
    assert config.json["suspension"] == {"default_retry_policy": None}
