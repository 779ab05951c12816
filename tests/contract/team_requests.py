"""The contract of every server's store about requests that wait for an agent's answer."""

from __future__ import annotations

import pytest

from parley.domain.channel.post import PostState
from parley.domain.channel.request import RequestState
from parley.domain.errors.errors import Stale
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Moved, TeamChanges, UnansweredQuery
from parley.ports.team import TeamStore
from tests.contract.team_store import AT, LATER, T1, T2, TeamStoreContract, a_channel, a_post, a_request, stored


class TeamRequestsContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    @stored
    async def test_the_oldest_request_of_an_agent_is_the_first_that_waits_for_it(self, store: TeamStore) -> None:
        assert await store.oldest_request(T1, "bob", AT) is None
        await store.commit(TeamChanges(T1, (a_post("msg_1"), a_request("msg_2", "carol"))))
        await store.commit(TeamChanges(T1, (a_request("msg_3"), a_request("msg_4"))))

        assert await store.oldest_request(T1, "bob", AT) == 3
        assert await store.oldest_request(T1, "carol", AT) == 2
        assert await store.oldest_request(T1, "bo", AT) is None

    @stored
    async def test_the_oldest_request_is_found_over_all_channels_of_the_tenant_and_no_other(
        self, store: TeamStore
    ) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_3", T2),)))
        await store.commit(TeamChanges(T2, (a_request("msg_1", channel_id="chan_3"),)))
        await store.commit(TeamChanges(T1, (a_post("msg_2"), a_request("msg_3", channel_id="chan_2"))))
        await store.commit(TeamChanges(T1, (a_request("msg_4"),)))

        assert await store.oldest_request(T1, "bob", AT) == 2
        assert await store.oldest_request(T2, "bob", AT) == 1

    @stored
    async def test_what_is_answered_expired_or_evicted_waits_for_nobody(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
        await store.commit(TeamChanges(T1, (a_request("msg_1"), a_request("msg_2"))))
        await store.commit(TeamChanges(T1, (a_request("msg_3", expires_at=LATER), a_request("msg_4"))))
        await store.commit(TeamChanges(T1, (a_request("msg_5", channel_id="chan_2"), a_request("msg_6"))))
        assert await store.oldest_request(T1, "bob", AT) == 1

        answer = a_post("msg_7", sender="bob", to="alice", pattern=Pattern.RESPONSE, in_reply_to="msg_1")
        await store.commit(TeamChanges(T1, (answer,)))
        assert await store.oldest_request(T1, "bob", AT) == 2
        await store.commit(TeamChanges(T1, moved=(Moved("msg_2", PostState.EXPIRED),)))
        assert await store.oldest_request(T1, "bob", AT) == 3
        assert await store.oldest_request(T1, "bob", LATER) == 4
        await store.commit(TeamChanges(T1, moved=(Moved("msg_4", PostState.EXPIRED),)))
        assert await store.oldest_request(T1, "bob", LATER) == 5
        await store.commit(TeamChanges(T1, (a_post("msg_8", "chan_2"),)))
        assert await store.oldest_request(T1, "bob", LATER) == 6
        await store.commit(TeamChanges(T1, departed=("bob",)))
        assert await store.oldest_request(T1, "bob", LATER) is None

    @stored
    async def test_a_commit_that_needs_an_open_request_is_refused_when_it_is_answered_or_expired(
        self, store: TeamStore
    ) -> None:
        await store.commit(TeamChanges(T1, (a_request("msg_1"), a_request("msg_2"), a_request("msg_3"))))
        await store.commit(TeamChanges(T1, (a_post("msg_4"),)))
        answer = a_post("msg_5", sender="bob", to="alice", pattern=Pattern.RESPONSE, in_reply_to="msg_2")
        await store.commit(TeamChanges(T1, (answer,)))
        await store.commit(TeamChanges(T1, moved=(Moved("msg_3", PostState.EXPIRED),)))

        for closed in ("msg_2", "msg_3", "msg_4", "msg_9"):
            with pytest.raises(Stale) as refused:
                await store.commit(TeamChanges(T1, (a_post("msg_6"),), open_requests=("msg_1", closed)))
            assert refused.value.facts["id"] == closed
        with pytest.raises(Stale):
            await store.commit(TeamChanges(T2, open_requests=("msg_1",)))
        expiry = (Moved("msg_1", PostState.EXPIRED),)
        await store.commit(TeamChanges(T1, (a_post("msg_6"),), moved=expiry, open_requests=("msg_1",)))
        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, moved=expiry, open_requests=("msg_1",)))

        assert await store.post(T1, "msg_6") is not None

    @stored
    async def test_requests_without_an_answer_are_listed_by_their_position(self, store: TeamStore) -> None:
        assert await listed(store, UnansweredQuery(AT)) == []
        await store.commit(TeamChanges(T1, (a_post("msg_1"), a_request("msg_2"), a_request("msg_3", "carol"))))
        await store.commit(TeamChanges(T1, (a_request("msg_4", sender="carol"), a_request("msg_5"))))
        answer = a_post("msg_6", sender="bob", to="alice", pattern=Pattern.RESPONSE, in_reply_to="msg_5")
        await store.commit(TeamChanges(T1, (answer,)))

        assert await listed(store, UnansweredQuery(AT)) == ["msg_2", "msg_3", "msg_4"]
        assert await listed(store, UnansweredQuery(AT, newest=True)) == ["msg_4", "msg_3", "msg_2"]
        assert await listed(store, UnansweredQuery(AT, limit=2)) == ["msg_2", "msg_3"]
        assert await listed(store, UnansweredQuery(AT, after=2)) == ["msg_3", "msg_4"]
        assert await listed(store, UnansweredQuery(AT, after=4, newest=True)) == ["msg_3", "msg_2"]
        assert await store.unanswered(T2, UnansweredQuery(AT, late=True)) == ()

    @stored
    async def test_unanswered_requests_are_those_of_an_agent_a_channel_a_viewer_or_a_time(
        self, store: TeamStore
    ) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        await store.commit(
            TeamChanges(
                T1,
                (
                    a_request("msg_1"),
                    a_request("msg_2", "carol", channel_id="chan_2"),
                    a_request("msg_3", "role:qa", recipients=("bob", "dave"), sender="carol"),
                    a_request("msg_4", "any:qa", recipients=(), sender="dave"),
                ),
            )
        )

        assert await listed(store, UnansweredQuery(AT, agent="bob")) == ["msg_1", "msg_3"]
        assert await listed(store, UnansweredQuery(AT, agent="carol")) == ["msg_2", "msg_3"]
        assert await listed(store, UnansweredQuery(AT, agent="bo")) == []
        assert await listed(store, UnansweredQuery(AT, channel_id="chan_2")) == ["msg_2"]
        assert await listed(store, UnansweredQuery(AT, viewers=("dave",))) == ["msg_3", "msg_4"]
        assert await listed(store, UnansweredQuery(AT, viewers=("alice", "bob"))) == ["msg_1", "msg_2", "msg_3"]
        assert await listed(store, UnansweredQuery(AT, viewers=("alice",), agent="carol")) == ["msg_2"]
        assert await listed(store, UnansweredQuery(AT, viewers=())) == []
        assert await listed(store, UnansweredQuery(AT, since="9999")) == []

    @stored
    async def test_a_request_is_late_when_its_time_has_passed_and_nobody_withdrew_it(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, tuple([a_request(f"msg_{n}", expires_at=LATER) for n in range(1, 5)])))
        await store.commit(TeamChanges(T1, (a_request("msg_5"),)))
        answer = a_post("msg_6", sender="bob", to="alice", pattern=Pattern.RESPONSE, in_reply_to="msg_1")
        await store.commit(TeamChanges(T1, (answer,)))
        withdrawn = RequestState(id="msg_2", tenant_id=T1, channel_id="chan_1", asker="alice", withdrawn_at=AT)
        forwarded = RequestState(id="msg_3", tenant_id=T1, channel_id="chan_1", asker="alice")
        moved = (Moved("msg_2", PostState.EXPIRED),)
        await store.commit(TeamChanges(T1, puts=(withdrawn, forwarded), moved=moved))

        assert await listed(store, UnansweredQuery(AT, late=True)) == ["msg_3", "msg_4", "msg_5"]
        assert await listed(store, UnansweredQuery(LATER)) == ["msg_5"]
        assert await listed(store, UnansweredQuery(LATER, waiting=False, late=True)) == ["msg_3", "msg_4"]
        # The sweep has met them.
        await store.commit(
            TeamChanges(T1, moved=(Moved("msg_3", PostState.EXPIRED), Moved("msg_4", PostState.EXPIRED)))
        )
        assert await listed(store, UnansweredQuery(LATER, waiting=False, late=True)) == ["msg_3", "msg_4"]
        assert await listed(store, UnansweredQuery(LATER, late=True, newest=True)) == ["msg_5", "msg_4", "msg_3"]

    @stored
    async def test_a_request_that_its_channel_no_longer_keeps_is_not_listed(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
        await store.commit(TeamChanges(T1, (a_request("msg_1", channel_id="chan_2"),)))
        await store.commit(TeamChanges(T1, (a_request("msg_2", channel_id="chan_2"),)))

        assert await listed(store, UnansweredQuery(AT, late=True)) == ["msg_2"]

    @stored
    async def test_unanswered_requests_are_counted_by_their_recipients(self, store: TeamStore) -> None:
        assert await store.count_unanswered(T1, UnansweredQuery(AT)) == ()
        await store.commit(TeamChanges(T1, (a_request("msg_1"), a_request("msg_2"), a_request("msg_3", "carol"))))
        await store.commit(TeamChanges(T1, (a_request("msg_4", "role:qa", recipients=("bob", "dave")),)))
        await store.commit(TeamChanges(T1, (a_request("msg_5", expires_at=LATER),)))

        counts = await store.count_unanswered(T1, UnansweredQuery(LATER, limit=1, after=4))
        assert sorted(counts) == [(("bob",), 2), (("bob", "dave"), 1), (("carol",), 1)]
        assert await store.count_unanswered(T1, UnansweredQuery(LATER, waiting=False, late=True)) == ((("bob",), 1),)
        assert await store.count_unanswered(T1, UnansweredQuery(LATER, agent="carol")) == ((("carol",), 1),)


async def listed(store: TeamStore, query: UnansweredQuery) -> list[str]:
    return [post.id for post in await store.unanswered(T1, query)]
