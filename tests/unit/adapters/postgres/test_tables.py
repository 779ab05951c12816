"""A database as plain tables: the contract, and what is a database's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import asyncpg
import pytest

from parley.adapters.postgres import schema
from parley.adapters.postgres.connect import connect
from parley.adapters.postgres.nodes import PostgresNodes
from parley.adapters.postgres.store import PostgresTeamStore, open_store
from parley.adapters.postgres.tables import PostgresTables, PostgresTarget, open_tables, open_target
from parley.domain.directory.callers import NO_TENANT, Tenant
from parley.domain.errors.errors import BadConfig, Conflict, Invalid, NotFound, Unavailable
from parley.domain.store.changes import TeamChanges
from parley.domain.store.node import Node
from parley.domain.store.tables import POST, RECORD, TENANT, Servers
from parley.ports.team import StoreTables, StoreTarget
from tests.contract.team_shelf import ORIGIN, TeamShelfContract, a_row, closing, fill
from tests.contract.team_store import AT, T1, a_channel, a_post, an_entry, an_intent
from tests.postgres.cluster import drop, new_database, shared_cluster
from tests.postgres.store import a_store, fresh_database
from tests.rigs.team import in_loop, kinds, soon

TABLES_THERE = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


@asynccontextmanager
async def filling(dsn: str) -> AsyncIterator[StoreTarget]:
    async with closing(await open_target(dsn)) as shelf:
        yield shelf


@asynccontextmanager
async def reading(dsn: str) -> AsyncIterator[StoreTables]:
    async with closing(await open_tables(dsn)) as shelf:
        yield shelf


class TestPostgresShelf(TeamShelfContract):
    @pytest.fixture(autouse=True)
    def _place(self, dsn: str) -> None:
        self.dsn = dsn

    def filling(self) -> AbstractAsyncContextManager[StoreTarget]:
        return filling(self.dsn)

    def reading(self) -> AbstractAsyncContextManager[StoreTables]:
        return reading(self.dsn)

    async def let_go_of(self, shelf: StoreTarget) -> None:
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
            await open_tables(dsn)

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


@pytest.mark.slow
@in_loop
async def test_nothing_is_filled_under_a_running_node(dsn: str) -> None:
    store = a_store(dsn)
    nodes = PostgresNodes(store, "holder")
    await nodes.heartbeat(Node("node-1"))
    async with filling(dsn) as shelf:
        with pytest.raises(Conflict, match="node-1"):
            await shelf.begin(ORIGIN)

        await nodes.leave("node-1")
        # It has taken its leave, and still answers who asks.
        with pytest.raises(Conflict, match="test"):
            await shelf.begin(ORIGIN)

        await store.close()
        await shelf.begin(ORIGIN)


@in_loop
async def test_a_node_that_begins_at_the_same_moment_as_a_copy_gives_way(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = schema.has_row_security

    async def said_right_after(db: asyncpg.Connection[asyncpg.Record]) -> bool:
        """The node has looked whether a copy is under way, and is not to be seen for a moment."""
        await db.execute("INSERT INTO about VALUES ('state', $1)", schema.COPYING)
        return await looked(db)

    monkeypatch.setattr(schema, "has_row_security", said_right_after)
    with pytest.raises(Conflict, match="has not ended"):
        await open_store(dsn, kinds(), name="late", connections=4, durable=False)


@pytest.mark.slow
@in_loop
async def test_a_copy_that_finds_a_node_after_all_leaves_the_database_to_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filling(dsn) as shelf:
        assert isinstance(shelf, PostgresTarget)
        looked = shelf._check_no_servers

        async def begun_right_after() -> None:
            await looked()
            monkeypatch.undo()
            nodes.append(await open_store(dsn, kinds(), name="early", connections=4, durable=False))

        nodes: list[PostgresTeamStore] = []
        monkeypatch.setattr(shelf, "_check_no_servers", begun_right_after)
        try:
            with pytest.raises(Conflict, match="early"):
                await shelf.begin(ORIGIN)
            await nodes[0].commit(TeamChanges(T1, puts=(an_intent(),)))
        finally:
            for node in nodes:
                await node.close()
    await (await open_store(dsn, kinds(), name="next", connections=4, durable=False)).close()


@in_loop
async def test_who_uses_a_database_is_told_from_who_is_gone(dsn: str) -> None:
    first, second = a_store(dsn, "node-1"), a_store(dsn, "node-2")
    nodes = PostgresNodes(first, "holder")
    await nodes.heartbeat(Node("node-1"))
    await second.commit(TeamChanges(T1, puts=(an_intent(),)))
    async with closing(await open_tables(dsn)) as shelf:
        assert await shelf.servers() == Servers(("node-1", "node-2"))

        await second.close()
        await until(shelf, Servers(("node-1",)))

        await first.close()  # without a farewell, as a crash
        assert await shelf.servers() == Servers(("node-1",))

        shared_cluster().ask("UPDATE node SET seen = seen - interval '11 s'", database=dsn.rpartition("/")[2])
        assert await shelf.servers() == Servers((), ("node-1",))

        shared_cluster().ask("UPDATE node SET seen = seen - interval '1 h'", database=dsn.rpartition("/")[2])
        assert await shelf.servers() == Servers()


async def until(shelf: PostgresTables, wanted: Servers) -> None:
    async def is_so() -> bool:
        return await shelf.servers() == wanted

    await soon(is_so, 30)


@pytest.mark.parametrize("setting", ["off", "local", "remote_write"])
def test_a_database_whose_commits_may_be_lost_is_refused_before_anything_is_written(setting: str) -> None:
    empty = new_database()
    name = empty.rpartition("/")[2]
    shared_cluster().ask(f'ALTER DATABASE "{name}" SET synchronous_commit = {setting}')

    with pytest.raises(BadConfig, match="synchronous_commit"):
        asyncio.run(open_target(empty))

    assert shared_cluster().ask(TABLES_THERE, database=name)[0][0] == 0
    drop(empty)


def test_a_copy_that_was_begun_is_not_gone_on_with_where_commits_may_be_lost_now(dsn: str) -> None:
    async def begin() -> None:
        async with filling(dsn) as shelf:
            await shelf.begin(ORIGIN)

    asyncio.run(begin())
    shared_cluster().ask(f'ALTER DATABASE "{dsn.rpartition("/")[2]}" SET synchronous_commit = off')

    with pytest.raises(BadConfig, match="synchronous_commit"):
        asyncio.run(begin())


def test_a_database_of_another_encoding_is_refused_before_anything_is_written() -> None:
    shared_cluster().ask("CREATE DATABASE latin OWNER parley TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")

    with pytest.raises(BadConfig, match="LATIN1"):
        asyncio.run(open_target(shared_cluster().dsn("latin")))

    assert shared_cluster().ask(TABLES_THERE, database="latin")[0][0] == 0
    shared_cluster().drop_database("latin")


@in_loop
async def test_what_a_node_writes_meanwhile_is_not_read_but_counted(dsn: str) -> None:
    store = a_store(dsn)
    await store.commit(TeamChanges(T1, puts=(a_channel(),), entries=(an_entry(),)))
    async with reading(dsn) as shelf:
        before = await shelf.mark()
        assert await shelf.mark(now=True) == before

        await store.commit(TeamChanges(T1, posts=(a_post(),)))
        await store.commit(TeamChanges(T1, puts=(an_intent(),)))

        now = await shelf.mark(now=True)
        assert (now.total - before.total, now.stamp - before.stamp) == (1, 2)
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
        await open_tables(empty)
    drop(empty)
    shared_cluster().ask("UPDATE about SET value = '9' WHERE name = 'schema'", database=dsn.rpartition("/")[2])
    with pytest.raises(Invalid, match="schema 9"):
        await open_tables(dsn)


@in_loop
async def test_what_leads_to_no_database_is_said() -> None:
    with pytest.raises(Unavailable):
        await open_tables("postgresql://parley@127.0.0.1:1/none")
    with pytest.raises(Invalid):
        await open_tables("postgresql://parley@127.0.0.1:port/none")


@in_loop
async def test_a_node_that_starts_while_a_database_is_moved_waits_and_is_refused(dsn: str) -> None:
    async with closing(await open_tables(dsn)) as shelf:
        async with shelf.hold():
            assert (await shelf.servers()).running == ()
            node = asyncio.create_task(open_store(dsn, kinds(), name="late", connections=4))
            await soon(lambda: is_connected(dsn, "late"))
            await shelf.mark_moved("/data/team")
            assert not node.done()
        with pytest.raises(Conflict, match="was moved to /data/team"):
            await node
        await shelf.mark_moved("")
        assert await shelf.moved_to() == ""
    await (await open_store(dsn, kinds(), name="again", connections=4)).close()


async def is_connected(dsn: str, name: str) -> bool:
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND datname = $2"
    return bool(await asyncio.to_thread(shared_cluster().ask, query, f"parley {name}", dsn.rpartition("/")[2]))


@in_loop
async def test_nothing_is_copied_into_a_database_that_was_moved(dsn: str) -> None:
    async with closing(await open_tables(dsn)) as shelf:
        await shelf.mark_moved("/data/team")
    async with filling(dsn) as target:
        with pytest.raises(Conflict, match="was moved to /data/team"):
            await target.begin(ORIGIN)
