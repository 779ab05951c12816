"""A ruling with another verdict: stricter, with everything that follows from it; never looser."""

from __future__ import annotations

import pytest

from parley.domain.errors.rules import PolicyDenied
from parley.domain.exchange.approval import Cause
from parley.domain.exchange.exchange import Outcome
from parley.domain.rules.judge import ALLOW, Deny, Hold, Verdict
from parley.domain.rules.ruling import rule, with_verdict
from tests.samples.governed import a_proposal, a_rulebook, an_approval, an_exchange

LOOK = Hold(Cause.RULE, "look")
NO = Deny(PolicyDenied("no"))
PROMISE = {"text": "We promise it."}


def test_a_hold_takes_no_round_and_the_exchange_waits() -> None:
    proposal = a_proposal(exchange=an_exchange(current_round=1))
    allowed = rule(proposal, a_rulebook())
    assert allowed.exchange.current_round == 2

    held = with_verdict(proposal, allowed, LOOK)

    assert (held.verdict, held.exchange.current_round) == (LOOK, 1)
    assert (held.exchange.outcome, held.exchange.holds) == (Outcome.ESCALATED, ("appr_new",))
    assert held._replace(verdict=allowed.verdict, exchange=allowed.exchange) == allowed


def test_a_denial_ends_the_exchange_as_it_was_before() -> None:
    proposal = a_proposal(exchange=an_exchange(current_round=1))

    denied = with_verdict(proposal, rule(proposal, a_rulebook()), NO)

    assert (denied.exchange.outcome, denied.exchange.current_round) == (Outcome.DENIED, 1)
    assert denied.exchange.transcript == ()
    assert (denied.exchange.reason, denied.exchange.reserved) == ("policy_denied", True)


def test_a_denial_of_what_would_have_begun_leaves_its_conversation_free() -> None:
    proposal = a_proposal()

    denied = with_verdict(proposal, rule(proposal, a_rulebook()), NO)

    assert (denied.exchange.outcome, denied.exchange.reserved) == (Outcome.DENIED, False)


def test_what_was_held_is_denied_and_waits_for_nobody() -> None:
    proposal = a_proposal(body=PROMISE)

    denied = with_verdict(proposal, rule(proposal, a_rulebook()), NO)

    assert (denied.verdict, denied.exchange.holds, denied.exchange.outcome) == (NO, (), Outcome.DENIED)


def test_what_was_approved_is_denied_with_its_exchange() -> None:
    approval = an_approval()
    proposal = a_proposal(approval=approval, exchange=an_exchange(holds=(approval.id,), outcome=Outcome.ESCALATED))

    denied = with_verdict(proposal, rule(proposal, a_rulebook()), NO)

    assert (denied.exchange.outcome, denied.exchange.current_round) == (Outcome.DENIED, 0)


@pytest.mark.parametrize(
    ("said", "body", "verdict"),
    [
        ({}, {"text": "hello"}, ALLOW),
        ({}, PROMISE, ALLOW),
        ({}, PROMISE, LOOK),
        ({"exchange_types": ()}, PROMISE, ALLOW),
        ({"exchange_types": ()}, PROMISE, LOOK),
        ({"exchange_types": ()}, PROMISE, NO),
    ],
)
def test_what_is_not_stricter_changes_nothing(
    said: dict[str, object], body: dict[str, object], verdict: Verdict
) -> None:
    proposal = a_proposal(body=body)
    ruling = rule(proposal, a_rulebook(**said))

    assert with_verdict(proposal, ruling, verdict) is ruling
