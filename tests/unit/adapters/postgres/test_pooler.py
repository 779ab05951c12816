"""A pooler that lends sessions by the transaction is noticed before it can do harm; any other way is fine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from parley.adapters.postgres import pooler as pooling
from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.store import open_store
from parley.domain.errors.errors import BadConfig
from parley.domain.store.changes import TeamChanges
from tests.contract.team_store import T1, a_channel, a_post
from tests.postgres.cluster import drop, shared_cluster
from tests.postgres.pooler import Pooler
from tests.postgres.store import fresh_database
from tests.rigs.team import in_loop, kinds


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


@asynccontextmanager
async def a_pooler(dsn: str, *, by_session: bool) -> AsyncIterator[Pooler]:
    pooler = Pooler(shared_cluster().port, dsn.rpartition("/")[2], by_session=by_session)
    await pooler.start()
    try:
        yield pooler
    finally:
        await pooler.close()


@in_loop
async def test_a_pooler_by_transaction_is_refused_with_what_to_do(dsn: str) -> None:
    async with a_pooler(dsn, by_session=False) as pooler:
        with pytest.raises(BadConfig, match="another session of the database for each transaction") as refused:
            await open_store(pooler.dsn(), kinds(), name="a", connections=6)

        assert "session" in refused.value.hint


@in_loop
async def test_a_pooler_by_session_is_worked_through(dsn: str) -> None:
    async with a_pooler(dsn, by_session=True) as pooler:
        store = await open_store(pooler.dsn(), kinds(), name="a", connections=6)
        try:
            await store.commit(TeamChanges(T1, (a_post(),), puts=(a_channel(),)))
            assert await store.post(T1, "msg_1") is not None
            # A pooler knows nothing of what a node asks for with its greeting: it is said afterwards.
            assert [row[0] for row in await store.sessions.fetch("", "SHOW lock_timeout")] == ["2s"]
        finally:
            await store.close()


@in_loop
async def test_without_a_pooler_no_second_connection_is_made(dsn: str) -> None:
    async def another() -> asyncpg.Connection[asyncpg.Record]:
        raise AssertionError

    db = await connect(dsn, "test", 30)
    try:
        await pooling.check(db, another)
    finally:
        db.terminate()
