"""A transaction in the database: whatever its commits have to do with each other, everything is there afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from parley.adapters.postgres.cache import decode_note
from parley.adapters.postgres.store import PostgresTeamStore
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import ERASED, PostState, Receipt
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import NameTaken
from parley.domain.store.changes import Committed, ErasableMessage, FeedScope, Moved, Spend, TeamChanges
from tests.contract.team_store import (
    AT,
    LATER,
    T1,
    T2,
    a_channel,
    a_post,
    a_request,
    a_use,
    an_answer,
    an_entry,
    an_event,
    an_intent,
)
from tests.postgres.cluster import drop
from tests.postgres.nodes import Database, a_hand, nodes, until
from tests.postgres.store import fresh_database
from tests.rigs.team import in_loop


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


class Desk:
    """A node with a channel, `chan_1`, and a hand on its tables."""

    def __init__(self, store: PostgresTeamStore, hand: Database) -> None:
        self.store = store
        self.rows = hand.ask
        self._hand = hand

    async def write(self, *batch: TeamChanges) -> list[Committed]:
        """Commit these in one transaction."""
        before = await self._hand.one("SELECT sum(revision) FROM tenant WHERE id = 'acme'")
        done = await asyncio.gather(*map(self.store.commit, batch))
        assert await self._hand.one("SELECT sum(revision) FROM tenant WHERE id = 'acme'") == before + 1
        return done

    async def note(self) -> Any:  # noqa: ANN401
        """What the journal says of the last transaction."""
        query = "SELECT document FROM journal WHERE tenant = 1 ORDER BY revision DESC LIMIT 1"
        return decode_note(await self._hand.one(query))


@asynccontextmanager
async def a_desk(dsn: str) -> AsyncIterator[Desk]:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        yield Desk(a, hand)


# ---------------------------------------------------------------- records and channels


@in_loop
async def test_names_may_be_swapped_in_one_transaction(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        one, two = await desk.store.every(Channel, T1)

        await desk.write(
            TeamChanges(T1, puts=(replace(one, label="free"),)),
            TeamChanges(T1, puts=(replace(two, label="chan_1"),)),
            TeamChanges(T1, puts=(replace(one, label="chan_2", version=2),)),
            TeamChanges(T1, puts=(a_channel("chan_3", label="free"),)),
        )

        names = "SELECT id, name FROM record WHERE kind = 'channel' ORDER BY id"
        assert await desk.rows(names) == [("chan_1", "chan_2"), ("chan_2", "chan_1"), ("chan_3", "free")]
        with pytest.raises(NameTaken):
            await desk.store.commit(TeamChanges(T1, puts=(a_channel("chan_4", label="chan_1"),)))


@in_loop
async def test_the_name_of_a_record_that_goes_may_be_taken_in_the_same_transaction(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(
            TeamChanges(T1, drops=(a_channel(version=1),)),
            TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1"),)),
        )

        assert await desk.rows("SELECT id, name FROM record WHERE kind = 'channel'") == [("chan_2", "chan_1")]


@in_loop
async def test_a_channel_that_goes_and_comes_again_has_the_counters_of_the_new_one(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(TeamChanges(T1, (a_post("msg_1"),)))
        before = await desk.rows("SELECT number FROM tally")

        await desk.write(
            TeamChanges(T1, drops=(a_channel(version=1),)), TeamChanges(T1, (a_post("msg_2"),), puts=(a_channel(),))
        )
        await desk.write(TeamChanges(T1, (a_post("msg_3"),)))

        ((number, *counters),) = await desk.rows("SELECT number, id, count, seq FROM tally")
        assert (number,) != before[0]
        assert counters == ["chan_1", 2, 2]
        said = "SELECT id, seq FROM post WHERE channel = $1 ORDER BY seq"
        assert await desk.rows(said, number) == [("msg_2", 1), ("msg_3", 2)]
        assert (await desk.store.tally(T1, "chan_1")).total == 2


@in_loop
async def test_a_channel_that_comes_and_goes_leaves_no_counters(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(
            TeamChanges(T1, puts=(a_channel("chan_2"),)), TeamChanges(T1, drops=(a_channel("chan_2", version=1),))
        )

        assert await desk.rows("SELECT id FROM tally") == [("chan_1",)]
        assert await desk.rows("SELECT id FROM record WHERE kind = 'channel'") == [("chan_1",)]
        assert (await desk.note()).channel_counters == {}


@in_loop
async def test_the_journal_says_what_a_transaction_touched(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(TeamChanges(T1, (a_post("msg_1"),)), TeamChanges(T1, puts=(an_intent(version=1),)))
        note = await desk.note()
        assert (note.head[0], note.records, note.channels) == (1, [("intent", "intent_1")], ["chan_1"])
        assert (note.ended, note.departed, note.others) == ([], [], False)

        await desk.write(TeamChanges(T1, events=(an_event(),)))
        assert (await desk.note()).others

        await desk.write(TeamChanges(T1, drops=(a_channel(version=1),), ended=("chan_1",), departed=("bob",)))
        note = await desk.note()
        assert (note.records, note.channels, note.channel_counters) == ([("channel", "chan_1")], ["chan_1"], {})
        assert (note.ended, note.departed) == (["chan_1"], ["bob"])


# ---------------------------------------------------------------- what is said


@in_loop
async def test_many_messages_events_and_keys_go_into_one_transaction(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(
            *[
                TeamChanges(
                    T1,
                    (a_post(f"msg_{n}"),),
                    events=(an_event(f"evt_{n}"),),
                    saved=a_use(f"s{n}"),
                    entries=(an_entry(),),
                )
                for n in range(50)
            ]
        )

        for table in ("post", "event", "saved", "entry"):
            assert await desk.rows(f"SELECT count(*) FROM {table}") == [(50,)]
        assert await desk.rows("SELECT head, entry_position FROM tenant") == [(100, 50)]
        assert await desk.rows("SELECT count, seq, last_at, floor FROM tally") == [(50, 50, AT, 0)]


@in_loop
async def test_a_request_and_its_answer_may_come_in_one_transaction(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(TeamChanges(T1, (a_request("old"),)))

        await desk.write(
            TeamChanges(T1, (a_request("msg_1"),)),
            TeamChanges(T1, (a_request("msg_2"),), receipts=(Receipt("msg_1", "bob", AT),)),
            TeamChanges(T1, (an_answer("ans_1", "msg_1"), an_answer("ans_2", "msg_2"), an_answer("ans_3", "old"))),
        )

        answered = "SELECT id FROM post WHERE answered ORDER BY id"
        assert await desk.rows(answered) == [("msg_1",), ("msg_2",), ("old",)]
        assert await desk.store.oldest_request(T1, "bob", AT) is None


@in_loop
async def test_what_waited_takes_its_new_place(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        waiting = a_request("msg_1", to="role:helper", state=PostState.PENDING, recipients=())
        await desk.write(TeamChanges(T1, (waiting, a_post("msg_2"))))

        await desk.write(TeamChanges(T1, moved=(Moved("msg_1", PostState.DELIVERED, ("bob",)),)))

        found = "SELECT id, number & 1099511627775, seq, state FROM post ORDER BY number"
        assert await desk.rows(found) == [("msg_2", 2, 2, "delivered"), ("msg_1", 3, 3, "delivered")]
        assert await desk.rows("SELECT seq, count FROM tally") == [(3, 2)]


@in_loop
async def test_what_expires_is_what_waits_and_nothing_else(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(
            TeamChanges(T1, (a_request("msg_1"), a_request("msg_2", to="carol"), a_request("msg_3"), a_post("msg_4"))),
            TeamChanges(T1, (an_answer("ans_3", "msg_3"),)),
        )
        expired = "SELECT id FROM post WHERE state = 'expired' ORDER BY id"

        await desk.write(TeamChanges(T1, moved=(Moved("msg_3", PostState.EXPIRED),)))
        assert await desk.rows(expired) == []
        await desk.write(TeamChanges(T1, departed=("bob",)))
        assert await desk.rows(expired) == [("msg_1",)]
        await desk.write(TeamChanges(T1, ended=("chan_1",)))
        assert await desk.rows(expired) == [("msg_1",), ("msg_2",)]


# ---------------------------------------------------------------- what goes


@in_loop
async def test_what_is_evicted_goes_with_its_receipts(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        (channel,) = await desk.store.every(Channel, T1)
        few = replace(channel, options=replace(channel.options, max_messages=3))
        await desk.write(TeamChanges(T1, puts=(few,)))
        await desk.write(*[TeamChanges(T1, (a_post(f"msg_{n}"),)) for n in range(60)])
        await desk.write(TeamChanges(T1, receipts=tuple([Receipt(f"msg_{n}", "bob", AT) for n in range(60)])))
        assert await desk.rows("SELECT count(*) FROM receipt") == [(60,)]

        await desk.write(*[TeamChanges(T1, (a_post(f"msg_{n}"),)) for n in range(60, 200)])

        async def removed() -> bool:
            return await desk.rows("SELECT count(*) FROM receipt") == [(0,)]

        await until(removed)
        assert await desk.rows("SELECT count(*) <= 64, min(seq) > 128 FROM post") == [(True, True)]
        assert await desk.rows("SELECT floor, seq FROM tally") == [(197, 200)]
        assert len(await desk.store.search(T1, "hello", FeedScope(None), AT, 100)) == 3


@in_loop
async def test_a_purge_leaves_nothing_that_was_said_or_read(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        await desk.write(TeamChanges(T1, (a_post("msg_1"), a_post("msg_2")), receipts=(Receipt("msg_1", "bob", AT),)))

        await desk.write(TeamChanges(T1, receipts=(Receipt("msg_2", "bob", AT),), purges=("chan_1",)))

        assert await desk.rows("SELECT id FROM post UNION ALL SELECT post_id FROM receipt") == []
        assert await desk.rows("SELECT count, seq, floor FROM tally") == [(2, 2, 2)]


@in_loop
async def test_an_erasure_says_how_many_it_blanked_and_empties_what_is_kept_for_who_asks_again(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        told = a_use("s1", message_id="msg_1", status=201, answer=b"hello")
        await desk.write(TeamChanges(T1, (a_post("msg_1"), a_post("msg_2")), saved=told))
        await desk.write(
            TeamChanges(T1, (a_post("msg_3", sender="bob"), a_post("msg_4", exchange_id="ex_1", sender="bob")))
        )

        (two,) = await desk.write(TeamChanges(T1, erase=(ErasableMessage("msg_1"), ErasableMessage("msg_2"))))
        assert await desk.rows("SELECT answer FROM saved") == [(b"hello",)]
        (one,) = await desk.write(
            TeamChanges(T1, erase=(ErasableMessage("msg_1", ("s1", "s2")), ErasableMessage("msg_4")))
        )

        assert (two.erased, one.erased) == (2, 1)
        blanked = "SELECT id FROM post WHERE metadata = $1 AND payload = $2 ORDER BY id"
        assert await desk.rows(blanked, ERASED, b"{}") == [("msg_1",), ("msg_2",), ("msg_4",)]
        assert await desk.rows("SELECT answer FROM saved") == [(b"",)]


@in_loop
async def test_what_was_saved_and_spent_long_ago_is_forgotten_for_every_tenant(dsn: str) -> None:
    async with a_desk(dsn) as desk:
        for tenant, message in ((T1, "msg_1"), (T2, "msg_2")):
            spends = (Spend("day", 10, "2026-03-12"), Spend("day", 10, "2026-03-14"), Spend("ever", 10))
            await desk.store.commit(TeamChanges(tenant, spends=spends, saved=a_use(f"old {message}")))
            await desk.store.commit(TeamChanges(tenant, saved=a_use(f"new {message}", at=LATER)))

        await desk.write(TeamChanges(T1, forget_before=LATER))

        assert await desk.rows("SELECT scope FROM saved ORDER BY scope") == [("new msg_1",), ("new msg_2",)]
        kept = await desk.rows("SELECT tenant, key, span FROM budget ORDER BY tenant, key")
        assert kept == [(n, key, span) for n in (1, 2) for key, span in (("day", "2026-03-14"), ("ever", ""))]
        # What is known of them is gone, too, and the next question is true.
        assert (await desk.store.commit(TeamChanges(T2, spends=(Spend("ever", 2),)))).position == 0
        with pytest.raises(Overspent):
            await desk.store.commit(TeamChanges(T2, spends=(Spend("ever", 2),)))


@in_loop
async def test_budgets_are_counted_over_the_commits_of_a_transaction_and_over_nodes(dsn: str) -> None:
    async with nodes(dsn, "a", "b") as (a, b):
        spend = TeamChanges(T1, spends=(Spend("messages", 3),))

        first = await asyncio.gather(*(a.commit(spend) for _ in range(2)), return_exceptions=True)
        rest = await asyncio.gather(*(one.commit(spend) for one in (a, b) for _ in range(3)), return_exceptions=True)

        assert [isinstance(one, Committed) for one in first] == [True, True]
        assert sum(isinstance(one, Committed) for one in rest) == 1
        assert {type(one) for one in rest} == {Committed, Overspent}
        await b.commit(TeamChanges(T1, spends=(Spend("messages", 3, amount=-2),)))
        await a.commit(spend)
