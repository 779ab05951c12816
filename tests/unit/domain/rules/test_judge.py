"""The judgement has one order. Each check is tried as the first that speaks against a message, with every later one
speaking against it as well: so the order itself is what is tested.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest

from parley.domain.content.classification import LEVELS, Classification
from parley.domain.content.envelope import Origin, Purpose, ReplyPolicy
from parley.domain.errors.rules import ClassificationExceeded, LoopDetected, PolicyDenied, ReceiverRefuses
from parley.domain.exchange.approval import Cause
from parley.domain.rules.judge import (
    ALLOW,
    POLICY,
    Case,
    Deny,
    Hold,
    Verdict,
    ceiling_of,
    checks,
    crosses,
    judge,
    rounds_of,
)
from parley.domain.rules.policy import Commitments, CrossOrg, MeetingApproval, Policy
from tests.samples.governed import ALICE, BOB, a_case, a_party

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = LEVELS
QUERY, COMMITMENT, MEETING = Purpose

# What makes each check speak, in the order of the checks: changes of the sender, the receiver, the case and the policy.
Cause_ = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]
CHECKS: list[Cause_] = [
    ("takes no queries", {}, {"can_receive_queries": False}, {}, {}),
    ("not in the receiver's types", {}, {"supported_exchange_types": (COMMITMENT,)}, {}, {}),
    ("not in the sender's types", {"supported_exchange_types": (COMMITMENT,)}, {}, {}, {}),
    ("nothing is enabled", {}, {}, {}, {"enabled": False}),
    ("not in the policy's types", {}, {}, {}, {"exchange_types": (COMMITMENT, MEETING)}),
    ("never across org units", {}, {"org_unit": "sales"}, {}, {"cross_org": CrossOrg.DENY}),
    ("above the sender's maximum", {"max_classification": PUBLIC}, {}, {}, {}),
    ("above the policy's maximum", {}, {}, {}, {"max_classification": PUBLIC}),
    ("above the receiver's clearance", {}, {"max_classification": PUBLIC}, {}, {}),
    ("data above the ceiling", {}, {}, {"over": True}, {}),
    ("too many hops", {}, {}, {"hops": 9}, {}),
    ("across org units by approval", {}, {"org_unit": "sales"}, {}, {"cross_org": CrossOrg.APPROVAL}),
    ("one round too many", {}, {}, {"round": 4}, {}),
    ("only a person answers", {}, {}, {"initiates": False, "reply_policy": ReplyPolicy.HUMAN_ONLY}, {}),
    ("does not answer by itself", {"can_auto_respond": False}, {}, {"initiates": False}, {}),
    ("asks for a commitment", {}, {}, {"requires_commitment": True}, {}),
    ("has words of a commitment", {}, {}, {"keywords": ("promise", "book")}, {}),
]
EXPECTED: dict[str, tuple[type[Exception] | Cause, str]] = {
    "takes no queries": (ReceiverRefuses, "bob takes no queries"),
    "not in the receiver's types": (ReceiverRefuses, "bob does not take part in a information_query"),
    "not in the sender's types": (ReceiverRefuses, "alice does not take part in a information_query"),
    "nothing is enabled": (PolicyDenied, "the policy allows no exchange between agents"),
    "not in the policy's types": (PolicyDenied, "the policy allows no information_query"),
    "never across org units": (PolicyDenied, "the policy allows nothing from engineering to sales"),
    "above the sender's maximum": (ClassificationExceeded, "alice may share at most public"),
    "above the policy's maximum": (ClassificationExceeded, "the policy allows at most public"),
    "above the receiver's clearance": (ClassificationExceeded, "bob may know at most public"),
    "data above the ceiling": (ClassificationExceeded, "it holds data above what may be shared here"),
    "too many hops": (LoopDetected, "more than 8 messages follow from one another"),
    "across org units by approval": (Cause.CROSS_ORG, "The policy asks for approval from engineering to sales."),
    "one round too many": (
        Cause.ROUND_LIMIT,
        "Exchange reached maximum round limit (3). Human review required.",
    ),
    "only a person answers": (Cause.HUMAN_ONLY, "Only a human may respond. Human approval required."),
    "does not answer by itself": (
        Cause.HUMAN_ONLY,
        "alice does not respond by itself. Human approval required.",
    ),
    "asks for a commitment": (
        Cause.COMMITMENT,
        "The exchange requires a commitment. Human approval required.",
    ),
    "has words of a commitment": (
        Cause.COMMITMENT,
        "Commitment keywords detected: promise, book. Human approval required.",
    ),
}
NAMES = [check[0] for check in CHECKS]


def judged(checks: list[Cause_], **changes: Any) -> Verdict:  # noqa: ANN401  # what a case has
    """The judgement of a case against which exactly these checks speak. The first of two that differ counts."""
    sender: dict[str, Any] = {}
    receiver: dict[str, Any] = {}
    case: dict[str, Any] = {}
    policy: dict[str, Any] = {"cross_org": CrossOrg.ALLOW}
    for _, of_sender, of_receiver, of_case, of_policy in reversed(checks):
        sender |= of_sender
        receiver |= of_receiver
        case |= of_case
        policy |= of_policy
    made = a_case(sender=a_party("alice", **sender), receiver=a_party("bob", **receiver), **{**case, **changes})
    return judge(made, Policy(**policy))


def found(verdict: Verdict) -> tuple[type[Exception] | Cause, str]:
    if isinstance(verdict, Deny):
        return type(verdict.error), verdict.error.message
    assert isinstance(verdict, Hold)
    return verdict.cause, verdict.reason


def matches(verdict: Verdict, name: str) -> bool:
    kind, words = found(verdict)
    return kind == EXPECTED[name][0] and EXPECTED[name][1] in words


def test_a_case_that_nothing_speaks_against_passes() -> None:
    assert judge(a_case(), Policy()) is ALLOW
    assert judged([]) is ALLOW


@pytest.mark.parametrize("place", range(len(CHECKS)), ids=NAMES)
def test_each_check_speaks_by_itself(place: int) -> None:
    assert matches(judged([CHECKS[place]]), NAMES[place])


@pytest.mark.parametrize("place", range(len(CHECKS)), ids=NAMES)
def test_each_check_is_the_first_when_all_before_it_have_nothing_to_say(place: int) -> None:
    if NAMES[place] == "takes no queries":
        # It is only asked of who begins an exchange; the checks about replies are not.
        later = [one for one in CHECKS[1:] if "initiates" not in one[3]]
        assert matches(judged([CHECKS[0], *later]), NAMES[0])
        return
    assert matches(judged(CHECKS[place:]), NAMES[place])


@pytest.mark.parametrize(("first", "second"), [*combinations(range(len(CHECKS)), 2)])
def test_of_any_two_checks_the_earlier_one_is_told(first: int, second: int) -> None:
    both = [CHECKS[first], CHECKS[second]]
    if NAMES[first] == "takes no queries" and "initiates" in CHECKS[second][3]:
        return  # who answers does not begin
    assert matches(judged(both), NAMES[first])


def test_all_that_denies_is_looked_at_before_anything_is_held() -> None:
    kinds = [EXPECTED[name][0] for name in NAMES]
    holds = [isinstance(kind, Cause) for kind in kinds]

    assert holds == sorted(holds)
    for denial, hold in product(range(11), range(11, len(CHECKS))):
        if not (denial == 0 and "initiates" in CHECKS[hold][3]):
            assert isinstance(judged([CHECKS[denial], CHECKS[hold]]), Deny)


# ---------------------------------------------------------------- who is exempt from what


@pytest.mark.parametrize("name", NAMES[:11])
def test_a_person_is_denied_what_an_agent_is_denied_but_for_the_hops(name: str) -> None:
    verdict = judged([CHECKS[NAMES.index(name)]], origin=Origin.HUMAN)

    assert verdict is ALLOW if name == "too many hops" else matches(verdict, name)


@pytest.mark.parametrize("name", NAMES[12:])
def test_nothing_that_a_person_says_itself_waits_for_a_person(name: str) -> None:
    assert judged([CHECKS[NAMES.index(name)]], origin=Origin.HUMAN) is ALLOW


def test_what_a_person_sends_across_org_units_waits_where_the_policy_asks_for_approval() -> None:
    verdict = judged([CHECKS[11]], origin=Origin.HUMAN)

    assert matches(verdict, "across org units by approval")


@pytest.mark.parametrize("name", NAMES[:11])
def test_an_approval_overrides_no_denial(name: str) -> None:
    assert matches(judged([CHECKS[NAMES.index(name)]], approved=True, origin=Origin.ASSISTED), name)


@pytest.mark.parametrize("name", [*NAMES[11:12], *NAMES[13:]])
def test_what_was_approved_is_not_held_again(name: str) -> None:
    assert judged([CHECKS[NAMES.index(name)]], approved=True, origin=Origin.ASSISTED) is ALLOW


def test_an_approval_makes_no_round_more() -> None:
    assert matches(judged([CHECKS[12]], approved=True, origin=Origin.ASSISTED), "one round too many")


@pytest.mark.parametrize("round_", [1, 2, 3])
def test_the_last_round_is_still_a_round(round_: int) -> None:
    assert judge(a_case(round=round_), Policy()) is ALLOW


def test_a_hop_on_the_limit_passes() -> None:
    assert judge(a_case(hops=8), Policy()) is ALLOW
    assert isinstance(judge(a_case(hops=4), Policy(hop_limit=3)), Deny)


@pytest.mark.parametrize(("level", "most"), [*product(LEVELS, LEVELS)])
def test_a_level_passes_up_to_the_maximum_of_everybody(level: Classification, most: Classification) -> None:
    for sender, receiver, policy in (
        (most, RESTRICTED, RESTRICTED),
        (RESTRICTED, most, RESTRICTED),
        (RESTRICTED, RESTRICTED, most),
    ):
        sides = (a_party("alice", max_classification=sender), a_party("bob", max_classification=receiver))
        case = a_case(level=level, sender=sides[0], receiver=sides[1])
        assert (judge(case, Policy(max_classification=policy)) is ALLOW) == (level.rank <= most.rank)


def test_who_answers_is_not_asked_whether_the_other_takes_queries() -> None:
    assert judge(a_case(receiver=a_party("bob", can_receive_queries=False), initiates=False), Policy()) is ALLOW


def test_who_begins_need_not_answer_by_itself() -> None:
    assert judge(a_case(sender=a_party("alice", can_auto_respond=False)), Policy()) is ALLOW


def test_a_denial_across_org_units_says_what_was_asked_of_the_policy() -> None:
    verdict = judge(a_case(receiver=a_party("bob", org_unit="sales")), Policy(version="7-abc"))

    assert isinstance(verdict, Deny)
    assert verdict.error.facts == {
        "policy": "7-abc",
        "action": "agent_exchange_cross_org",
        "sourceOrgUnit": "engineering",
        "targetOrgUnit": "sales",
    }
    assert crosses(ALICE, a_party("bob", org_unit="sales"))
    assert not crosses(ALICE, BOB)


@pytest.mark.parametrize("cross_org", list(CrossOrg))
def test_within_an_org_unit_no_policy_about_others_is_asked(cross_org: CrossOrg) -> None:
    assert judge(a_case(), Policy(cross_org=cross_org)) is ALLOW


# ---------------------------------------------------------------- commitments


def meeting(**changes: Any) -> Case:  # noqa: ANN401  # what a case has
    said = {"purpose": MEETING, "reply_policy": ReplyPolicy.HUMAN_ONLY, "requires_commitment": True, **changes}
    return a_case(**said)


def test_a_meeting_is_for_both_people_to_decide() -> None:
    asked, answered = judge(meeting(), Policy()), judge(meeting(initiates=False), Policy())

    assert isinstance(asked, Hold)
    assert isinstance(answered, Hold)
    assert (asked.cause, answered.cause) == (Cause.COMMITMENT, Cause.HUMAN_ONLY)


def test_where_only_the_responder_decides_an_agent_may_ask_for_a_meeting_but_promise_nothing() -> None:
    policy = Policy(meeting_approval=MeetingApproval.RESPONDER)

    assert judge(meeting(), policy) is ALLOW
    assert isinstance(judge(meeting(keywords=("promise",)), policy), Hold)
    assert isinstance(judge(meeting(initiates=False), policy), Hold)
    # It is about meetings: no other commitment is left to the responder alone.
    other = a_case(purpose=COMMITMENT, requires_commitment=True)
    assert isinstance(judge(other, policy), Hold)


def test_where_commitments_are_only_reported_nothing_is_held_for_them() -> None:
    policy = Policy(commitments=Commitments.REPORT)

    assert judge(meeting(), policy) is ALLOW
    assert judge(a_case(keywords=("promise",)), policy) is ALLOW
    # Who may answer is another question.
    assert isinstance(judge(meeting(initiates=False), policy), Hold)


def test_a_question_that_only_a_person_may_answer_is_looked_at_before_it_is_asked() -> None:
    verdict = judge(a_case(reply_policy=ReplyPolicy.HUMAN_ONLY), Policy())

    assert verdict == Hold(Cause.COMMITMENT, "Only a human may respond. Human approval required.")


# ---------------------------------------------------------------- what an exchange begins with


@pytest.mark.parametrize(
    ("declared", "sender", "policy", "receiver", "ceiling"),
    [
        (RESTRICTED, RESTRICTED, RESTRICTED, RESTRICTED, RESTRICTED),
        (PUBLIC, RESTRICTED, RESTRICTED, RESTRICTED, PUBLIC),
        (RESTRICTED, INTERNAL, RESTRICTED, RESTRICTED, INTERNAL),
        (RESTRICTED, RESTRICTED, CONFIDENTIAL, RESTRICTED, CONFIDENTIAL),
        (RESTRICTED, RESTRICTED, RESTRICTED, PUBLIC, PUBLIC),
    ],
)
def test_the_ceiling_of_data_is_the_lowest_that_anybody_says(
    declared: Classification,
    sender: Classification,
    policy: Classification,
    receiver: Classification,
    ceiling: Classification,
) -> None:
    sides = a_party("alice", max_classification=sender), a_party("bob", max_classification=receiver)

    assert ceiling_of(Policy(max_classification=policy), *sides, declared) is ceiling


@pytest.mark.parametrize(
    ("asked", "policy", "sender", "receiver", "rounds"),
    [
        (None, 3, None, None, 3),
        (999_999, 3, None, None, 3),
        (2, 3, None, None, 2),
        (None, 3, 1, None, 1),
        (5, 9, 6, 4, 4),
        (1, 1, 1, 1, 1),
    ],
)
def test_an_exchange_gets_the_fewest_rounds_that_anybody_asks_for(
    asked: int | None, policy: int, sender: int | None, receiver: int | None, rounds: int
) -> None:
    sides = a_party("alice", max_rounds_accepted=sender), a_party("bob", max_rounds_accepted=receiver)

    assert rounds_of(Policy(max_rounds=policy), *sides, asked) == rounds


def test_every_check_is_made_whatever_the_verdict_is() -> None:
    names = [name for name, *_ in checks(a_case(), Policy())]

    assert [name for name, *_ in checks(a_case(hops=99, round=99, over=True), Policy(enabled=False))] == names
    assert all(hasattr(Policy(), name) for name, source, *_ in checks(a_case(), Policy()) if source == POLICY)
