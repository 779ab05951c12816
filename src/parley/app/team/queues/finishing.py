"""The end of jobs that need no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.channels.unanswered import with_failures
from parley.domain.channel.job import Job, check_lease
from parley.domain.channel.post import DONE_MARK, Receipt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parley.app.team.team import Team
    from parley.domain.store.changes import TeamChanges


async def find_unfinished(team: Team, tenant: str, agent_id: str, leases: Mapping[str, str]) -> list[Job]:
    """Those of these jobs, by id with their leases, that have not ended. `LeaseLost` when somebody else has one."""
    jobs = [(await team.store.get(Job, tenant, job_id), lease) for job_id, lease in leases.items()]
    return [check_lease(job, agent_id, lease) for job, lease in jobs if job is not None]


async def with_finished(team: Team, changes: TeamChanges, agent_id: str, jobs: Sequence[Job]) -> TeamChanges:
    """The changes, and the end of these jobs: their messages count as read, and whoever asked gets an error."""
    names = (agent_id, agent_id + DONE_MARK)
    receipts = tuple([Receipt(job.item_id, name, team.at()) for job in jobs if job.channel_id for name in names])
    changes = changes._replace(drops=(*changes.drops, *jobs), receipts=(*changes.receipts, *receipts))
    # Who was asked by name may still answer, without a lease.
    return await with_failures(team, changes, *[job for job in jobs if job.is_role_queue])
