"""A message that carries a proof is taken only when its sender's key made it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parley.app.team.directory import proofs
from parley.domain.agents.identity import Identity, Proof
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.team import ProofInvalid
from parley.domain.message.message import Pattern
from tests.team_rig import Rig, with_rig

PRIVATE = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
CONTENT = b"what was said"
PROOF = Proof("", PRIVATE.sign(CONTENT))


def read_key(text: str) -> bytes:
    assert text == "ed25519:A"
    return PRIVATE.public_key().public_bytes_raw()


async def an_identity(rig: Rig) -> Identity:
    return await rig.put(
        Identity(id="a", tenant_id="default", public_key="ed25519:A", did="did:key:zA", registered_at=rig.at())
    )


async def check(rig: Rig, proof: Proof = PROOF, agent: str = "a", content: bytes = CONTENT) -> None:
    await proofs.check(rig.team, rig.caller(agent), proof, (b"another spelling", content), read_key)


@with_rig
async def test_a_proof_by_the_senders_key_is_taken(rig: Rig) -> None:
    await an_identity(rig)

    await check(rig)


@pytest.mark.parametrize("method", ["did:key:zA", "did:key:zA#zA", "ed25519:A"])
@with_rig
async def test_a_proof_may_name_the_key_in_any_of_its_ways(rig: Rig, method: str) -> None:
    await an_identity(rig)

    await check(rig, PROOF._replace(method=method))


@with_rig
async def test_a_proof_that_names_another_key_is_refused(rig: Rig) -> None:
    await an_identity(rig)

    with pytest.raises(ProofInvalid):
        await check(rig, PROOF._replace(method="did:key:zB"))


@with_rig
async def test_a_proof_over_something_else_is_refused(rig: Rig) -> None:
    await an_identity(rig)

    with pytest.raises(ProofInvalid):
        await check(rig, content=CONTENT + b"!")


@with_rig
async def test_a_sender_without_a_key_proves_nothing(rig: Rig) -> None:
    await an_identity(rig)

    with pytest.raises(ProofInvalid):
        await check(rig, agent="b")
    with pytest.raises(ProofInvalid):
        await proofs.check(rig.team, rig.caller(kind=KeyKind.ADMIN), PROOF, (CONTENT,), read_key)


@with_rig
async def test_a_key_that_has_expired_proves_nothing(rig: Rig) -> None:
    known = await an_identity(rig)
    await rig.put(replace(known, expires_at=rig.at()))

    with pytest.raises(ProofInvalid):
        await check(rig)


@with_rig
async def test_a_response_is_signed_as_going_to_the_one_who_asked(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    bob = rig.caller("bob")

    assert await proofs.addressee(rig.team, bob, PostDraft(Pattern.RESPONSE, b"{}", in_reply_to=asked.id)) == "alice"
    assert await proofs.addressee(rig.team, bob, PostDraft(Pattern.RESPONSE, b"{}", in_reply_to="msg_x")) == ""


@pytest.mark.parametrize(
    ("pattern", "to", "signed"),
    [
        (Pattern.NOTIFY, "bob", "bob"),
        (Pattern.NOTIFY, "", ""),
        (Pattern.BROADCAST, "", "*"),
        (Pattern.REQUEST, "b", "b"),
    ],
)
@with_rig
async def test_everything_else_is_signed_as_it_goes_out(rig: Rig, pattern: Pattern, to: str, signed: str) -> None:
    assert await proofs.addressee(rig.team, rig.caller("a"), PostDraft(pattern, b"{}", to)) == signed
