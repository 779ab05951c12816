"""The audit log in API responses: pages, checkpoints, proofs and erasures."""

from parley.wire.api.records.record import Mapping, Record, Timestamp


class AuditEntry(Record, frozen=True, kw_only=True):
    """An audit entry. `document` is exactly what is hashed; None when it was trimmed."""

    __module__ = "parley"

    number: int
    side: str
    seq: int
    id: str
    at: Timestamp
    exchange_id: str | None = None
    entry_hash: str
    document: Mapping | None = None


class AuditPage(Record, frozen=True, kw_only=True):
    """A page of entries in order. `next` and `previous` are the numbers to page from; None at the end."""

    __module__ = "parley"

    entries: list[AuditEntry]
    next: int | None = None
    previous: int | None = None


class AuditCheckpoint(Record, frozen=True, kw_only=True):
    """A signed checkpoint of the audit log. `at` must stay byte for byte: the signature covers it."""

    __module__ = "parley"

    tenant: str
    size: int
    root: str
    at: str
    previous: str
    public_key: str
    signature: str
    key_id: str = ""


class AuditCheckpoints(Record, frozen=True, kw_only=True):
    """Signed checkpoints, oldest first, and the public key that verifies them: 32 bytes in hexadecimal."""

    __module__ = "parley"

    public_key: str | None = None
    key_id: str | None = None
    checkpoints: list[AuditCheckpoint]


class AuditLine(Record, frozen=True, kw_only=True):
    """An entry in an export."""

    may_be_absent = ("document",)

    number: int
    side: str
    seq: int
    entry_hash: str
    document: Mapping | None = None


class AuditProof(Record, frozen=True, kw_only=True):
    """Proof that a signed checkpoint covers an entry: the sibling hashes from its leaf to the root."""

    __module__ = "parley"

    parley_audit_proof: int
    entry: AuditLine
    path: list[str]
    checkpoint: AuditCheckpoint


class Erasure(Record, frozen=True, kw_only=True):
    """What was erased, and the audit entry that records it."""

    __module__ = "parley"

    messages: int
    exchanges: int
    approvals: int
    entry_id: str
