"""Intents, tasks, event logs and access in API responses."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from parley.wire.api.records.record import Mapping, Record, Timestamp

# ---------------------------------------------------------------- intents


class Intent(Record, frozen=True, kw_only=True):
    """A goal and its state. `version` counts its changes."""

    __module__ = "parley"

    id: str
    title: str
    description: str
    version: Annotated[int, Meta(description="What If-Match has to name.")]
    status: str
    state: Mapping
    constraints: dict[str, Any] | list[Any]
    confidence: float
    created_by: str
    parent_intent_id: str | None = None
    depends_on: list[str]
    governance_policy: Mapping | None = None
    created_at: Timestamp
    updated_at: Timestamp


class IntentList(Struct):
    """A page of intents."""

    intents: list[Intent]


class Assignment(Record, frozen=True, kw_only=True):
    """An agent assigned to an intent."""

    __module__ = "parley"

    id: str
    intent_id: str
    agent_id: str
    role: str
    assigned_by: str
    assigned_at: Timestamp


# ---------------------------------------------------------------- tasks


class Task(Record, frozen=True, kw_only=True):
    """A part of an intent. `version` counts its changes."""

    __module__ = "parley"

    id: str
    intent_id: str
    name: str
    version: Annotated[int, Meta(description="What If-Match has to name.")]
    status: str
    description: str
    assigned_agent: str | None = None
    # A default is what a task shows where nothing was said, or null: the OpenIntent SDK fails on a null list.
    plan_id: str | None = None
    parent_task_id: str | None = None
    priority: str = "normal"
    input: Any = msgspec.field(default_factory=dict)
    output: Any = msgspec.field(default_factory=dict)
    artifacts: list[Any] = msgspec.field(default_factory=list)
    capabilities_required: list[str] = msgspec.field(default_factory=list)
    depends_on: list[str] = msgspec.field(default_factory=list)
    blocks: list[str] = msgspec.field(default_factory=list)
    retry_policy: Mapping | str | None = None
    timeout_seconds: float | None = None
    attempt: int = 1
    max_attempts: int = 3
    permissions: Mapping | str = "inherit"
    memory_policy: Mapping | str | None = None
    requires_tools: list[Any] = msgspec.field(default_factory=list)
    blocked_reason: str | None = None
    error: Any = None
    metadata: Mapping = msgspec.field(default_factory=dict)
    created_by: str
    created_at: Timestamp
    updated_at: Timestamp
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None


# ---------------------------------------------------------------- events and checkpoints


class Event(Record, frozen=True, kw_only=True):
    """An event in an intent's log."""

    __module__ = "parley"

    may_be_absent = ("trace_id", "parent_event_id", "proof")

    id: str
    intent_id: str
    event_type: str
    actor: str
    payload: Mapping
    created_at: Timestamp
    sequence: int
    previous_event_hash: str | None = None
    event_hash: str
    trace_id: str | None = None
    parent_event_id: str | None = None
    proof: Mapping | None = None


class ChainBreak(Record, frozen=True, kw_only=True):
    """Where the hash chain of a log is broken."""

    sequence: int
    event_id: str
    reason: str


class ChainCheck(Record, frozen=True, kw_only=True):
    """Whether the hash chain of an intent's log is intact."""

    __module__ = "parley"

    intent_id: str
    valid: bool
    chain_valid: bool
    event_count: int
    first_sequence: int
    last_sequence: int
    breaks: list[ChainBreak]


class Checkpoint(Record, frozen=True, kw_only=True):
    """The Merkle root of an intent's log up to an event."""

    __module__ = "parley"

    checkpoint_id: str
    intent_id: str
    scope: str
    merkle_root: str
    event_count: int
    first_sequence: int
    last_sequence: int
    created_at: Timestamp
    signed_by: str | None = None
    signature: str | None = None
    anchor: Mapping | None = None


class ProofStep(Record, frozen=True, kw_only=True):
    """One step of a proof: the sibling hash, and its side."""

    hash: str
    position: str


class EventProof(Record, frozen=True, kw_only=True):
    """Proof that an event is in a checkpoint."""

    __module__ = "parley"

    event_id: str
    event_hash: str
    checkpoint_id: str
    merkle_root: str
    proof_hashes: list[ProofStep]
    leaf_index: int


class Consistency(Record, frozen=True, kw_only=True):
    """Whether two checkpoints are consistent."""

    __module__ = "parley"

    from_checkpoint: str
    to_checkpoint: str
    consistent: bool
    boundary_event: str | None = None


# ---------------------------------------------------------------- access


class Grant(Record, frozen=True, kw_only=True):
    """An entry of an access list."""

    __module__ = "parley"

    id: str
    intent_id: str
    principal_id: str
    principal_type: str
    permission: str
    granted_by: str
    granted_at: Timestamp
    expires_at: Timestamp | None = None
    reason: str | None = None


class AccessList(Record, frozen=True, kw_only=True):
    """Who has access to an intent, besides its creator and those assigned."""

    __module__ = "parley"

    intent_id: str
    default_policy: str
    entries: list[Grant]
    # The org unit that the intent belongs to: its creator's. Null for one of the tenant.
    org_unit: str | None = None


class AccessRequest(Record, frozen=True, kw_only=True):
    """A request for access, and the decision about it."""

    __module__ = "parley"

    id: str
    intent_id: str
    principal_id: str
    principal_type: str
    requested_permission: str
    reason: str
    status: str
    capabilities: list[str]
    decided_by: str | None = None
    decided_at: Timestamp | None = None
    decision_reason: str | None = None
    created_at: Timestamp


class AccessRequestList(Struct):
    """The access requests of an intent."""

    access_requests: list[AccessRequest]
