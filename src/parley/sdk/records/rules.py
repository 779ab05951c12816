"""What a server says about rules, as records: exchanges, approvals, policies, suspensions and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from parley.sdk.records.channels import Record

# ---------------------------------------------------------------- exchanges and approvals


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
    started_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
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
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None = None
    decided_by: str | None = None
    note: str | None = None
    message_id: str | None = None


class Suspension(Record, frozen=True, kw_only=True):
    """Something that is stopped."""

    what: str
    name: str
    reason: str
    by: str
    at: datetime


# ---------------------------------------------------------------- policies


class Policy(Record, frozen=True, kw_only=True):
    """A policy document: what was written (`text`), and what it says, key by key (`rules`)."""

    scope: str
    name: str
    label: str
    rules: dict[str, Any] = msgspec.field(name="keys")
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
    made_at: datetime | None = None
    made_by: str | None = None
    policies: list[Policy]
    broken: list[BrokenPolicy]


class PolicyInForce(Record, frozen=True, kw_only=True):
    """What is in force for somebody. `policy` is None when nothing is allowed, as the enterprise has no policy.

    `origins` says for each key which document it comes from.
    """

    label: str
    agent: str | None = None
    org_unit: str
    team: str | None = None
    user_id: str | None = None
    policy: dict[str, Any] | None = None
    origins: dict[str, Any]


class PolicyRevision(Record, frozen=True, kw_only=True):
    """What was in force from a moment on."""

    label: str
    made_at: datetime | None = None
    made_by: str | None = None
    documents: list[str]


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
    at: datetime
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


# ---------------------------------------------------------------- audit


class AuditEntry(Record, frozen=True, kw_only=True):
    """An entry at its place. `document` is exactly what is hashed; None when it was let go of."""

    number: int
    side: str
    seq: int
    id: str
    at: datetime
    exchange_id: str | None = None
    entry_hash: str
    document: dict[str, Any] | None = None


class AuditPage(Record, frozen=True, kw_only=True):
    """Some entries in their order. `next` and `previous` go on from here; None when there is nothing there."""

    entries: list[AuditEntry]
    next: int | None = None
    previous: int | None = None


class AuditCheckpoint(Record, frozen=True, kw_only=True):
    """What the audit log was, signed. `at` stays as it is spelled: the signature covers every letter."""

    tenant: str
    size: int
    root: str
    at: str
    previous: str
    public_key: str
    signature: str
    key_id: str = ""


class AuditCheckpoints(Record, frozen=True, kw_only=True):
    """Signed checkpoints, oldest first, and the key by which they are checked: 32 bytes in hexadecimal."""

    public_key: str | None = None
    key_id: str | None = None
    checkpoints: list[AuditCheckpoint]


class AuditLine(Record, frozen=True, kw_only=True):
    """An entry as an export has it."""

    number: int
    side: str
    seq: int
    entry_hash: str
    document: dict[str, Any] | None = None


class AuditProof(Record, frozen=True, kw_only=True):
    """That an entry is part of what a checkpoint signs: the neighbours from its leaf up to the root."""

    parley_audit_proof: int
    entry: AuditLine
    path: list[str]
    checkpoint: AuditCheckpoint


class Erasure(Record, frozen=True, kw_only=True):
    """What was erased, and the entry that says so."""

    messages: int
    exchanges: int
    approvals: int
    entry_id: str
