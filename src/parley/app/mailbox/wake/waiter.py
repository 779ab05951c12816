"""Waiting until an idle session of a coding agent has to be woken.

It waits for hours: the ledger, and what a record is, are loaded when there is something to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.mailbox.hook_events import Moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.mailbox.attention import InboxNotice
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent

_PAUSE_SECONDS = 1.0
# While a message waits for which nobody was woken: claims end, hours begin, sessions close.
_LOOK_SECONDS = 5.0
# The hook of the event that starts a waiter runs at the same time, and is given up after two seconds.
_HOOK_SECONDS = 2.5
# After that a session is woken though another one was active later: nothing may wait in that one.
_PRECEDENCE_SECONDS = 30.0


class WaitSigns(NamedTuple):
    """What a waiter needs from outside: the minute of the day, a pause that ends early when something may have
    arrived (and says whether it has), and whether its session is over.
    """

    local_minute: Callable[[], int]
    pause: Callable[[float], bool]
    is_over: Callable[[], bool]


async def wait_for_wake(
    kernel: Kernel, event: HookEvent, limits: AttentionLimits, signs: WaitSigns
) -> InboxNotice | None:
    """Wait until a session has to be woken; None when it is over before that.

    What lies in the inbox when an event starts the waiter belongs to the hook of the same event at first.
    """
    began = looked = kernel.clock.now().uptime
    present = {name for name, _ in await kernel.inbox.names()} if event.moment is not Moment.FILE else set()
    pulse, pending_since, is_due = kernel.inbox.pulse(), 0.0, True
    while True:
        now = kernel.clock.now().uptime
        if is_due or (pending_since and now - looked >= _LOOK_SECONDS):
            looked = now
            hidden = present if now - began < _HOOK_SECONDS else ()
            has_waited = bool(pending_since) and now - pending_since >= _PRECEDENCE_SECONDS
            notice = None
            is_pending = bool(await kernel.inbox.names())
            if is_pending:
                from parley.app.mailbox.wake.looks import look_for_wake

                minute = signs.local_minute()
                notice = await look_for_wake(kernel, event, limits, minute, hidden, has_precedence=has_waited)
            if notice is not None or event.moment is Moment.FILE:
                return notice
            pending_since = (pending_since or now) if is_pending else 0.0
        arrived = signs.pause(_PAUSE_SECONDS)
        if signs.is_over():
            return None
        before, pulse = pulse, kernel.inbox.pulse()
        ready = bool(present) and kernel.clock.now().uptime - began >= _HOOK_SECONDS
        is_due = arrived or pulse != before or ready
        if ready:
            present = set()
