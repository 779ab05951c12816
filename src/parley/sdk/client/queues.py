"""Queues: claim jobs, keep them, end them; dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import without_none
from parley.wire.api.records.queues import ClaimedJob, DeadLetter, Job, QueueCounts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# How much longer than the server we wait for a job that it may hold back.
_GRACE_SECONDS = 15.0


class AsyncQueues(AsyncArea):
    """What a client does with queues."""

    async def claim_jobs(  # noqa: PLR0913  # the fields of a claim
        self,
        agent_id: str,
        *,
        max: int = 1,  # noqa: A002  # as the field is called
        wait: float = 0,
        lease_seconds: float = 30,
        shared: bool = False,
        start: str | None = None,
        process: str | None = None,
        intent_id: str | None = None,
        done: Iterable[ClaimedJob] = (),
    ) -> list[ClaimedJob]:
        """Claim the oldest jobs that wait for an agent: in its own queue, and in those of its roles (`any:ROLE`).

        `wait` is how many seconds the server may wait for the first one. A job is yours until its lease ends: extend it
        with `extend_job`, answer a request with `reply_to(..., lease=job.lease)`, or end it with `finish_job`.

        With `shared` the processes of the agent share its mail: everything that is for the agent becomes a job, from
        `start` on when none of them was there before. `process` names yours, so that a claim of it that still waits
        does not take what it gives back. With `intent_id` only jobs of this intent are claimed.

        `done` are jobs of yours that need no answer: they end in the same commit, as by `finish_job`, which saves a
        round trip for each job. One that has ended already is passed over; when somebody else has one by now, this
        raises `LeaseLost`, and nothing is claimed.
        """
        body = {"max": max, "wait": wait, "lease_seconds": lease_seconds}
        ended = [{"id": job.id, "lease": job.lease} for job in done]
        body |= without_none(
            shared=shared or None, start=start, process=process, intent_id=intent_id, done=ended or None
        )
        path = ("agents", agent_id, "claims")
        timeout = wait + _GRACE_SECONDS if wait else 0.0
        return await self._fetch(list[ClaimedJob], "POST", *path, body=body, timeout=timeout)

    async def extend_job(self, agent_id: str, job_id: str, lease: str, *, lease_seconds: float = 30) -> Job:
        """Count the lease of a job from now. Raises `LeaseLost` when somebody else has it by now, or it has ended."""
        return await self._change_job(agent_id, job_id, lease, status="claimed", lease_seconds=lease_seconds)

    async def finish_job(self, agent_id: str, job_id: str, lease: str) -> Job:
        """End a job that needs no answer."""
        return await self._change_job(agent_id, job_id, lease, status="done")

    async def release_job(self, agent_id: str, job_id: str, lease: str) -> Job:
        """Give a job back at once, as if you had not claimed it."""
        return await self._change_job(agent_id, job_id, lease, status="released")

    async def fail_job(
        self, agent_id: str, job_id: str, lease: str, error: str, *, retry_in: float | None = None
    ) -> Job:
        """Give a job back that you could not do: it waits `retry_in` seconds, or becomes a dead letter without them."""
        return await self._change_job(agent_id, job_id, lease, status="failed", error=error, retry_in=retry_in)

    async def _change_job(self, agent_id: str, job_id: str, lease: str, **changes: Any) -> Job:  # noqa: ANN401  # fields
        body = {"lease": lease, **changes}
        return await self._fetch(Job, "PATCH", "agents", agent_id, "claims", job_id, body=body)

    async def count_queues(self) -> list[QueueCounts]:
        """How many jobs each queue has: waiting, claimed, done and dead."""
        return await self._fetch(list[QueueCounts], "GET", "queues")

    async def list_dead(
        self, queue: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[DeadLetter]:
        """Dead letters: what nobody could deal with. `queue` is `any:ROLE`, or an agent."""
        query = without_none(queue=queue, after=after, limit=limit)
        return await self._fetch(list[DeadLetter], "GET", "dead", query=query)

    async def get_dead(self, job_id: str) -> DeadLetter:
        """A dead letter with its message."""
        return await self._fetch(DeadLetter, "GET", "dead", job_id)

    async def retry_dead(self, job_id: str) -> Job:
        """Put a dead letter back into its queue."""
        return await self._fetch(Job, "POST", "dead", job_id, "retry")

    async def drop_dead(self, job_id: str) -> None:
        """Delete a dead letter; its message stays in its channel."""
        await self._tell("DELETE", "dead", job_id)

    async def report_dead(self, agent_id: str, position: int, error: str, *, attempts: int = 1) -> Job:
        """Record that an agent could not deal with what is at a position of its stream."""
        body = {"position": position, "error": error, "attempts": attempts}
        return await self._fetch(Job, "POST", "agents", agent_id, "dead", body=body)
