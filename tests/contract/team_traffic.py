"""The contract of every server's store about counting who talked to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.channel.post import PostState
from parley.domain.directory.callers import SYSTEM
from parley.domain.store.changes import TeamChanges, TrafficGroup, TrafficQuery
from tests.contract.team_store import AT, LATER, T1, T2, TeamStoreContract, a_channel, a_post, a_request, stored

if TYPE_CHECKING:
    from parley.ports.team import TeamStore

END = "9999"


class TeamTrafficContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    @stored
    async def test_messages_are_counted_by_channel_sender_and_recipients(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))
        spoken = (
            a_request("msg_1"),
            a_post("msg_3", recipients=("bob", "carol")),
            a_post("msg_4"),
            a_request("msg_5", channel_id="chan_2"),
            a_post("msg_6", to="queue:work", recipients=()),
            a_request("msg_2", created_at=LATER),
        )
        quiet = (a_post("msg_7", sender=SYSTEM), a_post("msg_8", recipients=(), state=PostState.PENDING))
        await store.commit(TeamChanges(T1, (*spoken, *quiet)))
        head = await store.head(T1)

        groups = {*await store.count_traffic(T1, TrafficQuery(0, head, "", END))}

        assert groups == {
            TrafficGroup("chan_1", "alice", "bob", ("bob",), 2, LATER),
            TrafficGroup("chan_1", "alice", "", ("bob", "carol"), 1, AT),
            TrafficGroup("chan_1", "alice", "", None, 1, AT),
            TrafficGroup("chan_2", "alice", "bob", ("bob",), 1, AT),
            TrafficGroup("chan_1", "alice", "queue:work", (), 1, AT),
        }
        assert await store.count_traffic(T1, TrafficQuery(head - 8, head - 7, "", END)) == (
            TrafficGroup("chan_1", "alice", "bob", ("bob",), 1, AT),
        )
        assert await store.count_traffic(T1, TrafficQuery(0, head, LATER, END)) == (
            TrafficGroup("chan_1", "alice", "bob", ("bob",), 1, LATER),
        )
        assert await store.count_traffic(T1, TrafficQuery(0, head, "", AT)) == ()
        assert await store.count_traffic(T2, TrafficQuery(0, head, "", END)) == ()
