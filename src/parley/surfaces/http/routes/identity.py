"""Cryptographic identity over HTTP, as the OpenIntent SDK calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory import identity as identities
from parley.app.team.directory.identity import PublicKey
from parley.surfaces.http.route import Call, Route, json
from parley.wire.api import identity
from parley.wire.api.agents import lenient_moment
from parley.wire.api.identity import ChallengeIn, IdentityIn, RotateIn, VerifyIn
from parley.wire.api.records.directory import Challenge, Identity, SignatureCheck
from parley.wire.api.records.record import fill_record
from parley.wire.proofs.event_log import canonical

if TYPE_CHECKING:
    from parley.domain.agents.identity import Challenge as StoredChallenge
    from parley.surfaces.http.http1.message import Response


def _key(text: str, field: str) -> PublicKey:
    raw = identity.raw_key(text, field)
    return PublicKey(raw, identity.spelled_key(raw), identity.did_key(raw))


async def register(call: Call) -> Response:
    body: IdentityIn = call.body
    expires_at = lenient_moment(body.key_expires_at, "key_expires_at")
    key = _key(body.public_key, "public_key")
    new_challenge = await identities.challenge(call.team, call.caller, call.params["agent_id"], key, expires_at)
    return json(200, _challenge(new_challenge))


def _challenge(stored: StoredChallenge) -> Challenge:
    return fill_record(Challenge, agent_id=stored.id, challenge=stored.text, challenge_expires_at=stored.ends_at)


async def get(call: Call) -> Response:
    return json(200, identity.identity_of(await identities.get(call.team, call.caller, call.params["agent_id"])))


async def answer(call: Call) -> Response:
    body: ChallengeIn = call.body
    agent_id = call.params["agent_id"]
    text = await identities.pending_key(call.team, call.caller, agent_id)
    new_identity = await identities.answer(
        call.team,
        call.caller,
        agent_id,
        body.challenge,
        identity.raw_key(text) if text else b"",
        identity.raw_signature(body.signature),
        identity.challenge_contents(body.challenge),
    )
    return json(201, identity.identity_of(new_identity))


async def verify(call: Call) -> Response:
    body: VerifyIn = call.body
    known_identity = await identities.get(call.team, call.caller, call.params["agent_id"])
    raw, signature = identity.raw_key(known_identity.public_key), identity.raw_signature(body.signature)
    valid = identities.signed(call.team, known_identity, raw, signature, (canonical(body.payload),))
    return json(
        200,
        fill_record(
            SignatureCheck, known_identity, valid=valid, agent_id=known_identity.id, verified_at=call.team.at()
        ),
    )


async def rotate(call: Call) -> Response:
    body: RotateIn = call.body
    changed = await identities.rotate(
        call.team,
        call.caller,
        call.params["agent_id"],
        _key(body.old_public_key, "old_public_key"),
        _key(body.new_public_key, "new_public_key"),
        identity.raw_signature(body.signature),
        identity.rotation_content(body),
    )
    return json(200, identity.identity_of(changed))


_TAG = "identity"
_IDENTITY = "/agents/{agent_id}/identity"
ROUTES = (
    Route(
        "POST",
        _IDENTITY,
        register,
        "Request a challenge to prove an agent's key",
        _TAG,
        {200: Challenge},
        body=IdentityIn,
        written=_challenge,
        refusals=(410,),
    ),
    Route("GET", _IDENTITY, get, "Get an agent's identity", _TAG, {200: Identity}),
    Route(
        "POST",
        _IDENTITY + "/challenge",
        answer,
        "Answer a challenge",
        _TAG,
        {201: Identity},
        body=ChallengeIn,
        written=identity.identity_of,
    ),
    Route(
        "POST", _IDENTITY + "/verify", verify, "Verify an agent's signature", _TAG, {200: SignatureCheck}, body=VerifyIn
    ),
    Route(
        "POST",
        _IDENTITY + "/rotate",
        rotate,
        "Replace an agent's key",
        _TAG,
        {200: Identity},
        body=RotateIn,
        written=identity.identity_of,
    ),
)
