"""What a node of PostgreSQL remembers, and where its knowledge ends; the rest is the contract of every store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from parley.adapters.postgres import reads
from parley.adapters.postgres.store import PostgresTeamStore, open_store
from parley.domain.channel.channel import Tally
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import BadConfig, Unavailable
from parley.domain.store.changes import FeedScope, TeamChanges
from tests.contract.team_store import AT, T1, TeamStoreContract, a_channel, a_post, a_use, an_intent
from tests.postgres.cluster import drop, new_database, shared_cluster
from tests.postgres.nodes import a_hand, counted, nodes, quiet
from tests.postgres.store import fresh_database
from tests.rigs.log_records import logged_by
from tests.rigs.team import in_loop, kinds

BY_ID = "FROM record WHERE tenant = $1 AND kind = $2 AND id = $3"


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


@pytest.fixture
def empty() -> Iterator[str]:
    made = new_database()
    yield made
    drop(made)


# ---------------------------------------------------------------- opening and closing


@in_loop
async def test_an_empty_database_becomes_a_store(empty: str) -> None:
    store = await open_store(empty, kinds(), name="a", connections=6, durable=False)

    assert (await store.commit(TeamChanges(T1, (a_post(),), puts=(a_channel(),)))).position == 1

    await store.close()


@in_loop
async def test_a_database_that_would_lose_messages_is_refused(empty: str) -> None:
    shared_cluster().ask(f'ALTER DATABASE "{empty.rpartition("/")[2]}" SET synchronous_commit = off')

    with pytest.raises(BadConfig, match="synchronous_commit"):
        await open_store(empty, kinds(), name="a", connections=6)


@in_loop
async def test_a_role_that_no_row_security_holds_back_is_warned_of(
    empty: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "parley.postgres")
    mighty = shared_cluster().dsn(empty.rpartition("/")[2], "postgres")

    for address in (empty, mighty):
        await (await open_store(address, kinds(), name="a", connections=6, durable=False)).close()

    assert ["row security" in one.message for one in logged_by("parley.postgres", caplog)] == [True]


@pytest.mark.parametrize("given", [1, 3, 6, 20])
@in_loop
async def test_no_more_connections_are_used_than_were_given_but_a_few_it_takes(dsn: str, given: int) -> None:
    async with a_hand(dsn) as hand:
        store = PostgresTeamStore(dsn, kinds(), name="a", connections=given)
        tenants = [f"tenant_{n}" for n in range(30)]
        puts = [TeamChanges(one, puts=(an_intent(f"intent_{one}", tenant=one),)) for one in tenants]
        await asyncio.gather(*map(store.commit, puts))
        await asyncio.gather(*(store.every(Intent, one) for one in tenants))

        ours = "application_name LIKE 'parley a%' AND datname = current_database()"
        used = await hand.one(f"SELECT count(*) FROM pg_stat_activity WHERE {ours}")

        assert used <= max(given, 4)
        assert store.sessions.max_connections + store.own_connections <= max(given, 4)
        await store.close()


@in_loop
async def test_after_the_end_nothing_is_read_or_written_and_nobody_is_left_in_the_database(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await a.close()

        with pytest.raises(Unavailable, match="closed"):
            await a.commit(TeamChanges(T1, (a_post(),)))
        with pytest.raises(Unavailable, match="closed"):
            await a.post(T1, "msg_1")
        for name in ("a", "a writes", "a listens"):
            await hand.without(name)


# ---------------------------------------------------------------- what is known


@in_loop
async def test_what_was_written_or_read_once_is_known(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        for store, reads in ((a, 0), (b, 1)):
            asked = counted(store, monkeypatch, BY_ID)
            for _ in range(3):
                assert await store.get(Intent, T1, "intent_1") is not None
            assert len(asked) == reads
            for _ in range(3):
                assert await store.get(Intent, T1, "none") is None
            assert len(asked) == reads + 1


@in_loop
async def test_whoever_asks_for_ever_new_or_long_names_fills_no_memory(dsn: str) -> None:
    async with nodes(dsn, "a") as (a,):
        one = a.follower.find_cache(T1)
        assert one is not None
        before = len(one.records)

        assert await a.get(Intent, T1, "x" * 200) is None

        assert (len(one.records), one.readers) == (before, {})


async def overtaken(store: PostgresTeamStore, other: PostgresTeamStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the intent with `store`, while `other` changes it and `store` hears of that."""
    fetch = store.sessions.fetch
    done: list[str] = []

    async def slow(tenants: str, query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401
        found = await fetch(tenants, query, *values)
        if BY_ID in query and not done:
            done.append(query)
            await other.commit(TeamChanges(T1, puts=(an_intent(version=1, title="new"),)))
            await store.catch_up(T1)
        return found

    monkeypatch.setattr(store.sessions, "fetch", slow)
    await store.get(Intent, T1, "intent_1")
    monkeypatch.undo()
    assert done


@pytest.mark.parametrize("writer", [0, 1])
@in_loop
async def test_what_was_read_while_it_changed_is_not_remembered(
    dsn: str, monkeypatch: pytest.MonkeyPatch, writer: int
) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        for store in (a, b):
            await quiet(store)
        one = b.follower.find_cache(T1)
        assert one is not None
        one.drop((T1, "intent", "intent_1"))

        await overtaken(b, (a, b)[writer], monkeypatch)

        found = await b.get(Intent, T1, "intent_1")
        assert found is not None
        assert (found.title, found.version) == ("new", 2)
        assert one.readers == {}


@in_loop
async def test_an_old_read_is_not_remembered_after_everything_was_forgotten(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        await a.commit(TeamChanges(T1, (a_post(),)))
        await hand.ask("DELETE FROM journal")

        await overtaken(b, a, monkeypatch)

        found = await b.get(Intent, T1, "intent_1")
        assert found is not None
        assert found.title == "new"


@in_loop
async def test_a_feed_ends_where_the_nodes_knowledge_ends(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await quiet(b)
        await a.commit(TeamChanges(T1, (a_post("msg_1"),)))
        await b.catch_up(T1)
        await a.commit(TeamChanges(T1, (a_post("msg_2"),)))

        assert await b.post(T1, "msg_2") is None
        assert [item.position for item in await b.feed(T1, 0)] == [1]
        assert await b.feed(T1, 1) == ()


@in_loop
async def test_a_channel_that_is_gone_has_no_counters_on_any_node(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await b.commit(TeamChanges(T1, (a_post("msg_1"),)))
        await a.commit(TeamChanges(T1, (a_post("msg_2"),)))

        await a.commit(TeamChanges(T1, drops=(a_channel(version=1),)))
        await b.catch_up(T1)

        for store in (a, b):
            assert await store.tally(T1, "chan_1") == Tally()


@in_loop
async def test_a_record_is_found_by_the_name_that_another_node_gave_it(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        channel = (await a.every(type(a_channel()), T1))[0]
        await b.catch_up(T1)
        assert await b.get(type(channel), T1, "chan_1") is not None
        await a.commit(TeamChanges(T1, puts=(replace(channel, label="plans"),)))

        await b.catch_up(T1)

        found = await b.find_by_name(type(channel), T1, "intent_1", "plans")
        assert found is not None
        assert found.label == "plans"


@in_loop
async def test_a_search_goes_through_all_pages(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "_SEARCH_PAGE", 3)
    monkeypatch.setattr(reads, "_SEARCH_BYTES", 40)
    async with nodes(dsn, "a") as (a,):
        texts = [b'{"text":"%b"}' % (b"needle" if n % 4 == 0 else b"hay") for n in range(10)]
        for n, text in enumerate(texts):
            await a.commit(TeamChanges(T1, (a_post(f"msg_{n}", payload=text),)))

        assert await a.search(T1, "NEEDLE", FeedScope(None), AT, 10) == (9, 5, 1)
        assert await a.search(T1, "needle", FeedScope({"chan_1": 0}), AT, 2) == (9, 5)


# ---------------------------------------------------------------- housekeeping


@in_loop
async def test_the_journal_of_long_ago_is_let_go_of_for_every_tenant(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await a.commit(TeamChanges("other", puts=(an_intent("intent_2", tenant="other"),)))
        await a.commit(TeamChanges(T1, (a_post(),)))
        await hand.ask("UPDATE journal SET at = at - interval '11 minutes' WHERE revision = 1")

        await a.checkpoint()
        assert await hand.ask("SELECT tenant, revision FROM journal") == [(1, 2)]

        # A look once in a while is enough.
        asked = counted(a, monkeypatch, "DELETE FROM journal")
        await a.checkpoint()
        assert asked == []


# ---------------------------------------------------------------- beside a newer version


@in_loop
async def test_what_a_newer_version_adds_to_any_table_disturbs_no_node_that_runs(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        for store in (a, b):  # what they ask is prepared by now
            await store.catch_up(T1)
            await TeamStoreContract.everything(store)

        for row in await hand.ask("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"):
            await hand.ask(f"ALTER TABLE {row[0]} ADD COLUMN later text")
        before = await TeamStoreContract.everything(a)
        await a.commit(TeamStoreContract.much())
        await b.catch_up(T1)

        after = await TeamStoreContract.everything(a)
        assert after != before
        assert await TeamStoreContract.everything(b) == after
        assert await a.saved("much") == a_use("much")
