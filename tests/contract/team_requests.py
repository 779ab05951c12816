"""The contract of every server's store about requests that wait for an agent's answer."""

from __future__ import annotations

import pytest

from parley.domain.channel.post import PostState
from parley.domain.errors.errors import Stale
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Moved, TeamChanges
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
