"""The SQLite store of a server keeps the contract, and says what a file can do to it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from parley.adapters.sqlite.file import split_statements
from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.domain.channel.channel import Channel
from parley.domain.errors.errors import DiskFull, NewerSchema, Unavailable
from parley.domain.store.changes import Query, TeamChanges
from parley.domain.store.transaction import EVICT_STEP
from parley.ports.team import TeamStore
from tests.contract.team_governance import a_fact, log
from tests.contract.team_store import (
    ALL,
    AT,
    T1,
    a_channel,
    a_post,
    a_use,
    an_entry,
    an_event,
    stored,
)
from tests.contract.team_suite import TeamSuite
from tests.rigs.team import in_loop, kinds


class TestSqliteTeamStore(TeamSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "team.db"

    def make_store(self) -> SqliteTeamStore:
        return SqliteTeamStore(str(self.path), kinds())

    @stored
    async def test_a_full_disk_is_said_and_nothing_is_lost_when_there_is_room_again(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        pages = self.limit(store)

        big = [TeamChanges(T1, (a_post(f"msg_b{n}", payload=b"x" * 500_000),)) for n in range(4)]
        outcomes = await asyncio.gather(*map(store.commit, big), return_exceptions=True)
        assert {type(one) for one in outcomes} == {DiskFull}
        small = await store.commit(TeamChanges(T1, (a_post("msg_2"),)))

        self.limit(store, pages)
        await store.commit(TeamChanges(T1, (a_post("msg_3"),)))
        assert small.posts[0].seq == 2
        assert [one.post.id for one in await store.page(T1, Query("chan_1", ALL, AT))] == ["msg_1", "msg_2", "msg_3"]
        assert (await store.tally(T1, "chan_1")).total == 3

    @staticmethod
    def limit(store: TeamStore, pages: int = 0) -> int:
        """Let the file grow by no more than a few pages, or to `pages`; how far it could grow before."""
        assert isinstance(store, SqliteTeamStore)
        db = store._writer._db
        before = int(db.execute("PRAGMA max_page_count").fetchone()[0])
        size = int(db.execute("PRAGMA page_count").fetchone()[0])
        db.execute(f"PRAGMA max_page_count={pages or size + 4}")
        return before

    @stored
    async def test_a_log_and_a_ledger_cannot_be_changed_behind_its_back(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, events=(an_event(),)))
        db = sqlite3.connect(self.path)

        try:
            for statement in ("UPDATE event SET actor = 'x'", "DELETE FROM event"):
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    db.execute(statement)
        finally:
            db.close()

    @stored
    async def test_evicted_messages_leave_the_file_after_a_while(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=5),)))

        for start in range(0, 200, 20):
            await store.commit(TeamChanges(T1, tuple(a_post(f"msg_{n}", "chan_2") for n in range(start, start + 20))))

        db = sqlite3.connect(self.path)
        try:
            (left,) = db.execute("SELECT COUNT(*) FROM post").fetchone()
        finally:
            db.close()
        assert 5 <= left <= 5 + EVICT_STEP + 20

    @stored
    async def test_the_file_is_its_owners_alone(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post(),)))

        files = sorted(self.path.parent.glob("team.db*"))

        assert len(files) == 3
        assert {stat.S_IMODE(os.stat(file).st_mode) for file in files} == {0o600}

    @stored
    async def test_a_closed_store_takes_nothing(self, store: TeamStore) -> None:
        await store.close()

        with pytest.raises(Unavailable):
            await store.commit(TeamChanges(T1, (a_post(),)))


@in_loop
async def test_a_file_of_a_newer_parley_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    store = SqliteTeamStore(str(path), kinds())
    await store.close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    before = path.read_bytes()

    with pytest.raises(NewerSchema):
        SqliteTeamStore(str(path), kinds())

    assert path.read_bytes() == before


_REST = "id, at, exchange, hash, document FROM audit WHERE number = 2"
CHANGES_OF_THE_AUDIT_LOG = (
    "UPDATE audit SET document = x'7b7d' WHERE number = 1",
    "UPDATE audit SET hash = 'x' WHERE number = 1",
    "UPDATE audit SET hash = 'x', document = x'' WHERE number = 1",
    "UPDATE audit SET side = 'eve', document = x'' WHERE number = 1",
    "UPDATE audit SET place = place + 9 WHERE number = 2",
    "UPDATE audit SET at = '', document = x''",
    "UPDATE OR REPLACE audit SET seq = 1, side = 'alice', document = x'' WHERE number = 2",
    "DELETE FROM audit WHERE number = 2",
    "DELETE FROM audit",
    # Another in its place.
    f"INSERT OR REPLACE INTO audit SELECT place, side, seq, {_REST}",
    f"REPLACE INTO audit SELECT place, 'eve', 1, {_REST}",
    f"INSERT INTO audit SELECT place, side, seq, {_REST} ON CONFLICT DO UPDATE SET hash = 'x'",
    # One at the end that takes another's place on its side.
    f"INSERT OR REPLACE INTO audit SELECT place + 1, 'alice', 1, {_REST}",
    f"INSERT OR IGNORE INTO audit SELECT place + 1, 'alice', 1, {_REST}",
    # A gap.
    f"INSERT INTO audit SELECT place + 2, side, seq + 2, {_REST}",
    f"INSERT INTO audit SELECT place - 2, 'eve', 1, {_REST}",
)


@pytest.mark.parametrize("statement", CHANGES_OF_THE_AUDIT_LOG)
@in_loop
async def test_the_audit_log_cannot_be_changed_behind_its_back(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "team.db"
    store = SqliteTeamStore(str(path), kinds())
    await store.commit(TeamChanges(T1, audits=(a_fact("aud_1"), a_fact("aud_2", "bob"))))
    before = await log(store)
    db = sqlite3.connect(path)

    try:
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)
    finally:
        db.close()

    assert await log(store) == before
    await store.close()


@in_loop
async def test_a_file_of_the_first_schema_keeps_everything_that_was_in_it(tmp_path: Path) -> None:
    path, old = tmp_path / "team.db", tmp_path / "old.db"
    event = an_event()
    new = SqliteTeamStore(str(path), kinds())
    await new.commit(TeamChanges(T1, puts=(a_channel(),)))
    await new.commit(TeamChanges(T1, (a_post("msg_1"),), events=(event,), entries=(an_entry(),), saved=a_use()))
    expected = await _content(new)
    await new.close()
    _as_it_was(path, old)

    store = SqliteTeamStore(str(old), kinds())

    assert await _content(store) == expected
    assert (await store.audit_size(T1), await log(store)) == (0, ())
    # And goes on from there.
    done = await store.commit(
        TeamChanges(T1, (a_post("msg_2", exchange_id="exch_1"),), entries=(an_entry(),), audits=(a_fact(),))
    )
    assert (done.posts[0].seq, done.posts[0].position) == (2, 3)
    assert [one.number for one in await log(store)] == [1]
    await store.close()
    db = sqlite3.connect(old)
    assert db.execute("PRAGMA user_version").fetchone() == (team_file.SCHEMA_VERSION,)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


async def _content(store: SqliteTeamStore) -> list[object]:
    return [
        await store.entries(T1, 0, 10),
        await store.feed(T1, 0),
        await store.tally(T1, "chan_1"),
        await store.saved("s1"),
        await store.get(Channel, T1, "chan_1"),
        await store.post(T1, "msg_1"),
    ]


def _as_it_was(path: Path, old: Path) -> None:
    """The same content in a file of the first schema: its tables and columns are all that is copied."""
    db = sqlite3.connect(old, isolation_level=None)
    schema = Path(team_file.__file__).with_name("schema.sql").read_text(encoding="utf-8")
    for statement in split_statements(schema):
        db.execute(statement)
    db.execute("PRAGMA user_version=1")
    db.execute("ATTACH ? AS new", (str(path),))
    tables = [name for (name,) in db.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'")]
    for table in tables:
        columns = ", ".join(row[1] for row in db.execute(f"PRAGMA main.table_info({table})"))
        db.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    db.close()
