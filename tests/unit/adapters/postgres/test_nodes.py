"""The nodes of one database: who does what, how each is, and how the database is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest

from parley.adapters.postgres.nodes import PostgresNodes
from parley.domain.directory import DEFAULT_TENANT
from parley.domain.node import LEASE_SECONDS, Node, StoreReport
from parley.domain.team_changes import TeamChanges
from tests.postgres_cluster import Cluster, a_cluster, aside, drop, shared_cluster
from tests.postgres_store import CONNECTIONS, a_store, fresh_database, with_tables
from tests.team_rig import in_loop


@pytest.fixture(name="dsn")
def a_database() -> Iterator[str]:
    dsn = fresh_database()
    yield dsn
    drop(dsn)


@asynccontextmanager
async def a_node(dsn: str, name: str = "a") -> AsyncIterator[PostgresNodes]:
    store = a_store(dsn, name)
    try:
        yield PostgresNodes(store, f"{name} 1")
    finally:
        await store.close()


def ask(dsn: str, query: str, *values: object) -> list[asyncpg.Record]:
    return shared_cluster().ask(query, *values, database=dsn.rpartition("/")[2])


# ---------------------------------------------------------------- leases


@in_loop
async def test_one_node_leads_a_work_until_it_falls_silent(dsn: str) -> None:
    async with a_node(dsn, "a") as a, a_node(dsn, "b") as b:
        first = [await a.leads("sweep"), await b.leads("sweep"), await a.leads("sweep"), await b.leads("webhooks")]
        ask(dsn, f"UPDATE lease SET until = until - interval '{LEASE_SECONDS} seconds' WHERE work = 'sweep'")

        assert first == [True, False, True, True]
        assert [await b.leads("sweep"), await a.leads("sweep")] == [True, False]


@in_loop
async def test_who_leaves_lets_go_of_its_works_and_is_missed_by_nobody(dsn: str) -> None:
    async with a_node(dsn, "a") as a, a_node(dsn, "b") as b:
        await a.leads("sweep")
        await a.beat(Node("a"))

        await a.leave("a")

        assert await b.leads("sweep")
        assert (await b.report()).nodes == ()


# ---------------------------------------------------------------- how the nodes are


@in_loop
async def test_a_node_is_shown_to_the_others_as_it_said_with_what_its_store_knows(dsn: str) -> None:
    async with a_node(dsn, "a") as a, a_node(dsn, "b") as b:
        await a.beat(Node("a", "1.2.3", "http://a", 12.5, streams=3, leads=("sweep", "webhooks")))

        (shown,) = (await b.report()).nodes

    assert shown._replace(connections=0, seen=0.0) == Node(
        "a", "1.2.3", "http://a", 12.5, streams=3, pool=CONNECTIONS, leads=("sweep", "webhooks")
    )
    assert not shown.silent


@in_loop
async def test_commits_that_wait_are_counted(dsn: str) -> None:
    async with a_node(dsn) as nodes:
        store = nodes._store
        await store.commit(TeamChanges(DEFAULT_TENANT))
        db = await asyncpg.connect(dsn)
        commits = []
        try:
            async with db.transaction():
                await db.execute("SELECT 1 FROM tenant FOR UPDATE")
                commits = [asyncio.ensure_future(store.commit(TeamChanges(DEFAULT_TENANT))) for _ in range(3)]
                report = await reported(nodes, lambda report: report.longest_wait > 0)
                # The first has gone into its transaction; those behind it wait for the next.
                commits += [asyncio.ensure_future(store.commit(TeamChanges(DEFAULT_TENANT))) for _ in range(2)]
                await asyncio.sleep(0)
                queued = nodes.measured(Node("a")).queue
            await asyncio.gather(*commits)
        finally:
            await db.close()

        assert queued == 2
        assert report.waiting == 1
        assert report.oldest_transaction >= report.longest_wait > 0
        assert nodes.measured(Node("a")).queue == (await nodes.report()).waiting == 0


async def reported(nodes: PostgresNodes, holds: Callable[[StoreReport], bool]) -> StoreReport:
    """The first report of which it holds."""
    while True:
        report = await nodes.report()
        if holds(report):
            return report


@in_loop
async def test_a_node_of_a_newer_version_is_shown_with_what_is_known_of_it(dsn: str) -> None:
    newer = msgspec.json.encode({"name": "n", "version": "9", "mood": "good", "leads": ["sweep"]})
    ask(dsn, "INSERT INTO node VALUES ('n', clock_timestamp(), $1)", newer)

    async with a_node(dsn) as nodes:
        (shown,) = (await nodes.report()).nodes

    assert (shown.name, shown.version, shown.leads, shown.streams) == ("n", "9", ("sweep",), 0)


@in_loop
async def test_a_node_that_says_nothing_is_silent_and_forgotten_in_the_end(dsn: str) -> None:
    async with a_node(dsn, "a") as a, a_node(dsn, "b") as b:
        await a.beat(Node("a"))
        await b.beat(Node("b"))
        ask(dsn, "UPDATE node SET seen = seen - interval '1 minute' WHERE name = 'a'")

        nodes = (await b.report()).nodes
        ask(dsn, "UPDATE node SET seen = seen - interval '1 hour' WHERE name = 'a'")

        assert [(node.name, node.silent) for node in nodes] == [("a", True), ("b", False)]
        assert [node.name for node in (await b.report()).nodes] == ["b"]


# ---------------------------------------------------------------- how the database is


@in_loop
async def test_the_database_is_described(dsn: str) -> None:
    async with a_node(dsn) as nodes:
        await nodes._store.commit(TeamChanges(DEFAULT_TENANT))

        report = await nodes.report()

    (most,) = ask(dsn, "SELECT current_setting('max_connections')::int")[0]
    assert (report.kind, report.tenants, report.row_security, report.standbys) == ("postgresql", 1, True, "")
    assert report.version.split(".")[0].isdigit()
    assert report.bytes > 1_000_000
    assert report.connections >= report.ours >= 1
    assert 0 < report.most_connections < most
    assert report.concerns() == ()


@in_loop
async def test_a_superuser_is_told_that_it_walks_through_walls(dsn: str) -> None:
    async with a_node(dsn.replace("parley@", "postgres@")) as nodes:
        assert not (await nodes.report()).row_security


@pytest.mark.slow
@in_loop
async def test_a_node_that_finds_little_room_says_so_at_its_start(caplog: pytest.LogCaptureFixture) -> None:
    with a_cluster(fsync="off", max_connections="14") as cluster:
        dsn = cluster.create_database("parley")
        aside(lambda: with_tables(dsn))
        async with a_node(dsn, "a") as a, a_node(dsn, "b") as b:
            await a.beat(Node("a"))
            before = codes(caplog)

            await b.beat(Node("b"))
            await b.beat(Node("b"))

    assert (before, codes(caplog)) == ([], ["pools_too_large"])


def codes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(one)["action"] for one in caplog.records if one.levelno == logging.WARNING and "action" in vars(one)]


@pytest.fixture(name="pair", scope="module")
def a_pair() -> Iterator[Cluster]:
    with a_cluster(fsync="off") as cluster:
        with_tables(cluster.create_database("parley"))
        cluster.standby()
        yield cluster


@pytest.mark.slow
@in_loop
async def test_a_standby_is_seen_by_who_may_and_missed_when_it_is_gone(pair: Cluster) -> None:
    async with a_node(pair.dsn("parley")) as nodes:
        unknown = await nodes.report()
        pair.ask("GRANT pg_read_all_stats TO parley")
        follows = await nodes.report()
        (standby,) = pair._followers
        standby.stop()
        gone = await reported(nodes, lambda report: not report.replicas)
        # Nothing else can be committed now; who is alive can be seen all the same.
        await nodes.beat(Node("a"))

        assert [(one.name, one.state) for one in unknown.replicas] == [("standby", "")]
        assert [(one.name, one.state) for one in follows.replicas] == [("standby", "sync")]
        assert [report.concerns() for report in (unknown, follows)] == [(), ()]
        assert [one.code for one in gone.concerns()] == ["no_sync_standby"]
        assert [node.name for node in (await nodes.report()).nodes] == ["a"]
        standby.start()
