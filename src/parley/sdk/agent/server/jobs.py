"""The jobs that a process of an agent has claimed: their leases are extended until they end.

A lease counts here from the moment before it was asked for, so it ends here before it ends at the server; a claim waits
for half a lease at most. When it cannot be extended in time, or the server says that it is lost, the handler is
cancelled: another reader may have the job.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Conflict, LeaseLost, NotFound, ParleyError
from parley.sdk.agent.logs import log_event
from parley.sdk.agent.workplace import JobLease
from parley.sdk.protocol.refusal import is_temporary
from parley.sdk.protocol.retry import retry_while_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from parley.sdk.agent.agent import Plan
    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.channels import ChannelMessage
    from parley.wire.api.records.queues import ClaimedJob, Job

_QUEUE = "any:"
_WAIT_MAX_SECONDS = 30.0
_RETRY_SECONDS = 0.5
# A lease is extended three times before it would end.
_EXTENDED_AFTER = 1 / 3
_AT_ONCE_MAX = 100
# Enough for one more try; then the lease ends by itself.
_RELEASE_SECONDS = 5.0

_log = logging.getLogger("parley.agent")


class ClaimedJobs:
    """The jobs of one process."""

    def __init__(self, client: AsyncClient, plan: Plan, process: str) -> None:
        self._client = client
        self._process = process
        self._plan = plan
        # By the id of the message.
        self._leases: dict[str, JobLease] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def claim(self, most: int, intent_id: str | None = None) -> list[tuple[ClaimedJob, JobLease]]:
        """Wait for jobs, of one intent or of all; none when none came for a while."""
        plan = self._plan
        sent = _now()
        jobs = await self._client.claim_jobs(
            plan.name,
            max=min(most, _AT_ONCE_MAX),
            wait=min(_WAIT_MAX_SECONDS, plan.lease / 2),
            lease_seconds=plan.lease,
            shared=plan.shared,
            start=plan.start if plan.shared else None,
            process=self._process,
            intent_id=intent_id,
        )
        return [(job, self._hold(job, sent)) for job in jobs]

    def _hold(self, job: ClaimedJob, sent: float) -> JobLease:
        lease = JobLease(job.id, job.item_id, job.lease, job.attempts)
        self._leases[job.item_id] = lease
        self._tasks[job.item_id] = asyncio.create_task(self._extend(lease, sent + job.lease_seconds))
        return lease

    def lease_of(self, message_id: str) -> str | None:
        """The lease of a message, if this process has claimed it."""
        lease = self._leases.get(message_id)
        return lease.lease if lease is not None else None

    async def _extend(self, lease: JobLease, until: float) -> None:
        seconds = self._plan.lease
        pause = (until - _now()) * _EXTENDED_AFTER
        while True:
            await asyncio.sleep(max(0.0, min(pause, until - _now())))
            sent = _now()
            try:
                if sent >= until:
                    raise LeaseLost("the lease could not be extended in time")
                async with asyncio.timeout(until - sent):
                    await self._client.extend_job(self._plan.name, lease.id, lease.lease, lease_seconds=seconds)
            except TimeoutError:
                pause = 0.0
            except ParleyError as error:
                if not is_temporary(error):
                    self._lose(lease, error)
                    return
                pause = _RETRY_SECONDS
            else:
                until, pause = sent + seconds, seconds * _EXTENDED_AFTER

    def _lose(self, lease: JobLease, error: ParleyError) -> None:
        self._leases.pop(lease.message_id, None)
        self._tasks.pop(lease.message_id, None)
        if lease.ended:
            return
        lease.ended = True
        text = "lost a job, and cancels its handler"
        log_event(_log, self._plan.name, "agent_job_lost", text, str(error), message_id=lease.message_id)
        if lease.on_lost is not None:
            lease.on_lost()

    def answered(self, message_id: str) -> None:
        """The response has ended the job."""
        lease = self._leases.get(message_id)
        if lease is not None:
            lease.ended = True

    async def finish(self, lease: JobLease, problem: str = "") -> None:
        """End a job; with a problem it becomes a dead letter."""
        which = (self._plan.name, lease.id, lease.lease)
        try:
            if not lease.ended:
                await self._retry(
                    lambda: self._client.fail_job(*which, problem) if problem else self._client.finish_job(*which)
                )
        except (Conflict, NotFound) as error:
            if not isinstance(error, LeaseLost) or problem:
                log_event(_log, self._plan.name, "agent_job_lost", "a job was not its own any more", str(error))
        finally:
            self._forget(lease)

    async def retry_later(self, lease: JobLease, error: str, pause: float) -> None:
        """Give a job back, to be tried again after a pause, by this process or by another."""
        which = (self._plan.name, lease.id, lease.lease)
        try:
            await self._retry(lambda: self._client.fail_job(*which, error, retry_in=pause))
        except (Conflict, NotFound) as refusal:
            log_event(_log, self._plan.name, "agent_job_lost", "a job was not its own any more", str(refusal))
        finally:
            self._forget(lease)

    async def report_dead(self, position: int, problem: str, attempts: int) -> None:
        """Record that what is at a position of the agent's stream could not be dealt with."""
        try:
            await self._retry(lambda: self._client.report_dead(self._plan.name, position, problem, attempts=attempts))
        except ParleyError as error:
            text = "the server refused a dead letter"
            log_event(_log, self._plan.name, "agent_report_refused", text, str(error), position=position)

    async def release(self, lease: JobLease) -> None:
        """Give a job back as if it had not been claimed. Otherwise its lease runs out."""
        self._forget(lease)
        if lease.ended:
            return
        lease.ended = True
        with suppress(ParleyError, TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._client.release_job(self._plan.name, lease.id, lease.lease)

    async def release_all(self) -> None:
        """Give everything back that has not ended."""
        await asyncio.gather(*[self.release(lease) for lease in list(self._leases.values())])

    async def _retry(self, action: Callable[[], Awaitable[Job]]) -> None:
        def log_retry(error: ParleyError) -> None:
            log_event(_log, self._plan.name, "agent_job_late", "the end of a job waits for the server", str(error))

        await retry_while_unavailable(action, log_retry, _RETRY_SECONDS)

    def _forget(self, lease: JobLease) -> None:
        self._leases.pop(lease.message_id, None)
        task = self._tasks.pop(lease.message_id, None)
        if task is not None:
            task.cancel()


def is_queued(message: ChannelMessage) -> bool:
    """Whether a message is for any holder of a role: only who claimed it has it."""
    return (message.to or "").startswith(_QUEUE)


def _now() -> float:
    return asyncio.get_running_loop().time()
