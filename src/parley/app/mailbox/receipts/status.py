"""What a sender knows about a message: how far it has come at each recipient.

It reads what recipients wrote, its own ledger, and the answers that it got: an answer proves that a message was acted
on, whatever program the recipient uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import find
from parley.app.mailbox.read import listing
from parley.domain.errors.errors import Invalid
from parley.domain.mailbox.delivery import Status
from parley.domain.receipts import (
    DeliveryReceipt,
    MessageStatus,
    ReceiptState,
    ReceiptStep,
    least,
    state_after,
)
from parley.domain.times import parse_time, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley.app.mailbox.kernel import Kernel
    from parley.app.mailbox.waiting import Deadline
    from parley.domain.mailbox.delivery import Delivery
    from parley.domain.mailbox.listing import Item
    from parley.domain.message.message import Message

POLL_SECONDS = 0.05
NO_RECEIPTS = "no receipts from this agent"
_ANSWERED = "answered by"
_CAN_EXPIRE = frozenset({ReceiptState.QUEUED, ReceiptState.OFFERED, ReceiptState.INJECTED})


async def status(kernel: Kernel, ref: str) -> MessageStatus:
    """How far a message has come: at every recipient for its sender, at this agent for who received it."""
    located = await find.find(kernel, ref)
    message = located.message
    if message.sender != kernel.agent and kernel.agent not in message.to:
        raise Invalid(f"{message.id} was neither sent by {kernel.agent} nor to it")
    recipients = message.to if message.sender == kernel.agent else (kernel.agent,)
    answered = await _answers(kernel, message)
    store = kernel.store_if_any
    receipts = []
    for recipient in recipients:
        deliveries = await store.find_deliveries(recipient, message.id) if store is not None else ()
        delivery = next((delivery for delivery in deliveries if delivery.key.digest == located.digest), None)
        receipt = _receipt(
            kernel, message.id, recipient, delivery, located.file, message.expired(kernel.clock.now().at)
        )
        receipts.append(_with_answer(receipt, answered.get(recipient)))
    return MessageStatus(message.id, tuple(receipts))


async def wait_until(
    kernel: Kernel, ref: str, state: ReceiptState, deadline: Deadline, sleep: Callable[[float], None]
) -> MessageStatus:
    """The status once every recipient has come as far as a state, or nothing more is to be expected, or time is up."""
    while True:
        reached = await status(kernel, ref)
        if reached.has_reached(state) or reached.has_ended or deadline.seconds_left <= 0:
            return reached
        sleep(POLL_SECONDS)


async def states(kernel: Kernel, items: Sequence[Item]) -> dict[str, ReceiptState]:
    """The state of sent messages by their ids, for a list: without the answers, which would take reading more."""
    store = kernel.store_if_any
    failed = {
        (delivery.key.message_id, delivery.key.recipient): delivery
        for delivery in (await store.deliveries(Status.FAILED) if store is not None else ())
    }
    return {
        item.id: least(
            _receipt(kernel, item.id, agent, failed.get((item.id, agent)), item.file, item.expired).state
            for agent in item.to
        )
        for item in items
        if not item.problem
    }


def _receipt(
    kernel: Kernel,
    message_id: str,
    recipient: str,
    delivery: Delivery | None,
    file: str,
    expired: bool,
) -> DeliveryReceipt:
    if delivery is not None and delivery.status is Status.FAILED:
        return DeliveryReceipt(recipient, ReceiptState.REFUSED, (), delivery.reason)
    if delivery is not None and delivery.status is Status.PENDING:
        return DeliveryReceipt(recipient, ReceiptState.QUEUED, (), "not carried yet; the next command carries it")
    name = delivery.file if delivery is not None else file
    steps = kernel.receipts.steps(recipient, message_id, name) if kernel.receipts is not None else None
    state = state_after(steps or (), kernel.clock.now().at)
    if expired and state in _CAN_EXPIRE:
        state = ReceiptState.EXPIRED
    return DeliveryReceipt(recipient, state, steps or (), "" if steps is not None else NO_RECEIPTS)


async def _answers(kernel: Kernel, message: Message) -> Mapping[str, tuple[str, str]]:
    """Who has answered a message: the id of the answer, and when it was written."""
    answers: dict[str, tuple[str, str]] = {}
    for place in ("inbox", "archive"):
        for item in await listing(kernel, place):
            if item.in_reply_to == message.id and not item.doubts:
                answers.setdefault(item.sender, (item.id, stamp(parse_time(item.created_at))))
    store = kernel.store_if_any
    if store is not None and message.conversation_id:
        for stored in await store.conversation(message.conversation_id):
            if stored.message.in_reply_to == message.id:
                answers.setdefault(stored.message.sender, (stored.message.id, stamp(stored.message.created_at)))
    return answers


def _with_answer(receipt: DeliveryReceipt, answer: tuple[str, str] | None) -> DeliveryReceipt:
    """The receipt, with what an answer proves."""
    if answer is None or receipt.state is ReceiptState.ACTED:
        return receipt
    step = ReceiptStep(ReceiptState.ACTED, answer[1], "", f"{_ANSWERED} {answer[0]}")
    return receipt._replace(state=ReceiptState.ACTED, steps=(*receipt.steps, step))
