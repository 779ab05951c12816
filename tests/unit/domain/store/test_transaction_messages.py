"""Messages in a transaction: their positions and seqs, and how they go away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.domain.channel.channel import Options, Tally
from parley.domain.channel.post import Post, PostState
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.record import Expect
from parley.domain.store.changes import Moved, TeamChanges
from parley.domain.store.source import ChannelCounters
from parley.domain.store.transaction import EVICT_STEP
from parley.domain.store.writes import EvictPosts, ExpireChannel, ExpirePost, ExpireRequests, InsertPosts, MovePost
from tests.contract.team_store import (
    AT,
    LATER,
    T1,
    T2,
    a_channel,
    a_post,
    a_request,
    an_answer,
    an_event,
)
from tests.unit.domain.store.transactions import Shelf, a_shelf, after, begun, kept, of_kind


@pytest.fixture
def shelf() -> Shelf:
    return a_shelf()


# ---------------------------------------------------------------- messages and their seqs


def test_positions_and_places_are_dense_over_commits_and_transactions(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2"),)))
    placed: list[tuple[int, int]] = []
    for turn in range(3):
        done = begun(shelf)
        for n in range(4):
            with pytest.raises(Stale):
                done.take(TeamChanges(T1, (a_post("msg_x"),), (Expect("channel", "chan_1", 9),)))
            committed = done.take(TeamChanges(T1, (a_post(f"msg_{turn}_{n}"), a_post(f"msg_o{turn}_{n}", "chan_2"))))
            placed += [(post.position, post.seq) for post in committed.posts]
            assert committed.position == committed.posts[-1].position
        shelf.keep(done)

    assert placed == [(n, (n + 1) // 2) for n in range(1, 25)]
    assert shelf.channel_counters[T1, "chan_1"] == ChannelCounters(1, "intent_1", 12, Tally(12, AT, 0))


def test_messages_and_events_share_positions_and_each_tenant_has_its_own(shelf: Shelf) -> None:
    done = begun(shelf)

    mine = done.take(TeamChanges(T1, (a_post("msg_1"),), events=(an_event("evt_1"), an_event("evt_2"))))
    theirs = done.take(TeamChanges(T2, events=(an_event("evt_3"),)))
    again = done.take(TeamChanges(T1, (a_post("msg_2"),)))

    assert [post.position for post in mine.posts + again.posts] == [1, 4]
    assert [event.position for event in mine.events] == [2, 3]
    assert theirs.events[0].position == 1
    assert {tenant: head.position for tenant, head in done.heads.items()} == {T1: 4, T2: 1}


def test_messages_of_many_commits_are_said_at_once(shelf: Shelf) -> None:
    done = after(shelf, *[TeamChanges(T1, (a_post(f"msg_{n}"),)) for n in range(10)])

    (said,) = done.writes
    assert isinstance(said, InsertPosts)
    assert [(tenant, channel, post.id) for tenant, channel, post in said.posts] == [
        (1, 1, f"msg_{n}") for n in range(10)
    ]


def test_time_does_not_fall_in_a_channel(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2"),)), TeamChanges(T1, (a_post("msg_1", created_at=LATER),)))

    committed = begun(shelf).take(TeamChanges(T1, (a_post("msg_2"), a_post("msg_3", "chan_2"))))

    assert [post.created_at for post in committed.posts] == [LATER, AT]


def test_a_channel_is_made_and_spoken_in_within_one_commit(shelf: Shelf) -> None:
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, (a_post("msg_1", "chan_2"),), puts=(a_channel("chan_2"),)))

    assert (committed.posts[0].position, committed.posts[0].seq) == (1, 1)
    assert done.new_channels == {(T1, "chan_2")}
    assert done.channel_counters == {(T1, "chan_2"): ChannelCounters(2, "intent_1", 1, Tally(1, AT, 0))}


def test_a_channel_of_another_tenant_is_no_channel(shelf: Shelf) -> None:
    with pytest.raises(NotFound):
        begun(shelf).take(TeamChanges(T2, (a_post(),)))


def test_a_channel_that_goes_and_comes_again_begins_anew_under_another_number(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, (a_post("msg_1"),)))
    done = begun(shelf)

    done.take(TeamChanges(T1, drops=(kept(shelf),)))
    assert done.take(TeamChanges(T1, (a_post("msg_2"),), puts=(a_channel(),))).posts[0].seq == 1

    assert (done.gone_channels, done.new_channels) == ({(T1, "chan_1")}, {(T1, "chan_1")})
    assert done.channel_counters[T1, "chan_1"].number == 2


def test_a_channel_that_comes_and_goes_is_not_new(shelf: Shelf) -> None:
    done = begun(shelf)
    (channel,) = done.take(TeamChanges(T1, puts=(a_channel("chan_2", most=1),))).puts
    done.take(TeamChanges(T1, tuple(a_post(f"msg_{n}", "chan_2") for n in range(EVICT_STEP + 1))))

    done.take(TeamChanges(T1, drops=(channel,)))
    done.writes += done.evicted()

    assert (done.new_channels, done.gone_channels) == (set(), {(T1, "chan_2")})
    assert of_kind(done, EvictPosts) == []


def test_an_answer_names_its_request(shelf: Shelf) -> None:
    done = after(shelf, TeamChanges(T1, (a_request("msg_1"), an_answer("msg_2", "msg_1"))))

    assert of_kind(done, InsertPosts)[0].answered == [(1, "msg_1")]


# ---------------------------------------------------------------- what goes away


def test_floors_rise_with_each_message_and_what_is_below_goes_in_steps(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2", most=10),)))
    removed: list[tuple[int, list[EvictPosts]]] = []

    for n in range(1, 2 * EVICT_STEP + 12):
        done = after(shelf, TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)))
        assert done.channel_counters[T1, "chan_2"].tally.floor == max(0, n - 10)
        removed += [(n, evicted)] if (evicted := of_kind(done, EvictPosts)) else []

    assert removed == [
        (EVICT_STEP + 10, [EvictPosts(1, 2, EVICT_STEP)]),
        (2 * EVICT_STEP + 10, [EvictPosts(1, 2, 2 * EVICT_STEP)]),
    ]


def test_what_is_evicted_is_removed_once_after_it_was_said(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2", most=10),)))

    done = after(shelf, *[TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)) for n in range(200)])

    said, evicted = done.writes
    assert isinstance(said, InsertPosts)
    assert evicted == EvictPosts(1, 2, 190)


def test_a_channel_that_may_keep_fewer_keeps_fewer_at_once(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, tuple(a_post(f"msg_{n}") for n in range(5))))

    done = after(shelf, TeamChanges(T1, puts=(replace(kept(shelf), options=Options(max_messages=2)),)))

    assert done.writes == [EvictPosts(1, 1, 3)]
    assert done.channel_counters[T1, "chan_1"] == ChannelCounters(1, "intent_1", 5, Tally(5, AT, 3))


def test_a_purge_takes_every_message_and_keeps_the_count(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, (a_post("msg_1"), a_post("msg_2"))))
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, purges=("chan_1",)))

    assert committed.ended == ("chan_1",)
    assert done.writes == [EvictPosts(1, 1, 2, purge=True)]
    assert done.channel_counters[T1, "chan_1"].tally == Tally(2, AT, 2)


def test_the_end_of_a_channel_and_a_departure_are_told(shelf: Shelf) -> None:
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, ended=("chan_1", "chan_none"), departed=("bob",)))

    assert (committed.ended, committed.departed) == (("chan_1", "chan_none"), ("bob",))
    assert done.writes == [ExpireChannel(1), ExpireRequests(1, "bob")]


def test_nothing_of_another_tenant_is_ended_or_purged(shelf: Shelf) -> None:
    assert after(shelf, TeamChanges(T2, ended=("chan_1",))).writes == []
    assert after(shelf, TeamChanges(T2, purges=("chan_1",))).writes == []


def waiting(shelf: Shelf, message_id: str = "msg_1", channel_id: str = "chan_1") -> Post:
    """A message that nobody could receive yet."""
    post = a_post(message_id, channel_id, to="role:r", recipients=(), state=PostState.PENDING)
    (placed,) = (entry[2] for entry in of_kind(after(shelf, TeamChanges(T1, (post,))), InsertPosts)[0].posts)
    assert isinstance(placed, Post)
    shelf.waiting[T1, message_id] = placed
    return placed


def test_a_moved_message_takes_a_new_position(shelf: Shelf) -> None:
    post = waiting(shelf)
    after(shelf, TeamChanges(T1, (a_post("msg_2"),)))
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, (a_post("msg_3"),), moved=(Moved("msg_1", PostState.DELIVERED, ("bob",)),)))

    moved = post._replace(position=4, seq=4, state=PostState.DELIVERED, recipients=("bob",))
    assert committed.posts[1:] == (moved,)
    assert done.writes[1:] == [MovePost(1, moved)]
    # It was counted when it was said.
    assert done.channel_counters[T1, "chan_1"] == ChannelCounters(1, "intent_1", 4, Tally(3, AT, 0))


def test_a_message_that_does_not_wait_is_not_moved(shelf: Shelf) -> None:
    waiting(shelf)
    move = Moved("msg_1", PostState.DELIVERED, ("bob",))

    assert begun(shelf).take(TeamChanges(T1, moved=(Moved("msg_9", PostState.DELIVERED),))).posts == ()
    assert begun(shelf).take(TeamChanges(T2, moved=(move,))).posts == ()
    assert len(begun(shelf).take(TeamChanges(T1, moved=(move, move))).posts) == 1


def test_a_message_that_this_commit_evicts_is_not_moved(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
    waiting(shelf, channel_id="chan_2")
    moved = (Moved("msg_1", PostState.DELIVERED, ("bob",)),)

    committed = begun(shelf).take(TeamChanges(T1, (a_post("msg_2", "chan_2"),), moved=moved))

    assert [post.id for post in committed.posts] == ["msg_2"]


def test_an_expired_message_keeps_its_place(shelf: Shelf) -> None:
    done = begun(shelf)

    committed = done.take(TeamChanges(T1, moved=(Moved("msg_1", PostState.EXPIRED),)))

    assert (committed.position, committed.posts) == (0, ())
    assert done.writes == [ExpirePost(1, "msg_1")]
