"""What a transaction counts and chains: events, ledger, audit log, budgets and idempotency keys."""

from __future__ import annotations

import json

import pytest

from parley.domain.audit.entry import NO_HASH
from parley.domain.errors.errors import Stale
from parley.domain.errors.rules import Overspent
from parley.domain.hashes import chained
from parley.domain.mailbox.ledger import GENESIS, canonical
from parley.domain.store.changes import Spend, TeamChanges
from tests.contract.team_store import (
    T1,
    T2,
    a_use,
    an_entry,
    an_event,
)
from tests.unit.domain.store.transactions import Shelf, a_fact, a_shelf, after, begun


@pytest.fixture
def shelf() -> Shelf:
    return a_shelf()


# ---------------------------------------------------------------- log, ledger, audit log


def test_the_events_of_an_intent_follow_each_other_over_transactions(shelf: Shelf) -> None:
    after(shelf, TeamChanges(T1, events=(an_event("e1"), an_event("o1", "intent_2"))))

    done = after(shelf, TeamChanges(T1, events=(an_event("e2"),)), TeamChanges(T1, events=(an_event("e3"),)))

    assert [(number, one.position, one.sequence, one.event_hash) for number, one in done.events] == [
        (1, 3, 2, ">e1>e2"),
        (1, 4, 3, ">e1>e2>e3"),
    ]


def test_the_ledger_is_one_chain_for_each_tenant(shelf: Shelf) -> None:
    first = after(shelf, TeamChanges(T1, entries=(an_entry("a"), an_entry("b"))))
    second = after(shelf, TeamChanges(T2, entries=(an_entry("x"),)), TeamChanges(T1, entries=(an_entry("c"),)))

    link = GENESIS
    mine = [one for one in first.entries + second.entries if one[0] == 1]
    for position, (entry, action) in enumerate(zip(mine, "abc", strict=True), 1):
        document = canonical(position, an_entry(action))
        link = chained(link, document)
        assert entry == (1, position, document, link)
    assert second.entries[0][:2] == (2, 1)
    assert second.heads[T1].entry_link == link


def test_each_side_has_its_own_audit_chain_and_all_share_the_numbers_of_their_tenant(shelf: Shelf) -> None:
    done = [
        *after(shelf, TeamChanges(T1, audits=(a_fact(1), a_fact(2, "bob")))).audits,
        *after(
            shelf,
            TeamChanges(T1, audits=(a_fact(3, "bob"),)),
            TeamChanges(T2, audits=(a_fact(4),)),
            TeamChanges(T1, audits=(a_fact(5), a_fact(6))),
        ).audits,
    ]

    assert [(tenant, one.number, one.side, one.seq) for tenant, one in done] == [
        (1, 1, "alice", 1),
        (1, 2, "bob", 1),
        (1, 3, "bob", 2),
        (2, 1, "alice", 1),
        (1, 4, "alice", 2),
        (1, 5, "alice", 3),
    ]
    before = {one.id: json.loads(one.document)["prev_hash"] for _, one in done}
    hashes = {one.id: one.entry_hash for _, one in done}
    assert [before["aud_3"], before["aud_5"], before["aud_6"]] == [hashes["aud_2"], hashes["aud_1"], hashes["aud_5"]]
    assert {before["aud_1"], before["aud_2"], before["aud_4"]} == {NO_HASH}
    assert shelf.heads[T1].audit_number == 5


# ---------------------------------------------------------------- budgets and keys


def test_a_budget_is_spent_exactly_within_one_transaction(shelf: Shelf) -> None:
    shelf.budgets[T1, "key", ""] = 4
    done = begun(shelf)
    for _ in range(3):
        done.take(TeamChanges(T1, spends=(Spend("key", 7),)))

    with pytest.raises(Overspent) as refused:
        done.take(TeamChanges(T1, spends=(Spend("key", 7),)))

    assert refused.value.facts == {"key": "key", "most": 7}
    assert done.budgets == {(T1, "key", ""): 7}


def test_one_commit_cannot_spend_twice_what_is_there_once(shelf: Shelf) -> None:
    with pytest.raises(Overspent):
        begun(shelf).take(TeamChanges(T1, spends=(Spend("key", 1), Spend("key", 1))))


def test_what_is_given_back_can_be_spent_again_and_never_more_than_that(shelf: Shelf) -> None:
    back, spend = Spend("key", 0, amount=-1), Spend("key", 1)

    done = after(shelf, TeamChanges(T1, spends=(spend,)), *[TeamChanges(T1, spends=(back,))] * 3)
    assert done.budgets == {(T1, "key", ""): 0}
    after(shelf, TeamChanges(T1, spends=(spend,)))

    with pytest.raises(Overspent):
        begun(shelf).take(TeamChanges(T1, spends=(spend,)))


def test_an_idempotency_key_is_used_once_and_answered_later(shelf: Shelf) -> None:
    done = begun(shelf)
    done.take(TeamChanges(T1, saved=a_use("s1")))

    with pytest.raises(Stale):
        done.take(TeamChanges(T1, saved=a_use("s1", made="once_2")))
    done.take(TeamChanges(T1, saved=a_use("s1", answer=b"{}")))

    assert done.saved == {(T1, "s1"): a_use("s1", answer=b"{}")}
