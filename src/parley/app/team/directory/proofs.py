"""Proofs: a message that carries a signature is taken only when its sender's own key made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory.identity import find, signed
from parley.domain.directory.callers import EVERYONE
from parley.domain.errors.team import ProofInvalid
from parley.domain.message.message import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parley.app.team.team import Team
    from parley.domain.agents.identity import Proof
    from parley.domain.channel.post import PostDraft
    from parley.domain.directory.callers import Caller


async def addressee(team: Team, caller: Caller, draft: PostDraft) -> str:
    """Whom the message will be to: a response goes to the one who asked, a broadcast to everyone."""
    if draft.pattern is Pattern.RESPONSE:
        request = await team.requests.get(caller.tenant, draft.in_reply_to)
        return request.sender if request else draft.to
    return EVERYONE if draft.pattern is Pattern.BROADCAST else draft.to


async def check(
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
