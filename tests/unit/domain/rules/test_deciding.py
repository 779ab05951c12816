"""The rule that decided: of the check that a judgement stopped at, with the document that its value comes from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.agents.party import Party
from parley.domain.content.classification import Classification, ContentPattern
from parley.domain.content.detectors import Detection, findings
from parley.domain.content.envelope import Purpose
from parley.domain.rules.deciding import DecidingRule, allowing_rule, stopping_rule
from parley.domain.rules.judge import DIRECTORY, Allow, Deny, checks, judge
from parley.domain.rules.policy import CURRENT, KEYS, CrossOrg, Fragment, PolicySnapshot, with_document
from parley.domain.rules.rulebook import Rulebook
from tests.samples.governed import ALICE, BOB, TENANT, a_case, a_party

SALLY = a_party("sally", org_unit="sales")


def book_of(**documents: dict[str, Any]) -> Rulebook:
    """A rulebook of these documents; `enterprise__default` is enterprise/default."""
    snapshot = PolicySnapshot(id=CURRENT, tenant_id=TENANT)
    for name, keys in documents.items():
        snapshot = with_document(snapshot, name.replace("__", "/"), repr(keys), Fragment(**{"enabled": True, **keys}))
    return Rulebook(snapshot)


def test_within_an_org_unit_the_directory_allows() -> None:
    book = book_of(enterprise__default={"cross_org": CrossOrg.DENY})

    assert allowing_rule(book, ALICE, BOB) == DecidingRule("org_unit", "engineering", DIRECTORY)


def test_between_org_units_the_document_that_opened_them_allows() -> None:
    book = book_of(enterprise__default={"cross_org": CrossOrg.ALLOW}, org__sales={"max_rounds": 2})

    assert allowing_rule(book, ALICE, SALLY) == DecidingRule("cross_org", "true", "enterprise/default")


@pytest.mark.parametrize(("sender", "receiver"), [(ALICE, SALLY), (SALLY, ALICE)])
def test_the_stricter_side_is_named_whoever_sends(sender: Party, receiver: Party) -> None:
    book = book_of(enterprise__default={"cross_org": CrossOrg.ALLOW}, org__sales={"cross_org": CrossOrg.DENY})
    policy = book.between(sender.attributes, receiver.attributes)
    assert policy is not None

    rule = stopping_rule(a_case(sender=sender, receiver=receiver), policy, book)

    assert rule == DecidingRule("cross_org", "false", "org/sales")


def test_a_limit_that_the_exchange_began_with_is_not_said_to_be_the_policys() -> None:
    book = book_of(enterprise__default={"max_rounds": 5})
    policy = book.between(ALICE.attributes, BOB.attributes)
    assert policy is not None

    assert stopping_rule(a_case(round=3, max_rounds=2), policy, book) == DecidingRule("max_rounds", "2", "exchange")
    assert stopping_rule(a_case(round=6, max_rounds=5), policy, book) == DecidingRule(
        "max_rounds", "5", "enterprise/default"
    )


@given(
    level=st.sampled_from(Classification),
    purpose=st.sampled_from(Purpose),
    enabled=st.booleans(),
    crossing=st.sampled_from(CrossOrg),
    receiver=st.sampled_from([BOB, SALLY]),
    number=st.integers(1, 5),
    keywords=st.sampled_from([(), ("promise",)]),
)
def test_it_is_a_check_of_the_verdict_and_there_is_none_for_what_passes(
    level: Classification,
    purpose: Purpose,
    receiver: Party,
    number: int,
    keywords: tuple[str, ...],
    *,
    enabled: bool,
    crossing: CrossOrg,
) -> None:
    book = book_of(enterprise__default={"enabled": enabled, "cross_org": crossing})
    policy = book.between(ALICE.attributes, receiver.attributes)
    assert policy is not None
    case = a_case(level=level, purpose=purpose, receiver=receiver, round=number, keywords=keywords)

    verdict, rule = judge(case, policy), stopping_rule(case, policy, book)

    assert (rule is None) == isinstance(verdict, Allow)
    if rule is not None:
        (stopped,) = [check for check in checks(case, policy) if check[0] == rule.key]
        assert type(stopped[4]) is type(verdict)
        assert rule.source in (DIRECTORY, "purpose", "exchange", "enterprise/default", "built in")
        assert rule.key in KEYS or rule.source in (DIRECTORY, "purpose")


CARD = "Card 4111 1111 1111 1111"


def test_what_was_found_is_said_and_not_the_content() -> None:
    book = book_of(enterprise__default={})
    policy = book.between(ALICE.attributes, BOB.attributes)
    assert policy is not None
    found = findings([CARD, "key AKIAIOSFODNN7EXAMPLE"])

    verdict = judge(a_case(level=Classification.RESTRICTED, detections=found), policy)

    assert isinstance(verdict, Deny)
    assert verdict.error.message == (
        "the message is restricted (it contains a payment card number and an API token); "
        "alice may share at most internal"
    )


def test_a_pattern_of_the_policy_is_named() -> None:
    book = book_of(enterprise__default={})
    policy = book.between(ALICE.attributes, BOB.attributes)
    assert policy is not None
    pattern = ContentPattern("ticket", "SEC-####", Classification.CONFIDENTIAL)
    found = findings(["see SEC-1234"], (pattern,))
    assert found == (Detection("ticket", Classification.CONFIDENTIAL),)

    verdict = judge(a_case(level=Classification.CONFIDENTIAL, detections=found), policy)

    assert isinstance(verdict, Deny)
    assert 'is confidential (it contains text like the pattern "ticket"); alice may share' in verdict.error.message


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (DecidingRule("cross_org", "false", "org/sales"), "cross_org: false in org/sales"),
        (DecidingRule("cross_org", "false", "built in"), "cross_org: false by default"),
        (DecidingRule("max_rounds", "2", "exchange"), "max_rounds: 2 in this exchange"),
        (
            DecidingRule("max_classification (receiver)", "internal", DIRECTORY),
            "max_classification of bob: internal in the directory",
        ),
    ],
)
def test_a_rule_is_said_in_one_line(rule: DecidingRule, text: str) -> None:
    assert rule.text("alice", "bob") == text
    assert DecidingRule.from_facts(rule._asdict()) == rule
