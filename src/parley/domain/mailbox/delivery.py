"""One recipient's state of one message.

pending ──> delivered ──> claimed ──> done          (the recipient's side may start at `claimed`:
   │            ^            │ │                      it meets the message as a file)
   v            └── release ─┘ └────> dead
 failed

What is done or dead and lies in the inbox again, because its owner moved it back, starts anew at `claimed`.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from parley.domain.errors.errors import AlreadyClaimed, Invalid, LeaseLost
from parley.domain.message.message import GOES_FIRST
from parley.domain.times import Instant, format_time

# Between a token and its holder.
_HOLDER_MARK = "@"


class Status(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"


class DeliveryKey(NamedTuple):
    """Which message to whom. The digest is part of it: two files with one id and other content are two."""

    message_id: str
    digest: str
    recipient: str


class Lease(NamedTuple):
    """A claim that outlives its process: the holder of `token` owns the message until the deadline.

    A claim without a deadline (`until_uptime` is None) lasts as long as its owner holds the file's lock. A token
    may end in the mark of the agent's process that holds it; then the claim ends with that process, too.
    """

    token: str
    until: str
    boot: str
    until_uptime: float | None

    @property
    def holder(self) -> str:
        """The mark of the process that holds the claim, "" where it is unknown."""
        return self.token.partition(_HOLDER_MARK)[2]

    @property
    def held_by_lock(self) -> bool:
        return self.until_uptime is None


class Delivery(NamedTuple):
    """The state of one message at one recipient; `file` is its name in the recipient's inbox."""

    key: DeliveryKey
    file: str
    status: Status
    tries: int = 0
    lease: Lease | None = None
    reason: str = ""


def take_lease(token: str, now: Instant, length: timedelta | None, holder: str = "") -> Lease:
    """A lease from now; without a length the claim is bound to the owner's lock."""
    token = f"{token}{_HOLDER_MARK}{holder}" if holder else token
    if length is None:
        return Lease(token, "", now.boot, None)
    try:
        until = format_time(now.at + length)
    except OverflowError:
        raise Invalid("the lease is longer than time goes", hint="write 30s, 5m, 2h or 7d") from None
    return Lease(token, until, now.boot, now.uptime + length.total_seconds())


def end_lease(lease: Lease, now: Instant) -> Lease:
    """The lease of a holder that has ended: it is over now."""
    return lease._replace(until=format_time(now.at), boot=now.boot, until_uptime=now.uptime)


def lease_over(lease: Lease, now: Instant) -> bool:
    """Whether the lease has run out; never for one that is bound to a lock.

    In the same boot the uptime decides, so setting the wall clock moves no lease. After a reboot every
    process that held it is gone, and so is the claim.
    """
    if lease.until_uptime is None:
        return False
    return lease.boot != now.boot or lease.until_uptime <= now.uptime


def claim(delivery: Delivery | None, key: DeliveryKey, file: str, lease: Lease, now: Instant) -> Delivery:
    """The claimed delivery, or `AlreadyClaimed`. The caller holds the file's lock."""
    if delivery is None:
        return Delivery(key, file, Status.CLAIMED, 1, lease)
    if delivery.status is Status.CLAIMED and delivery.lease is not None:
        # The lock is ours, so an owner bound to the lock is dead; a lease must have run out.
        if not delivery.lease.held_by_lock and not lease_over(delivery.lease, now):
            raise AlreadyClaimed(f"{key.message_id} is held by another reader until {delivery.lease.until}")
        return delivery._replace(file=file, tries=delivery.tries + 1, lease=lease)
    return delivery._replace(file=file, status=Status.CLAIMED, tries=delivery.tries + 1, lease=lease)


def check_token(delivery: Delivery, token: str | None) -> None:
    """Refuse a token that is no longer the claim's."""
    if token is not None and (delivery.lease is None or delivery.lease.token != token):
        raise LeaseLost(
            f"this token does not hold {delivery.key.message_id}: the lease ran out or was given back",
            hint="claim it again with: parley next",
        )


def order_key(priority: str, kind: str, created_at: str, message_id: str) -> tuple[str, bool, str, str]:
    """Processing order: priority, then requests for work and review, then age, last the id."""
    # Without its Z a time with a fraction sorts behind the whole second.
    return (priority, kind not in GOES_FIRST, created_at[:-1], message_id)
