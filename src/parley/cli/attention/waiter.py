"""The process that waits for messages beside one session of a coding agent, and ends to wake it."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.adapters.harness.locks import acquire
from parley.adapters.inotify import FolderWatch
from parley.app.mailbox.wake.waiter import WaitSigns, wait_for_wake
from parley.cli.attention.limits import local_minute
from parley.domain.errors.errors import ParleyError
from parley.domain.hashes import digest
from parley.domain.mailbox.hook_events import Moment, Wake
from parley.settings import state_directory
from parley.wiring import drive

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.mailbox.attention import InboxNotice
    from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent
    from parley.surfaces.hook.stops import StopSignals
    from parley.wiring import Kernel

_LOCKS = "waiters"


def wait_for_notice(
    kernel: Kernel, event: HookEvent, limits: AttentionLimits, inbox: str, stops: StopSignals
) -> InboxNotice | None:
    """Wait until the session of an event has to be woken; None when it ends, or must not be waited for.

    Without a person Claude Code waits for its hooks, so a waiter would hold it up for ever.
    """
    if limits.wake is Wake.NEVER or not event.attended:
        return None
    is_over = _end_of_session(kernel)
    if event.moment is Moment.FILE:
        return _wait(kernel, event, limits, inbox, is_over, stops)
    name = digest(f"{inbox}\n{event.session_id}".encode("utf-8", "surrogateescape"))[:32]
    lock = acquire(os.path.join(state_directory(), _LOCKS), name)
    if lock is None:  # another waiter is there
        return None
    try:
        _record_event(kernel, event)
        gc.enable()
        return _wait(kernel, event, limits, inbox, is_over, stops)
    finally:
        lock.release()


def _wait(
    kernel: Kernel,
    event: HookEvent,
    limits: AttentionLimits,
    inbox: str,
    is_over: Callable[[], bool],
    stops: StopSignals,
) -> InboxNotice | None:
    watch = FolderWatch(inbox)

    def pause(seconds: float) -> bool:
        with stops.asleep():
            return watch.pause(seconds)

    return drive(wait_for_wake(kernel, event, limits, WaitSigns(lambda: local_minute(kernel), pause, is_over)))


def _record_event(kernel: Kernel, event: HookEvent) -> None:
    """Record the event in a process of its own: what that loads would stay with this one for hours."""
    child = os.fork()
    if not child:
        with suppress(ParleyError, OSError):  # a session without a record is woken, too
            from parley.app.mailbox.wake import sessions

            drive(sessions.record_event(kernel, event))
        os._exit(0)
    os.waitpid(child, 0)


def _end_of_session(kernel: Kernel) -> Callable[[], bool]:
    """Whether the coding agent has ended: its process, or where that is unknown, the one that started us."""
    mark, parent = kernel.holder(), os.getppid()
    if mark:
        return lambda: kernel.has_ended(mark)
    return lambda: os.getppid() != parent
