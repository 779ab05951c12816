"""Copying from store to store, here from file to file: whatever happened, the second one is the first one then."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextlib import closing as closing_now
from pathlib import Path

import pytest

from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.adapters.sqlite.team.tables import SqliteTables, SqliteTarget
from parley.app.store.copy import CHECKING, COPYING, Comparison, CopyOutcome, compare, copy
from parley.domain.errors.errors import Conflict, Invalid
from parley.domain.errors.rules import LogChanged
from parley.domain.store.changes import TeamChanges
from parley.domain.store.kinds import KINDS
from parley.domain.store.tables import PAGE_BYTES, TABLES, Key, Row, Servers, Table
from tests.contract.team_shelf import closing
from tests.contract.team_store import a_channel, a_post, an_entry, an_intent
from tests.rigs.team import in_loop
from tests.samples.tables import ACME, GLOBEX, let_go, live, tables


class Cut(Exception):
    """The copy ends here."""


class Fragile(SqliteTarget):
    """One whose process dies after so many pages."""

    def __init__(self, path: str, pages: int) -> None:
        super().__init__(path)
        self.pages = pages

    async def put(self, table: Table, rows: Sequence[Row], gone: Sequence[Key]) -> None:
        if not self.pages:
            raise Cut
        self.pages -= 1
        await super().put(table, rows, gone)


@asynccontextmanager
async def lived(path: Path) -> AsyncIterator[SqliteTeamStore]:
    """A store in use, in which something has happened."""
    store = SqliteTeamStore(str(path), KINDS, durable=False)
    try:
        await live(store, ACME)
        await live(store, GLOBEX)
        yield store
    finally:
        await store.close()


async def nothing() -> None:
    """A check that finds nothing."""


async def nobody() -> Servers:
    """No server is there."""
    return Servers()


class Use:
    """Which servers use the source, what became of it, and in which order."""

    def __init__(self, served: Callable[[], Awaitable[Servers]] = nobody, place: str = "") -> None:
        self.served = served
        self.place = place
        self.steps: list[str] = []

    async def servers(self) -> Servers:
        self.steps.append("servers")
        return await self.served()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        self.steps.append("hold")
        yield
        self.steps.append("release")

    async def moved_to(self) -> str:
        return self.place

    async def mark_moved(self, place: str) -> None:
        self.steps.append("moved")
        self.place = place


def silent(doing: str, done: int, total: int) -> None:
    """Nobody looks."""


async def copied(
    source: Path,
    target: Path,
    check: Callable[[], Awaitable[None]] = nothing,
    told: Callable[[str, int, int], None] = silent,
    *,
    though_behind: bool = False,
    served: Callable[[], Awaitable[Servers]] = nobody,
    use: Use | None = None,
) -> CopyOutcome:
    async with closing(SqliteTables(str(source))) as taken, closing(SqliteTarget(str(target))) as filling:
        return await copy(
            taken, filling, check, told, though_behind=though_behind, use=use or Use(served), place=target.name
        )


async def compared(source: Path, target: Path) -> Comparison:
    async with closing(SqliteTables(str(source))) as one, closing(SqliteTables(str(target))) as other:
        return await compare(one, other, silent)


async def content(path: Path) -> dict[str, list[Row]]:
    async with closing(SqliteTables(str(path))) as shelf:
        return await tables(shelf)


def tampered(path: Path, statement: str) -> None:
    """Change a file behind everybody's back, past its triggers."""
    with closing_now(sqlite3.connect(path, isolation_level=None)) as db:
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        assert db.execute(statement).rowcount > 0


@in_loop
async def test_everything_comes_over_and_a_server_goes_on_where_the_other_one_was(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source) as store:
        done = await copied(source, target)
        before = await store.commit(TeamChanges(ACME, posts=(a_post("msg_new", "chan_acme_1"),)))

    assert (done.finished, done.moved, done.behind) == (True, False, 0)
    assert all(one.rows == one.new for one in done.tables)
    assert [one.table for one in done.tables if not one.rows] == []
    again = SqliteTeamStore(str(target), KINDS, durable=False)
    after = await again.commit(TeamChanges(ACME, posts=(a_post("msg_new", "chan_acme_1"),)))
    await again.close()
    assert after == before
    assert await content(source) == await content(target)


@in_loop
async def test_one_more_copy_writes_only_what_came_since(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source) as store:
        await copied(source, target)
        await let_go(store, ACME)
        await live(store, ACME, "2")
        done = await copied(source, target)
        again = await copied(source, target)

    counts = {one.table: (one.new, one.changed, one.gone) for one in done.tables}
    assert counts["entry"] == (2, 0, 0)
    assert counts["audit"] == (4, 2, 0)
    assert counts["tenant"] == (0, 1, 0)
    assert not any(one.new or one.changed or one.gone for one in again.tables)
    assert await content(source) == await content(target)


@in_loop
async def test_a_copy_that_is_cut_off_anywhere_and_overtaken_by_changes_ends_up_the_same(tmp_path: Path) -> None:
    chance = random.Random(7)
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source) as store:
        for round_ in range(12):
            await live(store, chance.choice((ACME, GLOBEX)), f"r{round_}")
            fragile = Fragile(str(target), chance.randrange(1, 6))
            async with closing(SqliteTables(str(source))) as taken, closing(fragile):
                with pytest.raises(Cut):
                    await copy(taken, fragile, nothing, silent, use=Use(), place="b.db")
            assert not target.exists()
        done = await copied(source, target)

    assert done.finished
    assert await content(source) == await content(target)


@in_loop
async def test_what_comes_meanwhile_is_counted_and_the_copy_is_not_finished(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source) as store:

        async def write() -> None:
            await store.commit(TeamChanges(ACME, posts=(a_post("msg_new", "chan_acme_1"),)))

        done = await copied(source, target, check=write)
        assert (done.finished, done.moved, done.behind) == (False, True, 1)
        assert not target.exists()
        assert (await copied(source, target)).finished
        assert target.exists()


@in_loop
async def test_a_finished_copy_marks_its_source_as_moved_last_of_all(tmp_path: Path) -> None:
    source, target, use = tmp_path / "a.db", tmp_path / "b.db", Use()

    class Noted(SqliteTarget):
        async def finish(self) -> None:
            await super().finish()
            use.steps.append("finished")

    async with lived(source), closing(SqliteTables(str(source))) as taken, closing(Noted(str(target))) as filling:
        done = await copy(taken, filling, nothing, silent, use=use, place="b.db")

    assert (done.finished, done.closed, use.place) == (True, True, "b.db")
    assert use.steps == ["hold", "servers", "finished", "moved", "release"]


@in_loop
async def test_a_copy_that_is_cut_off_refused_behind_or_a_trial_leaves_its_source_open(tmp_path: Path) -> None:
    async def cut() -> None:
        raise Cut

    async def served() -> Servers:
        return Servers(("node-1",))

    source, target, use = tmp_path / "a.db", tmp_path / "b.db", Use()
    async with lived(source):
        with pytest.raises(Cut):
            await copied(source, target, cut, use=use)
        assert not (await copied(source, target, use=Use(served))).closed
        trial = await copied(source, target, use=use, though_behind=True)

    assert (trial.finished, trial.closed, use.place) == (True, False, "")
    assert "moved" not in use.steps


@in_loop
async def test_a_source_that_was_moved_is_copied_to_the_same_place_again_and_to_no_other(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source):
        use = Use()
        for _ in range(2):
            assert (await copied(source, target, use=use)).closed
        with pytest.raises(Conflict, match=r"FROM was moved to b\.db"):
            await copied(source, tmp_path / "c.db", use=use)
        assert (await copied(source, tmp_path / "c.db", use=use, though_behind=True)).finished

    assert use.place == "b.db"


@in_loop
async def test_where_a_server_runs_the_copy_is_not_finished_though_nothing_came(tmp_path: Path) -> None:
    async def served() -> Servers:
        return Servers(("node-1",))

    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source):
        done = await copied(source, target, served=served)
        assert (done.finished, done.moved, done.servers.running) == (False, False, ("node-1",))
        assert not target.exists()
        assert (await copied(source, target, served=served, though_behind=True)).finished


@in_loop
async def test_one_that_fell_silent_does_not_keep_a_copy_from_its_end(tmp_path: Path) -> None:
    async def served() -> Servers:
        return Servers((), ("node-1",))

    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source):
        done = await copied(source, target, served=served)
    assert (done.finished, done.servers.silent) == (True, ("node-1",))


@in_loop
async def test_what_a_server_writes_before_it_goes_is_not_overlooked(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source) as store:

        async def goes() -> Servers:
            await store.commit(TeamChanges(ACME, posts=(a_post("msg_last", "chan_acme_1"),)))
            return Servers()

        done = await copied(source, target, served=goes)

    assert (done.finished, done.moved, done.behind) == (False, True, 1)
    assert not target.exists()


@in_loop
async def test_a_trial_is_finished_though_it_is_behind(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source) as store:

        async def write() -> None:
            await store.commit(TeamChanges(ACME, entries=(an_entry(),)))

        done = await copied(source, target, check=write, though_behind=True)

    assert (done.finished, done.moved, done.behind) == (True, True, 0)
    assert target.exists()


@in_loop
async def test_a_check_that_fails_leaves_the_copy_unfinished(tmp_path: Path) -> None:
    async def broken() -> None:
        raise Invalid("number 3: hash does not match content")

    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source):
        with pytest.raises(Invalid, match="number 3"):
            await copied(source, target, check=broken)
    assert not target.exists()


@in_loop
async def test_another_installation_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source, target, other = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "c.db"
    async with lived(source):
        await copied(source, target)
    store = SqliteTeamStore(str(other), KINDS, durable=False)
    await store.commit(TeamChanges(ACME, puts=(a_channel(),), entries=(an_entry("another"),)))
    await store.close()
    before = target.read_bytes()

    with pytest.raises(Conflict, match="another store"):
        await copied(other, target)

    assert (tmp_path / "b.db.copying").read_bytes() == before or target.read_bytes() == before


@pytest.mark.parametrize("table", ["event", "entry", "audit"])
def test_logs_that_went_another_way_are_never_overwritten(tmp_path: Path, table: str) -> None:
    """A source that was put back from an older backup and has gone on from there."""
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    key = {"event": "number", "entry": "position", "audit": "place"}[table]

    @in_loop
    async def test() -> None:
        async with lived(source) as store:

            async def write() -> None:
                await store.commit(TeamChanges(ACME, puts=(an_intent("intent_new", ACME),)))

            await copied(source, target, check=write)
        tampered(source, f"DELETE FROM {table} WHERE {key} = (SELECT max({key}) FROM {table})")

        with pytest.raises(Conflict, match=f"another history: .* of its {table} log"):
            await copied(source, target)

    test()


@in_loop
async def test_a_source_that_is_out_of_order_is_said(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source):
        pass
    tampered(source, "UPDATE tenant SET head = 1 WHERE number = 1")

    with pytest.raises(LogChanged, match="the last one is 1"):
        await copied(source, target)
    assert not target.exists()


@in_loop
async def test_where_nothing_ever_happened_there_is_nothing_to_copy(tmp_path: Path) -> None:
    store = SqliteTeamStore(str(tmp_path / "a.db"), KINDS, durable=False)
    await store.close()

    with pytest.raises(Invalid, match="the source is empty"):
        await copied(tmp_path / "a.db", tmp_path / "b.db")


@in_loop
async def test_two_stores_are_compared_row_by_row(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source):
        await copied(source, target)
    assert (await compared(source, target)).same
    tampered(target, "UPDATE post SET payload = x'00' WHERE id = 'ask_acme_1'")
    tampered(target, "DELETE FROM saved")
    tampered(source, "DELETE FROM budget WHERE \"window\" = ''")

    found = await compared(source, target)

    counts = {one.table: (one.missing, one.other, one.surplus) for one in found.differences}
    assert counts == {"post": (0, 1, 0), "saved": (2, 0, 0), "budget": (0, 0, 2)}
    assert [one.first for one in found.differences if one.table == "saved"] == ["scope scope_acme_1"]
    assert not found.same


@in_loop
async def test_progress_rises_to_the_end_of_both_parts(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    async with lived(source):
        done = await copied(source, target, told=lambda *said: heard.append((said[0], said[1], said[2])))

    rows = sum(one.rows for one in done.tables)
    for part in (COPYING, CHECKING):
        told = [(done, total) for doing, done, total in heard if doing == part]
        assert told == sorted(told)
        assert told[-1] == (rows, rows)


@in_loop
async def test_long_rows_are_read_in_short_pages(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    lengths: list[int] = []

    class Measured(SqliteTables):
        async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
            found = await super().page(table, after, limit)
            lengths.append(sum(len(row[13]) for row in found) if table.name == "post" else 0)
            return found

    store = SqliteTeamStore(str(source), KINDS, durable=False)
    long = b'"' + b"x" * 20_000 + b'"'
    posts = tuple([a_post(f"msg_{n}", payload=long if n > 128 else b"{}") for n in range(1_200)])
    await store.commit(TeamChanges(ACME, puts=(a_channel(most=2_000),), entries=(an_entry(),)))
    await store.commit(TeamChanges(ACME, posts=posts))
    await store.close()

    async with closing(Measured(str(source))) as taken, closing(SqliteTarget(str(target))) as filling:
        done = await copy(taken, filling, nothing, silent, use=Use(), place="b.db")

    assert {one.table: one.rows for one in done.tables}["post"] == 1_200
    assert max(lengths) < PAGE_BYTES + 30_000
    assert sum(one > PAGE_BYTES // 2 for one in lengths) > 2


def test_every_table_is_copied_after_what_it_belongs_to() -> None:
    names = [table.name for table in TABLES]
    assert names[0] == "tenant"
    assert names.index("post") < names.index("receipt")
