"""Writing receipts: what this agent did with a message, for its sender to read.

The ledger is the truth about what was finished, released or put aside: its entries are copied into the receipts, and
what a crash kept from being copied the next command copies. That a message was handed over is written after it was.
A receipt that cannot be written is no reason to fail.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.ledger import MailboxChanges
from parley.domain.receipts import ReceiptState, ReceiptStep
from parley.domain.times import parse_time, stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.ledger import Entry
    from parley.domain.mailbox.listing import Claimed

_BATCH = 500


async def publish(kernel: Kernel, *, begin: bool = False) -> None:
    """Copy into the receipts what the ledger says since the last time; with `begin`, from now on.

    What was in the ledger before this agent kept receipts is left out.
    """
    if kernel.receipts is None:
        return
    with suppress(ParleyError), kernel.receipts.position(make=begin) as place:
        if place is None:
            return
        if place[0] < 0:
            place[0] = await kernel.store.commit(MailboxChanges(durable=False))
            return
        while entries := await kernel.store.entries(place[0], _BATCH):
            for stored in entries:
                step = _step_of(stored.entry)
                if step is not None:
                    kernel.receipts.append(stored.entry.message_id, stored.entry.facts["file"], (step,))
                place[0] = stored.position


def _step_of(entry: Entry) -> ReceiptStep | None:
    """What an entry means to the sender of its message; None for what does not concern it."""
    facts = entry.facts
    if not entry.message_id or not facts.get("file"):
        return None
    if entry.action == "done" and facts.get("how") != "gone":
        return ReceiptStep(ReceiptState.ACTED, _stamp(entry), "", facts.get("how", ""))
    if entry.action == "dead":
        return ReceiptStep(ReceiptState.DEAD, _stamp(entry), "", facts.get("reason", ""))
    if entry.action in ("released", "reopened"):
        return ReceiptStep(ReceiptState.QUEUED, _stamp(entry), "", facts.get("reason", "") or entry.action)
    return None


def _stamp(entry: Entry) -> str:
    return stamp(parse_time(entry.at))


def acknowledge(kernel: Kernel, claimed: Claimed, evidence: str) -> None:
    """Say that a claimed message was handed over, as a whole. To be called after it was."""
    until = stamp(parse_time(claimed.lease.until)) if claimed.lease.until else ""
    _append(kernel, claimed.message.id, claimed.file, evidence, until)


def acknowledge_reading(kernel: Kernel, message_id: str, file: str, evidence: str) -> None:
    """Say that a message of the inbox was shown without a claim. To be called after it was."""
    _append(kernel, message_id, file, evidence, "")


def _append(kernel: Kernel, message_id: str, file: str, evidence: str, until: str) -> None:
    if kernel.receipts is None:
        return
    at = stamp(kernel.clock.now().at)
    step = ReceiptStep(ReceiptState.ACKNOWLEDGED, at, kernel.session, evidence, until)
    with suppress(ParleyError):
        kernel.receipts.append(message_id, file, (step,))
