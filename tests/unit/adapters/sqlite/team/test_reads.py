"""Reading within a scope: by which way the file is read, so that what is hidden takes no time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import reads
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.domain.store.changes import FeedScope, TeamChanges
from tests.contract.team_store import AT, T1, a_channel, a_post
from tests.rigs.team import in_loop, kinds

SCOPE = FeedScope({"chan_2": 0}, ("intent_1",), viewer="bob", addressed=True)


class PlanReader(sqlite3.Connection):
    """Notes the plan of every query that it is given."""

    plans: list[str]

    def execute(self, sql: str, values: object = (), /) -> sqlite3.Cursor:
        if sql.startswith("SELECT post.number"):
            explained = super().execute(f"EXPLAIN QUERY PLAN {sql}", values)  # type: ignore[arg-type]
            self.plans += [row[3] for row in explained]
        return super().execute(sql, values)  # type: ignore[arg-type]


@in_loop
async def test_channels_are_looked_up_and_the_rest_of_the_tenant_is_passed_over(tmp_path: Path) -> None:
    path = str(tmp_path / "team.db")
    store = SqliteTeamStore(path, kinds(), durable=False)
    await store.commit(TeamChanges(T1, puts=(a_channel(), a_channel("chan_2"))))
    for n in range(50):
        await store.commit(TeamChanges(T1, (a_post(f"msg_{n}", "chan_2" if n == 7 else "chan_1"),)))
    await store.close()
    db = sqlite3.connect(path, factory=PlanReader)
    db.plans = []
    low = db.cursor().execute("SELECT number FROM tenant WHERE id = ?", (T1,)).fetchone()[0] << 40

    assert reads.find_positions(db, T1, low, SCOPE, 0, 99, 10)[0] == (8,)
    assert reads.search(db, T1, low, SCOPE, "hello", AT, 10) == (8,)

    posts = [line for line in db.plans if "post" in line]
    events = [line for line in db.plans if "event" in line and "SUBQUERY" not in line]
    assert posts, db.plans
    assert all("USING INDEX post_place (channel=?" in line for line in posts), posts
    assert all("event_place (intent_id=?" in line for line in events), events
    db.close()


@in_loop
async def test_a_search_reads_no_text_that_is_hidden(tmp_path: Path) -> None:
    path = str(tmp_path / "team.db")
    store = SqliteTeamStore(path, kinds(), durable=False)
    await store.commit(TeamChanges(T1, puts=(a_channel(), a_channel("chan_2"))))
    for n in range(20):
        direct = a_post(f"msg_d{n}", "chan_2", to="carol", recipients=("carol",))
        await store.commit(TeamChanges(T1, (a_post(f"msg_{n}"), direct)))
    await store.commit(TeamChanges(T1, (a_post("msg_x", "chan_2"),)))
    await store.close()
    read: list[str] = []
    db = sqlite3.connect(path)
    low = db.execute("SELECT number FROM tenant WHERE id = ?", (T1,)).fetchone()[0] << 40
    db.set_trace_callback(read.append)

    found = reads.search(db, T1, low, FeedScope({"chan_2": 0}, viewer="bob"), "nothing", AT, 10)

    assert found == ()
    assert len([sql for sql in read if sql.startswith("SELECT payload")]) == 1
    db.close()


@pytest.mark.parametrize("page", [1, 3, 100])
@in_loop
async def test_a_search_goes_through_all_pages(tmp_path: Path, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "_SEARCH_PAGE", page)
    store = SqliteTeamStore(str(tmp_path / "team.db"), kinds(), durable=False)
    await store.commit(TeamChanges(T1, puts=(a_channel(),)))
    for n in range(10):
        text = b'{"text":"%b"}' % (b"needle" if n % 4 == 0 else b"hay")
        await store.commit(TeamChanges(T1, (a_post(f"msg_{n}", payload=text),)))

    assert await store.search(T1, "NEEDLE", FeedScope({"chan_1": 0}), AT, 10) == (9, 5, 1)
    assert await store.search(T1, "needle", FeedScope(None), AT, 2) == (9, 5)
    await store.close()
