"""What nobody sees any more is removed beside the commits, with what was noted of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from parley.adapters.postgres.evictor import Evictor
from parley.domain.channel.post import Receipt
from parley.domain.errors.errors import Unavailable
from parley.domain.store.changes import TeamChanges
from parley.domain.store.writes import EvictPosts
from tests.contract.team_store import AT, T1, a_channel, a_post
from tests.postgres.cluster import drop
from tests.postgres.nodes import a_hand, counted, nodes
from tests.postgres.store import fresh_database
from tests.rigs.team import in_loop


@pytest.fixture
def dsn() -> Iterator[str]:
    made = fresh_database()
    yield made
    drop(made)


@in_loop
async def test_messages_go_up_to_their_place_with_their_receipts_and_no_others(dsn: str) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        posts = [a_post(f"{channel}_{n}", channel) for channel in ("chan_1", "chan_2") for n in (1, 2, 3)]
        receipts = tuple([Receipt(post.id, "bob", AT) for post in posts])
        await a.commit(TeamChanges(T1, tuple(posts), puts=(a_channel("chan_2"),), receipts=receipts))
        number = await hand.one("SELECT number FROM tally WHERE id = 'chan_1'")
        evictor = Evictor(a.sessions)

        evictor.enqueue([EvictPosts(1, number, 2)])
        await evictor.close()

        left = [("chan_1_3",), ("chan_2_1",), ("chan_2_2",), ("chan_2_3",)]
        assert await hand.ask("SELECT id FROM post ORDER BY id") == left
        assert await hand.ask("SELECT post_id FROM receipt ORDER BY post_id") == left


@in_loop
async def test_of_a_channel_only_the_last_place_counts_and_nothing_is_asked_for_nothing(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(dsn, "a") as (a,):
        asked = counted(a, monkeypatch, "DELETE FROM post")
        evictor = Evictor(a.sessions)

        evictor.enqueue([])
        evictor.enqueue([EvictPosts(1, 1, n) for n in range(10)])
        evictor.enqueue([EvictPosts(1, 1, 10), EvictPosts(1, 2, 1)])
        await evictor.close()

        assert len(asked) == 2


@in_loop
async def test_a_database_that_fails_costs_only_that_it_is_removed_later(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_hand(dsn) as hand, nodes(dsn, "a") as (a,):
        await a.commit(TeamChanges(T1, (a_post(),)))
        evictor = Evictor(a.sessions)

        async def fail(*_: object) -> None:
            await asyncio.sleep(0)
            raise Unavailable("gone")

        monkeypatch.setattr(a.sessions, "fetch", fail)
        evictor.enqueue([EvictPosts(1, 1, 1)])
        await evictor.close()
        monkeypatch.undo()
        evictor.enqueue([EvictPosts(1, 1, 1)])
        await evictor.close()

        assert await hand.one("SELECT count(*) FROM post") == 0
