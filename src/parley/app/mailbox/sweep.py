"""One pass over what crashes left behind; every command that writes begins with it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from parley.app.mailbox import sending as post
from parley.domain.errors.errors import Stale
from parley.domain.mailbox.delivery import Delivery, Lease, Status, end_lease, lease_over
from parley.domain.mailbox.ledger import Entry, MailboxChanges, expect
from parley.domain.times import format_time

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel


async def sweep(kernel: Kernel) -> None:
    """Carry the sends that were interrupted, close the claims whose file was already put away, and end the claims of
    processes that have ended.
    """
    await post.recover(kernel)
    claims = await kernel.store.deliveries(Status.CLAIMED)
    if not claims:
        return
    waiting = {name for name, _ in await kernel.inbox.names()}
    for claim in claims:
        if claim.file not in waiting:
            how = "archived" if await _is_archived(kernel, claim) else "gone"
            await _close(kernel, claim, how)
        elif _may_return(kernel, claim) and await _is_archived(kernel, claim):
            # Archived, then the reader died before it could say so, then the sender delivered again.
            await _close(kernel, claim, "archived")
        elif claim.lease is not None and claim.lease.holder and not _may_return(kernel, claim):
            await _end_if_orphaned(kernel, claim, claim.lease)


async def end_orphaned_claims(kernel: Kernel) -> None:
    """End the claims of processes that have ended."""
    for claim in await kernel.store.deliveries(Status.CLAIMED):
        if claim.lease is not None and claim.lease.holder and not _may_return(kernel, claim):
            await _end_if_orphaned(kernel, claim, claim.lease)


async def _end_if_orphaned(kernel: Kernel, claim: Delivery, lease: Lease) -> None:
    """End the claim of a process that has ended, so that the next reader gets the message. The try counts."""
    if not kernel.has_ended(lease.holder):
        return
    now = kernel.clock.now()
    facts = {"file": claim.file, "reason": "its process has ended"}
    entry = Entry("released", format_time(now.at), kernel.agent, claim.key.message_id, claim.key.digest, facts)
    ended = claim._replace(lease=end_lease(lease, now))
    with suppress(Stale):  # another process of this agent was faster
        await kernel.store.commit(MailboxChanges((), (ended,), (entry,), (expect(claim),)))


def _may_return(kernel: Kernel, claim: Delivery) -> bool:
    lease = claim.lease
    return lease is None or lease.held_by_lock or lease_over(lease, kernel.clock.now())


async def _is_archived(kernel: Kernel, claim: Delivery) -> bool:
    for stored in await kernel.store.find(claim.key.message_id):
        if stored.digest == claim.key.digest:
            return await kernel.inbox.archived(claim.file, stored.content)
    return False


async def _close(kernel: Kernel, claim: Delivery, how: str) -> None:
    finished = claim._replace(status=Status.DONE, lease=None, reason=how)
    facts = {"file": claim.file, "how": how}
    at = format_time(kernel.clock.now().at)
    entry = Entry("done", at, kernel.agent, claim.key.message_id, claim.key.digest, facts)
    try:
        await kernel.store.commit(MailboxChanges((), (finished,), (entry,), (expect(claim),)))
    except Stale:
        return  # its reader was faster
