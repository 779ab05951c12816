"""One transaction of the writer: the heads are taken, what others did is learned, then all is decided and written.

BEGIN ──> enter: lock the heads, hear the journal ──> load, decide, write ──> COMMIT ──> tell the watchers
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec

from parley.adapters.postgres.cache import HEAD, decode_note
from parley.adapters.postgres.connect import BROKEN, TIMEOUT_SECONDS, lost_connection_errors
from parley.adapters.postgres.source import PostgresSource
from parley.adapters.postgres.writes import TransactionWriter
from parley.domain.directory.callers import Tenant
from parley.domain.errors.errors import ParleyError
from parley.domain.store.transaction import Encoders, Head, Transaction
from parley.domain.store.writes import ForgetKeys
from parley.wire.proofs.event_log import appended
from parley.wire.rows import encode_audit_entry

if TYPE_CHECKING:
    from parley.adapters.postgres.cache import Note, TenantCache
    from parley.adapters.postgres.evictor import Evictor
    from parley.adapters.postgres.journal import Follower
    from parley.domain.store.changes import Committed, TeamChanges

    # None: others hold its tenants at this moment, and nothing was done.
    Outcome = Committed | Exception | None
    Connection = asyncpg.Connection[asyncpg.Record]

_log = logging.getLogger("parley.postgres")
_ENCODERS = Encoders(appended, encode_audit_entry)
# A change that cannot be written as it is: its own fault, which must not stop the writer.
WRITE_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
# What can go wrong behind a commit. None of it makes the commit undone: it must not be tried again.
POST_COMMIT_ERRORS = (*WRITE_ERRORS, *BROKEN, AttributeError, ParleyError, asyncpg.PostgresError, msgspec.MsgspecError)
_HEADS = f"SELECT {HEAD} FROM tenant WHERE id = ANY($1)"


class InDoubt(Exception):
    """The connection was lost during COMMIT: whether the transaction is committed is unknown."""


def tenants_of(changes: TeamChanges) -> set[str]:
    """Every tenant that a commit writes in."""
    tenants = {changes.tenant, *[record.tenant_id for record in (*changes.puts, *changes.drops)]}
    # A tenant gets its head row with its first record, so no node misses its first commit.
    return tenants | {record.id for record in changes.puts if isinstance(record, Tenant)}


class TransactionRunner:
    """Carries out the transactions of one lane, one after the other."""

    def __init__(self, follower: Follower, evictor: Evictor) -> None:
        self._follower = follower
        self._evictor = evictor
        # Said by the database while a commit is under way: that it did not wait for its replica, say.
        self._warning = ""

    def on_log_message(self, _: object, message: Any) -> None:  # noqa: ANN401  # as the driver has it
        """The database has said something beside its answer."""
        self._warning = str(message)

    async def run(self, db: Connection, batch: list[TeamChanges], wait: int) -> list[Outcome]:
        """Commit what can be committed now; `wait` is how many milliseconds to wait for tenants of other nodes."""
        caches = await self._load_caches(db, batch)
        # The same order on every node, so that there is no deadlock.
        ordered = sorted(caches.values(), key=lambda cache: cache.number)
        held: list[TenantCache] = []
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for cache in ordered:
                    await cache.lock.acquire()
                    held.append(cache)
            await db.execute("BEGIN")
            try:
                free = await self._lock_heads(db, ordered, wait)
            except asyncpg.LockNotAvailableError:
                free = set()
            lockable = [changes for changes in batch if tenants_of(changes) <= free]
            if not lockable:
                await db.execute("ROLLBACK")
                return [None] * len(batch)
            outcomes = iter(
                await self._decide_and_write(db, lockable, {tenant: caches[tenant] for tenant in sorted(free)})
            )
            return [next(outcomes) if tenants_of(changes) <= free else None for changes in batch]
        finally:
            for cache in held:
                cache.lock.release()

    async def _lock_heads(self, db: Connection, ordered: list[TenantCache], wait: int) -> set[str]:
        """Take the heads, and learn what others did before; which tenants we hold."""
        by_number = {cache.number: cache for cache in ordered}
        revisions = ([*by_number], [cache.revision for cache in ordered])
        free = set()
        for row in await db.fetch("SELECT * FROM parley_enter($1, $2, $3)", *revisions, wait):
            cache = by_number[row[0]]
            free.add(cache.id)
            if cache.revision != row[3]:
                notes = row[7] or ()
                if len(notes) == row[3] - cache.revision:
                    for note in notes:
                        cache.apply_other(cache.revision + 1, decode_note(note))
                else:  # too much, or too long ago; or the database was put back to an earlier state
                    await self._follower.reload(cache, db.fetch)
            cache.head = Head(row[0], row[2], row[4], row[5], row[6])
        return free

    async def _decide_and_write(
        self, db: Connection, batch: list[TeamChanges], caches: dict[str, TenantCache]
    ) -> list[Outcome]:
        source = PostgresSource(caches, self._follower.kinds)
        await source.load(batch, db.fetch)
        transaction = Transaction(source, _ENCODERS)
        outcomes: list[Outcome] = []
        for changes in batch:
            try:
                outcomes.append(transaction.take(changes))
            except ParleyError as refusal:
                outcomes.append(refusal)
        accepted = [
            changes for changes, outcome in zip(batch, outcomes, strict=True) if not isinstance(outcome, Exception)
        ]
        if not accepted:
            await db.execute("ROLLBACK")
            await self._notify_of_others(caches)
            return outcomes
        notes = await TransactionWriter(db, transaction, caches).write(accepted)
        await self._commit(db)
        try:
            await self._notify(transaction, caches, notes, batch, outcomes)
        except POST_COMMIT_ERRORS as error:  # it is done, whatever is wrong with telling it
            _log.error("watchers were not notified of a commit", exc_info=error, extra={"action": "commit"})
        return outcomes

    async def _notify(
        self,
        transaction: Transaction,
        caches: dict[str, TenantCache],
        notes: dict[str, Note],
        batch: list[TeamChanges],
        outcomes: list[Outcome],
    ) -> None:
        """The heads are free: others go on while we tell what they did before, and what we did."""
        notified = await self._notify_of_others(caches)
        for tenant, note in notes.items():
            cache = caches[tenant]
            if notified:
                cache.apply_own(note)
            else:  # earlier commits could not be read: ours is delivered with them, later
                cache.apply_other(cache.revision + 1, note)
            self._follower.announce(cache)
        self._update_caches(transaction, caches)
        self._evictor.enqueue(transaction.evicted())
        for act in transaction.writes:
            if isinstance(act, ForgetKeys):
                self._evictor.remove_keys_before(act.before)
        for changes, outcome in zip(batch, outcomes, strict=True):
            if notified and outcome is not None and not isinstance(outcome, Exception):
                self._follower.notify(changes.tenant, outcome)

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
