"""What is read of a feed within a scope: positions first, which are few bytes, then what is there, in bounded pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parley.domain.channel.event import CHANNEL_MESSAGE
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Receipt
from parley.domain.exchange.exchange import Exchange
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from parley.domain.channel.post import Post
    from parley.domain.store.changes import ChannelQuery, ConversationQuery, FeedScope, RecordQuery, UnansweredQuery

# Maximum bytes of a page: each stream holds one until its reader has taken it.
FEED_BYTES = 4 * 1024 * 1024
_SEARCH_PAGE = 5_000
_POSTS = f"SELECT {rows.POST} FROM post JOIN tally ON tally.number = post.channel WHERE"
# The channels lead, whatever else there is in the tenant: what is hidden costs nothing and shows in no time.
_IN_CHANNELS = (
    "json_each(:channels) AS scope JOIN tally ON tally.id = scope.key AND tally.tenant = :tenant"
    " CROSS JOIN post INDEXED BY post_place ON post.channel = tally.number"
)
_IN_TENANT = "post JOIN tally ON tally.number = post.channel"
_VISIBLE = (
    "(:viewer = '' OR (NOT :addressed AND sender = :viewer) OR instr(recipients, ',' || :viewer || ',')"
    " OR (recipients IS NULL AND post.number > :low + {since}))"
)
_NUMBERS = "SELECT post.number FROM {source} WHERE post.seq > tally.floor AND {visible}"
_EVENTS = (
    "SELECT number FROM event WHERE intent_id IN (SELECT value FROM json_each(:intents))"
    f" AND number > :after AND number <= :high AND event_type <> '{CHANNEL_MESSAGE}'"
)
_UNEXPIRED = "state <> 'expired' AND (expires_at = '' OR expires_at > :now OR answered)"
_OPEN_REQUESTS = (
    "SELECT number FROM post INDEXED BY post_open_request WHERE pattern = 'request' AND answered = 0"
    " AND state <> 'expired' AND number > :low AND number <= :high AND {time}"
)
_WAITING_REQUESTS = _OPEN_REQUESTS.format(time="(expires_at = '' OR expires_at > :now)")
# The sweep has not met it yet.
_JUST_LATE_REQUESTS = _OPEN_REQUESTS.format(time="expires_at <> '' AND expires_at <= :now")
_LATE_REQUESTS = (
    "SELECT number FROM post INDEXED BY post_late WHERE pattern = 'request' AND answered = 0 AND state = 'expired'"
    " AND number > :low AND number <= :high AND expires_at <> '' AND expires_at <= :now"
    " AND NOT EXISTS (SELECT 1 FROM record WHERE record.tenant = :tenant AND record.kind = 'request'"
    " AND record.id = post.id AND json_extract(CAST(record.document AS TEXT), '$.withdrawn_at') <> '')"
)
_UNANSWERED = (
    "({numbers}) AS unanswered CROSS JOIN post ON post.number = unanswered.number"
    " JOIN tally ON tally.number = post.channel WHERE post.seq > tally.floor"
    " AND (:viewers IS NULL OR EXISTS (SELECT 1 FROM json_each(:viewers) AS viewer"
    " WHERE sender = viewer.value OR instr(recipients, ',' || viewer.value || ',')))"
    " AND (:agent = '' OR sender = :agent OR addressee = :agent OR instr(recipients, ',' || :agent || ','))"
    " AND (:channel = '' OR tally.id = :channel) AND created_at >= :since"
)


_OLDEST_REQUEST = (
    "SELECT MIN(post.number) FROM post INDEXED BY post_open_request JOIN tally ON tally.number = post.channel"
    " WHERE addressee = :agent AND pattern = 'request' AND answered = 0 AND state <> 'expired'"
    " AND post.number > :low AND post.number <= :high AND (expires_at = '' OR expires_at > :now)"
    " AND post.seq > tally.floor"
)

# As the indexes on conversations say it: "conversation_id":" and what follows, to the next quote.
_MENTIONS = "instr(metadata, x'22636f6e766572736174696f6e5f6964223a22')"
_TAIL = f"substr(metadata, {_MENTIONS} + 19, 129)"
_NAMED = (
    "SELECT {} FROM post INDEXED BY post_conversation"
    f" WHERE substr({_TAIL}, 1, instr({_TAIL}, x'22')) = :conversation AND exchange = '' AND {_MENTIONS}"
    " AND number > {} AND number < :before"
)
# Those of its exchanges, those that name it, and answers to these.
_CONVERSATION_NUMBERS = (
    "SELECT number FROM post INDEXED BY post_exchange WHERE exchange IN (SELECT value FROM json_each(:exchanges))"
    " AND exchange <> '' AND number > :after AND number < :before"
    f" UNION {_NAMED.format('number', ':after')} UNION SELECT number FROM post INDEXED BY post_answers"
    f" WHERE in_reply_to IN ({_NAMED.format('id', ':low')}) AND in_reply_to <> '' AND exchange = ''"
    " AND number > :after AND number < :before"
)
MARKS = (
    f"SELECT {rows.MARK} FROM post JOIN tally ON tally.number = post.channel"
    f" WHERE post.number > ? AND post.number < ? AND {_MENTIONS} AND post.seq > tally.floor ORDER BY post.number DESC"
)
_IN_RANGE = "post.number BETWEEN ? AND ? AND post.seq > tally.floor ORDER BY post.number"
ANSWERS = f"{_POSTS} in_reply_to = ? AND in_reply_to <> '' AND {_IN_RANGE}"
PENDING = f"{_POSTS} addressee = ? AND state = 'pending' AND {_IN_RANGE}"
WAITING = (
    "SELECT DISTINCT tenant.id, addressee FROM (SELECT number, addressee FROM post INDEXED BY post_pending"
    " WHERE state = 'pending' AND addressee > ? ORDER BY addressee LIMIT ?) AS one"
    " JOIN tenant ON tenant.number = one.number >> ? ORDER BY addressee"
)
# A channel in which nobody has spoken was active when it was created.
_ACTIVE_AT = "ifnull(nullif(last_at, ''), json_extract(CAST(document AS TEXT), '$.created_at'))"

# As the index on parents says it: exchanges with a name are found by their conversation in the index on names.
BY_PARENT = "(kind <> 'exchange' OR name = '')"


def records_query(kind: str, tenant: str, query: RecordQuery, columns: str) -> tuple[str, list[Any]]:
    """The question for records of a kind, and its values."""
    # Left alone, SQLite goes through all records of the kind, because they lie in the order that is asked for.
    by_parent = query.parent is not None and kind != Exchange.kind
    index = " INDEXED BY record_parent" if by_parent else ""
    tests = query.conditions(_document_field)
    conditions = ["tenant = ?", "kind = ?", *[f"{column} {test} ?" for column, test, _ in tests]]
    if by_parent:
        conditions.append(BY_PARENT)
    values: list[Any] = [tenant, kind, *[value for _, _, value in tests]]
    order = [_document_field(query.order), "id"] if query.order else ["id"]
    if query.after[1]:
        conditions.append(f"({', '.join(order)}) {'<' if query.newest else '>'} ({', '.join('?' * len(order))})")
        values += query.after[-len(order) :]
    direction = " DESC" if query.newest else ""
    ordered = ", ".join([f"{column}{direction}" for column in order])
    sql = f"SELECT {columns} FROM record{index} WHERE {' AND '.join(conditions)} ORDER BY {ordered} LIMIT ?"
    return sql, [*values, query.limit]


def _document_field(path: str) -> str:
    return f"json_extract(CAST(document AS TEXT), '$.{path}')"


def channels_query(tenant: str, query: ChannelQuery) -> tuple[str, list[Any]]:
    """The question for channels with their counters, last active first, and its values."""
    conditions, values = ["record.tenant = ?", "record.kind = 'channel'"], [tenant]
    if query.intent_id:
        conditions += ["record.parent = ?"]
        values += [query.intent_id]
    if query.channels is not None:
        conditions += ["record.id IN (SELECT value FROM json_each(?))"]
        values += [json.dumps(query.channels)]
    if query.member:
        conditions += ["instr(document, CAST(? AS BLOB))"]
        values += [f'"agent":"{query.member}"']
    if query.status:
        # One whose time to live may be over is closed before its record says so.
        conditions += [f"({_document_field('status')} = ? OR (? = 'closed' AND due <> ''))"]
        values += [query.status, query.status]
    source = (
        f"SELECT version, document, record.id AS id, count, last_at, floor, {_ACTIVE_AT} AS active_at FROM record"
        f" LEFT JOIN tally ON tally.id = record.id AND tally.tenant = record.tenant WHERE {' AND '.join(conditions)}"
    )
    bound = "active_at >= ?"
    values += [query.active_since]
    if query.before[0]:
        bound += " AND (active_at, id) < (?, ?)"
        values += query.before
    sql = f"SELECT version, document, count, last_at, floor FROM ({source}) WHERE {bound}"
    return f"{sql} ORDER BY active_at DESC, id DESC LIMIT ?", [*values, query.limit]


def conversation_query(low: int, query: ConversationQuery) -> tuple[str, dict[str, Any]]:
    """The question for messages of a conversation, and its values."""
    sql = (
        f"{_POSTS} post.number IN ({_CONVERSATION_NUMBERS}) AND post.seq > tally.floor AND {_UNEXPIRED}"
        f" ORDER BY post.number {'DESC' if query.newest else ''} LIMIT :limit"
    )
    values = {
        "conversation": f'{query.conversation_id}"'.encode(),
        "exchanges": json.dumps(query.exchanges),
        "low": low,
        "after": low + query.after,
        "before": low + (query.before or rows.MASK),
        "now": query.now,
        "limit": query.limit,
    }
    return sql, values


def find_positions(
    db: sqlite3.Connection, tenant: str, low: int, scope: FeedScope, after: int, through: int, limit: int
) -> tuple[tuple[int, ...], int]:
    """See `TeamStore.find_positions`."""
    values = {**_values(tenant, low, scope), "after": low + after, "high": low + through, "limit": limit}
    posts = f"{_numbers(scope)} AND post.number > :after AND post.number <= :high"
    found = db.execute(f"{posts} UNION ALL {_EVENTS} ORDER BY 1 LIMIT :limit", values).fetchall()
    positions = tuple([number & rows.MASK for (number,) in found])
    return positions, positions[-1] if len(positions) == limit else through


def read_feed(db: sqlite3.Connection, after: int, high: int, limit: int) -> tuple[FeedItem, ...]:
    """See `TeamStore.feed`."""
    values = (after, high, limit)
    posts = f"{_POSTS} post.number > ? AND post.number <= ? AND post.seq > tally.floor ORDER BY post.number LIMIT ?"
    events = f"SELECT {rows.EVENT} FROM event WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"
    db.execute("BEGIN")
    try:
        pages = fetch_page(db.execute(posts, values)), fetch_page(db.execute(events, values))
    finally:
        db.execute("COMMIT")
    items, _ = merge_page(*pages, rows.MASK)
    return items[:limit]


def read_positions(db: sqlite3.Connection, low: int, positions: Sequence[int]) -> tuple[tuple[FeedItem, ...], int]:
    """See `TeamStore.read_positions`."""
    numbers = (json.dumps([low + position for position in positions]),)
    chosen = "number IN (SELECT value FROM json_each(?))"
    db.execute("BEGIN")
    try:
        posts, more_posts = fetch_page(
            db.execute(f"{_POSTS} post.seq > tally.floor AND post.{chosen} ORDER BY post.number", numbers)
        )
        events, more_events = fetch_page(
            db.execute(f"SELECT {rows.EVENT} FROM event WHERE {chosen} ORDER BY number", numbers)
        )
    finally:
        db.execute("COMMIT")
    return merge_page((posts, more_posts), (events, more_events), positions[-1])


def merge_page(
    posts: tuple[list[Any], bool], events: tuple[list[Any], bool], last: int
) -> tuple[tuple[FeedItem, ...], int]:
    """Posts and events in order, and up to where that goes: where one was cut off, the other must not run ahead."""
    items = [FeedItem.of_post(rows.post_from_row(row)) for row in posts[0]]
    items += [FeedItem.of_event(rows.event_from_row(row)) for row in events[0]]
    items.sort(key=lambda item: item.position)
    last = min([page[-1][0] & rows.MASK for page, more in (posts, events) if more], default=last)
    return tuple([item for item in items if item.position <= last]), last


def search(
    db: sqlite3.Connection, tenant: str, low: int, scope: FeedScope, text: str, now: str, limit: int
) -> tuple[int, ...]:
    """See `TeamStore.search`. Each message is a statement of its own, so that other threads run in between."""
    values = {**_values(tenant, low, scope), "now": now, "limit": _SEARCH_PAGE}
    sql = f"{_numbers(scope)} AND post.number <= :high AND {_UNEXPIRED} ORDER BY +post.number DESC LIMIT :limit"
    payload_of = "SELECT payload FROM post WHERE number = ?"
    folded_text = text.casefold()
    found: list[int] = []
    while page := db.execute(sql, values).fetchall():
        for (number,) in page:
            row = db.execute(payload_of, (number,)).fetchone()
            if row is not None and folded_text in row[0].decode().casefold():
                found.append(number & rows.MASK)
                if len(found) == limit:
                    return tuple(found)
        values["high"] = page[-1][0] - 1
    return tuple(found)


def find_taking_part(db: sqlite3.Connection, tenant: str, low: int, agent: str) -> list[Any]:
    """The rows of channels for `TeamStore.taking_part`."""
    query = (
        "SELECT version, document FROM record WHERE tenant = :tenant AND kind = 'channel'"
        " AND (instr(document, :member)"
        " OR id IN (SELECT tally.id FROM post JOIN tally ON tally.number = post.channel"
        " WHERE post.number BETWEEN :low AND :high AND (sender = :agent"
        " OR (addressee = :agent AND pattern = 'request' AND answered = 0 AND state <> 'expired')))) ORDER BY id"
    )
    member = b'"agent":"%b"' % agent.encode()
    values = {"tenant": tenant, "member": member, "low": low, "high": low | rows.MASK, "agent": agent}
    return db.execute(query, values).fetchall()


def find_evicted(
    db: sqlite3.Connection, tenant: str, low: int, scope: FeedScope, after: int
) -> tuple[tuple[str, int], ...]:
    """See `TeamStore.find_evicted`."""
    if scope.channels is None:
        return ()
    sql = (
        "SELECT tally.id, floor FROM json_each(:channels) AS scope"
        " JOIN tally ON tally.id = scope.key AND tally.tenant = :tenant WHERE floor > 0"
        " AND (SELECT post.number FROM post WHERE post.channel = tally.number AND post.seq > floor"
        " ORDER BY post.seq LIMIT 1) > :low + max(:after, scope.value) ORDER BY tally.id"
    )
    values = {"channels": json.dumps(dict(scope.channels)), "tenant": tenant, "low": low, "after": after}
    return tuple(db.execute(sql, values).fetchall())


def fetch_page(cursor: sqlite3.Cursor) -> tuple[list[Any], bool]:
    """Rows until they are a lot to hold in memory, one at least; and whether there may be more."""
    page: list[Any] = []
    size = 0
    for row in cursor:
        page.append(row)
        size += sum([len(value) for value in row if type(value) is bytes])
        if size >= FEED_BYTES:
            return page, True
    return page, False


def _numbers(scope: FeedScope) -> str:
    since, source = ("0", _IN_TENANT) if scope.channels is None else ("scope.value", _IN_CHANNELS)
    bound = "" if scope.channels is not None else " AND post.number > :low"
    return _NUMBERS.format(source=source, visible=_VISIBLE.format(since=since)) + bound


def _values(tenant: str, low: int, scope: FeedScope) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "low": low,
        "high": low | rows.MASK,
        "channels": json.dumps(dict(scope.channels or {})),
        "intents": json.dumps(scope.intents),
        "viewer": scope.viewer,
        "addressed": scope.addressed,
    }


def find_oldest_request(db: sqlite3.Connection, low: int, agent: str, now: str) -> int | None:
    """See `TeamStore.oldest_request`."""
    values = {"agent": agent, "low": low, "high": low | rows.MASK, "now": now}
    (number,) = db.execute(_OLDEST_REQUEST, values).fetchone()
    return None if number is None else int(number) & rows.MASK


def read_unanswered(db: sqlite3.Connection, tenant: str, low: int, query: UnansweredQuery) -> tuple[Post, ...]:
    """See `TeamStore.unanswered`."""
    direction = " DESC" if query.newest else ""
    sql = f"SELECT {rows.POST} FROM {_unanswered(query)} ORDER BY post.number{direction} LIMIT :limit"
    values = _unanswered_values(tenant, low, query)
    if query.after:
        values["high" if query.newest else "low"] = low + query.after - query.newest
    return tuple(map(rows.post_from_row, db.execute(sql, values).fetchall()))


def count_unanswered(
    db: sqlite3.Connection, tenant: str, low: int, query: UnansweredQuery
) -> tuple[tuple[tuple[str, ...], int], ...]:
    """See `TeamStore.count_unanswered`."""
    sql = f"SELECT recipients, COUNT(*) FROM {_unanswered(query)} GROUP BY recipients"
    found = db.execute(sql, _unanswered_values(tenant, low, query)).fetchall()
    return tuple([(rows.separate(recipients), number) for recipients, number in found])


def _unanswered(query: UnansweredQuery) -> str:
    parts = [_WAITING_REQUESTS] if query.waiting else []
    parts += [_JUST_LATE_REQUESTS, _LATE_REQUESTS] if query.late else []
    return _UNANSWERED.format(numbers=" UNION ALL ".join(parts))


def _unanswered_values(tenant: str, low: int, query: UnansweredQuery) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "low": low,
        "high": low | rows.MASK,
        "now": query.now,
        "viewers": None if query.viewers is None else json.dumps(query.viewers),
        "agent": query.agent,
        "channel": query.channel_id,
        "since": query.since,
        "limit": query.limit,
    }


def receipts_of(db: sqlite3.Connection, message_id: str) -> tuple[Receipt, ...]:
    """Who has read a message, and when."""
    query = "SELECT post_id, agent, read_at FROM receipt WHERE post_id = ? ORDER BY agent"
    return tuple([Receipt(*row) for row in db.execute(query, (message_id,))])
