"""How a node hears of what the others commit, and how it makes sure that it has.

    NOTIFY, or every half second ──> the head's revision is higher than ours ──> the journal ──> tell the watchers
    a request begins ──> ask for the revision, many requests at once ──────────────┘

The journal is the truth, the rest are wake-ups: one that is lost costs time, never a message.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from parley.adapters.postgres.cache import HEAD, Note, Tenancy, decode_note
from parley.adapters.postgres.connect import FAILURES, PATIENCE, known_as_lost
from parley.adapters.postgres.reads import read_feed
from parley.domain.errors.errors import ParleyError, Unavailable
from parley.domain.store.changes import Committed
from parley.wire import rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import asyncpg

    from parley.adapters.postgres.sessions import Sessions
    from parley.domain.channel.event import Event
    from parley.domain.channel.post import Post
    from parley.domain.record import Record

    Page = tuple[tuple[Post, ...], tuple[Event, ...]]
    Fetch = Callable[..., Awaitable[list[asyncpg.Record]]]

_log = logging.getLogger("parley.postgres")
POLL_SECONDS = 0.5
_ASK_SECONDS = 5.0
CHANNEL = "parley"
_MOST_TENANTS = 10_000
_PAGE = 1_000
_TOLD_AT_ONCE = 500
# A notification holds 8,000 bytes.
_MOST_TOLD = 80
_JOURNAL = "SELECT revision, document FROM journal WHERE tenant = $1 AND revision > $2 ORDER BY revision LIMIT $3"
_RECORDS = (
    "SELECT record.kind, record.id, version, document FROM record"
    " JOIN unnest($2::text[], $3::text[]) AS wanted (kind, id) ON record.kind = wanted.kind AND record.id = wanted.id"
    " WHERE tenant = $1"
)
_NOTHING: Page = ((), ())


class _Watcher:
    __slots__ = ("cares", "lost", "tell")

    def __init__(
        self,
        tell: Callable[[str, Committed], None],
        cares: Callable[[str], bool] | None,
        lost: Callable[[Unavailable], None] | None,
    ) -> None:
        self.tell = tell
        self.cares = cares
        self.lost = lost


class Follower:
    """What this node knows of every tenant, kept up with the journal; and who has to be told."""

    def __init__(self, sessions: Sessions, kinds: dict[str, type[Record]]) -> None:
        self._sessions = sessions
        self.kinds = kinds
        self._tenancies: dict[str, Tenancy] = {}
        self._by_number: dict[int, Tenancy] = {}
        self._loading: dict[str, asyncio.Future[Tenancy | None]] = {}
        self._watchers: list[_Watcher] = []
        # Who asks for a revision waits for the next question, which is asked when the one before is answered.
        self._asked: list[tuple[set[int], asyncio.Future[dict[int, int]]]] = []
        self._asker: asyncio.Task[None] | None = None
        self._news: dict[str, int] = {}
        self._notifier: asyncio.Task[None] | None = None
        self._works: list[asyncio.Task[None]] = []
        self._pulls: dict[str, asyncio.Task[None]] = {}
        # The highest revision that was heard of and is not seen yet, of tenants that somebody here cares for.
        self._latest: dict[str, int] = {}
        self._reachable = True
        self._room = _MOST_TENANTS
        sessions.on_other_history = self.forget_history

    def start(self) -> None:
        """Begin to listen and to look."""
        self._works = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._poll())]

    async def close(self) -> None:
        works: list[asyncio.Future[Any]] = [*self._works, *self._pulls.values(), *self._loading.values()]
        works += [one for one in (self._asker, self._notifier) if one is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        self._refuse([], Unavailable("the store is closed"))

    # ------------------------------------------------------------------ watchers

    def watch(
        self,
        tell: Callable[[str, Committed], None],
        cares: Callable[[str], bool] | None,
        lost: Callable[[Unavailable], None] | None,
    ) -> Callable[[], None]:
        watcher = _Watcher(tell, cares, lost)
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def tell(self, tenant: str, committed: Committed) -> None:
        """Something is durable."""
        for watcher in self._watchers:
            watcher.tell(tenant, committed)

    def _cares(self, tenant: str) -> bool:
        return any(watcher.cares is not None and watcher.cares(tenant) for watcher in self._watchers)

    def _reached(self, error: Unavailable | None) -> None:
        """Note whether the database answers; while it does not, whoever has begun to wait is told."""
        if error is None and not self._reachable:
            _log.info("the database can be reached again", extra={"action": "database_found"})
        lost, self._reachable = self._reachable and error is not None, error is None
        if error is None:
            return
        if lost:
            _log.error("the database cannot be reached", extra={"action": "database_lost", "detail": error.message})
        for watcher in self._watchers:
            if watcher.lost is not None:
                watcher.lost(error)

    # ------------------------------------------------------------------ tenants

    def known(self, tenant: str) -> Tenancy | None:
        """The tenant, if this node knows it already."""
        known = self._tenancies.get(tenant)
        if known is not None:
            known.used = True
        return known

    async def tenancy(self, tenant: str) -> Tenancy | None:
        """The tenant; None when nothing was ever committed in it."""
        known = self.known(tenant)
        if known is not None:
            return known
        loading = self._loading.get(tenant)
        if loading is None:
            loading = self._loading[tenant] = asyncio.ensure_future(self._load(tenant))
            loading.add_done_callback(lambda _: self._loading.pop(tenant, None))
        return await asyncio.shield(loading)

    async def _load(self, tenant: str) -> Tenancy | None:
        found = await self._sessions.fetch("", f"SELECT {HEAD} FROM tenant WHERE id = $1", tenant)
        return self.meet(found[0]) if found else None

    def meet(self, row: asyncpg.Record) -> Tenancy:
        """A tenant by its head row, which may be known by now."""
        known = self._tenancies.get(row[1])
        if known is None:
            if len(self._tenancies) >= self._room:
                self._forget_idle()
            known = self._tenancies[row[1]] = self._by_number[row[0]] = Tenancy(row)
        return known

    def _forget_idle(self) -> None:
        """Forget whom nobody has asked for since the last time."""
        for one in list(self._tenancies.values()):
            if not one.used and not one.lock.locked() and not self._cares(one.id):
                del self._tenancies[one.id], self._by_number[one.number]
                self._latest.pop(one.id, None)
            one.used = False
        # Not again for each one that comes, when hardly any could be forgotten.
        self._room = max(_MOST_TENANTS, len(self._tenancies) + _MOST_TENANTS // 2)

    def forget_history(self) -> None:
        """The database has another past: the same revision may say something else now."""
        _log.warning("the database is another one, or was put back: all is read anew", extra={"action": "history"})
        self._latest.clear()
        for one in self._tenancies.values():
            one.forget_all()
            one.revision = -1

    def forget_budgets(self) -> None:
        """Those of long ago are gone. What another node still knows of them, nobody asks for any more."""
        for one in self._tenancies.values():
            one.budgets.clear()

    @property
    def lag(self) -> int:
        """How many transactions this node has heard of and not seen yet, at most of one tenant."""
        behind = [
            max(0, latest - one.revision)
            for tenant, latest in self._latest.items()
            if (one := self._tenancies.get(tenant)) is not None
        ]
        return max(behind, default=0)

    # ------------------------------------------------------------------ catching up

    async def catch_up(self, tenants: Iterable[str]) -> None:
        """See to it that what is known of these tenants is not older than this call."""
        try:
            # For all of it: who waits behind others for the same journal does not wait longer than they did.
            async with asyncio.timeout(PATIENCE):
                found = [one for tenant in tenants if (one := await self.tenancy(tenant)) is not None]
                revisions = await self._revisions({one.number for one in found}) if found else {}
                for one in found:
                    target = revisions.get(one.number, 0)
                    if target > one.revision or one.untold:
                        await self.pull(one, target)
        except TimeoutError:
            raise Unavailable("the database takes too long to say what is new") from None

    async def _revisions(self, numbers: set[int]) -> dict[int, int]:
        answer: asyncio.Future[dict[int, int]] = asyncio.get_running_loop().create_future()
        self._asked.append((numbers, answer))
        if self._asker is None or self._asker.done():
            self._asker = asyncio.ensure_future(self._ask())
        return await answer

    async def _ask(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, []
            wanted = set().union(*[numbers for numbers, _ in asked])
            query = "SELECT number, revision FROM tenant WHERE number = ANY($1)"
            try:
                found = {row[0]: row[1] for row in await self._sessions.fetch("", query, list(wanted))}
            except ParleyError as error:
                self._refuse(asked, error)
            except asyncio.CancelledError:
                self._refuse(asked, Unavailable("the store is closed"))
                raise
            else:
                for _, answer in asked:
                    if not answer.done():
                        answer.set_result(found)

    def _refuse(self, asked: list[tuple[set[int], asyncio.Future[dict[int, int]]]], error: ParleyError) -> None:
        """Nobody can say it; who queued up behind the question would have to wait as long, to be told the same."""
        queued, self._asked = self._asked, []
        for _, answer in asked + queued:
            if not answer.done():
                answer.set_exception(error)

    async def pull(self, one: Tenancy, target: int, fetch: Fetch | None = None) -> None:
        """Read the journal up to a revision at least, and tell what it says."""
        async with one.lock:
            fetch = fetch or self._fetching(one.scope)
            await self.settle(one, fetch)
            while one.revision < target and await self.advance(one, fetch):
                pass

    def _fetching(self, scope: str) -> Fetch:
        async def fetch(query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401  # as the driver
            return await self._sessions.fetch(scope, query, *values)

        return fetch

    async def advance(self, one: Tenancy, fetch: Fetch) -> bool:
        """One step along the journal; False when all there is was read anew. Whoever calls holds the tenant's lock."""
        found = await fetch(_JOURNAL, one.number, one.revision, _PAGE)
        if not found or found[0][0] != one.revision + 1:
            await self.start_over(one, fetch)
            return False
        for row in found:
            one.move_on(row[0], decode_note(row[1]))
        await self.settle(one, fetch)
        return True

    async def settle(self, one: Tenancy, fetch: Fetch | None = None) -> None:
        """Tell the watchers what others did; what cannot be read now is told the next time.

        Whoever begins to listen meanwhile begins behind it: the tenant's head has moved on already.
        """
        if not one.untold:
            return
        fetch = fetch or self._fetching(one.scope)
        notes, position = list(one.untold), one.head.position
        keys = dict.fromkeys(key for note in notes for key in note.records)
        puts = await self._records(one, list(keys), fetch)
        posts, events = await self._said(one, position, fetch)
        del one.untold[: len(notes)]
        one.told = position
        for record in puts:
            one.learn((one.id, record.kind, record.id), record)
        one.trim()
        ended = tuple([channel for note in notes for channel in note.ended])
        departed = tuple([agent for note in notes for agent in note.departed])
        _log.debug("the journal was read", extra={"action": "journal", "tenant": one.id, "revision": one.revision})
        missed, one.missed = one.missed, False
        self.tell(one.id, Committed(position, posts, events, puts, ended, departed, missed=missed))

    async def _said(self, one: Tenancy, position: int, fetch: Fetch) -> Page:
        """What was said and happened up to a position, where somebody cares. All but the last page is told here."""
        at, page = one.told, _NOTHING
        while at < position and self._cares(one.id):
            if page != _NOTHING:
                self.tell(one.id, Committed(at, *page))
                one.told = at
            items, at = await read_feed(fetch, one.number, at, position, _TOLD_AT_ONCE)
            posts = tuple([item.post for item in items if item.post is not None])
            page = (posts, tuple([item.event for item in items if item.event is not None]))
        return page

    async def _records(self, one: Tenancy, keys: list[tuple[str, str]], fetch: Fetch) -> tuple[Record, ...]:
        keys = [key for key in keys if key[0] in self.kinds]  # a newer node may write kinds that we know nothing of
        if not keys:
            return ()
        found = await fetch(_RECORDS, one.number, [kind for kind, _ in keys], [key for _, key in keys])
        records = []
        for row in found:
            try:
                records.append(rows.record_from_row(self.kinds[row[0]], row[2], row[3]))
            except msgspec.ValidationError:  # it says something that only a newer version understands
                _log.warning("a record cannot be read", extra={"action": "journal", "kind": row[0], "id": row[1]})
        return tuple(records)

    async def start_over(self, one: Tenancy, fetch: Fetch) -> None:
        """The journal no longer reaches back to where we were: read anew what we knew, and let everyone look again."""
        (row,) = await fetch(f"SELECT {HEAD} FROM tenant WHERE number = $1", one.number)
        fresh = Tenancy(row)
        known = [(kind, key) for _, kind, key in one.records]
        one.forget_all()
        one.told = min(one.told, fresh.head.position)
        note = Note(fresh.head[1:], known, others=True)
        one.move_on(fresh.revision, note)
        one.missed = True
        await self.settle(one, fetch)

    # ------------------------------------------------------------------ wake-ups

    def announce(self, one: Tenancy) -> None:
        """Tell the other nodes how far a tenant has come; many in one notification."""
        self._news[one.id] = one.revision
        if self._notifier is None or self._notifier.done():
            self._notifier = asyncio.ensure_future(self._notify())

    async def _notify(self) -> None:
        while self._news:
            some = list(self._news.items())[:_MOST_TOLD]
            for tenant, _ in some:
                del self._news[tenant]
            told = ",".join([f"{tenant}:{revision}" for tenant, revision in some])
            try:
                # Not in the transaction that commits: there it would hold a lock that all of them need.
                await self._sessions.fetch("", "SELECT pg_notify($1, $2)", CHANNEL, told)
            except ParleyError as error:
                _log.debug("others were not told", extra={"action": "notify", "code": error.code})

    def _heard(self, told: str) -> None:
        """A node has said how far tenants have come."""
        for part in told.split(","):
            tenant, _, revision = part.rpartition(":")
            if revision.isdecimal():
                self._wake(tenant, int(revision))

    def _wake(self, tenant: str, revision: int) -> None:
        one = self._tenancies.get(tenant)
        # What is heard is not always heard in its order.
        latest = max(revision, self._latest.pop(tenant, 0))
        if one is not None and latest <= one.revision and not one.untold:
            return
        if not self._cares(tenant):
            # Somebody has written; whoever needs to know more asks.
            self.tell(tenant, Committed(one.head.position if one is not None else 0))
            return
        self._latest[tenant] = latest
        running = self._pulls.get(tenant)
        if running is None or running.done():
            self._pulls[tenant] = asyncio.ensure_future(self._pulled(tenant))
            self._pulls[tenant].add_done_callback(lambda done: self._ended(tenant, done))

    def _ended(self, tenant: str, pull: asyncio.Task[None]) -> None:
        if self._pulls.get(tenant) is pull:  # the next one may have begun
            del self._pulls[tenant]

    async def _pulled(self, tenant: str) -> None:
        """Read until nothing newer was heard of."""
        try:
            one = await self.tenancy(tenant)
            while one is not None and (one.untold or one.revision < self._latest.get(tenant, 0)):
                latest = self._latest.get(tenant, 0)
                await self.pull(one, latest)
                if one.revision < latest == self._latest.get(tenant, 0):
                    break  # whoever said so was wrong
            self._latest.pop(tenant, None)
        except ParleyError as error:
            _log.debug("the journal was not read", extra={"action": "journal", "code": error.code})

    async def _listen(self) -> None:
        """Hear notifications; a connection that is lost is made again."""
        while True:
            try:
                connection = await self._sessions.connected(f"{self._sessions.name} listens")
                ended = asyncio.Event()
                connection.add_termination_listener(lambda *_, ended=ended: ended.set())
                try:
                    with known_as_lost(connection):
                        async with asyncio.timeout(PATIENCE):
                            await connection.add_listener(CHANNEL, lambda *said: self._heard(str(said[3])))
                        while not ended.is_set():
                            await _still_there(connection, ended)
                finally:
                    connection.terminate()
            except (ParleyError, *FAILURES) as error:
                _log.debug("nobody is listened to", extra={"action": "listen", "detail": str(error)})
            await asyncio.sleep(POLL_SECONDS)

    async def _poll(self) -> None:
        """Look how far everybody has come, whether anybody has said so or not."""
        while True:
            try:
                numbers = list(self._by_number)
                for start in range(0, max(1, len(numbers)), _PAGE):
                    query = "SELECT id, revision FROM tenant WHERE number = ANY($1)"
                    for row in await self._sessions.fetch("", query, numbers[start : start + _PAGE]):
                        self._wake(row[0], row[1])
                self._reached(None)
            except ParleyError as error:
                self._reached(error if isinstance(error, Unavailable) else Unavailable(error.message))
            await asyncio.sleep(POLL_SECONDS)


async def _still_there(connection: asyncpg.Connection[asyncpg.Record], ended: asyncio.Event) -> None:
    """Wait a while, then ask: a connection that has silently gone says nothing for ever."""
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            await ended.wait()
    except TimeoutError:
        async with asyncio.timeout(PATIENCE):
            await connection.fetchval("SELECT 1")
