"""The open jobs of every tenant in memory, in order, and who waits for one.

The store decides: a claim is a commit that replaces one version of the job. This index only says which job to try next,
so that the claimers of this node do not compete for the same one. A lease runs out when this node has seen the same
claim for as long as it was given, by a clock that nobody sets: no server takes a job away because of its wall clock.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from parley.domain.channel.job import Job, JobState
from parley.domain.directory.callers import QUEUE_PREFIX, Role
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from parley.domain.store.changes import Committed
    from parley.ports.mailbox import Clock


class OpenJob:
    """A job that is waiting or claimed, as this node has last seen it."""

    __slots__ = ("channel_id", "expired", "id", "position", "queue", "reserved", "state", "version")

    def __init__(self, job: Job) -> None:
        self.id = job.id
        self.queue = job.queue
        self.channel_id = job.channel_id
        self.position = job.position
        self.version = job.version
        self.state = job.state
        # A claimer of this node is about to claim it.
        self.reserved = False
        # Its lease has run out, or its message has.
        self.expired = False


class Claimer:
    """A claim that waits for a job: the queues that it takes from, and how it is woken."""

    __slots__ = ("called", "dismissed", "event", "process", "queues")

    def __init__(self, event: asyncio.Event, process: str = "") -> None:
        self.queues: frozenset[str] = frozenset()
        self.event = event
        # Which process of an agent waits, and whether it has said that it stops.
        self.process = process
        self.dismissed = False
        # It was woken for a job. If it does not take it, the next one is.
        self.called = False


class TenantQueues:
    """The open jobs of one tenant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.jobs: dict[str, OpenJob] = {}
        # By queue and channel: position, id and version of what can be claimed. Entries of other versions are dropped.
        self._ready: dict[str, dict[str, list[tuple[int, str, int]]]] = {}
        # When a lease or a pause ends: uptime, id and version.
        self._timers: list[tuple[float, str, int]] = []
        self.holders: dict[str, frozenset[str]] = {}
        # In the order in which they came.
        self._claimers: dict[Claimer, None] = {}
        self.done: dict[str, int] = {}
        # Channels that have ended, whose jobs have to be dropped.
        self.ended: set[str] = set()
        # Whether everything that was there before is in it.
        self.loaded = False

    # ------------------------------------------------------------------ what is committed

    def put(self, job: Job) -> None:
        """Take a version of a job into account; an older one changes nothing."""
        known = self.jobs.get(job.id)
        if known is not None and known.version >= job.version:
            return
        if job.state is JobState.DEAD:
            self.jobs.pop(job.id, None)
            return
        entry = self.jobs[job.id] = OpenJob(job)
        pause = job.lease_seconds
        if job.state is JobState.WAITING:
            now = self._clock.now().at
            pause = (from_stamp(job.not_before) - now).total_seconds() if job.not_before else 0.0
        if pause > 0:
            heappush(self._timers, (self._clock.now().uptime + pause, job.id, job.version))
        else:
            self._make_ready(entry)

    def remove(self, job_id: str) -> None:
        """The job has ended. If somebody had it, that one has done it."""
        entry = self.jobs.pop(job_id, None)
        if entry is not None and entry.state is JobState.CLAIMED and not entry.expired:
            self.done[entry.queue] = self.done.get(entry.queue, 0) + 1

    def mark_over(self, job_id: str) -> None:
        """There is nothing left to do: when it is dropped, nobody has done it."""
        entry = self.jobs.get(job_id)
        if entry is not None:
            entry.expired = True

    def set_role(self, role: Role) -> None:
        """Take the holders of a role into account; claimers look again which queues are theirs."""
        self.holders[role.id] = frozenset(holder.agent for holder in role.holders)
        self.call_all()

    def call_all(self) -> None:
        """Wake every claimer."""
        for claimer in self._claimers:
            claimer.event.set()

    # ------------------------------------------------------------------ choosing

    def queues_of(self, agent: str) -> frozenset[str]:
        """The queues that an agent takes from: its own, and those of its roles."""
        return frozenset({agent, *(QUEUE_PREFIX + role for role, agents in self.holders.items() if agent in agents)})

    def channels_of(self, queues: Iterable[str]) -> set[tuple[str, str]]:
        """Queues and channels in which something can be claimed."""
        self._run_timers()
        return {(queue, channel) for queue in queues for channel in list(self._heaps(queue))}

    def ready_in(self, queue: str) -> int:
        """How many jobs of a queue can be claimed, at most: some may have ended."""
        self._run_timers()
        return sum(len(heap) for heap in self._ready.get(queue, {}).values() if self._has_job(heap))

    def reserve(self, places: Iterable[tuple[str, str]]) -> OpenJob | None:
        """The oldest job in these queues and channels. Nobody else of this node gets it, until it is given back."""
        heaps = [
            heap
            for queue, channel in places
            if (heap := self._ready.get(queue, {}).get(channel)) and self._has_job(heap)
        ]
        if not heaps:
            return None
        _, job_id, _ = heappop(min(heaps, key=lambda heap: heap[0]))
        entry = self.jobs[job_id]
        entry.reserved = True
        return entry

    def give_back(self, entry: OpenJob) -> None:
        """A reserved job was not claimed."""
        entry.reserved = False
        if self.jobs.get(entry.id) is entry:
            self._make_ready(entry)

    def next_timer(self) -> float | None:
        """Seconds until a lease or a pause may end; None when there is none."""
        self._run_timers()
        return self._timers[0][0] - self._clock.now().uptime if self._timers else None

    def _heaps(self, queue: str) -> Iterator[str]:
        for channel, heap in list(self._ready.get(queue, {}).items()):
            if self._has_job(heap):
                yield channel

    def _has_job(self, heap: list[tuple[int, str, int]]) -> bool:
        """Whether there is a job at the head of a heap, after dropping what is no longer so."""
        while heap:
            _, job_id, version = heap[0]
            entry = self.jobs.get(job_id)
            if entry is not None and entry.version == version and not entry.reserved:
                return True
            heappop(heap)
        return False

    def _make_ready(self, entry: OpenJob) -> None:
        channels = self._ready.setdefault(entry.queue, {})
        heap = channels.setdefault(entry.channel_id, [])
        heappush(heap, (entry.position, entry.id, entry.version))
        if len(channels) > 1000:  # channels come and go
            for channel in [channel for channel, waiting in channels.items() if not self._has_job(waiting)]:
                del channels[channel]
        self.call_next(entry.queue)

    def _run_timers(self) -> None:
        uptime = self._clock.now().uptime
        while self._timers and self._timers[0][0] <= uptime:
            _, job_id, version = heappop(self._timers)
            entry = self.jobs.get(job_id)
            if entry is not None and entry.version == version:
                entry.expired = entry.state is JobState.CLAIMED
                self._make_ready(entry)
        if len(self._timers) > 2 * len(self.jobs) + 1000:  # leases that were extended, jobs that have ended
            self._timers = [timer for timer in self._timers if self._is_current(timer)]
            heapify(self._timers)

    def _is_current(self, timer: tuple[float, str, int]) -> bool:
        entry = self.jobs.get(timer[1])
        return entry is not None and entry.version == timer[2]

    # ------------------------------------------------------------------ waiting

    def __len__(self) -> int:
        """How many claims wait."""
        return len(self._claimers)

    def enter(self, claimer: Claimer) -> None:
        """Wait for a job, behind those who wait already."""
        self._claimers[claimer] = None

    def leave(self, claimer: Claimer) -> None:
        """Wait no longer. If it was woken for a job that is still there, the next one is."""
        self._claimers.pop(claimer, None)
        if claimer.called:
            self.pass_on(claimer)

    def dismiss(self, process: str) -> None:
        """End the claims of a process that gives its jobs back: its connection may be gone without our knowing."""
        for claimer in [claimer for claimer in self._claimers if claimer.process == process]:
            claimer.dismissed = True
            claimer.event.set()
            del self._claimers[claimer]
            if claimer.called:
                self.pass_on(claimer)

    def pass_on(self, claimer: Claimer) -> None:
        """Wake the next ones for what this claimer has left."""
        claimer.called = False
        for queue in claimer.queues:
            if any(self._heaps(queue)):
                self.call_next(queue, besides=claimer)

    def call_next(self, queue: str, *, besides: Claimer | None = None) -> None:
        """Wake the claimer that has waited longest for a job of this queue."""
        for claimer in self._claimers:
            if claimer is not besides and not claimer.called and queue in claimer.queues:
                claimer.called = True
                claimer.event.set()
                return

    # ------------------------------------------------------------------ counting

    def counts(self) -> dict[str, dict[str, int]]:
        """How many jobs wait and are claimed, and how many were done here since the start, by queue."""
        counts: dict[str, dict[str, int]] = {}
        for entry in self.jobs.values():
            queue = counts.setdefault(entry.queue, {"waiting": 0, "claimed": 0, "done": 0})
            queue["claimed" if entry.state is JobState.CLAIMED and not entry.expired else "waiting"] += 1
        for name, done in self.done.items():
            counts.setdefault(name, {"waiting": 0, "claimed": 0, "done": 0})["done"] = done
        return counts


class Queues:
    """The queues of every tenant that this node has been asked for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tenants: dict[str, TenantQueues] = {}
        # Held while the queues of a tenant are loaded, and while an agent's mail becomes jobs.
        self.lock = asyncio.Lock()
        # Jobs of readers that went away are being released.
        self.releases: set[asyncio.Future[None]] = set()

    def get(self, tenant: str) -> TenantQueues | None:
        """The queues of a tenant, when they are loaded."""
        queues = self._tenants.get(tenant)
        return queues if queues is not None and queues.loaded else None

    def counts(self) -> dict[str, dict[str, int]]:
        """The counts of all tenants together, by queue."""
        totals: dict[str, dict[str, int]] = {}
        for queues in self._tenants.values():
            for name, counts in queues.counts().items():
                total = totals.setdefault(name, dict.fromkeys(counts, 0))
                for state, count in counts.items():
                    total[state] += count
        return totals

    def with_ended_channels(self) -> list[tuple[str, TenantQueues]]:
        """Tenants and queues that may have jobs of channels that have ended."""
        return [(tenant, queues) for tenant, queues in self._tenants.items() if queues.loaded and queues.ended]

    def begin(self, tenant: str) -> TenantQueues:
        """Empty queues, which follow all commits from now on; the caller loads what is there already."""
        queues = self._tenants[tenant] = TenantQueues(self._clock)
        return queues

    def forget(self, tenant: str) -> None:
        """Load the tenant anew next time; those who wait look again at once."""
        queues = self._tenants.pop(tenant, None)
        if queues is not None:
            queues.call_all()

    def publish(self, tenant: str, committed: Committed) -> None:
        """Take a commit into account."""
        queues = self._tenants.get(tenant)
        if queues is None:
            return
        if committed.missed:
            self.forget(tenant)
            return
        for record in committed.puts:
            if isinstance(record, Job):
                queues.put(record)
            elif isinstance(record, Role):
                queues.set_role(record)
        for kind, record_id in committed.dropped:
            if kind == Job.kind:
                queues.remove(record_id)
        if committed.ended:
            queues.ended.update(committed.ended)
