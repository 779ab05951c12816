"""What a coding agent is told about its inbox at one of its events, and the record of its session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox import read
from parley.domain.errors.errors import Stale
from parley.domain.mailbox.hook_events import Moment, WaitingMessage, mentionable
from parley.domain.mailbox.ledger import MailboxChanges, WatchedFile
from parley.domain.mailbox.waiting import expects_answer
from parley.domain.message.kinds import KINDS
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent
    from parley.domain.mailbox.listing import Item

_ATTEMPTS = 8


class InboxNotice(NamedTuple):
    """Messages to mention to a coding agent, and whether it must go on for them instead of going idle."""

    items: tuple[Item, ...]
    goes_on: bool = False
    # To be confirmed with `receipts.offers.confirm` once all of it is printed.
    marks: tuple[WatchedFile, ...] = ()


async def notice(kernel: Kernel, event: HookEvent, limits: AttentionLimits, local_minute: int) -> InboxNotice | None:
    """What to tell a coding agent at an event; None when there is nothing to say.

    It is on record before it is said. With an empty inbox the ledger is not opened, and with nothing new to say only
    the marks of what this session was told are read.
    """
    if not await read.listing(kernel, "inbox"):
        return None
    if event.moment is Moment.START and kernel.store_if_any is not None:
        from parley.app.mailbox.sweep import end_orphaned_claims  # loads what sends messages

        await end_orphaned_claims(kernel)
    items = [item for item in await read.inbox(kernel) if item.status == "new" and not item.expired]
    if not items:
        return None
    from parley.app.mailbox.receipts import offers  # most hooks find nothing

    watcher = f"hook:{event.session_id}"
    judged = await offers.judge(kernel, event, items)
    files = await kernel.store.seen_files(watcher) - judged.lost
    waiting = [await waiting_message(kernel, item) for item in items]
    mentioned = mentionable(event, waiting, {item.id for item in items if item.file in files})
    if not mentioned:
        await offers.apply(kernel, judged, watcher)
        return None
    # With what a record is: most hooks have nothing to say.
    from parley.app.mailbox.wake import sessions
    from parley.domain.mailbox.attention import decide

    ids = {message.id for message in waiting}
    for _ in range(_ATTEMPTS):
        session, others = await sessions.load(kernel, event)
        continued = [at for other in others for at in other.continued_at]
        decision = decide(event, session, mentioned, ids, continued, limits, kernel.clock.now().at, local_minute)
        if not decision.messages or decision.session is None:
            await offers.apply(kernel, judged, watcher)
            return None
        offered = tuple(item for item in items if item.id in decision.messages)
        gone = files - {item.file for item in items} | judged.lost - {item.file for item in offered}
        marks = offers.new_marks(event, offered, stamp(kernel.clock.now().at))
        changes = MailboxChanges(
            puts=(decision.session,),
            watched=(*(WatchedFile(watcher, item.file) for item in offered), *judged.watched, *marks),
            unwatched=(*(WatchedFile(watcher, file) for file in gone), *judged.unwatched),
            durable=False,
        )
        try:
            await kernel.store.commit(changes)
        except Stale:  # another event of this session was faster
            continue
        offers.record(kernel, event, offered)
        return InboxNotice(offered, decision.goes_on, marks)
    return None


async def waiting_message(kernel: Kernel, item: Item) -> WaitingMessage:
    """What has to be known of a message to decide whether to mention it."""
    kind = KINDS.get(item.kind)
    answers_own = bool(item.in_reply_to) and any(
        stored.message.sender == kernel.agent for stored in await kernel.store.find(item.in_reply_to)
    )
    return WaitingMessage(item.id, item.priority, kind is not None and expects_answer(kind), answers_own)
