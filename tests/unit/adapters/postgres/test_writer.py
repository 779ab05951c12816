"""The queue of a node: many commits in one transaction, and who waits for whom when the database fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from parley.adapters.postgres import writer as writing
from parley.adapters.postgres.store import PostgresTeamStore
from parley.domain.errors.errors import Unavailable
from parley.domain.store.changes import Committed, TeamChanges, merge_posts
from tests.contract.team_store import T1, a_post, an_intent
from tests.postgres.cluster import drop
from tests.postgres.nodes import (
    AT_COMMIT,
    Watch,
    a_hand,
    held_up,
    nodes,
    quiet,
    said,
    together,
    until,
    waiting_at_the_end,
)
from tests.postgres.store import fresh_database
from tests.rigs.team import in_loop, kinds

REVISION = "SELECT revision FROM tenant WHERE id = 'acme'"
SAID = "SELECT id FROM post ORDER BY number"


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


# ---------------------------------------------------------------- many at once


@in_loop
async def test_what_queues_up_is_committed_in_one_transaction(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        watch = Watch(a)

        outcomes = await together(a, *said(*(f"msg_{n}" for n in range(100))))

        assert [one.posts[0].seq for one in outcomes if isinstance(one, Committed)] == list(range(1, 101))
        assert await hand.one(REVISION) == 2
        assert watch.heard == merge_posts([(T1, one) for one in outcomes if isinstance(one, Committed)])


@in_loop
async def test_two_nodes_that_commit_at_once_take_every_position_once(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as stores:
        watches = [Watch(one) for one in stores]

        async def talk(store: PostgresTeamStore, name: str) -> None:
            for n in range(25):
                await store.commit(TeamChanges(T1, (a_post(f"msg_{name}_{n}"),)))

        await asyncio.gather(*(talk(one, f"{place}_{n}") for place, one in enumerate(stores) for n in range(8)))

        for store, watch in zip(stores, watches, strict=True):
            await store.catch_up(T1)
            feed = await store.feed(T1, 0)
            assert [item.position for item in feed] == list(range(1, 401))
            assert [item.post.seq for item in feed if item.post] == list(range(1, 401))
            assert watch.posts == [item.post.id for item in feed if item.post]


@in_loop
async def test_a_node_that_met_others_sends_when_as_many_are_queued_as_before(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_GATHER_SECONDS", 3600.0)  # only the number counts
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await b.commit(TeamChanges(T1, (a_post("first"),)))
        await a.commit(TeamChanges(T1, (a_post("of_a"),)))
        async with held_up(hand):  # so that the group takes a while
            before = [asyncio.ensure_future(b.commit(one)) for one in said("msg_1", "msg_2", "msg_3")]
            await until(lambda: hand.waits("b writes", "transactionid"))
        await asyncio.gather(*before)
        (lane,) = [lane for lane in b.writer._lanes if lane._expected]
        lane._gather_end = asyncio.get_running_loop().time() + 3600.0
        revision = await hand.one(REVISION)

        after = [asyncio.ensure_future(b.commit(one)) for one in said("msg_4", "msg_5")]
        await until(lambda: lane._gathered is not None)
        assert (lane.queued, await hand.one(REVISION)) == (2, revision)
        after.append(asyncio.ensure_future(b.commit(*said("msg_6"))))
        await asyncio.gather(*after)

        assert await hand.one(REVISION) == revision + 1


@in_loop
async def test_a_node_that_met_others_gathers_no_longer_than_its_last_group_took(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        await b.commit(TeamChanges(T1, (a_post("first"),)))
        await a.commit(TeamChanges(T1, (a_post("of_a"),)))
        await together(b, *said("msg_1", "msg_2", "msg_3"))

        done = await b.commit(TeamChanges(T1, (a_post("alone"),)))

        assert done.position == 6


@in_loop
async def test_what_stands_alone_has_a_transaction_of_its_own_and_overtakes_nobody(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        watch = Watch(a)
        batch = said(*(f"msg_{n}" for n in range(6)))
        batch[2] = batch[2]._replace(ended=("chan_1",))
        batch[3] = batch[3]._replace(departed=("bob",))

        outcomes = await together(a, *batch)

        assert [one.posts[0].seq for one in outcomes if isinstance(one, Committed)] == [1, 2, 3, 4, 5, 6]
        heard = [[post.seq for post in one.posts] for _, one in watch.heard]
        assert heard == [[1, 2], [3], [4], [5, 6]]
        assert await hand.one(REVISION) == 5


@in_loop
async def test_who_met_others_gathers_before_the_next_group(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a", "b") as (a, b):
        await b.commit(TeamChanges(T1, (a_post("of_b"),)))
        await quiet(a)
        before = await hand.one(REVISION)
        first = asyncio.create_task(a.commit(TeamChanges(T1, (a_post("msg_1"),))))
        await until(lambda: a.writer.queued == 0)
        behind = asyncio.create_task(a.commit(TeamChanges(T1, (a_post("msg_2"),))))
        await first

        # It is still gathering: what comes now goes with what has waited.
        late = asyncio.create_task(a.commit(TeamChanges(T1, (a_post("msg_3"),))))
        await asyncio.gather(behind, late)

        assert await hand.one(REVISION) == before + 2
        assert await hand.ask(SAID) == [("of_b",), ("msg_1",), ("msg_2",), ("msg_3",)]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("unfit", ["bad_1", "msg_0"])
@in_loop
async def test_a_commit_that_the_database_refuses_does_not_fail_the_others(dsn: str, unfit: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await hand.db.execute(AT_COMMIT)
        await together(a, *said("msg_0"))
        watch = Watch(a)

        one, bad, *others = await together(a, *said("msg_1", unfit, "msg_2", "msg_3"))

        assert isinstance(bad, Unavailable)
        assert [done.position for done in (one, *others) if isinstance(done, Committed)] == [2, 3, 4]
        assert await hand.ask(SAID) == [("msg_0",), ("msg_1",), ("msg_2",), ("msg_3",)]
        assert watch.posts == ["msg_1", "msg_2", "msg_3"]
        assert a.writer.queued == 0


@in_loop
async def test_a_change_that_cannot_be_written_does_not_stop_the_writer(dsn: str) -> None:
    async with nodes(dsn, "a") as (a,):
        unfit, fit = await together(a, TeamChanges(T1, (a_post("unfit", sender="\ud800"),)), *said("msg_1"))

        assert isinstance(unfit, Exception)
        assert isinstance(fit, Committed)
        assert fit.position == 1


# ---------------------------------------------------------------- connections that break


@in_loop
async def test_a_connection_that_was_cut_while_idle_is_replaced(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        assert await hand.cut("a writes") == 1

        assert (await a.commit(TeamChanges(T1, (a_post(),)))).position == 1


@in_loop
async def test_a_commit_whose_connection_is_cut_before_its_end_is_tried_again_and_made_once(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        watch = Watch(a)
        async with held_up(hand):
            commit = asyncio.create_task(a.commit(TeamChanges(T1, (a_post(),))))
            await until(lambda: hand.waits("a writes", "transactionid"))
            await hand.cut("a writes")

        assert (await commit).position == 1
        assert await hand.ask(SAID) == [("msg_1",)]
        assert watch.posts == ["msg_1"]


@in_loop
async def test_the_queue_behind_a_commit_that_failed_fails_with_it_and_does_not_wait_again(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        first = await waiting_at_the_end(hand, a)
        behind = [asyncio.create_task(a.commit(one)) for one in said("msg_1", "msg_2", "msg_3")]
        await until(lambda: a.writer.queued == 3)

        await hand.cut("a writes")

        found = await asyncio.gather(first, *behind, return_exceptions=True)
        assert isinstance(found[0], Unavailable)
        assert all(one is found[0] for one in found)
        assert (a.writer.queued, await hand.ask(SAID)) == (0, [])
        assert (await a.commit(TeamChanges(T1, (a_post("msg_1"),)))).position == 1


@pytest.mark.slow
@in_loop
async def test_who_waits_too_long_for_a_tenant_that_others_hold_is_refused(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        async with held_up(hand):
            found = await together(a, *said("msg_1", "msg_2"))

        assert {type(one) for one in found} == {Unavailable}
        assert (a.writer.queued, await hand.ask(SAID)) == (0, [])
        assert (await a.commit(TeamChanges(T1, (a_post("msg_1"),)))).position == 1


@in_loop
async def test_a_tenant_that_others_hold_holds_up_nobody_else(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a"):
        one_lane = PostgresTeamStore(dsn, kinds(), name="lane", connections=4)
        others = [f"tenant_{n}" for n in range(5)]
        async with held_up(hand):
            held = [asyncio.create_task(one_lane.commit(one)) for one in said("msg_1", "msg_2")]
            puts = [TeamChanges(other, puts=(an_intent(f"intent_{other}", tenant=other),)) for other in others]
            done = await asyncio.gather(*map(one_lane.commit, puts))
            assert [one.puts[0].version for one in done] == [1] * 5
            assert not any(one.done() for one in held)

        assert sorted([(await one).position for one in held]) == [1, 2]
        await one_lane.close()


# ---------------------------------------------------------------- callers that go, stores that end, newer nodes


@in_loop
async def test_a_commit_is_made_though_its_caller_goes_away(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        watch = Watch(a)
        async with held_up(hand):
            commit = asyncio.create_task(a.commit(TeamChanges(T1, (a_post(),))))
            await until(lambda: hand.waits("a writes", "transactionid"))
            commit.cancel()

        await until(lambda: watch.posts == ["msg_1"])
        assert (await a.commit(TeamChanges(T1, (a_post("msg_2"),)))).position == 2


@in_loop
async def test_the_end_comes_after_what_is_queued(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        queued = [asyncio.ensure_future(a.commit(one)) for one in said(*(f"msg_{n}" for n in range(20)))]
        await asyncio.sleep(0)

        await a.close()

        assert [one.result().position for one in queued] == list(range(1, 21))
        with pytest.raises(Unavailable, match="closed"):
            await a.commit(TeamChanges(T1, (a_post("late"),)))
        assert await hand.one("SELECT count(*) FROM post") == 20
