"""Nodes that are broken on purpose, each in one way that a test must notice.

python -m tests.fault.postgres.mutants NAME up --json --store ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncpg

    from parley.adapters.postgres.cache import Note, TenantCache
    from parley.adapters.postgres.transaction import Outcome, TransactionRunner
    from parley.domain.channel.post import Post
    from parley.domain.store.changes import TeamChanges
    from parley.domain.store.transaction import Transaction

    Connection = asyncpg.Connection[asyncpg.Record]

_SEQUENCE = "CREATE SEQUENCE IF NOT EXISTS plain START 1000"
_NUMBERS = "SELECT nextval('plain') FROM generate_series(1, $1)"
_SAVED = (
    "INSERT INTO saved VALUES ($1, $2, $3, $4, $5, $6, $7)"
    " ON CONFLICT (scope) DO UPDATE SET status = excluded.status, answer = excluded.answer"
)
_POSTED = f"INSERT INTO post VALUES ({', '.join(f'${number}' for number in range(1, 17))})"
_COUNTED = "UPDATE tally SET count = count + $2, seq = greatest(seq, $3), last_at = greatest(last_at, $4) WHERE id = $1"
_MOVED = (
    "UPDATE tenant SET head = greatest(head, $2), revision = revision + 1 WHERE number = $1"
    " RETURNING head, entry_position, entry_link, audit_number, revision"
)


def plain_sequence() -> None:
    """Messages take their places from a sequence, without the lock of the head row, which is told afterwards."""
    from parley.adapters.postgres.transaction import TransactionRunner
    from parley.domain.store.transaction import Transaction

    carefully, post = TransactionRunner.run, Transaction._post

    async def run(self: TransactionRunner, db: Connection, batch: list[TeamChanges], *rest: Any) -> list[Outcome]:  # noqa: ANN401
        if any(changes.puts or changes.drops for changes in batch):
            return await carefully(self, db, batch, *rest)
        (one,) = (await self._load_caches(db, batch)).values()
        async with one.lock:
            return await _unlocked(self, db, batch, one)

    def numbered(self: Transaction, said: Post, tenant: str) -> Post:
        numbers: list[int] | None = getattr(self, "numbers", None)
        if numbers:
            last, key = numbers.pop(0) - 1, (tenant, said.channel_id)
            counters = self.counters(key)
            assert counters is not None
            self.heads[tenant] = self.head(tenant)._replace(position=last)
            self.channel_counters[key] = counters._replace(seq=last)
        return post(self, said, tenant)

    TransactionRunner.run = run  # type: ignore[method-assign,assignment]
    Transaction._post = numbered  # type: ignore[method-assign,assignment]


async def _unlocked(
    work: TransactionRunner, db: Connection, batch: list[TeamChanges], one: TenantCache
) -> list[Outcome]:
    from parley.adapters.postgres.source import PostgresSource
    from parley.adapters.postgres.transaction import _ENCODERS
    from parley.domain.errors.errors import ParleyError
    from parley.domain.store.transaction import Transaction
    from parley.domain.store.writes import InsertPosts
    from parley.wire.rows import post_to_row

    await db.execute(_SEQUENCE)
    await db.execute(f"BEGIN; SELECT set_config('parley.tenants', '{one.number}', true)")
    loaded = PostgresSource({one.id: one}, work._follower.kinds)
    await loaded.load(batch, db.fetch)
    transaction = Transaction(loaded, _ENCODERS)
    transaction.numbers = [row[0] for row in await db.fetch(_NUMBERS, len(batch))]  # type: ignore[attr-defined]
    outcomes: list[Outcome] = []
    for changes in batch:
        try:
            outcomes.append(transaction.take(changes))
        except ParleyError as refusal:
            outcomes.append(refusal)
    said = [row for act in transaction.writes if isinstance(act, InsertPosts) for row in act.posts]
    await db.executemany(_POSTED, [post_to_row(post, tenant, channel) for tenant, channel, post in said])
    await db.executemany(_SAVED, list(transaction.saved.values()))
    await work._commit(db)
    await _tell_afterwards(work, db, one, [post for _, _, post in said])
    return outcomes


async def _tell_afterwards(work: TransactionRunner, db: Connection, one: TenantCache, posts: Iterable[Post]) -> None:
    from parley.adapters.postgres.cache import Note, encode_note

    async with db.transaction():
        await db.execute(f"SELECT set_config('parley.tenants', '{one.number}', true)")
        last = max([post.position for post in posts], default=0)
        row = await db.fetchrow(_MOVED, one.number, last)
        assert row is not None
        for post in posts:
            await db.execute(_COUNTED, post.channel_id, 1, post.seq, post.created_at)
        note = Note((row[0], row[1], row[2], row[3]), channels=[post.channel_id for post in posts])
        await db.execute("INSERT INTO journal VALUES ($1, $2, now(), $3)", one.number, row[4], encode_note(note))
    work._follower.announce(one)
    work._follower._announcements.add(one.id, row[4])


def commit_without_sync() -> None:
    """The database may acknowledge a commit before it is on its disk."""
    _commit_with("off")


def wait_for_no_standby() -> None:
    """The database may acknowledge a commit before its replica has it."""
    _commit_with("local")


def _commit_with(synchronous: str) -> None:
    from parley.adapters.postgres import schema, sessions

    async def carelessly(connection: Connection) -> None:
        await connection.execute(f"SET synchronous_commit = {synchronous}")

    assert sessions._require_durable is not None
    sessions._require_durable = carelessly
    schema._DURABLE |= {synchronous}


def believe_a_cancelled_wait() -> None:
    """A commit whose wait for the replica was cancelled is as good as any other."""
    from parley.adapters.postgres.transaction import TransactionRunner

    def deaf(self: TransactionRunner, connection: object, message: object) -> None:
        del self, connection, message

    TransactionRunner.on_log_message = deaf  # type: ignore[method-assign,assignment]


def no_poll() -> None:
    """Only notifications tell a node that others have written; it never looks for itself."""
    from parley.adapters.postgres.journal import Follower

    async def never(self: Follower, tenants: Iterable[str] = ()) -> None:
        del self, tenants

    Follower._poll = never  # type: ignore[method-assign]
    Follower.catch_up = never  # type: ignore[method-assign]


def load_before_the_lock() -> None:
    """A commit is decided by what was known a while before it had the head row's lock."""
    import asyncio

    from parley.adapters.postgres import transaction
    from parley.adapters.postgres.transaction import TransactionRunner

    found, decided = TransactionRunner._load_caches, TransactionRunner._decide_and_write
    known: dict[int, dict[str, Any]] = {}

    async def noted(self: TransactionRunner, db: Connection, batch: list[TeamChanges]) -> dict[str, TenantCache]:
        caches = await found(self, db, batch)
        known[id(self)] = {tenant: dict(cache.records) for tenant, cache in caches.items()}
        await asyncio.sleep(0.02)
        return caches

    async def stale(
        self: TransactionRunner, db: Connection, batch: list[TeamChanges], caches: dict[str, TenantCache]
    ) -> list[Outcome]:
        for tenant, cache in caches.items():
            cache.records.update(known[id(self)][tenant])
        return await decided(self, db, batch, caches)

    transaction._fits_one_round_trip = lambda changes: not changes  # under the lock, always
    TransactionRunner._load_caches = noted  # type: ignore[method-assign]
    TransactionRunner._decide_and_write = stale  # type: ignore[method-assign]


def decide_once() -> None:
    """What was decided before the lock is written behind whatever others did meanwhile."""
    from parley.adapters.postgres import schema

    read = schema._read

    def careless(step: int) -> str:
        return read(step).replace("(is_light AND movable[i])", "true")

    schema._read = careless


def journal_without_records() -> None:
    """The journal does not say which records have changed, so other nodes go by what they remember."""
    from parley.adapters.postgres.writes import TransactionWriter

    notes = TransactionWriter.notes

    def less(self: TransactionWriter, *given: Any) -> dict[str, Note]:  # noqa: ANN401  # handed on
        said = notes(self, *given)
        for note in said.values():
            note.records.clear()
        return said

    TransactionWriter.notes = less  # type: ignore[method-assign,assignment]


# ---------------------------------------------------------------- broken above the store, as with a file


def forget_idempotency() -> None:
    """A repeated request is carried out again."""
    _as_with_a_file("forget_idempotency")


def forget_the_exchange() -> None:
    """A message does not depend on the exchange that it was decided on."""
    _as_with_a_file("forget_the_exchange")


def assign_rounds_outside_the_commit() -> None:
    """The message is written first; what its exchange became comes in a commit of its own."""
    _as_with_a_file("assign_rounds_outside_the_commit")


def _as_with_a_file(name: str) -> None:
    from tests.fault.team import mutants

    mutants.MUTANTS[name]()


MUTANTS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        assign_rounds_outside_the_commit,
        believe_a_cancelled_wait,
        commit_without_sync,
        decide_once,
        forget_idempotency,
        forget_the_exchange,
        journal_without_records,
        load_before_the_lock,
        no_poll,
        plain_sequence,
        wait_for_no_standby,
    )
}


def main() -> None:
    from parley.cli.main import entry

    MUTANTS[sys.argv[1]]()
    sys.argv = ["parley", *sys.argv[2:]]
    entry()


if __name__ == "__main__":
    main()
