"""Erasing what messages say. What is left of them keeps its place, so that no cursor and no order changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parley.domain.channel.post import ERASED, NO_PAYLOAD
from parley.domain.directory.callers import SYSTEM
from parley.domain.store.changes import ErasableMessage
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3

    from parley.domain.store.changes import ErasureQuery

# Posts scanned per call.
_WINDOW = 20_000
# Lists are given as JSON: there may be more of them than a statement has parameters.
_JSON_LIST = "(SELECT value FROM json_each(?))"
# Posts of the same batch as a post: they came in one answer.
_SAME_BATCH = "SELECT id FROM post WHERE channel = ? AND sender = ? AND created_at = ?"
_BY_IDS = f"number >> {rows.SHIFT} = ? AND metadata <> ? AND id IN {_JSON_LIST}"


def find_erasable(
    db: sqlite3.Connection, tenant: int, words: ErasureQuery, after: int
) -> tuple[tuple[ErasableMessage, ...], int]:
    """See `TeamStore.words`."""
    low = tenant << rows.SHIFT
    near = "SELECT number FROM post WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"
    (end,) = db.execute(f"SELECT MAX(number) FROM ({near})", (low + after, low | rows.MASK, _WINDOW)).fetchone()
    if end is None:
        return (), 0
    condition, values = _condition(words)
    query = (
        "SELECT id, in_reply_to, channel, sender, created_at FROM post"
        f" WHERE number > ? AND number <= ? AND metadata <> ? AND ({condition}) ORDER BY number"
    )
    post_rows = db.execute(query, (low + after, end, ERASED, *values)).fetchall()
    message_ids = {row[0]: {row[0], row[1]} - {""} for row in post_rows}
    if words.exchanges:
        for row in post_rows:
            message_ids[row[0]].update(row[0] for row in db.execute(_SAME_BATCH, row[2:]))
    return tuple([ErasableMessage(*item) for item in _answer_scopes(db, message_ids).items()]), end & rows.MASK


def _answer_scopes(db: sqlite3.Connection, message_ids: dict[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """For each message the scopes of the answers that tell it, which are kept for other messages, too."""
    query = f"SELECT message_id, scope FROM saved WHERE message_id IN {_JSON_LIST}"
    scopes: dict[str, list[str]] = {}
    for message_id, scope in (
        db.execute(query, (json.dumps([*set().union(*message_ids.values())]),)) if message_ids else ()
    ):
        scopes.setdefault(message_id, []).append(scope)
    return {
        message_id: tuple([scope for other in others for scope in scopes.get(other, ())])
        for message_id, others in message_ids.items()
    }


def _condition(words: ErasureQuery) -> tuple[str, list[Any]]:
    """The condition, and its values; one that nothing fulfils when nothing is named."""
    conditions: list[str] = []
    values: list[Any] = []
    if words.exchanges:
        conditions.append(f"exchange IN {_JSON_LIST}")
        values.append(json.dumps(words.exchanges))
    if words.sender:
        # What was said to it alone about its messages quotes what a person wrote about them.
        conditions.append("sender = ? OR (sender = ? AND addressee = ?)")
        values += (words.sender, SYSTEM, words.sender)
    return " OR ".join(conditions) or "FALSE", values


def count_unerased(db: sqlite3.Connection, tenant: int, messages: tuple[ErasableMessage, ...]) -> int:
    """How many of these messages of a tenant still say something."""
    query = f"SELECT COUNT(*) FROM post WHERE {_BY_IDS}"
    return int(db.execute(query, (tenant, ERASED, _ids(messages))).fetchone()[0])


def erase_posts(db: sqlite3.Connection, tenant: int, messages: tuple[ErasableMessage, ...]) -> None:
    """Blank these messages of a tenant, and the answers that tell what they said."""
    # Not only out of sight: the bytes in the file are overwritten, too.
    (before,) = db.execute("PRAGMA secure_delete").fetchone()
    db.execute("PRAGMA secure_delete=ON")
    try:
        scopes = [(scope,) for message in messages for scope in message.scopes]
        db.executemany("UPDATE saved SET answer = x'' WHERE scope = ? AND answer <> x''", scopes)
        emptied = f"UPDATE post SET payload = ?, metadata = ? WHERE {_BY_IDS}"
        db.execute(emptied, (NO_PAYLOAD, ERASED, tenant, ERASED, _ids(messages)))
    finally:
        db.execute(f"PRAGMA secure_delete={before}")


def _ids(messages: tuple[ErasableMessage, ...]) -> str:
    return json.dumps([message.message_id for message in messages])
