"""Checkpoints of the logs over HTTP: make, look, prove, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.intents import checkpoints
from parley.domain.errors.errors import Invalid, Problem
from parley.surfaces.http.route import ADMINS, Call, Param, Route, json
from parley.wire.api.events import CheckpointIn, checkpoint_of
from parley.wire.api.records.intents import Checkpoint, Consistency, EventProof, ProofStep
from parley.wire.proofs.event_log import Chain

if TYPE_CHECKING:
    from parley.surfaces.http.http1.message import Response


async def make(call: Call) -> Response:
    given: CheckpointIn = call.body
    checkpoint, new = await checkpoints.make(call.team, call.caller, given.intent_id)
    return json(201 if new else 200, checkpoint_of(checkpoint))


async def listed(call: Call) -> Response:
    scope = call.query.get("scope", "")
    if scope not in ("", "intent"):
        raise Invalid.because([Problem("invalid", "scope", "must be intent")])
    found = await checkpoints.listed(call.team, call.caller, call.query.get("intent_id", ""))
    return json(200, [checkpoint_of(stored) for stored in found])


async def show(call: Call) -> Response:
    found = await checkpoints.show(call.team, call.caller, call.params["checkpoint_id"])
    return json(200, checkpoint_of(found))


async def proof(call: Call) -> Response:
    found = await checkpoints.proof(call.team, call.caller, call.params["checkpoint_id"], call.params["event_id"])
    answer = EventProof(
        event_id=found.event.id,
        event_hash=found.event.event_hash,
        checkpoint_id=found.checkpoint.id,
        merkle_root=found.checkpoint.merkle_root,
        proof_hashes=[ProofStep(hash=digest, position=side) for side, digest in found.path],
        leaf_index=found.leaf_index,
    )
    return json(200, answer)


async def consistency(call: Call) -> Response:
    named = [call.query.get(name, "") for name in ("from_checkpoint", "to_checkpoint")]
    if not all(named):
        raise Invalid.because([Problem("required", "from_checkpoint", "name two checkpoints")])
    found = await checkpoints.consistency(call.team, call.caller, named[0], named[1], Chain(trusting=True))
    answer = Consistency(
        from_checkpoint=found.earlier.id,
        to_checkpoint=found.later.id,
        consistent=found.consistent,
        boundary_event=found.boundary or None,
    )
    return json(200, answer)


_TAG = "checkpoints"
ROUTES = (
    Route(
        "POST",
        "/admin/checkpoints",
        make,
        "Make a checkpoint of an intent's log; without news the last one",
        _TAG,
        {201: Checkpoint, 200: Checkpoint},
        scope=ADMINS,
        body=CheckpointIn,
    ),
    Route(
        "GET",
        "/checkpoints",
        listed,
        "List checkpoints",
        _TAG,
        {200: list[Checkpoint]},
        query=(
            Param("intent_id", "Only those of this intent."),
            Param("scope", "What they cover.", choices=("intent",)),
        ),
    ),
    Route("GET", "/checkpoints/{checkpoint_id}", show, "Get a checkpoint", _TAG, {200: Checkpoint}),
    Route(
        "GET",
        "/checkpoints/{checkpoint_id}/proof/{event_id}",
        proof,
        "Prove that an event is in a checkpoint",
        _TAG,
        {200: EventProof},
        refusals=(409,),
    ),
    Route(
        "GET",
        "/verify/consistency",
        consistency,
        "Check that two checkpoints tell one story",
        _TAG,
        {200: Consistency},
        query=(Param("from_checkpoint", "The earlier one."), Param("to_checkpoint", "The later one.")),
    ),
)
