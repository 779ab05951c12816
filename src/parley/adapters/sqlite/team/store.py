"""The team's store in one SQLite file: one writer thread, a few readers, nothing on the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from parley.adapters.sqlite.file import sqlite_errors
from parley.adapters.sqlite.team import audit as team_audit
from parley.adapters.sqlite.team import erase as team_erase
from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team import reads as team_reads
from parley.adapters.sqlite.team import traffic as team_traffic
from parley.adapters.sqlite.team.cache import UNKNOWN, StoreCache
from parley.adapters.sqlite.team.writer import SqliteWriter
from parley.domain.channel.channel import Channel, Tally
from parley.domain.directory.callers import Saved
from parley.domain.errors.errors import Forbidden, Unavailable
from parley.domain.exchange.exchange import Exchange
from parley.domain.mailbox.ledger import StoredEntry
from parley.domain.store.changes import Committed, ReaderPost
from parley.wire import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from parley.domain.audit.entry import AuditEntry
    from parley.domain.channel.event import Event
    from parley.domain.channel.feed import FeedItem
    from parley.domain.channel.post import Post, Receipt
    from parley.domain.record import Record
    from parley.domain.store.changes import (
        AuditCount,
        AuditQuery,
        ChannelQuery,
        ConversationMark,
        ConversationQuery,
        ErasableMessage,
        ErasureQuery,
        FeedScope,
        Query,
        RecordQuery,
        TrafficCount,
        TrafficQuery,
        UnansweredQuery,
    )

T = TypeVar("T")
R = TypeVar("R", bound="Record")

_READERS = 2
# No id that is ever given is longer.
_ID_MAX_CHARS = 128
# Pages in the log after which it is worth copying them into the file.
_CHECKPOINT_BYTES = 4 * 1024 * 1024
# Left alone, SQLite goes through all records of the kind, because they lie in the order that is asked for.
_WITHOUT_NAMES = (
    "SELECT version, document, id FROM record INDEXED BY record_parent"
    f" WHERE tenant = :tenant AND kind = :kind AND parent = :parent AND id > :after AND {team_reads.BY_PARENT}"
)
_CHILDREN = f"{_WITHOUT_NAMES} ORDER BY id LIMIT :limit"
_CHILDREN_WITH_NAMES = (
    "SELECT version, document, id FROM record INDEXED BY record_name"
    " WHERE tenant = :tenant AND kind = :kind AND parent = :parent AND id > :after AND name <> ''"
    f" UNION ALL {_WITHOUT_NAMES} ORDER BY id LIMIT :limit"
)
_POSTS = f"SELECT {rows.POST} FROM post JOIN tally ON tally.number = post.channel WHERE"
# The receipt that counts: one's own; for a sender (or one who sees all) that of the one addressee.
_SELECT_WITH_RECEIPT = (
    f"SELECT {rows.POST}, IFNULL(receipt.read_at, '') FROM post JOIN tally ON tally.number = post.channel"
    " LEFT JOIN receipt ON receipt.post_id = post.id AND receipt.agent ="
    " CASE WHEN :viewer = '' OR (:viewer = sender AND recipients IS NOT NULL) THEN addressee ELSE :viewer END WHERE"
)
_VISIBLE = (
    "(:viewer = '' OR sender = :viewer OR (recipients IS NULL AND post.number > :since)"
    " OR instr(recipients, ',' || :viewer || ','))"
)
_NEWEST = (
    "SELECT max(at) FROM (SELECT max(last_at) AS at FROM tally UNION ALL SELECT max(at) FROM saved UNION ALL"
    " SELECT json_extract(document, '$.at') FROM entry JOIN tenant ON tenant = number AND position = entry_position"
    " UNION ALL SELECT (SELECT created_at FROM event WHERE number BETWEEN tenant.number << 40"
    " AND ((tenant.number + 1) << 40) - 1 ORDER BY number DESC LIMIT 1) FROM tenant)"
)
_UNEXPIRED = "state <> 'expired' AND (expires_at = '' OR expires_at > :now OR answered)"
_ADDRESSED_TO = "(:to = '' OR recipients IS NULL OR instr(recipients, ',' || :to || ','))"


class SqliteTeamStore:
    """See `ports.team.TeamStore`. Make it in the event loop that will use it."""

    def __init__(
        self, path: str, kinds: dict[str, type[Record]], *, durable: bool = True, reads_only: bool = False
    ) -> None:
        self.path = path
        self._cache = StoreCache(kinds)
        connection = team_file.connect(path, writes=not reads_only, durable=durable)
        try:
            with sqlite_errors(path):
                (team_file.check_readable if reads_only else team_file.migrate)(connection, path)
        except BaseException:
            connection.close()
            raise
        self._writer = SqliteWriter(connection, path, self._cache, self._log_bytes)
        self.commit = self._writer.commit
        self.submit = self._writer.submit
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="parley-reader")
        # A search looks at all messages that its caller may see: it waits for other searches, no other reader for it.
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix="parley-searcher")
        # A stream from the beginning goes through all messages of its channels: it waits for other streams only.
        self._scanner = ThreadPoolExecutor(1, thread_name_prefix="parley-scanner")
        if not reads_only:  # another process holds the file; without a loop the writer refuses
            self._writer.start(asyncio.get_running_loop())

    async def close(self) -> None:
        self._writer.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._writer.join)
        self._readers.shutdown(wait=True)
        self._searcher.shutdown(wait=True)
        self._scanner.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    def watch(
        self,
        watcher: Callable[[str, Committed], None],
        *,
        needs: Callable[[str], bool] | None = None,
        on_lost: Callable[[Unavailable], None] | None = None,
    ) -> Callable[[], None]:
        del needs, on_lost  # there is no other writer, and a file is not lost
        self._writer.watchers.append(watcher)
        return lambda: self._writer.watchers.remove(watcher)

    @property
    def is_current(self) -> bool:
        """Only this process writes."""
        return True

    async def catch_up(self, *tenants: str) -> None:
        """Only this process writes: what is known is what there is."""

    # ------------------------------------------------------------------ records

    def generation(self, tenant: str) -> int:
        return self._cache.generations.get(tenant, 1)

    async def get(self, kind: type[R], tenant: str, record_id: str) -> R | None:
        key = (tenant, kind.kind, record_id)
        records = self._cache.records
        cached = records.get(key, UNKNOWN)  # in one step: the writer may forget it at any moment
        if cached is not UNKNOWN:
            return cached  # type: ignore[return-value]  # the key says its type
        query = "SELECT version, document FROM record WHERE tenant = ? AND kind = ? AND id = ?"
        clearings = self._cache.clearings
        row = await self._read(lambda db: db.execute(query, key).fetchone())
        record = rows.record_from_row(kind, *row) if row else None
        if clearings != self._cache.clearings:
            return record  # type: ignore[return-value]
        # The writer may have been faster: what it knows is newer.
        if len(records) >= self._cache.max_items or len(record_id) > _ID_MAX_CHARS:
            # Only the writer trims, and it may be idle: requests for unknown ids must not fill the memory.
            return records.get(key, record)  # type: ignore[return-value]
        return records.setdefault(key, record)  # type: ignore[return-value]

    def cached(self, kind: type[R], tenant: str, record_id: str) -> R | None:
        return self._cache.records.get((tenant, kind.kind, record_id))  # type: ignore[return-value]

    async def find_by_name(self, kind: type[R], tenant: str, parent: str, name: str) -> R | None:
        query = "SELECT id FROM record WHERE tenant = ? AND kind = ? AND parent = ? AND name = ? AND name <> ''"
        row = await self._read(lambda db: db.execute(query, (tenant, kind.kind, parent, name)).fetchone())
        return await self.get(kind, tenant, row[0]) if row else None

    async def children(
        self, kind: type[R], tenant: str, parent: str, *, after: str = "", limit: int = 10_000
    ) -> tuple[R, ...]:
        query = _CHILDREN_WITH_NAMES if kind is Exchange else _CHILDREN
        values = {"tenant": tenant, "kind": kind.kind, "parent": parent, "after": after, "limit": limit}
        record_rows = await self._read(lambda db: db.execute(query, values).fetchall())
        return tuple(rows.record_from_row(kind, *row[:2]) for row in record_rows)  # type: ignore[misc]

    async def every(self, kind: type[R], tenant: str, *, after: str = "", limit: int = 1000) -> tuple[R, ...]:
        query = "SELECT version, document FROM record WHERE tenant = ? AND kind = ? AND id > ? ORDER BY id LIMIT ?"
        values = (tenant, kind.kind, after, limit)
        record_rows = await self._read(lambda db: db.execute(query, values).fetchall())
        return tuple(rows.record_from_row(kind, *row) for row in record_rows)  # type: ignore[misc]

    async def find(self, kind: type[R], tenant: str, query: RecordQuery) -> tuple[R, ...]:
        sql, values = team_reads.records_query(kind.kind, tenant, query, "version, document")
        record_rows = await self._read(lambda db: db.execute(sql, values).fetchall())
        return tuple(rows.record_from_row(kind, *row) for row in record_rows)  # type: ignore[misc]

    async def count_matching(self, kind: type[Record], tenant: str, query: RecordQuery) -> int:
        sql, values = team_reads.records_query(kind.kind, tenant, query, "1")
        return int(await self._read(lambda db: db.execute(f"SELECT COUNT(*) FROM ({sql})", values).fetchone()[0]))

    async def count(self, kind: type[Record], tenant: str, parent: str) -> int:
        query = f"SELECT COUNT(*) FROM record WHERE tenant = ? AND kind = ? AND parent = ? AND {team_reads.BY_PARENT}"
        row = await self._read(lambda db: db.execute(query, (tenant, kind.kind, parent)).fetchone())
        return int(row[0])

    async def due(self, now: str, limit: int = 500, *, kinds: tuple[str, ...] = ()) -> tuple[Record, ...]:
        kind_condition = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        query = (
            "SELECT kind, version, document FROM record"
            f" WHERE due <> '' AND due <= ?{kind_condition} ORDER BY due LIMIT ?"
        )
        record_rows = await self._read(lambda db: db.execute(query, (now, *kinds, limit)).fetchall())
        return tuple(rows.record_from_row(self._cache.kinds[kind], *row) for kind, *row in record_rows)

    # ------------------------------------------------------------------ messages

    async def tally(self, tenant: str, channel_id: str) -> Tally:
        counters = self._cache.channel_counters.get((tenant, channel_id))
        if counters is not None:
            return counters.tally
        query = "SELECT count, last_at, floor FROM tally WHERE id = ? AND tenant = ?"
        row = await self._read(lambda db: db.execute(query, (channel_id, tenant)).fetchone())
        return Tally(*row) if row else Tally()

    def cached_tally(self, tenant: str, channel_id: str) -> Tally | None:
        counters = self._cache.channel_counters.get((tenant, channel_id))
        return counters.tally if counters is not None else None

    async def post(self, tenant: str, message_id: str, *, evicted: bool = False) -> Post | None:
        low, high = await self._range(tenant)
        query = f"{_POSTS} post.id = ? AND post.number BETWEEN ? AND ?"
        query += "" if evicted else " AND post.seq > tally.floor"
        row = await self._read(lambda db: db.execute(query, (message_id, low, high)).fetchone())
        return rows.post_from_row(row) if row else None

    async def with_receipt(self, tenant: str, post: Post, viewer: str) -> ReaderPost:
        del tenant  # the caller has read the post of this tenant
        of_addressee = not viewer or (viewer == post.sender and post.recipients is not None)
        agent = post.to if of_addressee else viewer
        query = "SELECT read_at FROM receipt WHERE post_id = ? AND agent = ?"
        row = await self._read(lambda db: db.execute(query, (post.id, agent)).fetchone())
        return ReaderPost(post, row[0] if row else "")

    async def receipts(self, tenant: str, message_id: str) -> tuple[Receipt, ...]:
        del tenant  # the caller has read the post of this tenant
        return await self._read(lambda db: team_reads.receipts_of(db, message_id))

    async def page(self, tenant: str, query: Query) -> tuple[ReaderPost, ...]:
        low, _ = await self._range(tenant)
        counters = self._cache.channel_counters.get((tenant, query.channel_id))
        if counters is not None and query.after_seq >= counters.seq:
            return ()  # nothing is new, and that is known without asking the file
        time_bound = " AND created_at > :time" if query.after_time else ""
        time_bound += " AND post.seq < :before" if query.before_seq else ""
        sql = (
            f"{_SELECT_WITH_RECEIPT} post.channel = (SELECT number FROM tally WHERE id = :channel AND tenant = :tenant)"
            " AND post.seq > :after AND post.seq > (SELECT floor FROM tally WHERE id = :channel)"
            f" AND {_VISIBLE} AND {_UNEXPIRED} AND {_ADDRESSED_TO}{time_bound}"
            f" ORDER BY post.seq {'DESC' if query.newest else ''} LIMIT :limit"
        )
        values = {
            "viewer": query.view.agent,
            "tenant": tenant,
            "channel": query.channel_id,
            "after": query.after_seq,
            "before": query.before_seq,
            "time": query.after_time,
            "since": low + query.view.since,
            "now": query.now,
            "to": query.to,
            "limit": query.limit,
        }
        post_rows = await self._read(lambda db: db.execute(sql, values).fetchall())
        return tuple([ReaderPost(rows.post_from_row(row), row[17]) for row in post_rows])

    async def list_channels(self, tenant: str, query: ChannelQuery) -> tuple[tuple[Channel, Tally], ...]:
        sql, values = team_reads.channels_query(tenant, query)
        return rows.channels_from_rows(await self._read(lambda db: db.execute(sql, values).fetchall()))

    async def conversation_posts(self, tenant: str, query: ConversationQuery) -> tuple[Post, ...]:
        low, _ = await self._range(tenant)
        sql, values = team_reads.conversation_query(low, query)
        return tuple(map(rows.post_from_row, await self._read(lambda db: db.execute(sql, values).fetchall())))

    async def conversation_marks(self, tenant: str, after: int, before: int) -> tuple[ConversationMark, ...]:
        low, _ = await self._range(tenant)
        bounds = (low + after, low + before)
        return rows.marks_from_rows(await self._read(lambda db: db.execute(team_reads.MARKS, bounds).fetchall()))

    async def count_traffic(self, tenant: str, query: TrafficQuery) -> TrafficCount:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_traffic.read(db, low >> rows.SHIFT, query))

    async def answers(self, tenant: str, request_id: str) -> tuple[Post, ...]:
        low, high = await self._range(tenant)
        post_rows = await self._read(lambda db: db.execute(team_reads.ANSWERS, (request_id, low, high)).fetchall())
        return tuple(map(rows.post_from_row, post_rows))

    async def pending(self, tenant: str, to: str) -> tuple[Post, ...]:
        low, high = await self._range(tenant)
        post_rows = await self._read(lambda db: db.execute(team_reads.PENDING, (to, low, high)).fetchall())
        return tuple(map(rows.post_from_row, post_rows))

    async def waiting(self, after: str, limit: int) -> tuple[tuple[str, str], ...]:
        return tuple(await self._read(lambda db: db.execute(team_reads.WAITING, (after, limit, rows.SHIFT)).fetchall()))

    async def oldest_request(self, tenant: str, agent: str, now: str) -> int | None:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_reads.find_oldest_request(db, low, agent, now))

    async def unanswered(self, tenant: str, query: UnansweredQuery) -> tuple[Post, ...]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_reads.read_unanswered(db, tenant, low, query))

    async def count_unanswered(self, tenant: str, query: UnansweredQuery) -> tuple[tuple[tuple[str, ...], int], ...]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_reads.count_unanswered(db, tenant, low, query))

    async def words(self, tenant: str, words: ErasureQuery, after: int) -> tuple[tuple[ErasableMessage, ...], int]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_erase.find_erasable(db, low >> rows.SHIFT, words, after))

    async def taking_part(self, tenant: str, agent: str) -> tuple[Channel, ...]:
        low, _ = await self._range(tenant)
        channel_rows = await self._read(lambda db: team_reads.find_taking_part(db, tenant, low, agent))
        return tuple(rows.record_from_row(Channel, *row) for row in channel_rows)  # type: ignore[misc]

    async def overdue(self, now: str, limit: int = 500) -> tuple[tuple[str, str], ...]:
        query = (
            "SELECT tenant.id, post.id FROM post JOIN tenant ON tenant.number = post.number >> ?"
            " WHERE expires_at <> '' AND state <> 'expired' AND expires_at <= ? AND answered = 0 LIMIT ?"
        )
        return tuple(await self._read(lambda db: db.execute(query, (rows.SHIFT, now, limit)).fetchall()))

    async def search(self, tenant: str, text: str, scope: FeedScope, now: str, limit: int) -> tuple[int, ...]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_reads.search(db, tenant, low, scope, text, now, limit), self._searcher)

    # ------------------------------------------------------------------ feed, events, ledger

    async def head(self, tenant: str) -> int:
        head = self._cache.heads.get(tenant)
        if head is not None:
            return head.position
        row = await self._read(lambda db: db.execute("SELECT head FROM tenant WHERE id = ?", (tenant,)).fetchone())
        return int(row[0]) if row else 0

    async def feed(self, tenant: str, after: int, limit: int = 500) -> tuple[FeedItem, ...]:
        low, high = await self._range(tenant)
        return await self._read(lambda db: team_reads.read_feed(db, low + after, high, limit))

    async def find_positions(
        self, tenant: str, scope: FeedScope, after: int, through: int, limit: int
    ) -> tuple[tuple[int, ...], int]:
        if after >= through:
            return (), after
        low, _ = await self._range(tenant)
        bounds = (after, through, limit)
        return await self._read(lambda db: team_reads.find_positions(db, tenant, low, scope, *bounds), self._scanner)

    async def read_positions(self, tenant: str, positions: Sequence[int]) -> tuple[tuple[FeedItem, ...], int]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_reads.read_positions(db, low, positions))

    async def find_evicted(self, tenant: str, scope: FeedScope, after: int) -> tuple[tuple[str, int], ...]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_reads.find_evicted(db, tenant, low, scope, after))

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
        low, high = await self._range(tenant)
        query = (
            f"SELECT {rows.EVENT} FROM event WHERE intent_id = ? AND sequence > ? AND number BETWEEN ? AND ?"
            f" AND (? = '' OR event_type = ?) AND created_at >= ? ORDER BY sequence {'DESC' if newest else ''} LIMIT ?"
        )
        values = (intent_id, after, low, high, event_type, event_type, since, limit)
        event_rows, _ = await self._read(lambda db: team_reads.fetch_page(db.execute(query, values)))
        return tuple(map(rows.event_from_row, reversed(event_rows) if newest else event_rows))

    async def logged(self, tenant: str, after: int) -> tuple[tuple[str, int], ...]:
        low, high = await self._range(tenant)
        query = "SELECT intent_id, COUNT(*) FROM event WHERE number > ? AND number <= ? GROUP BY intent_id"
        return tuple(await self._read(lambda db: db.execute(query, (low + after, high)).fetchall()))

    async def events_of_trace(self, tenant: str, trace_id: str, limit: int = 1000) -> tuple[Event, ...]:
        low, high = await self._range(tenant)
        query = (
            f"SELECT {rows.EVENT} FROM event WHERE trace_id = ? AND trace_id <> '' AND number BETWEEN ? AND ?"
            " ORDER BY number LIMIT ?"
        )
        values = (trace_id, low, high, limit)
        event_rows, _ = await self._read(lambda db: team_reads.fetch_page(db.execute(query, values)))
        return tuple(map(rows.event_from_row, event_rows))

    async def event(self, tenant: str, event_id: str) -> Event | None:
        low, high = await self._range(tenant)
        query = f"SELECT {rows.EVENT} FROM event WHERE id = ? AND number BETWEEN ? AND ?"
        row = await self._read(lambda db: db.execute(query, (event_id, low, high)).fetchone())
        return rows.event_from_row(row) if row else None

    async def entries(self, tenant: str, after: int, limit: int) -> tuple[StoredEntry, ...]:
        low, _ = await self._range(tenant)
        query = "SELECT position, document, link FROM entry WHERE tenant = ? AND position > ? ORDER BY position LIMIT ?"
        entry_rows = await self._read(lambda db: db.execute(query, (low >> rows.SHIFT, after, limit)).fetchall())
        return tuple(StoredEntry(at, rows.entry_from_row(document), link) for at, document, link in entry_rows)

    async def audits(self, tenant: str, query: AuditQuery) -> tuple[AuditEntry, ...]:
        low, _ = await self._range(tenant)
        number = low >> rows.SHIFT
        return tuple(await self._read(lambda db: team_audit.read_page(db, number, query)))

    async def audit_counts(self, tenant: str, query: AuditQuery, digits: int) -> tuple[AuditCount, ...]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_audit.count_spans(db, low >> rows.SHIFT, query, digits))

    async def audit_size(self, tenant: str) -> int:
        head = self._cache.heads.get(tenant)
        if head is not None:
            return head.audit_number
        query = "SELECT audit_number FROM tenant WHERE id = ?"
        row = await self._read(lambda db: db.execute(query, (tenant,)).fetchone())
        return int(row[0]) if row else 0

    async def audit_hashes(self, tenant: str, after: int, through: int) -> tuple[str, ...]:
        low, _ = await self._range(tenant)
        return await self._read(lambda db: team_audit.read_hashes(db, low + after, low + through))

    async def saved(self, scope: str) -> Saved | None:
        row = await self._read(lambda db: db.execute("SELECT * FROM saved WHERE scope = ?", (scope,)).fetchone())
        return Saved(*row) if row else None

    # ------------------------------------------------------------------ the file

    async def newest(self) -> str:
        row = await self._read(lambda db: db.execute(_NEWEST).fetchone())
        return row[0] or ""

    async def checkpoint(self) -> None:
        """Copy the log into the file when it has grown; the writer goes on meanwhile."""
        if self._log_bytes() > _CHECKPOINT_BYTES:
            await self._read(self._copy_log)

    def _copy_log(self, _: sqlite3.Connection) -> None:
        db = team_file.connect(self.path, writes=True)
        try:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            db.close()

    def _log_bytes(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    @property
    def queued(self) -> int:
        """How many commits are not durable yet."""
        return self._writer.queued

    async def tenants(self) -> int:
        """How many tenants have anything."""
        query = "SELECT COUNT(*) FROM tenant WHERE id <> ''"
        return int(await self._read(lambda db: db.execute(query).fetchone()[0]))

    async def _range(self, tenant: str) -> tuple[int, int]:
        head = self._cache.heads.get(tenant)
        if head is None:
            query = "SELECT number FROM tenant WHERE id = ?"
            row = await self._read(lambda db: db.execute(query, (tenant,)).fetchone())
            number = int(row[0]) if row else 0
        else:
            number = head.tenant_row
        return number << rows.SHIFT, number << rows.SHIFT | rows.MASK

    async def _read(self, work: Callable[[sqlite3.Connection], T], where: ThreadPoolExecutor | None = None) -> T:
        return await asyncio.get_running_loop().run_in_executor(where or self._readers, self._run_on_reader, work)

    def _run_on_reader(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        with sqlite_errors(self.path):
            if db is None:
                try:
                    db = self._local.db = team_file.connect(self.path, writes=False)
                except Forbidden as error:  # it was open before: there are too many open files, say
                    raise Unavailable(error.message) from None
                self._connections.append(db)
            return work(db)
