"""Audit logs made without a store: entries on their chains, signed checkpoints, and the lines of an export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parley.adapters.data.signatures import Ed25519Signatures, Ed25519Signer
from parley.domain.audit.checkpoint import AuditCheckpoint, checkpoint_id
from parley.domain.audit.entry import (
    AGENT_EXCHANGE,
    NO_HASH,
    AuditDraft,
    AuditEntry,
    SideHead,
    entry_at,
)
from parley.domain.audit.merkle import tree_root
from parley.wire.proofs import audit_log

TENANT = "acme"
AT = "2026-03-13T14:30:00.000000+00:00"
verify = Ed25519Signatures().verify


def signer(number: int = 1) -> Ed25519Signer:
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def a_draft(number: int, side: str, **facts: Any) -> AuditDraft:  # noqa: ANN401
    """An entry of one side; two of them in a row tell of one message."""
    exchange = f"ex_{(number - 1) // 6}"
    told = {
        "exchange_id": exchange,
        "conversation_id": f"conv_{(number - 1) // 6}",
        "round": (number - 1) // 2 % 3 + 1,
        "direction": "outbound" if number % 2 else "inbound",
        "classification": "internal",
        "content_digest": f"{(number - 1) // 2:064x}",
        "outcome": "delivered",
    }
    return AuditDraft(f"aud_{number:06d}", side, AT, AGENT_EXCHANGE, side, {**told, **facts}, exchange)


def log_of(drafts: Iterable[AuditDraft], tenant: str = TENANT) -> list[AuditEntry]:
    """The drafts on their chains, as the store writes them."""
    heads: dict[str, SideHead] = {}
    found = []
    for number, draft in enumerate(drafts, 1):
        head = heads.get(draft.side, SideHead())
        entry = entry_at(number, draft, tenant, head, msgspec.json.Encoder(order="sorted").encode)
        heads[draft.side] = SideHead(entry.seq, entry.entry_hash)
        found.append(entry)
    return found


def a_log(count: int, sides: Sequence[str] = ("alice", "bob"), tenant: str = TENANT) -> list[AuditEntry]:
    return log_of((a_draft(n, sides[(n - 1) % len(sides)]) for n in range(1, count + 1)), tenant)


def checkpoints_of(
    entries: Sequence[AuditEntry], *sizes: int, by: Ed25519Signer | None = None, tenant: str = TENANT
) -> list[AuditCheckpoint]:
    """Checkpoints over the first so many entries, each naming the one before."""
    by = by or signer()
    made: list[AuditCheckpoint] = []
    for size in sizes:
        unsigned = AuditCheckpoint(
            id=checkpoint_id(size),
            tenant_id=tenant,
            size=size,
            root=tree_root([bytes.fromhex(one.entry_hash) for one in entries[:size]]).hex(),
            at=AT,
            previous=made[-1].hash if made else NO_HASH,
            public_key=by.public_key.hex(),
        )
        made.append(replace(unsigned, signature=by.sign(unsigned.statement).hex()))
    return made


def export_of(
    entries: Sequence[AuditEntry],
    checkpoints: Sequence[AuditCheckpoint],
    *,
    sides: Sequence[str] | None = None,
    tenant: str = TENANT,
) -> list[bytes]:
    """The lines of an export."""
    header = audit_log.Header(
        parley_audit=1,
        tenant=tenant,
        public_key=(checkpoints[-1].public_key if checkpoints else signer().public_key.hex()),
        size=len(entries),
        sides=None if sides is None else [*sides],
    )
    return [
        audit_log.header_line(header),
        *(audit_log.entry_line(one, shown=sides is None or one.side in sides) for one in entries),
        *(audit_log.checkpoint_line(one, wrapped=True) for one in checkpoints),
        audit_log.end_line(len(entries)),
    ]
