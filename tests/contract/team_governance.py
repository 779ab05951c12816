"""The contract of every server's store about governed exchange: chains that have no gap, and budgets that hold."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from parley.domain.audit.entry import NO_HASH, AuditDraft, AuditEntry, entry_hash
from parley.domain.errors.errors import Stale
from parley.domain.errors.rules import Overspent
from parley.domain.exchange.exchange import Exchange
from parley.domain.record import Expect
from parley.domain.store.changes import AuditQuery, Committed, RecordQuery, Spend, TeamChanges
from parley.ports.team import TeamStore
from tests.contract.team_store import AT, T1, T2, TeamStoreContract, a_post, a_use, an_intent, stored
from tests.samples.governed import an_exchange

BUDGET = "pair/alice,bob"


def a_fact(name: str = "aud_1", side: str = "alice", **facts: object) -> AuditDraft:
    return AuditDraft(name, side, AT, "agent_exchange", "alice", {"n": 1, "ü": "日本", **facts}, "exch_1")


async def log(store: TeamStore, tenant: str = T1) -> tuple[AuditEntry, ...]:
    return await store.audits(tenant, AuditQuery(limit=10_000))


def assert_dense(entries: tuple[AuditEntry, ...], tenant: str = T1) -> None:
    """Every entry is at the next place of its tenant and of its side, and its hash is over the one before."""
    heads: dict[str, tuple[int, str]] = {}
    for number, entry in enumerate(entries, 1):
        seq, before = heads.get(entry.side, (0, NO_HASH))
        document = json.loads(entry.document)
        assert (entry.number, entry.seq) == (number, seq + 1)
        assert (document["prev_hash"], document["seq"]) == (before, seq + 1)
        assert (document["tenant"], document["side"], document["id"]) == (tenant, entry.side, entry.id)
        assert entry.entry_hash == entry_hash(entry.document)
        spelled = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert entry.document == spelled.encode()
        heads[entry.side] = (entry.seq, entry.entry_hash)


class TeamGovernanceContract(TeamStoreContract):
    """Inherited by a store's own test, beside the other parts of the contract."""

    async def spent(self, store: TeamStore, key: str = BUDGET, window: str = "", tenant: str = T1) -> int:
        """How much of a budget is used: so much that no more than the rest can be spent. Changes nothing."""
        for most in range(1000):
            # The commit looks at budgets after it has looked at versions, so nothing of this is ever written.
            probe = TeamChanges(tenant, spends=(Spend(key, most, window), Spend("never", 0)))
            with pytest.raises(Overspent) as refused:
                await store.commit(probe)
            if refused.value.facts["key"] == "never":
                return most - 1
        raise AssertionError

    # -------------------------------------------------------- chains

    @stored
    async def test_entries_take_the_next_places_of_their_tenant_and_of_their_side(self, store: TeamStore) -> None:
        for n, sides in enumerate([("alice", "bob"), ("bob",), ("alice", "carol", "alice"), ("@tenant",)]):
            drafts = tuple(a_fact(f"aud_{n}_{place}", side) for place, side in enumerate(sides))
            await store.commit(TeamChanges(T1, audits=drafts))

        entries = await log(store)
        assert_dense(entries)
        assert [(one.side, one.seq) for one in entries] == [
            ("alice", 1),
            ("bob", 1),
            ("bob", 2),
            ("alice", 2),
            ("carol", 1),
            ("alice", 3),
            ("@tenant", 1),
        ]

    @stored
    async def test_chains_go_on_after_a_restart(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, audits=(a_fact("aud_1"), a_fact("aud_2", "bob"))))
        store = await self.restarted(store)
        assert await store.audit_size(T1) == 2
        await store.commit(TeamChanges(T1, audits=(a_fact("aud_3"),)))
        store = await self.restarted(store)
        await store.commit(TeamChanges(T1, audits=(a_fact("aud_4", "bob"),)))

        assert_dense(await log(store))
        assert await store.audit_size(T1) == 4
        hashes = tuple(entry.entry_hash for entry in await store.audits(T1, AuditQuery()))
        assert [await store.audit_hashes(T1, *some) for some in ((0, 4), (1, 3), (4, 9))] == [hashes, hashes[1:3], ()]
        assert await store.audit_hashes("nobody", 0, 4) == ()

    @stored
    async def test_chains_are_whole_when_many_commit_at_once(self, store: TeamStore) -> None:
        sides = ("alice", "bob", "carol")

        await asyncio.gather(
            *[
                store.commit(TeamChanges(T1, audits=(a_fact(f"a{n}", sides[n % 3]), a_fact(f"b{n}", sides[n % 2]))))
                for n in range(150)
            ]
        )

        entries = await log(store)
        assert len(entries) == 300
        assert_dense(entries)
        assert_dense(await log(await self.restarted(store)))

    @stored
    async def test_a_refused_commit_among_others_leaves_no_gap(self, store: TeamStore) -> None:
        def change(n: int) -> TeamChanges:
            bad = n % 3 == 1
            expects = (Expect("intent", "none", 7),) if bad else ()
            return TeamChanges(T1, (a_post(f"msg_{n}"),), expects, audits=(a_fact(f"aud_{n}", "alice"),))

        outcomes = await asyncio.gather(*[store.commit(change(n)) for n in range(60)], return_exceptions=True)

        entries = await log(store)
        assert len([one for one in outcomes if isinstance(one, Committed)]) == len(entries) == 40
        assert_dense(entries)

    @stored
    async def test_a_commit_that_cannot_be_written_leaves_no_gap(self, store: TeamStore) -> None:
        broken = TeamChanges(T1, audits=(a_fact("aud_x", unfit=object()),))

        changes = [TeamChanges(T1, audits=(a_fact(f"aud_{n}"),)) for n in range(5)]
        outcomes = await asyncio.gather(
            *map(store.commit, [*changes[:2], broken, *changes[2:]]), return_exceptions=True
        )

        assert [isinstance(one, Committed) for one in outcomes] == [True, True, False, True, True, True]
        assert_dense(await log(store))
        assert await store.audit_size(T1) == 5

    @stored
    async def test_a_message_and_its_entries_are_written_together_or_not_at_all(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, spends=(Spend(BUDGET, 1),)))
        change = TeamChanges(
            T1,
            (a_post("msg_1"),),
            puts=(an_exchange(tenant_id=T1),),
            audits=(a_fact(),),
            spends=(Spend(BUDGET, 1),),
            saved=a_use(),
        )
        before = await self.everything(store)

        with pytest.raises(Overspent):
            await store.commit(change)

        assert await self.everything(store) == before
        assert await log(store) == ()
        assert await store.saved("s1") is None
        await store.commit(change._replace(spends=()))
        assert [one.id for one in await log(store)] == ["aud_1"]

    @stored
    async def test_each_tenant_has_chains_and_places_of_its_own(self, store: TeamStore) -> None:
        await asyncio.gather(
            *[store.commit(TeamChanges((T1, T2)[n % 2], audits=(a_fact(f"aud_{n}"),))) for n in range(20)]
        )

        for tenant in (T1, T2):
            entries = await log(store, tenant)
            assert len(entries) == await store.audit_size(tenant) == 10
            assert_dense(entries, tenant)
        assert await store.audits("nobody", AuditQuery()) == ()
        assert await store.audits(T1, AuditQuery(entry_id="aud_1")) == ()

    # -------------------------------------------------------- budgets

    @stored
    async def test_a_budget_is_spent_exactly_however_many_want_it_at_once(self, store: TeamStore) -> None:
        outcomes = await asyncio.gather(
            *[store.commit(TeamChanges(T1, (a_post(f"msg_{n}"),), spends=(Spend(BUDGET, 7),))) for n in range(50)],
            return_exceptions=True,
        )

        kinds = Counter(type(one) for one in outcomes)
        assert kinds == {Committed: 7, Overspent: 43}
        assert (await store.tally(T1, "chan_1")).total == 7
        assert await self.spent(store) == 7
        assert await self.spent(await self.restarted(store)) == 7

    @stored
    async def test_what_is_refused_says_which_budget_and_spends_nothing(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, spends=(Spend("a", 1),)))

        with pytest.raises(Overspent) as refused:
            await store.commit(TeamChanges(T1, spends=(Spend("b", 5), Spend("a", 1))))

        assert refused.value.facts == {"key": "a", "most": 1}
        assert await self.spent(store, "b") == 0

    @stored
    async def test_one_commit_cannot_spend_twice_what_is_there_once(self, store: TeamStore) -> None:
        with pytest.raises(Overspent):
            await store.commit(TeamChanges(T1, spends=(Spend("a", 1), Spend("a", 1))))

        assert await self.spent(store, "a") == 0

    @stored
    async def test_what_is_given_back_can_be_spent_again_and_never_more_than_that(self, store: TeamStore) -> None:
        back = Spend(BUDGET, 0, amount=-1)
        await store.commit(TeamChanges(T1, spends=(Spend(BUDGET, 2),)))
        await store.commit(TeamChanges(T1, spends=(Spend(BUDGET, 2, amount=1),)))

        await store.commit(TeamChanges(T1, spends=(back,)))
        assert await self.spent(store) == 1
        for _ in range(5):
            await store.commit(TeamChanges(T1, spends=(back,)))

        assert await self.spent(store) == 0

    @stored
    async def test_each_window_and_each_tenant_has_a_budget_of_its_own(self, store: TeamStore) -> None:
        for tenant, window in ((T1, "2026-03-13T14"), (T1, "2026-03-13T15"), (T2, "2026-03-13T14"), (T1, "")):
            await store.commit(TeamChanges(tenant, spends=(Spend(BUDGET, 1, window),)))

        with pytest.raises(Overspent):
            await store.commit(TeamChanges(T1, spends=(Spend(BUDGET, 1, "2026-03-13T14"),)))

    @stored
    async def test_windows_that_are_long_over_are_forgotten_and_what_is_for_ever_is_not(self, store: TeamStore) -> None:
        for window in ("2026-03-12T14", "2026-03-13T14", ""):
            await store.commit(TeamChanges(T1, spends=(Spend(BUDGET, 1, window),)))

        await store.commit(TeamChanges(T1, forget_before="2026-03-13T00:00:00.000000+00:00"))

        assert [await self.spent(store, BUDGET, one) for one in ("2026-03-12T14", "2026-03-13T14", "")] == [0, 1, 1]
        store = await self.restarted(store)
        assert [await self.spent(store, BUDGET, one) for one in ("2026-03-12T14", "2026-03-13T14", "")] == [0, 1, 1]

    # -------------------------------------------------------- records and posts

    @stored
    async def test_every_record_of_a_kind_is_found_page_by_page_whatever_it_belongs_to(self, store: TeamStore) -> None:
        made = [
            an_exchange(id=f"exch_{n:02}", tenant_id=T1, conversation_id=f"conv-{n % 3}", reserved=False)
            for n in range(10)
        ]
        await store.commit(TeamChanges(T1, puts=tuple(made)))
        await store.commit(TeamChanges(T2, puts=(an_exchange(id="exch_03", tenant_id=T2),)))
        await store.commit(TeamChanges(T1, puts=(an_intent(),)))

        found: list[str] = []
        after = ""
        while page := await store.every(Exchange, T1, after=after, limit=3):
            assert len(page) <= 3
            found += [one.id for one in page]
            after = page[-1].id

        assert found == [one.id for one in made]
        assert [one.id for one in await store.every(Exchange, T2)] == ["exch_03"]
        assert await store.every(Exchange, "nobody") == ()

    @stored
    async def test_the_exchanges_of_a_conversation_are_found_page_by_page_with_a_name_or_without(
        self, store: TeamStore
    ) -> None:
        made = [
            # Denied before anything was said: it has no name.
            an_exchange(
                id=f"exch_{n}", tenant_id=T1, conversation_id="conv-1", initiator=f"zoe-{9 - n}", reserved=n % 2 == 0
            )
            for n in range(6)
        ]
        await store.commit(
            TeamChanges(T1, puts=(*made, an_exchange(id="exch_9", tenant_id=T1, conversation_id="conv-2")))
        )

        assert [one.id for one in await store.children(Exchange, T1, "conv-1")] == [one.id for one in made]
        page = await store.children(Exchange, T1, "conv-1", after="exch_1", limit=3)
        assert [one.id for one in page] == ["exch_2", "exch_3", "exch_4"]
        assert await store.children(Exchange, T1, "conv-3") == ()
        assert await store.find(Exchange, T1, RecordQuery("conv-1")) == await store.children(Exchange, T1, "conv-1")

    @stored
    async def test_a_conversation_that_has_an_exchange_is_not_opened_as_a_new_one(self, store: TeamStore) -> None:
        # Denied before anything was said: it has no name.
        denied = an_exchange(id="exch_2", tenant_id=T1, conversation_id="conv-2", reserved=False)
        for opened in (an_exchange(tenant_id=T1), denied):
            changes = TeamChanges(T1, puts=(opened,), new_conversations=(opened.conversation_id,))
            assert (await store.commit(changes)).new_conversations == (opened.conversation_id,)
        store = await self.restarted(store)
        before = await self.everything(store)

        for conversation in ("conv-1", "conv-2"):
            another = an_exchange(id="exch_3", tenant_id=T1, conversation_id=conversation)
            with pytest.raises(Stale):
                await store.commit(self.much(puts=(another,), new_conversations=(conversation,)))

        assert await self.everything(store) == before
        for tenant, conversation in ((T1, "conv-3"), (T2, "conv-1")):
            other = an_exchange(id="exch_4", tenant_id=tenant, conversation_id=conversation)
            await store.commit(TeamChanges(tenant, puts=(other,), new_conversations=(conversation,)))

    @stored
    async def test_of_many_that_open_a_conversation_at_once_one_does(self, store: TeamStore) -> None:
        def opens(number: int, conversation: str) -> TeamChanges:
            made = an_exchange(
                id=f"exch_{conversation}{number}",
                tenant_id=T1,
                initiator=f"zoe-{number}",
                conversation_id=conversation,
                version=1,
            )
            return TeamChanges(T1, creates=(made,), new_conversations=(conversation,))

        commits = [store.commit(opens(number, conversation)) for number in range(4) for conversation in ("one", "two")]
        results = await asyncio.gather(*commits, return_exceptions=True)

        assert sum(isinstance(one, Committed) for one in results) == 2
        assert sum(isinstance(one, Stale) for one in results) == 6
        for conversation in ("one", "two"):
            assert len(await store.children(Exchange, T1, conversation)) == 1

    @stored
    async def test_a_message_knows_its_exchange_wherever_it_is_read(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, (a_post("msg_1", exchange_id="exch_1"), a_post("msg_2"))))

        store = await self.restarted(store)
        fed = [item.post for item in await store.feed(T1, 0) if item.post]
        found = await store.post(T1, "msg_1")

        assert found is not None
        assert found.exchange_id == "exch_1"
        assert [one.exchange_id for one in fed] == ["exch_1", ""]
