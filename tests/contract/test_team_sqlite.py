"""The SQLite store of a server keeps the contract, and says what a file can do to it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from parley.adapters.sqlite import team_writer
from parley.adapters.sqlite.team_store import SqliteTeamStore
from parley.domain.errors import DiskFull, NewerSchema, Unavailable
from parley.domain.team_changes import Query, TeamChanges
from parley.ports import TeamStore
from tests.contract.team_store import ALL, AT, T1, TeamStoreContract, a_channel, a_post, an_event, stored
from tests.team_rig import in_loop, kinds


class TestSqliteTeamStore(TeamStoreContract):
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
        assert (await store.tally("chan_1")).total == 3

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
        assert 5 <= left <= 5 + team_writer._EVICT_STEP + 20

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
