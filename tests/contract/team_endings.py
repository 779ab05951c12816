"""The contract of every server's store about what goes away: evicted, purged, expired, departed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from parley.domain.channel.channel import Channel, Options, Tally
from parley.domain.channel.post import PostState, Receipt
from parley.domain.store.changes import FeedScope, Moved, Query, TeamChanges
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


class TeamEndingsContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    @stored
    async def test_only_the_last_messages_are_kept_and_all_are_counted(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=3),)))

        for n in range(1, 7):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)))

        for restarts in range(2):
            if restarts:
                store = await self.restarted(store)
            assert [one.post.seq for one in await store.page(T1, Query("chan_2", ALL, AT))] == [4, 5, 6]
            assert await store.tally(T1, "chan_2") == Tally(6, AT, 3)
            assert [await store.post(T1, f"msg_{n}") for n in (1, 2, 3)] == [None] * 3
            assert await store.post(T1, "msg_4") is not None
            assert [item.position for item in await store.feed(T1, 0)] == [4, 5, 6]
            assert await store.search(T1, "hello", FeedScope({"chan_2": 0}), AT, 10) == (6, 5, 4)

    @stored
    async def test_what_memory_says_of_a_channel_is_what_there_is(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))

        for n in (1, 2):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)))

            assert store.cached_tally(T1, "chan_2") == await store.tally(T1, "chan_2") == Tally(n, AT, n - 1)
        assert store.cached_tally(T1, "chan_9") is None
        assert store.cached_tally("other", "chan_2") is None

    @stored
    async def test_eviction_goes_on_over_many_messages_in_one_commit(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=10),)))

        for start in range(0, 300, 100):
            posts = tuple(a_post(f"msg_{n:03d}", "chan_2") for n in range(start, start + 100))
            await store.commit(TeamChanges(T1, posts))

        page = await store.page(T1, Query("chan_2", ALL, AT))
        assert [one.post.id for one in page] == [f"msg_{n:03d}" for n in range(290, 300)]
        assert (await store.tally(T1, "chan_2")).total == 300

    @stored
    async def test_a_channel_that_may_keep_fewer_keeps_fewer_at_once(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, tuple(a_post(f"msg_{n}") for n in range(1, 6))))
        channel = await self.kept(store, Channel, "chan_1")

        await store.commit(TeamChanges(T1, puts=(replace(channel, options=Options(max_messages=2)),)))

        assert [one.post.seq for one in await store.page(T1, Query("chan_1", ALL, AT))] == [4, 5]
        assert (await store.tally(T1, "chan_1")).floor == 3
        assert await (await self.restarted(store)).tally(T1, "chan_1") == Tally(5, AT, 3)

    @stored
    async def test_receipts_of_evicted_messages_do_not_return(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        await store.commit(TeamChanges(T1, receipts=(Receipt("msg_1", "bob", AT),), purges=("chan_1",)))

        again = await store.commit(TeamChanges(T1, (a_post("msg_1"),)))

        assert again.posts[0].seq == 2
        assert (await store.with_receipt(T1, again.posts[0], "bob")).read_at == ""

    @stored
    async def test_a_purge_takes_every_message_and_keeps_the_count_and_the_log(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"), a_request("msg_2")), events=(an_event(),)))

        committed = await store.commit(TeamChanges(T1, purges=("chan_1",)))

        assert committed.ended == ("chan_1",)
        assert await store.page(T1, Query("chan_1", ALL, AT)) == ()
        assert await store.post(T1, "msg_1") is None
        assert await store.tally(T1, "chan_1") == Tally(2, AT, 2)
        assert len(await store.events(T1, "intent_1")) == 1
        store = await self.restarted(store)
        assert await store.page(T1, Query("chan_1", ALL, AT)) == ()
        assert (await store.commit(TeamChanges(T1, (a_post("msg_3"),)))).posts[0].seq == 3

    @stored
    async def test_what_found_its_recipients_takes_a_new_place(self, store: TeamStore) -> None:
        waiting = a_post("msg_1", to="role:r", recipients=(), state=PostState.PENDING)
        await store.commit(TeamChanges(T1, (waiting, a_post("msg_2"))))
        assert [one.id for one in await store.pending(T1, "role:r")] == ["msg_1"]

        committed = await store.commit(TeamChanges(T1, moved=(Moved("msg_1", PostState.DELIVERED, ("bob", "carol")),)))

        moved = waiting._replace(position=3, seq=3, state=PostState.DELIVERED, recipients=("bob", "carol"))
        assert committed.posts == (moved,)
        assert await store.pending(T1, "role:r") == ()
        assert [one.post for one in await store.page(T1, Query("chan_1", seen_by("bob"), AT, after_seq=2))] == [moved]
        assert [one.post for one in await store.feed(T1, 2)] == [moved]
        assert (await store.tally(T1, "chan_1")).total == 2
        assert await (await self.restarted(store)).post(T1, "msg_1") == moved
        assert (await self.open().commit(TeamChanges(T1, (a_post("msg_4"),)))).posts[0].seq == 4

    @stored
    async def test_who_is_waited_for_is_found_over_all_tenants_by_address_a_part_at_a_time(
        self, store: TeamStore
    ) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_2", T2),)))
        first, second, third, fourth = [
            a_post(f"msg_{n}", to="role:r", state=PostState.PENDING, recipients=()) for n in range(1, 5)
        ]
        await store.commit(TeamChanges(T1, (first, second)))
        await store.commit(TeamChanges(T1, (third._replace(to="role:s"), a_post("msg_5"))))
        await store.commit(TeamChanges(T2, (fourth._replace(channel_id="chan_2"),)))

        assert sorted(await store.waiting("", 10)) == [(T1, "role:r"), (T1, "role:s"), (T2, "role:r")]
        assert await store.waiting("role:r", 10) == ((T1, "role:s"),)
        assert await store.waiting("role:s", 10) == ()
        assert [to for _, to in await store.waiting("", 1)] == ["role:r"]

        await store.commit(TeamChanges(T1, moved=(Moved("msg_3", PostState.DELIVERED, ("bob",)),)))
        assert await store.waiting("role:r", 10) == ()

    @stored
    async def test_what_was_delivered_already_is_not_delivered_again(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", to="role:r", recipients=(), state=PostState.PENDING),)))
        move = TeamChanges(T1, moved=(Moved("msg_1", PostState.DELIVERED, ("bob",)),))

        first, second = await asyncio.gather(store.commit(move), store.commit(move))

        assert (len(first.posts), len(second.posts)) == (1, 0)
        assert await store.head(T1) == 2

    @stored
    async def test_what_was_evicted_while_it_waited_stays_away(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
        waiting = a_post("msg_1", "chan_2", to="role:r", recipients=(), state=PostState.PENDING)
        await store.commit(TeamChanges(T1, (waiting,)))
        await store.commit(TeamChanges(T1, (a_post("msg_2", "chan_2"),)))

        assert await store.pending(T1, "role:r") == ()
        committed = await store.commit(TeamChanges(T1, moved=(Moved("msg_1", PostState.DELIVERED, ("bob",)),)))

        assert committed.posts == ()
        assert [one.post.id for one in await store.page(T1, Query("chan_2", ALL, AT))] == ["msg_2"]

    @stored
    async def test_an_expired_message_leaves_the_list_and_what_is_overdue(self, store: TeamStore) -> None:
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_request("msg_1", expires_at=AT),
                    a_request("msg_2", expires_at=LATER),
                    a_request("msg_3", expires_at=AT),
                    an_answer("msg_4", "msg_3"),
                    a_request("msg_5"),
                ),
            )
        )
        assert await store.overdue(AT) == ((T1, "msg_1"),)
        assert await store.overdue(LATER, limit=9) == ((T1, "msg_1"), (T1, "msg_2"))

        await store.commit(
            TeamChanges(T1, moved=(Moved("msg_1", PostState.EXPIRED), Moved("msg_5", PostState.EXPIRED)))
        )

        assert await store.overdue(AT) == ()
        found = [await store.post(T1, f"msg_{n}") for n in (1, 2, 5)]
        assert [one and one.state for one in found] == [PostState.EXPIRED, PostState.DELIVERED, PostState.EXPIRED]
        page = await store.page(T1, Query("chan_1", ALL, "2026-03-13T14:29:00.000000+00:00"))
        assert [one.post.id for one in page] == ["msg_2", "msg_3", "msg_4"]

    @stored
    async def test_the_end_of_a_channel_expires_what_nobody_answered(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_post("msg_1"),
                    a_request("msg_2"),
                    a_request("msg_3"),
                    an_answer("msg_4", "msg_3"),
                    a_post("msg_5", to="role:r", recipients=(), state=PostState.PENDING),
                    a_request("msg_6")._replace(channel_id="chan_2"),
                ),
            )
        )
        channel = replace(await self.kept(store, Channel, "chan_1"), label="closed")

        committed = await store.commit(TeamChanges(T1, puts=(channel,), ended=("chan_1",)))

        assert committed.ended == ("chan_1",)
        states = [(await store.post(T1, f"msg_{n}")) for n in range(1, 7)]
        expired = [one.id for one in states if one and one.state is PostState.EXPIRED]
        assert expired == ["msg_2", "msg_5"]
        assert await store.pending(T1, "role:r") == ()

    @stored
    async def test_a_request_that_was_answered_in_the_same_moment_does_not_expire_with_its_channel(
        self, store: TeamStore
    ) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1"),)))

        await asyncio.gather(
            store.commit(TeamChanges(T1, (an_answer("msg_2", "msg_1"),))),
            store.commit(TeamChanges(T1, ended=("chan_1",))),
        )

        request = await store.post(T1, "msg_1")
        assert request is not None
        assert (request.state, request.answered) == (PostState.DELIVERED, True)

    @stored
    async def test_a_departure_expires_what_the_agent_did_not_answer(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        await store.commit(TeamChanges(T2, (a_request("msg_t2")._replace(channel_id="chan_t2"),)))
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_request("msg_1"),
                    a_request("msg_2"),
                    an_answer("msg_3", "msg_2"),
                    a_request("msg_4", to="carol"),
                    a_post("msg_5", to="bob", recipients=("bob",)),
                ),
            )
        )

        committed = await store.commit(TeamChanges(T1, departed=("bob",)))

        assert committed.departed == ("bob",)
        found = [await store.post(T1, f"msg_{n}") for n in range(1, 6)]
        assert [one.id for one in found if one and one.state is PostState.EXPIRED] == ["msg_1"]
        other = await store.post(T2, "msg_t2")
        assert other is not None
        assert other.state is PostState.DELIVERED
