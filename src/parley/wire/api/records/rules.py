"""Exchanges, approvals, policies and trials as the API answers with them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from parley.wire.api.records.record import Mapping, Record, Timestamp

# ---------------------------------------------------------------- exchanges, approvals and suspensions


class Turn(Record, frozen=True, kw_only=True):
    """One message of an exchange, in a line."""

    round: int
    sender: str
    summary: str


class Exchange(Record, frozen=True, kw_only=True):
    """A conversation of two agents under the rules, from its first message to its outcome."""

    exchange_id: str = msgspec.field(name="exchangeId")
    conversation_id: str = msgspec.field(name="conversationId")
    current_round: int = msgspec.field(name="currentRound")
    max_rounds: int = msgspec.field(name="maxRounds")
    transcript: list[Turn]
    outcome: str
    exchange_type: str
    initiator: str
    responder: str
    channel_id: str | None = None
    reply_policy: str
    requires_commitment: bool
    pending_approvals: list[str]
    started_at: Timestamp
    expires_at: Timestamp
    ended_at: Timestamp | None = None
    ended_by: str | None = None
    reason: str | None = None
    policy_version: str


class HiddenCharacter(Record, frozen=True, kw_only=True):
    """A character that a reader cannot see, or that changes how others are read."""

    where: str
    position: int
    code_point: str
    name: str


class Approval(Record, frozen=True, kw_only=True):
    """What a person has to decide, with exactly what would be sent.

    `digest` stands for what is shown here: a decision is for this and nothing else. `barred` is the code with which a
    decision by you would be refused; None when you may decide.
    """

    id: str
    status: str
    cause: str
    reason: str
    detected_keywords: list[str] = msgspec.field(name="detectedKeywords")
    escalation: dict[str, Any] | None = None
    exchange_id: str | None = None
    conversation_id: str | None = None
    channel_id: str | None = None
    agent: str
    user: str
    deciders: list[str]
    barred: str | None = None
    to: str
    exchange_type: str
    classification: str
    payload: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    message_type: str | None = None
    correlation_id: str | None = None
    visible_text: str
    hidden_characters: list[HiddenCharacter]
    digest: str
    policy_version: str
    created_at: Timestamp
    expires_at: Timestamp
    decided_at: Timestamp | None = None
    decided_by: str | None = None
    note: str | None = None
    message_id: str | None = None


class HeldMessage(Struct, kw_only=True):
    """A message that is held for a person to decide about. It has not been delivered."""

    status: Literal["held"]
    approval: str
    reason: str
    cause: str
    requires_human: bool = msgspec.field(name="requiresHuman")
    detected_keywords: list[str] = msgspec.field(name="detectedKeywords")
    exchange_id: str
    conversation_id: str
    digest: str
    expires_at: Timestamp
    deciders: Annotated[list[str], Meta(description="The people who may decide about it.")]
    escalation: Mapping | UnsetType = UNSET


class Suspension(Record, frozen=True, kw_only=True):
    """Something that is stopped."""

    what: str
    name: str
    reason: str
    by: str
    at: Timestamp


# ---------------------------------------------------------------- policies


class Policy(Record, frozen=True, kw_only=True):
    """A policy document: what was written (`text`), and what it says, key by key (`rules`)."""

    scope: str
    name: str
    label: Annotated[str, Meta(description="Of everything that is in force.")]
    rules: Mapping = msgspec.field(name="keys")
    text: str | None = None


class PolicyFlaw(Record, frozen=True, kw_only=True):
    """What is wrong with one line of a file."""

    file: str
    line: int
    key: str
    code: str
    detail: str


class BrokenPolicy(Record, frozen=True, kw_only=True):
    """A file that changed nothing, because of what is wrong with it."""

    file: str
    message: str
    flaws: list[PolicyFlaw]


class Policies(Record, frozen=True, kw_only=True):
    """What is in force: one label for all of it."""

    label: str
    made_at: Timestamp | None = None
    made_by: str | None = None
    policies: list[Policy]
    broken: list[BrokenPolicy]


class PolicyRevision(Record, frozen=True, kw_only=True):
    """What was in force from a moment on."""

    label: str
    made_at: Timestamp | None = None
    made_by: str | None = None
    documents: list[str]


class PolicyInForce(Record, frozen=True, kw_only=True):
    """What is in force for somebody. `policy` is None when nothing is allowed, as the enterprise has no policy.

    `origins` says for each key which document it comes from.
    """

    label: str
    agent: str | None = None
    org_unit: str
    team: str | None = None
    user_id: str | None = None
    policy: Mapping | None = None
    origins: Mapping


# ---------------------------------------------------------------- trials


class ExplanationStep(Record, frozen=True, kw_only=True):
    """One thing that was looked at."""

    check: str
    value: str
    source: str
    found: str


class Explanation(Record, frozen=True, kw_only=True):
    """What the rules would make of a message, and everything that was looked at."""

    verdict: str
    governed: bool
    code: str | None = None
    reason: str | None = None
    policy_version: str | None = None
    classification: str
    detected_keywords: list[str] = msgspec.field(name="detectedKeywords")
    steps: list[ExplanationStep]


class ReplayChange(Record, frozen=True, kw_only=True):
    """A message that would fare otherwise."""

    entry_id: str
    at: Timestamp
    message_id: str
    exchange_id: str
    sender: str
    receiver: str
    was: str
    now: str
    reason: str


class Replay(Record, frozen=True, kw_only=True):
    """What a replay found. `next` is where to go on; None when there is nothing more to try."""

    messages: int
    with_content: int
    policy_version: str
    denied: int
    held: int
    released: int
    next: int | None = None
    changes: list[ReplayChange]
