"""The registry: agents register, send heartbeats, drain and leave; others find them by what they can do."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team import departure, roles
from parley.app.team.attempts import put
from parley.app.team.hub import ATTEMPTS
from parley.domain.directory import GONE, AgentStatus, KeyKind, Role, party_name
from parley.domain.errors import Conflict, NotFound, Stale
from parley.domain.registry import AgentRecord, health, registered
from parley.domain.team_changes import TeamChanges
from parley.domain.team_errors import AgentGone, QuotaExceeded, WrongSender

if TYPE_CHECKING:
    from parley.app.team.hub import Team
    from parley.domain.directory import Caller
    from parley.domain.registry import AgentDraft
    from parley.domain.team_changes import Committed


class Listed(NamedTuple):
    """An agent and how it is at this moment."""

    record: AgentRecord
    status: AgentStatus


class Wanted(NamedTuple):
    """Which agents somebody looks for; an empty field asks for nothing."""

    status: AgentStatus | None = None
    role_id: str = ""
    capability: str = ""


def check_changes(caller: Caller, agent_id: str) -> None:
    """Only the agent itself, a service or an admin changes an agent."""
    if caller.agent != agent_id and caller.kind not in (KeyKind.SERVICE, KeyKind.ADMIN):
        raise WrongSender("this key does not speak for that agent")


async def register(team: Team, caller: Caller, draft: AgentDraft) -> Listed:
    """Register an agent: for the first time, again with what has changed, or anew after it had left."""
    agent_id = party_name(draft.agent_id)
    check_changes(caller, agent_id)
    for _ in range(ATTEMPTS):
        known = await team.store.get(AgentRecord, caller.tenant, agent_id)
        if known is not None and not known.gone and health(known, team.at()) in GONE:
            # Its silence was never settled: it leaves before it comes back, as everybody else saw it.
            await departure.settle(team, caller.tenant, agent_id)
            continue
        try:
            async with team.roster if draft.role_id else nullcontext():
                granted, committed = await _register(team, caller, draft, known)
        except Stale as stale:
            if "kind" not in stale.facts:
                raise
            continue
        for role in granted:
            await roles.deliver_waiting(team, caller.tenant, role_id=role.id)
        return _listed(team, committed.puts[0])
    raise Conflict("the agent changes too often at this moment", hint="try again")


async def _register(
    team: Team, caller: Caller, draft: AgentDraft, known: AgentRecord | None
) -> tuple[tuple[Role, ...], Committed]:
    forgotten = await _make_room(team, caller.tenant) if known is None else ()
    record = registered(draft, caller.tenant, known, team.at())
    granted = await roles.registering(team, caller, record.id, known, draft.role_id)
    facts = {"role": record.role_id} if record.role_id else {}
    entry = team.entry(caller, "agent_registered", record.id, **facts)
    changes = TeamChanges(caller.tenant, puts=(record, *granted), drops=forgotten, entries=(entry,))
    return granted, await team.commit(caller, changes)


async def _make_room(team: Team, tenant: str) -> tuple[AgentRecord, ...]:
    """Where there are as many agents as there may be, one that has left is forgotten."""
    most = team.limits.agents_per_tenant
    if await team.store.count(AgentRecord, tenant, "") < most:
        return ()
    for record in await team.store.children(AgentRecord, tenant, "", limit=most + 1):
        if record.gone:
            return (record,)
    raise QuotaExceeded(f"a tenant has at most {most} agents")


async def show(team: Team, caller: Caller, agent_id: str) -> Listed:
    """One agent's record."""
    return _listed(team, await _known(team, caller, agent_id))


async def listed(team: Team, caller: Caller, wanted: Wanted) -> list[Listed]:
    """The agents of the tenant that are as one wants them, by name."""
    holders: frozenset[str] | None = None
    if wanted.role_id:
        role = await team.store.get(Role, caller.tenant, wanted.role_id)
        holders = frozenset(one.agent for one in role.holders) if role else frozenset()
    found = await team.store.children(AgentRecord, caller.tenant, "", limit=team.limits.agents_per_tenant + 1)
    return [
        one
        for one in (_listed(team, record) for record in found)
        if (wanted.status is None or one.status is wanted.status)
        and (holders is None or one.record.id in holders)
        and (not wanted.capability or wanted.capability in one.record.capabilities)
    ]


async def heartbeat(team: Team, caller: Caller, agent_id: str, current_load: int) -> Listed:
    """An agent is alive. One that counts as dead or has deregistered is told so: it has to register anew."""
    check_changes(caller, agent_id)

    async def decide() -> TeamChanges:
        record = await _present(team, caller, agent_id)
        status = AgentStatus.DRAINING if record.status is AgentStatus.DRAINING else AgentStatus.ACTIVE
        alive = replace(record, status=status, last_heartbeat_at=team.at(), current_load=current_load)
        return TeamChanges(caller.tenant, puts=(alive,))

    return _listed(team, await put(team, caller, decide, AgentRecord, "agent"))


async def change_status(team: Team, caller: Caller, agent_id: str, status: AgentStatus) -> Listed:
    """Set an agent active or draining, or have it leave."""
    check_changes(caller, agent_id)
    if status is AgentStatus.DEREGISTERED:
        return await deregister(team, caller, agent_id)

    async def decide() -> TeamChanges:
        record = await _present(team, caller, agent_id)
        since = (record.draining_since or team.at()) if status is AgentStatus.DRAINING else ""
        changed = replace(record, status=status, draining_since=since)
        entry = team.entry(caller, "agent_status", agent_id, status=status.value)
        return TeamChanges(caller.tenant, puts=(changed,), entries=(entry,))

    return _listed(team, await put(team, caller, decide, AgentRecord, "agent"))


async def deregister(team: Team, caller: Caller, agent_id: str) -> Listed:
    """Have an agent leave. Its record stays and says so; to leave twice is to leave once."""
    check_changes(caller, agent_id)
    await _known(team, caller, agent_id)
    return _listed(team, await departure.depart(team, caller, agent_id))


async def _known(team: Team, caller: Caller, agent_id: str) -> AgentRecord:
    record = await team.store.get(AgentRecord, caller.tenant, agent_id)
    if record is None:
        raise NotFound("there is no such agent")
    return record


async def _present(team: Team, caller: Caller, agent_id: str) -> AgentRecord:
    record = await _known(team, caller, agent_id)
    if health(record, team.at()) in GONE:
        raise AgentGone("the agent has left or counts as dead", hint="register it again")
    return record


def _listed(team: Team, record: object) -> Listed:
    assert isinstance(record, AgentRecord)  # noqa: S101  # what was put
    return Listed(record, health(record, team.at()))
