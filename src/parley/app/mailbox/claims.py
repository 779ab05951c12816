"""What a reader does with a message: claim it, keep or give back the claim, finish it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import find, read
from parley.app.mailbox.finishing import ANSWERED, put_away
from parley.app.mailbox.receipts import steps
from parley.app.mailbox.refusals import Refusals, bury
from parley.app.mailbox.sending import recover
from parley.app.mailbox.sweep import sweep
from parley.domain.errors.errors import (
    AlreadyClaimed,
    Ambiguous,
    Conflict,
    Invalid,
    ParleyError,
    Problem,
    SenderMismatch,
    Stale,
    TooManyTries,
    Unanswerable,
    UnknownMessage,
    Unreadable,
)
from parley.domain.hashes import digest
from parley.domain.mailbox.delivery import (
    Delivery,
    DeliveryKey,
    Lease,
    Status,
    check_token,
    claim,
    lease_over,
    take_lease,
)
from parley.domain.mailbox.ledger import (
    CLAIMED,
    NO_FACTS,
    Entry,
    ExpectDelivery,
    MailboxChanges,
    StoredMessage,
    expect,
)
from parley.domain.mailbox.listing import UNVERIFIED, Claimed, Finished, InboxPass
from parley.domain.names import MESSAGE_ENDINGS
from parley.domain.times import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from parley.app.mailbox.kernel import Kernel
    from parley.app.mailbox.rules.admissions import Admission
    from parley.domain.message.message import Message
    from parley.ports.mailbox import LockedFile

_ATTEMPTS = 8


async def claim_next(kernel: Kernel, length: timedelta | None) -> Claimed | None:
    """Claim the first unclaimed message by priority, kind and age; None when there is none."""
    return (await look_for_next(kernel, length)).claimed


async def look_for_next(kernel: Kernel, length: timedelta | None, answering: str = "") -> InboxPass:
    """Claim the first unclaimed message in processing order, and put aside what is none.

    With `answering`, only the answers to that message are looked at.
    Without a length the claim lasts as long as this process. A file that is no message goes to the dead letters with
    its reason, unless a program may still be writing it; expired messages are left where they are. The message comes
    first, and one pass puts a bounded number of files aside, so that junk does not hold it up.
    """
    await sweep(kernel)
    leased = await _leased_files(kernel)
    items = await read.listing(kernel, "inbox")
    await steps.publish(kernel, begin=bool(items))
    if answering:
        items = [item for item in items if item.in_reply_to == answering]
    refusals = Refusals(kernel)
    claimed, expired = None, 0
    not_examined = sum(1 for item in items if item.problem)
    for item in items:  # files with a problem are last
        if item.problem:
            if refusals.are_enough:
                break
            not_examined -= 1
        elif claimed is not None or leased.get(item.file) == item.id:
            continue
        elif item.expired:
            expired += 1
            continue
        claimed = await _try_claim(kernel, item.file, length, refusals, claimed) or claimed
    await refusals.commit()
    if refusals.files:
        await steps.publish(kernel)
    return InboxPass(claimed, tuple(refusals.files), 0 if claimed else expired, not_examined)


async def _leased_files(kernel: Kernel) -> dict[str, str]:
    """Files whose claim has not reached its deadline, and the message in each: a new message may have an old name.

    Whether a claim without a deadline is still valid is known only by trying its lock.
    """
    now = kernel.clock.now()
    return {
        delivery.file: delivery.key.message_id
        for delivery in await kernel.store.deliveries(Status.CLAIMED)
        if delivery.lease is not None and not delivery.lease.held_by_lock and not lease_over(delivery.lease, now)
    }


async def _try_claim(
    kernel: Kernel, file: str, length: timedelta | None, refusals: Refusals, claimed: Claimed | None = None
) -> Claimed | None:
    """Try to claim one file; None when it is gone, locked, already done, or refused.

    Once a message is `claimed`, a file is only checked for a reason to refuse it.
    """
    try:
        # Only if its writer has finished.
        locked = await kernel.inbox.take(file, finished=True)
    except AlreadyClaimed:
        return None
    except Unreadable as error:
        await refusals.add_unreadable(file, error)
        return None
    except ParleyError as error:
        refusals.leave(file, error)  # no permission, or still being written
        return None
    if locked is None:
        return None
    keep = False
    try:
        try:
            message, doubts = _parse(kernel, locked)
        except SenderMismatch as error:
            await refusals.add(locked.name, error)
            return None
        except Invalid as error:
            await refusals.add_unreadable(locked.name, error)
            return None
        if claimed is not None:
            return None
        claimed = await _claim_admitted(kernel, locked, message, doubts, length, refusals)
        keep = claimed is not None and claimed.lease.held_by_lock
        return claimed
    finally:
        if not keep:
            locked.release()


async def _claim_admitted(
    kernel: Kernel,
    locked: LockedFile,
    message: Message,
    doubts: tuple[Problem, ...],
    length: timedelta | None,
    refusals: Refusals,
) -> Claimed | None:
    stored = StoredMessage(message, locked.content, digest(locked.content))
    for _ in range(_ATTEMPTS):
        try:
            return await _claim_stored(kernel, locked, stored, doubts, length, refusals)
        except Stale:  # its exchange has changed meanwhile: judge it again
            continue
    return None


async def _claim_stored(
    kernel: Kernel,
    locked: LockedFile,
    stored: StoredMessage,
    doubts: tuple[Problem, ...],
    length: timedelta | None,
    refusals: Refusals,
) -> Claimed | None:
    message = stored.message
    key = DeliveryKey(message.id, stored.digest, kernel.agent)
    loaded = previous = await kernel.store.delivery(key)
    if previous is not None and previous.status is Status.DONE:
        if await _finished_before(kernel, previous, locked):
            return None
        previous = previous._replace(status=Status.DELIVERED, tries=0)
    if previous is not None and await _held_elsewhere(kernel, previous, locked.name):
        return None
    now = kernel.clock.now()
    if previous is not None and previous.tries >= kernel.limits.tries and previous.status is Status.CLAIMED:
        if previous.lease is None or previous.lease.held_by_lock or lease_over(previous.lease, now):
            error = TooManyTries(f"claimed {previous.tries} times and never finished")
            await refusals.add(locked.name, error, previous)
        return None
    admission = await _judged(kernel, stored, locked.name)
    if admission is not None and not admission.admitted:
        await _not_handed_over(kernel, locked, stored, admission, refusals)
        return None
    lease = take_lease(kernel.ids.token(), now, length, kernel.holder())
    try:
        delivery = claim(previous, key, locked.name, lease, now)
        # Once the file is archived, only this tells that another user may have written it.
        unverified = {doubt.code: doubt.detail for doubt in doubts if doubt.code == UNVERIFIED}
        governed = admission.changes if admission else None
        await _commit(kernel, CLAIMED, stored, loaded, delivery, governed, unverified)
    except AlreadyClaimed:
        return None
    except Stale:
        if admission is not None:
            raise
        return None
    if lease.held_by_lock:
        kernel.held[key] = locked
    if admission is not None and admission.crossed:
        detail = f"your message {admission.crossed} crossed with this one and was not accepted; send it again"
        doubts = (*doubts, Problem("crossed", "exchange_round", detail))
    return Claimed(message, locked.name, lease, delivery.tries, doubts)


async def _judged(kernel: Kernel, stored: StoredMessage, file: str) -> Admission | None:
    """What the rules decide about a message on this side; None for one that is not governed."""
    message = stored.message
    if (
        "ocip" not in message.extras
        and not kernel.is_governed()
        and not (message.conversation_id and await kernel.store.has_records("exchange", message.conversation_id))
    ):
        return None
    from parley.app.mailbox.rules import receiving

    return await receiving.judge_incoming(kernel, stored, file)


async def _not_handed_over(
    kernel: Kernel, locked: LockedFile, stored: StoredMessage, admission: Admission, refusals: Refusals
) -> None:
    """Put aside a message that waits for the human of this agent, that they have answered, or that the rules refuse.

    It is recorded before the file moves.
    """
    key = DeliveryKey(stored.message.id, stored.digest, kernel.agent)
    if admission.changes.puts:
        entry = _entry(kernel, admission.status.value, key, {"file": locked.name})
        messages_to_store = (stored,) if admission.waits else ()
        await kernel.store.commit(admission.changes._replace(messages=messages_to_store, entries=(entry,)))
    if admission.answered:
        await kernel.inbox.archive(locked.name, locked.content)
    elif not admission.waits and admission.refusal is not None:
        await refusals.add(locked.name, admission.refusal)


async def _held_elsewhere(kernel: Kernel, delivery: Delivery, file: str) -> bool:
    """Whether the same message is held through the lock of another file that has the same content."""
    bound = delivery.status is Status.CLAIMED and delivery.lease is not None and delivery.lease.held_by_lock
    if not bound or delivery.file == file:
        return False
    try:
        other = await kernel.inbox.take(delivery.file)
    except AlreadyClaimed:
        return True
    except ParleyError:
        return False
    if other is not None:
        other.release()
    return False


def _parse(kernel: Kernel, locked: LockedFile) -> tuple[Message, tuple[Problem, ...]]:
    """The message in a locked file; `Invalid` with the reason when it is none."""
    reading = kernel.format.inspect(locked.content)
    if reading.message is None:
        raise Invalid.because(reading.problems)
    message = reading.message
    owner = kernel.inbox.owner_of(message.sender)
    doubts = read.delivery_doubts(kernel, message.sender, message.to, locked.owner, owner)
    return message, (*reading.doubts, *read.label_doubts(kernel, message), *doubts)


async def _finished_before(kernel: Kernel, delivery: Delivery, locked: LockedFile) -> bool:
    """Whether a file in the inbox is a repeat of what was done already; then it is put away.

    A file that was archived and is no longer in the archive was moved back by its owner, who wants it delivered again.
    One that had vanished before its reader finished it is delivered again, too.
    """
    if delivery.reason == "gone":
        return False
    if delivery.reason == "archived" and not await kernel.inbox.archived(delivery.file, locked.content):
        return False
    await kernel.inbox.archive(locked.name, locked.content)
    entry = _entry(kernel, "repeated", delivery.key, {"file": locked.name})
    away = (delivery._replace(reason="archived"),) if delivery.reason == ANSWERED else ()
    await kernel.store.commit(MailboxChanges(deliveries=away, entries=(entry,)))
    return True


async def only_claim(kernel: Kernel) -> str:
    """The id of the one message that this agent has claimed, for a reader that names none."""
    now = kernel.clock.now()
    claimed = [
        delivery.key.message_id
        for delivery in await kernel.store.deliveries(Status.CLAIMED)
        if delivery.lease is not None and not lease_over(delivery.lease, now)
    ]
    if not claimed:
        raise Conflict(f"{kernel.agent} has claimed no message", hint="name a message, or claim one with: parley next")
    if len(claimed) > 1:
        raise Ambiguous(f"{kernel.agent} has claimed {len(claimed)} messages", hint=f"name one: {', '.join(claimed)}")
    return claimed[0]


async def extend(kernel: Kernel, ref: str, length: timedelta, token: str | None = None) -> tuple[str, Lease]:
    """Hold a claim for longer, counted from now; the message's id and its new lease."""
    delivery = await _claim_of(kernel, ref)
    check_token(delivery, token)
    old = delivery.lease.token if delivery.lease else kernel.ids.token()
    lease = take_lease(old, kernel.clock.now(), length)
    await _commit(kernel, "extended", None, delivery, delivery._replace(lease=lease))
    locked = kernel.held.pop(delivery.key, None)
    if locked is not None:
        locked.release()
    return delivery.key.message_id, lease


async def release(kernel: Kernel, ref: str, token: str | None = None) -> str:
    """Give a claimed message back; it did not fail, so the try does not count."""
    delivery = await _claim_of(kernel, ref)
    check_token(delivery, token)
    back = delivery._replace(status=Status.DELIVERED, lease=None, tries=max(0, delivery.tries - 1))
    await _commit(kernel, "released", None, delivery, back)
    locked = kernel.held.pop(delivery.key, None)
    if locked is not None:
        locked.release()
    await steps.publish(kernel)
    return delivery.key.message_id


async def give_up(kernel: Kernel, ref: str, detail: str, token: str | None = None) -> str:
    """Move a claimed message that cannot be answered to the dead letters, where people find it with its reason."""
    delivery = await _claim_of(kernel, ref)
    check_token(delivery, token)
    await bury(kernel, delivery.file, Unanswerable(detail), delivery)
    locked = kernel.held.pop(delivery.key, None)
    if locked is not None:
        locked.release()
    await steps.publish(kernel)
    return delivery.key.message_id


async def done(kernel: Kernel, ref: str, *, delete: bool = False, token: str | None = None) -> Finished:
    """Finish a message: archive its file (or delete it), then let go of it. Doing it twice is no error."""
    await recover(kernel)
    delivery = await _delivery_of(kernel, ref)
    if delivery is None:
        delivery = await _unclaimed(kernel, ref)
    if delivery.status is Status.DONE:
        return Finished(delivery.key.message_id, delivery.file, delivery.reason or "done")
    check_token(delivery, token)
    await steps.publish(kernel, begin=True)
    how, changed = await put_away(kernel, delivery, delete=delete)
    finished = delivery._replace(status=Status.DONE, lease=None, reason=how)
    entry = _entry(kernel, "done", delivery.key, {"file": delivery.file, "how": how})
    await kernel.store.commit(MailboxChanges(deliveries=(finished,), entries=(entry,)))
    locked = kernel.held.pop(delivery.key, None)
    if locked is not None:
        locked.release()
    await steps.publish(kernel)
    return Finished(delivery.key.message_id, delivery.file, how, changed)


async def _delivery_of(kernel: Kernel, ref: str) -> Delivery | None:
    """This agent's delivery that `ref` names by id, file name or the end of an id; open ones before done ones."""
    name = ref.rsplit("/", 1)[-1]
    fitting = list(
        await kernel.store.find_deliveries(kernel.agent, ref, name, *(name + ending for ending in MESSAGE_ENDINGS))
    )
    if not fitting:
        ending = "-" + ref.lstrip("-")
        claims = await kernel.store.deliveries(Status.CLAIMED)
        fitting = [claim for claim in claims if claim.key.message_id.endswith(ending)]
    still_open = [claim for claim in fitting if claim.status in (Status.CLAIMED, Status.DELIVERED)]
    if len(still_open) > 1:
        files = ", ".join(claim.file for claim in still_open)
        raise Ambiguous(f"{ref!r} fits {len(still_open)} messages", hint=f"name the file: {files}")
    if still_open:
        return still_open[0]
    # Done before, unless such a message lies in the inbox (again).
    finished = [claim for claim in fitting if claim.status is Status.DONE]
    waiting = {name for name, _ in await kernel.inbox.names()}
    return finished[-1] if finished and finished[-1].file not in waiting else None


async def _claim_of(kernel: Kernel, ref: str) -> Delivery:
    delivery = await _delivery_of(kernel, ref)
    if delivery is None:
        await find.find(kernel, ref)
    if delivery is None or delivery.status is not Status.CLAIMED:
        raise Conflict(f"{ref} is not claimed", hint="claim a message with: parley next")
    return delivery


async def _unclaimed(kernel: Kernel, ref: str) -> Delivery:
    """A message in the inbox without a claim: it can be finished, too. One that is finished already is returned."""
    message = await find.find(kernel, ref)
    if message.place != "inbox":
        finished = await _delivery_of(kernel, message.message.id)
        if finished is not None:
            return finished
        raise UnknownMessage(f"{message.message.id} is not in the inbox of {kernel.agent}")
    key = DeliveryKey(message.message.id, message.digest, kernel.agent)
    if "ocip" in message.message.extras:
        from parley.app.mailbox.rules import receiving

        await receiving.check_admitted(kernel, message.message.id)
    await kernel.store.commit(
        MailboxChanges(messages=(StoredMessage(message.message, message.content, message.digest),))
    )
    return Delivery(key, message.file, Status.DELIVERED)


async def _commit(
    kernel: Kernel,
    action: str,
    stored: StoredMessage | None,
    delivery: Delivery | None,
    after: Delivery,
    governed: MailboxChanges | None = None,
    more_facts: Mapping[str, str] = NO_FACTS,
) -> None:
    """Write what became of a delivery, with what the rules add to it."""
    expects = (expect(delivery) if delivery is not None else ExpectDelivery(after.key, None),)
    facts = {"file": after.file, "until": after.lease.until if after.lease else "", **more_facts}
    entry = _entry(kernel, action, after.key, facts)
    changes = governed or MailboxChanges()
    messages_to_store = (stored,) if stored else ()
    await kernel.store.commit(
        changes._replace(messages=messages_to_store, deliveries=(after,), entries=(entry,), expects=expects)
    )


def _entry(kernel: Kernel, action: str, key: DeliveryKey, facts: dict[str, str]) -> Entry:
    return Entry(action, format_time(kernel.clock.now().at), kernel.agent, key.message_id, key.digest, facts)
