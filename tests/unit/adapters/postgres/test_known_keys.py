"""Messages whose sender a node admitted by what it knew of the keys: their commit finds out when that has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest

from parley.adapters.postgres import schema
from parley.adapters.postgres.store import PostgresTeamStore
from parley.domain.directory.callers import NO_TENANT, Key, KeyKind
from parley.domain.errors.errors import Stale
from parley.domain.store.changes import Committed, TeamChanges
from parley.domain.store.ground import Ground
from tests.contract.team_store import AT, T1, a_channel, a_post, an_intent
from tests.postgres.cluster import drop
from tests.postgres.nodes import Database, a_hand, nodes, quiet, together
from tests.postgres.store import fresh_database
from tests.rigs.team import in_loop

SAID = "SELECT id FROM post ORDER BY number"
A_KEY = Key(id="key_1", tenant_id=NO_TENANT, owner=T1, key_kind=KeyKind.AGENT, digest="d1", created_at=AT)


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


@asynccontextmanager
async def two_that_know(dsn: str) -> AsyncIterator[tuple[Database, PostgresTeamStore, PostgresTeamStore]]:
    """Two nodes that know the key and the channel; the second one hears of nothing more by itself."""
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await a.commit(TeamChanges(NO_TENANT, puts=(A_KEY,)))
        await b.commit(TeamChanges(T1, (a_post("first"),)))
        for store in (a, b):
            await store.catch_up(T1, NO_TENANT)
        await quiet(b)
        yield hand, a, b


async def revoke(store: PostgresTeamStore) -> None:
    await store.commit(TeamChanges(NO_TENANT, puts=(replace(A_KEY, version=1, revoked_at=AT),)))


def admitted(store: PostgresTeamStore, message_id: str) -> TeamChanges:
    """A message as it is submitted when its sender and the decision are known."""
    ground = Ground(store.generation(T1), ())
    return TeamChanges(T1, (a_post(message_id),), ground=ground, keys_generation=store.generation(NO_TENANT))


@in_loop
async def test_a_message_of_a_known_sender_asks_for_nothing_but_its_commit(dsn: str) -> None:
    async with two_that_know(dsn) as (hand, _, b):
        asked: list[str] = []
        for lane in b.writer._lanes:
            if lane._session is not None:
                lane._session.connection.add_query_logger(lambda record: asked.append(record.query))

        outcomes = await together(b, admitted(b, "msg_1"), admitted(b, "msg_2"))

        assert [type(outcome) for outcome in outcomes] == [Committed, Committed]
        assert [query.partition("(")[0] for query in asked] == ["SELECT * FROM parley_commit"]
        assert await hand.ask(SAID) == [("first",), ("msg_1",), ("msg_2",)]


@in_loop
async def test_a_message_is_refused_when_another_node_changed_the_keys_and_nobody_said_so(dsn: str) -> None:
    async with two_that_know(dsn) as (hand, a, b):
        message = admitted(b, "msg_1")
        await revoke(a)

        with pytest.raises(Stale):
            await b.commit(message)

        assert await hand.ask(SAID) == [("first",)]
        await b.catch_up(NO_TENANT)
        with pytest.raises(Stale):  # decided by what the node knows now
            await b.commit(message)
        assert isinstance(await b.commit(admitted(b, "msg_2")), Committed)


@in_loop
async def test_only_messages_that_were_admitted_so_are_refused_with_the_keys(dsn: str) -> None:
    async with two_that_know(dsn) as (hand, a, b):
        message = admitted(b, "msg_1")
        await revoke(a)

        refused, done = await together(b, message, TeamChanges(T1, (a_post("msg_2"),)))

        assert isinstance(refused, Stale)
        assert isinstance(done, Committed)
        assert await hand.ask(SAID) == [("first",), ("msg_2",)]


@pytest.mark.parametrize("beside", [a_channel("chan_2"), an_intent("intent_2")])
@in_loop
async def test_the_keys_are_compared_under_the_lock_as_well(dsn: str, beside: object) -> None:
    async with two_that_know(dsn) as (hand, a, b):
        message = admitted(b, "msg_1")
        await revoke(a)

        refused, done = await together(b, message, TeamChanges(T1, puts=(beside,)))  # type: ignore[arg-type]

        assert isinstance(refused, Stale)
        assert isinstance(done, Committed)
        assert await hand.ask(SAID) == [("first",)]


@in_loop
async def test_a_message_is_refused_when_records_of_its_tenant_changed(dsn: str) -> None:
    async with two_that_know(dsn) as (hand, a, b):
        message = admitted(b, "msg_1")
        await a.commit(TeamChanges(T1, puts=(an_intent(version=1, title="new"),)))

        with pytest.raises(Stale):
            await b.commit(message)

        assert await hand.ask(SAID) == [("first",)]


@in_loop
async def test_a_message_without_a_ground_is_refused(dsn: str) -> None:
    async with two_that_know(dsn) as (_, _, b):
        with pytest.raises(Stale):
            await b.commit(admitted(b, "msg_1")._replace(ground=None))


@in_loop
async def test_a_message_moves_behind_those_of_others_while_the_keys_are_the_same(dsn: str) -> None:
    async with two_that_know(dsn) as (hand, a, b):
        await a.commit(TeamChanges(T1, (a_post("of_a"),)))

        done = await b.commit(admitted(b, "of_b"))

        assert (done.position, done.posts[0].seq) == (3, 3)
        assert await hand.ask(SAID) == [("first",), ("of_a",), ("of_b",)]


@pytest.mark.parametrize("is_written", [False, True])
@in_loop
async def test_a_lost_group_is_found_again_though_the_keys_have_changed_since(
    dsn: str, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    async with two_that_know(dsn) as (hand, a, b):
        fetch = asyncpg.Connection.fetch
        lost: list[str] = []

        async def losing(self: asyncpg.Connection[asyncpg.Record], query: str, *values: object) -> object:
            if "parley_commit" not in query or lost:
                return await fetch(self, query, *values)
            lost.append(query)
            if is_written:
                await fetch(self, query, *values)
            await revoke(a)
            raise ConnectionResetError

        monkeypatch.setattr(asyncpg.Connection, "fetch", losing)
        (outcome,) = await together(b, admitted(b, "msg_1"))

        assert isinstance(outcome, Committed if is_written else Stale)
        assert await hand.ask(SAID) == [("first",), *[("msg_1",)] * is_written]


@in_loop
async def test_a_commit_that_compares_no_keys_would_be_noticed(dsn: str) -> None:
    async with two_that_know(dsn) as (hand, a, b):
        careless = schema._read(2).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
        assert "keys > 0 AND keys_known <>" in careless
        await hand.db.execute(careless.replace("keys > 0 AND keys_known <>", "keys < 0 AND keys_known <>"))
        message = admitted(b, "msg_1")
        await revoke(a)

        await b.commit(message)

        assert await hand.ask(SAID) == [("first",), ("msg_1",)]
