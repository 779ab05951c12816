"""One look at an inbox: whether a session has to be woken for what waits there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox import read
from parley.app.mailbox.attention import InboxNotice, waiting_message
from parley.app.mailbox.receipts import offers
from parley.app.mailbox.wake import sessions
from parley.domain.errors.errors import Stale
from parley.domain.mailbox.attention import SessionState
from parley.domain.mailbox.hook_events import wakeable
from parley.domain.mailbox.ledger import MailboxChanges, WatchedFile
from parley.domain.mailbox.wake import can_be_woken, decide_wake, live_sessions
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.attention import AgentSession
    from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, WaitingMessage
    from parley.domain.mailbox.listing import Item

_ATTEMPTS = 8


async def look_for_wake(
    kernel: Kernel,
    event: HookEvent,
    limits: AttentionLimits,
    local_minute: int,
    hidden: Collection[str] = (),
    *,
    has_precedence: bool = False,
) -> InboxNotice | None:
    """Decide whether the session of an event is woken now. It is on record before it is woken."""
    for _ in range(_ATTEMPTS):
        inbox = await InboxState.load(kernel, hidden)
        if not inbox.items:
            return None
        session, others = await sessions.load(kernel, event)
        if not can_be_woken(session, limits.wake):
            return None
        live = live_sessions(others, kernel.has_ended, kernel.clock.now().at)
        messages = wakeable(inbox.waiting, await inbox.mentioned_ids(kernel, [session, *live]))
        if not messages:
            return None
        if not has_precedence and any(_goes_before(other, session, limits) for other in live):
            return None
        continued = [at for other in others for at in other.continued_at]
        now = kernel.clock.now().at
        decision = decide_wake(session, messages, inbox.ids, continued, limits, now, local_minute)
        if decision.session is None:
            return None
        items = tuple(item for item in inbox.items if item.id in decision.messages)
        mentioned = tuple(WatchedFile(f"hook:{session.id}", item.file) for item in items)
        marks = offers.wake_marks(event, items, stamp(now))
        try:
            await kernel.store.commit(
                MailboxChanges(puts=(decision.session,), watched=(*mentioned, *marks), durable=False)
            )
        except Stale:  # its hook, or another waiter, was faster
            continue
        offers.record_wake(kernel, event, items)
        return InboxNotice(items, goes_on=True, marks=marks)
    return None


async def look_for_prompt(
    kernel: Kernel, event: HookEvent, limits: AttentionLimits, local_minute: int
) -> InboxNotice | None:
    """Decide whether a program that works for an agent without a person is given a prompt now.

    It is for everything that waits, and on record before.
    """
    for _ in range(_ATTEMPTS):
        inbox = await InboxState.load(kernel)
        session, others = await sessions.load(kernel, event)
        continued = [at for other in others for at in other.continued_at]
        now = kernel.clock.now().at
        decision = decide_wake(session, inbox.waiting, inbox.ids, continued, limits, now, local_minute)
        if decision.session is None:
            return None
        items = tuple(inbox.items)
        marks = tuple(WatchedFile(f"hook:{session.id}", item.file) for item in items)
        try:
            await kernel.store.commit(MailboxChanges(puts=(decision.session,), watched=marks, durable=False))
        except Stale:
            continue
        return InboxNotice(items, goes_on=True)
    return None


def _goes_before(other: AgentSession, session: AgentSession, limits: AttentionLimits) -> bool:
    """Whether another session has to be woken instead: it was active later, and idle as far as is known."""
    return other.at > session.at and other.state is SessionState.IDLE and can_be_woken(other, limits.wake)


class InboxState(NamedTuple):
    """The messages that wait unclaimed, and what has to be known of each."""

    items: Sequence[Item]
    waiting: Sequence[WaitingMessage]

    @classmethod
    async def load(cls, kernel: Kernel, hidden: Collection[str] = ()) -> InboxState:
        """What is in the inbox now, without the files that are hidden."""
        items = [
            item
            for item in await read.inbox(kernel)
            if item.status == "new" and not item.expired and item.file not in hidden
        ]
        return cls(items, [await waiting_message(kernel, item) for item in items])

    @property
    def ids(self) -> set[str]:
        """The ids of all of them."""
        return {item.id for item in self.items}

    async def mentioned_ids(self, kernel: Kernel, sessions: Sequence[AgentSession]) -> set[str]:
        """Those that one of these sessions has been told of, or rung for."""
        files: set[str] = set()
        for session in sessions:
            files |= await kernel.store.seen_files(f"hook:{session.id}")
            files |= await kernel.store.seen_files(f"ring:{session.id}")
        return {item.id for item in self.items if item.file in files}
