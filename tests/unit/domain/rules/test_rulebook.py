from __future__ import annotations

import pytest

from parley.domain.agents.party import Attributes
from parley.domain.rules import rulebook
from parley.domain.rules.policy import AppliesTo, Fragment, Policy, with_document
from parley.domain.rules.rulebook import Rulebook, concerns
from tests.samples.governed import ALICE, BOB, NOTHING_IN_FORCE, a_party, a_rulebook, a_snapshot

SALES = Attributes(org_unit="sales")
LAW = Attributes(org_unit="law")


def test_each_party_has_the_policy_of_its_scopes_and_two_have_what_both_allow() -> None:
    snapshot = with_document(a_snapshot(max_rounds=9), "org/sales", "", Fragment(max_rounds=5))
    snapshot = with_document(snapshot, "org/law", "", Fragment(enabled=False))
    book = Rulebook(snapshot)

    sales, law, between = book.of(SALES), book.of(LAW), book.between(SALES, LAW)

    assert sales is not None
    assert law is not None
    assert between is not None
    assert (sales.max_rounds, sales.enabled, law.enabled) == (5, True, False)
    assert (between.max_rounds, between.enabled) == (5, False)
    assert {sales.version, law.version, between.version} == {book.label}


def test_a_policy_is_worked_out_once() -> None:
    book = a_rulebook()

    assert book.of(SALES) is book.of(Attributes(org_unit="sales"))
    assert book.between(SALES, LAW) is book.between(SALES, LAW)


def test_as_many_parties_as_there_are_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulebook, "_CACHE_SIZE", 3)
    book = a_rulebook()

    for number in range(20):
        assert book.between(Attributes(org_unit=f"o{number}"), SALES) is not None

    assert len(book._of) <= 3
    assert len(book._between) <= 3


def test_where_the_enterprise_says_nothing_there_is_no_policy_at_all() -> None:
    assert NOTHING_IN_FORCE.of(SALES) is None
    assert NOTHING_IN_FORCE.between(SALES, LAW) is None


@pytest.mark.parametrize(
    ("applies_to", "same", "other"),
    [(AppliesTo.ALL, True, True), (AppliesTo.CROSS_ORG, False, True), (AppliesTo.ANNOTATED, False, False)],
)
def test_what_is_not_asked_for_is_governed_where_the_policy_says_so(
    applies_to: AppliesTo, same: bool, other: bool
) -> None:
    policy = Policy(applies_to=applies_to)

    assert concerns(policy, ALICE, BOB) is same
    assert concerns(policy, ALICE, a_party("bob", org_unit="sales")) is other


def test_without_a_policy_everything_is_governed_so_that_nothing_passes() -> None:
    assert concerns(None, ALICE, BOB)
