"""What the SQLite store remembers of its file; the rest is its contract."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.sqlite.team import reads as team_reads
from parley.adapters.sqlite.team import store as team_store
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.domain.channel.channel import Channel
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import Stale, Unavailable
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Pattern
from parley.domain.store.changes import FeedScope, Query, TeamChanges
from tests.contract.team_store import ALL, AT, T1, a_channel, a_post, an_intent
from tests.rigs.team import in_loop, kinds


@asynccontextmanager
async def a_store(tmp_path: Path) -> AsyncIterator[SqliteTeamStore]:
    store = SqliteTeamStore(str(tmp_path / "team.db"), kinds(), durable=False)
    try:
        await store.commit(TeamChanges(T1, puts=(a_channel(), an_intent())))
        yield store
    finally:
        await store.close()


def counting(store: SqliteTeamStore, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with each read of the file."""
    reads: list[None] = []
    read = store._run_on_reader

    def counted(work: Callable[[sqlite3.Connection], Any]) -> object:
        reads.append(None)
        return read(work)

    monkeypatch.setattr(store, "_run_on_reader", counted)
    return reads


@in_loop
async def test_what_was_written_or_read_once_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_store(tmp_path) as store:
        reads = counting(store, monkeypatch)

        for _ in range(3):
            assert await store.get(Intent, T1, "intent_1") is not None
        assert len(reads) == 0
        for _ in range(3):
            assert await store.get(Intent, T1, "none") is None
        assert len(reads) == 1


def explaining(store: SqliteTeamStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by the plan of each query."""
    plans: list[str] = []
    read = store._run_on_reader

    def explained(work: Callable[[sqlite3.Connection], Any]) -> object:
        def explain(db: sqlite3.Connection) -> object:
            said: list[str] = []
            db.set_trace_callback(said.append)
            found = work(db)
            db.set_trace_callback(None)
            plans.extend(row[3] for one in said for row in db.execute(f"EXPLAIN QUERY PLAN {one}"))
            return found

        return read(explain)

    monkeypatch.setattr(store, "_run_on_reader", explained)
    return plans


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (
            lambda store: store.children(Channel, T1, "intent_1", after="chan_0"),
            "record_parent (tenant=? AND kind=? AND parent=? AND id>?)",
        ),
        (
            lambda store: store.count(Channel, T1, "intent_1"),
            "record_parent (tenant=? AND kind=? AND parent=?)",
        ),
        (
            lambda store: store.children(Exchange, T1, "conv_1"),
            "record_name (tenant=? AND kind=? AND parent=?)",
        ),
        (
            lambda store: store.children(Exchange, T1, "conv_1", after="exch_0"),
            "record_parent (tenant=? AND kind=? AND parent=? AND id>?)",
        ),
        (lambda store: store.overdue(AT), "post_expiry (expires_at<?)"),
        (lambda store: store.oldest_request(T1, "bob", AT), "post_open_request (addressee=? AND rowid>? AND rowid<?)"),
        (lambda store: store.answers(T1, "msg_1"), "post_answers (in_reply_to=? AND rowid>? AND rowid<?)"),
        (lambda store: store.pending(T1, "bob"), "post_pending (addressee=? AND rowid>? AND rowid<?)"),
        (lambda store: store.waiting("", 10), "post_pending (addressee>?)"),
        (lambda store: store.post(T1, "msg_1"), "sqlite_autoindex_post_1 (id=? AND rowid>? AND rowid<?)"),
        (lambda store: store.saved("scope"), "sqlite_autoindex_saved_1 (scope=?)"),
    ],
)
@in_loop
async def test_the_few_are_found_without_going_through_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: Callable[[SqliteTeamStore], Awaitable[object]],
    index: str,
) -> None:
    async with a_store(tmp_path) as store:
        plans = explaining(store, monkeypatch)

        await query(store)

        assert [plan for plan in plans if index in plan], plans
        assert not [plan for plan in plans if plan.startswith("SCAN post")]


@in_loop
async def test_an_answered_request_is_not_looked_at_again(tmp_path: Path) -> None:
    async with a_store(tmp_path) as store:
        late = "2026-03-13T08:00:01.000000+00:00"
        request = a_post("msg_1", pattern=Pattern.REQUEST, to="bob", recipients=("bob",), expires_at=late)
        await store.commit(TeamChanges(T1, (request,)))
        assert _rows(store, "post_expiry", "expires_at <> '' AND state <> 'expired' AND answered = 0") == 1
        assert _rows(store, "post_open_request", _OPEN) == 1

        await store.commit(TeamChanges(T1, (a_post("msg_2", pattern=Pattern.RESPONSE, in_reply_to="msg_1"),)))

        assert _rows(store, "post_expiry", "expires_at <> '' AND state <> 'expired' AND answered = 0") == 0
        assert _rows(store, "post_open_request", _OPEN) == 0


_OPEN = "pattern = 'request' AND answered = 0 AND state <> 'expired'"


def _rows(store: SqliteTeamStore, index: str, condition: str) -> int:
    """How many rows an index has: the condition is its own."""
    with closing(sqlite3.connect(store.path)) as db:
        return int(db.execute(f"SELECT COUNT(*) FROM post INDEXED BY {index} WHERE {condition}").fetchone()[0])


@in_loop
async def test_who_waits_at_the_end_of_a_channel_does_not_touch_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_store(tmp_path) as store:
        await store.commit(TeamChanges(T1, (a_post(),)))
        reads = counting(store, monkeypatch)

        assert await store.page(T1, Query("chan_1", ALL, AT, after_seq=1)) == ()
        assert (await store.tally(T1, "chan_1")).total == 1
        assert await store.head(T1) == 1

        assert len(reads) == 0


@in_loop
async def test_a_read_that_was_overtaken_by_a_commit_gives_what_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_store(tmp_path) as store:
        intent = await store.get(Intent, T1, "intent_1")
        assert intent is not None
        store._cache.records.clear()
        read = store._read

        async def slow(*given: Any) -> Any:  # noqa: ANN401  # as the original
            found = await read(*given)
            monkeypatch.setattr(store, "_read", read)
            await store.commit(TeamChanges(T1, puts=(replace(intent, title="new"),)))
            return found

        monkeypatch.setattr(store, "_read", slow)
        found = await store.get(Intent, T1, "intent_1")

        assert found is not None
        assert found.title == "new"


@in_loop
async def test_an_old_read_is_not_remembered_after_everything_was_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_store(tmp_path) as store:
        intent = await store.get(Intent, T1, "intent_1")
        assert intent is not None
        store._cache.records.clear()
        store._cache.max_items = 0
        read = store._read

        async def slow(*given: Any) -> Any:  # noqa: ANN401  # as the original
            found = await read(*given)
            monkeypatch.setattr(store, "_read", read)
            await store.commit(TeamChanges(T1, puts=(replace(intent, title="new"),)))
            return found

        monkeypatch.setattr(store, "_read", slow)
        await store.get(Intent, T1, "intent_1")

        found = await store.get(Intent, T1, "intent_1")
        assert found is not None
        assert found.title == "new"


@in_loop
async def test_a_refused_change_leaves_what_is_known_as_true_as_it_was(tmp_path: Path) -> None:
    async with a_store(tmp_path) as store:
        intent = await store.get(Intent, T1, "intent_1")
        assert intent is not None
        await store.commit(TeamChanges(T1, puts=(replace(intent, title="new"),)))
        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, puts=(intent,)))

        found = await store.get(Intent, T1, "intent_1")

        assert found is not None
        assert (found.version, found.title) == (2, "new")


@in_loop
async def test_what_was_read_before_a_rival_wrote_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_store(tmp_path) as store:
        intent = await store.get(Intent, T1, "intent_1")
        assert intent is not None
        store._cache.records.clear()
        read = store._read

        async def read_while_others_write(*work: Any) -> Any:  # noqa: ANN401  # as the original
            row = await read(*work)
            monkeypatch.undo()
            await store.commit(TeamChanges(T1, puts=(intent,)))
            with pytest.raises(Stale):
                await store.commit(TeamChanges(T1, puts=(intent,)))
            return row

        monkeypatch.setattr(store, "_read", read_while_others_write)
        await store.get(Intent, T1, "intent_1")

        found = await store.get(Intent, T1, "intent_1")
        assert found is not None
        assert found.version == 2


@in_loop
async def test_the_log_is_copied_into_the_file_when_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_store(tmp_path) as store:
        path = tmp_path / "team.db"
        before = os.stat(path).st_size
        await store.checkpoint()
        assert os.stat(path).st_size == before

        monkeypatch.setattr(team_store, "_CHECKPOINT_BYTES", 0)
        await store.commit(TeamChanges(T1, (a_post(payload=b"x" * 200_000),)))
        await store.checkpoint()

        assert os.stat(path).st_size > before + 200_000


@in_loop
async def test_reads_go_on_while_others_read_and_write(tmp_path: Path) -> None:
    async with a_store(tmp_path) as store:
        writes = [store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),))) for n in range(50)]
        reads = [store.search(T1, "hello", FeedScope(None), AT, 100) for _ in range(50)]

        await asyncio.gather(*writes, *reads)

        assert len(await store.search(T1, "hello", FeedScope(None), AT, 100)) == 50


@in_loop
async def test_a_file_that_is_no_store_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    path.write_bytes(b"this is no database at all" * 100)

    with pytest.raises(Unavailable):
        SqliteTeamStore(str(path), kinds())


@in_loop
async def test_streams_that_go_through_many_messages_hold_up_no_other_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_store(tmp_path) as store:
        await store.commit(TeamChanges(T1, (a_post(),)))
        go_on = threading.Event()

        def slow(*_: object) -> tuple[tuple[int, ...], int]:
            go_on.wait(20)
            return (), 1

        monkeypatch.setattr(team_reads, "find_positions", slow)
        scans = [asyncio.ensure_future(store.find_positions(T1, FeedScope(None), 0, 1, 10)) for _ in range(4)]
        try:
            async with asyncio.timeout(10):
                assert await store.post(T1, "msg_1") is not None
                assert len(await store.page(T1, Query("chan_1", ALL, AT))) == 1
            assert not any(scan.done() for scan in scans)
        finally:
            go_on.set()
        assert await asyncio.gather(*scans) == [((), 1)] * 4
