"""Audit chains and budgets in the file: how they are written at the end of a transaction, and how they are read."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from parley.domain.audit.entry import COLUMNS, AuditEntry, SideHead
from parley.domain.store.changes import AuditCount
from parley.wire.rows import MASK, SHIFT

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from parley.domain.store.changes import AuditQuery
    from parley.domain.store.source import BudgetKey

_ROW = f"({', '.join('?' * len(AuditEntry._fields))})"
_ROWS_LIMIT = 100
_INTO = f"INSERT INTO audit (place, {', '.join(COLUMNS)}) VALUES"
_INSERTS = [f"{_INTO} {', '.join([_ROW] * size)}" for size in range(_ROWS_LIMIT + 1)]


def write(db: sqlite3.Connection, audits: list[tuple[int, AuditEntry]]) -> None:
    """Write entries at the end of their chains, each with its tenant's number."""
    for start in range(0, len(audits), _ROWS_LIMIT):
        chunk = [(tenant << SHIFT | entry.number, *entry[1:]) for tenant, entry in audits[start : start + _ROWS_LIMIT]]
        db.execute(_INSERTS[len(chunk)], tuple(chain.from_iterable(chunk)))


def write_budgets(db: sqlite3.Connection, budgets: Mapping[BudgetKey, int]) -> None:
    """Write what is spent."""
    if budgets:
        db.executemany(
            "INSERT INTO budget VALUES (?, ?, ?, ?)"
            " ON CONFLICT (tenant, key, window) DO UPDATE SET spent = excluded.spent",
            [(*key, spent) for key, spent in budgets.items()],
        )


def trim(db: sqlite3.Connection, tenant: int, through: int) -> None:
    """Remove the documents up to an entry; their hashes stay, and with them every proof about the others."""
    db.execute(
        "UPDATE audit SET document = x'' WHERE place BETWEEN ? AND ? AND document <> x''",
        (tenant << SHIFT, tenant << SHIFT | through),
    )


def drop_budgets(db: sqlite3.Connection, before: str) -> None:
    """Delete budgets whose window has passed."""
    db.execute("DELETE FROM budget WHERE window <> '' AND window < ?", (before,))


def spent(db: sqlite3.Connection, key: BudgetKey) -> int:
    """How much of a budget is spent."""
    row = db.execute("SELECT spent FROM budget WHERE tenant = ? AND key = ? AND window = ?", key).fetchone()
    return int(row[0]) if row else 0


def side_head(db: sqlite3.Connection, tenant: int, side: str) -> SideHead:
    """Where a side's chain ends."""
    query = "SELECT seq, hash FROM audit WHERE tenant = ? AND side = ? ORDER BY seq DESC LIMIT 1"
    row = db.execute(query, (tenant, side)).fetchone()
    return SideHead(*row) if row else SideHead()


def read_page(db: sqlite3.Connection, tenant: int, query: AuditQuery) -> list[AuditEntry]:
    """Entries in order, after one."""
    which, values = _matching(tenant, query)
    columns = ", ".join(["x''" if query.bare and column == "document" else column for column in COLUMNS])
    order = "DESC" if query.newest else "ASC"
    sql = f"SELECT number, {columns} FROM audit WHERE {which} ORDER BY place {order} LIMIT ?"
    entries = [AuditEntry(*row) for row in db.execute(sql, (*values, query.limit))]
    return entries[::-1] if query.newest else entries


def count_spans(db: sqlite3.Connection, tenant: int, query: AuditQuery, digits: int) -> tuple[AuditCount, ...]:
    """See `TeamStore.audit_counts`."""
    which, values = _matching(tenant, query)
    names = ", ".join([f"IFNULL({_document_field(name)}, '')" for name in ("outcome", "role")])
    sql = (
        f"SELECT substr(at, 1, {digits}), {names}, COUNT(*) FROM audit WHERE {which} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    return tuple([AuditCount(*row) for row in db.execute(sql, values)])


def _matching(tenant: int, query: AuditQuery) -> tuple[str, list[int | str]]:
    """The condition of a query, and its values."""
    # Without the plus it would go through all places for the few entries of an exchange.
    plus = "+" if query.exchange_id else ""
    conditions = [f"{plus}place > ?", f"{plus}place <= ?"]
    low = tenant << SHIFT
    # Whatever number is asked for, it is one of this tenant.
    values: list[int | str] = [low | min(query.after, MASK), low | min(query.through or MASK, MASK)]
    if query.sides is not None:
        condition = f"side IN ({', '.join('?' * len(query.sides))})"
        values.extend(query.sides)
        if query.or_actor:
            condition = f"({condition} OR {_document_field('actor')} = ?)"
            values.append(query.or_actor)
        conditions.append(condition)
    for column, test, value in query.tests(_document_field):
        conditions.append(f"{column} {test} ?")
        values.append(value)
    if query.pair is not None:
        sender = _document_field("sender")
        receivers = f"'\"' || {_document_field('to')} || '\"' || IFNULL({_document_field('receivers')}, '')"
        conditions.append(f"CASE {sender} WHEN ? THEN instr({receivers}, ?) WHEN ? THEN instr({receivers}, ?) END > 0")
        values.extend(query.pair_values())
    return " AND ".join(conditions), values


def read_hashes(db: sqlite3.Connection, after: int, through: int) -> tuple[str, ...]:
    """The hashes of the entries between two places."""
    query = "SELECT hash FROM audit WHERE place > ? AND place <= ? ORDER BY place"
    return tuple([row[0] for row in db.execute(query, (after, through)).fetchall()])


def _document_field(name: str) -> str:
    """A field of an entry's document; empty when the document was trimmed."""
    return f"(CASE WHEN document = x'' THEN '' ELSE json_extract(CAST(document AS TEXT), '$.{name}') END)"
