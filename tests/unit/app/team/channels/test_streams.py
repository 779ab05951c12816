"""Streams: everything once, in order, for those who may see it, as long as they may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from parley.app.team.channels import streams
from parley.app.team.channels.streams import FeedBatch, Followed
from parley.app.team.directory import keys
from parley.app.team.intents import intents
from parley.app.team.state import tail
from parley.app.team.team import Team
from parley.domain.channel.channel import Channel, MemberPolicy, Options, without_member
from parley.domain.channel.event import EventDraft
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.access import Access, AccessPolicy
from parley.domain.directory.callers import Caller, Key, KeyKind
from parley.domain.errors.errors import NotFound, ParleyError
from parley.domain.errors.team import NotMember, Unauthorized
from parley.domain.message.message import Pattern
from parley.domain.record import Record
from parley.domain.store.changes import FeedScope, Moved, TeamChanges
from parley.domain.times import stamp
from tests.rigs.team import CHANNEL, INTENT, Rig, soon, with_rig

pytestmark = pytest.mark.both_stores

ON_CHANNEL = Followed(channel_id=CHANNEL)
ON_INTENT = Followed(intent_id=INTENT)


class Stream:
    """A stream as its reader knows it."""

    def __init__(self, batches: AsyncIterator[FeedBatch | None]) -> None:
        self._batches = batches
        self._left: list[FeedItem] = []

    async def next(self, seconds: float = 20.0) -> FeedItem:
        async with asyncio.timeout(seconds):
            while not self._left:
                batch = await anext(self._batches)
                self._left = batch.items if batch else []
            return self._left.pop(0)

    async def positions(self, count: int) -> list[int]:
        return [(await self.next()).position for _ in range(count)]

    async def silent(self) -> bool:
        try:
            await self.next(0.05)
        except TimeoutError:
            return True
        return False

    @asynccontextmanager
    async def ends(self, rig: Rig, error: type[ParleyError]) -> AsyncIterator[None]:
        """What happens within this ends the stream, which rests by now, with an error."""
        waiting = asyncio.ensure_future(self.next())
        await soon(lambda: any(one.event._waiters for ones in rig.team.tail._listeners.values() for one in ones))
        yield
        with pytest.raises(error):
            await waiting


@asynccontextmanager
async def following(rig: Rig, followed: Followed, caller: Caller, after: int | None = None) -> AsyncIterator[Stream]:
    await rig.key(caller.agent, caller.kind, caller.tenant)
    batches = streams.follow(rig.team, caller, followed, after)
    assert await anext(batches) is None  # it listens now
    try:
        yield Stream(batches)
    finally:
        await batches.aclose()
        assert rig.team.tail._listeners == {}


async def a_channel(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()


@pytest.fixture
def never_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stream finds out, it was told: it does not look by itself."""
    monkeypatch.setattr(streams, "PING_SECONDS", 3600.0)


def happened(rig: Rig, event_type: str = "comment", intent_id: str = INTENT) -> EventDraft:
    return rig.team.event(intent_id, event_type, "alice", b"{}")


@with_rig
async def test_without_a_cursor_a_stream_begins_now(rig: Rig) -> None:
    await a_channel(rig)
    await rig.say("alice")

    async with following(rig, ON_CHANNEL, rig.caller("bob")) as stream:
        said = await rig.say("alice")

        assert (await stream.next()).post == said
        assert await stream.silent()


@with_rig
async def test_after_a_cursor_a_stream_goes_on_without_gap_or_repeat(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_PAGE", 3)
    await a_channel(rig)
    for _ in range(10):
        await rig.say("alice")

    for after in (0, 4, 9, 10):
        async with following(rig, ON_CHANNEL, rig.caller("bob"), after) as stream:
            last = await rig.say("alice")
            assert await stream.positions(last.position - after) == list(range(after + 1, last.position + 1))
            assert await stream.silent()


@with_rig
async def test_a_cursor_from_the_future_does_not_hide_what_comes(rig: Rig) -> None:
    await a_channel(rig)
    await rig.say("alice")

    async with following(rig, ON_CHANNEL, rig.caller("bob"), 1_000_000) as stream:
        await rig.say("alice")

        assert await stream.positions(1) == [2]


@with_rig
async def test_nothing_is_lost_or_repeated_between_store_and_tail(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_PAGE", 5)
    monkeypatch.setattr(tail, "_QUEUE_MAX", 4)
    await a_channel(rig)
    for _ in range(20):
        await rig.say("alice")

    async def writes(agent: str) -> None:
        for _ in range(50):
            await rig.say(agent)

    async with following(rig, ON_CHANNEL, rig.caller("bob"), 0) as stream:
        writers = asyncio.gather(*(writes(f"a{n}") for n in range(4)))
        found = await stream.positions(220)
        await writers

        assert found == list(range(1, 221))
        assert await stream.silent()


@with_rig
async def test_what_is_both_in_the_store_and_in_the_tail_is_shown_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_channel(rig)
    await rig.say("alice")
    evicted = rig.store.find_evicted

    async def overtaken(tenant: str, scope: FeedScope, after: int) -> tuple[tuple[str, int], ...]:
        monkeypatch.setattr(rig.store, "find_evicted", evicted)
        await rig.say("alice")  # heard by the listener while the store is read
        return await evicted(tenant, scope, after)

    monkeypatch.setattr(rig.store, "find_evicted", overtaken)
    async with following(rig, ON_CHANNEL, rig.caller("bob"), 0) as stream:
        assert await stream.positions(2) == [1, 2]
        assert await stream.silent()


@with_rig
async def test_an_assignment_is_shown_although_it_came_between_the_rights_and_the_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_channel(rig)
    find = rig.store.find_positions

    async def overtaken(
        tenant: str, scope: FeedScope, after: int, through: int, limit: int
    ) -> tuple[tuple[int, ...], int]:
        monkeypatch.setattr(rig.store, "find_positions", find)
        # What this commit shows could not be seen when the rights were read.
        await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob")
        return await find(tenant, scope, after, through, limit)

    monkeypatch.setattr(rig.store, "find_positions", overtaken)
    async with following(rig, Followed(agent="bob"), rig.caller("bob"), 0) as stream:
        assert await stream.positions(1) == [1]


@with_rig
async def test_a_reader_that_does_not_keep_up_misses_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_QUEUE_MAX", 3)
    await a_channel(rig)

    async with following(rig, ON_CHANNEL, rig.caller("bob")) as stream:
        for _ in range(10):
            await rig.say("alice")
        first = await stream.positions(10)
        for _ in range(2):
            await rig.say("alice")

        assert first == list(range(1, 11))
        assert await stream.positions(2) == [11, 12]


@with_rig
async def test_a_channels_stream_shows_what_the_reader_may_see_in_that_channel(rig: Rig) -> None:
    await a_channel(rig)
    await rig.channel("chan_2")

    async with following(rig, ON_CHANNEL, rig.caller("bob")) as stream:
        await rig.say("alice", to="carol")
        await rig.say("alice", channel_id="chan_2")
        await rig.say("alice", to="role:nobody")
        await rig.store.commit(TeamChanges("default", events=(happened(rig),)))
        to_bob = await rig.say("alice", to="bob")
        of_bob = await rig.say("bob", to="carol")

        assert [(await stream.next()).post for _ in range(2)] == [to_bob, of_bob]


@with_rig
async def test_an_intents_stream_shows_messages_and_events(rig: Rig) -> None:
    await a_channel(rig)
    await rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    await rig.intent("intent_2")

    async with following(rig, ON_INTENT, rig.caller("bob")) as stream:
        await rig.say("alice", channel_id="chan_2")
        await rig.store.commit(TeamChanges("default", events=(happened(rig, intent_id="intent_2"),)))
        committed = await rig.store.commit(TeamChanges("default", events=(happened(rig),)))
        said = await rig.say("alice")

        assert (await stream.next()).event == committed.events[0]
        assert (await stream.next()).post == said


@with_rig
async def test_an_audited_message_is_shown_once(rig: Rig) -> None:
    await a_channel(rig)

    async with following(rig, ON_INTENT, rig.caller("bob")) as stream:
        copy = happened(rig, "channel_message")
        await rig.store.commit(TeamChanges("default", events=(copy,)))

        assert await stream.silent()


@with_rig
async def test_an_agents_stream_shows_what_was_said_to_it_anywhere(rig: Rig) -> None:
    await a_channel(rig)
    await rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    await rig.intent("intent_2", policy=AccessPolicy.CLOSED)
    await rig.channel("chan_3", intent_id="intent_2")
    await rig.access(assignments=(rig.assignment("bob"),))

    async with following(rig, Followed(agent="bob"), rig.caller("bob")) as stream:
        await rig.say("bob")
        await rig.say("alice", to="carol")
        await rig.say("alice", channel_id="chan_2")
        await rig.say("alice", channel_id="chan_3")
        to_all = await rig.say("alice")
        to_bob = await rig.say("alice", to="bob")
        others = await rig.store.commit(TeamChanges("default", events=(happened(rig, intent_id="intent_2"),)))
        mine = await rig.store.commit(TeamChanges("default", events=(happened(rig),)))

        assert [(await stream.next()).post for _ in range(2)] == [to_all, to_bob]
        assert (await stream.next()).event == mine.events[0] != others.events[0]


@with_rig
async def test_a_channel_that_an_agents_stream_has_shown_before_shows_nothing_that_is_not_for_it(rig: Rig) -> None:
    await a_channel(rig)
    await rig.access(assignments=(rig.assignment("bob"),))
    # They take part from now on: no record changes when they speak again.
    for agent in ("alice", "bob", "carol"):
        await rig.say(agent)

    async with following(rig, Followed(agent="bob"), rig.caller("bob")) as stream:
        first = await rig.say("alice")
        assert (await stream.next()).post == first

        await rig.say("bob")
        await rig.say("alice", to="carol")
        second = await rig.say("alice", to="bob")

        assert (await stream.next()).post == second


@with_rig
async def test_what_found_its_recipients_late_reaches_their_streams(rig: Rig) -> None:
    await a_channel(rig)
    waiting = await rig.say("alice", to="role:billing", pattern=Pattern.REQUEST)

    async with following(rig, Followed(agent="bob"), rig.caller("bob")) as stream:
        await rig.store.commit(TeamChanges("default", moved=(Moved(waiting.id, PostState.DELIVERED, ("bob",)),)))

        assert (await stream.next()).position == 2


@with_rig
async def test_what_has_expired_is_not_streamed(rig: Rig) -> None:
    await a_channel(rig)
    await rig.say("alice", expires_at=rig.clock.at + timedelta(seconds=1))
    lasting = await rig.say("alice")
    rig.clock.pass_by(seconds=1)

    async with following(rig, ON_CHANNEL, rig.caller("bob"), 0) as stream:
        assert (await stream.next()).post == lasting


@with_rig
async def test_who_may_not_follow_is_told_that_there_is_nothing(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, assignments=(rig.assignment("carla", "coordinator"),))
    await rig.channel(policy=MemberPolicy.EXPLICIT)

    for followed in (ON_CHANNEL, ON_INTENT, Followed(agent="alice"), Followed(channel_id="chan_none")):
        with pytest.raises(NotFound):
            await streams.check_follows(rig.team, rig.caller("dave"), followed)
    with pytest.raises(NotMember):
        await streams.check_follows(rig.team, rig.caller("carla"), ON_CHANNEL)
    await streams.check_follows(rig.team, rig.caller("carla"), ON_INTENT)
    await streams.check_follows(rig.team, rig.caller(kind=KeyKind.SERVICE), Followed(agent="alice"))


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("followed", [ON_CHANNEL, ON_INTENT])
@with_rig
async def test_a_stream_ends_when_the_right_to_it_does(rig: Rig, followed: Followed) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"),))
    await rig.channel()

    async with following(rig, followed, rig.caller("bob")) as stream, stream.ends(rig, NotFound):
        await rig.access(grants=())


@with_rig
async def test_a_member_that_is_removed_hears_nothing_that_is_said_afterwards(rig: Rig) -> None:
    await rig.intent()
    channel = await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)

    async with following(rig, ON_CHANNEL, rig.caller("bob")) as stream:
        await rig.put(without_member(channel, "bob"))
        await rig.say("alice")

        with pytest.raises(NotFound):
            await stream.next()


@pytest.mark.usefixtures("never_looking")
@with_rig
async def test_a_stream_does_not_outlive_its_key(rig: Rig) -> None:
    await a_channel(rig)

    async with following(rig, ON_CHANNEL, rig.caller("bob")) as stream, stream.ends(rig, Unauthorized):
        await rig.revoke("bob")


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("followed", [ON_CHANNEL, ON_INTENT])
@with_rig
async def test_what_is_remembered_of_an_access_ends_with_it(rig: Rig, followed: Followed) -> None:
    await rig.intent(
        policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", expires_at=stamp(rig.clock.at + timedelta(minutes=1))),)
    )
    await rig.channel()

    async with following(rig, followed, rig.caller("bob")) as stream:
        first = await rig.say("alice")
        assert (await stream.next()).post == first
        rig.clock.pass_by(seconds=61)
        await rig.say("alice")

        # No record has changed: the sweep removes the entry later.
        with pytest.raises(NotFound):
            await stream.next()


@with_rig
async def test_the_rights_of_a_follower_are_found_out_once_until_a_record_changes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_channel(rig)
    found: list[str] = []
    check_key = keys.check_key

    async def counted(team: Team, caller: Caller) -> Key:
        found.append(caller.agent)
        return await check_key(team, caller)

    monkeypatch.setattr(streams, "check_key", counted)
    async with following(rig, ON_CHANNEL, rig.caller("bob")) as stream:
        for _ in range(2):
            await rig.say("alice")
            await stream.next()
        before = len(found)

        for _ in range(5):
            said = await rig.say("alice")
            assert (await stream.next()).post == said
        assert len(found) == before

        await rig.intent("intent_2")
        await rig.say("alice")
        await stream.next()
        assert len(found) > before


@with_rig
async def test_a_stream_of_a_deleted_channel_ends(rig: Rig) -> None:
    await a_channel(rig)
    channel = await rig.store.get(Channel, "default", CHANNEL)
    assert channel is not None

    async with following(rig, ON_CHANNEL, rig.caller("bob")) as stream, stream.ends(rig, NotFound):
        await rig.store.commit(TeamChanges("default", drops=(channel,), purges=(CHANNEL,)))


@with_rig
async def test_a_quiet_stream_says_now_and_then_that_it_is_there(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING_SECONDS", 0.01)
    await a_channel(rig)
    await rig.key("bob")

    batches = streams.follow(rig.team, rig.caller("bob"), ON_CHANNEL, None)

    assert [await anext(batches) for _ in range(3)] == [None, FeedBatch([], 0), FeedBatch([], 0)]
    await batches.aclose()


# ---------------------------------------------------------------- only what the reader may see is read


@pytest.mark.requirement("CHAN-12-UNREAD")
@with_rig
async def test_hidden_messages_are_passed_over_without_being_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await a_channel(rig)
    await rig.intent("intent_2", policy=AccessPolicy.CLOSED)
    await rig.channel("chan_2", intent_id="intent_2")
    for _ in range(20):
        await rig.say("alice", channel_id="chan_2")
        await rig.say("alice", to="carol")
    last = await rig.say("alice", to="bob")
    read = rig.store.read_positions
    positions: list[int] = []

    async def noted(tenant: str, wanted: Sequence[int]) -> tuple[tuple[FeedItem, ...], int]:
        positions.extend(wanted)
        return await read(tenant, wanted)

    monkeypatch.setattr(rig.store, "read_positions", noted)
    for followed in (Followed(agent="bob"), ON_CHANNEL, ON_INTENT):
        async with following(rig, followed, rig.caller("bob"), 0) as stream:
            assert (await stream.next()).post == last

    assert set(positions) == {last.position}


@with_rig
async def test_a_stream_with_nothing_to_show_says_how_far_it_has_come(rig: Rig) -> None:
    await a_channel(rig)
    for _ in range(5):
        await rig.say("alice", to="carol")
    await rig.key("bob")
    batches = streams.follow(rig.team, rig.caller("bob"), Followed(agent="bob"), 0)

    assert [await anext(batches) for _ in range(2)] == [None, FeedBatch([], 5)]
    await batches.aclose()


@with_rig
async def test_hidden_messages_do_not_keep_a_stream_from_saying_that_it_is_there(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PING_SECONDS", 0.05)
    await a_channel(rig)
    await rig.key("bob")
    batches = streams.follow(rig.team, rig.caller("bob"), ON_CHANNEL, None)
    assert await anext(batches) is None
    told: FeedBatch | None = None
    while told is None or not told.position:
        waiting = asyncio.ensure_future(anext(batches))
        while not waiting.done():
            await rig.say("alice", to="carol")
        told = await waiting

    assert told.items == []
    await batches.aclose()


@with_rig
async def test_mail_to_oneself_is_on_ones_own_stream_as_it_is_in_the_list(rig: Rig) -> None:
    await a_channel(rig)

    async with following(rig, Followed(agent="bob"), rig.caller("bob"), 0) as stream:
        said = await rig.say("bob", "remember", to="bob")
        await rig.say("bob", "to all")

        assert (await stream.next()).post == said
        assert await stream.silent()
    async with following(rig, Followed(agent="bob"), rig.caller("bob"), 0) as stream:
        assert (await stream.next()).post == said
        assert await stream.silent()


@with_rig
async def test_a_stream_that_is_resumed_behind_evicted_messages_says_so_once(rig: Rig) -> None:
    await rig.intent(agents=("bob",))
    await rig.channel(options=Options(max_messages=3))
    for _ in range(8):
        await rig.say("alice")
    await rig.key("bob")

    for followed in (ON_CHANNEL, ON_INTENT, Followed(agent="bob")):
        batches = streams.follow(rig.team, rig.caller("bob"), followed, 1)
        assert await anext(batches) is None
        batch = await anext(batches)
        assert batch is not None
        assert ([item.position for item in batch.items], batch.evicted) == ([6, 7, 8], ((CHANNEL, 5),))
        await batches.aclose()
    async with following(rig, ON_CHANNEL, rig.caller("bob"), 6) as stream:
        assert await stream.positions(2) == [7, 8]


@with_rig
async def test_what_becomes_visible_while_a_stream_catches_up_is_not_passed_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    every = rig.store.every
    said: list[Post] = []

    async def overtaken(kind: type[Record], tenant: str, *, after: str = "", limit: int = 1000) -> tuple[Record, ...]:
        found = await every(kind, tenant, after=after, limit=limit)
        if kind is Access and not said:
            # A channel that bob sees is there only after the access lists were read.
            said.append(Post)  # type: ignore[arg-type]  # once
            await rig.intent("intent_2")
            await rig.channel("chan_2", intent_id="intent_2")
            said[0] = await rig.say("alice", channel_id="chan_2", to="bob")
        return found

    monkeypatch.setattr(rig.store, "every", overtaken)
    async with following(rig, Followed(agent="bob"), rig.caller("bob"), 0) as stream:
        assert (await stream.next()).post == said[0]
