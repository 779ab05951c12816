"""The audit log over HTTP, as JSON: pages, checkpoints, proofs and erasures; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Raw, Struct

from parley.wire.api.records.audit import AuditCheckpoint, AuditEntry
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from parley.domain.audit.checkpoint import AuditCheckpoint as StoredCheckpoint
    from parley.domain.audit.entry import AuditEntry as StoredEntry

_Text = Annotated[str, Meta(min_length=1, max_length=256)]


class ErasureIn(Struct, forbid_unknown_fields=True):
    """What to erase: a conversation, or the messages of one agent or person."""

    conversation_id: _Text | None = None
    agent_id: _Text | None = None


def entry_of(stored: StoredEntry) -> AuditEntry:
    return fill_record(AuditEntry, stored, document=Raw(stored.document) if stored.document else None)


def checkpoint_of(stored: StoredCheckpoint) -> AuditCheckpoint:
    return fill_record(AuditCheckpoint, stored, tenant=stored.tenant_id)
