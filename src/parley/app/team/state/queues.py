"""The open jobs of every tenant in memory, in order, and who waits for one.

The store decides: a claim is a commit that replaces one version of the job. This index only says which job to try next,
so that the claimers of this node do not compete for the same one. A lease runs out when this node has seen the same
claim for as long as it was given, by a clock that nobody sets: no server takes a job away because of its wall clock.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from parley.domain.channel.job import Job, JobState
from parley.domain.directory.callers import QUEUE_PREFIX, Role
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.store.changes import Committed
    from parley.ports.mailbox import Clock


# A timer that is due is looked at in a moment, not at once: clocks differ by less than this.
_ALARM_MIN_SECONDS = 0.001


class OpenJob:
    """A job that is waiting or claimed, as this node has last seen it."""

    __slots__ = ("channel_id", "declined", "expired", "id", "position", "queue", "reserved", "state", "version")

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
        # Readers that looked at it and may not have it: they are not woken for it.
        self.declined: set[str] = set()

    @property
    def is_claimed(self) -> bool:
        """Whether a reader has it, whose lease has not run out."""
        return self.state is JobState.CLAIMED and not self.expired


class Claimer:
    """A claim that waits for a job: the queues that it takes from, and how it is woken."""

    __slots__ = ("called", "dismissed", "event", "process", "queues", "reader")

    def __init__(self, event: asyncio.Event, reader: str = "", process: str = "") -> None:
        self.queues: frozenset[str] = frozenset()
        self.event = event
        # Decides which jobs it may have: the agent, and the intent that it claims for.
        self.reader = reader
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
        # Looks at the timers when the first of them ends, and when that was expected. Set while claims wait.
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf
        self.holders: dict[str, frozenset[str]] = {}
        # In the order in which they came.
        self._claimers: dict[Claimer, None] = {}
        self.done: dict[str, int] = {}
        # Channels that have ended, whose jobs have to be dropped.
        self.ended: set[str] = set()
        # Whether everything that was there before is in it.
        self.loaded = False
        # How often a commit has changed a job.
        self.changes = 0

    # ------------------------------------------------------------------ what is committed

    def put(self, job: Job) -> None:
        """Take a version of a job into account; an older one changes nothing."""
        self.changes += 1
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
            self._set_alarm()
        else:
            self._make_ready(entry)

    def remove(self, job_id: str) -> None:
        """The job has ended. If somebody had it, that one has done it."""
        self.changes += 1
        entry = self.jobs.pop(job_id, None)
        if entry is not None and entry.is_claimed:
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
        return {(queue, channel) for queue in queues for channel in self._heaps(queue)}

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

    def give_back(self, entry: OpenJob, *, declined_by: str = "") -> None:
        """A reserved job was not claimed; perhaps because its reader may not have it."""
        entry.reserved = False
        if declined_by:
            entry.declined.add(declined_by)
        if self.jobs.get(entry.id) is entry:
            self._make_ready(entry)

    def _heaps(self, queue: str) -> dict[str, list[tuple[int, str, int]]]:
        """By channel: the heaps of a queue in which there is a job."""
        return {channel: heap for channel, heap in self._ready.get(queue, {}).items() if self._has_job(heap)}

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
        self._call_next(entry)

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

    def _set_alarm(self) -> None:
        """Have the timers looked at when the next one ends, while claims wait: that wakes them for what is ready."""
        if not self._claimers or not self._timers or self._timers[0][0] >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = self._timers[0][0]
        pause = max(self._alarm_at - self._clock.now().uptime, _ALARM_MIN_SECONDS)
        self._alarm = asyncio.get_running_loop().call_later(pause, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, inf
        self._run_timers()
        self._set_alarm()

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
        self._set_alarm()

    def leave(self, claimer: Claimer) -> None:
        """Wait no longer. If it was woken for a job that is still there, the next one is."""
        self._claimers.pop(claimer, None)
        if claimer.called:
            claimer.called = False
            self._call_others(claimer)

    def dismiss(self, process: str) -> None:
        """End the claims of a process that gives its jobs back: its connection may be gone without our knowing."""
        for claimer in [claimer for claimer in self._claimers if claimer.process == process]:
            claimer.dismissed = True
            claimer.event.set()
            self.leave(claimer)

    def pass_on(self, claimer: Claimer) -> None:
        """Wake the next ones for what this claimer may not have; it is not woken for that again."""
        claimer.called = False
        for entry in self._call_others(claimer):
            entry.declined.add(claimer.reader)

    def _call_others(self, claimer: Claimer) -> list[OpenJob]:
        """Wake others for the oldest jobs of this claimer's queues; those jobs."""
        heads = [self.jobs[heap[0][1]] for queue in claimer.queues for heap in self._heaps(queue).values()]
        for entry in heads:
            self._call_next(entry, claimer)
        return heads

    def _call_next(self, entry: OpenJob, besides: Claimer | None = None) -> None:
        """Wake the claimer that has waited longest for a job. One that is awake looks again: it may have missed it."""
        for claimer in self._claimers:
            if claimer is besides or entry.queue not in claimer.queues or claimer.reader in entry.declined:
                continue
            claimer.event.set()
            if not claimer.called:
                claimer.called = True
                return

    # ------------------------------------------------------------------ counting

    def counts(self) -> dict[str, dict[str, int]]:
        """How many jobs wait and are claimed, and how many were done here since the start, by queue."""
        counts: dict[str, dict[str, int]] = {}
        for entry in self.jobs.values():
            queue = counts.setdefault(entry.queue, {"waiting": 0, "claimed": 0, "done": 0})
            queue["claimed" if entry.is_claimed else "waiting"] += 1
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
