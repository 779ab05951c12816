"""Claims: one of several readers takes a job, keeps it by a lease, and ends it.

the index: the oldest job that this agent may have ──> one commit: its version, the lease ──> the reader
                ^ woken by commits of any node, by a lease that ran out, by a pause that ended
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.posting import check_present
from parley.app.team.channels.reading import PAGE_BYTES
from parley.app.team.channels.streams import Followed, is_visible
from parley.app.team.channels.unanswered import with_failures
from parley.app.team.directory.agents import check_changes
from parley.app.team.directory.keys import check_key
from parley.app.team.directory.participants import participation
from parley.app.team.directory.roles import may_have
from parley.app.team.queues import sharing
from parley.app.team.queues.finishing import find_unfinished, with_finished
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
    JobState,
    buried,
    check_lease,
    claimed,
    extended,
    failed,
    handed_on,
    released,
    shown,
    why_dead,
)
from parley.domain.channel.participation import takes_part
from parley.domain.directory.access import Access
from parley.domain.directory.callers import Caller, KeyKind, Role, created_ids, ids_created, role_of
from parley.domain.errors.errors import Conflict, LeaseLost, ParleyError, Stale
from parley.domain.record import expecting
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from parley.app.team.state.queues import OpenJob, TenantQueues
    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.record import Expect
    from parley.domain.store.changes import Committed

_PAGE = 1_000


class ClaimWish(NamedTuple):
    """How many jobs a reader takes at once, for how long, and how long it waits for the first.

    `shared`: the processes of the agent share its mail, from `start` on when none of them was there before. `process`
    names the one that asks: when it gives a job back, its claims that wait end. `intent_id`: only jobs of this intent.
    `done` are jobs that end with it, by id with their leases, in the same commit. `unread`: the shared mail
    is an inbox, with responses and without what is read or answered already, see `sharing.enqueue_mail`.
    """

    most: int = 1
    lease_seconds: float = 30.0
    wait: float = 0.0
    shared: bool = False
    start: Start = Start.UNANSWERED
    process: str = ""
    intent_id: str = ""
    done: Mapping[str, str] = MappingProxyType({})
    unread: bool = False


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
    loop = asyncio.get_running_loop()
    until = loop.time() + wish.wait
    # Woken by messages to the agent, by changes of rights, and when the server stops.
    listener = team.tail.listen(of_agent(caller.tenant, agent_id))
    process = f"{agent_id} {wish.process}" if wish.process else ""
    claimer = Claimer(listener.event, f"{agent_id} {wish.intent_id}", process)
    queues = await queues_of(team, caller.tenant)
    queues.enter(claimer)
    checked = -1
    try:
        while True:
            listener.take()
            if claimer.dismissed:
                return []
            if (current := await queues_of(team, caller.tenant)) is not queues:
                queues, checked = current, -1
                queues.enter(claimer)
            if wish.shared:
                await sharing.enqueue_mail(team, caller, agent_id, wish.start, wish.most, unread=wish.unread)
            claimer.queues = queues.queues_of(agent_id)
            items = await _take(team, caller, agent_id, wish, queues, claimer)
            wish = wish._replace(done={})  # they have ended by now
            if not items and checked != queues.changes:
                # The same claim can have been carried out by a commit that changed a job, and by no other.
                checked = queues.changes
                await _check_key_unused(team, caller)
            left = until - loop.time()
            if items or left <= 0 or team.tail.closing:
                return items
            if claimer.called:
                queues.pass_on(claimer)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
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
        await check_present(team, caller.tenant, agent_id, expects)
        ready = queues.channels_of(claimer.queues)
        places = await _places(team, caller.tenant, agent_id, ready, wish.intent_id, expects)
        reader = (agent_id, claimer.reader)
        entries = await _reserve(team, caller.tenant, reader, wish.most, queues, places, expects)
        if not entries and not wish.done:
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
    team: Team, tenant: str, agent: str, ready: Iterable[tuple[str, str]], intent_id: str, expects: list[Expect]
) -> set[tuple[str, str]]:
    """Those of these queues and channels from which an agent may take, and what that depends on."""
    places = set()
    for queue, channel_id in ready:
        channel = await team.store.get(Channel, tenant, channel_id) if channel_id else None
        if intent_id and (channel is None or channel.intent_id != intent_id):
            continue
        role_id = role_of(queue)
        if not role_id:
            places.add((queue, channel_id))
            continue
        role = await team.store.get(Role, tenant, role_id)
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
    reader: tuple[str, str],
    most: int,
    queues: TenantQueues,
    places: set[tuple[str, str]],
    expects: list[Expect],
) -> list[OpenJob]:
    """The next jobs that the rules let this reader have, and what that depends on."""
    agent, declined_by = reader
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
                allowed[key] = await may_have(team, tenant, job.sender, agent, expects, was_judged=key[1])
            if not allowed[key]:
                refused.append(entries.pop())
    except BaseException:
        for entry in entries:
            queues.give_back(entry)
        raise
    finally:
        for entry in refused:
            queues.give_back(entry, declined_by=declined_by)
    return entries


async def _commit(
    team: Team,
    caller: Caller,
    agent_id: str,
    wish: ClaimWish,
    queues: TenantQueues,
    entries: list[OpenJob],
    expects: list[Expect],
) -> tuple[list[ClaimedItem], int]:
    """Claim reserved jobs, bury those that have cost too many readers, and drop those that are over or done."""
    tenant, now = caller.tenant, team.now()
    items: list[ClaimedItem] = []
    dead: list[Job] = []
    over: list[Job] = []
    size = 0
    try:
        items_read = await _read_items(team, tenant, entries)
        for entry in entries:
            if size >= PAGE_BYTES:
                break  # what is left is for the next claim
            job = await team.store.get(Job, tenant, entry.id)
            if job is not None and job.id in wish.done:
                continue  # its lease ran out, and nobody else has it: it ends
            if job is None:
                queues.remove(entry.id)
            elif job.version != entry.version:
                queues.put(job)
            elif (item := await item_of(team, job, items_read.get(job.position))) is None:
                over.append(job)
            elif reason := why_dead(job):
                dead.append(buried(handed_on(job), reason, now))
            else:
                lease = team.ids.token()
                taken = claimed(job, agent_id, lease, wish.lease_seconds, now, process=wish.process)
                items.append(ClaimedItem(taken, item))
                size += item.size
        done = await find_unfinished(team, tenant, agent_id, wish.done)
        if not items and not dead and not over and not done:
            return [], len(entries)
        changes = _dropping(team, tenant, over)._replace(
            expects=tuple(dict.fromkeys(expects)),
            puts=(*(item.job for item in items), *dead),
            created_id=created_ids([item.job.id for item in items]) if items else "",
        )
        changes = await with_finished(team, await with_failures(team, changes, *dead), agent_id, done)
        speaker = caller._replace(agent=agent_id, saved=caller.saved if items else None)
        committed = await _commit_claims(team, speaker, changes)
    finally:
        for entry in entries:
            queues.give_back(entry)  # unless it has another version by now
    stored = {record.id: record for record in committed.puts if isinstance(record, Job)}
    return [ClaimedItem(stored[item.job.id], item.item) for item in items], len(entries) - len(items)


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


async def _read_items(team: Team, tenant: str, entries: list[OpenJob]) -> dict[int, FeedItem]:
    """What several jobs are about, by position, in one read; not what is hidden, nor more than is read at once."""
    if len(entries) < 2:
        return {}
    items, _ = await team.store.read_positions(tenant, sorted({entry.position for entry in entries}))
    return {item.position: item for item in items}


async def item_of(team: Team, job: Job, item: FeedItem | None = None) -> FeedItem | None:
    """What a job is about, read unless it is given; None when there is nothing left to do."""
    if not job.is_role_queue:
        if item is None:
            items, _ = await team.store.read_positions(job.tenant_id, (job.position,))
            item = items[0] if items else None
        reader = Caller(job.tenant_id, job.queue, KeyKind.AGENT, "")
        is_seen = item is not None and await is_visible(team, reader, Followed(agent=job.queue), item)
        return item if is_seen else None
    post = item.post if item is not None else None
    if post is None:
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
        if job is not None and job.holder == agent_id and (item := await item_of(team, job)) is not None:
            items.append(ClaimedItem(job, item))
    return items


async def extend(team: Team, caller: Caller, agent_id: str, job: str, lease: str, seconds: float) -> Job:
    """Count the lease from now. `LeaseLost` when somebody else has the job, or there is nothing left to do."""

    is_over = False

    async def decide(stored: Job) -> TeamChanges:
        nonlocal is_over
        is_over = await item_of(team, stored) is None
        if is_over:
            return _dropping(team, caller.tenant, (stored,))
        return TeamChanges(caller.tenant, puts=(extended(stored, seconds, team.now()),))

    changed = await _change(team, caller, agent_id, job, lease, decide)
    if is_over:
        raise LeaseLost("there is nothing left to do: the message has expired, or its channel is closed")
    return changed


async def confirm(team: Team, caller: Caller, agent_id: str, job: str, lease: str) -> Job:
    """The reader has the message: it shows the lease that came with it."""

    async def decide(stored: Job) -> TeamChanges | None:
        return None if stored.received else TeamChanges(caller.tenant, puts=(shown(stored, team.now()),))

    return await _change(team, caller, agent_id, job, lease, decide)


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
    over = tuple([job for job in jobs if (job.parent == DEAD and job.due <= now) or await item_of(team, job) is None])
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
        changed = failed(stored, error, retry_in, team.now())
        changes = TeamChanges(caller.tenant, puts=(changed,))
        return await with_failures(team, changes, changed) if changed.state is JobState.DEAD else changes

    return await _change(team, caller, agent_id, job, lease, decide)


async def finish(team: Team, caller: Caller, agent_id: str, job: str, lease: str) -> Job:
    """End a job that needs no answer; its message counts as read. The sender of a request is told that it gets none."""

    async def decide(stored: Job) -> TeamChanges:
        return await with_finished(team, TeamChanges(caller.tenant), agent_id, (stored,))

    return await _change(team, caller, agent_id, job, lease, decide)


async def _change(
    team: Team,
    caller: Caller,
    agent_id: str,
    job: str,
    lease: str,
    decide: Callable[[Job], Awaitable[TeamChanges | None]],
) -> Job:
    """Change a job that the agent has under this lease; the job as it is, or as it was when it has ended."""
    await check_changes(team, caller, agent_id)
    await check_present(team, caller.tenant, agent_id)
    stored: Job

    async def attempt() -> TeamChanges | None:
        nonlocal stored
        stored = check_lease(await team.store.get(Job, caller.tenant, job), agent_id, lease)
        return await decide(stored)

    done = await committed(team, caller._replace(agent=agent_id), attempt, "job")
    puts = done.puts if done is not None else ()
    return next((record for record in puts if isinstance(record, Job)), stored)
