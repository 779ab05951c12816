"""Checkpoints of event logs over HTTP: make, list, get, prove, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.intents import checkpoints
from parley.domain.errors.errors import Invalid, Problem
from parley.surfaces.http.route import ADMINS, READ_BY_AGENTS, Call, Param, Route, json
from parley.wire.api.events import CheckpointIn, checkpoint_of
from parley.wire.api.records.intents import Checkpoint, Consistency, EventProof, ProofStep
from parley.wire.proofs.event_log import Chain

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def make(call: Call) -> Response:
    body: CheckpointIn = call.body
    checkpoint, new = await checkpoints.make(call.team, call.caller, body.intent_id)
    return json(201 if new else 200, checkpoint_of(checkpoint))


async def _make_again(call: Call, checkpoint_id: str) -> Response:
    return json(201, checkpoint_of(await checkpoints.get(call.team, call.caller, checkpoint_id)))


async def list_page(call: Call) -> Response:
    scope = call.query.get("scope", "")
    if scope not in ("", "intent"):
        raise Invalid.because([Problem("invalid", "scope", "must be intent")])
    page = await checkpoints.list_page(call.team, call.caller, call.query.get("intent_id", ""))
    return json(200, [checkpoint_of(stored) for stored in page])


async def get(call: Call) -> Response:
    checkpoint = await checkpoints.get(call.team, call.caller, call.params["checkpoint_id"])
    return json(200, checkpoint_of(checkpoint))


async def proof(call: Call) -> Response:
    event_proof = await checkpoints.proof(call.team, call.caller, call.params["checkpoint_id"], call.params["event_id"])
    answer = EventProof(
        event_id=event_proof.event.id,
        event_hash=event_proof.event.event_hash,
        checkpoint_id=event_proof.checkpoint.id,
        merkle_root=event_proof.checkpoint.merkle_root,
        proof_hashes=[ProofStep(hash=digest, position=side) for side, digest in event_proof.path],
        leaf_index=event_proof.leaf_index,
    )
    return json(200, answer)


async def consistency(call: Call) -> Response:
    named = [call.query.get(name, "") for name in ("from_checkpoint", "to_checkpoint")]
    if not all(named):
        raise Invalid.because([Problem("required", "from_checkpoint", "name two checkpoints")])
    result = await checkpoints.consistency(call.team, call.caller, named[0], named[1], Chain(trusting=True))
    answer = Consistency(
        from_checkpoint=result.earlier.id,
        to_checkpoint=result.later.id,
        consistent=result.consistent,
        boundary_event=result.boundary or None,
    )
    return json(200, answer)


_TAG = "checkpoints"
ROUTES = (
    Route(
        "POST",
        "/admin/checkpoints",
        make,
        "Make a checkpoint of an intent's log, or get the last one if nothing is new",
        _TAG,
        {201: Checkpoint, 200: Checkpoint},
        scope=ADMINS,
        body=CheckpointIn,
        again=_make_again,
    ),
    Route(
        "GET",
        "/checkpoints",
        list_page,
        "List checkpoints",
        _TAG,
        {200: list[Checkpoint]},
        query=(
            Param("intent_id", "Only checkpoints of this intent."),
            Param("scope", "What the checkpoints cover.", choices=("intent",)),
        ),
        scope=READ_BY_AGENTS,
    ),
    Route(
        "GET", "/checkpoints/{checkpoint_id}", get, "Get a checkpoint", _TAG, {200: Checkpoint}, scope=READ_BY_AGENTS
    ),
    Route(
        "GET",
        "/checkpoints/{checkpoint_id}/proof/{event_id}",
        proof,
        "Prove that an event is in a checkpoint",
        _TAG,
        {200: EventProof},
        refusals=(409,),
        scope=READ_BY_AGENTS,
    ),
    Route(
        "GET",
        "/verify/consistency",
        consistency,
        "Check that two checkpoints are consistent",
        _TAG,
        {200: Consistency},
        query=(Param("from_checkpoint", "The earlier checkpoint."), Param("to_checkpoint", "The later checkpoint.")),
        scope=READ_BY_AGENTS,
    ),
)
