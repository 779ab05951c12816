"""What follows when a message was judged: one decision, with everything that has to be written."""

from __future__ import annotations

from dataclasses import replace

from parley.app.mailbox.kernel import drive
from parley.app.rules import messages
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.errors import Invalid
from parley.domain.errors.rules import ApprovalQueueFull, Overspent, PairBudget, PolicyDenied
from parley.domain.exchange.approval import ApprovalStatus, Cause
from parley.domain.exchange.exchange import Outcome, Turn, escalated
from parley.domain.store.changes import Spend
from tests.samples.governed import a_held_draft, a_party, a_proposal, an_approval, an_exchange
from tests.unit.app.rules.fake_docket import FakeDocket, a_submission

SECRET = Wishes(classification=Classification.RESTRICTED)
PROMISE = {"text": "We promise it."}
PERSON = a_party("alice", human=True)


def test_what_passes_takes_a_round_and_is_recorded_on_both_sides() -> None:
    decision = drive(messages.decide(FakeDocket(), a_submission(), a_proposal()))

    assert (decision.message, decision.refusal, decision.held) == ("the message", None, None)
    assert [(one.side, one.facts["role"], one.facts["content_digest"]) for one in decision.audits] == [
        ("alice", "sender", "of what was sent"),
        ("bob", "receiver", "of what was sent"),
    ]
    assert decision.exchange is not None
    assert (decision.exchange.current_round, decision.exchange.outcome) == (1, Outcome.IN_PROGRESS)
    assert decision.spends == (Spend("pair/alice,bob", 600, "2026-03-13T14"),)


def test_where_the_other_side_keeps_its_own_chain_only_mine_is_written() -> None:
    decision = drive(messages.decide(FakeDocket(keeps=("alice",)), a_submission(), a_proposal()))

    assert [one.side for one in decision.audits] == ["alice"]


def test_what_needs_no_reply_ends_its_exchange_on_both_sides() -> None:
    proposal = a_proposal(asks=False, wishes=Wishes(classification=Classification.PUBLIC))

    decision = drive(messages.decide(FakeDocket(), a_submission(), proposal))

    assert [(one.side, one.action) for one in decision.audits[2:]] == [
        ("alice", "agent_exchange_ended"),
        ("bob", "agent_exchange_ended"),
    ]


def test_what_is_held_becomes_an_approval_and_no_message() -> None:
    decision = drive(messages.decide(FakeDocket(), a_submission(), a_proposal(body=PROMISE)))

    assert decision.message is None
    assert decision.held is not None
    assert (decision.approvals, decision.held.cause) == ((decision.held,), Cause.COMMITMENT)
    (entry,) = decision.audits
    assert (entry.facts["outcome"], entry.facts["approval"]) == ("held", decision.held.id)
    assert [one.key for one in decision.spends] == ["approvals/alice"]


def test_a_denial_in_a_running_exchange_ends_it_for_everyone_and_closes_what_waits() -> None:
    exchange = escalated(an_exchange(current_round=1, transcript=(Turn(1, "alice", "hello"),), version=1), "appr_1")

    decision = drive(
        messages.decide(FakeDocket(an_approval()), a_submission(), a_proposal(exchange=exchange, wishes=SECRET))
    )

    words = [(one.side, one.action, one.facts.get("outcome") or one.facts["decision"]) for one in decision.audits]
    assert words == [
        ("alice", "agent_exchange", "denied"),
        ("alice", "approval_decided", "closed"),
        ("alice", "agent_exchange_ended", "denied"),
        ("bob", "agent_exchange_ended", "denied"),
    ]
    assert decision.refusal is not None


def test_what_a_receiver_refuses_at_once_began_no_exchange_there() -> None:
    submission = a_submission(incoming=True)

    decision = drive(messages.decide(FakeDocket(keeps=("bob",)), submission, a_proposal(wishes=SECRET)))

    assert (decision.exchange, [one.side for one in decision.audits]) == (None, ["bob"])
    assert decision.audits[0].facts["role"] == "receiver"


def test_what_a_person_approved_is_decided_first_and_then_delivered() -> None:
    docket = FakeDocket()
    waiting = escalated(an_exchange(), "appr_1")
    approval = an_approval(policy_version=docket.book.label)
    submission = a_submission(releases=approval, approval_id="appr_1", approved_by="ann")

    decision = drive(messages.decide(docket, submission, a_proposal(exchange=waiting, approval=approval, body=PROMISE)))

    assert [one.action for one in decision.audits] == ["approval_decided", "agent_exchange", "agent_exchange"]
    assert decision.audits[0].facts["decision"] == "approved"
    assert {one.facts["approved_by"] for one in decision.audits[1:]} == {"ann"}
    assert [(one.status, one.message_id) for one in decision.approvals] == [(ApprovalStatus.APPROVED, "msg_1")]
    assert decision.exchange is not None
    assert decision.exchange.outcome is Outcome.IN_PROGRESS


def test_what_would_be_sent_otherwise_than_it_was_shown_is_shown_again() -> None:
    docket = FakeDocket()
    approval = an_approval(policy_version=docket.book.label)
    changed = a_held_draft(payload='{"text":"Something else."}')
    submission = a_submission(releases=approval, as_held_draft=lambda _: changed)

    decision = drive(messages.decide(docket, submission, a_proposal(approval=approval)))

    assert decision.message is None
    assert decision.refusal is not None
    assert decision.refusal.code == "approval_stale"
    assert decision.approvals[0].draft == replace(approval.draft or changed, payload=changed.payload)


def test_a_limit_that_a_person_answers_is_resolved_and_every_entry_says_so() -> None:
    exchange = an_exchange(current_round=3, limit_approval="appr_1", outcome=Outcome.ESCALATED)
    limit = an_approval(cause=Cause.ROUND_LIMIT)
    submission = a_submission(sender=PERSON, actor="ann", replaces=limit, approval_id="appr_1", approved_by="ann")

    decision = drive(
        messages.decide(FakeDocket(limit), submission, a_proposal(sender=PERSON, exchange=exchange, instead=True))
    )

    assert decision.exchange is not None
    assert decision.exchange.outcome is Outcome.RESOLVED
    told = [(one.action, one.actor, one.facts.get("exchange_outcome")) for one in decision.audits]
    assert told == [
        ("approval_decided", "ann", None),
        ("agent_exchange", "ann", "resolved"),
        ("agent_exchange", "ann", "resolved"),
        ("agent_exchange_ended", "ann", None),
        ("agent_exchange_ended", "ann", None),
    ]
    assert decision.spends == ()


def test_one_limit_has_one_escalation_whoever_tries_again() -> None:
    limit = an_approval(cause=Cause.ROUND_LIMIT, detected_keywords=("secret",))
    exchange = an_exchange(current_round=3, limit_approval=limit.id, outcome=Outcome.ESCALATED)

    decision = drive(messages.decide(FakeDocket(limit), a_submission(), a_proposal(exchange=exchange)))

    assert decision.held is not None
    assert (decision.held.id, decision.held.detected_keywords, decision.approvals) == (limit.id, (), ())


def test_what_cannot_be_judged_is_refused_on_record_and_uses_no_round() -> None:
    nobody = drive(messages.decide(FakeDocket(), a_submission(receivers=()), a_proposal()))
    wrong = drive(
        messages.decide(
            FakeDocket(),
            a_submission(),
            a_proposal(exchange=an_exchange(), wishes=Wishes(purpose=Purpose.MEETING_SCHEDULING)),
        )
    )

    assert isinstance(nobody.refusal, PolicyDenied)
    assert isinstance(wrong.refusal, Invalid)
    for decision in (nobody, wrong):
        assert decision.exchange is None
        assert (decision.audits[0].facts["outcome"], decision.audits[0].facts["round"]) == ("denied", 0)


def test_what_a_budget_has_no_room_for_is_refused_and_a_person_looks_at_it_once() -> None:
    spent, full = (Overspent("nothing left", facts={"key": key}) for key in ("pair/alice,bob", "approvals/alice"))

    first = drive(messages.refuse_overspent(FakeDocket(), a_submission(), spent))
    again = drive(messages.refuse_overspent(FakeDocket(*first.approvals), a_submission(), spent))
    queue = drive(messages.refuse_overspent(FakeDocket(), a_submission(), full))

    assert isinstance(first.refusal, PairBudget)
    assert [one.cause for one in first.approvals] == [Cause.PAIR_BUDGET]
    assert (again.approvals, again.refusal and again.refusal.facts) == ((), first.refusal.facts)
    assert isinstance(queue.refusal, ApprovalQueueFull)


def test_fresh_ids_share_what_tells_them_from_others() -> None:
    fresh = messages.fresh_ids(FakeDocket())

    assert fresh == ("exch_1", "conv_1", "appr_1")
