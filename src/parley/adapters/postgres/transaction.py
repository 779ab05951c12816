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
from parley.adapters.postgres.connect import BROKEN, PATIENCE, known_as_lost
from parley.adapters.postgres.source import Loaded
from parley.adapters.postgres.writes import Writing
from parley.domain.directory.callers import Tenant
from parley.domain.errors.errors import ParleyError
from parley.domain.store.transaction import Encoders, Head, Transaction
from parley.domain.store.writes import ForgetKeys
from parley.wire.proofs.event_log import appended
from parley.wire.rows import encode_audit_entry

if TYPE_CHECKING:
    from parley.adapters.postgres.cache import Note, Tenancy
    from parley.adapters.postgres.evictor import Evictor
    from parley.adapters.postgres.journal import Follower
    from parley.domain.store.changes import Committed, TeamChanges

    # None: others hold its tenants at this moment, and nothing was done.
    Outcome = Committed | Exception | None
    Connection = asyncpg.Connection[asyncpg.Record]

_log = logging.getLogger("parley.postgres")
_SPELLING = Encoders(appended, encode_audit_entry)
# A change that cannot be written as it is: its own fault, which must not stop the writer.
UNFIT = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
# What can go wrong behind a commit. None of it makes the commit undone: it must not be tried again.
AFTERWARDS = (*UNFIT, *BROKEN, AttributeError, ParleyError, asyncpg.PostgresError, msgspec.MsgspecError)
_HEADS = f"SELECT {HEAD} FROM tenant WHERE id = ANY($1)"


class InDoubt(Exception):
    """The connection was lost while the commit was under way: nobody knows whether it is done."""


def tenants_of(changes: TeamChanges) -> set[str]:
    """Every tenant that a commit writes in."""
    found = {changes.tenant, *[record.tenant_id for record in (*changes.puts, *changes.drops)]}
    # A tenant has its head row from the beginning: so nobody misses what is first written in it.
    return found | {record.id for record in changes.puts if isinstance(record, Tenant)}


class Transacting:
    """Carries out the transactions of one lane, one after the other."""

    def __init__(self, follower: Follower, evictor: Evictor) -> None:
        self._follower = follower
        self._evictor = evictor
        # Said by the database while a commit is under way: that it did not wait for its replica, say.
        self._warned = ""

    def noted(self, _: object, message: Any) -> None:  # noqa: ANN401  # as the driver has it
        """The database has said something beside its answer."""
        self._warned = str(message)

    async def run(self, db: Connection, batch: list[TeamChanges], wait: int) -> list[Outcome]:
        """Commit what can be committed now; `wait` so many milliseconds for tenants that others hold, or not at all."""
        tenancies = await self._tenancies(db, batch)
        # In one order everywhere: so nobody waits for somebody who waits for it.
        ordered = sorted(tenancies.values(), key=lambda one: one.number)
        held: list[Tenancy] = []
        try:
            async with asyncio.timeout(PATIENCE):
                for one in ordered:
                    await one.lock.acquire()
                    held.append(one)
            await db.execute("BEGIN")
            try:
                free = await self._enter(db, ordered, wait)
            except asyncpg.LockNotAvailableError:
                free = set()
            ours = [changes for changes in batch if tenants_of(changes) <= free]
            if not ours:
                await db.execute("ROLLBACK")
                return [None] * len(batch)
            done = iter(await self._decided(db, ours, {tenant: tenancies[tenant] for tenant in sorted(free)}))
            return [next(done) if tenants_of(changes) <= free else None for changes in batch]
        finally:
            for one in held:
                one.lock.release()

    async def _enter(self, db: Connection, ordered: list[Tenancy], wait: int) -> set[str]:
        """Take the heads, and learn what others did before; which tenants we hold."""
        by_number = {one.number: one for one in ordered}
        known = ([*by_number], [one.revision for one in ordered])
        free = set()
        for row in await db.fetch("SELECT * FROM parley_enter($1, $2, $3)", *known, wait):
            one = by_number[row[0]]
            free.add(one.id)
            if one.revision != row[3]:
                notes = row[7] or ()
                if len(notes) == row[3] - one.revision:
                    for note in notes:
                        one.move_on(one.revision + 1, decode_note(note))
                else:  # too much, or too long ago; or the database was put back to an earlier state
                    await self._follower.start_over(one, db.fetch)
            one.head = Head(row[0], row[2], row[4], row[5], row[6])
        return free

    async def _decided(self, db: Connection, batch: list[TeamChanges], tenancies: dict[str, Tenancy]) -> list[Outcome]:
        loaded = Loaded(tenancies, self._follower.kinds)
        await loaded.load(batch, db.fetch)
        transaction = Transaction(loaded, _SPELLING)
        outcomes: list[Outcome] = []
        for changes in batch:
            try:
                outcomes.append(transaction.take(changes))
            except ParleyError as refusal:
                outcomes.append(refusal)
        taken = [one for one, outcome in zip(batch, outcomes, strict=True) if not isinstance(outcome, Exception)]
        if not taken:
            await db.execute("ROLLBACK")
            await self._settled(tenancies)
            return outcomes
        notes = await Writing(db, transaction, tenancies).write(taken)
        await self._commit(db)
        try:
            await self._tell(transaction, tenancies, notes, batch, outcomes)
        except AFTERWARDS as error:  # it is done, whatever is wrong with telling it
            _log.error("a commit was not told", exc_info=error, extra={"action": "commit"})
        return outcomes

    async def _tell(
        self,
        transaction: Transaction,
        tenancies: dict[str, Tenancy],
        notes: dict[str, Note],
        batch: list[TeamChanges],
        outcomes: list[Outcome],
    ) -> None:
        """The heads are free: others go on while we tell what they did before, and what we did."""
        told = await self._settled(tenancies)
        for tenant, note in notes.items():
            one = tenancies[tenant]
            if told:
                one.wrote(note)
            else:  # what came before could not be read: ours is told with it, later
                one.move_on(one.revision + 1, note)
            self._follower.announce(one)
        self._learn(transaction, tenancies)
        self._evictor.take(transaction.evicted())
        for act in transaction.writes:
            if isinstance(act, ForgetKeys):
                self._evictor.forget(act.before)
        for changes, outcome in zip(batch, outcomes, strict=True):
            if told and outcome is not None and not isinstance(outcome, Exception):
                self._follower.tell(changes.tenant, outcome)

    async def _settled(self, tenancies: dict[str, Tenancy]) -> bool:
        """Tell what others did before us; False when it could not be read."""
        try:
            for one in tenancies.values():
                await self._follower.settle(one)
        except AFTERWARDS as error:
            _log.warning("what others did is told later", exc_info=error, extra={"action": "journal"})
            return False
        return True

    async def _commit(self, db: Connection) -> None:
        self._warned = ""
        try:
            with known_as_lost(db):
                await db.execute("COMMIT")
        except asyncpg.PostgresError as error:
            if isinstance(error, BROKEN) or error.severity in ("FATAL", "PANIC"):
                raise InDoubt(str(error)) from None
            raise  # it was refused: nothing is written
        except (asyncpg.InterfaceError, OSError) as error:
            raise InDoubt(str(error)) from None
        if self._warned:
            raise InDoubt(self._warned)

    async def _tenancies(self, db: Connection, batch: list[TeamChanges]) -> dict[str, Tenancy]:
        """What is known of all these tenants; a new one gets its head row."""
        tenants = set().union(*map(tenants_of, batch))
        found = {tenant: one for tenant in tenants if (one := self._follower.known(tenant)) is not None}
        missing = sorted(tenants - found.keys())
        if missing:
            there = await db.fetch(_HEADS, missing)
            new = sorted(set(missing) - {row[1] for row in there})
            if new:  # looked for first: even one that is there already would use up a number
                await db.execute("INSERT INTO tenant (id) SELECT unnest($1::text[]) ON CONFLICT (id) DO NOTHING", new)
                there += await db.fetch(_HEADS, new)
            for row in there:
                found[row[1]] = self._follower.meet(row)
        return found

    def _learn(self, transaction: Transaction, tenancies: dict[str, Tenancy]) -> None:
        for key, record in transaction.records.items():
            tenancies[key[0]].learn(key, record)
        for (tenant, channel_id), place in transaction.places.items():
            tenancies[tenant].places[channel_id] = place
        for tenant, channel_id in transaction.gone_channels - transaction.new_channels:
            tenancies[tenant].places.pop(channel_id, None)
        for side_key, side in transaction.sides.items():
            tenancies[side_key[0]].sides[side_key[1]] = side
        for budget_key, spent in transaction.budgets.items():
            tenancies[budget_key[0]].budgets[budget_key] = spent
        for (tenant, intent_id), end in transaction.logs.items():
            tenancies[tenant].logs[intent_id] = end
        if any(isinstance(act, ForgetKeys) for act in transaction.writes):
            self._follower.forget_budgets()
        for one in tenancies.values():
            one.trim()
