"""A database as plain tables: the contract, and what is a database's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from parley.adapters.postgres import schema
from parley.adapters.postgres.nodes import PostgresNodes
from parley.adapters.postgres.sessions import connect
from parley.adapters.postgres.team_shelf import open_filling, open_shelf
from parley.domain.directory import NO_TENANT, Tenant
from parley.domain.errors import Conflict, Invalid, NotFound, Unavailable
from parley.domain.node import Node
from parley.domain.shelf import POST, RECORD, TENANT
from parley.domain.team_changes import TeamChanges
from parley.team_ports import FillingShelf, Shelf
from tests.contract.team_shelf import ORIGIN, TeamShelfContract, a_row, closing, fill
from tests.contract.team_store import AT, T1, a_channel, a_post, an_entry, an_intent
from tests.postgres_cluster import drop, new_database, shared_cluster
from tests.postgres_store import a_store, fresh_database
from tests.team_rig import in_loop, soon


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


@asynccontextmanager
async def filling(dsn: str) -> AsyncIterator[FillingShelf]:
    async with closing(await open_filling(dsn)) as shelf:
        yield shelf


@asynccontextmanager
async def reading(dsn: str) -> AsyncIterator[Shelf]:
    async with closing(await open_shelf(dsn)) as shelf:
        yield shelf


class TestPostgresShelf(TeamShelfContract):
    @pytest.fixture(autouse=True)
    def _place(self, dsn: str) -> None:
        self.dsn = dsn

    def filling(self) -> AbstractAsyncContextManager[FillingShelf]:
        return filling(self.dsn)

    def reading(self) -> AbstractAsyncContextManager[Shelf]:
        return reading(self.dsn)

    async def let_go_of(self, shelf: FillingShelf) -> None:
        await super().let_go_of(shelf)
        await forgotten(self.dsn)


async def forgotten(dsn: str) -> None:
    """Wait until the database has noticed that nobody fills it any more."""
    name = dsn.rpartition("/")[2]
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'parley store copy' AND datname = $1"
    ask = shared_cluster().ask

    async def is_forgotten() -> bool:
        return not await asyncio.to_thread(ask, query, name)

    await soon(is_forgotten, 30)


async def state(dsn: str) -> None:
    """What a node does when it starts."""
    db = await connect(dsn, "test")
    try:
        await schema.check(db, durable=False)
    finally:
        db.terminate()


@in_loop
async def test_no_node_starts_before_it_is_finished(dsn: str) -> None:
    async with filling(dsn) as shelf:
        await shelf.begin(ORIGIN)
        with pytest.raises(Conflict):
            await state(dsn)
        with pytest.raises(Conflict):
            await open_shelf(dsn)

        await shelf.finish()

        await state(dsn)


@in_loop
async def test_new_tenants_and_channels_get_numbers_behind_those_that_were_copied(dsn: str) -> None:
    async with filling(dsn) as shelf:
        await shelf.begin(ORIGIN)
        await fill(shelf)
        await shelf.put(POST, [a_row(8, channel=30)], [])
        await shelf.finish()
    store = a_store(dsn)
    made = Tenant(id="new", tenant_id=NO_TENANT, title="new", created_at=AT)
    await store.commit(TeamChanges("new", puts=(made, a_channel("chan_9", "new"))))
    await store.close()

    async with reading(dsn) as found:
        assert [row[:2] for row in await found.page(TENANT, (7,), 9)] == [(8, "new")]
        assert (2, "tenant", "new") in [row[:3] for row in await found.page(RECORD, None, 99)]
    assert shared_cluster().ask("SELECT max(number) FROM tally", database=dsn.rpartition("/")[2])[0][0] == 31


@in_loop
async def test_a_copy_that_a_node_has_used_is_not_written_over(dsn: str) -> None:
    async with filling(dsn) as shelf:
        await shelf.begin(ORIGIN)
        await fill(shelf)
        await shelf.finish()
    store = a_store(dsn)
    await store.commit(TeamChanges(T1, puts=(an_intent(),)))
    await store.close()

    await forgotten(dsn)
    async with filling(dsn) as shelf:
        with pytest.raises(Conflict, match="in use since"):
            await shelf.begin(ORIGIN)


@in_loop
async def test_a_store_that_is_there_is_left_alone(dsn: str) -> None:
    store = a_store(dsn)
    await store.commit(TeamChanges(T1, puts=(an_intent(),)))
    await store.close()

    async with filling(dsn) as shelf:
        with pytest.raises(Conflict, match="of its own"):
            await shelf.begin(ORIGIN)


@in_loop
async def test_nothing_is_filled_under_a_running_node(dsn: str) -> None:
    store = a_store(dsn)
    nodes = PostgresNodes(store, "holder")
    await nodes.beat(Node("node-1"))
    async with filling(dsn) as shelf:
        with pytest.raises(Conflict, match="node-1"):
            await shelf.begin(ORIGIN)

        await nodes.leave("node-1")

        await shelf.begin(ORIGIN)
    await store.close()


@in_loop
async def test_what_a_node_writes_meanwhile_is_not_read_but_counted(dsn: str) -> None:
    store = a_store(dsn)
    await store.commit(TeamChanges(T1, puts=(a_channel(),), entries=(an_entry(),)))
    async with reading(dsn) as shelf:
        before = await shelf.pulse()
        assert await shelf.pulse(now=True) == before

        await store.commit(TeamChanges(T1, posts=(a_post(),)))
        await store.commit(TeamChanges(T1, puts=(an_intent(),)))

        now = await shelf.pulse(now=True)
        assert (now.said - before.said, now.stamp - before.stamp) == (1, 2)
        assert await shelf.count(POST) == 0
    await store.close()


@in_loop
async def test_a_text_that_the_database_cannot_keep_is_said(dsn: str) -> None:
    async with filling(dsn) as shelf:
        await shelf.begin(ORIGIN)
        with pytest.raises(Invalid, match="cannot keep"):
            await shelf.put(POST, [a_row(1, sender="a\x00b")], [])


@in_loop
async def test_a_database_without_a_store_or_of_another_version_is_not_read(dsn: str) -> None:
    empty = new_database()
    with pytest.raises(NotFound):
        await open_shelf(empty)
    drop(empty)
    shared_cluster().ask("UPDATE about SET value = '9' WHERE name = 'schema'", database=dsn.rpartition("/")[2])
    with pytest.raises(Invalid, match="schema 9"):
        await open_shelf(dsn)


@in_loop
async def test_what_leads_to_no_database_is_said() -> None:
    with pytest.raises(Unavailable):
        await open_shelf("postgresql://parley@127.0.0.1:1/none")
    with pytest.raises(Invalid):
        await open_shelf("postgresql://parley@127.0.0.1:port/none")
