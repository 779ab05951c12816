"""The end of an exchange: one outcome, on every side that knows of it."""

from __future__ import annotations

import pytest

from parley.app.mailbox.kernel import drive
from parley.app.rules import exchanges
from parley.domain.errors.rules import ExchangeClosed
from parley.domain.exchange.approval import ApprovalStatus
from parley.domain.exchange.exchange import Outcome, escalated
from tests.samples.governed import an_approval, an_exchange
from tests.unit.app.rules.fake_docket import FakeDocket


def test_every_side_has_the_end_after_what_was_closed_by_it() -> None:
    exchange = escalated(an_exchange(), "appr_1")

    decision = drive(exchanges.end(FakeDocket(an_approval()), exchange, Outcome.RESOLVED, "alice", "closed"))

    assert [(one.side, one.action, one.facts.get("decision")) for one in decision.audits] == [
        ("alice", "approval_decided", "closed"),
        ("alice", "agent_exchange_ended", None),
        ("bob", "agent_exchange_ended", None),
    ]
    assert decision.exchange is not None
    assert (decision.exchange.outcome, decision.exchange.ended_by) == (Outcome.RESOLVED, "alice")
    assert [one.status for one in decision.approvals] == [ApprovalStatus.CLOSED]


def test_a_note_is_kept_on_the_sides_that_it_is_for() -> None:
    ending = exchanges.end(
        FakeDocket(), an_exchange(), Outcome.RESOLVED, "alice", "closed", note="mine", noted=("alice",)
    )

    assert [(one.side, one.facts["reason"]) for one in drive(ending).audits] == [("alice", "mine"), ("bob", "closed")]


def test_a_place_writes_only_the_chains_that_it_keeps() -> None:
    docket = FakeDocket(keeps=("bob",))

    decision = drive(exchanges.expire(docket, an_exchange()))

    assert [(one.side, one.actor, one.facts["outcome"]) for one in decision.audits] == [("bob", "system", "expired")]


def test_what_is_over_does_not_end_again() -> None:
    with pytest.raises(ExchangeClosed):
        drive(exchanges.expire(FakeDocket(), an_exchange(outcome=Outcome.DENIED)))
