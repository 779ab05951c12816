"""The audit log in API responses: pages, checkpoints, proofs and erasures."""

from typing import Annotated

from msgspec import Meta

from parley.wire.api.records.record import Mapping, Record, Timestamp
from parley.wire.api.records.rules import ExplanationStep


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


class AuditLogState(Record, frozen=True, kw_only=True):
    """Whether the audit log is intact, as far as the server has checked it.

    Every request checks up to 10,000 more entries: ask again while `verified_to` is less than `size`.
    """

    __module__ = "parley"

    size: int
    signed_size: Annotated[int, Meta(description="How many entries the last signed checkpoint covers.")]
    signed_at: Timestamp | None = None
    key_id: str | None = None
    verified_to: Annotated[int, Meta(description="The entries up to this number are intact.")]
    broken_at: Annotated[int | None, Meta(description="The first entry that is changed or missing.")] = None
    reason: str | None = None


class AuditExplanation(Record, frozen=True, kw_only=True):
    """Why a message was delivered, held or denied, from what its audit entry recorded.

    `steps` are the checks of the policies of then, run again, for admins and auditors. `agrees` says whether they come
    to what was recorded: not where the directory has changed since, or where rules of the organisation were stricter.
    """

    __module__ = "parley"

    number: int
    id: str
    at: Timestamp
    action: str | None = None
    outcome: str | None = None
    code: str | None = None
    reasons: list[str]
    policy_version: str | None = None
    verdict: Annotated[str | None, Meta(description="What the checks come to: allow, hold or deny.")] = None
    agrees: bool | None = None
    with_content: Annotated[bool, Meta(description="Whether the content was still there to be checked.")] = False
    steps: list[ExplanationStep]


class AuditCount(Record, frozen=True, kw_only=True):
    """The entries of one hour or day. A delivered message counts as sent, and as received for each receiver."""

    at: Timestamp
    entries: int
    sent: int
    received: int
    held: int
    denied: int


class AuditCounts(Record, frozen=True, kw_only=True):
    """Numbers of entries by hour or day, oldest first, complete from `since` on. Spans without entries are left out."""

    __module__ = "parley"

    by: str
    since: Timestamp
    until: Timestamp
    counts: list[AuditCount]


class Erasure(Record, frozen=True, kw_only=True):
    """What was erased, and the audit entry that records it."""

    __module__ = "parley"

    messages: int
    exchanges: int
    approvals: int
    entry_id: str
