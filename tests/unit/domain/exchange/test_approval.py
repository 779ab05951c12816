from __future__ import annotations

from dataclasses import fields, replace

import pytest

from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.rules import (
    ApprovalDecided,
    ApprovalStale,
    HumanRequired,
    NotApprover,
    NotReleasable,
    SelfApproval,
)
from parley.domain.exchange.approval import (
    LIMITS,
    Approval,
    ApprovalStatus,
    Cause,
    Decision,
    HeldDraft,
    check_decidable,
    check_may_decide,
    content_digest,
    decided,
    deciders_of,
    standing_of,
)
from tests.samples.governed import AT, END, a_held_draft, an_approval

DIGEST = an_approval().digest


def a_person(user: str) -> Caller:
    return Caller("default", "", KeyKind.HUMAN, "key_1", user)


# ---------------------------------------------------------------- what it is bound to


@pytest.mark.parametrize("field", [one.name for one in fields(HeldDraft)])
def test_every_part_of_what_would_be_sent_is_in_the_digest(field: str) -> None:
    changed = replace(a_held_draft(), **{field: "another"})

    assert content_digest(changed, "alice", "internal", "1-x") != DIGEST


@pytest.mark.parametrize(
    "parts", [("bob", "internal", "1-x"), ("alice", "public", "1-x"), ("alice", "internal", "2-y")]
)
def test_so_are_the_sender_the_level_and_the_policy(parts: tuple[str, str, str]) -> None:
    assert content_digest(a_held_draft(), *parts) != DIGEST


def test_nothing_can_be_moved_from_one_part_to_the_next() -> None:
    one = content_digest(a_held_draft(metadata="ab", payload="c"), "alice", "internal", "1")
    other = content_digest(a_held_draft(metadata="a", payload="bc"), "alice", "internal", "1")

    assert one != other


# ---------------------------------------------------------------- who may decide


@pytest.mark.parametrize(
    ("user", "approvers", "self_approval", "refusal"),
    [
        ("alice.h", (), True, None),
        ("alice.h", (), False, SelfApproval),
        ("alice.h", ("alice.h",), False, SelfApproval),
        ("alice.h", ("alice.h",), True, None),
        ("boss", ("boss",), True, None),
        ("boss", ("boss",), False, None),
        ("boss", (), True, NotApprover),
        ("bob.h", ("boss",), True, NotApprover),
        ("", ("",), True, HumanRequired),
    ],
)
def test_the_agents_own_person_decides_or_one_whom_the_policy_names(
    user: str, approvers: tuple[str, ...], self_approval: bool, refusal: type[Exception] | None
) -> None:
    if refusal is None:
        check_may_decide(an_approval(), a_person(user), approvers, self_approval=self_approval)
        return
    with pytest.raises(refusal):
        check_may_decide(an_approval(), a_person(user), approvers, self_approval=self_approval)


@pytest.mark.parametrize("kind", [one for one in KeyKind if one is not KeyKind.HUMAN])
def test_no_other_key_decides_whoever_it_names(kind: KeyKind) -> None:
    with pytest.raises(HumanRequired):
        check_may_decide(
            an_approval(), Caller("default", "alice", kind, "k", "alice.h"), ("alice.h",), self_approval=True
        )


# ---------------------------------------------------------------- what can be decided


@pytest.mark.parametrize("decision", list(Decision))
def test_what_waits_can_be_decided_by_who_has_seen_it(decision: Decision) -> None:
    check_decidable(an_approval(), decision, DIGEST, AT)


@pytest.mark.parametrize("decision", list(Decision))
@pytest.mark.parametrize("status", [one for one in ApprovalStatus if one is not ApprovalStatus.PENDING])
def test_what_was_decided_stays_so(decision: Decision, status: ApprovalStatus) -> None:
    with pytest.raises(ApprovalDecided):
        check_decidable(an_approval(status=status), decision, DIGEST, AT)


@pytest.mark.parametrize("decision", list(Decision))
def test_at_its_end_it_is_too_late(decision: Decision) -> None:
    with pytest.raises(ApprovalDecided):
        check_decidable(an_approval(), decision, DIGEST, END)


@pytest.mark.parametrize("decision", list(Decision))
@pytest.mark.parametrize("given", ["", "0" * 64, DIGEST[:-1], DIGEST.upper() + "x"])
def test_nobody_decides_about_what_they_have_not_seen(decision: Decision, given: str) -> None:
    with pytest.raises(ApprovalStale) as refused:
        check_decidable(an_approval(), decision, given, AT)

    assert refused.value.facts == {"approval": "appr_1", "digest": DIGEST}


@pytest.mark.parametrize("cause", list(Cause))
def test_a_limit_is_answered_or_ended_and_never_extended(cause: Cause) -> None:
    approval = an_approval(cause=cause)
    check_decidable(approval, Decision.ANSWER, DIGEST, AT)
    check_decidable(approval, Decision.REJECT, DIGEST, AT)
    if cause not in LIMITS:
        check_decidable(approval, Decision.APPROVE, DIGEST, AT)
        return

    with pytest.raises(NotReleasable):
        check_decidable(approval, Decision.APPROVE, DIGEST, AT)


@pytest.mark.parametrize("status", [one for one in ApprovalStatus if one is not ApprovalStatus.PENDING])
def test_there_is_one_answer(status: ApprovalStatus) -> None:
    over = decided(an_approval(), status, "alice.h", AT, "fine", "msg_1")

    assert (over.status, over.decided_by, over.decided_at, over.note, over.message_id) == (
        status,
        "alice.h",
        AT,
        "fine",
        "msg_1",
    )
    with pytest.raises(ApprovalDecided):
        decided(over, ApprovalStatus.APPROVED, "eve", AT, "")


def test_what_waits_is_found_among_what_waits_until_it_is_decided() -> None:
    waiting = an_approval(unique="loop/conv-1")
    over = decided(waiting, ApprovalStatus.REJECTED, "alice.h", AT, "")

    def place(one: Approval) -> tuple[str, str, bool]:
        return one.parent, one.name, one.due != ""

    assert place(waiting) == ("pending", "loop/conv-1", True)
    assert waiting.due <= END
    assert place(over) == ("decided", "loop/conv-1", False)
    assert an_approval().name == ""


# ---------------------------------------------------------------- who may decide, beforehand


@pytest.mark.parametrize("self_approval", [True, False])
@pytest.mark.parametrize("approvers", [(), ("dee",), ("ann", "dee"), ("ann",)])
@pytest.mark.parametrize("user", ["ann", "unassigned", ""])
def test_those_who_are_named_are_exactly_those_who_may_decide(
    user: str, approvers: tuple[str, ...], self_approval: bool
) -> None:
    approval = an_approval(user=user)
    people = ("ann", "dee", "eve", "unassigned", "")

    named = deciders_of(approval, approvers, self_approval=self_approval)
    standings = {one: standing_of(approval, a_person(one), approvers, self_approval=self_approval) for one in people}

    assert set(named) == {one for one, standing in standings.items() if not standing.barred}
    assert {standing.deciders for standing in standings.values()} == {named}


def test_whoever_may_not_is_told_with_which_code() -> None:
    approval = an_approval(user="ann")
    agent = a_person("ann")._replace(kind=KeyKind.AGENT)

    def barred(caller: Caller) -> str:
        return standing_of(approval, caller, ("dee",), self_approval=False).barred

    assert [barred(one) for one in (agent, a_person("eve"), a_person("ann"), a_person("dee"))] == [
        "human_required",
        "not_approver",
        "self_approval",
        "",
    ]
