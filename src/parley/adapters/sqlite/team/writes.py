"""Writes a decided transaction to the file: its acts in order, then the collected rows.

Many rows go into one statement: each statement releases the interpreter and has to wait for it again.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

from parley.adapters.sqlite.team import audit as team_audit
from parley.adapters.sqlite.team import erase as team_erase
from parley.adapters.sqlite.team import records as team_records
from parley.adapters.sqlite.team import traffic as team_traffic
from parley.domain.directory.callers import ANSWER_ERASED
from parley.domain.store.writes import (
    EraseContent,
    EvictPosts,
    ExpireChannel,
    ExpirePost,
    ExpireRequests,
    ForgetKeys,
    InsertPosts,
    InsertReceipts,
    MovePost,
    TrimAudit,
)
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from parley.domain.store.source import ChannelCounters
    from parley.domain.store.transaction import Transaction

_ROWS_LIMIT = 64


def _inserts(table: str, columns: int) -> list[str]:
    placeholders = f"({', '.join('?' * columns)})"
    return [f"{table} VALUES {', '.join([placeholders] * size)}" for size in range(_ROWS_LIMIT + 1)]


_POSTS = _inserts("INSERT INTO post", 16)
_EVENTS = _inserts("INSERT INTO event", 10)
# An answer comes after what it tells: it keeps the ids of that, and does not bring back what was erased meanwhile.
_ANSWERED = (
    " ON CONFLICT (scope) DO UPDATE SET fingerprint = excluded.fingerprint, made = excluded.made, at = excluded.at,"
    " message_id = CASE excluded.message_id WHEN '' THEN saved.message_id ELSE excluded.message_id END,"
    f" status = excluded.status, answer = excluded.answer WHERE saved.status <> {ANSWER_ERASED}"
)
_SAVED = [statement + _ANSWERED for statement in _inserts("INSERT INTO saved", 7)]


def write(db: sqlite3.Connection, transaction: Transaction) -> None:
    """Write a transaction."""
    for act in transaction.writes:
        _WRITERS[type(act)](db, act)
    if transaction.created:
        team_records.create(db, transaction.created)
    if transaction.records:
        team_records.write(db, transaction.records, transaction.before)
    _write_places(db, transaction)
    _insert(db, _EVENTS, [rows.event_to_row(event, tenant) for tenant, event in transaction.events])
    if transaction.entries:
        written = [
            (tenant, position, document.decode(), link) for tenant, position, document, link in transaction.entries
        ]
        db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", written)
    team_audit.write(db, transaction.audits)
    team_audit.write_budgets(db, transaction.budgets)
    _insert(db, _SAVED, list(transaction.saved.values()))
    db.executemany(
        "UPDATE tenant SET head = ?, entry_position = ?, entry_link = ?, audit_number = ? WHERE number = ?",
        [(*head[1:], head.tenant_row) for head in transaction.heads.values()],
    )


def _insert(db: sqlite3.Connection, statements: list[str], rows_to_insert: list[tuple[Any, ...]]) -> None:
    for start in range(0, len(rows_to_insert), _ROWS_LIMIT):
        chunk = rows_to_insert[start : start + _ROWS_LIMIT]
        db.execute(statements[len(chunk)], tuple(chain.from_iterable(chunk)))


def _write_places(db: sqlite3.Connection, transaction: Transaction) -> None:
    """The counters of channels: those that go first, so that one of the same name may come."""
    gone, new = transaction.gone_channels, transaction.new_channels
    if gone:
        db.executemany("DELETE FROM tally WHERE tenant = ? AND id = ?", list(gone))
    if new:
        db.executemany(
            "INSERT INTO tally (tenant, id, intent, count, seq, last_at, floor, number)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*key, transaction.channel_counters[key].intent_id, *_counters(transaction.channel_counters[key]))
                for key in new
            ],
        )
    changed = transaction.channel_counters.keys() - new - gone if new or gone else transaction.channel_counters
    db.executemany(
        "UPDATE tally SET count = ?, seq = ?, last_at = ?, floor = ? WHERE number = ?",
        [_counters(transaction.channel_counters[key]) for key in changed],
    )


def _counters(counters: ChannelCounters) -> tuple[int, int, str, int, int]:
    number, _, seq, (total, last_at, floor) = counters
    return total, seq, last_at, floor, number


# ---------------------------------------------------------------- acts


def _insert_posts(db: sqlite3.Connection, act: InsertPosts) -> None:
    _insert(db, _POSTS, [rows.post_to_row(post, tenant, channel) for tenant, channel, post in act.posts])
    if act.answered:
        query = f"UPDATE post SET answered = 1 WHERE number >> {rows.SHIFT} = ? AND id = ? AND answered = 0"
        db.executemany(query, act.answered)


def _move_post(db: sqlite3.Connection, act: MovePost) -> None:
    post = act.post
    db.execute(
        "UPDATE post SET number = ?, seq = ?, state = ?, recipients = ? WHERE id = ?",
        (act.tenant << rows.SHIFT | post.position, post.seq, post.state.value, rows.joined(post.recipients), post.id),
    )


def _expire_post(db: sqlite3.Connection, act: ExpirePost) -> None:
    db.execute(
        f"UPDATE post SET state = 'expired' WHERE number >> {rows.SHIFT} = ? AND id = ?"
        " AND state <> 'expired' AND answered = 0",
        act,
    )


def _end_channel(db: sqlite3.Connection, act: ExpireChannel) -> None:
    db.execute(
        "UPDATE post SET state = 'expired' WHERE channel = ? AND state <> 'expired'"
        " AND (state = 'pending' OR (pattern = 'request' AND answered = 0))",
        act,
    )


def _expire_requests_to(db: sqlite3.Connection, act: ExpireRequests) -> None:
    low = act.tenant << rows.SHIFT
    db.execute(
        "UPDATE post SET state = 'expired' WHERE pattern = 'request' AND answered = 0 AND addressee = ?"
        " AND number BETWEEN ? AND ? AND state <> 'expired' AND id NOT IN (SELECT value FROM json_each(?))",
        (act.agent, low, low | rows.MASK, json.dumps(act.handed_on)),
    )


_JOBS = "SELECT 1 FROM record WHERE tenant = (SELECT id FROM tenant WHERE number = ?) AND kind = 'job'"
_EVICTED = f"channel = ? AND seq <= ? AND (? OR NOT EXISTS ({_JOBS} AND record.id = post.id))"


def _evict_posts(db: sqlite3.Connection, act: EvictPosts) -> None:
    # Jobs outlive their channel's limit. Most tenants have none: then none is looked for at each message.
    everything = act.purge or db.execute(f"{_JOBS} LIMIT 1", (act.tenant,)).fetchone() is None
    below = (act.channel, act.floor, everything, act.tenant)
    # A deleted channel has no name any more.
    channel = None if act.purge else db.execute("SELECT id FROM tally WHERE number = ?", (act.channel,)).fetchone()
    team_traffic.count_posts(db, act.tenant, channel[0] if channel else "", _EVICTED, below)
    db.execute(f"DELETE FROM receipt WHERE post_id IN (SELECT id FROM post WHERE {_EVICTED})", below)
    db.execute(f"DELETE FROM post WHERE {_EVICTED}", below)


def _insert_receipts(db: sqlite3.Connection, act: InsertReceipts) -> None:
    db.executemany("INSERT OR IGNORE INTO receipt VALUES (?, ?, ?)", act.receipts)


def _erase_content(db: sqlite3.Connection, act: EraseContent) -> None:
    team_erase.erase_posts(db, *act)


def _trim_audit(db: sqlite3.Connection, act: TrimAudit) -> None:
    team_traffic.count_entries(db, act.tenant, act.through)
    team_audit.trim(db, act.tenant, act.through)


def _drop_expired(db: sqlite3.Connection, act: ForgetKeys) -> None:
    db.execute("DELETE FROM saved WHERE at < ?", (act.before,))
    team_audit.drop_budgets(db, act.before)


_WRITERS: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
    InsertPosts: _insert_posts,
    MovePost: _move_post,
    ExpirePost: _expire_post,
    ExpireChannel: _end_channel,
    ExpireRequests: _expire_requests_to,
    EvictPosts: _evict_posts,
    InsertReceipts: _insert_receipts,
    EraseContent: _erase_content,
    TrimAudit: _trim_audit,
    ForgetKeys: _drop_expired,
}
