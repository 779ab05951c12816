"""What waits for an agent: its own mail as jobs, what it has claimed, and how much is in the queues of its roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.agents import check_changes
from parley.app.team.queues import claims, sharing
from parley.app.team.queues.claims import ClaimedItem, item_of, queues_of
from parley.domain.channel.bookmark import Start
from parley.domain.channel.job import Job, JobState, job_id
from parley.domain.channel.post import HANDED_MARK, Receipt
from parley.domain.directory.callers import TENANT_MARK
from parley.domain.errors.errors import Invalid, LeaseLost, NotFound
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.state.queues import OpenJob
    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller

# Separates the end of a message's id from the beginning of the lease under which it was claimed.
_LEASE_MARK = "."
_SHORT_CHARS = 4


class WaitingItems(NamedTuple):
    """Open jobs of an agent, oldest first; how many more it has, and how many any holder of its roles may claim."""

    items: list[ClaimedItem]
    left_out: int
    in_roles: int


async def list_waiting(team: Team, caller: Caller, most: int) -> WaitingItems:
    """What waits for the agent of the caller, or is claimed by it."""
    agent = caller.agent
    await check_changes(team, caller, agent)
    await sharing.enqueue_mail(team, caller, agent, Start.BEGINNING, most, unread=True)
    own = [entry for entry in await _entries_of(team, caller) if entry.queue == agent]
    jobs = [job for entry in own[:most] if (job := await team.store.get(Job, caller.tenant, entry.id)) is not None]
    jobs += [job for job in await _claimed(team, caller) if job.is_role_queue]
    items = [ClaimedItem(job, item) for job in jobs if (item := await item_of(team, job)) is not None]
    in_roles = [entry for entry in await _entries_of(team, caller) if entry.queue != agent and not entry.is_claimed]
    return WaitingItems(items, max(0, len(own) - most), len(in_roles))


async def find_claimed(team: Team, caller: Caller, ref: str) -> ClaimedItem:
    """The message that the agent has claimed and that `ref` names, as `short_ref` does; "": the only one."""
    await check_changes(team, caller, caller.agent)
    end, _, lease = ref.partition(_LEASE_MARK)
    jobs = [job for job in await _claimed(team, caller) if not end or _is_named(job.item_id, end)]
    if len(jobs) > 1:
        text = f"{end[:64]} names several messages" if end else "you have taken several messages"
        raise Invalid(text, hint="give the id of one")
    if not jobs and lease:
        raise LeaseLost(f"{end[:64]} is no longer yours: it has ended, or your time for it has")
    if not jobs:
        raise NotFound(f"you have not taken {end[:64] or 'a message'}", hint="take one with next")
    if lease and not jobs[0].lease.endswith(lease):
        raise LeaseLost(f"{end[:64]} is no longer yours: your time for it ended, and it was taken again")
    item = await item_of(team, jobs[0])
    if item is None:
        raise LeaseLost("there is nothing left to do: the message has expired, or its channel is closed")
    return ClaimedItem(jobs[0], item)


async def find_open(team: Team, caller: Caller, ref: str) -> ClaimedItem | None:
    """The message in the agent's own queue, or claimed by it, that `ref` names; None when there is none."""
    await check_changes(team, caller, caller.agent)
    end, _, _ = ref.partition(_LEASE_MARK)
    entries = [entry for entry in await _entries_of(team, caller) if _is_named(_item_id(entry), end)]
    jobs = [await team.store.get(Job, caller.tenant, entry.id) for entry in entries]
    own = [job for job in jobs if job is not None and (not job.is_role_queue or job.holder == caller.agent)]
    if len(own) > 1:
        raise Invalid(f"{end[:64]} names several messages", hint="give the whole id")
    item = await item_of(team, own[0]) if own else None
    return ClaimedItem(own[0], item) if item is not None else None


async def confirm(team: Team, caller: Caller, ref: str, job: Job) -> None:
    """Note that the agent has the message, if `ref` ends with the lease under which it has claimed it."""
    lease = ref.partition(_LEASE_MARK)[2]
    if lease and job.holder == caller.agent and job.lease.endswith(lease) and not job.received:
        await claims.confirm(team, caller, caller.agent, job.id, job.lease)


async def short_ref(team: Team, caller: Caller, job: Job) -> str:
    """A name for a message in the queues of an agent: the end of its id, and of a claimed one that of its lease."""
    end = job.item_id[-_SHORT_CHARS:]
    same = [entry for entry in await _entries_of(team, caller) if _item_id(entry).endswith(end)]
    ref = end if len(same) <= 1 else job.item_id
    return f"{ref}{_LEASE_MARK}{job.lease[-_SHORT_CHARS:]}" if job.lease else ref


async def finish_answer(team: Team, caller: Caller, answer: Post) -> None:
    """The agent has got an answer that it waited for: it counts as read, and is not handed out again."""
    job = await team.store.get(Job, caller.tenant, job_id(answer.id, caller.agent))
    drops = (job,) if job is not None and job.state is JobState.WAITING else ()
    # Nobody knows yet whether it arrives: the mark keeps it from counting as acknowledged.
    receipts = [Receipt(answer.id, name, team.at()) for name in (caller.agent, caller.agent + HANDED_MARK)]
    await team.commit(caller, TeamChanges(caller.tenant, drops=drops, receipts=tuple(receipts)))


async def _entries_of(team: Team, caller: Caller) -> list[OpenJob]:
    """The open jobs in the queues of an agent, oldest first."""
    queues = await queues_of(team, caller.tenant)
    names = queues.queues_of(caller.agent)
    return sorted([entry for entry in queues.jobs.values() if entry.queue in names], key=lambda entry: entry.position)


async def _claimed(team: Team, caller: Caller) -> list[Job]:
    """The jobs that an agent has claimed, oldest first."""
    entries = [entry for entry in await _entries_of(team, caller) if entry.state is JobState.CLAIMED]
    jobs = [await team.store.get(Job, caller.tenant, entry.id) for entry in entries]
    return [job for job in jobs if job is not None and job.holder == caller.agent]


def _item_id(entry: OpenJob) -> str:
    return entry.id.partition(TENANT_MARK)[0]


def _is_named(item_id: str, end: str) -> bool:
    return item_id == end or (len(end) >= _SHORT_CHARS and item_id.endswith(end))
