"""What was answered: who owes this agent an answer, and whether this agent has answered a message already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox.read import listing
from parley.domain.mailbox.delivery import Status
from parley.domain.mailbox.waiting import expects_answer, owed_answers
from parley.domain.message.kinds import KINDS
from parley.domain.message.message import Heading
from parley.domain.times import format_time

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.ledger import StoredMessage
    from parley.domain.mailbox.listing import Item
    from parley.domain.mailbox.waiting import OwedAnswer, ReceivedHeading
    from parley.domain.message.message import Message


async def waiting(kernel: Kernel) -> list[OwedAnswer]:
    """The answers that others owe this agent: late ones first, then by priority, the oldest first."""
    items = [
        item for item in await listing(kernel, "outbox") if item.kind in KINDS and expects_answer(KINDS[item.kind])
    ]
    if not items:
        return []
    files: list[ReceivedHeading] = [*await listing(kernel, "inbox"), *await listing(kernel, "archive")]
    failed = await _failed(kernel)
    now = kernel.clock.now().at
    owed = []
    for item in items:
        answers = owed_answers(item, files, now)
        if answers:
            # The ledger remembers what is no longer a file.
            answers = owed_answers(item, [*files, *await _remembered(kernel, item)], now)
        owed += [answer for answer in answers if (item.id, answer.agent) not in failed]
    return sorted(owed, key=lambda answer: (not answer.late, answer.item.priority, answer.item.created_at))


async def _failed(kernel: Kernel) -> set[tuple[str, str]]:
    """Messages and recipients who never got them."""
    store = kernel.store_if_any
    deliveries = await store.deliveries(Status.FAILED) if store is not None else ()
    return {(delivery.key.message_id, delivery.key.recipient) for delivery in deliveries}


async def _remembered(kernel: Kernel, item: Item) -> list[Heading]:
    return [_heading(stored.message) for stored in await _related(kernel, item.id, item.conversation_id)]


async def _related(kernel: Kernel, message_id: str, conversation_id: str) -> tuple[StoredMessage, ...]:
    """What the ledger has of a message's conversation; of its direct answers when it has none."""
    store = kernel.store_if_any
    if store is None:
        return ()
    return await (store.conversation(conversation_id) if conversation_id else store.replies(message_id))


def _heading(message: Message) -> Heading:
    return Heading(
        message.id,
        message.sender,
        message.to,
        message.kind.value,
        message.priority.value,
        format_time(message.created_at),
        message.subject,
        format_time(message.expires_at) if message.expires_at else "",
        message.conversation_id,
        message.in_reply_to,
    )


async def answered_by(kernel: Kernel, message: Message) -> list[str]:
    """The ids of the messages with which this agent has answered a message, oldest first."""
    related = await _related(kernel, message.id, message.conversation_id)
    return [
        stored.message.id
        for stored in related
        if stored.message.in_reply_to == message.id and stored.message.sender == kernel.agent
    ]
