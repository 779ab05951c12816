"""Policies become one by a declared meet of each key; a narrower scope can only narrow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from parley.domain.content.classification import Classification, ContentPattern, OnOver
from parley.domain.content.commitment import Match
from parley.domain.content.envelope import Purpose
from parley.domain.rules.meet import BUILT_IN, Difference, both, differences, effective, meet, origins
from parley.domain.rules.policy import KEYS, AppliesTo, Commitments, CrossOrg, Fragment, MeetingApproval, Policy
from tests.samples.messages import PROPERTY
from tests.samples.policies import fragments, policies, policy_of, snapshot_of

CARD = ContentPattern("card", "####", Classification.RESTRICTED)
CUSTOMER = ContentPattern("customer", "KD-####", Classification.CONFIDENTIAL)
QUERY, COMMITMENT, MEETING = Purpose


@pytest.mark.parametrize(
    ("key", "wide", "narrow"),
    [
        ("enabled", True, False),
        ("exchange_types", (QUERY, MEETING), (QUERY,)),
        ("max_rounds", 3, 2),
        ("max_classification", Classification.RESTRICTED, Classification.CONFIDENTIAL),
        ("max_classification", Classification.CONFIDENTIAL, Classification.INTERNAL),
        ("max_classification", Classification.INTERNAL, Classification.PUBLIC),
        ("cross_org", CrossOrg.ALLOW, CrossOrg.APPROVAL),
        ("cross_org", CrossOrg.APPROVAL, CrossOrg.DENY),
        ("commitments", Commitments.REPORT, Commitments.ENFORCE),
        ("commitment_words", ("ship",), ("ship", "sign")),
        ("match", Match.WORD, Match.SUBSTRING),
        ("on_over_classified", OnOver.REDACT, OnOver.WITHHOLD),
        ("on_over_classified", OnOver.WITHHOLD, OnOver.BLOCK),
        ("applies_to", AppliesTo.ANNOTATED, AppliesTo.CROSS_ORG),
        ("applies_to", AppliesTo.CROSS_ORG, AppliesTo.ALL),
        ("meeting_approval", MeetingApproval.RESPONDER, MeetingApproval.BOTH),
        ("self_approval", True, False),
        ("approvers", ("ana", "bo"), ("ana",)),
        ("patterns", (CARD,), (CARD, CUSTOMER)),
        ("pair_budget", 600, 599),
        ("hop_limit", 8, 1),
        ("open_approvals", 200, 9),
        ("exchange_hours", 24, 1),
        ("approval_hours", 24, 1),
    ],
)
def test_the_narrower_value_is_in_force_whoever_says_it(key: str, wide: object, narrow: object) -> None:
    def one(value: object) -> Fragment:
        return Fragment(**{key: value})

    above_wide = effective(snapshot_of(enterprise__default=one(wide), org__sales=one(narrow)), org="sales")
    above_narrow = effective(snapshot_of(enterprise__default=one(narrow), org__sales=one(wide)), org="sales")

    assert getattr(above_wide, key) == getattr(above_narrow, key) == narrow
    assert getattr(both(policy_of(one(wide)), policy_of(one(narrow))), key) == narrow


def test_lists_that_have_nothing_in_common_allow_nothing() -> None:
    snapshot = snapshot_of(
        enterprise__default=Fragment(exchange_types=(QUERY,)), user__ana=Fragment(exchange_types=(MEETING,))
    )

    policy = effective(snapshot, user="ana")

    assert policy is not None
    assert policy.exchange_types == ()


def test_without_an_enterprise_document_there_is_no_policy() -> None:
    assert effective(snapshot_of()) is None
    assert effective(snapshot_of(org__sales=Fragment(enabled=True)), org="sales") is None


def test_what_the_enterprise_does_not_say_is_built_in() -> None:
    policy = effective(snapshot_of(enterprise__default=Fragment(cross_org=CrossOrg.ALLOW, max_rounds=5)))

    assert policy == Policy(cross_org=CrossOrg.ALLOW, max_rounds=5, version="0-")


def test_several_enterprise_documents_count_together() -> None:
    snapshot = snapshot_of(
        enterprise__default=Fragment(cross_org=CrossOrg.ALLOW, max_rounds=5), enterprise__privacy=Fragment(max_rounds=4)
    )

    policy = effective(snapshot)

    assert policy is not None
    assert (policy.cross_org, policy.max_rounds) == (CrossOrg.ALLOW, 4)


def test_only_the_documents_of_whom_it_is_for_count() -> None:
    snapshot = snapshot_of(
        enterprise__default=Fragment(max_rounds=9),
        org__sales=Fragment(max_rounds=8),
        team__sales=Fragment(max_rounds=7),
        user__sales=Fragment(max_rounds=6),
    )

    def rounds(**of: str) -> int:
        policy = effective(snapshot, **of)
        assert policy is not None
        return policy.max_rounds

    assert rounds() == rounds(org="law", team="law", user="law") == 9
    assert (rounds(org="sales"), rounds(team="sales"), rounds(user="sales")) == (8, 7, 6)


def test_the_version_is_the_label_of_the_snapshot() -> None:
    snapshot = replace(snapshot_of(enterprise__default=Fragment(enabled=True)), number=7, digest="ab" * 32)

    policy = effective(snapshot)

    assert policy is not None
    assert policy.version == snapshot.label == "7-abababababab"


def test_a_child_names_approvers_only_while_nobody_above_has() -> None:
    free = policy_of(Fragment(enabled=True))
    named = policy_of(Fragment(approvers=("ana", "bo")))

    assert meet(free, Fragment(approvers=("cy",))).approvers == ("cy",)
    assert meet(named, Fragment(approvers=("bo", "cy"))).approvers == ("bo",)


def test_nobody_below_names_approvers_again_when_all_have_dropped_out() -> None:
    none_left = meet(policy_of(Fragment(approvers=("ana",))), Fragment(approvers=("bo",)))
    nobody = policy_of(Fragment(approvers=()))

    assert meet(none_left, Fragment(approvers=("cy",))).approvers == ()
    assert meet(nobody, Fragment(approvers=("cy",))).approvers == ()


def test_the_disclosure_is_the_enterprises() -> None:
    snapshot = snapshot_of(
        enterprise__default=Fragment(disclosure="A machine."), org__sales=Fragment(disclosure="A person, honestly.")
    )

    policy = effective(snapshot, org="sales")

    assert policy is not None
    assert policy.disclosure == "A machine."


@given(policies, policies)
@PROPERTY
def test_the_meet_of_two_sides_does_not_depend_on_who_is_first(first: Policy, second: Policy) -> None:
    assert both(first, second) == both(second, first)


@given(policies, policies, policies)
@PROPERTY
def test_the_meet_does_not_depend_on_how_it_is_grouped(one: Policy, two: Policy, three: Policy) -> None:
    assert both(both(one, two), three) == both(one, both(two, three))


@given(policies, policies)
@PROPERTY
def test_a_side_that_was_met_adds_nothing_again(one: Policy, two: Policy) -> None:
    met = both(one, two)

    assert both(one, one) == one
    assert both(met, one) == both(met, two) == met


@given(policies, fragments)
@PROPERTY
def test_a_child_only_narrows(parent: Policy, fragment: Fragment) -> None:
    child = meet(parent, fragment)

    assert both(child, parent) == child
    assert meet(child, fragment) == child
    assert child.enabled <= parent.enabled
    assert set(child.exchange_types) <= set(parent.exchange_types)
    assert child.max_rounds <= parent.max_rounds
    assert child.max_classification.rank <= parent.max_classification.rank
    assert set(child.commitment_words) >= set(parent.commitment_words)
    assert set(child.patterns) >= set(parent.patterns)
    assert child.disclosure == parent.disclosure


@given(policies, fragments, fragments)
@PROPERTY
def test_children_narrow_in_any_order(parent: Policy, one: Fragment, other: Fragment) -> None:
    assert meet(meet(parent, one), other) == meet(meet(parent, other), one)


def test_two_sides_under_different_versions_name_both() -> None:
    one, two = Policy(version="3-abc"), Policy(version="1-def")

    assert both(one, two).version == both(two, one).version == "1-def+3-abc"
    assert both(both(one, two), one).version == "1-def+3-abc"


def test_the_origin_of_a_value_is_the_document_that_set_it_last() -> None:
    snapshot = snapshot_of(
        enterprise__default=Fragment(max_rounds=3, hop_limit=8, commitment_words=("ship",), disclosure="A machine."),
        org__sales=Fragment(max_rounds=2, hop_limit=8, commitment_words=("sign",), disclosure="Nobody."),
        team__north=Fragment(max_rounds=3, pair_budget=5),
        user__ana=Fragment(commitment_words=("sign",)),
    )

    found = origins(snapshot, org="sales", team="north", user="ana")

    assert found["max_rounds"] == "org/sales"  # the team's is wider, so it changes nothing
    assert found["hop_limit"] == "enterprise/default"  # the same again
    assert found["pair_budget"] == "team/north"
    assert found["commitment_words"] == "enterprise/default, org/sales"
    assert found["disclosure"] == "enterprise/default"
    assert found["enabled"] == BUILT_IN
    assert tuple(found) == tuple(KEYS)


@given(fragments, fragments, fragments)
@PROPERTY
def test_a_value_without_a_document_is_the_built_in_one(root: Fragment, org: Fragment, user: Fragment) -> None:
    snapshot = snapshot_of(enterprise__default=root, org__a=org, user__b=user)

    found = origins(snapshot, org="a", user="b")

    policy = effective(snapshot, org="a", user="b")
    assert {key for key in KEYS if getattr(policy, key) != getattr(Policy(), key) and found[key] == BUILT_IN} == set()
    assert {key for key in KEYS if getattr(root, key) is not None and found[key] == BUILT_IN} == set()


def test_a_wider_wish_is_not_the_origin_of_a_built_in_value() -> None:
    snapshot = snapshot_of(enterprise__default=Fragment(enabled=True), org__a=Fragment(cross_org=CrossOrg.ALLOW))

    assert origins(snapshot, org="a")["cross_org"] == BUILT_IN


def test_differences_are_told_by_document_and_by_what_they_change_in_force() -> None:
    old = snapshot_of(enterprise__default=Fragment(max_rounds=3), org__sales=Fragment(max_rounds=2))
    new = snapshot_of(enterprise__default=Fragment(max_rounds=1, hop_limit=4), user__ana=Fragment(enabled=False))

    documents, in_force = differences(old, new)

    assert documents == (
        Difference("enterprise/default", "max_rounds", 3, 1),
        Difference("enterprise/default", "hop_limit", None, 4),
        Difference("org/sales", "max_rounds", 2, None),
        Difference("user/ana", "enabled", None, False),
    )
    assert in_force == (
        Difference("enterprise", "max_rounds", 3, 1),
        Difference("enterprise", "hop_limit", 8, 4),
        Difference("org/sales", "max_rounds", 2, 1),
        Difference("org/sales", "hop_limit", 8, 4),
        Difference("user/ana", "enabled", True, False),
        Difference("user/ana", "max_rounds", 3, 1),
        Difference("user/ana", "hop_limit", 8, 4),
    )


def test_a_change_that_changes_nothing_in_force_is_told_as_such() -> None:
    old = snapshot_of(enterprise__default=Fragment(max_rounds=3))
    new = snapshot_of(enterprise__default=Fragment(max_rounds=3), org__sales=Fragment(max_rounds=5))

    documents, in_force = differences(old, new)

    assert documents == (Difference("org/sales", "max_rounds", None, 5),)
    assert in_force == ()


def test_without_an_enterprise_document_nothing_is_enabled() -> None:
    documents, in_force = differences(snapshot_of(enterprise__default=Fragment(enabled=True)), snapshot_of())

    assert documents == (Difference("enterprise/default", "enabled", True, None),)
    assert in_force[0] == Difference("enterprise", "enabled", True, False)
