"""The contract of every server's store about reading within a scope: what is outside is neither found nor read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.channel.channel import Channel
from parley.domain.store.changes import FeedScope, TeamChanges
from tests.contract.team_store import AT, LATER, T1, T2, TeamStoreContract, a_channel, a_post, an_event, stored

if TYPE_CHECKING:
    from parley.ports.team import TeamStore


async def _filled(store: TeamStore) -> None:
    """Positions 1 to 8 of T1: messages of two channels, two events, a copy of a message in the log."""
    channels: tuple[Channel, ...] = (a_channel("chan_2"),)
    await store.commit(TeamChanges(T1, puts=channels))
    await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
    await store.commit(TeamChanges(T1, (a_post("msg_2", "chan_2"),)))
    await store.commit(TeamChanges(T1, (a_post("msg_3", to="bob", recipients=("bob",)),)))
    await store.commit(TeamChanges(T1, (a_post("msg_4", to="carol", recipients=("carol", "dave")),)))
    await store.commit(TeamChanges(T1, events=(an_event("evt_1"),)))
    await store.commit(TeamChanges(T1, events=(an_event("evt_2", event_type="channel_message"),)))
    await store.commit(TeamChanges(T1, (a_post("msg_5", sender="bob"),)))
    await store.commit(TeamChanges(T1, (a_post("msg_6", sender="bob", to="bob", recipients=("bob",)),)))


SCOPES = {
    "everything": (FeedScope(None), (1, 2, 3, 4, 7, 8)),
    "one channel": (FeedScope({"chan_1": 0}), (1, 3, 4, 7, 8)),
    "no channel": (FeedScope({}), ()),
    "events, without copies": (FeedScope({}, ("intent_1",)), (5,)),
    "events of another intent": (FeedScope({}, ("intent_9",)), ()),
    "a viewer": (FeedScope({"chan_1": 0}, viewer="bob"), (1, 3, 7, 8)),
    "a viewer that came later": (FeedScope({"chan_1": 1}, viewer="bob"), (3, 7, 8)),
    "what was said to a viewer": (FeedScope({"chan_1": 0, "chan_2": 0}, viewer="bob", addressed=True), (1, 2, 3, 7, 8)),
    "a viewer and events": (FeedScope({"chan_2": 0}, ("intent_1",), viewer="dave"), (2, 5)),
    "a viewer of everything": (FeedScope(None, viewer="dave"), (1, 2, 4, 7)),
    "part of a name": (FeedScope({"chan_1": 0}, viewer="bo"), (1, 7)),
    "a channel that is not there": (FeedScope({"chan_9": 0}), ()),
}


class TeamScopesContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    @stored
    async def test_a_scope_has_exactly_its_positions(self, store: TeamStore) -> None:
        await _filled(store)

        for name, (scope, positions) in SCOPES.items():
            assert await store.find_positions(T1, scope, 0, 8, 100) == (positions, 8), name
            assert await store.find_positions(T2, scope, 0, 0, 100) == ((), 0), name
            for after in range(9):
                later = tuple([position for position in positions if position > after])
                assert await store.find_positions(T1, scope, after, 8, 100) == (later, 8), name
                cut, through = await store.find_positions(T1, scope, after, 8, 2)
                assert (cut, through) == (later[:2], later[1] if len(later) > 1 else 8), name
            first = tuple([position for position in positions if position <= 4])
            assert await store.find_positions(T1, scope, 0, 4, 100) == (first, 4), name
            found = await store.search(T1, "hello", scope, AT, 100)
            assert found == tuple([position for position in positions[::-1] if position != 5]), name

    @stored
    async def test_what_is_at_positions_comes_in_order_and_without_what_is_gone(self, store: TeamStore) -> None:
        await _filled(store)
        await store.commit(TeamChanges(T1, purges=("chan_2",)))

        items, through = await store.read_positions(T1, (1, 2, 5, 8, 99))

        assert [item.position for item in items] == [1, 5, 8]
        assert [bool(item.event) for item in items] == [False, True, False]
        assert through == 99
        assert await store.read_positions(T2, (1, 2)) == ((), 2)

    @stored
    async def test_a_lot_of_text_at_positions_is_read_in_pieces(self, store: TeamStore) -> None:
        big = b'{"x":"%b"}' % (b"y" * 200_000)
        for start in range(0, 60, 20):
            posts = tuple([a_post(f"msg_{n}", payload=big) for n in range(start, start + 20)])
            await store.commit(TeamChanges(T1, posts))

        positions = tuple(range(1, 61))
        items, through = await store.read_positions(T1, positions)
        assert 20 <= len(items) <= 22
        assert through == items[-1].position == len(items)
        rest, _ = await store.read_positions(T1, positions[through:])
        assert rest[0].position == through + 1

    @stored
    async def test_expired_messages_are_not_searched(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", expires_at=LATER), a_post("msg_2"))))

        assert await store.search(T1, "hello", FeedScope(None), AT, 10) == (2, 1)
        assert await store.search(T1, "hello", FeedScope(None), LATER, 10) == (2,)

    @stored
    async def test_a_channel_is_evicted_behind_a_cursor_when_nothing_before_it_is_kept(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=3),)))
        for n in range(1, 9):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{n}", "chan_2"),)))
        scope = FeedScope({"chan_1": 0, "chan_2": 0})

        # Of positions 1 to 8, 6 to 8 are kept: behind 6 nothing can be missing.
        assert await store.find_evicted(T1, scope, 1) == (("chan_2", 5),)
        assert await store.find_evicted(T1, scope, 6) == ()
        assert await store.find_evicted(T1, FeedScope({"chan_2": 6}), 1) == ()
        assert await store.find_evicted(T1, FeedScope({"chan_1": 0}), 1) == ()
        assert await store.find_evicted(T2, scope, 1) == ()
