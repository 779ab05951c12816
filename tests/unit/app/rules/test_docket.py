from __future__ import annotations

from parley.app.rules.docket import RulesDecision
from parley.domain.exchange.approval import ApprovalStatus
from tests.samples.governed import an_approval


def test_a_decision_names_the_approvals_that_no_longer_wait() -> None:
    closed = an_approval(id="appr_2", status=ApprovalStatus.CLOSED)

    assert RulesDecision[str](approvals=(an_approval(), closed)).decided == (closed,)


def test_what_the_rules_say_nothing_about_adds_nothing_to_a_commit() -> None:
    assert RulesDecision[str]() == ((), None, (), (), None, None, None, None)
