"""How a node hears of what the others commit, and how it makes sure that it has.

    NOTIFY, or every half second ──> the head's revision is higher than ours ──> the journal ──> tell the watchers
    a request begins ──> ask for the revision, many requests at once ──────────────┘

The journal is the truth, the rest are wake-ups: one that is lost costs time, never a message.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from parley.adapters.postgres.cache import HEAD, Note, TenantCache, decode_note
from parley.adapters.postgres.connect import FAILURES, TIMEOUT_SECONDS, lost_connection_errors
from parley.adapters.postgres.nodes import Announcements
from parley.adapters.postgres.reads import read_feed
from parley.domain.errors.errors import ParleyError, Unavailable
from parley.domain.store.changes import Committed
from parley.wire import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    import asyncpg

    from parley.adapters.postgres.sessions import Sessions
    from parley.domain.channel.event import Event
    from parley.domain.channel.post import Post
    from parley.domain.record import Record

    Page = tuple[tuple[Post, ...], tuple[Event, ...]]
    Fetch = Callable[..., Awaitable[list[asyncpg.Record]]]
    # The numbers of tenants whose revisions are asked for, and who waits for them.
    Requests = list[tuple[set[int], asyncio.Future[dict[int, int]]]]

_log = logging.getLogger("parley.postgres")
POLL_SECONDS = 0.5
_ALIVE_CHECK_SECONDS = 5.0
CHANNEL = "parley"
_TENANTS_LIMIT = 10_000
_PAGE = 1_000
_NOTIFY_BATCH = 500
_JOURNAL = "SELECT revision, document FROM journal WHERE tenant = $1 AND revision > $2 ORDER BY revision LIMIT $3"
_RECORDS = (
    "SELECT record.kind, record.id, version, document FROM record"
    " JOIN unnest($2::text[], $3::text[]) AS wanted (kind, id) ON record.kind = wanted.kind AND record.id = wanted.id"
    " WHERE tenant = $1"
)
_NOTHING: Page = ((), ())
_TOO_SLOW = "the database takes too long to say what is new"
_REVISIONS = "SELECT number, revision FROM tenant WHERE number = ANY($1)"
# Nothing is stored with a notification, so nobody waits for the disk. It goes with the next question, if there is one.
_NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
_NOTIFY_AND_REVISIONS = (
    f"WITH told AS MATERIALIZED ({_NOTIFY}) {_REVISIONS.replace('$1', '$3')} AND (SELECT count(*) FROM told) > 0"
)


class _Watcher:
    __slots__ = ("needs", "notify", "on_lost")

    def __init__(
        self,
        notify: Callable[[str, Committed], None],
        needs: Callable[[str], bool] | None,
        on_lost: Callable[[Unavailable], None] | None,
    ) -> None:
        self.notify = notify
        self.needs = needs
        self.on_lost = on_lost


class Follower:
    """Keeps the tenant caches of this node current with the journal, and notifies watchers."""

    def __init__(self, sessions: Sessions, kinds: dict[str, type[Record]]) -> None:
        self.sessions = sessions
        self.kinds = kinds
        self._caches: dict[str, TenantCache] = {}
        self._by_number: dict[int, TenantCache] = {}
        self._loading: dict[str, asyncio.Future[TenantCache | None]] = {}
        self._watchers: list[_Watcher] = []
        # Who asks for a revision waits for the next question, which is asked when the one before is answered.
        self._revision_requests: Requests = []
        self._revision_timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._announcements = Announcements(self._start_asking)
        self._tasks: list[asyncio.Task[None]] = []
        self._pull_tasks: dict[str, asyncio.Task[None]] = {}
        # The highest announced revision not read yet, for watched tenants.
        self._latest: dict[str, int] = {}
        self._reachable = True
        self._caches_limit = _TENANTS_LIMIT
        sessions.on_other_history = self.forget_history

    def start(self) -> None:
        """Begin to listen and to look."""
        self._tasks = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._poll())]

    async def close(self) -> None:
        tasks: list[asyncio.Future[Any]] = [*self._tasks, *self._pull_tasks.values(), *self._loading.values()]
        tasks += [self._asking] if self._asking is not None else []
        self._announcements.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail_requests([], Unavailable("the store is closed"))

    # ------------------------------------------------------------------ watchers

    def watch(
        self,
        notify: Callable[[str, Committed], None],
        needs: Callable[[str], bool] | None,
        on_lost: Callable[[Unavailable], None] | None,
    ) -> Callable[[], None]:
        watcher = _Watcher(notify, needs, on_lost)
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def notify(self, tenant: str, committed: Committed) -> None:
        """Something is durable."""
        for watcher in self._watchers:
            watcher.notify(tenant, committed)

    def _is_watched(self, tenant: str) -> bool:
        return any(watcher.needs is not None and watcher.needs(tenant) for watcher in self._watchers)

    def _set_reachable(self, error: Unavailable | None) -> None:
        """Record whether the database answers; while it does not, watchers are notified."""
        if error is None and not self._reachable:
            _log.info("the database can be reached again", extra={"action": "database_found"})
        lost, self._reachable = self._reachable and error is not None, error is None
        if error is None:
            return
        if lost:
            _log.error("the database cannot be reached", extra={"action": "database_lost", "detail": error.message})
        for watcher in self._watchers:
            if watcher.on_lost is not None:
                watcher.on_lost(error)

    # ------------------------------------------------------------------ tenants

    def find_cache(self, tenant: str) -> TenantCache | None:
        """The tenant, if this node knows it already."""
        cache = self._caches.get(tenant)
        if cache is not None:
            cache.used = True
        return cache

    async def get_cache(self, tenant: str) -> TenantCache | None:
        """The tenant; None when nothing was ever committed in it."""
        cache = self.find_cache(tenant)
        if cache is not None:
            return cache
        loading = self._loading.get(tenant)
        if loading is None:
            loading = self._loading[tenant] = asyncio.ensure_future(self._load(tenant))
            loading.add_done_callback(lambda _: self._loading.pop(tenant, None))
        return await asyncio.shield(loading)

    async def _load(self, tenant: str) -> TenantCache | None:
        head_rows = await self.sessions.fetch("", f"SELECT {HEAD} FROM tenant WHERE id = $1", tenant)
        return self.add_cache(head_rows[0]) if head_rows else None

    def add_cache(self, row: asyncpg.Record) -> TenantCache:
        """A tenant by its head row, which may be known by now."""
        cache = self._caches.get(row[1])
        if cache is None:
            if len(self._caches) >= self._caches_limit:
                self._forget_idle()
            cache = self._caches[row[1]] = self._by_number[row[0]] = TenantCache(row)
        return cache

    def _forget_idle(self) -> None:
        """Drop the caches that were not used since the last call."""
        for cache in list(self._caches.values()):
            if not cache.used and not cache.lock.locked() and not self._is_watched(cache.id):
                del self._caches[cache.id], self._by_number[cache.number]
                self._latest.pop(cache.id, None)
            cache.used = False
        # Not again for each one that comes, when hardly any could be forgotten.
        self._caches_limit = max(_TENANTS_LIMIT, len(self._caches) + _TENANTS_LIMIT // 2)

    def forget_history(self) -> None:
        """The database has another past: the same revision may say something else now."""
        _log.warning("the database is another one, or was put back: all is read anew", extra={"action": "history"})
        self._latest.clear()
        for cache in self._caches.values():
            cache.clear()
            cache.revision = -1

    def forget_budgets(self) -> None:
        """Clear cached budgets. Other nodes may keep theirs: expired budgets are not read any more."""
        for cache in self._caches.values():
            cache.budgets.clear()

    @property
    def lag(self) -> int:
        """How many transactions this node has heard of and not seen yet, at most of one tenant."""
        behind = [
            max(0, latest - cache.revision)
            for tenant, latest in self._latest.items()
            if (cache := self._caches.get(tenant)) is not None
        ]
        return max(behind, default=0)

    # ------------------------------------------------------------------ catching up

    async def catch_up(self, tenants: Collection[str]) -> None:
        """See to it that what is known of these tenants is not older than this call."""
        # For all of it: who waits behind others for the same journal does not wait longer than they did.
        end = asyncio.get_running_loop().time() + TIMEOUT_SECONDS
        caches = [cache for tenant in tenants if (cache := self.find_cache(tenant)) is not None]
        if len(caches) < len(tenants):
            async with _until(end):
                caches = [cache for tenant in tenants if (cache := await self.get_cache(tenant)) is not None]
        if not caches:
            return
        revisions = await self._fetch_revisions({cache.number for cache in caches})
        for cache in caches:
            target = revisions.get(cache.number, 0)
            if target > cache.revision or cache.unnotified:
                async with _until(end):
                    await self.pull(cache, target)

    async def _fetch_revisions(self, numbers: set[int]) -> dict[int, int]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[dict[int, int]] = loop.create_future()
        if not self._revision_requests:
            # One timer for all that share a question: a timer for each request costs more than the rest of it.
            self._revision_timer = loop.call_later(TIMEOUT_SECONDS, self._give_up, self._revision_requests)
        self._revision_requests.append((numbers, answer))
        self._start_asking()
        return await answer

    def _start_asking(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask())

    def _give_up(self, requests: Requests) -> None:
        """Fail the requests that share a question: it was not answered in time."""
        for _, answer in requests:
            if not answer.done():
                answer.set_exception(Unavailable(_TOO_SLOW))

    async def _ask(self) -> None:
        """Ask for the revisions that are waited for, and tell the other nodes what was committed here."""
        while self._revision_requests or self._announcements:
            requests, self._revision_requests = self._revision_requests, []
            timer, self._revision_timer = self._revision_timer, None
            numbers = list(set().union(*[numbers for numbers, _ in requests]))
            payload = self._announcements.take()
            try:
                revisions = await self._fetch_and_notify(numbers, payload)
            except ParleyError as error:
                self._fail_requests(requests, error)
            except asyncio.CancelledError:
                self._fail_requests(requests, Unavailable("the store is closed"))
                raise
            else:
                for _, answer in requests:
                    if not answer.done():
                        answer.set_result(revisions)
            finally:
                if timer is not None:
                    timer.cancel()

    async def _fetch_and_notify(self, numbers: list[int], payload: str) -> dict[int, int]:
        if payload:
            # Not in the transaction that commits: there it would hold a lock that all of them need.
            query, values = (
                (_NOTIFY_AND_REVISIONS, (CHANNEL, payload, numbers)) if numbers else (_NOTIFY, (CHANNEL, payload))
            )
            try:
                found = await self.sessions.fetch("", query, *values)
                return {row[0]: row[1] for row in found} if numbers else {}
            except ParleyError as error:
                _log.debug("other nodes were not notified", extra={"action": "notify", "code": error.code})
                if not numbers:
                    return {}
        return {row[0]: row[1] for row in await self.sessions.fetch("", _REVISIONS, numbers)}

    def _fail_requests(self, requests: Requests, error: ParleyError) -> None:
        """Fail these requests and those queued behind them, which would fail the same way."""
        queued, self._revision_requests = self._revision_requests, []
        for _, answer in requests + queued:
            if not answer.done():
                answer.set_exception(error)

    async def pull(self, cache: TenantCache, target: int, fetch: Fetch | None = None) -> None:
        """Read the journal up to a revision at least, and tell what it says."""
        async with cache.lock:
            fetch = fetch or self._bind_fetch(cache.scope)
            await self.notify_watchers(cache, fetch)
            while cache.revision < target and await self.advance(cache, fetch):
                pass

    def _bind_fetch(self, scope: str) -> Fetch:
        async def fetch(query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401  # as the driver
            return await self.sessions.fetch(scope, query, *values)

        return fetch

    async def advance(self, cache: TenantCache, fetch: Fetch) -> bool:
        """Read the next page of the journal; False when the cache was reloaded. The caller holds the tenant's lock."""
        journal_rows = await fetch(_JOURNAL, cache.number, cache.revision, _PAGE)
        if not journal_rows or journal_rows[0][0] != cache.revision + 1:
            await self.reload(cache, fetch)
            return False
        for row in journal_rows:
            cache.apply_other(row[0], decode_note(row[1]))
        await self.notify_watchers(cache, fetch)
        return True

    async def notify_watchers(self, cache: TenantCache, fetch: Fetch | None = None) -> None:
        """Notify the watchers of other nodes' commits; what cannot be read now is delivered the next time.

        A watcher that subscribes meanwhile starts after it: the tenant's head has advanced already.
        """
        if not cache.unnotified:
            return
        fetch = fetch or self._bind_fetch(cache.scope)
        notes, position = list(cache.unnotified), cache.head.position
        keys = dict.fromkeys(key for note in notes for key in note.records)
        puts = await self._read_records(cache, list(keys), fetch)
        posts, events = await self._read_feed(cache, position, fetch)
        del cache.unnotified[: len(notes)]
        cache.notified_position = position
        for record in puts:
            cache.put((cache.id, record.kind, record.id), record)
        cache.trim()
        ended = tuple([channel for note in notes for channel in note.ended])
        departed = tuple([agent for note in notes for agent in note.departed])
        _log.debug("the journal was read", extra={"action": "journal", "tenant": cache.id, "revision": cache.revision})
        missed, cache.missed = cache.missed, False
        dropped = tuple(keys.keys() - {(record.kind, record.id) for record in puts})
        self.notify(
            cache.id, Committed(position, posts, puts, (), events, ended, departed, missed=missed, dropped=dropped)
        )

    async def _read_feed(self, cache: TenantCache, position: int, fetch: Fetch) -> Page:
        """Posts and events up to a position, for watched tenants. All pages but the last are delivered here."""
        at, page = cache.notified_position, _NOTHING
        while at < position and self._is_watched(cache.id):
            if page != _NOTHING:
                posts, events = page
                self.notify(cache.id, Committed(at, posts, events=events))
                cache.notified_position = at
            items, at = await read_feed(fetch, cache.number, at, position, _NOTIFY_BATCH)
            posts = tuple([item.post for item in items if item.post is not None])
            page = (posts, tuple([item.event for item in items if item.event is not None]))
        return page

    async def _read_records(self, cache: TenantCache, keys: list[tuple[str, str]], fetch: Fetch) -> tuple[Record, ...]:
        keys = [key for key in keys if key[0] in self.kinds]  # a newer node may write kinds that we know nothing of
        if not keys:
            return ()
        record_rows = await fetch(_RECORDS, cache.number, [kind for kind, _ in keys], [key for _, key in keys])
        records = []
        for row in record_rows:
            try:
                records.append(rows.record_from_row(self.kinds[row[0]], row[2], row[3]))
            except msgspec.ValidationError:  # it says something that only a newer version understands
                _log.warning("a record cannot be read", extra={"action": "journal", "kind": row[0], "id": row[1]})
        return tuple(records)

    async def reload(self, cache: TenantCache, fetch: Fetch) -> None:
        """The journal no longer reaches back to where we were: read anew what we knew, and let everyone look again."""
        (row,) = await fetch(f"SELECT {HEAD} FROM tenant WHERE number = $1", cache.number)
        fresh = TenantCache(row)
        keys = [(kind, key) for _, kind, key in cache.records]
        cache.clear()
        cache.notified_position = min(cache.notified_position, fresh.head.position)
        note = Note(fresh.head[1:], keys, others=True)
        cache.apply_other(fresh.revision, note)
        cache.missed = True
        await self.notify_watchers(cache, fetch)

    # ------------------------------------------------------------------ wake-ups

    def announce(self, cache: TenantCache, *, more_follows: bool = False) -> None:
        """Tell the other nodes how far a tenant has come: while more follows, now and then for many commits."""
        self._announcements.add(cache.id, cache.revision, more_follows=more_follows)

    def _on_notification(self, payload: str) -> None:
        """A node has said how far tenants have come."""
        for part in payload.split(","):
            tenant, _, revision = part.rpartition(":")
            if revision.isdecimal():
                self._wake(tenant, int(revision))

    def _wake(self, tenant: str, revision: int) -> None:
        cache = self._caches.get(tenant)
        # What is heard is not always heard in its order.
        latest = max(revision, self._latest.pop(tenant, 0))
        if cache is not None and latest <= cache.revision and not cache.unnotified:
            return
        if not self._is_watched(tenant):
            # Only the fact that there is a commit; watchers that need more read it.
            self.notify(tenant, Committed(cache.head.position if cache is not None else 0))
            return
        self._latest[tenant] = latest
        running = self._pull_tasks.get(tenant)
        if running is None or running.done():
            self._pull_tasks[tenant] = asyncio.ensure_future(self._pull_until_current(tenant))
            self._pull_tasks[tenant].add_done_callback(lambda done: self._remove_pull_task(tenant, done))

    def _remove_pull_task(self, tenant: str, pull: asyncio.Task[None]) -> None:
        if self._pull_tasks.get(tenant) is pull:  # the next one may have begun
            del self._pull_tasks[tenant]

    async def _pull_until_current(self, tenant: str) -> None:
        """Read until nothing newer was heard of."""
        try:
            cache = await self.get_cache(tenant)
            while cache is not None and (cache.unnotified or cache.revision < self._latest.get(tenant, 0)):
                latest = self._latest.get(tenant, 0)
                await self.pull(cache, latest)
                if cache.revision < latest == self._latest.get(tenant, 0):
                    break  # the announced revision does not exist
            self._latest.pop(tenant, None)
        except ParleyError as error:
            _log.debug("the journal was not read", extra={"action": "journal", "code": error.code})

    async def _listen(self) -> None:
        """Hear notifications; a connection that is lost is made again."""
        while True:
            try:
                connection = await self.sessions.open_connection(f"{self.sessions.name} listens")
                ended = asyncio.Event()
                connection.add_termination_listener(lambda *_, ended=ended: ended.set())
                try:
                    with lost_connection_errors(connection):
                        async with asyncio.timeout(TIMEOUT_SECONDS):
                            await connection.add_listener(
                                CHANNEL, lambda *arguments: self._on_notification(str(arguments[3]))
                            )
                        while not ended.is_set():
                            await _check_alive(connection, ended)
                finally:
                    connection.terminate()
            except (ParleyError, *FAILURES) as error:
                _log.debug("cannot listen for notifications", extra={"action": "listen", "detail": str(error)})
            await asyncio.sleep(POLL_SECONDS)

    async def _poll(self) -> None:
        """Poll the revisions of all cached tenants, in case a notification was lost."""
        while True:
            try:
                numbers = list(self._by_number)
                for start in range(0, max(1, len(numbers)), _PAGE):
                    query = "SELECT id, revision FROM tenant WHERE number = ANY($1)"
                    for row in await self.sessions.fetch("", query, numbers[start : start + _PAGE]):
                        self._wake(row[0], row[1])
                self._set_reachable(None)
            except ParleyError as error:
                self._set_reachable(error if isinstance(error, Unavailable) else Unavailable(error.message))
            await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _until(end: float) -> AsyncIterator[None]:
    """`Unavailable` when this is not done at that moment."""
    try:
        async with asyncio.timeout_at(end):
            yield
    except TimeoutError:
        raise Unavailable(_TOO_SLOW) from None


async def _check_alive(connection: asyncpg.Connection[asyncpg.Record], ended: asyncio.Event) -> None:
    """Wait, then send a query: a connection that was lost silently reports nothing."""
    try:
        async with asyncio.timeout(_ALIVE_CHECK_SECONDS):
            await ended.wait()
    except TimeoutError:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await connection.fetchval("SELECT 1")
