"""Receipts as a server shows them, read as those of a mailbox; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid
from parley.domain.receipts import DeliveryReceipt, MessageStatus, ReceiptState, ReceiptStep
from parley.domain.times import parse_duration, stamp

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from parley.wire.api.records.channels import MessageReceipts, RecipientReceipt

# How long one request waits for a state.
LONG_POLL_SECONDS = 50.0
# Nothing on a server proves the states between them.
PROVABLE = (ReceiptState.ACKNOWLEDGED, ReceiptState.ACTED)


def status_of(receipts: MessageReceipts) -> MessageStatus:
    """The status of a message, in the form that mailboxes have, too."""
    return MessageStatus(receipts.id, tuple([_receipt(receipt) for receipt in receipts.receipts]))


def _receipt(receipt: RecipientReceipt) -> DeliveryReceipt:
    steps = [
        ReceiptStep(ReceiptState(step.state), stamp(step.at), "", step.evidence, _stamp(step.until))
        for step in receipt.steps
    ]
    return DeliveryReceipt(receipt.to, ReceiptState(receipt.state), tuple(steps), receipt.note)


def _stamp(moment: datetime | None) -> str:
    return stamp(moment) if moment is not None else ""


def state_from(call: str, state: object) -> ReceiptState:
    """The state to wait for; `Invalid` for one that a server cannot prove."""
    if state not in PROVABLE:
        hint = "what a server hands to a connection proves nothing; injected is known of mailboxes"
        raise Invalid(f"{call}: on a server, state is {' or '.join(PROVABLE)}, not {str(state)[:64]!r}", hint=hint)
    return ReceiptState(str(state))


def seconds_of(call: str, wait: str | timedelta) -> float:
    """A length of time in seconds; 0 is no time at all."""
    length = parse_duration(wait) if isinstance(wait, str) else wait
    seconds = length.total_seconds()
    if seconds < 0:
        raise Invalid(f"{call}: wait is not negative")
    return seconds
