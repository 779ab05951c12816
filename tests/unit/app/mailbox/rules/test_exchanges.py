"""The exchanges of a mailbox: listed, shown, closed, and over when their time is."""

from __future__ import annotations

import pytest

from parley.app.mailbox.kernel import drive
from parley.app.mailbox.rules import approvals, exchanges
from parley.app.mailbox.rules.exchanges import expire_due
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import ExchangeClosed, ExchangeExpired, HumanRequired, MessageHeld
from parley.domain.exchange.approval import Approval, ApprovalStatus
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.mailbox.listing import Sent
from parley.domain.message.message import Kind
from tests.unit.app.rig import ANN, Rig

ASKS = Wishes(purpose=Purpose.INFORMATION_QUERY)


def ask(rig: Rig, body: str = "How far is it?") -> Sent:
    return rig.send(Kind.QUESTION, body=body, wishes=ASKS)


def test_an_exchange_is_found_by_its_id_its_end_and_its_conversation(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)
    ask(rig)

    kernel = rig.kernel("claude")
    first, second = drive(exchanges.list_all(kernel))

    for name in (first.id, first.id[-8:], sent.message.conversation_id):
        assert drive(exchanges.get(kernel, name)) == first
    assert second.id != first.id
    with pytest.raises(NotFound):
        drive(exchanges.get(kernel, "exch_nothing"))


def test_a_closed_exchange_takes_no_more_and_its_end_is_on_record(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)

    closed = drive(exchanges.close(rig.kernel("claude"), sent.message.conversation_id, "settled"))

    assert (closed.outcome, closed.ended_by, closed.reason) == (Outcome.RESOLVED, "claude", "settled")
    assert rig.audits("claude")[-1]["action"] == "agent_exchange_ended"
    with pytest.raises(ExchangeClosed):
        rig.send(Kind.QUESTION, body="And now?", conversation_id=sent.message.conversation_id)


def test_an_exchange_that_waits_for_a_person_only_a_person_ends(rig: Rig) -> None:
    rig.govern()
    with pytest.raises(MessageHeld):
        ask(rig, "I promise.")
    kernel = rig.kernel("claude")
    (exchange,) = drive(exchanges.list_all(kernel))

    for key in ("", "pk_nobody"):
        with pytest.raises(HumanRequired):
            drive(exchanges.close(kernel, exchange.id, key=key))
    assert drive(exchanges.close(kernel, exchange.id, key=ANN)).ended_by == "ann"

    (approval,) = drive(approvals.list_all(kernel))
    assert approval.status is ApprovalStatus.CLOSED


def test_what_nobody_decided_in_time_is_denied_once(rig: Rig) -> None:
    rig.govern(enterprise__default="approval_hours: 1")
    with pytest.raises(MessageHeld):
        ask(rig, "I promise.")
    rig.clock.pass_by(hours=1)

    for _ in range(2):
        drive(expire_due(rig.kernel("claude")))

    (approval,) = drive(rig.stores["claude"].records(Approval))
    (exchange,) = drive(rig.stores["claude"].records(Exchange))
    assert (approval.status, exchange.outcome) == (ApprovalStatus.EXPIRED, Outcome.DENIED)
    assert [one["action"] for one in rig.audits("claude")] == [
        "agent_exchange",
        "approval_decided",
        "agent_exchange_ended",
    ]


def test_an_exchange_that_is_over_by_the_clock_has_expired_also_where_something_waits_in_it(rig: Rig) -> None:
    rig.govern()
    with pytest.raises(MessageHeld):
        ask(rig, "I promise.")
    rig.clock.pass_by(hours=24)

    drive(expire_due(rig.kernel("claude")))

    (approval,) = drive(rig.stores["claude"].records(Approval))
    (exchange,) = drive(rig.stores["claude"].records(Exchange))
    assert (approval.status, exchange.outcome) == (ApprovalStatus.EXPIRED, Outcome.EXPIRED)
    with pytest.raises(ExchangeExpired):
        rig.send(Kind.QUESTION, body="And now?", conversation_id=exchange.conversation_id)


def test_an_exchange_is_over_when_its_time_is(rig: Rig) -> None:
    rig.govern()
    ask(rig)
    rig.clock.pass_by(hours=24)

    (exchange,) = drive(exchanges.list_all(rig.kernel("claude")))

    assert (exchange.outcome, exchange.ended_by) == (Outcome.EXPIRED, "system")
    assert rig.audits("claude")[-1]["outcome"] == "expired"
