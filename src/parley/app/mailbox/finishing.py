"""Finishing a message: its file leaves the inbox, and a reply finishes what it answers in its own commit.

claimed ──reply──> done, "answered" ──carried──> done, "archived"
                        │
                        └── refused by every recipient ──> delivered: it is back in the inbox

A crash after the commit leaves the reply pending; whoever carries it puts the answered file away, too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox.refusals import bury
from parley.domain.errors.errors import ContentChanged, Forbidden, ParleyError, Stale, Unreadable
from parley.domain.hashes import digest
from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status, check_token
from parley.domain.mailbox.ledger import Entry, ExpectDelivery, MailboxChanges, StoredMessage, expect
from parley.domain.times import format_time

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.listing import FoundMessage
    from parley.ports.mailbox import LockedFile

# Why a delivery is done whose reply is committed and whose file may still be in the inbox.
ANSWERED = "answered"


class AnsweredDelivery(NamedTuple):
    """What the commit of a reply adds, so that it finishes the message that it answers."""

    delivery: Delivery
    expects: ExpectDelivery
    entry: Entry
    message: StoredMessage | None = None


async def close_answered(kernel: Kernel, answered: FoundMessage, token: str | None = None) -> AnsweredDelivery | None:
    """How to finish the message that a reply answers; None when it does not wait in this agent's inbox.

    Raises `LeaseLost` when the token is no longer that of the claim: then another reader has the message.
    """
    key = DeliveryKey(answered.message.id, answered.digest, kernel.agent)
    before = await kernel.store.delivery(key)
    if before is None:
        if answered.place != "inbox":
            return None
        if "ocip" in answered.message.extras:
            from parley.app.mailbox.rules import receiving

            await receiving.check_admitted(kernel, answered.message.id)
        stored = StoredMessage(answered.message, answered.content, answered.digest)
        after = Delivery(key, answered.file, Status.DONE, reason=ANSWERED)
        return AnsweredDelivery(after, ExpectDelivery(key, None), _entry(kernel, after), stored)
    if before.status in (Status.PENDING, Status.FAILED):
        return None
    check_token(before, token)
    if before.status is Status.DONE and before.file not in {name for name, _ in await kernel.inbox.names()}:
        return None
    after = before._replace(status=Status.DONE, lease=None, reason=ANSWERED)
    return AnsweredDelivery(after, expect(before), _entry(kernel, after))


async def settle_answered(kernel: Kernel, reply: StoredMessage, *, delivered: bool) -> None:
    """Put the file of an answered message away once its reply is carried, or reopen it when nobody took the reply."""
    answered = reply.message.in_reply_to
    if not answered:
        return
    for delivery in await kernel.store.find_deliveries(kernel.agent, answered):
        if delivery.status is not Status.DONE or delivery.reason != ANSWERED or delivery.key.message_id != answered:
            continue
        if delivered:
            how, _ = await put_away(kernel, delivery, delete=False)
            changes = MailboxChanges(deliveries=(delivery._replace(reason=how),), durable=False)
        else:
            after = delivery._replace(status=Status.DELIVERED, reason="", tries=max(0, delivery.tries - 1))
            changes = MailboxChanges(deliveries=(after,), entries=(_entry(kernel, after, "reopened"),))
        with suppress(Stale):
            await kernel.store.commit(changes._replace(expects=(expect(delivery),)))
        locked = kernel.held.pop(delivery.key, None)
        if locked is not None:
            locked.release()


def _entry(kernel: Kernel, delivery: Delivery, action: str = "done") -> Entry:
    facts = {"file": delivery.file, "how": delivery.reason}
    at = format_time(kernel.clock.now().at)
    return Entry(action, at, kernel.agent, delivery.key.message_id, delivery.key.digest, facts)


async def put_away(kernel: Kernel, delivery: Delivery, *, delete: bool) -> tuple[str, bool]:
    """Archive or delete the file of a finished message: what became of it, and whether it had been changed.

    Other readers that try to claim the file hold its lock for a moment, which is waited out.
    """
    how = "deleted" if delete else "archived"
    mine = kernel.held.get(delivery.key)
    try:
        locked = mine or await kernel.inbox.take(delivery.file, wait=True)
    except Unreadable as error:  # too large, a link or something else since it was claimed
        with suppress(Forbidden):
            await bury(kernel, delivery.file, error)
        await _keep_what_was_processed(kernel, delivery, delete=delete)
        return how, True
    if locked is None:
        return "deleted", False
    try:
        if digest(locked.content) != delivery.key.digest:
            if _is_same_message(kernel, locked, delivery):
                with suppress(Forbidden):  # what cannot be moved stays
                    await bury(kernel, delivery.file, ContentChanged())
            await _keep_what_was_processed(kernel, delivery, delete=delete)
            return how, True
        if delete:
            await kernel.inbox.delete(delivery.file)
        else:
            await kernel.inbox.archive(delivery.file, locked.content)
        return how, False
    finally:
        if locked is not mine:
            locked.release()


def _is_same_message(kernel: Kernel, locked: LockedFile, delivery: Delivery) -> bool:
    """Whether a changed file still is the message that was claimed, and not a new one under its old name."""
    try:
        return kernel.format.heading(locked.content).id == delivery.key.message_id
    except ParleyError:
        return True


async def _keep_what_was_processed(kernel: Kernel, delivery: Delivery, *, delete: bool) -> None:
    """The file is no longer what was handed over: archive what was."""
    if not delete:
        for stored in await kernel.store.find(delivery.key.message_id):
            if stored.digest == delivery.key.digest:
                await kernel.inbox.preserve(delivery.file, stored.content)
