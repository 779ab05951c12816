"""What a transaction asks for: what nobody knows, for all of its commits at once, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from parley.adapters.postgres.cache import TenantCache
from parley.adapters.postgres.source import PostgresSource
from parley.adapters.postgres.store import PostgresTeamStore
from parley.domain.audit.entry import SideHead
from parley.domain.channel.post import ERASED, PostState
from parley.domain.store.changes import ErasableMessage, Moved, Spend, TeamChanges
from parley.domain.store.source import FREE
from tests.contract.team_store import T1, T2, a_channel, a_post, a_request, a_use, an_event, an_intent
from tests.postgres.cluster import drop
from tests.postgres.nodes import nodes
from tests.postgres.store import fresh_database
from tests.rigs.team import in_loop, kinds
from tests.samples.audit import a_draft


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


class Desk:
    """A node that knows nothing of two tenants, and every question that is asked for them."""

    def __init__(self, store: PostgresTeamStore, tenancies: dict[str, TenantCache]) -> None:
        self.store = store
        self.tenancies = tenancies
        self.asked: list[str] = []
        # Whether everything is forgotten, again and again, while the rest is asked for.
        self.forgetful = False

    async def fetch(self, query: str, *values: Any) -> list[asyncpg.Record]:  # noqa: ANN401
        self.asked.append(query)
        scope = ",".join(one.scope for one in self.tenancies.values())
        found = await self.store.sessions.fetch(scope, query, *values)
        if self.forgetful:
            self.forget()
        return found

    def forget(self) -> None:
        for one in self.tenancies.values():
            one.clear()

    async def load(self, *batch: TeamChanges) -> PostgresSource:
        self.asked.clear()
        loaded = PostgresSource(self.tenancies, kinds())
        await loaded.load(batch, self.fetch)
        return loaded


@asynccontextmanager
async def a_desk(dsn: str) -> AsyncIterator[Desk]:
    async with nodes(dsn, "a") as (a,):
        await a.commit(TeamChanges(T2, puts=(a_channel("chan_2", tenant=T2, label="other"),)))
        await a.commit(
            TeamChanges(
                T1,
                (a_request(),),
                events=(an_event(),),
                audits=(a_draft(1, "alice"),),
                spends=(Spend("messages", 10, amount=4),),
                saved=a_use(),
            )
        )
        found = {tenant: a.follower.find_cache(tenant) for tenant in (T1, T2)}
        desk = Desk(a, {tenant: one for tenant, one in found.items() if one is not None})
        desk.forget()
        yield desk


def much() -> list[TeamChanges]:
    """Commits that need something of every sort."""
    return [
        TeamChanges(T1, (a_post("msg_2"),), events=(an_event("evt_2"),), saved=a_use("s1")),
        TeamChanges(T1, puts=(an_intent(version=1),), audits=(a_draft(2, "alice"), a_draft(3, "bob"))),
        TeamChanges(T1, spends=(Spend("messages", 10), Spend("other", 10, "2026"))),
        TeamChanges(T2, (a_post("msg_3", "chan_2"),), puts=(a_channel("chan_3", tenant=T2, label="other"),)),
    ]


def assert_complete(loaded: PostgresSource) -> None:
    channel = loaded.record((T1, "channel", "chan_1"))
    assert channel is not None
    assert channel.version == 1
    assert loaded.record((T1, "intent", "intent_1")) is not None
    assert loaded.record((T2, "channel", "chan_3")) is None
    assert loaded.holder((T2, "channel", "intent_1", "other")) == "chan_2"
    assert loaded.holder((T1, "channel", "intent_1", "other")) == FREE
    counters, other = loaded.counters(T1, "chan_1"), loaded.counters(T2, "chan_2")
    assert counters is not None
    assert other is not None
    assert (counters.seq, counters.tally.total, other.seq) == (1, 1, 0)
    assert loaded.counters(T1, "chan_2") is None
    assert loaded.side((T1, "alice")).seq == 1
    assert loaded.side((T1, "bob")) == SideHead()
    assert (loaded.spent((T1, "messages", "")), loaded.spent((T1, "other", "2026"))) == (4, 0)
    assert loaded.log_end(T1, "intent_1")[0] == 1
    assert loaded.is_saved(T1, "s1")
    assert not loaded.is_saved(T1, "s2")
    assert loaded.head(T1).position == 2
    assert loaded.new_channel() > counters.number


@in_loop
async def test_everything_is_found_whoever_knows_what(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        assert_complete(await desk.load(*much()))
        assert_complete(await desk.load(*much()))


@in_loop
async def test_what_is_forgotten_while_the_rest_is_asked_for_is_still_there(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.load(*much())
        desk.forgetful = True

        assert_complete(await desk.load(*much()))


@in_loop
async def test_a_usual_message_asks_for_nothing_once_its_channel_is_known(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.load(TeamChanges(T1, (a_post("msg_2"),)))
        assert len(desk.asked) == 2

        await desk.load(*[TeamChanges(T1, (a_post(f"msg_{n}"),)) for n in range(3, 9)])

        assert desk.asked == []


@in_loop
async def test_many_commits_ask_for_each_sort_once(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.load(*(one for _ in range(5) for one in much()))

        assert len(desk.asked) == len(set(desk.asked)) == 8


@in_loop
async def test_a_name_is_asked_for_only_where_it_is_new(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.load(TeamChanges(T1, puts=(a_channel(version=1),)))
        assert not any("record.name" in one for one in desk.asked)

        await desk.load(TeamChanges(T1, puts=(a_channel(version=1, label="plans"),)))
        assert any("record.name" in one for one in desk.asked)


@in_loop
async def test_only_what_still_waits_is_pending_and_comes_with_its_counters(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        waiting = a_request("msg_2", to="role:helper", state=PostState.PENDING, recipients=())
        await desk.store.commit(TeamChanges(T1, (waiting,)))
        desk.forget()
        moved = (Moved("msg_1", PostState.DELIVERED, ("bob",)), Moved("msg_2", PostState.DELIVERED, ("bob",)))

        loaded = await desk.load(TeamChanges(T1, moved=moved))

        assert loaded.pending(T1, "msg_1") is None
        assert loaded.pending(T2, "msg_2") is None
        found, counters = loaded.pending(T1, "msg_2"), loaded.counters(T1, "chan_1")
        assert found is not None
        assert counters is not None
        assert (found.seq, counters.seq) == (2, 2)


@pytest.mark.parametrize(
    ("messages", "found"),
    [(("msg_2", "msg_1", "msg_9"), 2), (("msg_1",), 1), (("msg_3",), 0), (("msg_other",), 0), ((), 0)],
)
@in_loop
async def test_only_messages_of_the_tenant_that_still_say_something_are_counted(
    dsn: str, messages: tuple[str, ...], found: int
) -> None:
    async with a_desk(dsn) as desk:
        await desk.store.commit(TeamChanges(T1, (a_post("msg_2"), a_post("msg_3", metadata=ERASED))))
        await desk.store.commit(TeamChanges(T2, (a_post("msg_other", "chan_2"),)))

        blank = tuple(map(ErasableMessage, messages))

        loaded = await desk.load(TeamChanges(T1, erase=blank))

        assert loaded.unerased(T1, blank) == found
        await desk.load(TeamChanges(T1))
        assert desk.asked == []
