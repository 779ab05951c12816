"""Code reviews in a mailbox: where one stands, how a person closes it, and the packets of its findings."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from parley.app.mailbox.find import find, thread
from parley.domain.errors.errors import Conflict, Invalid, ParleyError, Problem, UnknownMessage
from parley.domain.mailbox.ledger import CLAIMED, Entry, MailboxChanges
from parley.domain.mailbox.listing import UNVERIFIED
from parley.domain.message.findings import open_blocking, read_findings, unread_reason
from parley.domain.message.message import Kind
from parley.domain.message.review import ReviewClosure, ReviewState, author_of, follow_review
from parley.domain.times import format_time

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.listing import FoundMessage
    from parley.domain.message.message import Message
    from parley.domain.message.review import Review

_CLOSED = "review_closed"
OUTCOMES = (ReviewState.APPROVED, ReviewState.REJECTED)


async def get(kernel: Kernel, ref: str) -> Review:
    """Where the review in a conversation stands."""
    return await follow(kernel, ref, await thread(kernel, ref))


async def follow(kernel: Kernel, ref: str, matches: list[FoundMessage]) -> Review:
    """Where the review stands that `matches` tell, oldest first: the thread that `ref` names."""
    messages, unverified, named = await _messages_of_review(kernel, ref, matches)
    packets = {path: read_packet(kernel, path) for path in dict.fromkeys(map(_packet_path, messages)) if path}
    author = author_of([message for message in messages if message.id not in unverified], named, kernel.agent)
    review = follow_review(messages, packets, author=author, unverified=unverified)
    closure = await _closure(kernel, review.request_id)
    if closure is None:
        return review
    return follow_review(messages, packets, closure, author=author, unverified=unverified)


async def _messages_of_review(
    kernel: Kernel, ref: str, matches: list[FoundMessage]
) -> tuple[list[Message], frozenset[str], Message | None]:
    """The messages of the conversation that `ref` names or is in, oldest first, with those that name none; the ids of
    those whose file another user than their sender's wrote; and the message that `ref` names, if it names one.

    A thread follows parents across conversations. A review is one conversation: nobody may join it to another, whose
    approval would then count for it.
    """
    messages = [match.message for match in matches]
    unverified = frozenset([match.message.id for match in matches if await _is_unverified(kernel, match)])
    conversations = {message.conversation_id for message in messages}
    named = None if ref in conversations else await _named(kernel, messages, ref)
    conversation = ref if named is None else named.conversation_id
    if conversation in conversations:
        messages = [message for message in messages if message.conversation_id in ("", conversation)]
    return messages, unverified, named


async def _named(kernel: Kernel, messages: list[Message], ref: str) -> Message | None:
    """The message that `ref` names; None for one that is only known by its answers."""
    named = next((message for message in messages if message.id == ref), None)
    if named is None:
        with suppress(UnknownMessage):
            named = (await find(kernel, ref)).message
    return named


async def _is_unverified(kernel: Kernel, match: FoundMessage) -> bool:
    """Whether the file of a message was not its sender's: as it lies in the inbox, or as it was when it was claimed."""
    if any(doubt.code == UNVERIFIED for doubt in match.doubts):
        return True
    store = kernel.store_if_any
    claims = await store.entries_about(match.message.id, CLAIMED) if store is not None else ()
    return any(claim.entry.digest == match.digest and UNVERIFIED in claim.entry.facts for claim in claims)


def _packet_path(message: Message) -> str:
    path = message.body.get("findings_packet") if isinstance(message.body, dict) else None
    return path if isinstance(path, str) else ""


def read_packet(kernel: Kernel, path: str) -> dict[str, object] | str | None:
    """The fields of a findings packet, why it cannot be read, or None when there is no such file."""
    try:
        content = kernel.inbox.packet(path)
        return None if content is None else dict(kernel.format.packet(content))
    except ParleyError as error:
        return None if "://" in path else error.message


async def _closure(kernel: Kernel, request_id: str) -> ReviewClosure | None:
    """How a person closed the review last."""
    store = kernel.store_if_any
    entries = await store.entries_about(request_id, _CLOSED) if store is not None else ()
    if not entries:
        return None
    last = entries[-1].entry
    return ReviewClosure(ReviewState(last.facts["outcome"]), last.facts["by"], last.facts["reason"], last.at)


async def close(kernel: Kernel, ref: str, outcome: ReviewState, by: str, reason: str) -> Review:
    """Record how a person decided a review. It holds in this mailbox, whatever agents say afterwards."""
    if outcome not in OUTCOMES:
        raise Invalid(f"a review is closed as {' or '.join(OUTCOMES)}")
    if not by.strip() or not reason.strip():
        raise Invalid("a review is closed by a person, with a reason", hint="add --by NAME and --reason TEXT")
    if kernel.inbox.owner_of(by) is not None:
        raise Invalid(f"{by} is an agent of this project; only a person closes a review")
    review = await get(kernel, ref)
    if review.closure is None and review.approved:
        raise Conflict("the review is approved already")
    at = format_time(kernel.clock.now().at)
    facts = {"outcome": outcome.value, "by": by.strip(), "reason": " ".join(reason.split())}
    await kernel.store.commit(MailboxChanges(entries=(Entry(_CLOSED, at, kernel.agent, review.request_id, "", facts),)))
    return await get(kernel, ref)


async def write_packet(kernel: Kernel, path: str, content: bytes) -> None:
    """Put a findings packet into the project, durably, never over another."""
    await kernel.inbox.put_packet(path, content)


def check_packet(kernel: Kernel, message: Message) -> list[Problem]:
    """What should be said to the sender of feedback about its packet: that it is not there, or counts otherwise."""
    if message.kind is not Kind.REVIEW_FEEDBACK or not isinstance(message.body, dict):
        return []
    path = _packet_path(message)
    packet = read_packet(kernel, path) if path else None
    reason = unread_reason(path, packet)
    if reason or packet is None or isinstance(packet, str):
        return [Problem("packet_unread", "body.findings_packet", reason)]
    blocking = len(open_blocking(read_findings(packet) or ()))
    counted = message.body.get("blocking_count")
    if counted != blocking:
        return [Problem("packet_count", "body.blocking_count", f"says {counted}, the packet has {blocking} blocking")]
    return []
