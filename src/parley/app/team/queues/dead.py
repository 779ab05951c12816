"""Dead letters: jobs that nobody could finish. They are listed, looked at, retried and dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.posting import check_present
from parley.app.team.channels.unanswered import with_failures
from parley.app.team.directory.agents import check_changes
from parley.app.team.queues.claims import queues_of
from parley.app.team.retry import committed, put
from parley.app.team.rules import in_force as rules
from parley.domain.channel.channel import Channel, reaches
from parley.domain.channel.job import DEAD, LOST_READERS_MAX, Job, JobState, buried, job_of, retried
from parley.domain.directory.access import Access
from parley.domain.directory.callers import Role, role_of
from parley.domain.errors.errors import Conflict, NotFound
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller

_PAGE = 500
_ATTEMPTS_SHOWN_MAX = 1_000_000


class LetterWithMessage(NamedTuple):
    """A dead letter, and its message as far as that is still kept."""

    job: Job
    post: Post | None = None


async def report(team: Team, caller: Caller, agent_id: str, position: int, error: str, attempts: int) -> Job:
    """Record that an agent could not deal with something that was for it; repeating it changes nothing."""
    await check_changes(team, caller, agent_id)
    await check_present(team, caller.tenant, agent_id)
    items, _ = await team.store.read_positions(caller.tenant, (position,))
    if not items:
        raise NotFound("nothing is kept at this position")
    job = job_of(caller.tenant, items[0], agent_id, team.at())
    post = items[0].post
    if post is not None and post.recipients is not None and agent_id not in post.recipients:
        raise NotFound("nothing is kept at this position")

    async def decide() -> TeamChanges:
        before = await team.store.get(Job, caller.tenant, job.id)
        tried = replace(job, version=before.version if before else 0, attempts=min(attempts, _ATTEMPTS_SHOWN_MAX))
        letter = buried(tried, error, team.now())
        return await with_failures(team, TeamChanges(caller.tenant, puts=(letter,), created_id=job.id), letter)

    return await put(team, caller, decide, Job, "dead letter")


async def list_page(team: Team, caller: Caller, queue: str, after: str, limit: int) -> AsyncIterator[LetterWithMessage]:
    """Up to `limit` dead letters that the caller may see, oldest id first, after one; read as they are taken."""
    left = limit
    while page := await team.store.children(Job, caller.tenant, DEAD, after=after, limit=_PAGE):
        after = page[-1].id
        for job in page:
            if (not queue or job.queue == queue) and await _may_see(team, caller, job):
                yield await _with_message(team, caller, job)
                left -= 1
                if not left:
                    return


async def get(team: Team, caller: Caller, job_id: str) -> LetterWithMessage:
    """One dead letter."""
    return await _with_message(team, caller, await _letter(team, caller, job_id))


async def retry(team: Team, caller: Caller, job_id: str) -> Job:
    """Put a dead letter back into its queue, as a new job."""
    letter = await get(team, caller, job_id)
    if letter.job.channel_id and (letter.post is None or letter.post.over(team.at())):
        raise Conflict("its message has expired or is no longer kept", hint="drop the dead letter, and send it again")

    async def decide() -> TeamChanges:
        again = retried(await _letter(team, caller, job_id), team.now())
        return TeamChanges(caller.tenant, puts=(replace(again, error=""),))

    return await put(team, caller, decide, Job, "dead letter")


async def drop(team: Team, caller: Caller, job_id: str) -> None:
    """Delete a dead letter; its message stays in its channel."""

    async def decide() -> TeamChanges:
        return TeamChanges(caller.tenant, drops=(await _letter(team, caller, job_id),))

    await committed(team, caller, decide, "dead letter")


async def count(team: Team, caller: Caller) -> dict[str, dict[str, int]]:
    """How many jobs each queue has, by state; of the queues that the caller may see."""
    counts = (await queues_of(team, caller.tenant)).counts()
    after = ""
    while page := await team.store.children(Job, caller.tenant, DEAD, after=after, limit=_PAGE):
        after = page[-1].id
        for job in page:
            queue = counts.setdefault(job.queue, {"waiting": 0, "claimed": 0, "done": 0})
            queue["dead"] = queue.get("dead", 0) + 1
    own = (await queues_of(team, caller.tenant)).queues_of(caller.agent)
    return {name: {"dead": 0, **states} for name, states in sorted(counts.items()) if caller.all_seeing or name in own}


async def _letter(team: Team, caller: Caller, job_id: str) -> Job:
    job = await team.store.get(Job, caller.tenant, job_id)
    if job is None or job.state is not JobState.DEAD or not await _may_see(team, caller, job):
        raise NotFound("no such dead letter")
    return job


async def _may_see(team: Team, caller: Caller, job: Job) -> bool:
    """Whether it is the caller's: it said it, or it would have to deal with it. A key of the whole tenant sees all."""
    return caller.agent == job.sender or await _may_process(team, caller, job)


async def _may_process(team: Team, caller: Caller, job: Job) -> bool:
    if caller.all_seeing or caller.agent == job.queue:
        return True
    role = await team.store.get(Role, caller.tenant, role_of(job.queue)) if job.is_role_queue else None
    if role is None or not role.held_by(caller.agent) or caller.agent not in job.eligible:
        return False
    channel = await team.store.get(Channel, caller.tenant, job.channel_id)
    access = await team.store.get(Access, caller.tenant, channel.intent_id) if channel is not None else None
    if channel is None or access is None:
        return False
    unit = (await rules.units_of(team, access, (caller.agent,))).get(caller.agent, "")
    return reaches(channel, access, caller.agent, team.at(), unit)


async def _with_message(team: Team, caller: Caller, job: Job) -> LetterWithMessage:
    # What a reader wrote about its failure was judged for nobody: the sender may be of another org unit.
    if job.lost_readers < LOST_READERS_MAX and not await _may_process(team, caller, job):
        job = replace(job, error="")
    if not job.channel_id:
        return LetterWithMessage(job)
    return LetterWithMessage(job, await team.store.post(job.tenant_id, job.item_id, evicted=True))
