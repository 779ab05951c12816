"""What a sender knows about a message: what its recipients wrote, its own ledger, and the answers that it got."""

from __future__ import annotations

import pytest

from parley.app.mailbox import sending
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.receipts import steps
from parley.app.mailbox.receipts.status import NO_RECEIPTS, status, wait_until
from parley.app.mailbox.waiting import Deadline
from parley.domain.errors.errors import UnknownMessage
from parley.domain.mailbox.hook_events import Moment
from parley.domain.message.message import Kind
from parley.domain.receipts import ReceiptState
from tests.samples.messages import a_draft
from tests.unit.app.mailbox.receipts.recipient import hook, seen_by_sender
from tests.unit.app.rig import Rig, claimed


def test_a_message_goes_from_queued_to_acted(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    states = [seen_by_sender(rig, sent.id).state]

    hook(rig, Moment.PROMPT)
    states.append(seen_by_sender(rig, sent.id).state)
    hook(rig, Moment.TOOL)
    states.append(seen_by_sender(rig, sent.id).state)
    kernel = rig.kernel("codex")
    steps.acknowledge(kernel, claimed(kernel), "next")
    states.append(seen_by_sender(rig, sent.id).state)
    answer = a_draft(sender="codex", to=(), kind=Kind.NOTIFICATION)
    drive(sending.reply(kernel, sent.id, answer, kind_given=True))
    receipt = seen_by_sender(rig, sent.id).receipts[0]

    assert [*states, receipt.state] == ["queued", "offered", "injected", "acknowledged", "acted"]
    assert [step.state for step in receipt.steps] == ["offered", "injected", "acknowledged", "acted"]
    assert [step.evidence for step in receipt.steps] == ["claude prompt", "claude tool", "next", "answered"]
    assert receipt.steps[0].session == "s1"


def test_an_agent_without_receipts_leaves_a_message_queued(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message

    receipt = seen_by_sender(rig, sent.id).receipts[0]

    assert (receipt.state, receipt.note) == (ReceiptState.QUEUED, NO_RECEIPTS)


def test_an_answer_proves_that_a_foreign_agent_has_acted(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    rig.send(Kind.NOTIFICATION, sender="codex", to=("claude",), in_reply_to=sent.id)

    receipt = seen_by_sender(rig, sent.id).receipts[0]

    assert receipt.state == ReceiptState.ACTED
    assert receipt.steps[-1].evidence.startswith("answered by msg-")


def test_a_message_with_the_same_id_says_nothing_about_another(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    assert kernel.receipts is not None

    steps.acknowledge_reading(kernel, sent.message.id, "20260101T0000Z_gemini_question.yaml", "read")

    assert seen_by_sender(rig, sent.message.id).state == ReceiptState.QUEUED


def test_who_neither_sent_nor_got_a_message_learns_nothing(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION)
    own = drive(status(rig.kernel("codex"), sent.message.id))
    assert [receipt.recipient for receipt in own.receipts] == ["codex"]

    with pytest.raises(UnknownMessage):
        drive(status(rig.kernel("gemini"), sent.message.id))


def test_waiting_ends_with_the_state_or_the_time(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    kernel = rig.kernel("claude")

    def work(seconds: float) -> None:
        rig.clock.pass_by(seconds=seconds)
        hook(rig, Moment.PROMPT)
        hook(rig, Moment.STOP)

    waiting = wait_until(kernel, sent.id, ReceiptState.INJECTED, Deadline(kernel, 5), work)
    assert drive(waiting).state == ReceiptState.INJECTED

    def rest(seconds: float) -> None:
        rig.clock.pass_by(seconds=seconds)

    late = drive(wait_until(kernel, sent.id, ReceiptState.ACTED, Deadline(kernel, 5), rest))
    assert late.state == ReceiptState.INJECTED
    assert not late.has_reached(ReceiptState.ACTED)
