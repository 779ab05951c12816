"""The audit log: each side of an exchange has its own chain, and all entries of a tenant are the leaves of one tree.

    side alice:  seq 1 <── seq 2 <── seq 3           an entry names the hash of the one before it on its side
    side bob:         seq 1 <────── seq 2            entry_hash = SHA-256(0x00 || canonical JSON): an RFC 6962 leaf
    tenant:      1     2     3       4      ...      `number` is its place among the leaves, in the order of commits

What was said stays out: an entry has its digest. So content can be erased, and every proof stays valid.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

AGENT_EXCHANGE = "agent_exchange"
# The tenant's own side: suspensions, policies, erasures.
TENANT_SIDE = "@tenant"
NO_HASH = "0" * 64


class AuditDraft(NamedTuple):
    """A fact for one side's chain. `facts` is JSON with only texts, whole numbers, booleans, lists and objects."""

    id: str
    side: str
    at: str
    action: str
    actor: str
    facts: Mapping[str, Any]
    # For queries; also part of the facts.
    exchange_id: str = ""


class AuditEntry(NamedTuple):
    """An entry at its place. `document` is the canonical JSON that is hashed; empty when it was trimmed.

    Stores have a column for each field (`COLUMNS`), of which `entry_at` sets the value. A field that nobody looks
    entries up by needs none: it is one of the facts.
    """

    number: int
    side: str
    seq: int
    id: str
    at: str
    exchange_id: str
    entry_hash: str
    document: bytes


_COLUMN_NAMES = {"exchange_id": "exchange", "entry_hash": "hash"}
# The columns of every store, in the order of the fields. The number is part of the row's key.
COLUMNS = tuple([_COLUMN_NAMES.get(field, field) for field in AuditEntry._fields[1:]])


class SideHead(NamedTuple):
    """Where a side's chain ends."""

    seq: int = 0
    entry_hash: str = NO_HASH


def entry_fields(draft: AuditDraft, tenant: str, head: SideHead) -> dict[str, Any]:
    """The document of the next entry of a side; its canonical JSON is what is hashed."""
    return {
        **draft.facts,
        "id": draft.id,
        "tenant": tenant,
        "side": draft.side,
        "seq": head.seq + 1,
        "prev_hash": head.entry_hash,
        "at": draft.at,
        "action": draft.action,
        "actor": draft.actor,
    }


def entry_at(
    number: int, draft: AuditDraft, tenant: str, head: SideHead, encode: Callable[[dict[str, Any]], bytes]
) -> AuditEntry:
    """The next entry of a side, which is the tenant's entry of this number."""
    document = encode(entry_fields(draft, tenant, head))
    return AuditEntry(
        number=number,
        side=draft.side,
        seq=head.seq + 1,
        id=draft.id,
        at=draft.at,
        exchange_id=draft.exchange_id,
        entry_hash=entry_hash(document),
        document=document,
    )


def entry_hash(document: bytes) -> str:
    return sha256(b"\x00" + document).hexdigest()
