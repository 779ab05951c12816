"""Cryptographic identity: an agent proves its key by a challenge, rotates it, and signs messages with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.agents import check_changes
from parley.app.team.retry import put
from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.identity import CHALLENGE_LASTS, Challenge, Identity, proved, rotated
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.directory.callers import EVERYONE, KeyKind, party_name
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Problem, Stale
from parley.domain.errors.team import AgentGone, ProofInvalid
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from parley.app.team.team import Team
    from parley.domain.agents.identity import Proof
    from parley.domain.channel.post import PostDraft
    from parley.domain.directory.callers import Caller


class PublicKey(NamedTuple):
    """A public key: its bytes, and the texts by which others know it."""

    raw: bytes
    text: str
    did: str


async def find(team: Team, tenant: str, agent_id: str) -> Identity | None:
    """An agent's identity, if it has one."""
    return await team.store.get(Identity, tenant, agent_id)


async def all_of(team: Team, tenant: str) -> dict[str, Identity]:
    """Every identity of a tenant by its agent."""
    limit = team.limits.agents_per_tenant + 1
    return {identity.id: identity for identity in await team.store.children(Identity, tenant, "", limit=limit)}


async def get(team: Team, caller: Caller, agent_id: str) -> Identity:
    """An agent's identity."""
    identity = await find(team, caller.tenant, agent_id)
    if identity is None:
        raise NotFound.no_such("identity")
    return identity


async def challenge(
    team: Team, caller: Caller, agent_id: str, key: PublicKey, expires_at: datetime | None = None
) -> Challenge:
    """Create a challenge for a public key; the key is valid once the signed challenge comes back."""
    party_name(agent_id)
    await check_changes(team, caller, agent_id)
    now = team.now()
    if expires_at is not None and expires_at <= now:
        raise Invalid.because([Problem("invalid", "key_expires_at", "is in the past")])

    async def decide() -> TeamChanges:
        await _check_present(team, caller, agent_id)
        await _check_free(team, caller, agent_id, key)
        earlier = await team.store.get(Challenge, caller.tenant, agent_id)
        new_challenge = Challenge(
            id=agent_id,
            tenant_id=caller.tenant,
            version=earlier.version if earlier else 0,
            text=team.ids.secret(),
            public_key=key.text,
            did=key.did,
            ends_at=stamp(now + CHALLENGE_LASTS),
            key_expires_at=stamp(expires_at) if expires_at else "",
        )
        return TeamChanges(caller.tenant, puts=(new_challenge,))

    return await put(team, caller, decide, Challenge, "identity")


async def _check_present(team: Team, caller: Caller, agent_id: str) -> None:
    record = await team.store.get(AgentRecord, caller.tenant, agent_id)
    if record is not None and record.gone:
        raise AgentGone("the agent has left", hint="register it again")


async def _check_free(team: Team, caller: Caller, agent_id: str, key: PublicKey) -> None:
    """Refuse to replace a valid key: its owner rotates it, or an admin replaces it when it was lost."""
    identity = await find(team, caller.tenant, agent_id)
    if identity is None or identity.public_key == key.text or not identity.valid(team.at()):
        return
    if caller.kind is not KeyKind.ADMIN:
        raise Conflict("the agent has another key", hint="rotate it, signed with that one")


async def pending_key(team: Team, caller: Caller, agent_id: str) -> str:
    """The key that an open challenge is about, "" when there is none."""
    pending = await team.store.get(Challenge, caller.tenant, agent_id)
    return pending.public_key if pending is not None and pending.open(team.at()) else ""


async def answer(  # the challenge, its key, and what came back
    team: Team,
    caller: Caller,
    agent_id: str,
    text: str,
    raw_key: bytes,
    signature: bytes,
    contents: Sequence[bytes],
) -> Identity:
    """Accept a signed challenge, once. A wrong signature consumes it as well."""
    await check_changes(team, caller, agent_id)
    pending = await team.store.get(Challenge, caller.tenant, agent_id)
    if pending is None or pending.text != text or not pending.open(team.at()):
        raise ProofInvalid("no such open challenge")
    is_signed = any(team.signatures.verify(raw_key, signature, content) for content in contents)
    if not is_signed:
        await _use_up(team, pending)
        raise ProofInvalid("the signature does not fit the challenge")
    identity = await find(team, caller.tenant, agent_id)
    new_identity = proved(pending, identity, team.at())
    entry = team.entry(caller, "identity_registered", agent_id, did=new_identity.did)
    try:
        changes = TeamChanges(
            caller.tenant,
            puts=(new_identity,),
            drops=(pending,),
            entries=(entry,),
            audits=(_audit(team, caller, "identity_registered", new_identity, identity),),
            created_id=new_identity.id,
        )
        committed = await team.commit(caller, changes)
    except Stale as stale:
        if "kind" not in stale.facts:
            raise
        raise ProofInvalid("the challenge was used at this moment") from None
    record = committed.puts[0]
    assert isinstance(record, Identity)  # noqa: S101  # what was put
    return record


async def _use_up(team: Team, pending: Challenge) -> None:
    try:
        await team.store.commit(TeamChanges(pending.tenant_id, drops=(pending,)))
    except Stale:
        return  # consumed concurrently


async def rotate(
    team: Team, caller: Caller, agent_id: str, old: PublicKey, new: PublicKey, signature: bytes, content: bytes
) -> Identity:
    """Replace an agent's key; the old one signs for the new one."""
    await check_changes(team, caller, agent_id)

    async def decide() -> TeamChanges:
        identity = await get(team, caller, agent_id)
        is_current = identity.public_key == old.text and identity.valid(team.at())
        if not is_current or not team.signatures.verify(old.raw, signature, content):
            raise ProofInvalid("a rotation is signed with the key that counts")
        if new.text in (identity.public_key, *identity.previous_keys):
            raise Invalid.because([Problem("invalid", "new_public_key", "was used before")])
        changed = rotated(identity, new.text, new.did, team.at())
        entry = team.entry(caller, "identity_rotated", agent_id, did=changed.did)
        audit = _audit(team, caller, "identity_rotated", changed, identity)
        return TeamChanges(caller.tenant, puts=(changed,), entries=(entry,), audits=(audit,))

    return await put(team, caller, decide, Identity, "identity")


def _audit(team: Team, caller: Caller, action: str, identity: Identity, earlier: Identity | None) -> AuditDraft:
    """The audit entry about a signing key: auditors need to know whose signatures count, and since when."""
    facts = {"agent_id": identity.id, "did": identity.did, "key": caller.key_id}
    if identity.expires_at:
        facts["expires_at"] = identity.expires_at
    if earlier is not None and earlier.did != identity.did:
        facts["replaces"] = earlier.did
    return AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), action, caller.actor, facts)


def signed(team: Team, identity: Identity, raw_key: bytes, signature: bytes, contents: Sequence[bytes]) -> bool:
    """Whether the key that counts now has signed one of these spellings."""
    return identity.valid(team.at()) and any(
        team.signatures.verify(raw_key, signature, content) for content in contents
    )


async def addressee_of(team: Team, caller: Caller, draft: PostDraft) -> str:
    """Whom the message will be to: a response goes to the one who asked, a broadcast to everyone."""
    if draft.pattern is Pattern.RESPONSE:
        request = await team.requests.get(caller.tenant, draft.in_reply_to)
        return request.sender if request else draft.to
    return EVERYONE if draft.pattern is Pattern.BROADCAST else draft.to


async def check_proof(
    team: Team, caller: Caller, proof: Proof, contents: Sequence[bytes], raw_key: Callable[[str], bytes]
) -> None:
    """Refuse a proof that the sender's key did not make over one of these spellings of the message.

    `raw_key` reads the bytes of a key from its text.
    """
    identity = await find(team, caller.tenant, caller.agent) if caller.agent else None
    if identity is None:
        raise ProofInvalid("the sender has no registered key")
    if proof.method and proof.method.partition("#")[0] not in (identity.did, identity.public_key):
        raise ProofInvalid("the proof names another key than the sender's")
    if not signed(team, identity, raw_key(identity.public_key), proof.signature, contents):
        raise ProofInvalid("the signature does not fit the message")
