"""Claims: one of several readers takes a job, keeps it by a lease, and ends it.

the index: the oldest job that this agent may have ──> one commit: its version, the lease ──> the reader
                ^ woken by commits of any node, by a lease that ran out, by a pause that ended
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.posting import check_present
from parley.app.team.channels.streams import Followed, is_visible
from parley.app.team.directory.agents import check_changes
from parley.app.team.directory.keys import check_key
from parley.app.team.directory.participants import participation
from parley.app.team.directory.roles import is_kept_from, unconcerned
from parley.app.team.queues import sharing
from parley.app.team.retry import committed
from parley.app.team.rules import in_force as rules
from parley.app.team.state.queues import Claimer
from parley.app.team.state.tail import of_agent
from parley.app.team.system_posts import is_alive
from parley.app.team.team import ATTEMPTS
from parley.domain.channel.bookmark import Start
from parley.domain.channel.channel import Channel
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.job import (
    DEAD,
    OPEN,
    Job,
    buried,
    check_lease,
    claimed,
    extended,
    failed,
    released,
    why_dead,
)
from parley.domain.channel.participation import takes_part
from parley.domain.channel.post import Receipt
from parley.domain.directory.access import Access
from parley.domain.directory.callers import Caller, KeyKind, Role, created_ids, ids_created, role_of
from parley.domain.errors.errors import Conflict, LeaseLost, ParleyError, Stale
from parley.domain.record import expecting
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from parley.app.team.state.queues import OpenJob, TenantQueues
    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.record import Expect
    from parley.domain.store.changes import Committed

_PAGE = 1_000


class ClaimWish(NamedTuple):
    """How many jobs a reader takes at once, for how long, and how long it waits for the first.

    `shared`: the processes of the agent share its mail, from `start` on when none of them was there before. `process`
    names the one that asks: when it gives a job back, its claims that wait end.
    """

    most: int = 1
    lease_seconds: float = 30.0
    wait: float = 0.0
    shared: bool = False
    start: Start = Start.UNANSWERED
    process: str = ""


class ClaimedItem(NamedTuple):
    """A job, and the message or event that it is about."""

    job: Job
    item: FeedItem


async def queues_of(team: Team, tenant: str) -> TenantQueues:
    """The queues of a tenant, loaded from the store the first time."""
    queues = team.queues.get(tenant)
    if queues is not None:
        return queues
    async with team.queues.lock:
        queues = team.queues.get(tenant)
        if queues is not None:
            return queues
        queues = team.queues.begin(tenant)
        after = ""
        while page := await team.store.children(Job, tenant, OPEN, after=after, limit=_PAGE):
            after = page[-1].id
            for job in page:
                queues.put(job)
        for role in await team.store.children(Role, tenant, ""):
            if role.id not in queues.holders:
                queues.set_role(role)
        for channel_id in {job.channel_id for job in queues.jobs.values()}:
            channel = await team.store.get(Channel, tenant, channel_id)
            if channel is None or not channel.is_open:
                queues.ended.add(channel_id)
        queues.loaded = True
        return queues


async def claim(team: Team, caller: Caller, agent_id: str, wish: ClaimWish) -> list[ClaimedItem]:
    """The oldest jobs that an agent may have; waits for the first one. None when the time is over."""
    await check_changes(team, caller, agent_id)
    await check_present(team, caller.tenant, agent_id)
    loop = asyncio.get_running_loop()
    until = loop.time() + wish.wait
    # Woken by messages to the agent, by changes of rights, and when the server stops.
    listener = team.tail.listen(of_agent(caller.tenant, agent_id))
    claimer = Claimer(listener.event, f"{agent_id} {wish.process}" if wish.process else "")
    queues = await queues_of(team, caller.tenant)
    queues.enter(claimer)
    try:
        while True:
            listener.take()
            if claimer.dismissed:
                return []
            if (current := await queues_of(team, caller.tenant)) is not queues:
                queues = current
                queues.enter(claimer)
            if wish.shared:
                await sharing.enqueue_mail(team, caller, agent_id, wish.start, wish.most)
            claimer.queues = queues.queues_of(agent_id)
            items = await _take(team, caller, agent_id, wish, queues, claimer)
            if not items:
                await _check_key_unused(team, caller)
            left = until - loop.time()
            if items or left <= 0 or team.tail.closing:
                return items
            if claimer.called:
                queues.pass_on(claimer)
            timer = queues.next_timer()
            with suppress(TimeoutError):
                async with asyncio.timeout(left if timer is None else min(left, max(timer, 0.001))):
                    await listener.event.wait()
            await check_key(team, caller)  # it may have been revoked during the wait
    finally:
        queues.leave(claimer)
        team.tail.leave(listener)


async def _check_key_unused(team: Team, caller: Caller) -> None:
    """Refuse a repeated claim as stale. One that gets nothing commits nothing, so no commit would find the key used."""
    if caller.saved is not None and await team.store.saved(caller.saved.scope) is not None:
        raise Stale("this claim was carried out before")


async def _take(
    team: Team, caller: Caller, agent_id: str, wish: ClaimWish, queues: TenantQueues, claimer: Claimer
) -> list[ClaimedItem]:
    """Claim what there is now; again when another node was faster."""
    for _ in range(ATTEMPTS):
        expects: list[Expect] = []
        places = await _places(team, caller.tenant, agent_id, queues, claimer.queues, expects)
        entries = await _reserve(team, caller.tenant, agent_id, wish.most, queues, places, expects)
        if not entries:
            return []
        try:
            items, ended = await _commit(team, caller, agent_id, wish, queues, entries, expects)
        except Stale as stale:
            if "kind" not in stale.facts:
                raise  # the idempotency key, not a record
            continue
        if items or not ended:
            return items
    raise Conflict("the queue changes too often at this moment", hint="try again")


async def _places(
    team: Team, tenant: str, agent: str, queues: TenantQueues, names: Iterable[str], expects: list[Expect]
) -> set[tuple[str, str]]:
    """Queues and channels from which an agent may take, and what that depends on."""
    places = set()
    for queue, channel_id in queues.channels_of(names):
        role_id = role_of(queue)
        if not role_id:
            places.add((queue, channel_id))
            continue
        role = await team.store.get(Role, tenant, role_id)
        channel = await team.store.get(Channel, tenant, channel_id)
        access = await team.store.get(Access, tenant, channel.intent_id) if channel is not None else None
        if channel is None or access is None or not channel.is_open:
            places.add((queue, channel_id))  # nobody gets these: they are dropped
            continue
        unit = (await rules.units_of(team, access, (agent,), expects)).get(agent, "")
        joined = await participation(team, access, agent) is not None
        if (
            role is not None
            and role.held_by(agent)
            and takes_part(channel, access, agent, team.at(), unit, joined=joined)
        ):
            places.add((queue, channel_id))
            expects += (expecting(role), expecting(channel), expecting(access))
    return places


async def _reserve(
    team: Team,
    tenant: str,
    agent: str,
    most: int,
    queues: TenantQueues,
    places: set[tuple[str, str]],
    expects: list[Expect],
) -> list[OpenJob]:
    """The next jobs that the rules let this agent have, and what that depends on."""
    entries: list[OpenJob] = []
    refused: list[OpenJob] = []
    allowed: dict[tuple[str, bool], bool] = {}
    try:
        while len(entries) < most and (entry := queues.reserve(places)) is not None:
            entries.append(entry)
            job = await team.store.get(Job, tenant, entry.id)
            if job is None or not job.is_role_queue:
                continue
            key = (job.sender, agent in job.eligible)
            if key not in allowed:
                allowed[key] = await _may_have(team, tenant, *key, agent, expects)
            if not allowed[key]:
                refused.append(entries.pop())
    except BaseException:
        refused += entries
        raise
    finally:
        for entry in refused:
            queues.give_back(entry)
    return entries


async def _may_have(
    team: Team,
    tenant: str,
    sender: str,
    was_judged: bool,
    agent: str,
    expects: list[Expect],
) -> bool:
    """Whether an agent may have a job of this sender: one that was judged for it, or that no rule concerns."""
    if was_judged:
        return not await is_kept_from(team, tenant, sender, agent, expects)
    return bool(await unconcerned(team, tenant, sender, (agent,), expects))


async def _commit(
    team: Team,
    caller: Caller,
    agent_id: str,
    wish: ClaimWish,
    queues: TenantQueues,
    entries: list[OpenJob],
    expects: list[Expect],
) -> tuple[list[ClaimedItem], int]:
    """Claim reserved jobs, bury those that have cost too many readers, and drop those that are over."""
    tenant, now = caller.tenant, team.now()
    items: list[ClaimedItem] = []
    dead: list[Job] = []
    over: list[Job] = []
    try:
        for entry in entries:
            job = await team.store.get(Job, tenant, entry.id)
            if job is None:
                queues.remove(entry.id)
            elif job.version != entry.version:
                queues.put(job)
            elif (item := await _item_of(team, job)) is None:
                over.append(job)
            elif reason := why_dead(job):
                dead.append(buried(job, reason, now))
            else:
                lease = team.ids.token()
                taken = claimed(job, agent_id, lease, wish.lease_seconds, now, process=wish.process)
                items.append(ClaimedItem(taken, item))
        if not items and not dead and not over:
            return [], len(entries)
        changes = _dropping(team, tenant, over)._replace(
            expects=tuple(dict.fromkeys(expects)),
            puts=(*(item.job for item in items), *dead),
            created_id=created_ids([item.job.id for item in items]) if items else "",
        )
        speaker = caller._replace(agent=agent_id, saved=caller.saved if items else None)
        done = await _commit_claims(team, speaker, changes)
    finally:
        for entry in entries:
            queues.give_back(entry)  # unless it has another version by now
    stored = {record.id: record for record in done.puts if isinstance(record, Job)}
    return [ClaimedItem(stored[item.job.id], item.item) for item in items], len(dead) + len(over)


async def _commit_claims(team: Team, caller: Caller, changes: TeamChanges) -> Committed:
    """Commit claims. When the reader goes away meanwhile, what it would have got is released."""
    commit = asyncio.ensure_future(team.commit(caller, changes))
    try:
        return await asyncio.shield(commit)
    except asyncio.CancelledError:
        task = asyncio.ensure_future(_release_all(team, caller, commit))
        team.queues.releases.add(task)
        task.add_done_callback(team.queues.releases.discard)
        raise


async def _release_all(team: Team, caller: Caller, commit: asyncio.Future[Committed]) -> None:
    with suppress(ParleyError):
        for record in (await commit).puts:
            if isinstance(record, Job) and record.lease:
                with suppress(ParleyError):
                    await release(team, caller._replace(saved=None), caller.agent, record.id, record.lease)


async def _item_of(team: Team, job: Job) -> FeedItem | None:
    """What a job is about; None when there is nothing left to do."""
    if not job.is_role_queue:
        items, _ = await team.store.read_positions(job.tenant_id, (job.position,))
        reader = Caller(job.tenant_id, job.queue, KeyKind.AGENT, "")
        seen = items and await is_visible(team, reader, Followed(agent=job.queue), items[0])
        return items[0] if seen else None
    post = await team.store.post(job.tenant_id, job.item_id, evicted=True)
    channel = await team.store.get(Channel, job.tenant_id, job.channel_id)
    if post is None or _is_over(team, post) or channel is None or not await is_alive(team, channel, team.at()):
        return None
    return FeedItem.of_post(post)


def _is_over(team: Team, post: Post) -> bool:
    return post.over(team.at()) or post.erased


async def claimed_again(team: Team, caller: Caller, agent_id: str, created: str) -> list[ClaimedItem]:
    """What a repeated claim got the first time, as far as the agent still has it."""
    items = []
    for claimed_id in ids_created(created):
        job = await team.store.get(Job, caller.tenant, claimed_id)
        if job is not None and job.holder == agent_id and (item := await _item_of(team, job)) is not None:
            items.append(ClaimedItem(job, item))
    return items


async def extend(team: Team, caller: Caller, agent_id: str, job: str, lease: str, seconds: float) -> Job:
    """Count the lease from now. `LeaseLost` when somebody else has the job, or there is nothing left to do."""

    is_over = False

    async def decide(stored: Job) -> TeamChanges:
        nonlocal is_over
        is_over = await _item_of(team, stored) is None
        if is_over:
            return _dropping(team, caller.tenant, (stored,))
        return TeamChanges(caller.tenant, puts=(extended(stored, seconds, team.now()),))

    changed = await _change(team, caller, agent_id, job, lease, decide)
    if is_over:
        raise LeaseLost("there is nothing left to do: the message has expired, or its channel is closed")
    return changed


def _dropping(team: Team, tenant: str, jobs: Iterable[Job]) -> TeamChanges:
    """Drop jobs for which there is nothing left to do."""
    queues = team.queues.get(tenant)
    drops = tuple(jobs)
    if queues is not None:
        for job in drops:
            queues.mark_over(job.id)
    return TeamChanges(tenant, drops=drops)


async def drop_over(team: Team, tenant: str, jobs: Iterable[Job]) -> int:
    """Drop those of these jobs for which there is nothing left to do, and dead letters whose time is over."""
    now = team.at()
    over = tuple([job for job in jobs if (job.parent == DEAD and job.due <= now) or await _item_of(team, job) is None])
    if over:
        await team.store.commit(_dropping(team, tenant, over))
    return len(over)


async def drop_ended(team: Team) -> int:
    """Drop the jobs of channels that have ended; how many."""
    count = 0
    for tenant, queues in team.queues.with_ended_channels():
        ended, queues.ended = queues.ended, set()
        ids = [entry.id for entry in queues.jobs.values() if entry.channel_id in ended]
        jobs = [job for job_id in ids if (job := await team.store.get(Job, tenant, job_id)) is not None]
        count += await drop_over(team, tenant, jobs)
    return count


async def release(team: Team, caller: Caller, agent_id: str, job: str, lease: str) -> Job:
    """Give a job back at once, as if it had not been claimed."""

    async def decide(stored: Job) -> TeamChanges:
        queues = team.queues.get(caller.tenant)
        if queues is not None and stored.process:
            queues.dismiss(f"{agent_id} {stored.process}")
        return TeamChanges(caller.tenant, puts=(released(stored, team.now()),))

    return await _change(team, caller, agent_id, job, lease, decide)


async def fail(
    team: Team, caller: Caller, agent_id: str, job: str, lease: str, error: str, retry_in: float | None
) -> Job:
    """Give a job back after so many seconds; without them it becomes a dead letter."""

    async def decide(stored: Job) -> TeamChanges:
        return TeamChanges(caller.tenant, puts=(failed(stored, error, retry_in, team.now()),))

    return await _change(team, caller, agent_id, job, lease, decide)


async def finish(team: Team, caller: Caller, agent_id: str, job: str, lease: str) -> Job:
    """End a job that needs no answer; its message counts as read."""

    async def decide(stored: Job) -> TeamChanges:
        receipts = (Receipt(stored.item_id, agent_id, team.at()),) if stored.channel_id else ()
        return TeamChanges(caller.tenant, drops=(stored,), receipts=receipts)

    return await _change(team, caller, agent_id, job, lease, decide)


async def _change(
    team: Team,
    caller: Caller,
    agent_id: str,
    job: str,
    lease: str,
    decide: Callable[[Job], Awaitable[TeamChanges]],
) -> Job:
    """Change a job that the agent has under this lease; the job as it is, or as it was when it has ended."""
    await check_changes(team, caller, agent_id)
    await check_present(team, caller.tenant, agent_id)
    stored: Job

    async def attempt() -> TeamChanges:
        nonlocal stored
        stored = check_lease(await team.store.get(Job, caller.tenant, job), agent_id, lease)
        return await decide(stored)

    done = await committed(team, caller._replace(agent=agent_id), attempt, "job")
    changed = done.puts[0] if done is not None and done.puts else stored
    assert isinstance(changed, Job)  # noqa: S101  # what was put
    return changed
