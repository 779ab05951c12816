"""The team's store in PostgreSQL, for as many nodes as one likes: reads, and the parts that it is made of.

Records come from what the node knows, which is as new as its last `catch_up`; everything else is asked for. Nothing is
ever read from a replica. A feed ends where the node's knowledge ends: who may see a message is judged by records that
are not older than it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from parley.adapters.postgres import pooler as pooling
from parley.adapters.postgres import reads, schema
from parley.adapters.postgres.cache import UNKNOWN
from parley.adapters.postgres.connect import LONG_TIMEOUT_SECONDS, TIMEOUT_SECONDS, connect
from parley.adapters.postgres.journal import Follower
from parley.adapters.postgres.sessions import ALL_TENANTS, Sessions
from parley.adapters.postgres.source import COUNTERS, counters_from_row
from parley.adapters.postgres.writer import PostgresWriter
from parley.domain.channel.channel import Channel, Tally
from parley.domain.channel.post import Post, Receipt
from parley.domain.directory.callers import Saved
from parley.domain.errors.errors import Unavailable
from parley.domain.mailbox.ledger import StoredEntry
from parley.domain.store.changes import AuditCount, ReaderPost, TrafficCount
from parley.wire import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    import asyncpg

    from parley.adapters.postgres.cache import TenantCache
    from parley.adapters.postgres.journal import Fetch
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.channel.event import Event
    from parley.domain.channel.feed import FeedItem
    from parley.domain.record import Record
    from parley.domain.store.changes import (
        AuditQuery,
        ChannelQuery,
        Committed,
        ConversationMark,
        ConversationQuery,
        ErasableMessage,
        ErasureQuery,
        FeedScope,
        Query,
        RecordQuery,
        TrafficQuery,
        UnansweredQuery,
    )

R = TypeVar("R", bound="Record")

_log = logging.getLogger("parley.postgres")
# No id that is ever given is longer.
_ID_MAX_CHARS = 128
_PRUNE_SECONDS = 60.0
_JOURNAL_RETENTION = "10 minutes"
_SAVED = ", ".join(Saved._fields)
# Timeout for the first connection of a node.
_START_SECONDS = 10.0


async def open_store(
    dsn: str, kinds: dict[str, type[Record]], *, name: str, connections: int, durable: bool = True
) -> PostgresTeamStore:
    """The store at an address: its tables are brought up to date, and it is refused when it would lose messages."""
    db = await connect(dsn, name, _START_SECONDS)
    try:
        await pooling.check(db, partial(connect, dsn, name))
        await schema.migrate(db)
        await schema.check(db, durable=durable)
        has_row_security = await schema.has_row_security(db)
    finally:
        db.terminate()
    if not has_row_security:
        extra = {"action": "row_security", "hint": "use a role that is no superuser"}
        _log.warning("row security does not hold for this role of the database", extra=extra)
    store = PostgresTeamStore(dsn, kinds, name=name, connections=connections, durable=durable)
    try:
        # Again, now that a copy into the database can see this node.
        await schema.check_open(store.sessions.fetch)
    except BaseException:
        await store.close()
        raise
    return store


class PostgresTeamStore:
    """See `ports.team.TeamStore`. Made by `open_store`, in the event loop that will use it."""

    def __init__(
        self, dsn: str, kinds: dict[str, type[Record]], *, name: str, connections: int, durable: bool = False
    ) -> None:
        # Beside those that read: one that listens, and one for each lane of the writer.
        lanes = 2 if connections >= 6 else 1
        self.own_connections = lanes + 1
        self.sessions = Sessions(dsn, name, max(2, connections - lanes - 1), durable=durable)
        self.follower = Follower(self.sessions, kinds)
        self.writer = PostgresWriter(self.sessions, self.follower, lanes)
        self.commit = self.writer.commit
        self.submit = self.writer.submit
        self._kinds = kinds
        self._search_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._pruned_at = 0.0
        self.follower.start()

    async def close(self) -> None:
        await self.writer.close()
        await self.follower.close()
        await self.sessions.close()

    def watch(
        self,
        watcher: Callable[[str, Committed], None],
        *,
        needs: Callable[[str], bool] | None = None,
        on_lost: Callable[[Unavailable], None] | None = None,
    ) -> Callable[[], None]:
        return self.follower.watch(watcher, needs, on_lost)

    @property
    def is_current(self) -> bool:
        """Other nodes write, too."""
        return False

    async def catch_up(self, *tenants: str) -> None:
        await self.follower.catch_up(tenants)

    # ------------------------------------------------------------------ records

    def generation(self, tenant: str) -> int:
        cache = self.follower.find_cache(tenant)
        return cache.generation if cache is not None else 0

    async def get(self, kind: type[R], tenant: str, record_id: str) -> R | None:
        cache = self.follower.find_cache(tenant) or await self.follower.get_cache(tenant)
        if cache is None:
            return None
        key = (tenant, kind.kind, record_id)
        cached = cache.records.get(key, UNKNOWN)
        if cached is not UNKNOWN:
            return cached  # type: ignore[return-value]  # the key says its type
        token = cache.readers[key] = object()
        query = "SELECT version, document FROM record WHERE tenant = $1 AND kind = $2 AND id = $3"
        try:
            row = await self.sessions.row(cache.scope, query, cache.number, kind.kind, record_id)
            record = rows.record_from_row(kind, *row) if row else None
            if cache.readers.get(key) is token and len(record_id) <= _ID_MAX_CHARS:
                cache.records[key] = record
                cache.trim()  # requests for unknown ids must not fill the memory
            return record  # type: ignore[return-value]
        finally:
            if cache.readers.get(key) is token:
                del cache.readers[key]

    def cached(self, kind: type[R], tenant: str, record_id: str) -> R | None:
        cache = self.follower.find_cache(tenant)
        return cache.records.get((tenant, kind.kind, record_id)) if cache is not None else None  # type: ignore[return-value]

    async def find_by_name(self, kind: type[R], tenant: str, parent: str, name: str) -> R | None:
        query = "SELECT id FROM record WHERE tenant = $1 AND kind = $2 AND parent = $3 AND name = $4 AND name <> ''"
        result = await self._fetch_by_tenant(tenant, query, kind.kind, parent, name)
        return await self.get(kind, tenant, result[0][0]) if result else None

    async def children(
        self, kind: type[R], tenant: str, parent: str, *, after: str = "", limit: int = 10_000
    ) -> tuple[R, ...]:
        record_rows = await self._fetch_by_tenant(tenant, reads.CHILDREN, kind.kind, parent, after, limit)
        return tuple([rows.record_from_row(kind, *row) for row in record_rows])  # type: ignore[misc]

    async def every(self, kind: type[R], tenant: str, *, after: str = "", limit: int = 1000) -> tuple[R, ...]:
        record_rows = await self._fetch_by_tenant(tenant, reads.EVERY, kind.kind, after, limit)
        return tuple([rows.record_from_row(kind, *row) for row in record_rows])  # type: ignore[misc]

    async def find(self, kind: type[R], tenant: str, query: RecordQuery) -> tuple[R, ...]:
        sql, values = reads.records_query(kind.kind, query, "version, document")
        record_rows = await self._fetch_by_tenant(tenant, sql, *values)
        return tuple([rows.record_from_row(kind, *row) for row in record_rows])  # type: ignore[misc]

    async def count_matching(self, kind: type[Record], tenant: str, query: RecordQuery) -> int:
        sql, values = reads.records_query(kind.kind, query, "1")
        result = await self._fetch_by_tenant(tenant, f"SELECT COUNT(*) FROM ({sql}) AS matching", *values)
        return int(result[0][0]) if result else 0

    async def count(self, kind: type[Record], tenant: str, parent: str) -> int:
        query = "SELECT COUNT(*) FROM record WHERE tenant = $1 AND kind = $2 AND parent = $3"
        result = await self._fetch_by_tenant(tenant, query, kind.kind, parent)
        return int(result[0][0]) if result else 0

    async def due(self, now: str, limit: int = 500, *, kinds: tuple[str, ...] = ()) -> tuple[Record, ...]:
        kind_condition = " AND kind = ANY($3)" if kinds else ""
        query = (
            "SELECT kind, version, document FROM record"
            f" WHERE due <> '' AND due <= $1{kind_condition} ORDER BY due LIMIT $2"
        )
        record_rows = await self.sessions.fetch(ALL_TENANTS, query, now, limit, *([list(kinds)] if kinds else []))
        return tuple([rows.record_from_row(self._kinds[kind], *row) for kind, *row in record_rows])

    # ------------------------------------------------------------------ messages

    async def tally(self, tenant: str, channel_id: str) -> Tally:
        cache = await self.follower.get_cache(tenant)
        counters = cache.channel_counters.get(channel_id) if cache is not None else None
        if counters is not None:
            return counters.tally
        counter_rows = await self._fetch_by_tenant(
            tenant, f"SELECT {COUNTERS} FROM tally WHERE tenant = $1 AND id = $2", channel_id
        )
        return counters_from_row(counter_rows[0]).tally if counter_rows else Tally()

    def cached_tally(self, tenant: str, channel_id: str) -> Tally | None:
        cache = self.follower.find_cache(tenant)
        counters = cache.channel_counters.get(channel_id) if cache is not None else None
        return counters.tally if counters is not None else None

    async def post(self, tenant: str, message_id: str, *, evicted: bool = False) -> Post | None:
        posts = await self._fetch_posts(tenant, reads.BY_ID_EVICTED if evicted else reads.BY_ID, message_id)
        return posts[0] if posts else None

    async def with_receipt(self, tenant: str, post: Post, viewer: str) -> ReaderPost:
        of_addressee = not viewer or (viewer == post.sender and post.recipients is not None)
        agent = post.to if of_addressee else viewer
        query = "SELECT read_at FROM receipt WHERE tenant = $1 AND post_id = $2 AND agent = $3"
        receipt_rows = await self._fetch_by_tenant(tenant, query, post.id, agent)
        return ReaderPost(post, receipt_rows[0][0] if receipt_rows else "")

    async def receipts(self, tenant: str, message_id: str) -> tuple[Receipt, ...]:
        query = "SELECT post_id, agent, read_at FROM receipt WHERE tenant = $1 AND post_id = $2 ORDER BY agent"
        return tuple([Receipt(*row) for row in await self._fetch_by_tenant(tenant, query, message_id)])

    async def page(self, tenant: str, query: Query) -> tuple[ReaderPost, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        post_rows = await self.sessions.fetch(
            cache.scope,
            reads.PAGE_NEWEST if query.newest else reads.PAGE,
            query.view.agent,
            cache.number,
            query.channel_id,
            query.after_seq,
            (cache.number << rows.SHIFT) + query.view.since,
            query.now,
            query.to,
            query.after_time,
            query.limit,
            (cache.number << rows.SHIFT) + cache.head.position,
            query.before_seq or rows.MASK,
        )
        return tuple([ReaderPost(rows.post_from_row(row), row[17]) for row in post_rows])

    async def list_channels(self, tenant: str, query: ChannelQuery) -> tuple[tuple[Channel, Tally], ...]:
        sql, values = reads.channels_query(query)
        return rows.channels_from_rows(await self._fetch_by_tenant(tenant, sql, *values))

    async def conversation_posts(self, tenant: str, query: ConversationQuery) -> tuple[Post, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        sql = reads.CONVERSATION_NEWEST if query.newest else reads.CONVERSATION
        low, end = cache.number << rows.SHIFT, cache.head.position + 1
        name = f'{query.conversation_id}"'.encode()
        values = (low + query.after, low + min(query.before or end, end), name, query.now, query.limit, low)
        post_rows = await self.sessions.fetch(cache.scope, sql, *values, list(query.exchanges))
        return tuple(map(rows.post_from_row, post_rows))

    async def conversation_marks(self, tenant: str, after: int, before: int) -> tuple[ConversationMark, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        low = cache.number << rows.SHIFT
        through = low + min(before, cache.head.position + 1)
        return rows.marks_from_rows(await self.sessions.fetch(cache.scope, reads.MARKS, low + after, through))

    async def count_traffic(self, tenant: str, query: TrafficQuery) -> TrafficCount:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return TrafficCount()
        ends = [(cache.number << rows.SHIFT) + end for end in (query.after, *query.cuts, query.through)]
        values = (ends[:-1], ends[1:], query.since, query.until, cache.number)
        fetched = await self.sessions.fetch(cache.scope, reads.TRAFFIC, *values, seconds=LONG_TIMEOUT_SECONDS)
        return rows.traffic_from_rows(fetched)

    async def answers(self, tenant: str, request_id: str) -> tuple[Post, ...]:
        return await self._fetch_posts(tenant, reads.ANSWERS, request_id)

    async def pending(self, tenant: str, to: str) -> tuple[Post, ...]:
        return await self._fetch_posts(tenant, reads.PENDING, to)

    async def waiting(self, after: str, limit: int) -> tuple[tuple[str, str], ...]:
        result = await self.sessions.fetch(ALL_TENANTS, reads.WAITING, after, limit)
        return tuple([(row[0], row[1]) for row in result])

    async def oldest_request(self, tenant: str, agent: str, now: str) -> int | None:
        result = await self._fetch_in_range(tenant, reads.OLDEST_REQUEST, agent, now)
        number = result[0][0] if result else None
        return None if number is None else int(number) & rows.MASK

    async def unanswered(self, tenant: str, query: UnansweredQuery) -> tuple[Post, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        sql, values = reads.unanswered_query(cache.number, cache.head.position, query)
        return tuple(map(rows.post_from_row, await self.sessions.fetch(cache.scope, sql, *values)))

    async def count_unanswered(self, tenant: str, query: UnansweredQuery) -> tuple[tuple[tuple[str, ...], int], ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        sql, values = reads.unanswered_count_query(cache.number, cache.head.position, query)
        counts = await self.sessions.fetch(cache.scope, sql, *values)
        return tuple([(rows.separate(recipients), number) for recipients, number in counts])

    async def words(self, tenant: str, words: ErasureQuery, after: int) -> tuple[tuple[ErasableMessage, ...], int]:
        cache = await self.follower.get_cache(tenant)
        return (
            await reads.read_erasable(self._bind_fetch(cache), cache.number, words, after)
            if cache is not None
            else ((), 0)
        )

    async def taking_part(self, tenant: str, agent: str) -> tuple[Channel, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        member = b'"agent":"%b"' % agent.encode()
        bounds = (cache.number << rows.SHIFT, cache.number << rows.SHIFT | rows.MASK)
        values = (cache.number, member, *bounds, agent)
        channel_rows = await self.sessions.fetch(cache.scope, reads.TAKING_PART, *values, seconds=LONG_TIMEOUT_SECONDS)
        return tuple([rows.record_from_row(Channel, *row) for row in channel_rows])  # type: ignore[misc]

    async def overdue(self, now: str, limit: int = 500) -> tuple[tuple[str, str], ...]:
        result = await self.sessions.fetch(ALL_TENANTS, reads.OVERDUE, now, limit)
        return tuple([(row[0], row[1]) for row in result])

    async def search(self, tenant: str, text: str, scope: FeedScope, now: str, limit: int) -> tuple[int, ...]:
        """One search of a tenant at a time."""
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        async with self._search_slot(cache):
            fetch = self._bind_fetch(cache)
            return await reads.search(fetch, cache.number, scope, text, now, cache.head.position, limit)

    @asynccontextmanager
    async def _search_slot(self, cache: TenantCache) -> AsyncIterator[None]:
        """One search per tenant at a time; `Unavailable` when the wait would be long."""
        lock = self._search_locks.setdefault(cache.id, asyncio.Lock())
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await lock.acquire()
        except TimeoutError:
            raise Unavailable("others of this tenant are searching", facts={"retry_after": 5}) from None
        try:
            yield
        finally:
            lock.release()

    # ------------------------------------------------------------------ feed, events, logs

    async def head(self, tenant: str) -> int:
        cache = await self.follower.get_cache(tenant)
        return cache.head.position if cache is not None else 0

    async def feed(self, tenant: str, after: int, limit: int = 500) -> tuple[FeedItem, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None or after >= cache.head.position:
            return ()
        items, _ = await reads.read_feed(self._bind_fetch(cache), cache.number, after, cache.head.position, limit)
        return tuple(items)

    async def find_positions(
        self, tenant: str, scope: FeedScope, after: int, through: int, limit: int
    ) -> tuple[tuple[int, ...], int]:
        cache = await self.follower.get_cache(tenant)
        through = min(through, cache.head.position) if cache is not None else 0
        if cache is None or after >= through:
            return (), after
        return await reads.find_positions(self._bind_fetch(cache), cache.number, scope, after, through, limit)

    async def read_positions(self, tenant: str, positions: Sequence[int]) -> tuple[tuple[FeedItem, ...], int]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return (), positions[-1]
        return await reads.read_positions(self._bind_fetch(cache), cache.number, positions)

    async def find_evicted(self, tenant: str, scope: FeedScope, after: int) -> tuple[tuple[str, int], ...]:
        cache = await self.follower.get_cache(tenant)
        return (
            await reads.find_evicted(self._bind_fetch(cache), cache.number, scope, after) if cache is not None else ()
        )

    async def events(
        self,
        tenant: str,
        intent_id: str,
        *,
        after: int = 0,
        limit: int = 1000,
        event_type: str = "",
        since: str = "",
        newest: bool = False,
    ) -> tuple[Event, ...]:
        query = reads.bounded_events(reads.EVENTS, f"sequence {'DESC' if newest else ''}", "$7")
        event_rows = await self._fetch_in_range(tenant, query, intent_id, after, event_type, since, limit)
        return tuple([rows.event_from_row(row[:10]) for row in (reversed(event_rows) if newest else event_rows)])

    async def logged(self, tenant: str, after: int) -> tuple[tuple[str, int], ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        low = cache.number << rows.SHIFT
        result = await self.sessions.fetch(cache.scope, reads.LOGGED, low + after, low | rows.MASK)
        return tuple([(row[0], row[1]) for row in result])

    async def events_of_trace(self, tenant: str, trace_id: str, limit: int = 1000) -> tuple[Event, ...]:
        query = reads.bounded_events(reads.TRACED, "number", "$4")
        event_rows = await self._fetch_in_range(tenant, query, trace_id, limit)
        return tuple([rows.event_from_row(row[:10]) for row in event_rows])

    async def event(self, tenant: str, event_id: str) -> Event | None:
        event_rows = await self._fetch_in_range(tenant, reads.EVENT, event_id)
        return rows.event_from_row(event_rows[0]) if event_rows else None

    async def entries(self, tenant: str, after: int, limit: int) -> tuple[StoredEntry, ...]:
        entry_rows = await self._fetch_by_tenant(tenant, reads.ENTRIES, after, limit)
        return tuple([StoredEntry(at, rows.entry_from_row(document), link) for at, document, link in entry_rows])

    async def audits(self, tenant: str, query: AuditQuery) -> tuple[AuditEntry, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        sql, values = reads.audit_query(cache.number, query)
        seconds = LONG_TIMEOUT_SECONDS if query.reads_documents else TIMEOUT_SECONDS
        return reads.audit_entries(await self.sessions.fetch(cache.scope, sql, *values, seconds=seconds), query)

    async def audit_counts(self, tenant: str, query: AuditQuery, digits: int) -> tuple[AuditCount, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        sql, values = reads.audit_count_query(cache.number, query, digits)
        fetched = await self.sessions.fetch(cache.scope, sql, *values, seconds=LONG_TIMEOUT_SECONDS)
        return tuple([AuditCount(*row) for row in fetched])

    async def audit_size(self, tenant: str) -> int:
        cache = await self.follower.get_cache(tenant)
        return cache.head.audit_number if cache is not None else 0

    async def audit_hashes(self, tenant: str, after: int, through: int) -> tuple[str, ...]:
        cache = await self.follower.get_cache(tenant)
        if cache is None:
            return ()
        low = cache.number << rows.SHIFT
        fetched = await self.sessions.fetch(cache.scope, reads.AUDIT_HASHES, low + after, low + through)
        return tuple([row[0] for row in fetched])

    async def saved(self, scope: str) -> Saved | None:
        row = await self.sessions.row("", f"SELECT {_SAVED} FROM saved WHERE scope = $1", scope)
        return Saved(*row) if row else None

    # ------------------------------------------------------------------ the database

    async def newest(self) -> str:
        return (await self.sessions.fetch(ALL_TENANTS, reads.NEWEST))[0][0] or ""

    async def checkpoint(self) -> None:
        """Delete old journal rows: a node that is further behind reloads its caches."""
        now = asyncio.get_running_loop().time()
        if now < self._pruned_at + _PRUNE_SECONDS:
            return
        self._pruned_at = now
        query = f"DELETE FROM journal WHERE at < clock_timestamp() - interval '{_JOURNAL_RETENTION}'"
        await self.sessions.fetch(ALL_TENANTS, query, seconds=LONG_TIMEOUT_SECONDS)

    def _bind_fetch(self, cache: TenantCache) -> Fetch:
        return partial(self.sessions.fetch, cache.scope)

    async def _fetch_by_tenant(self, tenant: str, query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401  # as the driver
        """A question about one tenant, whose number is the first value; nothing when there is no such tenant."""
        cache = await self.follower.get_cache(tenant)
        return await self.sessions.fetch(cache.scope, query, cache.number, *values) if cache is not None else []

    async def _fetch_in_range(self, tenant: str, query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401
        """A question whose first values are the bounds of the tenant's numbers, up to where its records are known."""
        cache: TenantCache | None = await self.follower.get_cache(tenant)
        if cache is None:
            return []
        low = cache.number << rows.SHIFT
        return await self.sessions.fetch(cache.scope, query, low, low + cache.head.position, *values)

    async def _fetch_posts(self, tenant: str, query: str, *values: Any) -> tuple[Post, ...]:  # noqa: ANN401
        return tuple(map(rows.post_from_row, await self._fetch_in_range(tenant, query, *values)))
