"""An agent proves its key, replaces it with the old one's signature, and has others' checked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parley.app.team.directory import agents as registry
from parley.app.team.directory import identity
from parley.app.team.directory.identity import PublicKey
from parley.domain.agents.identity import Challenge, Identity, Proof
from parley.domain.audit.entry import TENANT_SIDE
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Conflict, Invalid, NotFound
from parley.domain.errors.team import AgentGone, ProofInvalid, WrongSender
from parley.domain.message.message import Pattern
from parley.domain.store.changes import AuditQuery
from tests.rigs.team import Rig, with_rig


class Pair:
    """A key pair, by a name that stands for its text."""

    def __init__(self, seed: int) -> None:
        self.private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        raw = self.private.public_key().public_bytes_raw()
        self.public = PublicKey(raw, f"ed25519:{seed}", f"did:key:z{seed}")

    def sign(self, content: bytes) -> bytes:
        return self.private.sign(content)


ONE, TWO = Pair(1), Pair(2)


async def asked(rig: Rig, pair: Pair = ONE, agent: str = "a") -> Challenge:
    return await identity.challenge(rig.team, rig.caller(agent), agent, pair.public)


async def answer(rig: Rig, challenge: Challenge, pair: Pair = ONE, *, signed: bytes = b"") -> Identity:
    content = challenge.text.encode()
    signature = signed or pair.sign(content)
    caller = rig.caller(challenge.id)
    return await identity.answer(
        rig.team, caller, challenge.id, challenge.text, pair.public.raw, signature, (content, b"other spelling")
    )


async def an_identity(rig: Rig, pair: Pair = ONE) -> Identity:
    return await answer(rig, await asked(rig, pair), pair)


async def rotate(rig: Rig, old: Pair, new: Pair, *, signer: Pair | None = None) -> Identity:
    content = f"{old.public.text} to {new.public.text}".encode()
    signature = (signer or old).sign(content)
    return await identity.rotate(rig.team, rig.caller("a"), "a", old.public, new.public, signature, content)


@with_rig
async def test_a_signed_challenge_makes_the_identity(rig: Rig) -> None:
    made = await an_identity(rig)

    assert (made.id, made.public_key, made.did) == ("a", "ed25519:1", "did:key:z1")
    assert await identity.get(rig.team, rig.caller("b"), "a") == made
    assert await identity.all_of(rig.team, "default") == {"a": made}


@with_rig
async def test_without_an_identity_there_is_nothing_to_show(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await identity.get(rig.team, rig.caller("b"), "a")


@with_rig
async def test_a_challenge_holds_256_bits_and_lasts_five_minutes(rig: Rig) -> None:
    challenge = await asked(rig)

    assert len(challenge.text) == 43
    rig.clock.pass_by(seconds=299)
    assert await identity.pending_key(rig.team, rig.caller("a"), "a") == "ed25519:1"
    rig.clock.pass_by(seconds=1)
    assert await identity.pending_key(rig.team, rig.caller("a"), "a") == ""
    with pytest.raises(ProofInvalid):
        await answer(rig, challenge)


@with_rig
async def test_a_challenge_is_answered_once(rig: Rig) -> None:
    challenge = await asked(rig)
    await answer(rig, challenge)

    with pytest.raises(ProofInvalid):
        await answer(rig, challenge)


@pytest.mark.both_stores
@with_rig
async def test_of_many_answers_at_once_one_counts(rig: Rig) -> None:
    challenge = await asked(rig)

    results = await asyncio.gather(*(answer(rig, challenge) for _ in range(8)), return_exceptions=True)

    assert sum(isinstance(one, Identity) for one in results) == 1
    assert sum(isinstance(one, ProofInvalid) for one in results) == 7


@with_rig
async def test_a_wrong_signature_uses_the_challenge_up(rig: Rig) -> None:
    challenge = await asked(rig)

    with pytest.raises(ProofInvalid):
        await answer(rig, challenge, signed=TWO.sign(challenge.text.encode()))
    with pytest.raises(ProofInvalid):
        await answer(rig, challenge)


@with_rig
async def test_a_newer_challenge_replaces_the_older(rig: Rig) -> None:
    older = await asked(rig)
    newer = await asked(rig)

    with pytest.raises(ProofInvalid):
        await answer(rig, older)
    assert (await answer(rig, newer)).public_key == "ed25519:1"


@with_rig
async def test_a_key_that_counts_is_not_replaced_by_a_challenge(rig: Rig) -> None:
    await an_identity(rig)

    with pytest.raises(Conflict):
        await asked(rig, TWO)
    assert (await asked(rig, ONE)).public_key == "ed25519:1"


@with_rig
async def test_an_admin_may_replace_a_key_that_was_lost(rig: Rig) -> None:
    await an_identity(rig)

    challenge = await identity.challenge(rig.team, rig.caller(kind=KeyKind.ADMIN), "a", TWO.public)
    changed = await answer(rig, challenge, TWO)

    assert (changed.public_key, changed.previous_keys) == ("ed25519:2", ("ed25519:1",))


@with_rig
async def test_a_key_that_has_expired_may_be_replaced(rig: Rig) -> None:
    ends = rig.clock.at + timedelta(hours=1)
    challenge = await identity.challenge(rig.team, rig.caller("a"), "a", ONE.public, ends)
    made = await answer(rig, challenge)
    content = b"content"
    assert identity.signed(rig.team, made, ONE.public.raw, ONE.sign(content), (content,))

    rig.clock.pass_by(hours=1)

    assert not identity.signed(rig.team, made, ONE.public.raw, ONE.sign(content), (content,))
    assert (await an_identity(rig, TWO)).public_key == "ed25519:2"


@with_rig
async def test_a_key_does_not_begin_expired(rig: Rig) -> None:
    with pytest.raises(Invalid):
        await identity.challenge(rig.team, rig.caller("a"), "a", ONE.public, rig.clock.at)


@with_rig
async def test_the_old_key_signs_for_the_new_one(rig: Rig) -> None:
    await an_identity(rig)

    changed = await rotate(rig, ONE, TWO)

    assert (changed.public_key, changed.did, changed.previous_keys) == ("ed25519:2", "did:key:z2", ("ed25519:1",))


@with_rig
async def test_nobody_else_signs_for_a_new_key(rig: Rig) -> None:
    await an_identity(rig)

    with pytest.raises(ProofInvalid):
        await rotate(rig, ONE, TWO, signer=TWO)
    with pytest.raises(ProofInvalid):
        await rotate(rig, TWO, ONE)


@with_rig
async def test_a_rotation_is_not_played_again_and_no_key_comes_back(rig: Rig) -> None:
    await an_identity(rig)
    await rotate(rig, ONE, TWO)

    with pytest.raises(ProofInvalid):
        await rotate(rig, ONE, TWO)
    with pytest.raises(Invalid):
        await rotate(rig, TWO, ONE)


@with_rig
async def test_only_the_agent_a_service_or_an_admin_touches_an_identity(rig: Rig) -> None:
    challenge = await asked(rig)

    with pytest.raises(WrongSender):
        await identity.challenge(rig.team, rig.caller("b"), "a", TWO.public)
    with pytest.raises(WrongSender):
        await identity.answer(rig.team, rig.caller("b"), "a", challenge.text, ONE.public.raw, b"", ())
    with pytest.raises(WrongSender):
        await identity.rotate(rig.team, rig.caller("b"), "a", ONE.public, TWO.public, b"", b"")


@with_rig
async def test_who_has_left_proves_nothing(rig: Rig) -> None:
    await rig.agent("a")
    await registry.deregister(rig.team, rig.caller("a"), "a")

    with pytest.raises(AgentGone):
        await asked(rig)


# ---------------------------------------------------------------- proofs in messages

PRIVATE = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
CONTENT = b"what was said"
PROOF = Proof("", PRIVATE.sign(CONTENT))


def read_key(text: str) -> bytes:
    assert text == "ed25519:A"
    return PRIVATE.public_key().public_bytes_raw()


async def a_stored_identity(rig: Rig) -> Identity:
    return await rig.put(
        Identity(id="a", tenant_id="default", public_key="ed25519:A", did="did:key:zA", registered_at=rig.at())
    )


async def check(rig: Rig, proof: Proof = PROOF, agent: str = "a", content: bytes = CONTENT) -> None:
    await identity.check_proof(rig.team, rig.caller(agent), proof, (b"another spelling", content), read_key)


@with_rig
async def test_a_proof_by_the_senders_key_is_taken(rig: Rig) -> None:
    await a_stored_identity(rig)

    await check(rig)


@pytest.mark.parametrize("method", ["did:key:zA", "did:key:zA#zA", "ed25519:A"])
@with_rig
async def test_a_proof_may_name_the_key_in_any_of_its_ways(rig: Rig, method: str) -> None:
    await a_stored_identity(rig)

    await check(rig, PROOF._replace(method=method))


@with_rig
async def test_a_proof_that_names_another_key_is_refused(rig: Rig) -> None:
    await a_stored_identity(rig)

    with pytest.raises(ProofInvalid):
        await check(rig, PROOF._replace(method="did:key:zB"))


@with_rig
async def test_a_proof_over_something_else_is_refused(rig: Rig) -> None:
    await a_stored_identity(rig)

    with pytest.raises(ProofInvalid):
        await check(rig, content=CONTENT + b"!")


@with_rig
async def test_a_sender_without_a_key_proves_nothing(rig: Rig) -> None:
    await a_stored_identity(rig)

    with pytest.raises(ProofInvalid):
        await check(rig, agent="b")
    with pytest.raises(ProofInvalid):
        await identity.check_proof(rig.team, rig.caller(kind=KeyKind.ADMIN), PROOF, (CONTENT,), read_key)


@with_rig
async def test_a_key_that_has_expired_proves_nothing(rig: Rig) -> None:
    known = await a_stored_identity(rig)
    await rig.put(replace(known, expires_at=rig.at()))

    with pytest.raises(ProofInvalid):
        await check(rig)


@with_rig
async def test_a_response_is_signed_as_going_to_the_one_who_asked(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    asked = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    bob = rig.caller("bob")

    assert (
        await identity.addressee_of(rig.team, bob, PostDraft(Pattern.RESPONSE, b"{}", in_reply_to=asked.id)) == "alice"
    )
    assert await identity.addressee_of(rig.team, bob, PostDraft(Pattern.RESPONSE, b"{}", in_reply_to="msg_x")) == ""


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
    assert await identity.addressee_of(rig.team, rig.caller("a"), PostDraft(pattern, b"{}", to)) == signed


@pytest.mark.requirement("GOV-AUDIT-KEYS")
@with_rig
async def test_a_signing_key_is_on_record_when_it_is_registered_replaced_and_rotated(rig: Rig) -> None:
    await an_identity(rig, ONE)
    await rotate(rig, ONE, TWO)
    admin, three = rig.caller("", KeyKind.ADMIN), Pair(3)  # after a loss
    challenge = await identity.challenge(rig.team, admin, "a", three.public, rig.clock.at + timedelta(days=1))
    await answer(rig, challenge, three)

    entries = [
        json.loads(entry.document) for entry in await rig.store.audits("default", AuditQuery(sides=(TENANT_SIDE,)))
    ]
    shown = [[document.get(name) for name in ("action", "agent_id", "did", "replaces")] for document in entries]
    assert shown == [
        ["identity_registered", "a", "did:key:z1", None],
        ["identity_rotated", "a", "did:key:z2", "did:key:z1"],
        ["identity_registered", "a", "did:key:z3", "did:key:z2"],
    ]
    assert [document.get("expires_at", "") != "" for document in entries] == [False, False, True]
    assert {document["key"] for document in entries} == {rig.caller("a").key_id}


@with_rig
async def test_a_refused_signing_key_is_not_on_record(rig: Rig) -> None:
    challenge = await asked(rig)
    with pytest.raises(ProofInvalid):
        await answer(rig, challenge, signed=TWO.sign(challenge.text.encode()))

    assert await rig.store.audit_size("default") == 0
