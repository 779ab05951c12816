"""What a server says, as records: fields as attributes, and also by `record["field"]`.

They are read from the server's JSON as it is. A newer server may say more: that is left aside, never refused. What has
to do with rules, approvals and proofs is in `sdk.governance_records`, who there is in `sdk.directory_records`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from parley.domain.errors.errors import Unavailable

R = TypeVar("R")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Something a server said. Never changes; ask again to see what has become of it."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a field has its own type
        """A field by its name, in Python's spelling or in that of the JSON."""
        if name in self.__struct_fields__:
            return getattr(self, name)
        if name in self.__struct_encode_fields__:
            return getattr(self, self.__struct_fields__[self.__struct_encode_fields__.index(name)])
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self.__struct_fields__ or name in self.__struct_encode_fields__

    def keys(self) -> tuple[str, ...]:
        """The names of the fields; with this, `dict(record)` works."""
        return self.__struct_fields__

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # a field has its own type
        """A field by its name, or `default` when there is none of this name."""
        try:
            return self[name]
        except KeyError:
            return default

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it: mappings, lists, texts and numbers."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def without(secret: str, record: Record) -> str:
    """The `repr` of a record that holds a secret, which must not get into logs."""
    fields = [f"{name}={'...' if name == secret else repr(record[name])}" for name in record.__struct_fields__]
    return f"{type(record).__name__}({', '.join(fields)})"


def read(content: bytes, kind: type[R]) -> R:
    """A record, or a list of them, from the server's JSON."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unavailable(f"the server's answer cannot be understood: {error}") from None


def made(document: object, kind: type[R]) -> R:
    """A record, or a list of them, from a document that was read before."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Unavailable(f"the server's answer cannot be understood: {error}") from None


# ---------------------------------------------------------------- channels and messages


class ChannelOptions(Record, frozen=True, kw_only=True):
    """How a channel keeps its messages."""

    audit: bool = False
    ttl_seconds: int | None = None
    max_messages: int = 1000


class Channel(Record, frozen=True, kw_only=True):
    """A channel on an intent."""

    id: str
    intent_id: str
    task_id: str | None = None
    name: str
    created_by: str
    members: list[str]
    member_policy: str
    options: ChannelOptions
    status: str
    created_at: datetime
    closed_at: datetime | None = None
    message_count: int = 0
    last_message_at: datetime | None = None


class ChannelMessage(Record, frozen=True, kw_only=True):
    """A message in a channel, as its reader sees it."""

    id: str
    channel_id: str
    sender: str
    to: str | None = None
    message_type: str
    correlation_id: str | None = None
    payload: dict[str, Any]
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    status: str = "delivered"
    created_at: datetime
    expires_at: datetime | None = None
    read_at: datetime | None = None
    seq: int = 0
    # Known where an agent receives it: the channel's name and the intent that it belongs to.
    channel: str = ""
    intent_id: str = ""

    @property
    def error(self) -> str:
        """Why the agent that was asked could not answer; empty when it did."""
        told = self.payload.get("error") if self.metadata.get("error") else None
        said = told.get("message") if isinstance(told, dict) else told
        return str(said) if said else ""

    @property
    def kind(self) -> str:
        """What is asked, where the sender said so: one of the twelve kinds; else empty."""
        named = self.metadata.get("kind")
        return named if isinstance(named, str) else ""


# ---------------------------------------------------------------- intents, events, tasks


class Intent(Record, frozen=True, kw_only=True):
    """What is to be reached, and how far it is. `version` counts its changes."""

    id: str
    title: str
    description: str
    version: int
    status: str
    state: dict[str, Any]
    constraints: dict[str, Any] | list[Any]
    confidence: float
    created_by: str
    parent_intent_id: str | None = None
    depends_on: list[str]
    governance_policy: dict[str, Any] | None = None
    created_at: datetime
    updated_at: datetime


class Assignment(Record, frozen=True, kw_only=True):
    """An agent that works on an intent."""

    id: str
    intent_id: str
    agent_id: str
    role: str
    assigned_by: str
    assigned_at: datetime


class Event(Record, frozen=True, kw_only=True):
    """Something that happened, at its place in an intent's log."""

    id: str
    intent_id: str
    event_type: str
    actor: str
    payload: dict[str, Any]
    created_at: datetime
    sequence: int
    previous_event_hash: str | None = None
    event_hash: str
    trace_id: str | None = None
    parent_event_id: str | None = None
    proof: dict[str, Any] | None = None


class StreamItem(Record, frozen=True, kw_only=True):
    """What comes on a stream: a message, or an event of an intent's log.

    `id` is the place on the stream: give it as `after` to go on behind it. `name` is `channel_message`, or the type
    of the event; a state that was patched is called `state_changed`.
    """

    id: str
    name: str
    message: ChannelMessage | None = None
    event: Event | None = None


class ChainBreak(Record, frozen=True, kw_only=True):
    """Where a log does not hold together."""

    sequence: int
    event_id: str
    reason: str


class ChainCheck(Record, frozen=True, kw_only=True):
    """Whether an intent's log is whole."""

    intent_id: str
    valid: bool
    chain_valid: bool
    event_count: int
    first_sequence: int
    last_sequence: int
    breaks: list[ChainBreak]


class Checkpoint(Record, frozen=True, kw_only=True):
    """What an intent's log was, in one hash."""

    checkpoint_id: str
    intent_id: str
    scope: str
    merkle_root: str
    event_count: int
    first_sequence: int
    last_sequence: int
    created_at: datetime
    signed_by: str | None = None
    signature: str | None = None
    anchor: dict[str, Any] | None = None


class ProofStep(Record, frozen=True, kw_only=True):
    """One step of a proof: the hash to be joined, and from which side."""

    hash: str
    position: str


class EventProof(Record, frozen=True, kw_only=True):
    """That an event is part of a checkpoint."""

    event_id: str
    event_hash: str
    checkpoint_id: str
    merkle_root: str
    proof_hashes: list[ProofStep]
    leaf_index: int


class Consistency(Record, frozen=True, kw_only=True):
    """Whether two checkpoints tell one story."""

    from_checkpoint: str
    to_checkpoint: str
    consistent: bool
    boundary_event: str | None = None


class Task(Record, frozen=True, kw_only=True):
    """A piece of work on an intent. `version` counts its changes."""

    id: str
    intent_id: str
    name: str
    version: int
    status: str
    description: str
    assigned_agent: str | None = None
    plan_id: str | None = None
    parent_task_id: str | None = None
    priority: str
    input: Any = None
    output: Any = None
    artifacts: list[Any]
    capabilities_required: list[str]
    depends_on: list[str]
    blocks: list[str]
    retry_policy: dict[str, Any] | str | None = None
    timeout_seconds: float | None = None
    attempt: int
    max_attempts: int
    permissions: dict[str, Any] | str
    memory_policy: dict[str, Any] | str | None = None
    requires_tools: list[Any]
    blocked_reason: str | None = None
    error: Any = None
    metadata: dict[str, Any]
    created_by: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None


# ---------------------------------------------------------------- access


class Grant(Record, frozen=True, kw_only=True):
    """An entry of an access list."""

    id: str
    intent_id: str
    principal_id: str
    principal_type: str
    permission: str
    granted_by: str
    granted_at: datetime
    expires_at: datetime | None = None
    reason: str | None = None


class AccessList(Record, frozen=True, kw_only=True):
    """Who has access to an intent, besides its creator and those assigned."""

    intent_id: str
    default_policy: str
    entries: list[Grant]


class AccessRequest(Record, frozen=True, kw_only=True):
    """A wish to be let in, and what became of it."""

    id: str
    intent_id: str
    principal_id: str
    principal_type: str
    requested_permission: str
    reason: str
    status: str
    capabilities: list[str]
    decided_by: str | None = None
    decided_at: datetime | None = None
    decision_reason: str | None = None
    created_at: datetime


# ---------------------------------------------------------------- webhooks


class Attempt(Record, frozen=True, kw_only=True):
    """One try to push something. `status` is None when nobody answered."""

    at: datetime
    item_id: str
    number: int
    status: int | None = None
    error: str | None = None


class Subscription(Record, frozen=True, kw_only=True):
    """A webhook: what is pushed where, and how that goes."""

    id: str
    intent_id: str | None = None
    portfolio_id: str | None = None
    subscriber_id: str | None = None
    event_types: list[str]
    webhook_url: str | None = None
    active: bool
    state: str
    disabled_reason: str | None = None
    follows_endpoint: bool
    tries: int
    next_try_at: datetime | None = None
    last_attempt: Attempt | None = None
    created_at: datetime
    expires_at: datetime | None = None


class NewSubscription(Subscription, frozen=True, kw_only=True):
    """A new subscription with the secret that signs its webhooks; it is not shown again."""

    secret: str

    def __repr__(self) -> str:
        return without("secret", self)


class SubscriptionSecret(Record, frozen=True, kw_only=True):
    """A new secret; it is not shown again. The old one signs beside it until then."""

    id: str
    secret: str
    old_secret_until: datetime

    def __repr__(self) -> str:
        return without("secret", self)
