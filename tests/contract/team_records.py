"""The contract of every server's store about records: versions, names, and whose they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import UNKNOWN_ATTRIBUTES
from parley.domain.channel.channel import Channel, Member, Tally
from parley.domain.channel.post import PostState
from parley.domain.directory.callers import AgentStatus, Holder, Role
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.errors.team import NameTaken
from parley.domain.exchange.approval import Approval
from parley.domain.record import Expect, expecting
from parley.domain.store.changes import Committed, FeedScope, Moved, Query, RecordQuery, TeamChanges
from parley.ports.team import TeamStore
from tests.contract.store import assert_chained
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
    an_entry,
    an_event,
    an_intent,
    stored,
)
from tests.samples.governed import an_approval


class TeamRecordsContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    # -------------------------------------------------------- records

    @stored
    async def test_a_record_comes_back_as_it_was_with_its_version(self, store: TeamStore) -> None:
        intent = an_intent(state={"a": [1, {"b": None}]}, constraints=["x"])

        committed = await store.commit(TeamChanges(T1, puts=(intent,)))

        assert committed.puts == (replace(intent, version=1),)
        assert await store.get(Intent, T1, "intent_1") == replace(intent, version=1)
        assert await (await self.restarted(store)).get(Intent, T1, "intent_1") == replace(intent, version=1)

    @stored
    async def test_each_change_of_a_record_counts_its_version_on(self, store: TeamStore) -> None:
        for version in range(1, 4):
            known = await store.get(Intent, T1, "intent_1") or an_intent()
            kept = (await store.commit(TeamChanges(T1, puts=(replace(known, title=f"t{version}"),)))).puts[0]
            assert kept.version == version

        found = await store.get(Intent, T1, "intent_1")
        assert found is not None
        assert (found.title, found.version) == ("t3", 3)

    @stored
    async def test_a_stale_record_is_refused_without_a_trace(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(an_intent(),)))
        before = await self.everything(store)

        with pytest.raises(Stale) as refused:
            await store.commit(self.much(puts=(an_intent(title="of another"),)))

        assert refused.value.facts["kind"] == "intent"
        assert await self.everything(store) == before

    @stored
    async def test_an_expectation_that_no_longer_holds_is_refused_without_a_trace(self, store: TeamStore) -> None:
        kept = (await store.commit(TeamChanges(T1, puts=(an_intent(),)))).puts[0]
        await store.commit(TeamChanges(T1, puts=(replace(kept, title="new"),)))  # type: ignore[call-arg]
        before = await self.everything(store)

        for expect in (expecting(kept), Expect("intent", "intent_1", 0), Expect("role", "none", 1)):
            with pytest.raises(Stale):
                await store.commit(self.much(expects=(expect,)))

        assert await self.everything(store) == before

    @stored
    async def test_after_a_stale_refusal_the_newer_record_is_read(self, store: TeamStore) -> None:
        kept = (await store.commit(TeamChanges(T1, puts=(an_intent(),)))).puts[0]
        await store.commit(TeamChanges(T1, puts=(replace(kept, title="new"),)))  # type: ignore[call-arg]

        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, puts=(kept,)))

        found = await store.get(Intent, T1, "intent_1")
        assert found is not None
        assert (found.title, found.version) == ("new", 2)

    @stored
    async def test_one_refusal_among_many_at_once_leaves_the_others_written(self, store: TeamStore) -> None:
        wrong = Expect("channel", "chan_1", 7)
        changes = [
            TeamChanges(T1, (a_post(f"msg_{n:02d}"),), (wrong,) if n % 3 == 0 else (), entries=(an_entry(str(n)),))
            for n in range(30)
        ]

        outcomes = await asyncio.gather(*map(store.commit, changes), return_exceptions=True)

        assert [n for n, one in enumerate(outcomes) if isinstance(one, Stale)] == list(range(0, 30, 3))
        page = await store.page(T1, Query("chan_1", ALL, AT))
        assert [one.post.id for one in page] == [f"msg_{n:02d}" for n in range(30) if n % 3]
        assert [one.post.seq for one in page] == list(range(1, 21))
        written = await store.entries(T1, 0, 100)
        assert [one.entry.action for one in written] == [str(n) for n in range(30) if n % 3]
        assert_chained(written)

    @stored
    async def test_of_two_that_change_one_version_one_wins(self, store: TeamStore) -> None:
        kept = (await store.commit(TeamChanges(T1, puts=(an_intent(),)))).puts[0]
        rivals = [TeamChanges(T1, puts=(replace(kept, title=f"of {n}"),)) for n in range(8)]  # type: ignore[call-arg]

        outcomes = await asyncio.gather(*map(store.commit, rivals), return_exceptions=True)

        assert sum(isinstance(one, Committed) for one in outcomes) == 1
        assert sum(isinstance(one, Stale) for one in outcomes) == 7

    @stored
    async def test_a_name_is_taken_once_in_its_parent(self, store: TeamStore) -> None:
        before = await self.everything(store)

        with pytest.raises(NameTaken) as refused:
            await store.commit(self.much(puts=(a_channel("chan_2", label="chan_1"),)))

        assert refused.value.facts["channel_id"] == "chan_1"
        assert await self.everything(store) == before
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1", intent_id="intent_2"),)))
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_3", T2, label="chan_1"),)))

    @stored
    async def test_of_many_that_want_one_name_one_gets_it(self, store: TeamStore) -> None:
        wanted = [TeamChanges(T1, puts=(a_channel(f"chan_x{n}", label="one"),)) for n in range(16)]

        outcomes = await asyncio.gather(*map(store.commit, wanted), return_exceptions=True)

        winners = [one for one in outcomes if isinstance(one, Committed)]
        assert len(winners) == 1
        assert {type(one) for one in outcomes if one not in winners} == {NameTaken}
        found = await store.find_by_name(Channel, T1, "intent_1", "one")
        assert found == winners[0].puts[0]

    @stored
    async def test_a_dropped_record_is_gone_and_its_name_is_free(self, store: TeamStore) -> None:
        channel = await self.kept(store, Channel, "chan_1")

        await store.commit(TeamChanges(T1, drops=(channel,), purges=("chan_1",)))

        assert await store.get(Channel, T1, "chan_1") is None
        assert await store.find_by_name(Channel, T1, "intent_1", "chan_1") is None
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1"),)))
        with pytest.raises(NotFound):
            await store.commit(TeamChanges(T1, (a_post(),)))
        assert await (await self.restarted(store)).get(Channel, T1, "chan_1") is None

    @stored
    async def test_a_stale_drop_is_refused(self, store: TeamStore) -> None:
        channel = await self.kept(store, Channel, "chan_1")
        await store.commit(TeamChanges(T1, puts=(channel,)))

        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, drops=(channel,), purges=("chan_1",)))

        assert await store.get(Channel, T1, "chan_1") is not None

    @stored
    async def test_the_records_of_a_parent_are_listed_by_id_and_counted(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=tuple(a_channel(f"chan_{n}") for n in (4, 2, 3))))
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_5", intent_id="other"),)))
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_6", T2),)))

        listed = await store.children(Channel, T1, "intent_1")

        assert [one.id for one in listed] == ["chan_1", "chan_2", "chan_3", "chan_4"]
        assert {one.version for one in listed} == {1}
        page = await store.children(Channel, T1, "intent_1", after="chan_1", limit=2)
        assert [one.id for one in page] == ["chan_2", "chan_3"]
        assert await store.count(Channel, T1, "intent_1") == 4
        assert await store.count(Intent, T1, "intent_1") == 0

    @stored
    async def test_records_without_a_name_are_not_found_by_it(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(an_intent("intent_1"), an_intent("intent_2"))))

        assert await store.find_by_name(Intent, T1, "", "") is None

    @stored
    async def test_what_is_due_is_found_over_all_tenants(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, puts=(a_channel("chan_2", expires=AT), a_channel("chan_3", expires=LATER))))
        agent = AgentRecord(
            id="bob",
            tenant_id=T2,
            registered_at=AT,
            status=AgentStatus.DRAINING,
            draining_since="2026-03-13T14:00:00.000000+00:00",
            drain_timeout_seconds=60,
        )
        await store.commit(TeamChanges(T2, puts=(agent,)))

        assert [(one.tenant_id, one.id) for one in await store.due(AT)] == [(T2, "bob"), (T1, "chan_2")]
        assert [one.id for one in await store.due(LATER, limit=1)] == ["bob"]
        assert [one.version for one in await store.due(LATER)] == [1, 1, 1]

    @stored
    async def test_an_agent_that_only_sends_heartbeats_is_as_it_was_expected(self, store: TeamStore) -> None:
        put = await store.commit(TeamChanges(T1, puts=(AgentRecord(id="bob", tenant_id=T1, registered_at=AT),)))
        seen = put.puts[0]
        assert isinstance(seen, AgentRecord)
        await store.commit(TeamChanges(T1, puts=(replace(seen, last_heartbeat_at=AT),)))

        await store.commit(TeamChanges(T1, (a_post("msg_1"),), (expecting(seen),)))
        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, puts=(replace(seen, last_heartbeat_at=LATER),)))
        left = replace(seen, version=2, status=AgentStatus.DEREGISTERED)
        await store.commit(TeamChanges(T1, puts=(left,)))
        with pytest.raises(Stale):
            await store.commit(TeamChanges(T1, (a_post("msg_2"),), (expecting(seen),)))

    @stored
    async def test_what_was_unsettled_becomes_the_position_before_the_commits_posts(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"), a_post("msg_2"))))
        role = Role(id="r", tenant_id=T1, holders=(Holder(agent="bob"),))

        committed = await store.commit(TeamChanges(T1, (a_post("msg_3", "chan_2"),), puts=(a_channel("chan_2"), role)))

        channel, kept_role = committed.puts
        assert isinstance(channel, Channel)
        assert isinstance(kept_role, Role)
        assert {one.since for one in channel.members} == {2}
        assert kept_role.holders[0].since == 2
        assert committed.posts[0].position == 3

    # -------------------------------------------------------- tenants

    @stored
    async def test_nothing_crosses_from_one_tenant_to_another(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        secret = a_request("msg_s", to="bob")._replace(channel_id="chan_t2", payload=b'{"text":"secret"}')
        waiting = a_post("msg_w", "chan_t2", to="role:r", recipients=(), state=PostState.PENDING)
        answer = an_answer("msg_a", "msg_s")._replace(channel_id="chan_t2")
        event = an_event("evt_t2", "intent_t2", trace_id="a" * 32)
        changes = TeamChanges(T2, (secret, waiting, answer), puts=(an_intent("intent_t2", T2),), events=(event,))
        await store.commit(changes._replace(entries=(an_entry("secret"),)))

        assert await store.head(T1) == 0
        assert await store.get(Intent, T1, "intent_t2") is None
        assert await store.get(Channel, T1, "chan_t2") is None
        assert await store.find_by_name(Channel, T1, "intent_1", "chan_t2") is None
        assert [one.id for one in await store.children(Channel, T1, "intent_1")] == ["chan_1"]
        assert await store.post(T1, "msg_s") is None
        assert await store.page(T1, Query("chan_t2", ALL, AT)) == ()
        assert await store.answers(T1, "msg_s") == ()
        assert await store.pending(T1, "role:r") == ()
        assert await store.search(T1, "secret", FeedScope(None), AT, 9) == ()
        assert await store.search(T1, "secret", FeedScope({"chan_t2": 0}), AT, 9) == ()
        assert (await store.find_positions(T1, FeedScope({"chan_t2": 0}, ("intent_t2",)), 0, 9, 9))[0] == ()
        assert await store.feed(T1, 0) == ()
        assert await store.events(T1, "intent_t2") == ()
        assert await store.events_of_trace(T1, "a" * 32) == ()
        assert await store.event(T1, "evt_t2") is None
        assert await store.entries(T1, 0, 9) == ()
        assert await store.taking_part(T1, "bob") == await store.children(Channel, T1, "intent_1")

    @stored
    async def test_nothing_of_another_tenant_is_moved_or_ended(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))
        waiting = a_post("msg_w", "chan_t2", to="role:r", recipients=(), state=PostState.PENDING)
        asked = a_request("msg_r", channel_id="chan_t2")
        await store.commit(TeamChanges(T2, (waiting, asked)))
        before = await store.feed(T2, 0)

        moved = (Moved("msg_w", PostState.DELIVERED, ("eve",)), Moved("msg_r", PostState.EXPIRED))
        committed = await store.commit(TeamChanges(T1, moved=moved, ended=("chan_t2",), departed=("bob",)))
        await store.commit(TeamChanges(T1, purges=("chan_t2",)))

        assert committed.posts == ()
        assert await store.feed(T2, 0) == before
        assert await store.head(T1) == 0

    @stored
    async def test_each_tenant_counts_its_own_positions(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_t2", T2),)))

        mine = await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        theirs = await store.commit(TeamChanges(T2, (a_post("msg_2", "chan_t2"),)))

        assert (mine.position, theirs.position) == (1, 1)
        assert [one.position for one in await store.feed(T2, 0)] == [1]

    @stored
    async def test_a_tenant_nobody_knows_is_empty(self, store: TeamStore) -> None:
        assert await store.head("nobody") == 0
        assert await store.feed("nobody", 0) == ()
        assert await store.entries("nobody", 0, 9) == ()
        assert await store.tally(T1, "chan_none") == Tally()

    @stored
    async def test_who_takes_part_is_found_by_name_by_what_it_said_and_by_what_it_was_asked(
        self, store: TeamStore
    ) -> None:
        await store.commit(
            TeamChanges(T1, puts=tuple(a_channel(f"chan_{n}", members=(Member(agent="alice"),)) for n in (2, 3, 4)))
        )
        await store.commit(TeamChanges(T1, (a_post("msg_1", "chan_2", sender="bob"),)))
        await store.commit(TeamChanges(T1, (a_request("msg_2")._replace(channel_id="chan_3"),)))

        assert [one.id for one in await store.taking_part(T1, "bob")] == ["chan_1", "chan_2", "chan_3"]
        assert await store.taking_part(T1, "bo") == ()

    # -------------------------------------------------------- records by what is in them

    @stored
    async def test_records_are_found_by_fields_of_their_documents_in_pages(self, store: TeamStore) -> None:
        held = [
            an_approval(
                id=f"appr_{n}",
                tenant_id=T1,
                agent="alice" if n % 2 else "bob",
                expires_at=AT.replace("-03-13", f"-03-2{9 - n}"),
            )
            for n in range(6)
        ]
        await store.commit(TeamChanges(T1, puts=tuple(held)))
        await store.commit(TeamChanges(T2, puts=(an_approval(id="appr_9", tenant_id=T2, agent="alice"),)))
        alices = RecordQuery("pending", (("agent", "alice"),), limit=2)

        first = await store.find(Approval, T1, alices)
        rest = await store.find(Approval, T1, alices._replace(after=("", first[-1].id)))
        newest = await store.find(Approval, T1, alices._replace(newest=True))
        older = await store.find(Approval, T1, alices._replace(newest=True, after=("", newest[-1].id)))
        expiring = RecordQuery(order="expires_at", limit=4)
        soon = await store.find(Approval, T1, expiring)
        later = await store.find(Approval, T1, expiring._replace(after=(soon[-1].expires_at, soon[-1].id)))

        assert [[one.id for one in page] for page in (first, rest)] == [["appr_1", "appr_3"], ["appr_5"]]
        assert [[one.id for one in page] for page in (newest, older)] == [["appr_5", "appr_3"], ["appr_1"]]
        assert [one.id for one in (*soon, *later)] == [f"appr_{n}" for n in (5, 4, 3, 2, 1, 0)]
        assert await store.find(Approval, T1, alices._replace(parent="decided")) == ()
        assert await store.find(Approval, T1, RecordQuery(fields=(("agent", "alice' OR 1=1"),))) == ()
        assert await store.find(Approval, "nowhere", alices) == ()

    @stored
    async def test_matching_records_are_counted_up_to_a_limit(self, store: TeamStore) -> None:
        records = [an_agent(f"agent_{n}", user="ann" if n % 2 else "ben") for n in range(7)]
        await store.commit(TeamChanges(T1, puts=tuple(records)))
        of_ann = RecordQuery("", (("attributes.user_id", "ann"),))

        counts = [
            await store.count_matching(AgentRecord, T1, query)
            for query in (of_ann, of_ann._replace(limit=2), RecordQuery(), RecordQuery(parent="other"))
        ]

        assert counts == [3, 2, 7, 0]
        assert await store.count_matching(AgentRecord, T2, of_ann) == 0


def an_agent(name: str, user: str) -> AgentRecord:
    return AgentRecord(id=name, tenant_id=T1, registered_at=AT, attributes=replace(UNKNOWN_ATTRIBUTES, user_id=user))
