"""The contract of every server's store about messages: their places, who sees them, and the feed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley.domain.channel.channel import View
from parley.domain.channel.post import PostState, Receipt
from parley.domain.errors.errors import NotFound
from parley.domain.store.changes import Committed, FeedScope, Query, TeamChanges
from parley.ports.team import TeamStore
from tests.contract.team_store import (
    ALL,
    AT,
    LATER,
    T1,
    T2,
    TeamStoreContract,
    a_channel,
    a_post,
    a_request,
    an_answer,
    an_event,
    seen_by,
    stored,
)

EVERYTHING = FeedScope(None)


class TeamMessagesContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    # -------------------------------------------------------- messages and their places

    @stored
    async def test_a_message_comes_back_exactly_as_it_was_posted(self, store: TeamStore) -> None:
        post = a_request(
            payload='{"text":"ümläut \\u0000 \\" 👋"}'.encode(),
            metadata=b'{"a":1}',
            expires_at=LATER,
            recipients=("bob", "carol"),
        )

        committed = await store.commit(TeamChanges(T1, (post,)))

        placed = post._replace(position=1, seq=1)
        assert committed.posts == (placed,)
        assert committed.position == 1
        assert await store.post(T1, "msg_1") == placed
        store = await self.restarted(store)
        assert await store.post(T1, "msg_1") == placed
        assert (await store.page(T1, Query("chan_1", ALL, AT)))[0].post == placed

    @stored
    async def test_positions_and_places_are_dense_under_racing_writers(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))

        async def write(writer: int) -> list[Committed]:
            made = []
            for n in range(4):
                channel_id = f"chan_{1 + (writer + n) % 2}"
                posts = tuple(a_post(f"msg_{writer}_{n}_{k}", channel_id) for k in range(1 + n % 2))
                events = (an_event(f"evt_{writer}_{n}"),) if n == 2 else ()
                made.append(await store.commit(TeamChanges(T1, posts, events=events)))
            return made

        commits = [one for made in await asyncio.gather(*map(write, range(64))) for one in made]

        posts = [post for one in commits for post in one.posts]
        positions = [post.position for post in posts] + [event.position for one in commits for event in one.events]
        assert sorted(positions) == list(range(1, 64 * 7 + 1))
        assert await store.head(T1) == 64 * 7
        for channel_id in ("chan_1", "chan_2"):
            mine = sorted((post.seq, post.position) for post in posts if post.channel_id == channel_id)
            assert [seq for seq, _ in mine] == list(range(1, len(mine) + 1))
            assert mine == sorted(mine, key=lambda one: one[1])
            assert (await store.tally(T1, channel_id)).total == len(mine)

    @stored
    async def test_a_reader_between_racing_writers_never_skips_a_message(self, store: TeamStore) -> None:
        async def write(writer: int) -> None:
            for n in range(10):
                await store.commit(TeamChanges(T1, (a_post(f"msg_{writer}_{n}"),)))

        paged: list[int] = []
        fed: list[int] = []
        writers = asyncio.gather(*map(write, range(16)))
        while not writers.done():
            paged += [one.post.seq for one in await store.page(T1, Query("chan_1", ALL, AT, len(paged), limit=7))]
            fed += [one.position for one in await store.feed(T1, len(fed), limit=5)]
        await writers
        while page := await store.page(T1, Query("chan_1", ALL, AT, len(paged), limit=7)):
            paged += [one.post.seq for one in page]
        while feed := await store.feed(T1, len(fed), limit=5):
            fed += [one.position for one in feed]

        assert paged == list(range(1, 161))
        assert fed == list(range(1, 161))

    @stored
    async def test_what_was_committed_is_read_at_once(self, store: TeamStore) -> None:
        for n in range(20):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))
            found = await store.page(T1, Query("chan_1", ALL, AT, after_seq=n))
            assert [one.post.id for one in found] == [f"msg_{n}"]

    @stored
    async def test_time_within_a_channel_does_not_fall_when_the_clock_does(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", created_at=LATER),)))

        committed = await store.commit(TeamChanges(T1, (a_post("msg_2", created_at=AT),)))

        assert committed.posts[0].created_at == LATER
        assert (await store.tally(T1, "chan_1")).last_at == LATER

    @stored
    async def test_a_post_to_no_channel_is_refused_without_a_trace(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        before = await self.everything(store)

        for channel_id in ("chan_none", "chan_t2"):
            with pytest.raises(NotFound):
                await store.commit(self.much(posts=(a_post("msg_x", channel_id),)))

        assert await self.everything(store) == before

    @stored
    async def test_a_change_that_cannot_be_written_takes_no_other_with_it(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        unfit = TeamChanges(T1, (a_post("msg_2"),), events=(an_event(payload=b"no json"),))
        twice = TeamChanges(T1, (a_post("msg_1"),))
        fit = [TeamChanges(T1, (a_post(f"msg_f{n}"),)) for n in range(4)]

        outcomes = await asyncio.gather(
            *map(store.commit, (fit[0], unfit, fit[1], twice, fit[2], fit[3])), return_exceptions=True
        )

        assert [isinstance(one, Committed) for one in outcomes] == [True, False, True, False, True, True]
        page = await store.page(T1, Query("chan_1", ALL, AT))
        assert [one.post.id for one in page] == ["msg_1", "msg_f0", "msg_f1", "msg_f2", "msg_f3"]
        assert [one.post.seq for one in page] == [1, 2, 3, 4, 5]

    @stored
    async def test_a_page_shows_what_its_reader_may_see(self, store: TeamStore) -> None:
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_post("msg_1"),
                    a_post("msg_2", to="bob", recipients=("bob",)),
                    a_post("msg_3", to="carol", recipients=("carol",)),
                    a_post("msg_4", to="role:r", recipients=("bob", "carol")),
                    a_post("msg_5", to="role:none", recipients=(), state=PostState.PENDING),
                    a_post("msg_6", sender="bob", to="carol", recipients=("carol",)),
                    a_post("msg_7"),
                ),
            )
        )

        async def ids(view: View, **query: Any) -> list[str]:
            return [one.post.id[4:] for one in await store.page(T1, Query("chan_1", view, AT, **query))]

        assert await ids(ALL) == list("1234567")
        assert await ids(seen_by("alice")) == list("123457")
        assert await ids(seen_by("bob")) == list("12467")
        assert await ids(seen_by("carol")) == list("13467")
        assert await ids(seen_by("carol", since=1)) == list("3467")
        assert await ids(seen_by("bo")) == list("17")
        assert await ids(ALL, to="bob") == list("1247")
        assert await ids(seen_by("carol"), to="bob") == list("147")
        assert await ids(ALL, after_seq=3, limit=2) == list("45")

    @stored
    async def test_a_page_begins_after_a_moment(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", created_at=AT), a_post("msg_2", created_at=LATER))))

        found = await store.page(T1, Query("chan_1", ALL, LATER, after_time=AT))

        assert [one.post.id for one in found] == ["msg_2"]

    @stored
    async def test_what_has_expired_is_on_no_page_and_found_by_its_id(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", expires_at=LATER), a_post("msg_2"))))

        before = await store.page(T1, Query("chan_1", ALL, AT))
        after = await store.page(T1, Query("chan_1", ALL, LATER))

        assert [one.post.id for one in before] == ["msg_1", "msg_2"]
        assert [one.post.id for one in after] == ["msg_2"]
        assert await store.post(T1, "msg_1") is not None

    @stored
    async def test_an_answered_request_stays_on_the_page_and_in_the_search_after_its_time(
        self, store: TeamStore
    ) -> None:
        asked = (a_request("msg_1", expires_at=LATER), a_request("msg_2", expires_at=LATER))
        await store.commit(TeamChanges(T1, asked))
        await store.commit(TeamChanges(T1, (an_answer("msg_3", "msg_1"),)))

        page = await store.page(T1, Query("chan_1", ALL, LATER))

        assert [one.post.id for one in page] == ["msg_1", "msg_3"]
        assert await store.search(T1, "hello", FeedScope(None), LATER, 10) == (3, 1)
        assert await store.search(T1, "hello", FeedScope({"chan_1": 0}), LATER, 10) == (3, 1)

    @stored
    async def test_each_reader_sees_its_own_receipt_and_the_sender_the_addressees(self, store: TeamStore) -> None:
        direct = a_post("msg_1", to="bob", recipients=("bob",))
        await store.commit(TeamChanges(T1, (direct, a_post("msg_2"))))
        receipts = (Receipt("msg_1", "bob", AT), Receipt("msg_2", "bob", LATER), Receipt("msg_2", "alice", AT))

        await store.commit(TeamChanges(T1, receipts=receipts))
        await store.commit(TeamChanges(T1, receipts=(Receipt("msg_1", "bob", LATER),)))

        async def read_at(view: View) -> list[str]:
            page = await store.page(T1, Query("chan_1", view, AT))
            single = [(await store.with_receipt(T1, one.post, view.agent)).read_at for one in page]
            assert [one.read_at for one in page] == single
            return single

        assert await read_at(seen_by("bob")) == [AT, LATER]
        assert await read_at(seen_by("alice")) == [AT, AT]
        assert await read_at(seen_by("carol")) == [""]
        assert await read_at(ALL) == [AT, ""]

    @stored
    async def test_answers_are_found_in_order_and_mark_their_request(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1"), a_request("msg_2"))))

        await store.commit(TeamChanges(T1, (an_answer("msg_3", "msg_1"),)))
        await store.commit(TeamChanges(T1, (an_answer("msg_4", "msg_1"),)))

        assert [one.id for one in await store.answers(T1, "msg_1")] == ["msg_3", "msg_4"]
        assert await store.answers(T1, "msg_2") == ()
        asked = [await store.post(T1, message_id) for message_id in ("msg_1", "msg_2")]
        assert [one and one.answered for one in asked] == [True, False]

    @stored
    async def test_a_request_and_its_answer_may_come_in_one_commit(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1"), an_answer("msg_2", "msg_1"))))

        request = await store.post(T1, "msg_1")

        assert request is not None
        assert request.answered

    # -------------------------------------------------------- feed, search

    @stored
    async def test_the_feed_has_posts_and_events_in_the_order_of_their_commits(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),), events=(an_event("evt_1"),)))
        await store.commit(TeamChanges(T1, (a_post("msg_2"), a_post("msg_3"))))
        await store.commit(TeamChanges(T1, events=(an_event("evt_2"),)))

        feed = await store.feed(T1, 0)

        named = [one.post.id if one.post else one.event.id if one.event else "" for one in feed]
        assert named == ["msg_1", "evt_1", "msg_2", "msg_3", "evt_2"]
        assert [one.position for one in feed] == [1, 2, 3, 4, 5]
        assert {(one.intent_id, one.channel_id) for one in feed} == {("intent_1", "chan_1"), ("intent_1", "")}
        assert [one.position for one in await store.feed(T1, 1, limit=2)] == [2, 3]
        assert await store.feed(T1, 5) == ()
        assert await store.head(T1) == 5
        assert await (await self.restarted(store)).feed(T1, 0) == feed

    @stored
    async def test_search_finds_text_in_any_case_newest_first(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_post("msg_1", payload='{"text":"Straße frei"}'.encode()),
                    a_post("msg_2", payload=b'{"text":"nothing"}'),
                    a_post("msg_3", "chan_2", payload=b'{"text":"STRASSE"}'),
                ),
            )
        )

        assert await store.search(T1, "strasse", EVERYTHING, AT, 10) == (3, 1)
        assert await store.search(T1, "straße", FeedScope({"chan_1": 0}), AT, 10) == (1,)
        assert await store.search(T1, "strasse", FeedScope({"chan_1": 0, "chan_2": 0}), AT, 10) == (3, 1)
        assert await store.search(T1, "strasse", EVERYTHING, AT, 1) == (3,)
        assert await store.search(T1, "strasse", FeedScope({}), AT, 10) == ()
        assert await store.search(T2, "strasse", FeedScope({"chan_1": 0}), AT, 10) == ()
        assert await store.search(T1, "%", EVERYTHING, AT, 10) == ()

    @stored
    async def test_a_channel_is_read_backwards_in_pages(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, tuple([a_post(f"msg_{n}") for n in range(1, 6)])))
        newest = Query("chan_1", ALL, AT, limit=2, newest=True)

        pages = [await store.page(T1, newest._replace(before_seq=before)) for before in (0, 4, 2, 1)]

        assert [[one.post.seq for one in page] for page in pages] == [[5, 4], [3, 2], [1], []]
        assert [one.post.seq for one in await store.page(T1, Query("chan_1", ALL, AT, before_seq=3))] == [1, 2]
