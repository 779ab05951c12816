"""A job: a message that one of several readers has to process, and who does so at the moment.

    waiting ──claim──> claimed ──response, done──> (dropped)
       ^                 │  │
       │   release, fail │  │ fails for good, or its readers ended too often
       └─────────────────┘  v
    waiting <──retry────── dead ──drop──> (dropped)

A job is dropped as well when there is nothing left to do: its message has expired or its channel is closed. Every step
is a commit that replaces one version of the job, so of two claims one wins, and a lease that was handed on is worth
nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Self

from parley.domain.channel.post import PostState
from parley.domain.directory.callers import QUEUE_PREFIX, TENANT_MARK
from parley.domain.errors.errors import Conflict, LeaseLost
from parley.domain.message.message import Pattern
from parley.domain.record import UNSETTLED, Record
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from parley.domain.channel.feed import FeedItem
    from parley.domain.channel.post import Post

OPEN, DEAD = "open", "dead"
# How often a reader may end while it has the job, before the job is dead.
LOST_READERS_MAX = 5
# How often a job may be claimed in all, however its handlers ask for it again.
ATTEMPTS_MAX = 1_000
ERROR_MAX_CHARS = 2_000
DEAD_LETTERS_KEPT = timedelta(days=30)


class JobState(StrEnum):
    """The state of a job."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Record):
    """A message in a queue. `queue` is `any:ROLE`, or the agent whose processes share its mail."""

    kind: ClassVar[str] = "job"

    queue: str
    # The message, or the event that an agent hears of; and its position. Below 0: so many behind the last one before.
    item_id: str
    position: int = UNSETTLED
    sender: str = ""
    channel_id: str = ""
    # Whether it is a request: its sender waits for an answer.
    asks: bool = False
    # To whom the rules let it go when it was posted; others may claim it only where no rule concerns them.
    eligible: tuple[str, ...] = ()
    expires_at: str = ""
    queued_at: str
    changed_at: str
    state: JobState = JobState.WAITING
    attempts: int = 0
    # How many leases ran out: their readers ended, or took no notice of them.
    lost_readers: int = 0
    # Who has it, until when by the clock of the server that gave it; and the secret of its lease.
    holder: str = ""
    process: str = ""
    lease: str = ""
    lease_seconds: float = 0.0
    until: str = ""
    # Whether its holder has shown the lease: only then is it known that the answer to its claim has arrived. And when a
    # reader did so first, whoever has the job now.
    received: bool = False
    received_at: str = ""
    # Nobody gets it before this time.
    not_before: str = ""
    error: str = ""

    @property
    def parent(self) -> str:
        return DEAD if self.state is JobState.DEAD else OPEN

    @property
    def due(self) -> str:
        if self.state is JobState.DEAD:
            return stamp(from_stamp(self.changed_at) + DEAD_LETTERS_KEPT)
        return self.expires_at

    def with_position(self, position: int) -> Self:
        return self if self.position >= 0 else replace(self, position=position - self.position)

    @property
    def is_role_queue(self) -> bool:
        """Whether it is for any holder of a role."""
        return self.queue.startswith(QUEUE_PREFIX)


def job_id(item_id: str, queue: str) -> str:
    """The one id of the job of a message in a queue."""
    return item_id if queue.startswith(QUEUE_PREFIX) else f"{item_id}{TENANT_MARK}{queue}"


def enqueue(tenant: str, posts: Iterable[Post]) -> tuple[tuple[Post, ...], tuple[Job, ...]]:
    """Posts as they are stored, and the jobs of those that are for any holder of a role.

    Only the sender and whoever claims it see such a message. The posts have to be the first of their commit.
    """
    stored: list[Post] = []
    jobs: list[Job] = []
    for place, post in enumerate(posts):
        if not post.to.startswith(QUEUE_PREFIX) or post.pattern is Pattern.RESPONSE:
            stored.append(post)
            continue
        stored.append(post._replace(recipients=(), state=PostState.DELIVERED))
        jobs.append(
            Job(
                id=job_id(post.id, post.to),
                tenant_id=tenant,
                queue=post.to,
                item_id=post.id,
                position=UNSETTLED - place,
                sender=post.sender,
                channel_id=post.channel_id,
                asks=post.pattern is Pattern.REQUEST,
                eligible=post.recipients or (),
                expires_at=post.expires_at,
                queued_at=post.created_at,
                changed_at=post.created_at,
            )
        )
    return tuple(stored), tuple(jobs)


def job_of(tenant: str, item: FeedItem, queue: str, now: str) -> Job:
    """The job of an agent's mail: a message to it, or an event that it hears of."""
    source = item.post or item.event
    assert source is not None  # noqa: S101  # an item is one or the other
    return Job(
        id=job_id(source.id, queue),
        tenant_id=tenant,
        queue=queue,
        item_id=source.id,
        position=item.position,
        sender=item.post.sender if item.post is not None else "",
        channel_id=item.channel_id,
        asks=item.post is not None and item.post.pattern is Pattern.REQUEST,
        expires_at=item.post.expires_at if item.post is not None else "",
        queued_at=source.created_at,
        changed_at=now,
    )


def claimed(job: Job, agent: str, lease: str, seconds: float, now: datetime, *, process: str = "") -> Job:
    """The job in the hands of an agent."""
    return replace(
        handed_on(job),
        state=JobState.CLAIMED,
        attempts=job.attempts + 1,
        holder=agent,
        process=process,
        lease=lease,
        lease_seconds=seconds,
        until=stamp(now + timedelta(seconds=seconds)),
        received=False,
        not_before="",
        changed_at=stamp(now),
    )


def shown(job: Job, now: datetime) -> Job:
    """The job after its reader has shown the lease, which came with the message."""
    return replace(job, received=True, received_at=job.received_at or stamp(now))


def handed_on(job: Job) -> Job:
    """The job as it is taken from whoever has it now: that reader has ended, or let its lease run out."""
    return replace(job, lost_readers=job.lost_readers + (job.state is JobState.CLAIMED))


def why_dead(job: Job) -> str:
    """Why it must not be handed on once more; empty when it may be."""
    if (lost := handed_on(job).lost_readers) >= LOST_READERS_MAX:
        return f"its reader ended {lost} times"
    return f"it was claimed {job.attempts} times" if job.attempts >= ATTEMPTS_MAX else ""


def failure_of(job: Job) -> tuple[str, str]:
    """Why the request of a job that has ended gets no answer: the code and the text that its sender is told."""
    if job.state is not JobState.DEAD:
        return "no_answer", "its reader finished it without an answer"
    if job.lost_readers >= LOST_READERS_MAX:
        return "dead_letter", f"its reader ended {job.lost_readers} times"
    return "dead_letter", f"its reader could not finish it, at attempt {job.attempts}"


def check_lease(job: Job | None, agent: str, lease: str) -> Job:
    """The job, if this agent has it under this lease; else `LeaseLost`."""
    if job is None:
        raise LeaseLost("this job has ended: it was answered, done, dropped or it expired")
    if job.state is not JobState.CLAIMED or job.holder != agent or not lease or job.lease != lease:
        whose = f"{job.holder} has it now" if job.state is JobState.CLAIMED else f"it is {job.state.value}"
        raise LeaseLost(f"the lease of job {job.id} is not yours: {whose}")
    return job


def extended(job: Job, seconds: float, now: datetime) -> Job:
    """The job with its lease counted from now."""
    until = stamp(now + timedelta(seconds=seconds))
    return replace(shown(job, now), lease_seconds=seconds, until=until, changed_at=stamp(now))


def released(job: Job, now: datetime) -> Job:
    """The job as if it had not been claimed: its reader stops in good order."""
    waiting = _waiting(job, now)
    return replace(waiting, attempts=max(0, job.attempts - 1))


def failed(job: Job, error: str, retry_in: float | None, now: datetime) -> Job:
    """The job after its handler failed: it waits so many seconds, or is dead without them."""
    error, job = error[:ERROR_MAX_CHARS], shown(job, now)
    if retry_in is None:
        return buried(job, error, now)
    if job.attempts >= ATTEMPTS_MAX:
        return buried(job, f"it was claimed {job.attempts} times, at last: {error}"[:ERROR_MAX_CHARS], now)
    not_before = stamp(now + timedelta(seconds=retry_in)) if retry_in else ""
    return replace(_waiting(job, now), error=error, not_before=not_before)


def buried(job: Job, error: str, now: datetime) -> Job:
    """The job as a dead letter. A handler that failed in good order has lost no reader: see `handed_on`."""
    return replace(_waiting(job, now), state=JobState.DEAD, error=error)


def retried(job: Job, now: datetime) -> Job:
    """A dead letter as a new job."""
    if job.state is not JobState.DEAD:
        raise Conflict(f"job {job.id} is {job.state.value}, not dead")
    return replace(_waiting(job, now), attempts=0, lost_readers=0)


def _waiting(job: Job, now: datetime) -> Job:
    return replace(
        job,
        state=JobState.WAITING,
        holder="",
        process="",
        lease="",
        lease_seconds=0.0,
        until="",
        received=False,
        not_before="",
        changed_at=stamp(now),
    )
