"""The one way a message is written: decide, commit to my ledger, carry the files, copy to my outbox, mark delivered."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox.finishing import close_answered, settle_answered
from parley.domain import names
from parley.domain.errors.errors import (
    Conflict,
    Duplicate,
    Forbidden,
    InboxFull,
    Invalid,
    NameExists,
    NotFound,
    NotRegular,
    ParleyError,
    Stale,
    Unavailable,
    Undelivered,
    UnknownAgent,
    UnknownMessage,
)
from parley.domain.hashes import digest
from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status
from parley.domain.mailbox.ledger import Entry, ExpectDelivery, MailboxChanges, StoredMessage
from parley.domain.mailbox.listing import Sent
from parley.domain.message.bodies import default_reply, origin_in
from parley.domain.message.compose import compose, warnings
from parley.domain.message.kinds import Kind
from parley.domain.times import format_time

if TYPE_CHECKING:
    from parley.app.mailbox.finishing import AnsweredDelivery
    from parley.app.mailbox.kernel import Kernel
    from parley.app.mailbox.rules.sending import GovernedMail, HumanDecision
    from parley.domain.limits import Limits
    from parley.domain.mailbox.listing import FoundMessage
    from parley.domain.message.message import Draft, Message

_ATTEMPTS = 8
# Between an agent and the tenant that it is in.
TENANT_MARK = "@"
_SUFFIX, _LONG_SUFFIX = 4, 10
# What another try would not mend: decided now, by name, while the other recipients get theirs.
_PERMANENT = (UnknownAgent, InboxFull, NameExists, Forbidden, NotRegular)


class ClosedMessage(NamedTuple):
    """The message that a reply finishes, and the token of the claim on it where the caller has one."""

    message: FoundMessage
    token: str | None = None


async def send(
    kernel: Kernel,
    draft: Draft,
    *,
    answered: Message | None = None,
    suffix: str = "",
    free_form: bool = False,
    decided: HumanDecision | None = None,
    closes: ClosedMessage | None = None,
) -> Sent:
    """Send a draft. On return every recipient has it, durably.

    `answered` is the message that it answers, where the caller has it, else it is looked up; `suffix` ends the file
    name where a user wants one; `free_form` takes any body for any kind, as the OACP tool does; `decided` says which
    person stands behind it; `closes` is the message in this agent's inbox that the same commit finishes.

    Raises `Invalid` with all reasons, `UnknownAgent` before anything is written, what the only recipient's inbox
    refused it with, `Undelivered` when some of several recipients refused it for good while the others have it,
    `Unavailable` when it is safe in the ledger but could not be carried yet: the next command that writes carries it.
    Under the rules of an exchange also `Denied` with a code, and `MessageHeld` when it waits for a person: then nothing
    was carried, and what was decided is on record.
    """
    await recover(kernel)
    if any(TENANT_MARK in name for name in draft.to):
        from parley.app.mailbox.rules import sending as mail_sending

        draft = await mail_sending.addressed(kernel, draft)
    parents = await parents_of(kernel, draft, answered)
    if closes is not None:
        from parley.app.mailbox.receipts import steps  # a message that answers none is sent without

        await steps.publish(kernel, begin=True)
    with kernel.courier.sending():
        stored, deliveries, governed, finished = await _commit(
            kernel, draft, parents, suffix, free_form=free_form, decided=decided, closes=closes
        )
        settled, refusals = await _carry(kernel, stored, deliveries)
    if finished:
        from parley.app.mailbox.receipts import steps

        await steps.publish(kernel)
    if refusals and len(settled) == 1:
        raise refusals[0]
    remarks = warnings(stored.message, kernel.limits, parents.origin)
    problems = [*remarks, *(governed.warnings if governed is not None else ())]
    if not free_form and stored.message.kind is Kind.REVIEW_FEEDBACK:
        from parley.app.mailbox import reviews

        problems += reviews.check_packet(kernel, stored.message)
    sent = Sent(stored.message, deliveries[0].file, settled, problems, finished)
    if refusals:
        raise _undelivered(sent)
    return sent


async def reply(
    kernel: Kernel, ref: str, draft: Draft, *, kind_given: bool, keep_open: bool = False, token: str | None = None
) -> Sent:
    """Answer a message: recipient, kind, conversation and parent come from what is answered.

    The same commit finishes it, unless it is kept open. With a token, `LeaseLost` when another reader has it now.
    """
    answered = await find_answered(kernel, ref)
    draft = answer(draft, answered.message, kernel.limits, kind_given=kind_given)
    closes = None if keep_open else ClosedMessage(answered, token)
    return await send(kernel, draft, answered=answered.message, closes=closes)


async def find_answered(kernel: Kernel, ref: str) -> FoundMessage:
    """The message that a reply names."""
    from parley.app.mailbox import find

    try:
        return await find.find(kernel, ref)
    except UnknownMessage as error:
        if names.is_whole_id(ref):
            error.hint += (
                "; if its file was deleted before it was claimed, answer with: "
                "parley send --to SENDER --type notification --reply-to ID --conversation CONVERSATION"
            )
        raise


def answer(draft: Draft, answered: Message, limits: Limits, *, kind_given: bool) -> Draft:
    """The draft with everything filled in that follows from the message it answers."""
    others = tuple(name for name in answered.to if name != draft.sender) or answered.to
    to = draft.to or ((answered.sender,) if answered.sender != draft.sender else others)
    subject = draft.subject or _re(answered.subject, limits)
    return draft._replace(
        to=to,
        kind=draft.kind if kind_given else default_reply(answered.kind),
        subject=subject,
        conversation_id=draft.conversation_id or answered.conversation_id,
        in_reply_to=answered.id,
        related_pr=draft.related_pr or answered.related_pr,
        tag=draft.tag or answered.tag,
    )


def _re(subject: str, limits: Limits) -> str:
    line = " ".join(subject.splitlines())  # other tools may have sent several
    again = line if line.lower().startswith("re:") else f"Re: {line}"
    return again if len(again) <= limits.subject_chars else again[: limits.subject_chars - 1] + "…"


async def recover(kernel: Kernel) -> int:
    """Finish the sends of this side that a crash interrupted; how many messages were carried."""
    store = kernel.store
    if not await store.deliveries(Status.PENDING):
        return 0
    with kernel.courier.alone() as alone:
        if not alone:
            return 0  # a live process may be in the middle of these
        groups: dict[tuple[str, str], list[Delivery]] = {}
        for delivery in await store.deliveries(Status.PENDING):
            groups.setdefault(delivery.key[:2], []).append(delivery)
        for (message_id, message_digest), deliveries in groups.items():
            stored = next(k for k in await store.find(message_id) if k.digest == message_digest)
            if await kernel.courier.has_copy(deliveries[0].file, stored.content):
                # The copy is the last step, so everyone has the message; only the mark was lost.
                await settle_answered(kernel, stored, delivered=True)
                await _mark(kernel, stored, [delivery._replace(status=Status.DELIVERED) for delivery in deliveries])
            else:
                with suppress(Unavailable):  # it stays pending; what is new must not wait for it
                    await _carry(kernel, stored, tuple(deliveries))
        return len(groups)


class Parents(NamedTuple):
    """The messages before a draft, as far as they can be found: the one it answers, and the one it goes back to."""

    parent: Message | None = None
    origin: Message | None = None


async def parents_of(kernel: Kernel, draft: Draft, answered: Message | None = None) -> Parents:
    """What comes before a draft; `answered` where the caller has it."""
    parent = answered
    if parent is None and draft.in_reply_to:
        from parley.app.mailbox import find  # a message that answers none is sent without

        matches = await find.by_id(kernel, draft.in_reply_to)
        parent = matches[0].message if matches else None
    wanted = draft.kind.origin
    if wanted is None or (parent is not None and parent.kind is wanted):
        return Parents(parent, parent if wanted is not None else None)
    thread_name = parent.id if parent is not None else draft.conversation_id
    # Only its priority follows from the origin, and whether a handoff was there at all.
    if not thread_name or (draft.priority is not None and wanted is not Kind.HANDOFF):
        return Parents(parent)
    from parley.app.mailbox import find

    with suppress(NotFound, Conflict, Invalid):  # a conversation that this agent has no message of
        messages = [match.message for match in await find.thread(kernel, thread_name)]
        return Parents(parent, origin_in(messages, draft.kind, parent))
    return Parents(parent)


async def govern(
    kernel: Kernel,
    draft: Draft,
    message: Message,
    parent: Message | None,
    decided: HumanDecision | None = None,
    file_suffix: str = "",
) -> GovernedMail | None:
    """What the rules make of a message; None, after a glance, for one that they cannot concern."""
    conversation = message.conversation_id
    if (
        draft.wishes is None
        and decided is None
        and not (parent is not None and "ocip" in parent.extras)
        and not kernel.is_governed()
        and not ((draft.conversation_id or parent) and await kernel.store.has_records("exchange", conversation))
    ):
        return None
    from parley.app.mailbox.rules import sending as mail_sending

    return await mail_sending.govern(kernel, draft, message, parent, decided, file_suffix)


async def _commit(
    kernel: Kernel,
    draft: Draft,
    parents: Parents,
    file_suffix: str,
    *,
    free_form: bool,
    decided: HumanDecision | None = None,
    closes: ClosedMessage | None = None,
) -> tuple[StoredMessage, tuple[Delivery, ...], GovernedMail | None, str]:
    """Decide and commit; the last value is the id of the message that the commit finishes, or "".

    If an id, conversation or file name was taken meanwhile, choose another and repeat.
    """
    parent, origin = parents
    for attempt in range(_ATTEMPTS):
        closing = await close_answered(kernel, closes.message, closes.token) if closes is not None else None
        now = kernel.clock.now().at
        suffix = kernel.ids.suffix(_SUFFIX if attempt == 0 else _LONG_SUFFIX)
        opened = await opened_by(kernel, draft, parent, attempt)
        opening = draft._replace(conversation_id=opened) if opened else draft
        message_id = names.message_id(now, draft.sender, suffix)
        message = compose(opening, message_id, now, parent, kernel.limits, origin=origin, free_form=free_form)
        try:
            governed = await govern(kernel, draft, message, parent, decided, file_suffix)
            if governed is not None and governed.refusal is not None:
                await kernel.store.commit(governed.changes)
                raise governed.refusal
        except Stale:
            continue
        if governed is not None:
            message, content = governed.message, governed.content
        else:
            content = kernel.format.encode(message)
        file = await _file_name(kernel, message, file_suffix, suffix, attempt)
        stored = StoredMessage(kernel.format.settle(message), content, digest(content), minted=True)
        deliveries = tuple(
            Delivery(DeliveryKey(message.id, stored.digest, agent), file, Status.PENDING) for agent in message.to
        )
        facts = {"to": ",".join(message.to), "kind": message.kind.value, "file": file}
        entry = Entry("sent", format_time(now), kernel.agent, message.id, stored.digest, facts)
        changes = governed.changes if governed is not None else MailboxChanges()
        changes = changes._replace(
            messages=(stored,), deliveries=deliveries, entries=(entry,), new_conversation=opened, new_file=file
        )
        if closing is not None:
            changes = _with_closing(changes, closing)
        try:
            await kernel.store.commit(changes)
        except (Stale, Duplicate):
            continue
        return stored, deliveries, governed, closing.delivery.key.message_id if closing is not None else ""
    raise Conflict("too many others are sending as this agent at this moment", hint="try again")


def _with_closing(changes: MailboxChanges, closing: AnsweredDelivery) -> MailboxChanges:
    """The commit of a reply that also finishes what it answers."""
    stored = (closing.message,) if closing.message is not None else ()
    return changes._replace(
        messages=(*changes.messages, *stored),
        deliveries=(*changes.deliveries, closing.delivery),
        entries=(*changes.entries, closing.entry),
        expects=(*changes.expects, closing.expects),
    )


async def _file_name(kernel: Kernel, message: Message, wanted: str, suffix: str, attempt: int) -> str:
    """The specified name; with the id's random part where that is taken. A suffix that was asked for stays."""
    file = names.file_name(message.created_at, message.sender, message.kind, wanted)
    taken = await kernel.courier.taken(message.to, file)
    if wanted and (taken or attempt):
        raise NameExists(f"{file} exists already")
    return names.file_name(message.created_at, message.sender, message.kind, suffix) if taken or attempt else file


async def opened_by(kernel: Kernel, draft: Draft, parent: Message | None, attempt: int = 0) -> str:
    """The id of the conversation that this message starts, "" when it continues one."""
    if draft.conversation_id or draft.in_reply_to or (parent and parent.conversation_id):
        return ""
    now = kernel.clock.now().at
    count = 0 if attempt else await kernel.store.count_conversations(names.conversation_prefix(now, draft.sender))
    first = names.conversation_id(now, draft.sender, count + 1)
    # Rivals count too: step out of their way instead of racing them for the next number. So does what is still held.
    if attempt or await kernel.store.has_records("exchange", first):
        # Six digits: the OACP tool refuses to answer in a conversation whose id has more.
        return f"{names.conversation_prefix(now, draft.sender)}{int(kernel.ids.token()[:8], 16) % 10**6:06d}"
    return first


async def _carry(
    kernel: Kernel, stored: StoredMessage, deliveries: tuple[Delivery, ...]
) -> tuple[tuple[Delivery, ...], list[ParleyError]]:
    """Deliver to each, keep the copy, mark what became of each; the refusals beside it."""
    settled: list[Delivery] = []
    refusals: list[ParleyError] = []
    for delivery in deliveries:
        try:
            await kernel.courier.deliver(delivery.key.recipient, delivery.file, stored.content)
        except _PERMANENT as refusal:
            refusals.append(refusal)
            settled.append(delivery._replace(status=Status.FAILED, reason=f"{refusal.code}: {refusal.message}"))
        except ParleyError as error:
            error.hint = "the message is safe in the ledger; the next command that writes delivers it"
            raise
        else:
            settled.append(delivery._replace(status=Status.DELIVERED))
    # The copy says that everyone still pending has the message, so who has not must be on record before it.
    await _mark(kernel, stored, [delivery for delivery in settled if delivery.status is Status.FAILED], durable=True)
    try:
        await kernel.courier.keep_copy(deliveries[0].file, stored.content)
    except ParleyError as error:
        error.hint = "the message is delivered, only your own copy is missing: do not send it again"
        raise
    delivered = [delivery for delivery in settled if delivery.status is Status.DELIVERED]
    await settle_answered(kernel, stored, delivered=bool(delivered))
    await _mark(kernel, stored, delivered)
    return tuple(settled), refusals


async def _mark(kernel: Kernel, stored: StoredMessage, settled: list[Delivery], *, durable: bool = False) -> None:
    """Note what became of deliveries. What the outbox copy proves may be lost in a power cut without harm."""
    at = format_time(kernel.clock.now().at)
    for delivery in settled:
        facts = {"to": delivery.key.recipient, "file": delivery.file, "reason": delivery.reason}
        entry = Entry(delivery.status.value, at, kernel.agent, stored.message.id, stored.digest, facts)
        expects = (ExpectDelivery(delivery.key, Status.PENDING),)
        try:
            await kernel.store.commit(MailboxChanges((), (delivery,), (entry,), expects, durable=durable))
        except Stale:
            # A message to myself may have been claimed, even finished, by another process meanwhile.
            await kernel.store.commit(MailboxChanges(entries=(entry,), durable=False))


def _undelivered(sent: Sent) -> Undelivered:
    failed = [delivery for delivery in sent.deliveries if delivery.status is Status.FAILED]
    reasons = "; ".join(f"{delivery.key.recipient}: {delivery.reason}" for delivery in failed)
    others = [delivery.key.recipient for delivery in sent.deliveries if delivery.status is Status.DELIVERED]
    having = f"; {', '.join(others)} have it" if others else ""
    error = Undelivered(f"{sent.message.id} was not delivered to {reasons}{having}")
    error.sent = sent
    return error
