"""What becomes of an approval, and of its exchange with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.app.mailbox.kernel import drive
from parley.app.rules import approvals
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.rules import ApprovalStale, NotApprover
from parley.domain.exchange.approval import NOT_WAITING, ApprovalStatus, Decision, content_digest
from parley.domain.exchange.exchange import Outcome, escalated
from tests.samples.governed import AT, TENANT, a_held_draft, an_approval, an_exchange
from tests.unit.app.rules.fake_docket import FakeDocket, a_submission

ANN = Caller(TENANT, "", KeyKind.HUMAN, "key_ann", "alice.h")
BEN = ANN._replace(user="bob.h")


def test_a_rejection_denies_the_exchange_and_closes_what_else_waits_in_it() -> None:
    first, second = an_approval(), an_approval(id="appr_2")
    exchange = escalated(escalated(an_exchange(), "appr_1"), "appr_2")
    docket = FakeDocket(first, second, exchange)

    decision = drive(approvals.refuse(docket, first, ApprovalStatus.REJECTED, "ann", key="key_ann", note="no"))

    words = [(one.side, one.actor, one.facts.get("decision") or one.facts["outcome"]) for one in decision.audits]
    assert words == [
        ("alice", "ann", "rejected"),
        ("alice", "ann", "closed"),
        ("alice", "ann", "denied"),
        ("bob", "ann", "denied"),
    ]
    assert (decision.audits[0].facts["key"], decision.audits[0].facts["note"]) == ("key_ann", "no")
    assert [one.status for one in decision.approvals] == [ApprovalStatus.REJECTED, ApprovalStatus.CLOSED]
    assert decision.exchange is not None
    assert decision.exchange.outcome is Outcome.DENIED


def test_what_nobody_decided_in_time_is_denied_unless_the_exchange_has_expired_too() -> None:
    short = an_approval(expires_at=AT)
    lasting, over = escalated(an_exchange(), "appr_1"), escalated(an_exchange(expires_at=AT), "appr_1")

    outcomes = []
    for exchange in (lasting, over):
        decision = drive(approvals.expire(FakeDocket(short, exchange), short))
        assert decision.exchange is not None
        outcomes.append((decision.approvals[0].status, decision.exchange.outcome))

    assert outcomes == [(ApprovalStatus.EXPIRED, Outcome.DENIED), (ApprovalStatus.EXPIRED, Outcome.EXPIRED)]


def test_an_approval_without_an_exchange_ends_none() -> None:
    decision = drive(approvals.refuse(FakeDocket(), an_approval(), ApprovalStatus.REJECTED, "ann"))

    assert (decision.exchange, len(decision.audits)) == (None, 1)


def test_under_another_policy_the_person_looks_again_at_a_new_digest() -> None:
    docket = FakeDocket()
    approval = an_approval()

    decision = approvals.request_new_review_if_stale(docket, a_submission(releases=approval))

    assert decision is not None
    assert isinstance(decision.refusal, ApprovalStale)
    (again,) = decision.approvals
    assert again.digest == content_digest(a_held_draft(), "alice", "internal", docket.book.label)
    assert approvals.request_new_review_if_stale(docket, a_submission(releases=again)) is None
    assert approvals.request_new_review_if_stale(docket, a_submission()) is None


def test_only_who_may_decides_and_that_is_known_beforehand() -> None:
    docket, approval = FakeDocket(), an_approval()

    drive(approvals.check(docket, approval, ANN, Decision.REJECT, approval.digest))
    with pytest.raises(NotApprover):
        drive(approvals.check(docket, approval, BEN, Decision.REJECT, approval.digest))

    assert drive(approvals.standing(docket, approval, ANN)).barred == ""
    assert drive(approvals.standing(docket, approval, BEN)).barred == "not_approver"
    decided = replace(approval, status=ApprovalStatus.CLOSED)
    assert drive(approvals.standing(docket, decided, ANN)) is NOT_WAITING
