"""A file as plain tables: the contract, and what is a file's own."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AbstractAsyncContextManager
from contextlib import closing as closing_now
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.adapters.sqlite.team.tables import SqliteTables, SqliteTarget
from parley.domain.directory.callers import NO_TENANT, Tenant
from parley.domain.errors.errors import Conflict, Invalid, NotFound
from parley.domain.mailbox.ledger import GENESIS
from parley.domain.store.changes import TeamChanges
from parley.domain.store.kinds import KINDS
from parley.domain.store.tables import RECORD, TALLY, TENANT
from parley.ports.team import StoreTables, StoreTarget
from tests.contract.team_shelf import ORIGIN, TeamShelfContract, closing, fill
from tests.contract.team_store import AT, T1, T2, a_channel, a_post, an_entry, an_intent
from tests.rigs.team import in_loop


class TestSqliteShelf(TeamShelfContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "parley.db")

    def filling(self) -> AbstractAsyncContextManager[StoreTarget]:
        return closing(SqliteTarget(self.path))

    def reading(self) -> AbstractAsyncContextManager[StoreTables]:
        return closing(SqliteTables(self.path))


async def finished(path: Path) -> None:
    async with closing(SqliteTarget(str(path))) as shelf:
        await shelf.begin(ORIGIN)
        await fill(shelf)
        await shelf.finish()


async def with_store(path: Path, *changes: TeamChanges) -> None:
    store = SqliteTeamStore(str(path), KINDS, durable=False)
    try:
        for one in changes:
            await store.commit(one)
    finally:
        await store.close()


def modes(folder: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mode & 0o777 for one in folder.iterdir()}


def leave_log_behind(path: Path) -> None:
    """The log of a store whose file is gone."""
    log = path.with_name("parley.db-wal")
    with closing_now(team_file.connect(str(path), writes=True)) as db:
        team_file.migrate(db, str(path))
        left_over = log.read_bytes()
    path.unlink()
    log.write_bytes(left_over)


@in_loop
async def test_tenants_that_have_only_records_get_the_numbers_that_come_next(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    made = Tenant(id=T2, tenant_id=NO_TENANT, title=T2, created_at=AT)
    await with_store(path, TeamChanges(T1, puts=(made, an_intent("intent_2", T2), a_channel())))

    async with closing(SqliteTables(str(path))) as shelf:
        found = await shelf.page(TENANT, None, 9)
        assert [row[:2] for row in found] == [(1, T1), (2, NO_TENANT), (3, T2)]
        assert found[1:] == [(2, NO_TENANT, 0, 0, GENESIS, 0), (3, T2, 0, 0, GENESIS, 0)]
        assert [await shelf.page(TENANT, (at,), 1) for at in (1, 2, 3)] == [[found[1]], [found[2]], []]
        assert await shelf.count(TENANT) == 3
        assert [row[:2] for row in await shelf.page(RECORD, None, 9)] == [(1, "channel"), (2, "tenant"), (3, "intent")]
        assert [row[1] for row in await shelf.page(TALLY, None, 9)] == [1]


@in_loop
async def test_what_a_server_writes_meanwhile_is_not_read_but_noticed(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    store = SqliteTeamStore(str(path), KINDS, durable=False)
    await store.commit(TeamChanges(T1, puts=(a_channel(),), entries=(an_entry(),)))
    async with closing(SqliteTables(str(path))) as shelf:
        assert await shelf.mark(now=True) == await shelf.mark()

        await store.commit(TeamChanges(T1, posts=(a_post(),)))

        assert (await shelf.page(TENANT, None, 1))[0][2] == 0
        assert (await shelf.mark()).total == 0
        assert (await shelf.mark(now=True)).total == 1
        assert (await shelf.mark(now=True)).stamp != (await shelf.mark()).stamp
    await store.close()


@in_loop
async def test_what_has_no_position_is_noticed_too(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    store = SqliteTeamStore(str(path), KINDS, durable=False)
    await store.commit(TeamChanges(T1, puts=(a_channel(),)))
    async with closing(SqliteTables(str(path))) as shelf:
        await store.commit(TeamChanges(T1, puts=(an_intent(),)))

        assert await shelf.mark(now=True) != await shelf.mark()
    await store.close()


@in_loop
async def test_no_server_finds_a_store_before_it_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    async with closing(SqliteTarget(str(path))) as shelf:
        await shelf.begin(ORIGIN)
        await fill(shelf)
        assert not path.exists()
        await shelf.finish()

    assert path.exists()
    assert modes(tmp_path) == {"parley.db": 0o600, "parley.db.copy": 0o600}


@in_loop
async def test_a_copy_that_a_server_has_used_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    await finished(path)
    await with_store(path, TeamChanges(T1, puts=(an_intent(),)))

    async with closing(SqliteTarget(str(path))) as shelf:
        with pytest.raises(Conflict, match="in use since"):
            await shelf.begin(ORIGIN)


@in_loop
async def test_a_copy_that_was_only_read_since_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    await finished(path)
    async with closing(SqliteTables(str(path))) as reading:
        await reading.count(TENANT)

    async with closing(SqliteTarget(str(path))) as shelf:
        await shelf.begin(ORIGIN)
        assert await shelf.count(TENANT) == 3


@in_loop
async def test_a_store_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    await with_store(path, TeamChanges(T1, puts=(an_intent(),)))

    async with closing(SqliteTarget(str(path))) as shelf:
        with pytest.raises(Conflict, match="is there already"):
            await shelf.begin(ORIGIN)


@in_loop
async def test_the_log_of_a_file_that_is_gone_is_not_taken_for_the_copys(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    leave_log_behind(path)

    await finished(path)

    async with closing(SqliteTables(str(path))) as shelf:
        assert await shelf.count(TENANT) == 3


@in_loop
async def test_a_mark_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    path.with_name("parley.db.copy").write_bytes(b"[1, 2")

    await finished(path)

    assert path.exists()


def test_only_a_store_of_this_version_is_read(tmp_path: Path) -> None:
    with closing_now(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE tenant (number)")
    with pytest.raises(Invalid, match="schema 0"):
        SqliteTables(str(tmp_path / "other.db"))
    with pytest.raises(NotFound):
        SqliteTables(str(tmp_path / "none.db"))


def test_nothing_is_written_before_it_was_begun(tmp_path: Path) -> None:
    async def tried() -> int:
        async with closing(SqliteTarget(str(tmp_path / "parley.db"))) as shelf:
            return await shelf.count(TENANT)

    with pytest.raises(Conflict):
        asyncio.run(tried())
