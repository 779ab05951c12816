"""The audit log as the API answers with it: pages, checkpoints, proofs and erasures."""

from __future__ import annotations

from parley.wire.api.records.record import Mapping, Record, Timestamp


class AuditEntry(Record, frozen=True, kw_only=True):
    """An entry at its place. `document` is exactly what is hashed; None when it was let go of."""

    number: int
    side: str
    seq: int
    id: str
    at: Timestamp
    exchange_id: str | None = None
    entry_hash: str
    document: Mapping | None = None


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

    may_be_absent = ("document",)

    number: int
    side: str
    seq: int
    entry_hash: str
    document: Mapping | None = None


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
