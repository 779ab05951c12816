"""What waits for a person in a mailbox: told exactly, bounded, and never for ever."""

from __future__ import annotations

import pytest

from parley.app.mailbox.kernel import drive
from parley.app.mailbox.rules import holding
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.rules import ApprovalQueueFull, MessageHeld
from parley.domain.exchange.approval import Approval, ApprovalStatus
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.message.message import Kind
from parley.domain.rules.policy import Policy
from tests.unit.app.rig import Rig


def hold(rig: Rig) -> MessageHeld:
    with pytest.raises(MessageHeld) as held:
        rig.send(Kind.QUESTION, body="I promise.", wishes=Wishes(purpose=Purpose.INFORMATION_QUERY))
    return held.value


def test_a_sender_is_told_what_waits_why_and_for_whom(rig: Rig) -> None:
    rig.govern()

    facts = hold(rig).facts

    assert facts["reason"] == "Commitment keywords detected: promise. Human approval required."
    assert (facts["cause"], facts["user"], facts["detectedKeywords"]) == ("commitment", "ann", ["promise"])
    assert {"approval", "digest", "exchange_id", "conversation_id", "expires_at"} <= facts.keys()


def test_as_many_wait_as_the_policy_allows(rig: Rig) -> None:
    rig.govern()
    hold(rig)
    kernel = rig.kernel("claude")

    drive(holding.check_room(kernel, Policy(open_approvals=2)))
    with pytest.raises(ApprovalQueueFull):
        drive(holding.check_room(kernel, Policy(open_approvals=1)))


def test_a_sweep_denies_what_nobody_decided_and_does_it_once(rig: Rig) -> None:
    rig.govern()
    hold(rig)
    rig.clock.pass_by(hours=24)

    for _ in range(2):
        drive(holding.sweep(rig.kernel("claude")))

    (approval,) = drive(rig.stores["claude"].records(Approval))
    (exchange,) = drive(rig.stores["claude"].records(Exchange))
    assert (approval.status, exchange.outcome) == (ApprovalStatus.EXPIRED, Outcome.DENIED)
    assert [one["action"] for one in rig.audits("claude")] == [
        "agent_exchange",
        "approval_decided",
        "agent_exchange_ended",
    ]
