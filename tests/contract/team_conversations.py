"""The contract of every server's store about channels by activity, and about conversations across channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.channel.channel import ChannelStatus, Tally
from parley.domain.store.changes import ChannelQuery, ConversationMark, ConversationQuery, TeamChanges
from tests.contract.team_store import (
    AT,
    LATER,
    T1,
    T2,
    TeamStoreContract,
    a_channel,
    a_post,
    a_request,
    an_answer,
    stored,
)

if TYPE_CHECKING:
    from parley.ports.team import TeamStore

FIRST = "2026-03-13T14:00:00.000000+00:00"
LAST = "2026-03-13T18:00:00.000000+00:00"


def named(conversation: str) -> bytes:
    return b'{"conversation_id":"%b"}' % conversation.encode()


def governed(conversation: str) -> bytes:
    return b'{"conversation_id":"another","ocip":{"version":"1.0","conversation_id":"%b"}}' % conversation.encode()


async def _ids(store: TeamStore, query: ChannelQuery, tenant: str = T1) -> list[str]:
    return [channel.id for channel, _ in await store.list_channels(tenant, query)]


async def _spoken(store: TeamStore) -> None:
    """Four channels: chan_2 spoke last, then chan_1; nobody spoke in chan_3 and in chan_4, which is closed."""
    await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", intent_id="intent_2"),)))
    await store.commit(TeamChanges(T1, puts=(a_channel("chan_3", created_at=LATER, members=()),)))
    await store.commit(TeamChanges(T1, puts=(a_channel("chan_4", created_at=FIRST, status=ChannelStatus.CLOSED),)))
    await store.commit(TeamChanges(T1, (a_post("msg_1", created_at=LATER),)))
    await store.commit(TeamChanges(T1, (a_post("msg_2", "chan_2", created_at=LAST),)))


class TeamConversationsContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    @stored
    async def test_channels_come_last_active_first(self, store: TeamStore) -> None:
        await _spoken(store)

        page = await store.list_channels(T1, ChannelQuery())

        assert [(channel.id, tally) for channel, tally in page] == [
            ("chan_2", Tally(1, LAST)),
            ("chan_3", Tally()),
            ("chan_1", Tally(1, LATER)),
            ("chan_4", Tally()),
        ]
        assert await _ids(store, ChannelQuery(), T2) == []

    @stored
    async def test_channels_are_filtered(self, store: TeamStore) -> None:
        await _spoken(store)

        assert await _ids(store, ChannelQuery(intent_id="intent_2")) == ["chan_2"]
        assert await _ids(store, ChannelQuery(member="bob")) == ["chan_2", "chan_1", "chan_4"]
        assert await _ids(store, ChannelQuery(member="bo")) == []
        assert await _ids(store, ChannelQuery(status="closed")) == ["chan_4"]
        assert await _ids(store, ChannelQuery(active_since=LAST)) == ["chan_2"]
        assert await _ids(store, ChannelQuery(channels=("chan_4", "chan_1", "chan_9"))) == ["chan_1", "chan_4"]
        assert await _ids(store, ChannelQuery(channels=())) == []

    @stored
    async def test_channels_are_read_page_by_page(self, store: TeamStore) -> None:
        await _spoken(store)

        read: list[str] = []
        query = ChannelQuery(limit=1)
        while page := await store.list_channels(T1, query):
            ((channel, tally),) = page
            read.append(channel.id)
            query = query._replace(before=(tally.last_at or channel.created_at, channel.id))

        assert read == ["chan_2", "chan_3", "chan_1", "chan_4"]

    @stored
    async def test_a_conversation_is_read_across_channels_in_both_directions(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        await store.commit(TeamChanges(T1, (a_post("msg_1", metadata=named("c/1")),)))
        await store.commit(TeamChanges(T1, (a_post("msg_2", metadata=named("c/2")),)))
        await store.commit(TeamChanges(T1, (a_post("msg_3", "chan_2", metadata=named("c/1")),)))
        await store.commit(TeamChanges(T1, (a_post("msg_4", exchange_id="exch_1", metadata=governed("c/1")),)))
        await store.commit(TeamChanges(T1, (a_post("msg_5", metadata=governed("c/1")),)))
        query = ConversationQuery("c/1", AT, ("exch_1",))

        assert await self._posts(store, query) == ["msg_1", "msg_3", "msg_4"]
        assert await self._posts(store, query._replace(newest=True)) == ["msg_4", "msg_3", "msg_1"]
        assert await self._posts(store, query._replace(after=1, limit=1)) == ["msg_3"]
        assert await self._posts(store, query._replace(before=4, newest=True, limit=1)) == ["msg_3"]
        assert await self._posts(store, ConversationQuery("another", AT)) == ["msg_5"]
        assert await self._posts(store, query, T2) == []

    async def _posts(self, store: TeamStore, query: ConversationQuery, tenant: str = T1) -> list[str]:
        return [post.id for post in await store.conversation_posts(tenant, query)]

    @stored
    async def test_an_answer_belongs_to_the_conversation_of_its_request(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1", metadata=named("c1")),)))
        await store.commit(TeamChanges(T1, (an_answer("msg_2", "msg_1"),)))
        query = ConversationQuery("c1", AT)

        assert await self._posts(store, query) == ["msg_1", "msg_2"]
        assert await self._posts(store, query._replace(after=1)) == ["msg_2"]
        assert await self._posts(store, query._replace(before=2, newest=True)) == ["msg_1"]

    @stored
    async def test_what_is_evicted_or_has_expired_is_in_no_conversation(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
        for number in (1, 2):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{number}", "chan_2", metadata=named("c1")),)))
        await store.commit(TeamChanges(T1, (a_post("msg_3", metadata=named("c1"), expires_at=LATER),)))

        assert await self._posts(store, ConversationQuery("c1", AT)) == ["msg_2", "msg_3"]
        assert await self._posts(store, ConversationQuery("c1", LAST)) == ["msg_2"]
        marks = await store.conversation_marks(T1, 0, 100)
        assert [mark.position for mark in marks] == [3, 2]

    @stored
    async def test_marks_say_who_may_see_which_message_of_a_conversation(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", metadata=named("c1"), to="bob", recipients=("bob",)),)))
        await store.commit(TeamChanges(T1, (a_post("msg_2"),)))
        await store.commit(TeamChanges(T1, (a_post("msg_3", metadata=named("c2")),)))

        first = ConversationMark(1, "c1", "chan_1", "alice", ("bob",))
        last = ConversationMark(3, "c2", "chan_1", "alice", None)
        assert await store.conversation_marks(T1, 0, 100) == (last, first)
        assert await store.conversation_marks(T1, 1, 100) == (last,)
        assert await store.conversation_marks(T1, 0, 3) == (first,)
        assert await store.conversation_marks(T2, 0, 100) == ()

    @stored
    async def test_metadata_that_only_look_like_a_conversation_are_stored_and_are_none(self, store: TeamStore) -> None:
        hostile = (
            b'{"conversation_id":7}',
            b'{"conversation_id":null}',
            b'{"conversation_id":""}',
            b'{"conversation_id":"a b"}',
            b'{"conversation_id":"\\u0000"}',
            b'{"conversation_id":"%b"}' % (b"x" * 9_000),
            b'{"note":"\\"conversation_id\\":\\"c1\\""}',
        )
        for number, metadata in enumerate(hostile):
            await store.commit(TeamChanges(T1, (a_post(f"msg_{number}", metadata=metadata),)))
            await store.commit(TeamChanges(T1, (a_post(f"msg_e{number}", metadata=metadata, exchange_id="exch_1"),)))

        assert await store.conversation_marks(T1, 0, 100) == ()
        assert await self._posts(store, ConversationQuery("c1", AT)) == []
        assert await store.head(T1) == 2 * len(hostile)
