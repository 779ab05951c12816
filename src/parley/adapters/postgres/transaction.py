"""One transaction of the writer: decided by what the node knows and written in one round trip, or decided under locks.

decide ──> parley_commit: lock the heads, compare the revisions, write, commit ──> tell the watchers
   └─ others were there before, and it has to be decided again, or more is to be written than one statement does
BEGIN ──> parley_enter: lock the heads, hear the journal ──> load, decide, write ──> COMMIT ──> tell the watchers
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import msgspec

from parley.adapters.postgres.cache import HEAD, decode_note
from parley.adapters.postgres.connect import BROKEN, TIMEOUT_SECONDS, lost_connection_errors
from parley.adapters.postgres.source import UNKNOWN_KEYS, KnownKeys, PostgresSource, reserved_keys
from parley.adapters.postgres.writes import TransactionWriter
from parley.domain.channel.channel import Channel
from parley.domain.directory.callers import NO_TENANT, Tenant
from parley.domain.errors.errors import ParleyError, Unavailable
from parley.domain.store.changes import Committed, merge_posts
from parley.domain.store.source import Head
from parley.domain.store.transaction import Encoders, Transaction
from parley.domain.store.writes import ForgetKeys
from parley.wire.proofs.event_log import appended
from parley.wire.rows import encode_audit_entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence, Sized

    from parley.adapters.postgres.cache import Note, TenantCache
    from parley.adapters.postgres.evictor import Evictor
    from parley.adapters.postgres.journal import Fetch, Follower
    from parley.adapters.postgres.writes import GroupCommit
    from parley.domain.store.changes import TeamChanges

    # None: others hold its tenants at this moment, and nothing was done.
    Outcome = Committed | Exception | None
    Connection = asyncpg.Connection[asyncpg.Record]
    Reconnect = Callable[[Exception], Awaitable[Connection]]

_log = logging.getLogger("parley.postgres")
_ENCODERS = Encoders(appended, encode_audit_entry)
# A change that cannot be written as it is: its own fault, which must not stop the writer.
WRITE_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
# What can go wrong behind a commit. None of it makes the commit undone: it must not be tried again.
POST_COMMIT_ERRORS = (*WRITE_ERRORS, *BROKEN, AttributeError, ParleyError, asyncpg.PostgresError, msgspec.MsgspecError)
# A name that no other lane has, on any node.
_NAME = "SELECT md5(pg_backend_pid()::text || clock_timestamp()::text || random()::text)"
# Milliseconds to wait for the heads when a group is asked for again.
_AGAIN_WAIT = 500
_HEADS = f"SELECT {HEAD} FROM tenant WHERE id = ANY($1)"


class InDoubt(Exception):
    """The connection was lost during COMMIT: whether the transaction is committed is unknown."""


def tenants_of(changes: TeamChanges) -> set[str]:
    """Every tenant that a commit writes in."""
    if not changes.puts and not changes.drops:
        return {changes.tenant}
    tenants = {changes.tenant, *[record.tenant_id for record in (*changes.puts, *changes.drops)]}
    # A tenant gets its head row with its first record, so no node misses its first commit.
    return tenants | {record.id for record in changes.puts if isinstance(record, Tenant)}


class CommittedGroup(NamedTuple):
    """What is durable and has to be told: the decisions, what the journal says of them, and the outcome of each."""

    transaction: Transaction
    caches: dict[str, TenantCache]
    notes: dict[str, Note]
    batch: list[TeamChanges]
    outcomes: list[Outcome]


class TransactionRunner:
    """Carries out the transactions of one lane, one after the other."""

    def __init__(self, follower: Follower, evictor: Evictor, queue: Sized = ()) -> None:
        self._follower = follower
        self._evictor = evictor
        # The commits that follow: while there are some, other nodes are told of several groups at once.
        self._queue = queue
        # Said by the database while a commit is under way: that it did not wait for its replica, say.
        self._warning = ""
        # Whether other nodes had written in its tenants, or held them, when the last group came.
        self.met_others = False
        self._db: Connection
        # What the marks of its groups begin with, and how many there were.
        self._name = ""
        self._groups = 0

    def on_log_message(self, _: object, message: Any) -> None:  # noqa: ANN401  # as the driver has it
        """The database has said something beside its answer."""
        self._warning = str(message)

    async def run(
        self, db: Connection, batch: list[TeamChanges], wait: int, reconnect: Reconnect | None = None
    ) -> list[Outcome]:
        """Commit what can be committed now; `wait` is how many milliseconds to wait for tenants of other nodes.

        When the connection is lost while a group is committed, `reconnect` gives another to find out what became of it.
        """
        self.met_others = False
        caches = await self._load_caches(db, batch)
        # The same order on every node, so that there is no deadlock.
        ordered = sorted(caches.values(), key=lambda cache: cache.number)
        held: list[TenantCache] = []
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for cache in ordered:
                    await cache.lock.acquire()
                    held.append(cache)
            if not all(map(_fits_one_round_trip, batch)):
                return await self._commit_locked(db, batch, caches, wait)
            self._db = db
            outcomes, left = await self._commit_at_once(batch, caches, wait, reconnect)
            if left:
                undone = [changes for changes in batch if changes.tenant in left]
                locked = iter(await self._commit_rest(undone, caches, wait, is_all=len(left) == len(caches)))
                pairs = zip(batch, outcomes, strict=True)
                outcomes = [next(locked) if changes.tenant in left else outcome for changes, outcome in pairs]
            return outcomes
        finally:
            for cache in held:
                cache.lock.release()

    # ------------------------------------------------------------------ in one round trip

    async def _commit_at_once(
        self, batch: list[TeamChanges], caches: dict[str, TenantCache], wait: int, reconnect: Reconnect | None
    ) -> tuple[list[Outcome], set[str]]:
        """Decide by what is known, and commit where it still holds; and the tenants to decide under their locks."""
        keys = self._known_keys(batch)
        source = PostgresSource(caches, self._follower.kinds, keys)
        await source.load(batch, self._fetch_unlocked(caches.values()), keys_are_checked=True)
        transaction, outcomes = _decide(source, batch)
        accepted = _accepted(batch, outcomes)
        written_in = {changes.tenant: caches[changes.tenant] for changes in accepted}
        writer = TransactionWriter(transaction, source, written_in)
        # A refusal counts only when it was found by what is there: the commit of the others compares.
        if len(written_in) < len(caches) or not writer.is_one_statement:
            return outcomes, set(caches)
        mark = await self._next_mark()
        group = writer.group(accepted, wait=wait, mark=mark, keys=keys, unused=reserved_keys(accepted))
        revisions = [cache.revision for cache in caches.values()]
        head_rows = await self._execute(
            group, reconnect, lambda: revisions == [cache.revision for cache in caches.values()]
        )
        if len(head_rows) == len(caches) and all(row["written"] and row["head"] is None for row in head_rows):
            if revisions == [cache.revision for cache in caches.values()]:
                await self._finish(CommittedGroup(transaction, caches, group.notes, batch, outcomes))
            # Otherwise the node has met another past of the database meanwhile, and reads all of it anew.
            return outcomes, set()
        self.met_others = True
        by_number = {cache.number: cache for cache in caches.values()}
        written = {(cache := by_number[row["number"]]).id: cache for row in head_rows if row["written"]}
        try:
            later = {}
            for row in head_rows:
                if row["head"] is not None:
                    cache = by_number[row["number"]]
                    later[cache] = await self._hear(cache, row, self._fetch_unlocked([cache]), group.mark)
            outcomes = await self._finish_moved(batch, outcomes, written, keys)
            for cache, notes in later.items():
                _apply_notes(cache, notes)
        except POST_COMMIT_ERRORS as error:
            if written:  # it must not be tried again
                raise InDoubt(str(error)) from error
            raise
        return outcomes, {by_number[row["number"]].id for row in head_rows} - written.keys()

    async def _execute(
        self, group: GroupCommit, reconnect: Reconnect | None, is_known: Callable[[], bool]
    ) -> list[asyncpg.Record]:
        """Have the database write and commit a group; no row when others hold the heads.

        When the connection is lost, the same is asked again: the mark of the group in the journal tells whether it is
        committed. The call before may still be waiting for the heads, so this one waits for them, too. A database with
        another past is not asked: there the revisions that the node knew may say something else.
        """
        self._warning = ""
        head_rows: list[asyncpg.Record] | None = None
        values, is_lost = group.values, False
        while head_rows is None:
            try:
                with lost_connection_errors(self._db):
                    head_rows = await self._db.fetch(group.statement, *values)
            except asyncpg.LockNotAvailableError:
                head_rows = []
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                if not is_lost and not _ends_connection(error):
                    raise  # it was refused: nothing is written
                if reconnect is None or not _ends_connection(error):
                    raise InDoubt(str(error)) from None
                self._db = await reconnect(error)
                if not is_known():
                    raise InDoubt(str(error)) from None
                values, is_lost = group.again(_AGAIN_WAIT), True
            if is_lost and head_rows is not None and len(head_rows) < len(group.notes):
                head_rows = None  # others, or the call that was lost, hold a head: only with all of them it is known
        if self._warning:
            raise InDoubt(self._warning)
        return head_rows

    async def _next_mark(self) -> str:
        self._name = self._name or str(await self._db.fetchval(_NAME))
        self._groups += 1
        return f"{self._name}:{self._groups}"

    async def _finish_moved(
        self, batch: list[TeamChanges], outcomes: list[Outcome], written: dict[str, TenantCache], keys: KnownKeys
    ) -> list[Outcome]:
        """Decide what was written again, by what others left behind: that gives the places that the database gave."""
        ours = [changes for changes in _accepted(batch, outcomes) if changes.tenant in written]
        source = PostgresSource(written, self._follower.kinds, keys)
        await source.load(ours, self._fetch_unlocked(written.values()), keys_are_checked=True)
        transaction, moved = _decide(source, ours)
        if _accepted(ours, moved) != ours:
            raise RuntimeError("a commit that was moved behind others would be refused")
        notes = TransactionWriter(transaction, source, written).notes(ours)
        await self._finish(CommittedGroup(transaction, written, notes, ours, moved))
        places = iter(moved)
        settled: list[Outcome] = []
        for changes, outcome in zip(batch, outcomes, strict=True):
            if changes.tenant not in written:
                settled.append(None)
            else:
                settled.append(outcome if isinstance(outcome, Exception) else next(places))
        return settled

    def _known_keys(self, batch: list[TeamChanges]) -> KnownKeys:
        """What is known of the keys, if a caller was admitted by that."""
        if not any(changes.keys_generation for changes in batch):
            return UNKNOWN_KEYS
        cache = self._follower.find_cache(NO_TENANT)
        return KnownKeys(cache.number, cache.revision, cache.generation) if cache is not None else UNKNOWN_KEYS

    def _fetch_unlocked(self, caches: Iterable[TenantCache]) -> Fetch:
        """Questions before the heads are locked. The commit compares the revision: if others were faster, what these
        questions found is not used.
        """
        scope = ",".join([cache.scope for cache in caches])

        async def fetch(query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401  # as the driver
            await self._db.execute("SELECT set_config('parley.tenants', $1, false)", scope)
            return await self._db.fetch(query, *values)

        return fetch

    # ------------------------------------------------------------------ under locks

    async def _commit_rest(
        self, batch: list[TeamChanges], caches: dict[str, TenantCache], wait: int, *, is_all: bool
    ) -> list[Outcome]:
        """Commit under locks what could not be committed at once. When that fails and the rest of the group is there,
        only these are tried again.
        """
        try:
            return await self._commit_locked(self._db, batch, caches, wait)
        except (InDoubt, asyncpg.PostgresError, *BROKEN, *WRITE_ERRORS) as error:
            if is_all:
                raise
            self._db.terminate()
            _log.warning("a part of a group is tried again", exc_info=error, extra={"action": "commit"})
            if isinstance(error, InDoubt):
                return [Unavailable(str(error), hint="ask again with the same idempotency key")] * len(batch)
            return [None] * len(batch)

    async def _commit_locked(
        self, db: Connection, batch: list[TeamChanges], caches: dict[str, TenantCache], wait: int
    ) -> list[Outcome]:
        tenants = set().union(*map(tenants_of, batch))
        ordered = sorted([caches[tenant] for tenant in tenants], key=lambda cache: cache.number)
        await db.execute("BEGIN")
        try:
            free = await self._lock_heads(db, ordered, wait)
        except asyncpg.LockNotAvailableError:
            free = set()
        lockable = [changes for changes in batch if tenants_of(changes) <= free]
        if not lockable:
            await db.execute("ROLLBACK")
            return [None] * len(batch)
        outcomes = iter(await self._decide_and_write(db, lockable, {tenant: caches[tenant] for tenant in sorted(free)}))
        return [next(outcomes) if tenants_of(changes) <= free else None for changes in batch]

    async def _lock_heads(self, db: Connection, ordered: list[TenantCache], wait: int) -> set[str]:
        """Take the heads, and learn what others did before; which tenants we hold."""
        by_number = {cache.number: cache for cache in ordered}
        revisions = ([*by_number], [cache.revision for cache in ordered])
        free = set()
        for row in await db.fetch("SELECT * FROM parley_enter($1, $2, $3)", *revisions, wait):
            cache = by_number[row["number"]]
            free.add(cache.id)
            await self._hear(cache, row, db.fetch)
        return free

    async def _hear(self, cache: TenantCache, row: asyncpg.Record, fetch: Fetch, mark: str = "") -> list[Note]:
        """Learn from a head row, and the notes that come with it, what others did. What they did after the group with
        this mark is returned: it comes after our own.
        """
        notes = [decode_note(note) for note in row["notes"] or ()]
        ours = [at for at, note in enumerate(notes) if mark and note.mark == mark]
        if len(notes) != max(0, row["revision"] - cache.revision) or row["revision"] < cache.revision:
            if mark and row["written"]:
                raise RuntimeError("what was known of the tenant was forgotten while it was written")
            # Too much, or too long ago; or the database was put back to an earlier state.
            await self._follower.reload(cache, fetch)
        elif ours:
            _apply_notes(cache, notes[: ours[0]])
            return notes[ours[0] + 1 :]
        else:
            _apply_notes(cache, notes)
        ends = (row["entry_position"], row["entry_link"], row["audit_number"])
        cache.head = Head(cache.number, row["head"], *ends)
        return []

    async def _decide_and_write(
        self, db: Connection, batch: list[TeamChanges], caches: dict[str, TenantCache]
    ) -> list[Outcome]:
        keys = self._known_keys(batch)
        if (
            keys.number
            and await db.fetchval("SELECT revision FROM tenant WHERE number = $1", keys.number) != keys.revision
        ):
            keys = UNKNOWN_KEYS
        source = PostgresSource(caches, self._follower.kinds, keys)
        await source.load(batch, db.fetch)
        transaction, outcomes = _decide(source, batch)
        accepted = _accepted(batch, outcomes)
        if not accepted:
            await db.execute("ROLLBACK")
            await self._notify_of_others(caches)
            return outcomes
        notes = await TransactionWriter(transaction, source, caches).write(db, accepted)
        await self._commit(db)
        await self._finish(CommittedGroup(transaction, caches, notes, batch, outcomes))
        return outcomes

    # ------------------------------------------------------------------ after the commit

    async def _finish(self, group: CommittedGroup) -> None:
        try:
            await self._notify(group)
        except POST_COMMIT_ERRORS as error:  # it is done, whatever is wrong with telling it
            _log.error("watchers were not notified of a commit", exc_info=error, extra={"action": "commit"})

    async def _notify(self, group: CommittedGroup) -> None:
        """The heads are free: others go on while we tell what they did before, and what we did."""
        transaction, caches, notes, batch, outcomes = group
        notified = await self._notify_of_others(caches)
        for tenant, note in notes.items():
            cache = caches[tenant]
            if notified:
                cache.apply_own(note)
            else:  # earlier commits could not be read: ours is delivered with them, later
                cache.apply_other(cache.revision + 1, note)
            # Where several were committed together, more is likely to come.
            self._follower.announce(cache, more_follows=len(batch) > 1 or len(self._queue) > 0)
        self._update_caches(transaction, caches)
        self._evictor.enqueue(transaction.evicted())
        for act in transaction.writes:
            if isinstance(act, ForgetKeys):
                self._evictor.remove_keys_before(act.before)
        if notified:
            commits = [
                (changes.tenant, outcome)
                for changes, outcome in zip(batch, outcomes, strict=True)
                if isinstance(outcome, Committed)
            ]
            for tenant, committed in merge_posts(commits):
                self._follower.notify(tenant, committed)

    async def _notify_of_others(self, caches: dict[str, TenantCache]) -> bool:
        """Tell what others did before us; False when it could not be read."""
        try:
            for cache in caches.values():
                await self._follower.notify_watchers(cache)
        except POST_COMMIT_ERRORS as error:
            _log.warning("commits of other nodes are delivered later", exc_info=error, extra={"action": "journal"})
            return False
        return True

    async def _commit(self, db: Connection) -> None:
        self._warning = ""
        try:
            with lost_connection_errors(db):
                await db.execute("COMMIT")
        except asyncpg.PostgresError as error:
            if isinstance(error, BROKEN) or error.severity in ("FATAL", "PANIC"):
                raise InDoubt(str(error)) from None
            raise  # it was refused: nothing is written
        except (asyncpg.InterfaceError, OSError) as error:
            raise InDoubt(str(error)) from None
        if self._warning:
            raise InDoubt(self._warning)

    async def _load_caches(self, db: Connection, batch: list[TeamChanges]) -> dict[str, TenantCache]:
        """What is known of all these tenants; a new one gets its head row."""
        tenants = set().union(*map(tenants_of, batch))
        caches = {tenant: cache for tenant in tenants if (cache := self._follower.find_cache(tenant)) is not None}
        missing = sorted(tenants - caches.keys())
        if missing:
            head_rows = await db.fetch(_HEADS, missing)
            new = sorted(set(missing) - {row[1] for row in head_rows})
            if new:  # looked for first: even one that is there already would use up a number
                await db.execute("INSERT INTO tenant (id) SELECT unnest($1::text[]) ON CONFLICT (id) DO NOTHING", new)
                head_rows += await db.fetch(_HEADS, new)
            for row in head_rows:
                caches[row[1]] = self._follower.add_cache(row)
        return caches

    def _update_caches(self, transaction: Transaction, caches: dict[str, TenantCache]) -> None:
        for key, record in transaction.records.items():
            caches[key[0]].put(key, record)
        for (tenant, channel_id), counters in transaction.channel_counters.items():
            caches[tenant].channel_counters[channel_id] = counters
        for tenant, channel_id in transaction.gone_channels - transaction.new_channels:
            caches[tenant].channel_counters.pop(channel_id, None)
        for side_key, side in transaction.sides.items():
            caches[side_key[0]].sides[side_key[1]] = side
        for budget_key, spent in transaction.budgets.items():
            caches[budget_key[0]].budgets[budget_key] = spent
        for (tenant, intent_id), end in transaction.logs.items():
            caches[tenant].logs[intent_id] = end
        if any(isinstance(act, ForgetKeys) for act in transaction.writes):
            self._follower.forget_budgets()
        for cache in caches.values():
            cache.trim()


def _ends_connection(error: Exception) -> bool:
    """Whether a connection is lost with this error, so that nobody knows what became of its statement."""
    if not isinstance(error, asyncpg.PostgresError) or isinstance(error, asyncpg.PostgresConnectionError):
        return True
    return error.severity in ("FATAL", "PANIC")


def _apply_notes(cache: TenantCache, notes: list[Note]) -> None:
    for note in notes:
        cache.apply_other(cache.revision + 1, note)


def _fits_one_round_trip(changes: TeamChanges) -> bool:
    """Whether it writes in one tenant, depends on no rows that have to be locked, and makes or drops no channel.

    Nor may it open a conversation: a retry after a lost reply of the database would find the exchange that it wrote
    itself.
    """
    if changes.stands_alone or changes.new_conversations:
        return False
    if not changes.puts and not changes.drops:
        return True
    makes_channel = any(isinstance(record, Channel) and not record.version for record in changes.puts)
    drops_channel = any(isinstance(record, Channel) for record in changes.drops)
    return not makes_channel and not drops_channel and len(tenants_of(changes)) == 1


def _decide(source: PostgresSource, batch: list[TeamChanges]) -> tuple[Transaction, list[Outcome]]:
    transaction = Transaction(source, _ENCODERS)
    outcomes: list[Outcome] = []
    for changes in batch:
        try:
            outcomes.append(transaction.take(changes))
        except ParleyError as refusal:
            outcomes.append(refusal)
    return transaction, outcomes


def _accepted(batch: Sequence[TeamChanges], outcomes: list[Outcome]) -> list[TeamChanges]:
    return [changes for changes, outcome in zip(batch, outcomes, strict=True) if not isinstance(outcome, Exception)]
