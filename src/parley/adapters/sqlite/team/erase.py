"""Erasing what messages say. What is left of them keeps its place, so that no cursor and no order changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parley.domain.channel.post import ERASED, NO_PAYLOAD
from parley.domain.directory.callers import ANSWER_ERASED, SYSTEM
from parley.domain.store.changes import erasable
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3

    from parley.domain.store.changes import ErasableMessage, ErasureQuery

# Posts scanned per call.
_WINDOW = 20_000
# Lists are given as JSON: there may be more of them than a statement has parameters.
_JSON_LIST = "(SELECT value FROM json_each(?))"
# Keys that were used for these messages, or for a batch, which may have them.
_USES = f"SELECT message_id, scope FROM saved WHERE message_id IN {_JSON_LIST} OR instr(message_id, ',')"
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
        "SELECT id, in_reply_to FROM post"
        f" WHERE number > ? AND number <= ? AND metadata <> ? AND ({condition}) ORDER BY number"
    )
    post_rows = db.execute(query, (low + after, end, ERASED, *values)).fetchall()
    # Who asked is answered with the reply.
    told_with = {row[0]: {row[0], row[1]} - {""} for row in post_rows}
    uses = db.execute(_USES, (json.dumps([*set().union(*told_with.values())]),)) if told_with else ()
    return erasable(told_with, uses), end & rows.MASK


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
    """Blank these messages of a tenant, and the answers that tell what they said; the connection overwrites bytes."""
    scopes = [(scope,) for message in messages for scope in message.scopes]
    db.executemany(f"UPDATE saved SET answer = x'', status = {ANSWER_ERASED} WHERE scope = ?", scopes)
    emptied = f"UPDATE post SET payload = ?, metadata = ? WHERE {_BY_IDS}"
    db.execute(emptied, (NO_PAYLOAD, ERASED, tenant, ERASED, _ids(messages)))


def _ids(messages: tuple[ErasableMessage, ...]) -> str:
    return json.dumps([message.message_id for message in messages])
