"""Departure: an agent leaves all channels, roles and jobs, requests to it expire, and each channel gets one notice.

All of it is one commit together with the agent's record, whose version makes sure that nobody leaves twice. Whoever
adds an agent to something expects its record as it was: so nobody gets in behind that commit, and who got in while it
was decided is led out right after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team import system_posts
from parley.app.team.retry import committed
from parley.app.team.system_posts import audited
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.bookmark import Bookmark
from parley.domain.channel.channel import without_member
from parley.domain.channel.job import OPEN, Job, released
from parley.domain.channel.participation import Participant
from parley.domain.channel.post import PostDraft, PostState
from parley.domain.channel.request import RequestState
from parley.domain.directory.callers import AgentStatus, Caller, Role, without_holder
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.record import expecting
from parley.domain.store.changes import Moved, TeamChanges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parley.app.team.team import Team
    from parley.domain.channel.channel import Channel
    from parley.domain.channel.post import Post


_PAGE = 1_000


async def depart(team: Team, caller: Caller, agent_id: str) -> AgentRecord:
    """Deregister an agent."""
    async with team.roster:
        return await _depart(team, caller, agent_id)


async def _depart(team: Team, caller: Caller, agent_id: str) -> AgentRecord:
    async def decide() -> TeamChanges | None:
        record = await _stored(team, caller.tenant, agent_id)
        if record.gone:
            return None
        bookmarks = await team.store.children(Bookmark, caller.tenant, agent_id)
        leaving = await _leaving(team, caller, record)
        return leaving._replace(drops=(*leaving.drops, *bookmarks))

    await committed(team, caller, decide, "list of the agent's channels")
    await _lead_out(team, caller, agent_id)
    return await _stored(team, caller.tenant, agent_id)


async def _stored(team: Team, tenant: str, agent_id: str) -> AgentRecord:
    record = await team.store.get(AgentRecord, tenant, agent_id)
    if record is None:
        raise NotFound.no_such("agent")
    return record


async def settle(team: Team, tenant: str, agent_id: str) -> None:
    """Deregister an agent whose drain time is over. Conflicts are left to the next sweep."""
    async with team.roster:
        record = await team.store.get(AgentRecord, tenant, agent_id)
        if record is None or record.gone or not record.due or record.due > team.at():
            return
        nobody = Caller.system(tenant)
        try:
            await team.store.commit(await _leaving(team, nobody, record))
        except Stale:
            return
        await _lead_out(team, nobody, agent_id)


async def _lead_out(team: Team, caller: Caller, agent_id: str) -> None:
    """Remove a departed agent from channels and roles that it was added to concurrently."""

    async def decide() -> TeamChanges | None:
        record = await _stored(team, caller.tenant, agent_id)
        if not record.gone:
            return None  # it is back
        channels = [
            channel for channel in await team.store.taking_part(caller.tenant, agent_id) if channel.member(agent_id)
        ]
        parting = await _parting(team, caller.tenant, agent_id, channels)
        if not parting.puts and not parting.drops:
            return None
        entry = team.entry(caller, "agent_departed", agent_id, status=record.status.value, channels=str(len(channels)))
        return parting._replace(expects=(*parting.expects, expecting(record)), entries=(entry,))

    await committed(team, caller._replace(saved=None), decide, "list of the agent's channels")


async def _leaving(team: Team, caller: Caller, record: AgentRecord) -> TeamChanges:
    """The changes of a departure, the agent's record first."""
    channels = await team.store.taking_part(caller.tenant, record.id)
    parting = await _parting(team, caller.tenant, record.id, channels)
    gone = replace(record, status=AgentStatus.DEREGISTERED, role_id="", draining_since="")
    entry = team.entry(caller, "agent_departed", record.id, status=gone.status.value, channels=str(len(parting.posts)))
    states = [
        state for channel in channels for state in await team.store.children(RequestState, caller.tenant, channel.id)
    ]
    return parting._replace(
        puts=(gone, *parting.puts, *await _released_jobs(team, caller.tenant, record.id)),
        departed=(record.id,),
        # Others answer these in its place, so they do not end with it.
        handed_on=tuple([state.id for state in states if state.forwarded_by(record.id) is not None]),
        moved=await _given_up(team, caller.tenant, record.id, {state.id: state for state in states}),
        entries=(entry,),
    )


async def _released_jobs(team: Team, tenant: str, agent: str) -> list[Job]:
    """The jobs that an agent has claimed, given back: others may claim them at once."""
    jobs: list[Job] = []
    after, now = "", team.now()
    while page := await team.store.children(Job, tenant, OPEN, after=after, limit=_PAGE):
        after = page[-1].id
        jobs += [released(job, now) for job in page if job.holder == agent]
    return jobs


async def _given_up(team: Team, tenant: str, agent: str, states: Mapping[str, RequestState]) -> tuple[Moved, ...]:
    """The requests that were handed on to an agent and that nobody can answer any more: they expire with it."""
    now, over = team.at(), set[str]()

    async def ends(state: RequestState | None) -> bool:
        """Whether everybody who could answer the request has handed it on to a request that is over."""
        request = await team.store.post(tenant, state.id) if state is not None else None
        if state is None or request is None or not all(map(state.forwarded_by, request.recipients or ())):
            return False
        for forwarding in state.forwards:
            forward = await team.store.post(tenant, forwarding.request_id)
            if forwarding.request_id not in over and forward is not None and not forward.over(now):
                return False
        return True

    for state in states.values():
        if state.root and state.asked == (agent,) and not state.forwards:
            over.add(state.id)
            for request_id in (*reversed(state.path), state.root):
                if not await ends(states.get(request_id)):
                    break
                over.add(request_id)
    return tuple([Moved(request_id, PostState.EXPIRED) for request_id in sorted(over)])


async def _parting(team: Team, tenant: str, agent: str, channels: Sequence[Channel]) -> TeamChanges:
    """Remove the agent from all intents it joined, all roles and these channels, with a notice in each."""
    now = team.at()
    listed = [channel for channel in channels if channel.member(agent)]
    held = [role for role in await team.store.children(Role, tenant, "") if role.held_by(agent)]
    alive = [channel for channel in channels if await system_posts.is_alive(team, channel, now)]
    notices = [_notice(team, channel, agent, now) for channel in alive]
    events = [
        audited(team, channel, notice, PostDraft(notice.pattern, notice.payload, notice.to))
        for channel, notice in zip(alive, notices, strict=True)
        if channel.options.audit
    ]
    return TeamChanges(
        tenant,
        posts=tuple(notices),
        expects=tuple(expecting(channel) for channel in alive),
        puts=(
            *(without_member(channel, agent) for channel in listed),
            *(without_holder(role, agent) for role in held),
        ),
        events=tuple(events),
        drops=await team.store.children(Participant, tenant, agent),
    )


def _notice(team: Team, channel: Channel, agent: str, now: str) -> Post:
    return system_posts.spoken(team, channel, b'{"event":"agent_departed","agent_id":"%b"}' % agent.encode(), now)
