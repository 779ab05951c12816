"""The audit log over HTTP, as JSON: pages, checkpoints, proofs and erasures; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from parley.wire.api.intents import TimeOut
from parley.wire.proofs.audit_log import CheckpointLine, EntryLine

if TYPE_CHECKING:
    from parley.domain.audit.entry import AuditEntry

_Text = Annotated[str, Meta(min_length=1, max_length=256)]


class AuditEntryOut(Struct):
    """An entry at its place. `document` is exactly what is hashed; null when it was let go of."""

    number: int
    side: str
    seq: int
    id: str
    at: TimeOut
    exchange_id: str | None
    entry_hash: str
    document: dict[str, Any] | None


class AuditPageOut(Struct):
    """Some entries in their order, after which number the next page begins, and before which number there are older
    ones, when `before` was asked for; null: there is none.
    """

    entries: list[AuditEntryOut]
    next: int | None
    previous: int | None


class AuditCheckpointsOut(Struct):
    """Signed checkpoints, oldest first, and the key by which they are checked: 32 bytes in hexadecimal."""

    public_key: str | None
    key_id: str | None
    checkpoints: list[CheckpointLine]


class AuditProofOut(Struct):
    """That an entry is part of what a checkpoint signs: the neighbours from its leaf up to the root."""

    parley_audit_proof: int
    entry: AuditLineOut
    path: list[str]
    checkpoint: CheckpointLine


class AuditLineOut(Struct):
    """An entry as an export has it."""

    number: int
    side: str
    seq: int
    entry_hash: str
    document: dict[str, Any] | None = None


class ErasureIn(Struct, forbid_unknown_fields=True):
    """Whose words go: all of a conversation, or those of one agent or person."""

    conversation_id: _Text | None = None
    agent_id: _Text | None = None


class ErasureOut(Struct):
    """What was erased, and the entry that says so."""

    messages: int
    exchanges: int
    approvals: int
    entry_id: str


def entry(shown: AuditEntry) -> dict[str, Any]:
    return {
        "number": shown.number,
        "side": shown.side,
        "seq": shown.seq,
        "id": shown.id,
        "at": shown.at,
        "exchange_id": shown.exchange_id or None,
        "entry_hash": shown.entry_hash,
        "document": msgspec.Raw(shown.document) if shown.document else None,
    }


__all__ = ["AuditCheckpointsOut", "AuditPageOut", "AuditProofOut", "EntryLine", "ErasureIn", "ErasureOut", "entry"]
