"""The contract of every server's store about counting who talked to whom."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from parley.domain.audit.entry import AuditDraft
from parley.domain.channel.post import PostState
from parley.domain.directory.callers import SYSTEM
from parley.domain.store.changes import TeamChanges, TrafficCount, TrafficGroup, TrafficQuery
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
            a_post("msg_6", to="any:work", recipients=()),
            a_request("msg_2", created_at=LATER),
        )
        quiet = (a_post("msg_7", sender=SYSTEM), a_post("msg_8", recipients=(), state=PostState.PENDING))
        await store.commit(TeamChanges(T1, (*spoken, *quiet)))
        head = await store.head(T1)

        groups = {*(await store.count_traffic(T1, TrafficQuery(0, head, "", END))).groups}

        assert groups == {
            TrafficGroup("delivered", "chan_1", "alice", "", ("bob",), 2, LATER, 0, head),
            TrafficGroup("delivered", "chan_1", "alice", "", ("bob", "carol"), 1, AT, 0, head),
            TrafficGroup("delivered", "chan_1", "alice", "", None, 1, AT, 0, head),
            TrafficGroup("delivered", "chan_2", "alice", "", ("bob",), 1, AT, 0, head),
            TrafficGroup("delivered", "chan_1", "alice", "any:work", (), 1, AT, 0, head),
        }
        first = await store.count_traffic(T1, TrafficQuery(head - 8, head - 7, "", END))
        late = await store.count_traffic(T1, TrafficQuery(0, head, LATER, END))
        assert [(group.recipients, group.number, group.last_at) for group in first.groups] == [(("bob",), 1, AT)]
        assert [(group.recipients, group.number, group.last_at) for group in late.groups] == [(("bob",), 1, LATER)]
        assert await store.count_traffic(T1, TrafficQuery(0, head, "", AT)) == TrafficCount()
        assert await store.count_traffic(T2, TrafficQuery(0, head, "", END)) == TrafficCount()

    @stored
    async def test_no_group_lies_on_both_sides_of_a_cut(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, tuple([a_post(f"msg_{n}") for n in range(6)])))
        head = await store.head(T1)

        count = await store.count_traffic(T1, TrafficQuery(head - 6, head, "", END, (head - 4, head - 1)))

        assert {(group.after - head, group.through - head): group.number for group in count.groups} == {
            (-6, -4): 2,
            (-4, -1): 3,
            (-1, 0): 1,
        }

    @stored
    async def test_evicted_messages_are_counted_by_the_hour_and_once(self, store: TeamStore) -> None:
        many = tuple([f"agent-{n:04}" for n in range(1_000)])
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=5),)))
        for step in range(20):
            at = AT if step < 10 else LATER
            posts = [
                a_post(f"msg_{step}_{n}", "chan_2", created_at=at, recipients=("bob",) if n % 2 else None)
                for n in range(20)
            ]
            posts.append(a_post(f"many_{step}", "chan_2", created_at=at, recipients=many))
            quiet = (a_post(f"system_{step}", "chan_2", sender=SYSTEM, created_at=at),)
            await store.commit(TeamChanges(T1, (*posts, *quiet)))

        store = await self.restarted(store)

        assert await totals(store) == {("chan_2", None): 200, ("chan_2", ("bob",)): 200, ("chan_2", many): 20}
        assert await totals(store, until="2026-03-13T15") == {
            ("chan_2", None): 100,
            ("chan_2", ("bob",)): 100,
            ("chan_2", many): 10,
        }
        assert sum((await totals(store, since="2026-03-13T15")).values()) == 210
        assert await totals(store, since="2026-03-13T16") == {}
        assert await totals(store, T2) == {}

    @stored
    async def test_messages_of_a_deleted_channel_are_counted_and_of_no_channel(self, store: TeamStore) -> None:
        (channel,) = (await store.commit(TeamChanges(T1, puts=(a_channel("chan_2"),)))).puts
        await store.commit(TeamChanges(T1, (a_post("msg_1", "chan_2"), a_request("msg_2", channel_id="chan_2"))))
        pending = a_post("msg_3", "chan_2", recipients=(), state=PostState.PENDING)
        await store.commit(TeamChanges(T1, (pending,)))

        await store.commit(TeamChanges(T1, drops=(channel,), purges=("chan_2",)))

        assert await totals(await self.restarted(store)) == {("", None): 1, ("", ("bob",)): 1}

    @stored
    async def test_held_and_denied_messages_are_counted_when_their_entries_are_trimmed(self, store: TeamStore) -> None:
        def entry(number: int, outcome: str, **facts: object) -> AuditDraft:
            told = {"outcome": outcome, "sender": "alice", "to": "bob", **facts}
            return AuditDraft(f"aud_{number}", "alice", AT, "agent_exchange", "alice", told, "ex_1")

        entries = (
            entry(1, "held", receivers=["bob", "carol"]),
            entry(2, "delivered"),
            entry(3, "denied", receivers=[]),
            entry(4, "held", receivers=["bob", "carol"]),
            entry(5, "held"),
        )
        await store.commit(TeamChanges(T1, audits=entries))

        for _ in range(2):  # what is trimmed counts once
            await store.commit(TeamChanges(T1, trim_audit=4))

        count = await store.count_traffic(T1, TrafficQuery(0, await store.head(T1), "", END))
        assert sorted(count.groups) == [
            TrafficGroup("denied", "alice", "alice", "bob", (), 1, AT, 2, 3),
            TrafficGroup("held", "alice", "alice", "", ("bob", "carol"), 2, AT, 0, 4),
        ]

    @stored
    async def test_a_message_that_is_evicted_while_it_is_counted_counts_once(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", most=1),)))
        done = 0

        async def post() -> None:
            nonlocal done
            for step in range(30):
                await store.commit(TeamChanges(T1, tuple([a_post(f"msg_{step}_{n}", "chan_2") for n in range(70)])))
                done += 70

        posting = asyncio.create_task(post())
        while not posting.done():
            before = done
            counted = sum((await totals(store)).values())
            # One commit may be on its way: it is durable, and its caller has not heard of it.
            assert before <= counted <= done + 70
        await posting
        assert sum((await totals(store)).values()) == 2_100


async def totals(
    store: TeamStore, tenant: str = T1, since: str = "", until: str = END
) -> dict[tuple[str, tuple[str, ...] | None], int]:
    """How many messages, by channel and recipients."""
    count = await store.count_traffic(tenant, TrafficQuery(0, await store.head(tenant) + 1_000, since, until))
    found: Counter[tuple[str, tuple[str, ...] | None]] = Counter()
    for group in count.groups:
        found[group.place, group.recipients] += group.number
    return dict(found)
