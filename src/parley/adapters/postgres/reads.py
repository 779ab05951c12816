"""What is asked of messages, events and logs: the queries, and what becomes of their rows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from parley.domain.audit.entry import COLUMNS, AuditEntry
from parley.domain.channel.event import CHANNEL_MESSAGE
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import ERASED
from parley.domain.directory.callers import QUEUE_PREFIX, SYSTEM
from parley.domain.store.changes import erasable
from parley.wire import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parley.adapters.postgres.journal import Fetch
    from parley.domain.store.changes import (
        AuditQuery,
        ChannelQuery,
        ErasableMessage,
        ErasureQuery,
        FeedScope,
        RecordQuery,
        UnansweredQuery,
    )

# Maximum bytes of a feed page: each stream holds one until its reader has taken it.
FEED_BYTES = 4 * 1024 * 1024
POSTS = f"SELECT {rows.POST} FROM post JOIN tally ON tally.number = post.channel WHERE"
# Only where a whole stretch is wanted, it is looked for by its numbers: for one message that would be all of a tenant.
_IN_TENANT = "(post.number + 0) BETWEEN $1 AND $2 AND post.seq > tally.floor"
_RECORDS = "SELECT version, document FROM record WHERE tenant = $1 AND kind = $2"
CHILDREN = f"{_RECORDS} AND parent = $3 AND id > $4 ORDER BY id LIMIT $5"
EVERY = f"{_RECORDS} AND id > $3 ORDER BY id LIMIT $4"
BY_ID = f"{POSTS} {_IN_TENANT} AND post.id = $3"
BY_ID_EVICTED = f"{POSTS} (post.number + 0) BETWEEN $1 AND $2 AND post.id = $3"
ANSWERS = f"{POSTS} {_IN_TENANT} AND in_reply_to = $3 AND in_reply_to <> '' ORDER BY post.number"
WAITING = (
    "SELECT DISTINCT tenant.id, addressee FROM (SELECT number, addressee FROM post"
    " WHERE state = 'pending' AND addressee > $1 ORDER BY addressee LIMIT $2) AS one"
    " JOIN tenant ON tenant.number = one.number >> 40 ORDER BY addressee"
)
PENDING = f"{POSTS} {_IN_TENANT} AND addressee = $3 AND state = 'pending' ORDER BY post.number"
# The receipt that counts: one's own; for a sender (or one who sees all) that of the one addressee. The channel is
# looked up beforehand, so that its messages are found in their order and none of them has to be sorted.
_POST_OF_CHANNEL = rows.POST.replace("tally.id", "$3::text").replace("tally.intent", "(SELECT intent FROM place)")
PAGE = (
    "WITH place AS MATERIALIZED (SELECT number, intent, floor FROM tally WHERE tenant = $2 AND id = $3)"
    f" SELECT {_POST_OF_CHANNEL}, coalesce(receipt.read_at, '') FROM post"
    " LEFT JOIN receipt ON receipt.post_id = post.id AND receipt.agent ="
    " CASE WHEN $1 = '' OR ($1 = sender AND recipients IS NOT NULL) THEN addressee ELSE $1 END"
    " WHERE post.channel = (SELECT number FROM place) AND post.seq > $4 AND post.seq > (SELECT floor FROM place)"
    " AND ($1::text = '' OR sender = $1 OR (recipients IS NULL AND post.number > $5)"
    " OR strpos(recipients, ',' || $1 || ',') > 0) AND state <> 'expired'"
    " AND (expires_at = '' OR expires_at > $6 OR answered)"
    " AND ($7::text = '' OR recipients IS NULL OR strpos(recipients, ',' || $7 || ',') > 0)"
    " AND ($8::text = '' OR created_at > $8) AND (post.number + 0) <= $10 AND post.seq < $11 ORDER BY post.seq LIMIT $9"
)
PAGE_NEWEST = PAGE.replace("ORDER BY post.seq", "ORDER BY post.seq DESC")
# As the index on conversations says it.
_MENTIONS = 'position(\'"conversation_id":"\'::bytea IN metadata) > 0'
_NAMED = f"FROM post WHERE parley_conversation(metadata) = $3 AND exchange = '' AND {_MENTIONS} AND number < $2"
# Messages of its exchanges, those that name it, and answers to these.
CONVERSATION = (
    f"{POSTS} post.number IN (SELECT number FROM post WHERE exchange = ANY($7::text[]) AND exchange <> ''"
    f" AND number > $1 AND number < $2 UNION SELECT number {_NAMED} AND number > $1 UNION SELECT number FROM post"
    f" WHERE in_reply_to IN (SELECT id {_NAMED} AND number > $6) AND in_reply_to <> '' AND exchange = ''"
    " AND (number + 0) > $1 AND (number + 0) < $2)"
    " AND post.seq > tally.floor AND state <> 'expired' AND (expires_at = '' OR expires_at > $4 OR answered)"
    " ORDER BY post.number LIMIT $5"
)
CONVERSATION_NEWEST = CONVERSATION.replace("ORDER BY post.number", "ORDER BY post.number DESC")
MARKS = (
    f"SELECT {rows.MARK} FROM post JOIN tally ON tally.number = post.channel"
    f" WHERE post.number > $1 AND post.number < $2 AND {_MENTIONS} AND post.seq > tally.floor ORDER BY post.number DESC"
)
# One statement, so that a message that is removed meanwhile is seen once: in its place, or counted.
TRAFFIC = (
    "SELECT 'delivered', tally.id, sender, CASE WHEN recipients IS NULL THEN '*' WHEN recipients = ',,'"
    f" AND addressee LIKE '{QUEUE_PREFIX}%' THEN addressee ELSE recipients END AS receivers, COUNT(*), MAX(created_at),"
    " span.low, span.high FROM unnest($1::bigint[],"
    " $2::bigint[]) AS span (low, high) JOIN post ON post.number > span.low AND post.number <= span.high"
    " JOIN tally ON tally.number = post.channel WHERE created_at >= $3 AND created_at < $4 AND state <> 'pending'"
    f" AND sender <> '{SYSTEM}' GROUP BY span.low, span.high, tally.id, sender, 4"
    " UNION ALL SELECT kind, scope, sender, receivers, number, last_at, low - 1, high FROM traffic WHERE tenant = $5"
    " AND hour >= left($3, 13) AND hour <= left($4, 13) AND hour <> '' AND last_at >= $3 AND first_at < $4"
    " UNION ALL SELECT kind, scope, sender, receivers, number, last_at, low, high FROM traffic WHERE tenant = $5"
    " AND hour = '' AND last_at >= $3"
)
# A channel in which nobody has spoken was active when it was created.
_CHANNELS = (
    "SELECT version, document, count, last_at, floor FROM (SELECT version, document, record.id AS id, count, last_at,"
    " floor, coalesce(nullif(last_at, ''), convert_from(document, 'UTF8')::json ->> 'created_at') COLLATE \"C\""
    " AS active_at FROM record LEFT JOIN tally ON tally.id = record.id AND tally.tenant = record.tenant"
    " WHERE {conditions}) AS channel WHERE {bound} ORDER BY active_at DESC, id DESC LIMIT {limit}"
)
OLDEST_REQUEST = (
    "SELECT MIN(post.number) FROM post JOIN tally ON tally.number = post.channel"
    f" WHERE {_IN_TENANT} AND addressee = $3 AND pattern = 'request' AND NOT answered AND state <> 'expired'"
    " AND (expires_at = '' OR expires_at > $4)"
)
# Each channel is looked up by itself instead of reading all posts of the agent: LIMIT enforces it.
TAKING_PART = (
    "SELECT version, document FROM record WHERE tenant = $1 AND kind = 'channel'"
    " AND (position($2::bytea in document) > 0 OR (SELECT 1 FROM post WHERE sender = $5"
    " AND post.channel = (SELECT tally.number FROM tally WHERE tally.id = record.id) LIMIT 1) IS NOT NULL"
    " OR id IN (SELECT tally.id FROM post JOIN tally ON tally.number = post.channel WHERE addressee = $5"
    " AND (post.number + 0) BETWEEN $3 AND $4 AND pattern = 'request' AND NOT answered AND state <> 'expired'))"
    " ORDER BY id"
)
# Posts scanned per call.
_WINDOW = 10_000
_NEAR = (
    "SELECT max(number) FROM"
    " (SELECT number FROM post WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3) AS near"
)
# System messages to one agent about its posts quote what a person wrote about them.
_WORDS = (
    "SELECT id, in_reply_to FROM post"
    " WHERE number > $1 AND number <= $2 AND metadata <> $3 AND (exchange = ANY($4::text[])"
    " OR ($5::text <> '' AND (sender = $5 OR (sender = $6 AND addressee = $5)))) ORDER BY number"
)
# Keys that were used for these messages, or for a batch, which may have them.
_USES = (
    "SELECT message_id, scope FROM saved WHERE message_id = ANY($1) AND message_id <> ''"
    " UNION ALL SELECT message_id, scope FROM saved WHERE message_id >= ',' AND message_id < '-' AND message_id <> ''"
)
OVERDUE = (
    "SELECT tenant.id, post.id FROM post JOIN tenant ON tenant.number = post.number >> 40"
    " WHERE expires_at <> '' AND state <> 'expired' AND expires_at <= $1 AND NOT answered LIMIT $2"
)
NEWEST = (
    "SELECT max(at) FROM (SELECT max(last_at) AS at FROM tally UNION ALL SELECT max(at) FROM saved UNION ALL"
    " SELECT document::json ->> 'at' FROM entry JOIN tenant ON tenant = number AND position = entry_position"
    " UNION ALL SELECT (SELECT created_at FROM event WHERE number BETWEEN tenant.number << 40"
    " AND ((tenant.number + 1) << 40) - 1 ORDER BY number DESC LIMIT 1) FROM tenant) AS stamps"
)
# What is in a scope: $1 and $2 bound the numbers, $3 is the tenant's, $4 and $5 are the channels and from where on
# messages to everyone count there (no channel for all), $6 views, $7 says that only what was said to it counts. The
# channels lead, each looked up by itself: what is hidden costs nothing and shows in no time.
_SCOPE_POST = (
    "post.seq > tally.floor AND (post.number + 0) > $1 AND (post.number + 0) <= $2 AND ($6::text = ''"
    " OR (NOT $7 AND sender = $6) OR strpos(recipients, ',' || $6 || ',') > 0"
    " OR (recipients IS NULL AND post.number > {since}))"
)
_IN_CHANNELS = (
    "unnest($4::text[], $5::bigint[]) AS scope (id, since)"
    " JOIN tally ON tally.tenant = $3 AND tally.id = scope.id CROSS JOIN LATERAL"
    " (SELECT post.number, octet_length(payload) AS size, state, expires_at, answered FROM post"
    f" WHERE post.channel = tally.number AND {_SCOPE_POST.format(since='scope.since')} OFFSET 0) AS post"
)
_IN_TENANT = (
    "(SELECT post.number, octet_length(payload) AS size, state, expires_at, answered"
    " FROM post JOIN tally ON tally.number = post.channel WHERE post.number > $1 AND post.number <= $2"
    f" AND $3::bigint > 0 AND $4::text[] IS NULL AND $5::bigint[] IS NULL AND {_SCOPE_POST.format(since='0')}) AS post"
)
_SCOPE_EVENTS = (
    "SELECT number FROM event WHERE intent_id = ANY($8::text[]) AND (number + 0) > $1 AND (number + 0) <= $2"
    f" AND event_type <> '{CHANNEL_MESSAGE}'"
)
_AT_POSTS = f"{POSTS} post.seq > tally.floor AND post.number = ANY($1::bigint[]) ORDER BY post.number"
_AT_EVENTS = f"SELECT {rows.EVENT} FROM event WHERE number = ANY($1::bigint[]) ORDER BY number"
_SIZES = (
    "SELECT number, octet_length(payload) FROM post WHERE number = ANY($1::bigint[])"
    " UNION ALL SELECT number, octet_length(document) FROM event WHERE number = ANY($1::bigint[]) ORDER BY number"
)
_PAYLOADS = "SELECT number, payload FROM post WHERE number = ANY($1::bigint[])"
_EVICTED = (
    "SELECT tally.id, tally.floor FROM unnest($2::text[], $3::bigint[]) AS scope (id, since)"
    " JOIN tally ON tally.tenant = $1 AND tally.id = scope.id WHERE tally.floor > 0"
    " AND (SELECT post.number FROM post WHERE post.channel = tally.number AND post.seq > tally.floor"
    " ORDER BY post.seq LIMIT 1) > greatest($4, scope.since) ORDER BY tally.id"
)
_SEARCH_PAGE = 5_000
_SEARCH_BYTES = 1024 * 1024
# A page of a feed ends where it would be a lot of text.
FEED_POSTS = (
    f"SELECT * FROM (SELECT {rows.POST}, sum(octet_length(payload)) OVER (ORDER BY post.number) - octet_length(payload)"
    " AS before FROM post JOIN tally ON tally.number = post.channel WHERE post.number > $1 AND post.number <= $2"
    f" AND post.seq > tally.floor ORDER BY post.number LIMIT $3) AS page WHERE before < {FEED_BYTES}"
)
FEED_EVENTS = (
    f"SELECT * FROM (SELECT {rows.EVENT}, sum(octet_length(document)) OVER (ORDER BY number) - octet_length(document)"
    " AS before FROM event WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3) AS page"
    f" WHERE before < {FEED_BYTES}"
)
_EVENTS = f"SELECT {rows.EVENT} FROM event WHERE (number + 0) BETWEEN $1 AND $2"
EVENTS = f"{_EVENTS} AND intent_id = $3 AND sequence > $4 AND ($5::text = '' OR event_type = $5) AND created_at >= $6"
TRACED = f"{_EVENTS} AND trace_id = $3 AND trace_id <> ''"
EVENT = f"{_EVENTS} AND id = $3"
LOGGED = "SELECT intent_id, COUNT(*) FROM event WHERE number > $1 AND number <= $2 GROUP BY intent_id"
ENTRIES = "SELECT position, document, link FROM entry WHERE tenant = $1 AND position > $2 ORDER BY position LIMIT $3"


def bounded_events(query: str, order: str, limit: str) -> str:
    """The first rows of a query for events in this order, until they are a lot of text."""
    size = f"sum(octet_length(document)) OVER (ORDER BY {order}) - octet_length(document) AS before"
    bounded = query.replace(" FROM event", f", {size} FROM event", 1)
    return f"SELECT * FROM ({bounded} ORDER BY {order} LIMIT {limit}) AS page WHERE before < {FEED_BYTES}"


def records_query(kind: str, query: RecordQuery, columns: str) -> tuple[str, list[object]]:
    """The question for records of a kind in the tenant with the number $1, and the values after that."""
    values: list[object] = [kind]
    conditions = ["tenant = $1", "kind = $2"]
    for column, test, value in query.conditions(_record_field):
        values.append(value)
        conditions.append(f"{column} {test} ${len(values) + 1}::text")
    order = [f'{_record_field(query.order)} COLLATE "C"', "id"] if query.order else ["id"]
    if query.after[1]:
        places = [f"${len(values) + 2 + index}::text" for index in range(len(order))]
        values += query.after[-len(order) :]
        conditions.append(f"({', '.join(order)}) {'<' if query.newest else '>'} ({', '.join(places)})")
    ordered = ", ".join([f"{column}{' DESC' if query.newest else ''}" for column in order])
    values.append(query.limit)
    which = " AND ".join(conditions)
    return f"SELECT {columns} FROM record WHERE {which} ORDER BY {ordered} LIMIT ${len(values) + 1}", values


def _record_field(path: str) -> str:
    return f"(convert_from(document, 'UTF8')::json #>> '{{{path.replace('.', ',')}}}')"


async def read_feed(fetch: Fetch, tenant: int, after: int, through: int, limit: int) -> tuple[list[FeedItem], int]:
    """What was said and happened after a position, in order, and up to where that goes: not more than a lot of text."""
    low = tenant << rows.SHIFT
    values = (low + after, low + through, limit)
    post_rows, event_rows = await fetch(FEED_POSTS, *values), await fetch(FEED_EVENTS, *values)
    items = [FeedItem.of_post(rows.post_from_row(row)) for row in post_rows]
    items += [FeedItem.of_event(rows.event_from_row(row[:10])) for row in event_rows]
    items.sort(key=lambda item: item.position)
    # Where one of the two was cut off, the other must not run ahead of it.
    pages = ((post_rows, 13), (event_rows, 8))
    last = min([page[-1][0] & rows.MASK for page, column in pages if is_cut_off(page, column)], default=through)
    if len(items) >= limit:
        last = min(last, items[limit - 1].position)
    return [item for item in items[:limit] if item.position <= last], last


def channels_query(query: ChannelQuery) -> tuple[str, list[object]]:
    """The question for channels of the tenant of the first value, and the other values."""
    conditions, values = ["record.tenant = $1", "record.kind = 'channel'"], list[object]()

    def add(condition: str, value: object) -> None:
        values.append(value)
        conditions.append(condition.format(f"${len(values) + 1}"))

    if query.intent_id:
        add("record.parent = {}", query.intent_id)
    if query.channels is not None:
        add("record.id = ANY({}::text[])", list(query.channels))
    if query.member:
        add("position({}::bytea IN document) > 0", f'"agent":"{query.member}"'.encode())
    if query.status:
        # One whose time to live may be over is closed before its record says so.
        add("(convert_from(document, 'UTF8')::json ->> 'status' = {0} OR ({0} = 'closed' AND due <> ''))", query.status)
    values.append(query.active_since)
    bound = f"active_at >= ${len(values) + 1}"
    if query.before[0]:
        bound += f" AND (active_at, id) < (${len(values) + 2}, ${len(values) + 3})"
        values += query.before
    values.append(query.limit)
    sql = _CHANNELS.format(conditions=" AND ".join(conditions), bound=bound, limit=f"${len(values) + 1}")
    return sql, values


async def find_positions(
    fetch: Fetch, tenant: int, scope: FeedScope, after: int, through: int, limit: int
) -> tuple[tuple[int, ...], int]:
    """See `TeamStore.find_positions`."""
    low = tenant << rows.SHIFT
    sql = f"SELECT post.number FROM {_source(scope)} UNION ALL {_SCOPE_EVENTS} ORDER BY 1 LIMIT $9"
    values = (low + after, low + through, *_scope_values(tenant, scope), list(scope.intents), limit)
    positions = tuple([row[0] & rows.MASK for row in await fetch(sql, *values)])
    return positions, positions[-1] if len(positions) == limit else through


async def read_positions(fetch: Fetch, tenant: int, positions: Sequence[int]) -> tuple[tuple[FeedItem, ...], int]:
    """See `TeamStore.read_positions`."""
    low = tenant << rows.SHIFT
    numbers: list[int] = []
    last, size = positions[-1], 0
    for number, length in await fetch(_SIZES, [low + position for position in positions]):
        if size >= FEED_BYTES:
            last = numbers[-1] & rows.MASK
            break
        numbers.append(number)
        size += length
    items = [FeedItem.of_post(rows.post_from_row(row)) for row in await fetch(_AT_POSTS, numbers)]
    items += [FeedItem.of_event(rows.event_from_row(row)) for row in await fetch(_AT_EVENTS, numbers)]
    return tuple(sorted(items, key=lambda item: item.position)), last


async def find_evicted(fetch: Fetch, tenant: int, scope: FeedScope, after: int) -> tuple[tuple[str, int], ...]:
    """See `TeamStore.find_evicted`."""
    if scope.channels is None:
        return ()
    low = tenant << rows.SHIFT
    since = [low + since for since in scope.channels.values()]
    evicted = await fetch(_EVICTED, tenant, list(scope.channels), since, low + after)
    return tuple([(row[0], row[1]) for row in evicted])


async def search(
    fetch: Fetch, tenant: int, scope: FeedScope, text: str, now: str, through: int, limit: int
) -> tuple[int, ...]:
    """See `TeamStore.search`. Letters are compared as Python folds them, which the database cannot."""
    low = tenant << rows.SHIFT
    sql = (
        f"SELECT post.number, size FROM {_source(scope)} WHERE state <> 'expired'"
        " AND (expires_at = '' OR expires_at > $8 OR answered) ORDER BY (post.number + 0) DESC LIMIT $9"
    )
    folded_text = text.casefold()
    found: list[int] = []
    high = low + through
    while page := await fetch(sql, low, high, *_scope_values(tenant, scope), now, _SEARCH_PAGE):
        for numbers in _groups(page):
            payloads = await fetch(_PAYLOADS, numbers)
            found += await asyncio.to_thread(_containing, payloads, folded_text)
            if len(found) >= limit:
                return tuple(found[:limit])
        high = page[-1][0] - 1
    return tuple(found)


def _groups(page: list[Any]) -> Iterator[list[int]]:
    """Numbers whose payloads are not a lot of text together."""
    numbers: list[int] = []
    size = 0
    for number, length in page:
        numbers.append(number)
        size += length
        if size >= _SEARCH_BYTES:
            yield numbers
            numbers, size = [], 0
    if numbers:
        yield numbers


def _containing(payloads: list[Any], folded_text: str) -> list[int]:
    numbers = [number for number, payload in payloads if folded_text in payload.decode().casefold()]
    return [number & rows.MASK for number in sorted(numbers, reverse=True)]


def _source(scope: FeedScope) -> str:
    return _IN_TENANT if scope.channels is None else _IN_CHANNELS


def _scope_values(tenant: int, scope: FeedScope) -> tuple[object, ...]:
    if scope.channels is None:
        return tenant, None, None, scope.viewer, scope.addressed
    low = tenant << rows.SHIFT
    since = [low + since for since in scope.channels.values()]
    return tenant, list(scope.channels), since, scope.viewer, scope.addressed


async def read_erasable(
    fetch: Fetch, tenant: int, words: ErasureQuery, after: int
) -> tuple[tuple[ErasableMessage, ...], int]:
    """See `TeamStore.words`."""
    low = tenant << rows.SHIFT
    ((end,),) = await fetch(_NEAR, low + after, low | rows.MASK, _WINDOW)
    if end is None:
        return (), 0
    post_rows = await fetch(_WORDS, low + after, end, ERASED, words.exchanges, words.sender, SYSTEM)
    # Who asked is answered with the reply.
    told_with = {row[0]: {row[0], row[1]} - {""} for row in post_rows}
    uses = await fetch(_USES, [*set().union(*told_with.values())]) if told_with else ()
    return erasable(told_with, [(row[0], row[1]) for row in uses]), end & rows.MASK


def is_cut_off(page: list[Any], column: int) -> bool:
    """Whether a page of a feed ends because it was a lot, and there may be more."""
    return sum([len(row[column]) for row in page]) >= FEED_BYTES


AUDIT_HASHES = "SELECT hash FROM audit WHERE place > $1 AND place <= $2 ORDER BY place"


def audit_query(tenant: int, query: AuditQuery) -> tuple[str, list[object]]:
    """The question for a page of the audit log, and its values."""
    which, values = _audit_condition(tenant, query)
    columns = ", ".join(["''::bytea" if query.bare and column == "document" else column for column in COLUMNS])
    order = "DESC" if query.newest else "ASC"
    values.append(query.limit)
    sql = f"SELECT place & {rows.MASK}, {columns} FROM audit WHERE {which} ORDER BY place {order} LIMIT ${len(values)}"
    return sql, values


def audit_count_query(tenant: int, query: AuditQuery, digits: int) -> tuple[str, list[object]]:
    """The question for the number of entries by span, outcome and role, and its values."""
    which, values = _audit_condition(tenant, query)
    names = ", ".join([f"COALESCE({_document_field(name)}, '')" for name in ("outcome", "role")])
    span = f'left(at, {digits}) COLLATE "C"'
    sql = f"SELECT {span}, {names}, count(*)::int FROM audit WHERE {which} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    return sql, values


def _audit_condition(tenant: int, query: AuditQuery) -> tuple[str, list[object]]:
    low = tenant << rows.SHIFT
    # Whatever number is asked for, it is one of this tenant.
    values: list[object] = [low | min(query.after, rows.MASK), low | min(query.through or rows.MASK, rows.MASK)]
    place = "(place + 0)" if query.exchange_id or query.entry_id else "place"
    conditions = [f"{place} > $1", f"{place} <= $2"]
    if query.sides is not None:
        values.append(list(query.sides))
        condition = f"side = ANY(${len(values)}::text[])"
        if query.or_actor:
            values.append(query.or_actor)
            condition = f"({condition} OR {_document_field('actor')} = ${len(values)})"
        conditions.append(condition)
    for column, test, value in query.tests(_document_field):
        values.append(value)
        conditions.append(f"{column} {test} ${len(values)}")
    if query.pair is not None:
        first = len(values) + 1
        values.extend(query.pair_values())
        receivers = f"'\"' || {_document_field('to')} || '\"' || COALESCE({_document_field('receivers')}, '')"
        conditions.append(
            f"CASE {_document_field('sender')} WHEN ${first} THEN strpos({receivers}, ${first + 1})"
            f" WHEN ${first + 2} THEN strpos({receivers}, ${first + 3}) END > 0"
        )
    return " AND ".join(conditions), values


def audit_entries(audit_rows: list[Any], query: AuditQuery) -> tuple[AuditEntry, ...]:
    """The page, in order."""
    entries = [AuditEntry(*row) for row in audit_rows]
    return tuple(entries[::-1] if query.newest else entries)


def _document_field(name: str) -> str:
    """A field of an entry's document; empty when the document was trimmed."""
    return f"(CASE WHEN document = '' THEN '' ELSE convert_from(document, 'UTF8')::json ->> '{name}' END)"


_WAITING_REQUESTS = "(state <> 'expired' AND (expires_at = '' OR expires_at > $3))"
_LATE_REQUESTS = (
    "(expires_at <> '' AND expires_at <= $3 AND NOT EXISTS (SELECT 1 FROM record WHERE record.tenant = $1 >> 40"
    " AND record.kind = 'request' AND record.id = post.id"
    " AND convert_from(record.document, 'UTF8')::json ->> 'withdrawn_at' <> ''))"
)
# By the index of requests without an answer, whatever their place: they are few.
_UNANSWERED = (
    "post JOIN tally ON tally.number = post.channel WHERE (post.number + 0) > $1 AND (post.number + 0) <= $2"
    " AND post.seq > tally.floor AND pattern = 'request' AND NOT answered AND {states}"
    " AND ($4::text[] IS NULL OR sender = ANY ($4) OR string_to_array(recipients, ',') && $4::text[])"
    " AND ($5::text = '' OR sender = $5 OR addressee = $5 OR strpos(recipients, ',' || $5 || ',') > 0)"
    " AND ($6::text = '' OR tally.id = $6) AND created_at >= $7"
)


def unanswered_query(tenant: int, head: int, query: UnansweredQuery) -> tuple[str, list[object]]:
    """The question for a page of unanswered requests up to a position, and its values."""
    low = tenant << rows.SHIFT
    high = low + head
    if query.after and query.newest:
        high = min(high, low + query.after - 1)
    elif query.after:
        low += query.after
    direction = " DESC" if query.newest else ""
    sql = f"SELECT {rows.POST} FROM {_unanswered(query)} ORDER BY post.number{direction} LIMIT $8"
    return sql, [low, high, *_unanswered_values(query), query.limit]


def unanswered_count_query(tenant: int, head: int, query: UnansweredQuery) -> tuple[str, list[object]]:
    """The question for their number by recipients, and its values."""
    low = tenant << rows.SHIFT
    sql = f"SELECT recipients, count(*)::int FROM {_unanswered(query)} GROUP BY recipients"
    return sql, [low, low + head, *_unanswered_values(query)]


def _unanswered(query: UnansweredQuery) -> str:
    states = [_WAITING_REQUESTS] if query.waiting else []
    states += [_LATE_REQUESTS] if query.late else []
    return _UNANSWERED.format(states=f"({' OR '.join(states)})")


def _unanswered_values(query: UnansweredQuery) -> list[object]:
    viewers = None if query.viewers is None else list(query.viewers)
    return [query.now, viewers, query.agent, query.channel_id, query.since]
