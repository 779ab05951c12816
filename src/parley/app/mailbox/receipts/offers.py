"""The offers of a session: messages that it was told about, until it is known whether its model has seen that.

They are marks in the table that watchers use, which is read without loading what a record is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.hook_events import Moment, is_named_in_notice, notice_ref
from parley.domain.mailbox.ledger import MailboxChanges, WatchedFile
from parley.domain.mailbox.offers import (
    WAKE,
    OfferVerdict,
    decode_offer,
    encode_offer,
    judge_offer,
    make_offer,
    make_wake_offer,
)
from parley.domain.receipts import NOT_ANSWERED, SESSION_ENDED, ReceiptState, ReceiptStep
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.hook_events import HookEvent
    from parley.domain.mailbox.listing import Item
    from parley.domain.mailbox.offers import Offer

_SESSION_CHARS = 64


class OfferChanges(NamedTuple):
    """What changes about the offers of a session: marks to add and to remove, and the files that are to be offered
    again.
    """

    watched: tuple[WatchedFile, ...] = ()
    unwatched: tuple[WatchedFile, ...] = ()
    lost: frozenset[str] = frozenset()


def _watcher(session_id: str) -> str:
    return f"offer:{session_id}"


async def judge(kernel: Kernel, event: HookEvent, items: Sequence[Item]) -> OfferChanges:
    """What an event says about the offers of its session. What was seen is in the receipts when this returns.

    An offer of a message that is not among the items is dropped: it was claimed or is gone.
    """
    watcher = _watcher(event.session_id)
    marks = await kernel.store.seen_files(watcher)
    if not marks:
        return OfferChanges()
    now = kernel.clock.now().at
    waiting = {item.file: item for item in items}
    watched: list[WatchedFile] = []
    unwatched: list[WatchedFile] = []
    lost: set[str] = set()
    for mark in sorted(marks):
        offer = decode_offer(mark)
        item = waiting.get(offer.file) if offer is not None else None
        verdict = OfferVerdict.LOST
        if offer is not None and item is not None:
            verdict = judge_offer(offer, _as_it_concerns(event, offer, item), now)
        if verdict is OfferVerdict.WAITS:
            continue
        unwatched.append(WatchedFile(watcher, mark))
        if offer is None or item is None:
            continue
        if verdict is OfferVerdict.BELONGS:
            watched.append(WatchedFile(watcher, encode_offer(offer._replace(turn=event.turn))))
            continue
        if verdict is OfferVerdict.LOST:
            lost.add(offer.file)
        if not offer.named:
            continue
        if verdict is OfferVerdict.SEEN:
            step = _step(kernel, event.session, ReceiptState.INJECTED, _evidence(event))
        else:
            reason = SESSION_ENDED if event.moment is Moment.END else NOT_ANSWERED
            step = _step(kernel, event.session, ReceiptState.QUEUED, reason)
        _append(kernel, [item], step)
    return OfferChanges(tuple(watched), tuple(unwatched), frozenset(lost))


def _as_it_concerns(event: HookEvent, offer: Offer, item: Item) -> HookEvent:
    """The event as it concerns an offer: a prompt whose notice names other messages does not carry this one."""
    if not event.carries_notice or not offer.named:
        return event
    return event._replace(carries_notice=notice_ref(item.id) in event.carried_refs)


async def apply(kernel: Kernel, changes: OfferChanges, session_watcher: str) -> None:
    """Write changes of which nothing else is said at this event."""
    if changes.unwatched:
        taken_back = tuple(WatchedFile(session_watcher, file) for file in changes.lost)
        await kernel.store.commit(
            MailboxChanges(watched=changes.watched, unwatched=(*changes.unwatched, *taken_back), durable=False)
        )


def new_marks(event: HookEvent, items: Iterable[Item], at: str) -> tuple[WatchedFile, ...]:
    """The marks of messages that are about to be mentioned."""
    watcher = _watcher(event.session_id)
    return tuple(
        WatchedFile(watcher, encode_offer(make_offer(event, item.file, at, named=named)))
        for item, named in _with_named(items)
    )


def wake_marks(event: HookEvent, items: Iterable[Item], at: str) -> tuple[WatchedFile, ...]:
    """The marks of messages that the idle session of an event is about to be woken for."""
    watcher = _watcher(event.session_id)
    return tuple(
        WatchedFile(watcher, encode_offer(make_wake_offer(item.file, at, named=named)))
        for item, named in _with_named(items)
    )


def _with_named(items: Iterable[Item]) -> list[tuple[Item, bool]]:
    """The messages of a notice, each with whether its text names it."""
    return [(item, is_named_in_notice(position, item.id)) for position, item in enumerate(items)]


def record(kernel: Kernel, event: HookEvent, items: Sequence[Item]) -> None:
    """Say in the receipts that what a notice names is offered. To be called before it is printed."""
    _record(kernel, items, _step(kernel, event.session, ReceiptState.OFFERED, _evidence(event)))


def record_wake(kernel: Kernel, event: HookEvent, items: Sequence[Item]) -> None:
    """The same for the messages that the idle session of an event is woken for."""
    _record(kernel, items, _step(kernel, event.session, ReceiptState.OFFERED, f"{event.harness} {WAKE}"))


def _record(kernel: Kernel, items: Sequence[Item], step: ReceiptStep) -> None:
    _append(kernel, [item for item, named in _with_named(items) if named], step)


async def confirm(kernel: Kernel, marks: Sequence[WatchedFile]) -> None:
    """Note that all of a notice was printed: only then can an event prove that a model has seen it."""
    whole = [
        WatchedFile(mark.watcher, encode_offer(offer._replace(whole=True)))
        for mark in marks
        if (offer := decode_offer(mark.file)) is not None
    ]
    if whole:
        await kernel.store.commit(MailboxChanges(watched=tuple(whole), unwatched=tuple(marks), durable=False))


def _evidence(event: HookEvent) -> str:
    return f"{event.harness} {event.moment.value}"


def _step(kernel: Kernel, session: str, state: ReceiptState, evidence: str) -> ReceiptStep:
    return ReceiptStep(state, stamp(kernel.clock.now().at), session[:_SESSION_CHARS], evidence)


def _append(kernel: Kernel, items: Sequence[Item], step: ReceiptStep) -> None:
    if kernel.receipts is None:
        return
    for item in items:
        with suppress(ParleyError):
            kernel.receipts.append(item.id, item.file, (step,))
