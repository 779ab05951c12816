"""The writer thread: many changes in one transaction, and what becomes of them when the file fails."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team import writer as team_writer
from parley.adapters.sqlite.team.cache import StoreCache
from parley.adapters.sqlite.team.writer import SqliteWriter
from parley.domain.channel.post import Post
from parley.domain.errors.errors import Stale, Unavailable
from parley.domain.record import Expect
from parley.domain.store.changes import Committed, ErasableMessage, TeamChanges
from tests.contract.team_store import T1, a_channel, a_post, an_intent
from tests.rigs.team import in_loop, kinds


class Bench:
    """A writer on its own file, with what its watchers heard and how often it committed."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.db = team_file.connect(self.path, writes=True, durable=False)
        team_file.migrate(self.db, self.path)
        self.known = StoreCache(kinds())
        self.heard: list[Committed] = []
        self.log_bytes = 0
        self.writer = SqliteWriter(self.db, self.path, self.known, lambda: self.log_bytes)
        self.writer.watchers.append(lambda _, committed: self.heard.append(committed))
        self.statements: list[str] = []
        self.db.set_trace_callback(self.statements.append)

    def ran(self, start: str) -> int:
        return sum(one.startswith(start) for one in self.statements)


@asynccontextmanager
async def at_work(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "team.db")
    bench.writer.start(asyncio.get_running_loop())
    try:
        await bench.writer.commit(TeamChanges(T1, puts=(a_channel(),)))
        bench.statements.clear()
        yield bench
    finally:
        bench.writer.stop()
        await asyncio.to_thread(bench.writer.join)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files")
@in_loop
async def test_no_content_is_written_to_a_file_beside_the_store(tmp_path: Path) -> None:
    def message(number: int) -> Post:
        # Names all over the index, so that a group changes many pages.
        return a_post(f"msg_{sha256(b'%d' % number).hexdigest()[:26]}")

    async with at_work(tmp_path) as bench:
        await asyncio.gather(*(bench.writer.commit(TeamChanges(T1, (message(n),))) for n in range(6_000)))
        beside: set[str] = set()
        looks = 0

        def look() -> int:
            nonlocal looks
            looks += 1
            # SQLite removes the names of its temporary files as soon as they are open.
            beside.update(name for name in open_files() if "/etilqs_" in name)
            return 0

        bench.db.set_progress_handler(look, 20)
        await asyncio.gather(*(bench.writer.commit(TeamChanges(T1, (message(n),))) for n in range(6_000, 6_200)))
        bench.db.set_progress_handler(None, 0)

    assert looks > 100
    assert beside == set()


def open_files() -> list[str]:
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return names


@in_loop
async def test_what_queues_up_is_committed_in_one_transaction(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        outcomes = await asyncio.gather(
            *(bench.writer.commit(TeamChanges(T1, (a_post(f"msg_{n}"),))) for n in range(200))
        )

        assert [one.posts[0].seq for one in outcomes] == list(range(1, 201))
        assert 1 <= bench.ran("COMMIT") <= 100
        assert [post.position for one in bench.heard[1:] for post in one.posts] == list(range(1, 201))


async def commit_in_rounds(bench: Bench, count: int) -> None:
    """Each commit is queued in the next round of the event loop; returns when all are durable."""
    commits = []
    for number in range(count):
        commits.append(asyncio.ensure_future(bench.writer.commit(TeamChanges(T1, (a_post(f"msg_{number}"),)))))
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*commits)
    assert [outcome.posts[0].seq for outcome in outcomes] == list(range(1, count + 1))


@in_loop
async def test_commits_of_rounds_that_follow_each_other_share_a_transaction(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        await commit_in_rounds(bench, 3)

        assert bench.ran("COMMIT") == 1


@in_loop
async def test_no_commit_waits_for_many_rounds_of_the_loop(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        await commit_in_rounds(bench, 40)

        assert bench.ran("COMMIT") > 1


@in_loop
async def test_a_transaction_has_no_more_commits_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_writer, "_BATCH_LIMIT", 8)
    async with at_work(tmp_path) as bench:
        await asyncio.gather(*(bench.writer.commit(TeamChanges(T1, (a_post(f"msg_{n}"),))) for n in range(40)))

        assert bench.ran("COMMIT") == 5


@in_loop
async def test_what_stands_alone_has_a_transaction_of_its_own_and_overtakes_nobody(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        batch = [TeamChanges(T1, (a_post(f"msg_{n}"),)) for n in range(6)]
        batch[2] = batch[2]._replace(ended=("chan_1",))
        batch[3] = batch[3]._replace(departed=("bob",))

        outcomes = await asyncio.gather(*map(bench.writer.commit, batch))

        assert [one.posts[0].seq for one in outcomes] == [1, 2, 3, 4, 5, 6]
        assert [post for one in bench.heard[1:] for post in one.posts] == [one.posts[0] for one in outcomes]
        assert [one.ended for one in bench.heard[1:] if one.ended] == [("chan_1",)]
        assert [one.departed for one in bench.heard[1:] if one.departed] == [("bob",)]
        assert bench.ran("COMMIT") == 4
        kinds_of = [one.split(" SET ")[0] for one in bench.statements if one.startswith(("UPDATE post", "COMMIT"))]
        assert kinds_of == ["COMMIT", "UPDATE post", "COMMIT", "UPDATE post", "COMMIT", "COMMIT"]


@in_loop
async def test_an_erasure_says_how_many_it_blanked_and_cuts_the_log(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        await bench.writer.commit(TeamChanges(T1, (a_post("msg_1"), a_post("msg_2", sender="bob"))))

        done = await bench.writer.commit(TeamChanges(T1, erase=(ErasableMessage("msg_1"),)))
        await bench.writer.commit(TeamChanges(T1))

        assert (done.erased, bench.heard[2].erased) == (1, 1)
        assert bench.ran("PRAGMA wal_checkpoint(TRUNCATE)") == 1


@in_loop
async def test_a_refusal_writes_nothing_at_all(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        refused = TeamChanges(T1, (a_post(),), (Expect("channel", "chan_1", 9),), puts=(an_intent(),))

        with pytest.raises(Stale):
            await bench.writer.commit(refused)

        assert (bench.ran("INSERT"), bench.ran("UPDATE post"), bench.ran("UPDATE tally")) == (0, 0, 0)


@in_loop
async def test_after_an_error_of_the_file_nothing_that_is_known_is_wrong(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        blocker = sqlite3.connect(bench.path, isolation_level=None)
        bench.db.execute("PRAGMA busy_timeout=1")
        blocker.execute("BEGIN IMMEDIATE")
        changes = TeamChanges(T1, (a_post("msg_1"),), puts=(an_intent(),))

        outcomes = await asyncio.gather(
            bench.writer.commit(changes), bench.writer.commit(changes), return_exceptions=True
        )
        blocker.execute("ROLLBACK")
        blocker.close()

        assert {type(one) for one in outcomes} == {Unavailable}
        assert bench.known.heads[T1].position == 0
        assert (T1, "intent", "intent_1") not in bench.known.records
        assert (await bench.writer.commit(changes)).posts[0].position == 1


@in_loop
async def test_a_change_that_cannot_be_written_does_not_stop_the_writer(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        unfit = TeamChanges(T1, (a_post("msg_1", payload=object()),))

        with pytest.raises((Unavailable, TypeError)):
            await bench.writer.commit(unfit)

        assert (await bench.writer.commit(TeamChanges(T1, (a_post("msg_1"),)))).posts[0].seq == 1


@in_loop
async def test_a_log_that_has_grown_too_long_is_cut(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        await bench.writer.commit(TeamChanges(T1, (a_post("msg_1"),)))
        assert bench.ran("PRAGMA wal_checkpoint") == 0

        bench.log_bytes = team_writer._LOG_MAX_BYTES + 1
        for number in range(team_writer._LOOK_EVERY + 1):  # the last one comes after the look
            await bench.writer.commit(TeamChanges(T1, (a_post(f"msg_{2 + number}"),)))

        assert bench.ran("PRAGMA wal_checkpoint(TRUNCATE)") >= 1


@in_loop
async def test_a_log_that_was_copied_begins_anew_where_it_is(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:

        async def commit_many(turn: int) -> int:
            for number in range(team_writer._RESTART_EVERY):
                await bench.writer.commit(TeamChanges(T1, (a_post(f"msg_{turn}_{number}"),)))
            return log_size(bench.path)

        first = await commit_many(0)
        sizes = [await commit_many(turn) for turn in (1, 2, 3)]

        assert bench.ran("PRAGMA wal_checkpoint(PASSIVE)") >= 3
        assert max(sizes) < 2 * first


@in_loop
async def test_after_the_end_nothing_is_taken(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "team.db")
    with pytest.raises(Unavailable):
        await bench.writer.commit(TeamChanges(T1))
    bench.writer.start(asyncio.get_running_loop())
    last = asyncio.ensure_future(bench.writer.commit(TeamChanges(T1, puts=(a_channel(),))))
    await asyncio.sleep(0)

    bench.writer.stop()
    bench.writer.stop()
    await asyncio.to_thread(bench.writer.join)

    assert (await last).puts[0].version == 1
    with pytest.raises(Unavailable):
        await bench.writer.commit(TeamChanges(T1))


def log_size(path: str) -> int:
    return Path(f"{path}-wal").stat().st_size


@in_loop
async def test_a_reader_that_stays_is_waited_for_once_and_the_log_is_cut_when_it_has_gone(tmp_path: Path) -> None:
    async with at_work(tmp_path) as bench:
        await bench.writer.commit(TeamChanges(T1, posts=(a_post(),)))
        reader = team_file.connect(bench.path, writes=False)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM post").fetchall()

        for number in range(3):
            await bench.writer.commit(TeamChanges(T1, posts=(a_post(f"msg_{number}_more"),)))
            await bench.writer.commit(TeamChanges(T1, erase=(ErasableMessage(f"msg_{number}_more"),)))
        await bench.writer.commit(TeamChanges(T1))
        waits = [one for one in bench.statements if one.startswith("PRAGMA busy_timeout")]
        reader.close()
        await bench.writer.commit(TeamChanges(T1))
        await bench.writer.commit(TeamChanges(T1))

        assert waits[:6:2] == ["PRAGMA busy_timeout=100", "PRAGMA busy_timeout=0", "PRAGMA busy_timeout=0"]
        assert set(waits[1::2]) == {"PRAGMA busy_timeout=30000"}
        assert log_size(bench.path) == 0
