"""Admissions: the verdict on a message in the inbox, and the receipt that records it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox.rules.docket import MailboxDocket
from parley.app.mailbox.rules.exchanges import expire_due
from parley.domain.errors.errors import ParleyError
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.mailbox.ledger import MailboxChanges, StoredMessage

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.app.mailbox.rules.incoming import IncomingMessage
    from parley.app.rules.docket import RulesDecision
    from parley.domain.record import Record


class Admission(NamedTuple):
    """The verdict on a message in the inbox, and the changes to commit."""

    status: InboxVerdict
    # Nothing, when all of it was written before.
    changes: MailboxChanges = MailboxChanges()
    refusal: ParleyError | None = None
    # The id of my message that it crossed with, and that gave way to it.
    crossed: str = ""

    @property
    def admitted(self) -> bool:
        """Whether the agent may receive it."""
        return self.status is InboxVerdict.ADMITTED

    @property
    def waits(self) -> bool:
        """Whether it is held."""
        return self.status is InboxVerdict.HELD

    @property
    def answered(self) -> bool:
        """Whether a person has answered it."""
        return self.status is InboxVerdict.ANSWERED


async def earlier_admission(kernel: Kernel, receipt: InboxReceipt) -> Admission:
    """The earlier verdict on a message."""
    if receipt.status is InboxVerdict.HELD:
        docket = MailboxDocket(kernel)
        approval = await docket.approval(receipt.approval_id)
        if approval is not None and approval.pending and approval.expires_at <= docket.at:
            await expire_due(kernel)
            receipt = await kernel.store.record(InboxReceipt, receipt.id) or receipt
        elif approval is not None:
            return Admission(InboxVerdict.HELD, refusal=docket.held(approval))
    refusal = _Refused(receipt.code, receipt.reason) if receipt.status is InboxVerdict.REFUSED else None
    return Admission(receipt.status, refusal=refusal, crossed=receipt.crossed)


class _Refused(ParleyError):
    """An earlier refusal, with its code."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code  # of this one


async def admission_of(
    docket: MailboxDocket, incoming: IncomingMessage, decision: RulesDecision[StoredMessage]
) -> Admission:
    """The admission that follows from a decision, with the receipt of the file."""
    human, refusal = incoming.human, decision.refusal
    exchange_id = decision.exchange.id if decision.exchange is not None else ""
    used: tuple[Record, ...] = ()
    if incoming.proof is not None and not incoming.proof.used.version:
        used = (incoming.proof.used,)
    if decision.held is not None:
        receipt = await receipt_of(docket, incoming, InboxVerdict.HELD, exchange_id)
        waits = replace(receipt, approval_id=decision.held.id)
        return Admission(InboxVerdict.HELD, await docket.changes(decision, waits, *used), docket.held(decision.held))
    if refusal is None:
        status = InboxVerdict.ANSWERED if human is not None and human.answers else InboxVerdict.ADMITTED
        receipt = await receipt_of(docket, incoming, status, exchange_id)
        return Admission(status, await docket.changes(decision, receipt, *used), crossed=receipt.crossed)
    if human is not None:
        # It still waits, unless this ended its exchange.
        return Admission(InboxVerdict.REFUSED, await docket.changes(decision), refusal)
    receipt = await receipt_of(docket, incoming, InboxVerdict.REFUSED, "")
    refused = replace(receipt, code=refusal.code, reason=refusal.message)
    return Admission(InboxVerdict.REFUSED, await docket.changes(decision, refused), refusal)


async def receipt_of(
    docket: MailboxDocket, incoming: IncomingMessage, status: InboxVerdict, exchange_id: str
) -> InboxReceipt:
    """The receipt of the file with this verdict: the earlier one, brought up to date, or a new one."""
    stored = incoming.stored
    before = await docket.kernel.store.record(InboxReceipt, stored.digest)
    if before is not None:
        return replace(before, status=status, exchange_id=exchange_id or before.exchange_id)
    return InboxReceipt(
        id=stored.digest,
        tenant_id=docket.tenant,
        message_id=stored.message.id,
        file=incoming.file,
        status=status,
        at=docket.at,
        exchange_id=exchange_id,
        crossed=incoming.crossed.message.id if incoming.crossed is not None else "",
    )
