"""Nodes that share a database, what their watchers hear, and a hand on the database itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest

from parley.adapters.postgres.store import PostgresTeamStore
from parley.domain.errors.errors import Unavailable
from parley.domain.store.changes import Committed, TeamChanges
from tests.contract.team_store import T1, a_channel, a_post, an_intent
from tests.postgres.cluster import shared_cluster
from tests.postgres.store import a_store

# At the very end of a transaction: what is slow waits, what is loud warns, what is bad fails.
AT_COMMIT = """
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WHILE NEW.id LIKE 'slow%' AND NOT pg_try_advisory_xact_lock_shared(4242, 1) LOOP PERFORM pg_sleep(0.01); END LOOP;
    IF NEW.id LIKE 'loud%' THEN RAISE WARNING 'it may be lost in a failover'; END IF;
    IF NEW.id LIKE 'bad%' THEN RAISE EXCEPTION 'refused at the end'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON post DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION at_commit()
"""

Hold = Callable[[], bool | Awaitable[bool]]
Fetch = Callable[..., Awaitable[list[asyncpg.Record]]]


async def until(holds: Hold) -> None:
    """Wait until it holds; a test waits for so long and no longer."""
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return
        await asyncio.sleep(0.005)


class Database:
    """A hand on the database that no row security holds back."""

    def __init__(self, dsn: str, db: asyncpg.Connection[asyncpg.Record]) -> None:
        self.dsn = dsn
        self.db = db

    async def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.db.fetch(query, *values)]

    async def one(self, query: str, *values: object) -> Any:  # noqa: ANN401  # as the driver
        return await self.db.fetchval(query, *values)

    async def pids(self, name: str) -> list[int]:
        """The connections that go by this name."""
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()"
        return [row[0] for row in await self.db.fetch(query, f"parley {name}")]

    async def cut(self, name: str) -> int:
        """Cut every connection of this name, see it gone, and say how many there were."""
        found = set(await self.pids(name))
        for pid in found:
            await self.db.execute("SELECT pg_terminate_backend($1)", pid)

        async def gone() -> bool:
            return not found & set(await self.pids(name))

        await until(gone)
        return len(found)

    async def without(self, name: str) -> None:
        """Wait until no connection goes by this name: a farewell takes a moment."""

        async def gone() -> bool:
            return await self.pids(name) == []

        await until(gone)

    async def waits(self, name: str, event: str) -> bool:
        """Whether a connection of this name waits for something."""
        query = (
            "SELECT count(*) > 0 FROM pg_stat_activity"
            " WHERE application_name = $1 AND datname = current_database() AND wait_event = $2"
        )
        return bool(await self.db.fetchval(query, f"parley {name}", event))


@asynccontextmanager
async def a_hand(dsn: str) -> AsyncIterator[Database]:
    db = await asyncpg.connect(shared_cluster().dsn(dsn.rpartition("/")[2], "postgres"))
    try:
        yield Database(dsn, db)
    finally:
        db.terminate()


@asynccontextmanager
async def nodes(dsn: str, *names: str) -> AsyncIterator[tuple[PostgresTeamStore, ...]]:
    """Stores by these names, on a database in which `acme` has its channel `chan_1` and its intent."""
    made = [a_store(dsn, name) for name in names]
    try:
        await made[0].commit(TeamChanges(T1, puts=(a_channel(), an_intent())))
        for one in made:
            await one.catch_up(T1)
        yield tuple(made)
    finally:
        for one in made:
            await one.close()


class Watch:
    """What one watcher hears of a node; it cares as long as it is told to."""

    def __init__(self, store: PostgresTeamStore, *, caring: bool = True) -> None:
        self.caring = caring
        self.heard: list[tuple[str, Committed]] = []
        self.lost: list[Unavailable] = []
        self.end = store.watch(lambda *told: self.heard.append(told), needs=self._cares, on_lost=self.lost.append)

    def _cares(self, tenant: str) -> bool:
        return self.caring and tenant == T1

    @property
    def posts(self) -> list[str]:
        return [post.id for _, committed in self.heard for post in committed.posts]


def counted(store: PostgresTeamStore, monkeypatch: pytest.MonkeyPatch, *parts: str) -> list[str]:
    """Grows with each question of a node that has one of these parts in it."""
    asked: list[str] = []
    fetch = store.sessions.fetch

    async def counting(tenants: str, query: str, *values: Any, **given: Any) -> list[asyncpg.Record]:  # noqa: ANN401
        if any(part in query for part in parts):
            asked.append(query)
        return await fetch(tenants, query, *values, **given)

    monkeypatch.setattr(store.sessions, "fetch", counting)
    return asked


async def quiet(store: PostgresTeamStore) -> None:
    """Stop a node from hearing and looking by itself: only its requests and commits move it on."""
    for work in store.follower._tasks:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


def said(*ids: str) -> list[TeamChanges]:
    return [TeamChanges(T1, (a_post(one),)) for one in ids]


async def together(store: PostgresTeamStore, *batch: TeamChanges) -> list[Committed | BaseException]:
    """Commit these so that they queue up together."""
    return await asyncio.gather(*map(store.commit, batch), return_exceptions=True)


@asynccontextmanager
async def held_up(hand: Database) -> AsyncIterator[None]:
    """Somebody holds the head row of the tenant."""
    async with a_hand(hand.dsn) as other, other.db.transaction():
        await other.ask("SELECT 1 FROM tenant WHERE id = 'acme' FOR UPDATE")
        yield


async def waiting_at_the_end(hand: Database, store: PostgresTeamStore) -> asyncio.Task[Committed]:
    """A commit that hangs in its COMMIT, as long as the hand has its lock."""
    await hand.db.execute(AT_COMMIT)
    await hand.ask("SELECT pg_advisory_lock(4242, 1)")
    commit = asyncio.create_task(store.commit(TeamChanges(T1, (a_post("slow"),))))
    await until(lambda: hand.waits("a writes", "PgSleep"))
    return commit
