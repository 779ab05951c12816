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
    from parley.surfaces.http.http1.message import Response


def _key(text: str, field: str) -> PublicKey:
    raw = identity.raw_key(text, field)
    return PublicKey(raw, identity.spelled_key(raw), identity.did_key(raw))


async def register(call: Call) -> Response:
    given: IdentityIn = call.body
    expires_at = lenient_moment(given.key_expires_at, "key_expires_at")
    key = _key(given.public_key, "public_key")
    asked = await identities.challenge(call.team, call.caller, call.params["agent_id"], key, expires_at)
    answer = fill_record(Challenge, agent_id=asked.id, challenge=asked.text, challenge_expires_at=asked.ends_at)
    return json(200, answer)


async def show(call: Call) -> Response:
    return json(200, identity.identity_of(await identities.show(call.team, call.caller, call.params["agent_id"])))


async def answer(call: Call) -> Response:
    given: ChallengeIn = call.body
    agent_id = call.params["agent_id"]
    text = await identities.pending_key(call.team, call.caller, agent_id)
    made = await identities.answer(
        call.team,
        call.caller,
        agent_id,
        given.challenge,
        identity.raw_key(text) if text else b"",
        identity.raw_signature(given.signature),
        identity.challenge_contents(given.challenge),
    )
    return json(201, identity.identity_of(made))


async def verify(call: Call) -> Response:
    given: VerifyIn = call.body
    known = await identities.show(call.team, call.caller, call.params["agent_id"])
    raw, signature = identity.raw_key(known.public_key), identity.raw_signature(given.signature)
    valid = identities.signed(call.team, known, raw, signature, (canonical(given.payload),))
    return json(200, fill_record(SignatureCheck, known, valid=valid, agent_id=known.id, verified_at=call.team.at()))


async def rotate(call: Call) -> Response:
    given: RotateIn = call.body
    changed = await identities.rotate(
        call.team,
        call.caller,
        call.params["agent_id"],
        _key(given.old_public_key, "old_public_key"),
        _key(given.new_public_key, "new_public_key"),
        identity.raw_signature(given.signature),
        identity.rotation_content(given),
    )
    return json(200, identity.identity_of(changed))


_TAG = "identity"
_IDENTITY = "/agents/{agent_id}/identity"
ROUTES = (
    Route(
        "POST",
        _IDENTITY,
        register,
        "Ask for a challenge that proves an agent's key",
        _TAG,
        {200: Challenge},
        body=IdentityIn,
        refusals=(410,),
    ),
    Route("GET", _IDENTITY, show, "Get an agent's identity", _TAG, {200: Identity}),
    Route("POST", _IDENTITY + "/challenge", answer, "Answer a challenge", _TAG, {201: Identity}, body=ChallengeIn),
    Route(
        "POST", _IDENTITY + "/verify", verify, "Check an agent's signature", _TAG, {200: SignatureCheck}, body=VerifyIn
    ),
    Route("POST", _IDENTITY + "/rotate", rotate, "Replace an agent's key", _TAG, {200: Identity}, body=RotateIn),
)
