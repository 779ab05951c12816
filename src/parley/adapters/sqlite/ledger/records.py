"""Records and the audit chain in a mailbox ledger: loaded only where messages are under the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from parley.domain.audit.entry import COLUMNS, AuditEntry, SideHead, entry_at
from parley.domain.errors.errors import Stale
from parley.domain.record import Record
from parley.wire.rows import encode_audit_entry, record_from_row, record_to_row

if TYPE_CHECKING:
    import sqlite3

    from parley.domain.audit.entry import AuditDraft

R = TypeVar("R", bound=Record)

_PUT = (
    "INSERT INTO record (kind, id, version, parent, name, due, document) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, parent = excluded.parent, name = excluded.name,"
    " due = excluded.due, document = excluded.document"
)
_APPEND_AUDIT = f"INSERT INTO audit (tenant, {', '.join(COLUMNS)}) VALUES (?{', ?' * len(COLUMNS)})"
_VERSION = "SELECT version FROM record WHERE kind = ? AND id = ?"
_NAMED = "SELECT id FROM record WHERE kind = ? AND parent = ? AND name = ? AND name <> ''"


def check_versions(db: sqlite3.Connection, puts: tuple[Record, ...]) -> None:
    """Raise `Stale` when a record has changed, or when another record has the name."""
    for record in puts:
        row = db.execute(_VERSION, (record.kind, record.id)).fetchone()
        if (row[0] if row else 0) != record.version:
            raise Stale(f"{record.kind} {record.id} has changed meanwhile")
        other = db.execute(_NAMED, (record.kind, record.parent, record.name)).fetchone() if record.name else None
        if other is not None and other[0] != record.id:
            raise Stale(f"there is another {record.kind} of this name")


def put_records(db: sqlite3.Connection, puts: tuple[Record, ...]) -> None:
    for record in puts:
        db.execute(_PUT, record_to_row(record, record.version + 1)[1:])


def append_audits(db: sqlite3.Connection, tenant: str, drafts: tuple[AuditDraft, ...]) -> None:
    """Put the next entries on the chain, which is one tenant's from its first entry on."""
    row = db.execute("SELECT seq, hash, tenant FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    head = SideHead(*row[:2]) if row else SideHead()
    owner = row[2] if row else tenant
    for draft in drafts:
        entry = entry_at(head.seq + 1, draft, owner, head, encode_audit_entry)
        head = SideHead(entry.seq, entry.entry_hash)
        db.execute(_APPEND_AUDIT, (owner, *entry[1:]))


def get_record(db: sqlite3.Connection, kind: type[R], record_id: str) -> R | None:
    row = db.execute(
        "SELECT version, document FROM record WHERE kind = ? AND id = ?", (kind.kind, record_id)
    ).fetchone()
    return _read(kind, row) if row else None


def list_records(db: sqlite3.Connection, kind: type[R], parent: str | None, after: str, limit: int) -> tuple[R, ...]:
    """Those of a parent, or all of a kind, by their ids."""
    where, values = ("", []) if parent is None else (" AND parent = ?", [parent])
    query = f"SELECT version, document FROM record WHERE kind = ?{where} AND id > ? ORDER BY id LIMIT ?"
    rows = db.execute(query, (kind.kind, *values, after, limit)).fetchall()
    return tuple([_read(kind, row) for row in rows])


def list_audits(db: sqlite3.Connection, after: int, limit: int) -> tuple[AuditEntry, ...]:
    query = f"SELECT seq, {', '.join(COLUMNS)} FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"
    return tuple([AuditEntry(*row) for row in db.execute(query, (after, limit))])


def _read(kind: type[R], row: tuple[int, bytes]) -> R:
    record = record_from_row(kind, *row)
    assert isinstance(record, kind)  # noqa: S101  # the decoder made it
    return record
