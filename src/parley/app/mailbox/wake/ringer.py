"""Ringing a session of a coding agent by a command of its program, for those that have no hook that can wake them.

Each session has a ringer, and the ledger says who rings: what is rung, and for which session, is on record before the
command runs. A ring whose ringer ended, or whose command failed, is tried again, by whichever ringer looks next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox.wake import sessions
from parley.app.mailbox.wake.looks import InboxState
from parley.domain.errors.errors import Stale
from parley.domain.mailbox.hook_events import wakeable
from parley.domain.mailbox.ledger import MailboxChanges, WatchedFile
from parley.domain.mailbox.wake import (
    RingLease,
    begin_ring,
    can_be_woken,
    decide_wake,
    end_ring,
    is_busy,
    is_held,
    live_sessions,
    retry_ring,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.attention import AgentSession
    from parley.domain.mailbox.hook_events import AttentionLimits

_ATTEMPTS = 8
_LEASE_ID = "ring"


async def look_for_ring(kernel: Kernel, harness: str, since: str, limits: AttentionLimits, local_minute: int) -> str:
    """Take the right to ring the session that was active last, and return its name; "" when none has to be rung.

    The caller rings it, and then calls `finish_ring`. `since` is when the ringer's process began, as a stamp: a session
    that was silent since, and whose process is unknown, may be closed, and is not rung.
    """
    for _ in range(_ATTEMPTS):
        inbox = await InboxState.load(kernel)
        if not inbox.items:
            return ""
        try:
            return await _take_ring(kernel, harness, since, inbox, limits, local_minute)
        except Stale:  # another ringer was faster
            continue
    return ""


async def _take_ring(
    kernel: Kernel, harness: str, since: str, inbox: InboxState, limits: AttentionLimits, local_minute: int
) -> str:
    now = kernel.clock.now().at
    lease = await kernel.store.record(RingLease, _LEASE_ID) or RingLease(id=_LEASE_ID, tenant_id="")
    if is_held(lease, kernel.has_ended, now):
        return ""
    rows = await sessions.load_recent(kernel)
    live = live_sessions(rows, kernel.has_ended, now)
    targets = [row for row in live if row.harness == harness and (row.process or row.at >= since)]
    targets = [row for row in targets if can_be_woken(row, limits.wake)]
    if lease.files:
        return await _ring_again(kernel, lease, inbox, targets)
    if not targets:
        return ""
    target = targets[0]
    if is_busy(target, now):  # its hook tells it
        return ""
    messages = wakeable(inbox.waiting, await inbox.mentioned_ids(kernel, live))
    continued = [at for row in rows if row.id != target.id for at in row.continued_at]
    decision = decide_wake(target, messages, inbox.ids, continued, limits, now, local_minute)
    if decision.session is None:
        return ""
    files = tuple(item.file for item in inbox.items if item.id in decision.messages)
    begun = begin_ring(lease, kernel.holder(), target.session, files, now)
    marks = tuple(WatchedFile(f"ring:{target.id}", file) for file in files)
    await kernel.store.commit(MailboxChanges(puts=(decision.session, begun), watched=marks, durable=False))
    return target.session


async def _ring_again(kernel: Kernel, lease: RingLease, inbox: InboxState, targets: Sequence[AgentSession]) -> str:
    """Try the ring that is under way again, while it makes sense."""
    now = kernel.clock.now().at
    still_waits = any(item.file in lease.files for item in inbox.items)
    is_live = any(target.session == lease.session for target in targets)
    again = retry_ring(lease, kernel.holder(), now) if still_waits and is_live else None
    if again is None:
        free = end_ring(lease, now, succeeded=True)
        await kernel.store.commit(MailboxChanges(puts=(free,), durable=False))
        return ""
    await kernel.store.commit(MailboxChanges(puts=(again,), durable=False))
    return again.session


async def finish_ring(kernel: Kernel, session: str, *, succeeded: bool) -> None:
    """Free the right to ring, or hold it until the next try."""
    for _ in range(_ATTEMPTS):
        lease = await kernel.store.record(RingLease, _LEASE_ID)
        if lease is None or lease.session != session or lease.holder != kernel.holder():
            return
        ended = end_ring(lease, kernel.clock.now().at, succeeded=succeeded)
        try:
            await kernel.store.commit(MailboxChanges(puts=(ended,), durable=False))
        except Stale:
            continue
        return
