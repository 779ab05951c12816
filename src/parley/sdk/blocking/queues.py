# Written by tools/gen_client.py from sdk/client/queues.py. Change that, then run: make docs
"""Queues: claim jobs, keep them, end them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.sdk.blocking.area import Area
from parley.wire.api.records.queues import ClaimedJob, Job

if TYPE_CHECKING:
    from typing import Any

# How much longer than the server we wait for a job that it may hold back.
_GRACE_SECONDS = 15.0


class Queues(Area):
    """What a client does with queues."""

    def claim_jobs(
        self,
        agent_id: str,
        *,
        max: int = 1,  # noqa: A002  # as the field is called
        wait: float = 0,
        lease_seconds: float = 30,
    ) -> list[ClaimedJob]:
        """Claim the oldest jobs that wait for an agent: in its own queue, and in those of its roles (`any:ROLE`).

        `wait` is how many seconds the server may wait for the first one. A job is yours until its lease ends: extend it
        with `extend_job`, answer a request with `reply_to(..., lease=job.lease)`, or end it with `finish_job`.
        """
        body = {"max": max, "wait": wait, "lease_seconds": lease_seconds}
        path = ("agents", agent_id, "claims")
        timeout = wait + _GRACE_SECONDS if wait else 0.0
        return self._fetch(list[ClaimedJob], "POST", *path, body=body, timeout=timeout)

    def extend_job(self, agent_id: str, job_id: str, lease: str, *, lease_seconds: float = 30) -> Job:
        """Count the lease of a job from now. Raises `LeaseLost` when somebody else has it by now, or it has ended."""
        return self._change_job(agent_id, job_id, lease, status="claimed", lease_seconds=lease_seconds)

    def finish_job(self, agent_id: str, job_id: str, lease: str) -> Job:
        """End a job that needs no answer."""
        return self._change_job(agent_id, job_id, lease, status="done")

    def release_job(self, agent_id: str, job_id: str, lease: str) -> Job:
        """Give a job back at once, as if you had not claimed it."""
        return self._change_job(agent_id, job_id, lease, status="released")

    def fail_job(self, agent_id: str, job_id: str, lease: str, error: str, *, retry_in: float | None = None) -> Job:
        """Give a job back that you could not do: it waits `retry_in` seconds, or becomes a dead letter without them."""
        return self._change_job(agent_id, job_id, lease, status="failed", error=error, retry_in=retry_in)

    def _change_job(self, agent_id: str, job_id: str, lease: str, **changes: Any) -> Job:  # noqa: ANN401  # fields
        body = {"lease": lease, **changes}
        return self._fetch(Job, "PATCH", "agents", agent_id, "claims", job_id, body=body)
