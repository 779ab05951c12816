"""Nodes on one database: what each hears of the others, when, how often, and what a lost word costs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import asyncpg
import pytest

from parley.adapters.postgres import journal as following
from parley.adapters.postgres import nodes as other_nodes
from parley.adapters.postgres.store import PostgresTeamStore
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import Stale, Unavailable
from parley.domain.store.changes import Committed, TeamChanges
from tests.contract.team_store import T1, T2, a_channel, a_post, an_event, an_intent
from tests.postgres.cluster import drop, shared_cluster
from tests.postgres.front import Front
from tests.postgres.nodes import Database, Watch, a_hand, counted, nodes, quiet, until
from tests.postgres.store import a_store, fresh_database
from tests.rigs.log_records import logged_by
from tests.rigs.team import in_loop

REVISIONS = "SELECT number, revision FROM tenant"


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


async def renamed(store: PostgresTeamStore, title: str) -> Committed:
    """Commit a new title of the intent, as its newest version."""
    await store.catch_up(T1)
    known = await store.get(Intent, T1, "intent_1")
    assert known is not None
    return await store.commit(TeamChanges(T1, (a_post(f"msg_{title}"),), puts=(replace(known, title=title),)))


async def title(store: PostgresTeamStore) -> str:
    known = await store.get(Intent, T1, "intent_1")
    assert known is not None
    return known.title


async def listens(hand: Database, name: str) -> None:
    """Wait until a node hears what the others say."""

    async def listening() -> bool:
        query = "SELECT query FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()"
        return [row[0][:6] for row in await hand.ask(query, f"parley {name} listens")] == ["LISTEN"]

    await until(listening)


# ---------------------------------------------------------------- catching up


@in_loop
async def test_what_one_node_commits_the_other_shows_once_it_has_caught_up(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        assert await title(b) == "t"
        await renamed(a, "new")

        # Until then it speaks from memory, all of it of one moment.
        assert (await title(b), await b.head(T1), await b.feed(T1, 0)) == ("t", 0, ())

        await b.catch_up(T1)

        assert (await title(b), await b.head(T1)) == ("new", 1)
        assert [item.position for item in await b.feed(T1, 0)] == [1]
        assert (await b.tally(T1, "chan_1")).total == 1


@in_loop
async def test_what_did_not_change_is_not_read_again(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        await title(b)
        await a.commit(TeamChanges(T1, (a_post(),)))
        asked = counted(b, monkeypatch, "FROM record")

        await b.catch_up(T1)

        assert await title(b) == "t"
        assert asked == []


@in_loop
async def test_many_that_catch_up_share_one_question(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        await renamed(a, "new")
        asked = counted(b, monkeypatch, REVISIONS, "FROM journal")

        await asyncio.gather(*(b.catch_up(T1) for _ in range(50)))

        assert len(asked) == 2
        assert await title(b) == "new"


@in_loop
async def test_closing_ends_the_loading_of_a_tenant_for_whom_nobody_waits_any_more(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    async def hanging(*_: object) -> list[asyncpg.Record]:
        asked.set()
        await never.wait()
        return []

    async with nodes(dsn, "a") as (a,):
        await quiet(a)
        monkeypatch.setattr(a.sessions, "fetch", hanging)
        waiting = asyncio.ensure_future(a.follower.get_cache(T2))
        await asked.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        (loading,) = a.follower._loading.values()

        await a.follower.close()

        assert loading.cancelled()


@in_loop
async def test_who_catches_up_while_a_question_is_under_way_waits_for_the_next(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        fetch, answered, go_on = b.sessions.fetch, asyncio.Event(), asyncio.Event()

        async def slow(tenants: str, query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401
            found = await fetch(tenants, query, *values)
            if query.startswith(REVISIONS):
                answered.set()
                await go_on.wait()
            return found

        monkeypatch.setattr(b.sessions, "fetch", slow)
        first = asyncio.create_task(b.catch_up(T1))
        await answered.wait()
        await renamed(a, "new")
        second = asyncio.create_task(b.catch_up(T1))
        await asyncio.sleep(0)
        go_on.set()

        await asyncio.gather(first, second)
        assert await title(b) == "new"


@in_loop
async def test_nobody_is_left_waiting_when_the_question_fails_or_the_store_closes(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(dsn, "a", "b") as (_, b):
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def failing(*_: Any) -> list[asyncpg.Record]:  # noqa: ANN401
            asked.set()
            await go_on.wait()
            raise Unavailable("gone")

        await quiet(b)
        monkeypatch.setattr(b.sessions, "fetch", failing)
        first = asyncio.create_task(b.catch_up(T1))
        await asked.wait()
        behind = asyncio.create_task(b.catch_up(T1))
        await asyncio.sleep(0)
        go_on.set()
        for one in (first, behind):
            with pytest.raises(Unavailable, match="gone"):
                await one

        go_on.clear()
        last = [asyncio.create_task(b.catch_up(T1)) for _ in range(2)]
        await asyncio.sleep(0)
        await b.close()

        for one in last:
            with pytest.raises(Unavailable, match="closed"):
                await one


@in_loop
async def test_a_tenant_that_nobody_ever_wrote_in_has_nothing_to_catch_up_with(dsn: str) -> None:
    async with nodes(dsn, "a") as (a,):
        await a.catch_up("nobody", T1)

        assert await a.head("nobody") == 0
        assert a.follower.find_cache("nobody") is None


# ---------------------------------------------------------------- watchers


@in_loop
async def test_a_watcher_is_told_each_commit_of_the_others_once_and_in_order(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        watch = Watch(b)

        for n in range(30):
            await a.commit(TeamChanges(T1, (a_post(f"msg_{n}"),), events=(an_event(f"evt_{n}"),)))
        await until(lambda: len(watch.posts) >= 30)
        await b.catch_up(T1)

        assert watch.posts == [f"msg_{n}" for n in range(30)]
        events = [event.id for _, committed in watch.heard for event in committed.events]
        assert events == [f"evt_{n}" for n in range(30)]
        positions = [committed.position for _, committed in watch.heard]
        assert positions == sorted(set(positions))


@in_loop
async def test_its_own_commits_a_node_does_not_tell_twice(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        watch = Watch(a)
        for n in range(10):
            await (a, b)[n % 2].commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))
        await until(lambda: len(watch.posts) >= 10)
        await a.catch_up(T1)

        assert watch.posts == [f"msg_{n}" for n in range(10)]


@in_loop
async def test_records_and_what_has_ended_are_told_with_the_commit(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        watch = Watch(b)
        await renamed(a, "new")
        await a.commit(TeamChanges(T1, ended=("chan_1",)))
        await a.commit(TeamChanges(T1, departed=("bob",)))
        await until(lambda: any(one.departed for _, one in watch.heard))

        told = [one for _, one in watch.heard]
        assert [record.title for one in told for record in one.puts if isinstance(record, Intent)] == ["new"]
        assert [channel for one in told for channel in one.ended] == ["chan_1"]
        assert [agent for one in told for agent in one.departed] == ["bob"]


@in_loop
async def test_where_nobody_cares_it_is_told_that_somebody_wrote_and_nothing_is_read(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        watch = Watch(b, caring=False)
        asked = counted(b, monkeypatch, "FROM journal", "FROM post")

        await a.commit(TeamChanges(T1, (a_post(),)))
        await until(lambda: len(watch.heard) > 0)

        assert watch.heard[0] == (T1, Committed(0))
        assert asked == []
        await b.catch_up(T1)
        assert [one.position for _, one in watch.heard][-1] == 1
        assert watch.posts == []


@pytest.mark.parametrize("when", ["FROM journal", "FROM record"])
@in_loop
async def test_who_begins_to_care_in_the_middle_of_a_pull_misses_nothing(dsn: str, when: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        watch = Watch(b, caring=False)
        one = b.follower.find_cache(T1)
        assert one is not None
        await renamed(a, "new")

        async def fetch(query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401
            found = await b.sessions.fetch(one.scope, query, *values)
            if when in query:
                watch.caring = True
            return found

        await b.follower.pull(one, one.revision + 1, fetch)

        assert watch.posts == ["msg_new"]


@in_loop
async def test_who_has_ended_its_watch_hears_nothing(dsn: str) -> None:
    async with nodes(dsn, "a") as (a,):
        watch, other = Watch(a), Watch(a)
        watch.end()

        await a.commit(TeamChanges(T1, (a_post(),)))

        assert (watch.posts, other.posts) == ([], ["msg_1"])


# ---------------------------------------------------------------- wake-ups


@in_loop
async def test_a_notification_wakes_a_node_that_does_not_look(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        watch = Watch(b)
        await listens(hand, "b")
        b.follower._tasks[1].cancel()

        await a.commit(TeamChanges(T1, (a_post(),)))

        await until(lambda: watch.posts == ["msg_1"])


@in_loop
async def test_a_node_that_hears_nothing_looks_for_itself(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "CHANNEL", "elsewhere")
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await listens(hand, "b")
        monkeypatch.undo()
        watch = Watch(b)

        await a.commit(TeamChanges(T1, (a_post(),)))

        await until(lambda: watch.posts == ["msg_1"])


@in_loop
async def test_a_listener_that_was_cut_listens_again(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        watch = Watch(b)
        await listens(hand, "b")
        b.follower._tasks[1].cancel()
        assert await hand.cut("b listens") == 1
        await listens(hand, "b")

        await a.commit(TeamChanges(T1, (a_post(),)))

        await until(lambda: watch.posts == ["msg_1"])


@pytest.mark.slow
@in_loop
async def test_a_listener_that_gets_no_answer_tries_again(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    front = Front(deaf_to=b"LISTEN", times=1)
    await front.open()
    monkeypatch.setattr(following, "TIMEOUT_SECONDS", 0.2)
    async with a_hand(dsn) as hand:
        b = a_store(front.dsn(dsn), "b")
        await listens(hand, "b")
        assert front.deaf == 0
        await b.close()
    await front.close()


@in_loop
async def test_a_wrong_notification_does_no_harm(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        watch = Watch(b)
        await listens(hand, "b")
        b.follower._tasks[1].cancel()
        asked = counted(b, monkeypatch, "FROM journal")

        await hand.ask("SELECT pg_notify('parley', $1)", f"rubbish,:,x:²,nobody:1,,{T1}:999")
        await until(lambda: len(watch.heard) > 0)
        await until(lambda: not b.follower._pull_tasks)
        assert len(asked) == 1
        await a.commit(TeamChanges(T1, (a_post(),)))

        await until(lambda: watch.posts == ["msg_1"])


@in_loop
async def test_many_commits_are_announced_with_few_notifications(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(dsn, "a") as (a,):
        monkeypatch.setattr(other_nodes, "_ANNOUNCED_TENANTS", 40)
        told = counted(a, monkeypatch, "pg_notify")
        tenants = [f"tenant_{n}" for n in range(100)]

        puts = [TeamChanges(one, puts=(an_intent(f"intent_{one}", tenant=one),)) for one in tenants]
        await asyncio.gather(*map(a.commit, puts))
        await until(lambda: not a.follower._announcements)

        assert 3 <= len(told) <= 10


@in_loop
async def test_how_far_a_node_lies_behind_is_known(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        Watch(b)
        await listens(hand, "b")
        assert b.follower.lag == 0
        one = b.follower.find_cache(T1)
        assert one is not None
        async with one.lock:  # it cannot move on
            for n in range(3):
                await a.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))
            await until(lambda: b.follower.lag == 3)

        await until(lambda: b.follower.lag == 0)
        assert one.revision == 4


@in_loop
async def test_an_older_word_that_comes_late_does_not_end_a_pull_before_the_newer_one(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        watch = Watch(b)
        await quiet(b)
        fetch, read, go_on = b.sessions.fetch, asyncio.Event(), asyncio.Event()

        async def slow(tenants: str, query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401
            found = await fetch(tenants, query, *values)
            if "FROM journal" in query:
                read.set()
                await go_on.wait()
            return found

        monkeypatch.setattr(b.sessions, "fetch", slow)
        await a.commit(TeamChanges(T1, (a_post("msg_1"),)))
        b.follower._on_notification(f"{T1}:2")
        await read.wait()
        await a.commit(TeamChanges(T1, (a_post("msg_2"),)))
        b.follower._on_notification(f"{T1}:3")
        b.follower._on_notification(f"{T1}:2")

        assert b.follower.lag == 2
        go_on.set()
        await until(lambda: watch.posts == ["msg_1", "msg_2"])
        assert b.follower.lag == 0


@in_loop
async def test_a_word_that_was_wrong_is_no_lag(dsn: str) -> None:
    async with nodes(dsn, "a") as (a,):
        Watch(a)
        await quiet(a)

        a.follower._on_notification(f"{T1}:999")
        assert a.follower.lag == 998
        await until(lambda: not a.follower._pull_tasks)

        assert a.follower.lag == 0


# ---------------------------------------------------------------- far behind, put back, gone


@in_loop
async def test_a_node_further_behind_than_the_journal_starts_over_and_says_so(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        watch = Watch(b)
        await title(b)
        await renamed(a, "one")
        for name in ("msg_two", "msg_three"):
            await a.commit(TeamChanges(T1, (a_post(name),)))
        await hand.ask("DELETE FROM journal WHERE revision < 4")

        await b.catch_up(T1)

        assert await title(b) == "one"
        ((tenant, told),) = watch.heard
        assert (tenant, told.position, told.missed) == (T1, 3, True)
        assert watch.posts == ["msg_one", "msg_two", "msg_three"]
        assert {record.id for record in told.puts} == {"intent_1"}
        assert (await b.tally(T1, "chan_1")).total == 3


@in_loop
async def test_a_database_that_was_put_back_is_noticed_at_the_next_commit(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await quiet(a)
        watch = Watch(a)
        for table in ("record", "tally"):
            await hand.ask(f"CREATE TABLE old_{table} AS SELECT * FROM {table}")
        await renamed(a, "new")
        for table in ("record", "tally"):
            await hand.ask(f"DELETE FROM {table}")
            await hand.ask(f"INSERT INTO {table} SELECT * FROM old_{table}")
        await hand.ask("DELETE FROM post")
        await hand.ask("DELETE FROM journal WHERE revision > 1")
        await hand.ask("UPDATE tenant SET revision = 1, head = 0")

        with pytest.raises(Stale):
            await renamed(a, "on what is no more")

        assert await title(a) == "t"
        told = watch.heard[-1][1]
        assert (told.position, [record.version for record in told.puts]) == (0, [1, 1])
        again = await renamed(a, "again")
        assert (again.position, again.posts[0].seq) == (1, 1)
        assert await hand.ask("SELECT revision, head FROM tenant") == [(2, 1)]


@pytest.mark.slow
@in_loop
async def test_who_waits_is_told_while_the_database_is_away_and_it_comes_back_by_itself(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def open_door(is_open: str) -> None:
        query = f'ALTER DATABASE "{dsn.rpartition("/")[2]}" ALLOW_CONNECTIONS {is_open}'
        await asyncio.to_thread(shared_cluster().ask, query)

    caplog.set_level(logging.ERROR, "parley.postgres")
    monkeypatch.setattr(following, "POLL_SECONDS", 0.05)
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        watch = Watch(a)
        for times in (1, 2):
            await open_door("false")
            watch.lost.clear()
            for one in ("a", "a listens", "a writes"):
                await hand.cut(one)
            with monkeypatch.context() as hurried:  # only while it is away: a busy machine may need longer to answer
                hurried.setattr(a.sessions, "fetch", partial(a.sessions.fetch, seconds=0.3))
                # Who begins to wait while it is away has to hear of it, too.
                await until(lambda: len(watch.lost) >= 2)
            await open_door("true")
            await until(lambda: a.follower._reachable)

            assert [one.message for one in logged_by("parley.postgres", caplog)] == [
                "the database cannot be reached"
            ] * times
            await a.commit(TeamChanges(T1, (a_post(f"msg_{times}"),)))
        assert watch.posts == ["msg_1", "msg_2"]


# ---------------------------------------------------------------- forgetting


@in_loop
async def test_idle_tenants_are_forgotten_and_watched_ones_are_not(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_TENANTS_LIMIT", 4)
    async with nodes(dsn, "a") as (a,):
        Watch(a)
        for n in range(30):
            tenant = f"tenant_{n}"
            await a.commit(TeamChanges(tenant, puts=(a_channel(f"chan_{tenant}", tenant=tenant),)))
            assert len(a.follower._caches) <= 7

        known = set(a.follower._caches)
        assert {T1, "tenant_29"} <= known
        assert "tenant_0" not in known
        assert {one.id for one in a.follower._by_number.values()} == known
        # What was forgotten is read again.
        assert await a.tally("tenant_0", "chan_tenant_0") is not None
        await a.commit(TeamChanges("tenant_0", (a_post("msg_0", "chan_tenant_0"),)))
        assert (await a.tally("tenant_0", "chan_tenant_0")).total == 1


@in_loop
async def test_a_tenant_whose_records_are_asked_for_is_not_forgotten(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_TENANTS_LIMIT", 4)
    async with nodes(dsn, "a") as (a,):
        for n in range(30):
            assert await a.get(Intent, T1, "intent_1") is not None
            tenant = f"tenant_{n}"
            await a.commit(TeamChanges(tenant, puts=(a_channel(f"chan_{tenant}", tenant=tenant),)))

            assert T1 in a.follower._caches


@in_loop
async def test_many_that_ask_for_a_tenant_at_once_read_it_once(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await a.commit(TeamChanges(T2, puts=(a_channel("chan_2", tenant=T2),)))
        asked = counted(b, monkeypatch, "FROM tenant WHERE id")

        found = await asyncio.gather(*(b.follower.get_cache(T2) for _ in range(20)))

        assert len(asked) == 1
        assert len({id(one) for one in found}) == 1
