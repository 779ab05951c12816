"""The logs of intents as JSON: events, their traces, checkpoints and proofs; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from parley.wire.api.intents import Agent, Id
from parley.wire.api.records.intents import ChainBreak, ChainCheck, Checkpoint
from parley.wire.api.records.record import Mapping, fill_record

if TYPE_CHECKING:
    from parley.domain.channel.checkpoint import Checkpoint as StoredCheckpoint
    from parley.wire.proofs.event_log import Chain

EventName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.]{0,63}$(?!\n)", description="A type, like comment.")]
TraceId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)", description="32 lower-case hexadecimal digits.")]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?\Z")
_NO_TRACE = "0" * 32


# ---------------------------------------------------------------- events


class EventIn(Struct, forbid_unknown_fields=True):
    """An event to append. The actor is the agent of the key."""

    event_type: EventName
    actor: Agent | None = None
    payload: Mapping | None = None
    trace_id: TraceId | None = None
    parent_event_id: Id | None = None


def trace_of(traceparent: str) -> str:
    """The trace id of a W3C traceparent header; "" for none, or for one that means nothing."""
    match = _TRACEPARENT.match(traceparent)
    if match is None or match[1] == _NO_TRACE or traceparent.startswith("ff"):
        return ""
    return match[1]


# ---------------------------------------------------------------- checkpoints


class CheckpointIn(Struct, forbid_unknown_fields=True):
    """The intent whose log gets a checkpoint."""

    intent_id: Id
    scope: Literal["intent"] = "intent"


def chain_check_of(intent_id: str, chain: Chain) -> ChainCheck:
    return fill_record(
        ChainCheck,
        chain,
        intent_id=intent_id,
        chain_valid=chain.valid,
        event_count=chain.count,
        first_sequence=chain.first,
        last_sequence=chain.last,
        breaks=[fill_record(ChainBreak, each) for each in chain.breaks],
    )


def checkpoint_of(stored: StoredCheckpoint) -> Checkpoint:
    return fill_record(Checkpoint, stored, checkpoint_id=stored.id, scope="intent", anchor=None)
