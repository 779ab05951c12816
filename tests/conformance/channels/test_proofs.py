"""What Parley answers where RFC-0021 is open: decision 20, the proof that a message may carry."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from parley import AsyncClient
from parley.domain.channel.channel import Options
from parley.domain.errors.team import ProofInvalid
from parley.wire.proofs.event_log import canonical
from tests.conformance.channels.talk import CHANNELS, MESSAGES, later, listed, request, send
from tests.rigs.team import Client, LiveServer, with_server


def spelled(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


async def identity(client: Client, agent: str) -> Ed25519PrivateKey:
    """A key that the server knows to be the agent's."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    asked = await client.post(f"/agents/{agent}/identity", {"public_key": f"ed25519:{spelled(public)}"})
    assert asked.status == 200, asked
    challenge = asked.json["challenge"]
    body = {"challenge": challenge, "signature": spelled(private.sign(challenge.encode()))}
    proved = await client.post(f"/agents/{agent}/identity/challenge", body)
    assert proved.status == 201, proved
    return private


def signed(private: Ed25519PrivateKey, body: dict[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    """The body with a proof over the message that it will be; `changes` are what the signature is over instead."""
    metadata = body.get("metadata", {})
    content = {
        "channel_id": "chan_1",
        "sender": "alice",
        "to": body.get("to"),
        "message_type": body.get("message_type", "notify"),
        "correlation_id": body.get("correlation_id"),
        "payload": body["payload"],
        "expires_at": body.get("expires_at"),
        "metadata": metadata,
        **changes,
    }
    proof = {"type": "Ed25519Signature2026", "signature": spelled(private.sign(canonical(content)))}
    return {**body, "metadata": {**metadata, "proof": proof}}


@pytest.mark.requirement("CHAN-20-CHECKED", "RFC21-R-0018")
@with_server
async def test_a_message_with_a_true_proof_is_accepted_and_keeps_it(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    private = await identity(alice, "alice")
    bodies = [
        signed(private, {"payload": {"n": 1, "ü": [0.5, None]}}),
        signed(private, {"payload": {}, "to": "bob", "metadata": {"b": 1, "a": {"z": 0}}}),
        signed(private, {"payload": {}, "message_type": "broadcast"}, to="*"),
        signed(private, {"payload": {}, "to": "bob", "message_type": "request", "expires_at": later(server, hours=1)}),
    ]

    answers = [await alice.post(MESSAGES, body) for body in bodies]

    assert [one.status for one in answers] == [201] * 4
    assert [one["metadata"] for one in await listed(bob)] == [body["metadata"] for body in bodies]


@pytest.mark.requirement("CHAN-20-CHECKED", "RFC21-R-0018")
@with_server
async def test_a_message_that_the_sdk_signed_is_accepted_and_no_other(server: LiveServer) -> None:
    alice = await server.client("alice")
    private = await identity(alice, "alice")
    key = await server.rig.key("alice")
    async with AsyncClient(f"http://127.0.0.1:{server.listener.port}", key=key, agent="alice") as client:
        message: dict[str, Any] = {
            "to": "bob",
            "payload": {"n": 1, "ü": [0.5, None]},
            "expires_at": later(server, seconds=60),
        }
        metadata = client.sign(private.sign, "chan_1", **message, metadata={"topic": "x"})

        sent = await client.send_message("chan_1", **message, metadata=metadata)

        assert sent.metadata["proof"]["signature"]
        with pytest.raises(ProofInvalid):
            await client.send_message("chan_1", **{**message, "payload": {}}, metadata=metadata)


@pytest.mark.requirement("CHAN-20-INVALID")
@pytest.mark.parametrize(
    "other",
    [
        {"channel_id": "chan_2"},
        {"sender": "bob"},
        {"to": "bob"},
        {"message_type": "broadcast"},
        {"correlation_id": "msg_1"},
        {"payload": {"n": 2}},
        {"expires_at": "2030-01-01T00:00:00Z"},
        {"metadata": {"priority": "high"}},
    ],
)
@with_server
async def test_a_proof_of_something_else_is_refused(server: LiveServer, other: dict[str, object]) -> None:
    alice = await server.client("alice")
    private = await identity(alice, "alice")

    answer = await alice.post(MESSAGES, signed(private, {"payload": {"n": 1}}, **other))

    assert (answer.status, answer.code) == (403, "proof_invalid")
    assert await listed(alice) == []


@pytest.mark.requirement("CHAN-20-INVALID")
@with_server
async def test_a_proof_by_another_key_or_of_nobody_is_refused(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await identity(alice, "alice")
    bobs = await identity(bob, "bob")
    carol = await server.client("carol")

    tried = [
        await alice.post(MESSAGES, signed(bobs, {"payload": {}})),
        await carol.post(MESSAGES, signed(bobs, {"payload": {}}, sender="carol")),
        await alice.post(MESSAGES, {"payload": {}, "metadata": {"proof": {}}}),
        await alice.post(MESSAGES, {"payload": {}, "metadata": {"proof": "trust me"}}),
        await alice.post(MESSAGES, {"payload": {}, "metadata": {"proof": None}}),
        await alice.post(f"{CHANNELS}/chan_1/messages", {"payload": {}, "metadata": {"proof": {"signature": "x"}}}),
        await alice.post("/channels/chan_1/batch", {"messages": [{"metadata": {"proof": {"signature": "x"}}}]}),
        await alice.post("/channels/chan_1/ask", {"to": "bob", "payload": {}, "metadata": {"proof": {}}}),
    ]

    assert [(one.status, one.code) for one in tried] == [(403, "proof_invalid")] * len(tried)
    assert await listed(alice) == []


@pytest.mark.requirement("CHAN-20-CHECKED", "CHAN-20-INVALID")
@with_server
async def test_the_proof_of_a_reply_is_over_the_response_that_it_becomes(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    private = await identity(alice, "alice")
    asked = await request(bob, "alice")
    becomes = {"to": "bob", "message_type": "response", "correlation_id": asked["id"]}

    true = await alice.post(f"{MESSAGES}/{asked['id']}/reply", signed(private, {"payload": {"n": 1}}, **becomes))
    false = await alice.post(f"{MESSAGES}/{asked['id']}/reply", signed(private, {"payload": {"n": 1}}))

    assert (true.status, false.status) == (201, 403)


@pytest.mark.requirement("CHAN-20-ABSENT")
@with_server
async def test_a_message_needs_no_proof(server: LiveServer) -> None:
    alice = await server.client("alice")
    await identity(alice, "alice")

    assert (await send(alice))["metadata"] == {}


@pytest.mark.requirement("RFC21-R-0018")
@with_server
async def test_the_copy_of_a_signed_message_in_the_log_keeps_its_proof(server: LiveServer) -> None:
    await server.rig.channel("chan_audited", label="audited", options=Options(audit=True))
    alice = await server.client("alice")
    private = await identity(alice, "alice")
    body = signed(private, {"payload": {"n": 1}, "to": "bob"}, channel_id="chan_audited")

    sent = await alice.post("/channels/chan_audited/messages", body)
    events = (await alice.get("/intents/intent_1/events", event_type="channel_message")).json

    assert sent.status == 201
    assert [one["proof"] for one in events] == [body["metadata"]["proof"]]
    assert (await alice.get("/intents/intent_1/events/verify")).json["valid"] is True
