"""What an agent does with a message is in its receipts, whatever crash comes between."""

from __future__ import annotations

import json

from parley.app.mailbox import claims
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.receipts import steps
from parley.domain.mailbox.hook_events import Moment
from parley.domain.message.message import Kind
from parley.domain.receipts import ReceiptState
from tests.unit.app.mailbox.receipts.recipient import hook, receipts_of, seen_by_sender
from tests.unit.app.rig import HALF_AN_HOUR, Rig, claimed


def test_what_is_released_waits_again(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    kernel = rig.kernel("codex")
    steps.acknowledge(kernel, claimed(kernel), "next")

    drive(claims.release(kernel, sent.id))

    assert seen_by_sender(rig, sent.id).state == ReceiptState.QUEUED


def test_a_claim_whose_lease_is_over_waits_again(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    kernel = rig.kernel("codex")
    steps.acknowledge(kernel, claimed(kernel), "next")

    rig.clock.pass_by(minutes=31)

    assert seen_by_sender(rig, sent.id).state == ReceiptState.QUEUED


def test_what_a_crash_kept_from_being_written_the_next_command_writes(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION).message
    kernel = rig.kernel("codex")
    message = claimed(kernel)
    steps.acknowledge(kernel, message, "next")
    kernel._open_receipts = kernel._receipts = None  # as if killed before each receipt
    drive(claims.done(kernel, sent.id))
    assert seen_by_sender(rig, sent.id).state == ReceiptState.ACKNOWLEDGED
    rig.send(Kind.QUESTION)

    drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR))

    assert seen_by_sender(rig, sent.id).state == ReceiptState.ACTED


def test_a_receipt_has_no_word_of_a_message(rig: Rig) -> None:
    sent = rig.send(Kind.QUESTION, subject="SECRET-SUBJECT", body="SECRET-BODY")
    hook(rig, Moment.PROMPT)
    drive(claims.done(rig.kernel("codex"), sent.message.id))

    text = (receipts_of(rig) / sent.message.id).read_text()

    assert "SECRET" not in text
    names = {name for line in text.split("\n") if line for name in json.loads(line)}
    assert names <= {"state", "at", "session", "evidence", "until", "file"}
