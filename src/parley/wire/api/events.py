"""The logs of intents as JSON: events, their traces, checkpoints and proofs; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from parley.wire.api.intents import Agent, Id, Mapping, TimeOut

if TYPE_CHECKING:
    from parley.domain.channel.checkpoint import Checkpoint

EventName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.]{0,63}$(?!\n)", description="A type, like comment.")]
TraceId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)", description="32 lower-case hexadecimal digits.")]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?\Z")
_NO_TRACE = "0" * 32


# ---------------------------------------------------------------- events


class EventIn(Struct, forbid_unknown_fields=True):
    """Something that happened. The actor follows from the key."""

    event_type: EventName
    actor: Agent | None = None
    payload: Mapping | None = None
    trace_id: TraceId | None = None
    parent_event_id: Id | None = None


class EventOut(Struct):
    """An event at its place in the log."""

    id: str
    intent_id: str
    event_type: str
    actor: str
    payload: Mapping
    created_at: TimeOut
    sequence: int
    previous_event_hash: str | None
    event_hash: str
    trace_id: str | UnsetType = UNSET
    parent_event_id: str | UnsetType = UNSET
    proof: Mapping | UnsetType = UNSET


class BreakOut(Struct):
    """Where the chain does not hold."""

    sequence: int
    event_id: str
    reason: str


class ChainOut(Struct):
    """Whether a log is whole."""

    intent_id: str
    valid: bool
    chain_valid: bool
    event_count: int
    first_sequence: int
    last_sequence: int
    breaks: list[BreakOut]


def trace_of(traceparent: str) -> str:
    """The trace id of a W3C traceparent header; "" for none, or for one that means nothing."""
    match = _TRACEPARENT.match(traceparent)
    if match is None or match[1] == _NO_TRACE or traceparent.startswith("ff"):
        return ""
    return match[1]


# ---------------------------------------------------------------- checkpoints


class CheckpointIn(Struct, forbid_unknown_fields=True):
    """Which log gets a checkpoint."""

    intent_id: Id
    scope: Literal["intent"] = "intent"


class CheckpointOut(Struct):
    """What a log was, in one hash."""

    checkpoint_id: str
    intent_id: str
    scope: str
    merkle_root: str
    event_count: int
    first_sequence: int
    last_sequence: int
    created_at: TimeOut
    signed_by: str | None
    signature: str | None
    anchor: Mapping | None


class NeighbourOut(Struct):
    """One step of a proof: the hash to be joined, and from which side."""

    hash: str
    position: Literal["left", "right"]


class ProofOut(Struct):
    """That an event is part of a checkpoint."""

    event_id: str
    event_hash: str
    checkpoint_id: str
    merkle_root: str
    proof_hashes: list[NeighbourOut]
    leaf_index: int


class ConsistencyOut(Struct):
    """Whether two checkpoints tell one story."""

    from_checkpoint: str
    to_checkpoint: str
    consistent: bool
    boundary_event: str | None


def checkpoint(shown: Checkpoint) -> dict[str, Any]:
    return {
        "checkpoint_id": shown.id,
        "intent_id": shown.intent_id,
        "scope": "intent",
        "merkle_root": shown.merkle_root,
        "event_count": shown.event_count,
        "first_sequence": shown.first_sequence,
        "last_sequence": shown.last_sequence,
        "created_at": shown.created_at,
        "signed_by": shown.signed_by or None,
        "signature": shown.signature or None,
        "anchor": None,
    }
