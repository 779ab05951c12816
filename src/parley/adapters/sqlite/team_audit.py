"""The part of the writer that keeps audit chains and budgets, and how they are read.

Like posts, entries are gathered while a transaction runs and written with few statements at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from parley.adapters.sqlite.team_rows import MASK, SHIFT
from parley.domain.audit import AuditEntry, SideHead, entry_fields, entry_hash
from parley.domain.governance_errors import Overspent

if TYPE_CHECKING:
    import sqlite3

    from parley.adapters.sqlite.team_known import Head
    from parley.domain.audit import AuditDraft
    from parley.domain.team_changes import AuditQuery, Spend

# Keys are ASCII and numbers whole, so this is RFC 8785.
_canonical = msgspec.json.Encoder(order="sorted").encode
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?)"
_MOST_ROWS = 100
_INSERTS = [f"INSERT INTO audit VALUES {', '.join([_ROW] * size)}" for size in range(_MOST_ROWS + 1)]
_MOST_KNOWN = 20_000
_COLUMNS = "number, side, seq, id, at, exchange, hash"

SideKey = tuple[int, str]
BudgetKey = tuple[str, str, str]


class AuditWriter:
    """Audit chains and budgets of the running transaction, and what is known of them."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._known_sides: dict[SideKey, SideHead] = {}
        self._known_budgets: dict[BudgetKey, int] = {}
        # Of the running transaction.
        self._sides: dict[SideKey, SideHead] = {}
        self._budgets: dict[BudgetKey, int] = {}
        self._rows: list[tuple[Any, ...]] = []

    def check(self, tenant: str, spends: tuple[Spend, ...]) -> None:
        """Refuse what would spend more than there is."""
        wanted: dict[BudgetKey, int] = {}
        for spend in spends:
            key = (tenant, spend.key, spend.window)
            wanted[key] = wanted.get(key, 0) + spend.amount
            if spend.amount > 0 and self._spent(key) + wanted[key] > spend.most:
                raise Overspent(f"{spend.key}: {spend.most} are spent", facts={"key": spend.key, "most": spend.most})

    def spend(self, tenant: str, spends: tuple[Spend, ...]) -> None:
        for spend in spends:
            key = (tenant, spend.key, spend.window)
            self._budgets[key] = max(0, self._spent(key) + spend.amount)

    def append(self, tenant: str, head: Head, drafts: tuple[AuditDraft, ...]) -> Head:
        """Put the next entries on their chains; the tenant's head after it."""
        number = head.audit_number
        for draft in drafts:
            number += 1
            key = (head.number, draft.side)
            side = self._sides.get(key) or self._known_sides.get(key) or self._read_side(key)
            document = _canonical(entry_fields(draft, tenant, side))
            hashed = entry_hash(document)
            self._sides[key] = SideHead(side.seq + 1, hashed)
            self._rows.append(
                (
                    head.number << SHIFT | number,
                    draft.side,
                    side.seq + 1,
                    draft.id,
                    draft.at,
                    draft.exchange_id,
                    hashed,
                    document,
                )
            )
        return head._replace(audit_number=number)

    def flush(self) -> None:
        """Write what was gathered."""
        for start in range(0, len(self._rows), _MOST_ROWS):
            some = self._rows[start : start + _MOST_ROWS]
            self._db.execute(_INSERTS[len(some)], [value for row in some for value in row])
        self._rows.clear()
        if self._budgets:
            self._db.executemany(
                "INSERT INTO budget VALUES (?, ?, ?, ?)"
                " ON CONFLICT (tenant, key, window) DO UPDATE SET spent = excluded.spent",
                [(*key, spent) for key, spent in self._budgets.items()],
            )

    def let_go(self, tenant: int, through: int) -> None:
        """Let go of documents; the hashes stay, and with them every proof about the others."""
        self.flush()
        self._db.execute(
            "UPDATE audit SET document = x'' WHERE place BETWEEN ? AND ? AND document <> x''",
            (tenant << SHIFT, tenant << SHIFT | through),
        )

    def forget(self, before: str) -> None:
        """Let go of budgets whose time is long over."""
        self._db.execute("DELETE FROM budget WHERE window <> '' AND window < ?", (before,))
        self._known_budgets.clear()

    def done(self) -> None:
        """The transaction is durable."""
        self._known_sides.update(self._sides)
        self._known_budgets.update(self._budgets)
        for known in (self._known_sides, self._known_budgets):
            if len(known) > _MOST_KNOWN:
                known.clear()

    def clear(self) -> None:
        """The transaction is over, one way or the other."""
        self._sides, self._budgets = {}, {}
        self._rows.clear()

    def _spent(self, key: BudgetKey) -> int:
        held = self._budgets.get(key)
        if held is None:
            held = self._known_budgets.get(key)
        if held is None:
            query = "SELECT spent FROM budget WHERE tenant = ? AND key = ? AND window = ?"
            row = self._db.execute(query, key).fetchone()
            held = self._known_budgets[key] = int(row[0]) if row else 0
        return held

    def _read_side(self, key: SideKey) -> SideHead:
        query = "SELECT seq, hash FROM audit WHERE tenant = ? AND side = ? ORDER BY seq DESC LIMIT 1"
        row = self._db.execute(query, key).fetchone()
        return SideHead(*row) if row else SideHead()


def read_page(db: sqlite3.Connection, tenant: int, query: AuditQuery) -> list[AuditEntry]:
    """Entries in order, after one."""
    # Without the plus it would go through all places for the few entries of an exchange.
    plus = "+" if query.exchange_id else ""
    conditions = [f"{plus}place > ?", f"{plus}place <= ?"]
    low = tenant << SHIFT
    # Whatever number is asked for, it is one of this tenant.
    values: list[int | str] = [low | min(query.after, MASK), low | min(query.through or MASK, MASK)]
    if query.sides is not None:
        shown = f"side IN ({', '.join('?' * len(query.sides))})"
        values.extend(query.sides)
        if query.or_actor:
            shown = f"({shown} OR {_told('actor')} = ?)"
            values.append(query.or_actor)
        conditions.append(shown)
    for column, test, value in (
        ("exchange <> '' AND exchange", "=", query.exchange_id),  # as its index says it
        ("id", "=", query.entry_id),
        ("at", ">=", query.since),
        ("at", "<", query.until),
        (_told("action"), "=", query.action),
        (_told("outcome"), "=", query.outcome),
        (_told("conversation_id"), "=", query.conversation_id),
    ):
        if value:
            conditions.append(f"{column} {test} ?")
            values.append(value)
    document = "x''" if query.bare else "document"
    order = "DESC" if query.newest else "ASC"
    sql = f"SELECT {_COLUMNS}, {document} FROM audit WHERE {' AND '.join(conditions)} ORDER BY place {order} LIMIT ?"
    found = [AuditEntry(*row) for row in db.execute(sql, (*values, query.limit))]
    return found[::-1] if query.newest else found


def _told(name: str) -> str:
    """What an entry's document says; nothing when it was let go of."""
    return f"CASE WHEN document = x'' THEN '' ELSE json_extract(CAST(document AS TEXT), '$.{name}') END"
