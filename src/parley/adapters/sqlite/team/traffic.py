"""Who talked to whom: what removes messages and audit entries counts them first, and both are read by one statement."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.directory.callers import QUEUE_PREFIX, SYSTEM
from parley.domain.store.changes import DELIVERED, DENIED, HELD
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3

    from parley.domain.store.changes import TrafficCount, TrafficQuery

_DIGEST_CHARS = 32
# Everyone, the address of a queue, or a list; what was said to everyone when nobody was there has an empty one.
_RECEIVERS = (
    f"CASE WHEN recipients IS NULL THEN '*' WHEN recipients = ',,' AND addressee LIKE '{QUEUE_PREFIX}%' THEN addressee"
    " ELSE recipients END"
)
_COUNTED = f"state <> 'pending' AND sender <> '{SYSTEM}'"
_REMOVED_POSTS = (
    f"SELECT substr(created_at, 1, 13), sender, {_RECEIVERS}, COUNT(*), MIN(number), MAX(number), MIN(created_at),"
    f" MAX(created_at) FROM post WHERE {{which}} AND {_COUNTED} GROUP BY 1, 2, 3"
)
_FACT = "CASE WHEN json_valid(CAST(document AS TEXT)) THEN json_extract(CAST(document AS TEXT), '$.{}') END"
# Few entries are about held and denied messages: the others are not parsed.
_HAS_OUTCOME = 'instr(document, CAST(\'"outcome":"{}"\' AS BLOB))'
_TRIMMED_ENTRIES = (
    "SELECT substr(at, 1, 13), outcome, side, sender, IFNULL(nullif(receivers, '[]'), IFNULL(addressee, '')),"
    " COUNT(*), MIN(place), MAX(place), MIN(at), MAX(at) FROM (SELECT place, at, side,"
    f" {_FACT.format('outcome')} AS outcome, {_FACT.format('sender')} AS sender, {_FACT.format('to')} AS addressee,"
    f" {_FACT.format('receivers')} AS receivers, {_FACT.format('action')} AS action FROM audit"
    f" WHERE place BETWEEN ? AND ? AND ({_HAS_OUTCOME.format(HELD)} OR {_HAS_OUTCOME.format(DENIED)}))"
    f" WHERE action = '{AGENT_EXCHANGE}' AND outcome IN ('{HELD}', '{DENIED}') AND sender IS NOT NULL"
    " GROUP BY 1, 2, 3, 4, 5"
)
_ADD = (
    "INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, hour, kind, scope,"
    " sender, digest) DO UPDATE SET"
    " number = number + excluded.number, low = min(low, excluded.low), high = max(high, excluded.high),"
    " first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)"
)
# One statement, so that a message that is removed meanwhile is seen once: in its place, or counted.
_READ = (
    f"SELECT '{DELIVERED}', tally.id, sender, {_RECEIVERS} AS receivers, COUNT(*), MAX(created_at), span.low, span.high"
    " FROM (SELECT json_extract(value, '$[0]') AS low, json_extract(value, '$[1]') AS high FROM json_each(:spans))"
    " AS span CROSS JOIN post ON post.number > span.low AND post.number <= span.high"
    " CROSS JOIN tally ON tally.number = post.channel"
    f" WHERE created_at >= :since AND created_at < :until AND {_COUNTED} GROUP BY span.low, tally.id, sender, 4"
    " UNION ALL SELECT kind, scope, sender, receivers, number, last_at, low - 1, high FROM traffic"
    " WHERE tenant = :tenant AND hour >= substr(:since, 1, 13) AND hour <= substr(:until, 1, 13)"
    " AND hour <> '' AND last_at >= :since AND first_at < :until"
    " UNION ALL SELECT kind, scope, sender, receivers, number, last_at, low, high FROM traffic"
    " WHERE tenant = :tenant AND hour = '' AND last_at >= :since"
)


def count_posts(db: sqlite3.Connection, tenant: int, place: str, which: str, values: tuple[Any, ...]) -> None:
    """Count messages of a channel that are about to be removed."""
    groups = db.execute(_REMOVED_POSTS.format(which=which), values).fetchall()
    db.executemany(
        _ADD,
        [
            (tenant, hour, DELIVERED, place, sender, _digest(receivers), receivers, number, *_positions(low, high), *at)
            for hour, sender, receivers, number, low, high, *at in groups
        ],
    )


def count_entries(db: sqlite3.Connection, tenant: int, through: int) -> None:
    """Count the held and denied messages of audit entries that are about to be trimmed."""
    bounds = (tenant << rows.SHIFT, tenant << rows.SHIFT | through)
    groups = db.execute(_TRIMMED_ENTRIES, bounds).fetchall()
    db.executemany(
        _ADD,
        [
            (tenant, hour, outcome, side, sender, _digest(receivers), receivers, number, *_positions(low, high), *at)
            for hour, outcome, side, sender, receivers, number, low, high, *at in groups
        ],
    )


def read(db: sqlite3.Connection, tenant: int, query: TrafficQuery) -> TrafficCount:
    """See `TeamStore.count_traffic`."""
    base = tenant << rows.SHIFT
    spans = [(base + low, base + high) for low, high in pairwise([query.after, *query.cuts, query.through])]
    values = {"spans": json.dumps(spans), "tenant": tenant, "since": query.since, "until": query.until}
    return rows.traffic_from_rows(db.execute(_READ, values).fetchall())


def _positions(low: int, high: int) -> tuple[int, int]:
    return low & rows.MASK, high & rows.MASK


def _digest(receivers: str) -> str:
    return hashlib.sha256(receivers.encode()).hexdigest()[:_DIGEST_CHARS]
