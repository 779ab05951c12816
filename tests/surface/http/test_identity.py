"""Cryptographic identity over HTTP, with the requests of the OpenIntent SDK; and proofs in messages."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parley.domain.channel.channel import MemberPolicy
from tests.rigs.team import Client, LiveServer, with_server


def spelled(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Signer:
    """An agent's key pair."""

    def __init__(self, seed: int) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.public_key = "ed25519:" + spelled(self._private.public_key().public_bytes_raw())

    def sign(self, content: bytes) -> str:
        return spelled(self._private.sign(content))

    def signed(self, document: dict[str, Any]) -> str:
        return self.sign(rfc8785.dumps(document))


ONE, TWO = Signer(1), Signer(2)


async def identify(client: Client, agent: str, signer: Signer = ONE) -> dict[str, Any]:
    """Register an identity with both steps."""
    asked = (await client.post(f"/agents/{agent}/identity", {"public_key": signer.public_key})).json
    body = {"challenge": asked["challenge"], "signature": signer.sign(asked["challenge"].encode())}
    made = await client.post(f"/agents/{agent}/identity/challenge", body)
    assert made.status == 201
    known: dict[str, Any] = made.json
    return known


@with_server
async def test_an_identity_is_registered_in_the_two_steps_of_the_sdk(server: LiveServer) -> None:
    alice = await server.client("alice")
    body = {"public_key": ONE.public_key, "key_algorithm": "Ed25519", "key_expires_at": "2027-01-01T00:00:00"}
    asked = await alice.post("/agents/alice/identity", body)
    assert asked.status == 200
    assert len(base64.urlsafe_b64decode(asked.json["challenge"] + "=")) == 32

    raw = base64.urlsafe_b64decode(asked.json["challenge"] + "=")
    answer = {"challenge": asked.json["challenge"], "signature": ONE.sign(raw)}
    made = await alice.post("/agents/alice/identity/challenge", answer)

    assert made.status == 201
    assert made.json["public_key"] == ONE.public_key
    assert made.json["did"].startswith("did:key:z6Mk")
    assert made.json["key_expires_at"] == "2027-01-01T00:00:00.000000+00:00"
    assert (await alice.get("/agents/alice/identity")).json == made.json


@with_server
async def test_the_record_of_an_agent_shows_its_identity(server: LiveServer) -> None:
    alice = await server.client("alice")
    await alice.post("/agents/register", {"agent_id": "alice"})
    made = await identify(alice, "alice")

    record = (await alice.get("/agents/alice/record")).json

    assert (record["public_key"], record["did"]) == (ONE.public_key, made["did"])
    assert (await alice.get("/agents")).json[0]["did"] == made["did"]


@with_server
async def test_a_wrong_signature_is_refused_and_uses_the_challenge_up(server: LiveServer) -> None:
    alice = await server.client("alice")
    asked = (await alice.post("/agents/alice/identity", {"public_key": ONE.public_key})).json
    wrong = {"challenge": asked["challenge"], "signature": TWO.sign(asked["challenge"].encode())}
    right = {"challenge": asked["challenge"], "signature": ONE.sign(asked["challenge"].encode())}

    for body in (wrong, right):
        refused = await alice.post("/agents/alice/identity/challenge", body)
        assert (refused.status, refused.code) == (403, "proof_invalid")
    assert (await alice.get("/agents/alice/identity")).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"public_key": "ed25519:short"},
        {"public_key": ONE.public_key, "key_algorithm": "RSA"},
        {"public_key": ONE.public_key, "key_expires_at": "never"},
        {"public_key": ONE.public_key, "key_expires_at": "2020-01-01T00:00:00Z"},
    ],
)
@with_server
async def test_what_is_no_key_is_422(server: LiveServer, body: dict[str, str]) -> None:
    alice = await server.client("alice")

    assert (await alice.post("/agents/alice/identity", body)).status == 422


@with_server
async def test_nobody_registers_a_key_for_another(server: LiveServer) -> None:
    mallory = await server.client("mallory")

    refused = await mallory.post("/agents/alice/identity", {"public_key": TWO.public_key})

    assert (refused.status, refused.code) == (403, "sender_mismatch")


@with_server
async def test_another_key_needs_a_rotation_signed_by_the_old_one(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")
    body = {"action": "rotate", "new_public_key": TWO.public_key, "old_public_key": ONE.public_key}

    assert (await alice.post("/agents/alice/identity", {"public_key": TWO.public_key})).status == 409
    forged = await alice.post("/agents/alice/identity/rotate", {**body, "signature": TWO.signed(body)})
    assert (forged.status, forged.code) == (403, "proof_invalid")
    rotated = await alice.post("/agents/alice/identity/rotate", {**body, "signature": ONE.signed(body)})

    assert rotated.status == 200
    assert (rotated.json["public_key"], rotated.json["previous_keys"]) == (TWO.public_key, [ONE.public_key])


@with_server
async def test_a_signature_is_checked_over_canonical_json(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await identify(alice, "alice")
    payload = {"b": [1, 2.5], "a": "ü"}

    right = await bob.post(
        "/agents/alice/identity/verify", {"payload": payload, "signature": ONE.signed({"a": "ü", "b": [1, 2.5]})}
    )
    wrong = await bob.post("/agents/alice/identity/verify", {"payload": payload, "signature": ONE.signed({"a": "u"})})

    assert (right.status, right.json["valid"], right.json["agent_id"]) == (200, True, "alice")
    assert (wrong.status, wrong.json["valid"]) == (200, False)
    assert (await bob.post("/agents/bob/identity/verify", {"payload": {}, "signature": ""})).status == 404


# ---------------------------------------------------------------- proofs in messages


def proven(signer: Signer, body: dict[str, Any], **resulting: str) -> dict[str, Any]:
    """The body with a proof over the message that it will become."""
    metadata = body.get("metadata", {})
    document = {
        "channel_id": "chan_1",
        "sender": "alice",
        "to": body.get("to"),
        "message_type": body.get("message_type", "notify"),
        "correlation_id": None,
        "payload": body["payload"],
        "expires_at": body.get("expires_at"),
        "metadata": metadata,
        **resulting,
    }
    proof = {"type": "Ed25519Signature2026", "created": "2026-03-13T14:30:00Z", "signature": signer.signed(document)}
    return {**body, "metadata": {**metadata, "proof": proof}}


MESSAGE = {"payload": {"b": 1, "a": [True, None]}, "to": "bob", "message_type": "request", "metadata": {"k": "v"}}
SEND = "/channels/chan_1/messages"


@with_server
async def test_a_message_with_a_fitting_proof_is_posted_with_it(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")
    body = proven(ONE, {**MESSAGE, "expires_at": "2026-03-13T15:00:00Z"})

    sent = await alice.post(SEND, body)

    assert sent.status == 201
    assert sent.json["metadata"] == body["metadata"]


@with_server
async def test_a_message_whose_proof_does_not_fit_is_not_posted(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")
    body = proven(ONE, MESSAGE)
    forged: list[dict[str, Any]] = [
        {**body, "payload": {"b": 2}},
        {**body, "to": "carol"},
        {**body, "message_type": "notify"},
        {**body, "metadata": {**body["metadata"], "k": "w"}},
        {**body, "metadata": {"proof": body["metadata"]["proof"]}},
        proven(TWO, MESSAGE),
        proven(ONE, MESSAGE, channel_id="chan_2"),
        proven(ONE, MESSAGE, sender="bob"),
        {**body, "metadata": {"k": "v", "proof": "signed, honestly"}},
        {**body, "metadata": {"k": "v", "proof": {}}},
        {**body, "metadata": {"k": "v", "proof": None}},
    ]

    for one in forged:
        refused = await alice.post(SEND, one)
        assert (refused.status, refused.code) == (403, "proof_invalid"), json.dumps(one)
    assert (await alice.get(SEND)).json == []


@with_server
async def test_a_proof_without_a_registered_key_is_refused(server: LiveServer) -> None:
    alice = await server.client("alice")

    assert (await alice.post(SEND, proven(ONE, MESSAGE))).code == "proof_invalid"


@with_server
async def test_a_reply_is_signed_as_the_response_that_it_becomes(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await identify(bob, "bob")
    asked = (await alice.post(SEND, MESSAGE)).json["id"]
    body = {"payload": {"answer": 42}}
    resulting = {"sender": "bob", "to": "alice", "message_type": "response", "correlation_id": asked}

    as_sent = await bob.post(f"{SEND}/{asked}/reply", proven(ONE, body, sender="bob"))
    assert as_sent.code == "proof_invalid"
    answered = await bob.post(f"{SEND}/{asked}/reply", proven(ONE, body, **resulting))

    assert answered.status == 201
    assert answered.json["to"] == "alice"


@with_server
async def test_a_broadcast_is_signed_as_going_to_everyone(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")
    body = {"payload": {}, "message_type": "broadcast"}

    assert (await alice.post(SEND, proven(ONE, body, to="*"))).status == 201


@with_server
async def test_one_wrong_proof_refuses_the_whole_batch(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")

    refused = await alice.post("/channels/chan_1/batch", {"messages": [proven(ONE, MESSAGE), proven(TWO, MESSAGE)]})

    assert refused.code == "proof_invalid"
    assert (await alice.get(SEND)).json == []
    posted = await alice.post("/channels/chan_1/batch", {"messages": [proven(ONE, MESSAGE)] * 2})
    assert posted.status == 201


@with_server
async def test_the_proof_of_a_question_is_checked_too(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")
    body = {"payload": {}, "to": "bob", "metadata": {}}
    signed = proven(TWO, {**body, "message_type": "request"})
    del signed["message_type"]

    assert (await alice.post("/channels/chan_1/ask", {**signed, "timeout": 0.1})).code == "proof_invalid"


@with_server
async def test_a_channel_that_does_not_exist_yet_has_no_id_to_sign(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")

    early = await alice.post("/intents/intent_1/channels/new/messages", proven(ONE, MESSAGE))
    by_name = await alice.post("/intents/intent_1/channels/chan_1/messages", proven(ONE, MESSAGE))

    assert (early.status, early.json["errors"][0]["field"]) == (422, "metadata.proof")
    assert by_name.status == 201


@with_server
async def test_a_proof_tells_nothing_about_a_channel_one_may_not_know(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identify(alice, "alice")
    await server.rig.channel("chan_9", created_by="bob", policy=MemberPolicy.EXPLICIT)

    hidden = await alice.post("/channels/chan_9/messages", proven(TWO, MESSAGE))
    nothing = await alice.post("/channels/chan_0/messages", proven(TWO, MESSAGE))

    assert (hidden.status, hidden.body) == (nothing.status, nothing.body)
    assert hidden.status == 404
