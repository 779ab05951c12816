"""The tables are made once, forward only; and a database that would lose messages is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import asyncpg
import pytest

from parley.adapters.postgres import schema
from parley.adapters.postgres.connect import connect
from parley.domain.audit.entry import COLUMNS
from parley.domain.errors.errors import BadConfig, Conflict, NewerSchema
from tests.postgres.cluster import a_cluster, drop, new_database
from tests.postgres.nodes import until
from tests.postgres.store import fresh_database

Work = Callable[["asyncpg.Connection[asyncpg.Record]"], Awaitable[None]]


@pytest.fixture
def empty() -> Iterator[str]:
    dsn = new_database()
    yield dsn
    drop(dsn)


@pytest.fixture
def made() -> Iterator[str]:
    dsn = fresh_database()
    yield dsn
    drop(dsn)


def on(dsn: str, work: Work) -> None:
    async def connected() -> None:
        db = await connect(dsn, "tests")
        try:
            await work(db)
        finally:
            await db.close()

    asyncio.run(connected())


def test_an_empty_database_gets_its_tables_and_a_second_start_changes_nothing(empty: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        assert await schema.migrate(db) == schema.VERSION
        await db.execute("INSERT INTO tenant (id) VALUES ('acme')")

        assert await schema.migrate(db) == schema.VERSION

        assert await db.fetchval("SELECT count(*) FROM tenant") == 1
        assert await db.fetchval("SELECT value FROM about WHERE name = 'schema'") == str(schema.VERSION)

    on(empty, work)


def test_nodes_that_start_together_make_the_tables_once(empty: str) -> None:
    async def together() -> None:
        connections = [await connect(empty, f"node {n}") for n in range(4)]
        try:
            assert await asyncio.gather(*map(schema.migrate, connections)) == [schema.VERSION] * 4
        finally:
            for one in connections:
                await one.close()

    asyncio.run(together())


def test_tables_of_the_version_before_are_brought_up_to_date_with_what_is_in_them(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        assert await schema.migrate(db) == schema.VERSION
        await db.execute("INSERT INTO tenant (id) VALUES ('acme')")
        newer = schema.VERSION + 1

        with monkeypatch.context() as later:
            later.setattr(schema, "VERSION", newer)
            later.setattr(schema, "_read", lambda step: f"ALTER TABLE tenant ADD COLUMN step_{step} text")
            assert await schema.migrate(db) == newer
            assert await schema.migrate(db) == newer

        assert await db.fetchval(f"SELECT step_{newer} IS NULL FROM tenant WHERE id = 'acme'")

    on(empty, work)


def test_channels_that_evicted_messages_before_these_were_counted_are_known_and_older_nodes_count_from_then_on(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        with monkeypatch.context() as earlier:
            earlier.setattr(schema, "VERSION", 3)
            assert await schema.migrate(db) == 3
        await db.execute("INSERT INTO tenant (id) VALUES ('acme')")
        await db.execute("SELECT set_config('parley.tenants', '1', false)")
        await db.execute(
            "INSERT INTO tally (tenant, id, floor, last_at, intent, count, seq)"
            " VALUES (1, 'full', 3, '2026-03', '', 5, 5), (1, 'fresh', 0, '2026-03', '', 5, 5),"
            " (1, 'empty', 5, '2026-02', '', 5, 5)"
        )
        await db.execute(
            "INSERT INTO post SELECT (1::bigint << 40) + seq, 1, seq, 'msg_' || seq, 'a', 'b', '', '',"
            " '2026-01-0' || seq || 'T08:00', '', 'delivered', ',b,', false, '', '', ''"
            " FROM generate_series(3, 5) AS seq"
        )

        assert await schema.migrate(db) == schema.VERSION
        marks = await db.fetch("SELECT tenant, hour, kind, scope, number, last_at FROM traffic ORDER BY scope")
        # As the version before removes them.
        await db.execute("DELETE FROM post WHERE seq = 3")

        assert [tuple(mark) for mark in marks] == [
            (1, "", "uncounted", "empty", 0, "2026-02"),
            (1, "", "uncounted", "full", 0, "2026-01-04T08:00"),
        ]
        removed = await db.fetch("SELECT hour, scope, sender, receivers, number, low FROM traffic WHERE hour <> ''")
        assert [tuple(row) for row in removed] == [("2026-01-03T08", "full", "a", ",b,", 1, 3)]

    on(empty, work)


@pytest.mark.parametrize("dies", [False, True])
def test_a_node_waits_for_another_that_migrates_longer_than_for_any_lock(
    empty: str, caplog: pytest.LogCaptureFixture, dies: bool
) -> None:
    caplog.set_level(logging.INFO, "parley.postgres")

    async def together() -> None:
        first, second = [await connect(empty, name, 30) for name in ("first", "second")]
        try:
            await first.execute("SET idle_in_transaction_session_timeout = 0")
            await second.execute("SET lock_timeout = 1")
            await first.execute("BEGIN")
            await first.execute("SELECT pg_advisory_xact_lock($1)", schema.MIGRATION_LOCK)
            waits = asyncio.create_task(schema.migrate(second))
            await until(lambda: waits.done() or "another node brings the tables up to date" in caplog.text)
            assert not waits.done()

            if dies:
                first.terminate()
            else:
                await first.execute("COMMIT")

            assert await waits == schema.VERSION
        finally:
            for one in (first, second):
                one.terminate()

    asyncio.run(together())


def test_a_newer_schema_that_still_bears_this_version_is_worked_with(made: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        await db.execute("UPDATE about SET value = '99' WHERE name = 'schema'")

        assert await schema.migrate(db) == 99

    on(made, work)


def test_a_newer_schema_that_does_not_bear_this_version_is_refused(made: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        await db.execute("UPDATE about SET value = '99' WHERE name = 'schema'")
        await db.execute("INSERT INTO about VALUES ('works_with', '98')")

        with pytest.raises(NewerSchema, match="99"):
            await schema.migrate(db)

    on(made, work)


def test_a_database_that_is_being_filled_by_a_copy_is_refused(made: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        await db.execute("INSERT INTO about VALUES ('state', $1)", schema.COPYING)

        with pytest.raises(Conflict, match="copy"):
            await schema.check(db, durable=False)

    on(made, work)


@pytest.mark.parametrize("setting", ["off", "local", "remote_write"])
def test_a_role_whose_commits_may_be_lost_is_refused(made: str, setting: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        await db.execute(f"SET synchronous_commit = {setting}")

        with pytest.raises(BadConfig, match="synchronous_commit"):
            await schema.check(db, durable=True)

    on(made, work)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_database_that_does_not_survive_a_power_cut_is_refused(setting: str) -> None:
    settings = {"fsync": "on", "full_page_writes": "on", setting: "off"}
    with a_cluster(**settings) as cluster:
        dsn = cluster.create_database("careless")

        async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
            await schema.migrate(db)
            with pytest.raises(BadConfig, match=setting):
                await schema.check(db, durable=True)
            await schema.check(db, durable=False)

        on(dsn, work)


def test_row_security_holds_for_an_ordinary_role(made: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        assert await schema.has_row_security(db)

    on(made, work)


def test_a_session_sees_only_the_tenants_that_it_named_whatever_it_asks_for(made: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        await db.execute("INSERT INTO tenant (id) VALUES ('one'), ('two')")
        for number in (1, 2):
            await db.execute(f"SET parley.tenants = '{number}'")
            await db.execute("INSERT INTO entry VALUES ($1, 1, '{}', '')", number)
            await db.execute("INSERT INTO journal (tenant, revision, document) VALUES ($1, 1, '')", number)

        seen = {}
        for named in ("", "1", "2", "1,2", "*"):
            await db.execute(f"SET parley.tenants = '{named}'")
            seen[named] = [row[0] for row in await db.fetch("SELECT tenant FROM entry ORDER BY tenant")]

        assert seen == {"": [], "1": [1], "2": [2], "1,2": [1, 2], "*": [1, 2]}
        await db.execute("SET parley.tenants = '1'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute("INSERT INTO entry VALUES (2, 2, '{}', '')")

    on(made, work)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET actor = 'x'",
        "DELETE FROM event",
        "TRUNCATE event",
        "UPDATE entry SET document = '[]'",
        "DELETE FROM entry",
        "TRUNCATE entry",
        *(f"UPDATE audit SET {column} = '99'" for column in COLUMNS),
        "DELETE FROM audit",
        "TRUNCATE audit",
    ],
)
def test_no_log_can_be_changed(made: str, statement: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        await db.execute("SET parley.tenants = '*'")
        await db.execute("INSERT INTO event VALUES (1, 'i', 1, 'e', 't', 'a', '', '', '', '')")
        await db.execute("INSERT INTO entry VALUES (1, 1, '{}', '')")
        await db.execute("INSERT INTO audit VALUES (1, 's', 1, 'a', '', '', 'h', 'said')")

        with pytest.raises(asyncpg.RestrictViolationError, match="append-only"):
            await db.execute(statement)

    on(made, work)


def test_an_audit_document_may_be_let_go_of(made: str) -> None:
    async def work(db: asyncpg.Connection[asyncpg.Record]) -> None:
        await db.execute("SET parley.tenants = '*'")
        await db.execute("INSERT INTO audit VALUES (1, 's', 1, 'a', '', '', 'h', 'said')")

        await db.execute("UPDATE audit SET document = ''")

        assert await db.fetchval("SELECT document FROM audit") == b""

    on(made, work)
