"""The nodes of one database: who does what, how each is, and how the database is."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest

from parley.adapters.postgres.nodes import PostgresNodes
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.store.changes import TeamChanges
from parley.domain.store.node import LEASE_SECONDS, Node, StoreReport
from tests.postgres.cluster import Cluster, a_cluster, aside, drop, shared_cluster
from tests.postgres.store import CONNECTIONS, a_store, fresh_database, with_tables
from tests.rigs.log_records import logged_by
from tests.rigs.team import in_loop


@pytest.fixture(name="dsn")
def a_database() -> Iterator[str]:
    dsn = fresh_database()
    yield dsn
    drop(dsn)


@asynccontextmanager
async def a_node(dsn: str, name: str = "a", start: int = 1) -> AsyncIterator[PostgresNodes]:
    store = a_store(dsn, name)
    try:
        yield PostgresNodes(store, f"{name} {start}")
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
        await a.heartbeat(Node("a"))

        await a.leave("a")

        assert await b.leads("sweep")
        assert (await b.report()).nodes == ()


# ---------------------------------------------------------------- how the nodes are


@in_loop
async def test_a_node_is_shown_to_the_others_as_it_said_with_what_its_store_knows(dsn: str) -> None:
    async with a_node(dsn, "a") as a, a_node(dsn, "b") as b:
        await a.heartbeat(Node("a", "1.2.3", "http://a", 12.5, streams=3, leads=("sweep", "webhooks")))

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
        await a.heartbeat(Node("a"))
        await b.heartbeat(Node("b"))
        ask(dsn, "UPDATE node SET seen = seen - interval '1 minute' WHERE name = 'a'")

        nodes = (await b.report()).nodes
        ask(dsn, "UPDATE node SET seen = seen - interval '1 hour' WHERE name = 'a'")

        assert [(node.name, node.silent) for node in nodes] == [("a", True), ("b", False)]
        assert [node.name for node in (await b.report()).nodes] == ["b"]


# ---------------------------------------------------------------- one name, two servers

FIRST, SECOND = Node("a", url="http://1"), Node("a", url="http://2")


def shared(nodes: PostgresNodes) -> str:
    """Where this node believes another one of its name to be."""
    return nodes.measured(Node("a")).namesake


@in_loop
async def test_two_servers_of_one_name_both_find_out_and_log_it_once(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_node(dsn, start=1) as one, a_node(dsn, start=2) as two, a_node(dsn, "b") as third:
        for _ in range(5):
            await one.heartbeat(FIRST)
            await two.heartbeat(SECOND)

        assert (shared(one), shared(two)) == ("http://2", "http://1")
        assert [one.detail for one in (await third.report()).concerns() if one.code == "name_shared"] == [
            "two servers are called a: http://2 and http://1"
        ]
    assert codes(caplog) == ["name_shared"] * 2
    assert {vars(one)["detail"] for one in logged_by("parley.postgres", caplog) if "detail" in vars(one)} == {
        "http://1",
        "http://2",
    }


@in_loop
async def test_who_beats_at_the_same_moment_finds_what_the_other_has_just_written(dsn: str) -> None:
    other = msgspec.json.encode({"name": "a", "url": "http://2", "instance": "a 2"})
    async with a_node(dsn) as nodes, a_node(dsn, "b") as watching:
        await nodes.heartbeat(FIRST)
        db = await asyncpg.connect(dsn)
        try:
            async with db.transaction():
                await db.execute("UPDATE node SET seen = clock_timestamp(), document = $1", other)
                beating = asyncio.ensure_future(nodes.heartbeat(FIRST))
                await reported(watching, lambda report: report.waiting == 1)
            await beating
        finally:
            await db.close()

        assert shared(nodes) == "http://2"


@in_loop
async def test_two_that_do_not_take_turns_still_share_their_name(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with a_node(dsn, start=1) as one, a_node(dsn, start=2) as two:
        await one.heartbeat(FIRST)
        await two.heartbeat(SECOND)
        for _ in range(3):
            await one.heartbeat(FIRST)
        met = shared(one)
        await two.heartbeat(SECOND)
        await one.heartbeat(FIRST)

    assert (met, codes(caplog)) == ("http://2", ["name_shared"] * 2)


@in_loop
async def test_a_server_that_was_killed_and_started_again_shares_its_name_with_nobody(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_node(dsn, start=1) as killed, a_node(dsn, start=2) as again:
        await killed.heartbeat(FIRST)
        await killed.heartbeat(FIRST)
        for _ in range(3):
            await again.heartbeat(FIRST)

        assert shared(again) == ""
    assert codes(caplog) == []


@in_loop
async def test_a_database_that_was_put_back_makes_no_namesake_of_who_was_there_before(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_node(dsn, start=1) as killed, a_node(dsn, start=2) as again:
        await killed.heartbeat(FIRST)
        (backup,) = ask(dsn, "SELECT seen, document FROM node")
        await again.heartbeat(FIRST)
        ask(dsn, "UPDATE node SET seen = $1, document = $2", *backup)
        await again.heartbeat(FIRST)

        assert shared(again) == ""
    assert codes(caplog) == []


@in_loop
async def test_a_server_of_a_version_that_does_not_say_which_one_it_is_is_no_namesake(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    older = msgspec.json.encode({"name": "a", "version": "0.4.0"})
    async with a_node(dsn) as nodes:
        await nodes.heartbeat(FIRST)
        ask(dsn, "UPDATE node SET seen = clock_timestamp(), document = $1", older)
        await nodes.heartbeat(FIRST)

        assert shared(nodes) == ""
    assert codes(caplog) == []


@in_loop
async def test_a_name_is_its_own_again_when_the_other_is_gone_and_who_comes_next_is_told_of(
    dsn: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_node(dsn, start=1) as one, a_node(dsn, start=2) as two, a_node(dsn, start=3) as next_one:
        await one.heartbeat(FIRST)
        await two.heartbeat(SECOND)
        await one.heartbeat(FIRST)
        before = shared(one)
        # The other has not been met for long enough
        monkeypatch.setattr("parley.adapters.postgres.nodes.SILENT_SECONDS", 0.0)
        await one.heartbeat(FIRST)
        alone = shared(one)
        await next_one.heartbeat(Node("a", url="http://3"))
        await one.heartbeat(FIRST)

        assert (before, alone, shared(one)) == ("http://2", "", "http://3")
    assert codes(caplog) == ["name_shared"] * 2


@in_loop
async def test_who_leaves_takes_nothing_of_its_namesake_along(dsn: str) -> None:
    async with a_node(dsn, start=1) as one, a_node(dsn, start=2) as two, a_node(dsn, "b") as third:
        await one.heartbeat(FIRST)
        await two.heartbeat(SECOND)

        await one.leave("a")
        left = [node.url for node in (await third.report()).nodes]
        await two.leave("a")

        assert left == ["http://2"]
        assert (await third.report()).nodes == ()


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
async def test_a_database_that_does_not_say_how_it_is_is_told_of_with_its_reason(dsn: str) -> None:
    async with a_node(dsn) as nodes:
        ask(dsn, "REVOKE SELECT ON pg_locks FROM PUBLIC")
        unheard = (await nodes.report()).concerns()
        await nodes.heartbeat(Node("a"))
        heard = (await nodes.report()).concerns()

    assert [one.code for one in (*unheard, *heard)] == ["database_unreachable"] * 2
    assert unheard[0].detail == "the database cannot be asked: permission denied for view pg_locks"
    assert re.fullmatch(rf"{unheard[0].detail}; it was last reached \d+ s ago", heard[0].detail)


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
            await a.heartbeat(Node("a"))
            before = codes(caplog)

            await b.heartbeat(Node("b"))
            await b.heartbeat(Node("b"))

    assert (before, codes(caplog)) == ([], ["pools_too_large"])


def codes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        vars(one)["action"]
        for one in logged_by("parley.postgres", caplog)
        if one.levelno == logging.WARNING and "action" in vars(one)
    ]


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
        await nodes.heartbeat(Node("a"))

        assert [(one.name, one.state) for one in unknown.replicas] == [("standby", "")]
        assert [(one.name, one.state) for one in follows.replicas] == [("standby", "sync")]
        assert [report.concerns() for report in (unknown, follows)] == [(), ()]
        assert [one.code for one in gone.concerns()] == ["no_sync_standby"]
        assert [node.name for node in (await nodes.report()).nodes] == ["a"]
        standby.start()
