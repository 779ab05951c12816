"""Erasing what messages say. What is left of them keeps its place, so that no cursor and no order changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.directory import SYSTEM
from parley.domain.post import ERASED, NO_PAYLOAD

if TYPE_CHECKING:
    import sqlite3

    from parley.domain.team_changes import Blank


def has_posts(db: sqlite3.Connection, low: int, high: int, blank: Blank) -> bool:
    """Whether a tenant, whose messages' numbers lie between these, has any that would be blanked."""
    which, values = _which(low, high, blank)
    return db.execute(f"SELECT 1 FROM post WHERE {which} LIMIT 1", values).fetchone() is not None


def _which(low: int, high: int, blank: Blank) -> tuple[str, list[Any]]:
    """The condition, and its values; one that nothing fulfils when nothing is named."""
    conditions: list[str] = []
    values: list[Any] = [low, high, ERASED]
    if blank.exchanges:
        conditions.append(f"exchange IN ({', '.join('?' * len(blank.exchanges))})")
        values += blank.exchanges
    if blank.sender:
        # What was said to it alone about its messages quotes what a person wrote about them.
        conditions.append("sender = ? OR (sender = ? AND addressee = ?)")
        values += (blank.sender, SYSTEM, blank.sender)
    return f"number BETWEEN ? AND ? AND metadata <> ? AND ({' OR '.join(conditions) or 'FALSE'})", values


def blank_posts(db: sqlite3.Connection, low: int, high: int, blank: Blank) -> int:
    """Blank the messages of a tenant, whose numbers lie between these; how many there were."""
    if not blank.exchanges and not blank.sender:
        return 0
    which, values = _which(low, high, blank)
    # Not only out of sight: the bytes in the file are overwritten, too.
    (before,) = db.execute("PRAGMA secure_delete").fetchone()
    db.execute("PRAGMA secure_delete=ON")
    try:
        # An answer that is kept for who asks again tells what was said, too.
        db.execute(
            "UPDATE saved SET answer = x'' WHERE answer <> x'' AND EXISTS"
            " (SELECT 1 FROM post WHERE post.id = saved.message_id AND number BETWEEN ? AND ?)",
            (low, high),
        )
        done = db.execute(f"UPDATE post SET payload = ?, metadata = ? WHERE {which}", [NO_PAYLOAD, ERASED, *values])
        return done.rowcount
    finally:
        db.execute(f"PRAGMA secure_delete={before}")
