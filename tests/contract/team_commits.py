"""The contract of every server's store about commits: chained, once, told in order, finished when begun."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import Channel
from parley.domain.channel.event import EventDraft
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.record import expecting
from parley.domain.store.changes import Committed, ErasableMessage, ErasureQuery, Query, TeamChanges
from parley.domain.store.ground import Ground
from parley.ports.team import TeamStore
from parley.wire.proofs.event_log import event_hash
from tests.contract.store import assert_chained
from tests.contract.team_store import (
    ALL,
    AT,
    LATER,
    T1,
    T2,
    TeamStoreContract,
    a_post,
    a_use,
    an_entry,
    an_event,
    an_intent,
    stored,
)


class TeamCommitsContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    # -------------------------------------------------------- submitted commits and grounds

    @stored
    async def test_what_is_submitted_is_told_to_the_watchers_and_then_to_its_caller(self, store: TeamStore) -> None:
        told: list[object] = []
        store.watch(lambda tenant, committed: told.append((tenant, [post.id for post in committed.posts])))
        outcomes: asyncio.Queue[Committed | Exception] = asyncio.Queue()

        def done(outcome: Committed | Exception) -> None:
            told.append("done")
            outcomes.put_nowait(outcome)

        store.submit(TeamChanges(T1, posts=(a_post("msg_1"),)), done)
        committed = await outcomes.get()
        store.submit(TeamChanges(T1, posts=(a_post(channel_id="chan_none"),)), done)

        assert isinstance(committed, Committed)
        assert [(post.id, post.seq) for post in committed.posts] == [("msg_1", 1)]
        assert isinstance(await outcomes.get(), NotFound)
        assert told == [(T1, ["msg_1"]), "done", "done"]
        store = await self.restarted(store)
        assert await store.post(T1, "msg_1") == committed.posts[0]

    @stored
    async def test_a_generation_moves_with_what_decisions_rest_on_and_with_nothing_else(self, store: TeamStore) -> None:
        await store.get(Channel, T1, "chan_1")
        first = store.generation(T1)
        await store.commit(TeamChanges(T1, posts=(a_post(),), events=(an_event(),), entries=(an_entry(),)))
        assert store.generation(T1) == first != 0

        channel = await self.kept(store, Channel, "chan_1")
        await store.commit(TeamChanges(T1, puts=(channel,)))
        second = store.generation(T1)
        agent = AgentRecord(id="bob", tenant_id=T1, registered_at=AT)
        registered = (await store.commit(TeamChanges(T1, puts=(agent,)))).puts[0]
        third = store.generation(T1)
        assert isinstance(registered, AgentRecord)
        alive = replace(registered, last_heartbeat_at=LATER)
        (heard,) = (await store.commit(TeamChanges(T1, puts=(alive,)))).puts
        assert len({first, second, third}) == 3
        assert store.generation(T1) == third

        await store.commit(TeamChanges(T1, drops=(heard,)))
        assert store.generation(T1) not in (first, second, third)

    @stored
    async def test_a_ground_that_moved_is_checked_version_by_version(self, store: TeamStore) -> None:
        channel = await self.kept(store, Channel, "chan_1")
        ground = Ground(store.generation(T1), (expecting(channel),))
        await store.commit(TeamChanges(T1, posts=(a_post("msg_1"),), ground=ground))
        await store.commit(TeamChanges(T1, puts=(an_intent("intent_other"),)))
        # Something else changed: the version of what it rests on is still the same.
        await store.commit(TeamChanges(T1, posts=(a_post("msg_2"),), ground=ground))
        changing = store.commit(TeamChanges(T1, puts=(channel,)))
        posting = store.commit(TeamChanges(T1, posts=(a_post("msg_3"),), ground=ground))

        _, refused = await asyncio.gather(changing, posting, return_exceptions=True)

        assert isinstance(refused, Stale)
        assert await store.post(T1, "msg_3") is None

    # -------------------------------------------------------- log and ledger

    @stored
    async def test_the_newest_stamp_is_that_of_whatever_was_written_last(self, store: TeamStore) -> None:
        assert await store.newest() == ""
        stamps = [f"2026-03-1{day}T14:30:00.000000+00:00" for day in range(4, 8)]
        written = [
            TeamChanges(T1, entries=(an_entry()._replace(at=stamps[0]),)),
            TeamChanges(T2, saved=a_use(at=stamps[1])),
            TeamChanges(T1, events=(an_event(created_at=stamps[2]),)),
            TeamChanges(T1, posts=(a_post(created_at=stamps[3]),)),
        ]

        seen = []
        for changes in written:
            await store.commit(changes)
            seen.append(await store.newest())

        assert seen == stamps
        store = await self.restarted(store)
        assert await store.newest() == stamps[-1]

    @stored
    async def test_the_events_of_an_intent_are_linked_by_their_hashes(self, store: TeamStore) -> None:
        for n in range(1, 4):
            await store.commit(TeamChanges(T1, events=(an_event(f"evt_{n}"), an_event(f"evt_o{n}", "intent_2"))))

        store = await self.restarted(store)
        await store.commit(TeamChanges(T1, events=(an_event("evt_4", event_type="other", trace_id="a" * 32),)))

        events = await store.events(T1, "intent_1")
        previous = None
        for sequence, event in enumerate(events, start=1):
            document = json.loads(event.document)
            assert (event.sequence, document["sequence"]) == (sequence, sequence)
            assert document["previous_event_hash"] == previous
            assert document["event_hash"] == event.event_hash == event_hash(document)
            previous = event.event_hash
        assert [one.id for one in events] == ["evt_1", "evt_2", "evt_3", "evt_4"]
        assert [one.id for one in await store.events(T1, "intent_1", after=1, limit=2)] == ["evt_2", "evt_3"]
        assert [one.id for one in await store.events(T1, "intent_1", event_type="other")] == ["evt_4"]
        assert [one.id for one in await store.events_of_trace(T1, "a" * 32)] == ["evt_4"]
        assert await store.events_of_trace(T1, "") == ()
        assert await store.event(T1, "evt_2") == events[1]

    @stored
    async def test_an_event_hashes_to_the_published_vector(self, store: TeamStore) -> None:
        vector = EventDraft("evt_1", "intent_1", "intent_created", "a", b'{"title":"t"}', "2026-02-13T10:00:00Z")

        committed = await store.commit(TeamChanges(T1, events=(vector,)))

        assert committed.events[0].event_hash == "sha256:m4rnlU2FNaRADt0HzpjpnkKs9izmSyf2XZXnjkLAp4I"

    @stored
    async def test_the_ledger_is_chained_over_batches_and_restarts(self, store: TeamStore) -> None:
        await asyncio.gather(
            *(store.commit(TeamChanges(T1, entries=(an_entry(f"a{n}"), an_entry(f"b{n}")))) for n in range(20))
        )
        store = await self.restarted(store)
        await store.commit(TeamChanges(T1, entries=(an_entry("last"),)))
        await store.commit(TeamChanges(T2, entries=(an_entry("other"),)))

        written = await store.entries(T1, 0, 100)

        assert len(written) == 41
        assert_chained(written)
        assert written[-1].entry == an_entry("last")
        assert await store.entries(T1, 39, 1) == (written[39],)
        assert_chained(await store.entries(T2, 0, 9))

    # -------------------------------------------------------- idempotency keys

    @stored
    async def test_an_idempotency_key_is_used_once(self, store: TeamStore) -> None:
        uses = [TeamChanges(T1, (a_post(f"msg_{n}"),), saved=a_use(message_id=f"msg_{n}")) for n in range(8)]

        outcomes = await asyncio.gather(*map(store.commit, uses), return_exceptions=True)

        assert isinstance(outcomes[0], Committed)
        refusals = [one for one in outcomes[1:] if isinstance(one, Stale)]
        assert len(refusals) == 7
        assert all("kind" not in one.facts for one in refusals)
        assert len(await store.page(T1, Query("chan_1", ALL, AT))) == 1
        assert await store.saved("s1") == a_use(message_id="msg_0")

    @stored
    async def test_the_answer_is_kept_with_its_key_until_it_is_forgotten(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, saved=a_use("s1")))
        answered = a_use("s1", message_id="msg_1", status=201, answer=b'{"id":"msg_1"}')
        await store.commit(TeamChanges(T1, saved=answered))
        await store.commit(TeamChanges(T1, saved=a_use("s2", at=LATER)))

        store = await self.restarted(store)
        assert await store.saved("s1") == answered
        assert await store.saved("s0") is None

        await store.commit(TeamChanges(T1, forget_before=LATER))
        assert await store.saved("s1") is None
        assert await store.saved("s2") == a_use("s2", at=LATER)

    @stored
    async def test_an_answer_keeps_what_its_key_was_used_for(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1"),), saved=a_use("s1", message_id="msg_1")))
        await store.commit(TeamChanges(T1, saved=a_use("s1", status=201, answer=b"words")))
        # Both in one transaction, as concurrent commits may be.
        use = TeamChanges(T1, (a_post("msg_2"),), saved=a_use("s2", message_id="msg_2"))
        await asyncio.gather(
            store.commit(use), store.commit(TeamChanges(T1, saved=a_use("s2", status=201, answer=b"words")))
        )

        assert await store.saved("s1") == a_use("s1", message_id="msg_1", status=201, answer=b"words")
        assert await store.saved("s2") == a_use("s2", message_id="msg_2", status=201, answer=b"words")

    @stored
    async def test_an_answer_that_comes_after_its_message_was_erased_is_not_stored(self, store: TeamStore) -> None:
        batch = a_use("s1", message_id=",msg_1,msg_2")
        await store.commit(TeamChanges(T1, (a_post("msg_1"), a_post("msg_2")), saved=batch))
        messages, _ = await store.words(T1, ErasureQuery(sender="alice"), 0)
        assert messages == (ErasableMessage("msg_1", ("s1",)), ErasableMessage("msg_2", ("s1",)))

        await store.commit(TeamChanges(T1, erase=messages))
        await store.commit(TeamChanges(T1, saved=a_use("s1", status=201, answer=b"words")))

        saved = await store.saved("s1")
        assert saved is not None
        assert (saved.message_id, saved.answer) == (",msg_1,msg_2", b"")

    # -------------------------------------------------------- watching

    @stored
    async def test_watchers_hear_each_message_in_order_before_its_commit_returns(self, store: TeamStore) -> None:
        heard: list[tuple[str, int]] = []

        def hear(tenant: str, committed: Committed) -> None:
            heard.extend([(tenant, post.position) for post in committed.posts])
            assert committed.position == committed.posts[-1].position

        store.watch(hear)

        async def commit(n: int) -> None:
            committed = await store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))
            assert (T1, committed.position) in heard

        await asyncio.gather(*map(commit, range(40)))
        with pytest.raises(NotFound):
            await store.commit(TeamChanges(T1, (a_post("msg_x", "chan_none"),)))

        assert heard == [(T1, n) for n in range(1, 41)]

    @stored
    async def test_a_commit_that_was_begun_is_finished_when_its_caller_goes_away(self, store: TeamStore) -> None:
        going = asyncio.ensure_future(store.commit(TeamChanges(T1, (a_post("msg_1"),))))
        await asyncio.sleep(0)
        going.cancel()

        await store.commit(TeamChanges(T1, (a_post("msg_2"),)))

        assert [one.post.id for one in await store.page(T1, Query("chan_1", ALL, AT))] == ["msg_1", "msg_2"]

    @stored
    async def test_closing_finishes_what_was_queued(self, store: TeamStore) -> None:
        queued = [asyncio.ensure_future(store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),)))) for n in range(50)]
        await asyncio.sleep(0)

        store = await self.restarted(store)

        assert len(await store.page(T1, Query("chan_1", ALL, AT))) == 50
        assert [one.posts[0].seq for one in await asyncio.gather(*queued)] == list(range(1, 51))
