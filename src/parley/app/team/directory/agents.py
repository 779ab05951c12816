"""The agent registry: register, heartbeat, drain, deregister, and list by capability."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory import departure, roles
from parley.app.team.directory.names import agents_of_person, check_agent_name, no_such_agent
from parley.app.team.retry import put
from parley.app.team.rules import in_force
from parley.app.team.state.suspended import check_not_suspended, check_speaks_for
from parley.app.team.team import ATTEMPTS
from parley.domain.agents import org_units
from parley.domain.agents.agent import AgentDraft, AgentRecord, Heartbeats, health, host_of, registered
from parley.domain.agents.org_units import OrgUnits
from parley.domain.agents.party import UNKNOWN_ATTRIBUTES
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.directory.callers import AgentStatus, KeyKind, Role, party_name
from parley.domain.errors.errors import Conflict, Problem, Stale
from parley.domain.errors.rules import CrossEnterpriseBlocked
from parley.domain.errors.team import AgentGone, QuotaExceeded, ScopeRequired, TargetForbidden, WrongSender
from parley.domain.exchange.approval import Approval, handed_over
from parley.domain.rules.isolation import are_apart, public_part
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.state.presence import Connected
    from parley.app.team.team import Team
    from parley.domain.agents.party import Attributes
    from parley.domain.directory.callers import Caller
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.store.changes import Committed

# Records of a page: few, because each may be as long as a body.
_PAGE = 32
_CALLS_AS_HEARTBEATS = Heartbeats(interval_seconds=60, unhealthy_after_seconds=900, dead_after_seconds=3600)


class AgentWithStatus(NamedTuple):
    """An agent and its current status."""

    record: AgentRecord
    status: AgentStatus


class AgentFilter(NamedTuple):
    """Which agents to list; an empty field matches all."""

    status: AgentStatus | None = None
    role_id: str = ""
    capability: str = ""
    # Without any, all of them.
    names: tuple[str, ...] = ()


async def check_changes(team: Team, caller: Caller, agent_id: str) -> None:
    """Only the agent itself, a service or an admin changes an agent; nobody does for one that is suspended."""
    if caller.agent != agent_id and caller.kind not in (KeyKind.SERVICE, KeyKind.ADMIN):
        raise WrongSender("this key does not speak for that agent")
    await check_speaks_for(team.store, caller, agent_id)


def registering_in(caller: Caller, tenant: str) -> Caller:
    """The caller in the tenant that it names: its own, or any for the operator."""
    if not tenant or tenant == caller.tenant:
        return caller
    if not caller.operator:
        raise CrossEnterpriseBlocked("an agent is registered in the tenant of the key")
    return caller._replace(tenant=tenant)


async def as_agent_of(team: Team, caller: Caller, agent_id: str) -> Caller:
    """A person in the place of an agent that acts for it: it sees what the agent sees, and speaks for itself.

    Nobody takes the place of an agent that has left: what is said after that is not for it.
    """
    record = await team.store.get(AgentRecord, caller.tenant, party_name(agent_id))
    if record is None or record.gone or record.attributes.user_id != caller.user:
        raise WrongSender(f"{agent_id[:64]} does not act for {caller.user}")
    return caller._replace(agent=agent_id)


async def attributes(team: Team, caller: Caller, agent_id: str) -> Attributes:
    """The stored attributes of an agent."""
    record = await team.store.get(AgentRecord, caller.tenant, agent_id)
    return record.attributes if record is not None else UNKNOWN_ATTRIBUTES


async def register(team: Team, caller: Caller, draft: AgentDraft) -> AgentWithStatus:
    """Register an agent: new, with changes, or again after it has left."""
    agent_id = party_name(draft.agent_id)
    await check_changes(team, caller, agent_id)
    if draft.attributes is not None and caller.kind is not KeyKind.ADMIN:
        record = await team.store.get(AgentRecord, caller.tenant, agent_id)
        if draft.attributes != (record.attributes if record else UNKNOWN_ATTRIBUTES):
            raise ScopeRequired("only an admin says where an agent belongs and what it may know")
    if draft.endpoint:
        await _check_endpoint(team, caller, draft.endpoint)
    draft = draft._replace(endpoint_key=caller.key_id)
    for _ in range(ATTEMPTS):
        record = await team.store.get(AgentRecord, caller.tenant, agent_id)
        if record is not None and not record.gone and _health(team, record) is AgentStatus.DEREGISTERED:
            # Its drain time is over, but it has not departed yet: its departure comes before its return.
            await departure.settle(team, caller.tenant, agent_id)
            continue
        try:
            async with team.roster if draft.role_id else nullcontext():
                granted, committed = await _register(team, caller, draft, record)
        except Stale as stale:
            if "kind" not in stale.facts:
                raise
            continue
        for role in granted:
            await roles.deliver_waiting(team, caller.tenant, role_id=role.id)
        return _with_status(team, committed.puts[0])
    raise Conflict("the agent changes too often at this moment", hint="try again")


async def _check_endpoint(team: Team, caller: Caller, url: str) -> None:
    """Refuse an address that nothing would ever be pushed to."""
    if team.outbound is None:
        return  # a server without webhooks keeps it for others to see
    try:
        await team.outbound.check(url, caller.tenant)
    except TargetForbidden as refusal:
        problem = Problem(refusal.code, "endpoint", refusal.message)
        raise TargetForbidden(f"endpoint: {refusal.message}", problems=(problem,)) from None


async def _register(
    team: Team, caller: Caller, draft: AgentDraft, earlier: AgentRecord | None
) -> tuple[tuple[Role, ...], Committed]:
    expects = await check_agent_name(team, caller.tenant, draft.agent_id) if earlier is None else ()
    forgotten = await _make_room(team, caller.tenant) if earlier is None else ()
    record = registered(draft, caller.tenant, earlier, team.at())
    granted = await roles.registering(team, caller, record.id, earlier, draft.role_id)
    facts = {"role": record.role_id} if record.role_id else {}
    units: tuple[OrgUnits, ...] = ()
    audits: tuple[AuditDraft, ...] = ()
    before = earlier.attributes if earlier else UNKNOWN_ATTRIBUTES
    handed: tuple[Approval, ...] = ()
    if record.attributes != before:
        units = await _units(team, caller.tenant, record.attributes.org_unit)
        audits = (_attributes_audit(team, caller, record),)
    if record.attributes.user_id != before.user_id:
        handed = await _handed_over(team, record)
    entry = team.entry(caller, "agent_registered", record.id, **facts)
    changes = TeamChanges(
        caller.tenant,
        expects=expects,
        puts=(record, *granted, *units, *handed),
        drops=forgotten,
        entries=(entry,),
        audits=audits,
        created_id=record.id,
    )
    return granted, await team.commit(caller, changes)


async def _units(team: Team, tenant: str, name: str) -> tuple[OrgUnits, ...]:
    """The tenant's org units, if this one is new."""
    units = await team.store.get(OrgUnits, tenant, org_units.ALL) or OrgUnits(id=org_units.ALL, tenant_id=tenant)
    changed = org_units.with_unit(units, name)
    return () if changed is units else (changed,)


async def _handed_over(team: Team, record: AgentRecord) -> tuple[Approval, ...]:
    """The held messages of an agent, for the person whom it acts for now. What a person wrote stays that person's."""
    handed: list[Approval] = []
    after = ""
    while page := await team.store.children(Approval, record.tenant_id, "pending", after=after, limit=_PAGE):
        handed += [
            handed_over(approval, record.attributes.user_id)
            for approval in page
            if approval.agent == record.id and not approval.human
        ]
        after = page[-1].id
    return tuple(handed)


def _attributes_audit(team: Team, caller: Caller, record: AgentRecord) -> AuditDraft:
    """The audit entry for changed attributes, which decide what the agent may be told."""
    shown = record.attributes
    facts = {
        "agent": record.id,
        "org_unit": shown.org_unit,
        "user_id": shown.user_id,
        "team": shown.team,
        "max_classification": shown.max_classification.value,
        "can_receive_queries": shown.can_receive_queries,
        "can_auto_respond": shown.can_auto_respond,
        "supported_exchange_types": [exchange_type.value for exchange_type in shown.supported_exchange_types],
        "max_rounds_accepted": shown.max_rounds_accepted or 0,
        "key": caller.key_id,
    }
    return AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), "agent_placed", caller.actor, facts)


async def _make_room(team: Team, tenant: str) -> tuple[AgentRecord, ...]:
    """At the limit of agents, an agent that has left and can be removed."""
    most = team.limits.agents_per_tenant
    if await team.store.count(AgentRecord, tenant, "") < most:
        return ()
    for record in await team.store.children(AgentRecord, tenant, "", limit=most + 1):
        # Attributes that an admin has set survive a departure.
        if record.gone and record.attributes == UNKNOWN_ATTRIBUTES:
            return (record,)
    raise QuotaExceeded(f"a tenant has at most {most} agents")


async def get(team: Team, caller: Caller, agent_id: str) -> AgentWithStatus:
    """One agent. One that is suspended sees itself, and nothing else."""
    if agent_id != caller.agent:
        await check_not_suspended(team.store, caller)
    return _shown(team, caller, await _stored(team, caller, agent_id), await _viewers(team, caller))


async def list_page(team: Team, caller: Caller, wanted: AgentFilter) -> AsyncIterator[AgentWithStatus]:
    """The matching agents of the tenant, by name."""
    holders: frozenset[str] | None = None
    if wanted.role_id:
        role = await team.store.get(Role, caller.tenant, wanted.role_id)
        holders = frozenset(holder.agent for holder in role.holders) if role else frozenset()
    viewers = await _viewers(team, caller)
    async for record in _records(team, caller.tenant, wanted.names):
        agent = _shown(team, caller, record, viewers)
        if (
            (wanted.status is None or agent.status is wanted.status)
            and (holders is None or agent.record.id in holders)
            and (not wanted.capability or wanted.capability in agent.record.capabilities)
        ):
            yield agent


async def _records(team: Team, tenant: str, names: tuple[str, ...]) -> AsyncIterator[AgentRecord]:
    """The agents with these names, or all of a tenant, by name."""
    for name in sorted({*names}):
        record = await team.store.get(AgentRecord, tenant, name)
        if record is not None:
            yield record
    after = ""
    while not names and (page := await team.store.children(AgentRecord, tenant, "", after=after, limit=_PAGE)):
        after = page[-1].id
        for record in page:
            yield record


async def find_connected(team: Team, tenant: str) -> Connected:
    """Which agents of a tenant have a stream open, on any server."""
    return team.connected.of_tenant(tenant, await team.nodes.connected_elsewhere(tenant))


async def note_presence(team: Team, caller: Caller) -> None:
    """Take a call of an agent as its heartbeat, when one is due; register the agent at its first call.

    Between two calls a model may work for a while: an agent that is registered here is away later than others.
    """
    record = await team.store.get(AgentRecord, caller.tenant, caller.agent)
    caller = caller._replace(saved=None, answer=None)
    if record is None:
        record = (
            await register(team, caller, AgentDraft(agent_id=caller.agent, heartbeats=_CALLS_AS_HEARTBEATS))
        ).record
    interval = timedelta(seconds=record.heartbeats.interval_seconds)
    is_due = not record.last_heartbeat_at or team.now() - from_stamp(record.last_heartbeat_at) >= interval
    if is_due and not record.gone:
        await heartbeat(team, caller, record.id, record.current_load)


async def heartbeat(team: Team, caller: Caller, agent_id: str, current_load: int) -> AgentWithStatus:
    """Record that an agent is alive, however long it was silent. `AgentGone` when it was deregistered."""
    await check_changes(team, caller, agent_id)

    async def decide() -> TeamChanges:
        record = await _present(team, caller, agent_id)
        status = AgentStatus.DRAINING if record.status is AgentStatus.DRAINING else AgentStatus.ACTIVE
        alive = replace(record, status=status, last_heartbeat_at=team.at(), current_load=current_load, stopped_at="")
        return TeamChanges(caller.tenant, puts=(alive,))

    return _with_status(team, await put(team, caller, decide, AgentRecord, "agent"))


async def change_status(team: Team, caller: Caller, agent_id: str, status: AgentStatus) -> AgentWithStatus:
    """Set an agent active or draining, or deregister it."""
    await check_changes(team, caller, agent_id)
    if status is AgentStatus.DEREGISTERED:
        return await deregister(team, caller, agent_id)

    async def decide() -> TeamChanges:
        record = await _present(team, caller, agent_id)
        since = (record.draining_since or team.at()) if status is AgentStatus.DRAINING else ""
        changed = replace(record, status=status, draining_since=since, stopped_at="")
        entry = team.entry(caller, "agent_status", agent_id, status=status.value)
        return TeamChanges(caller.tenant, puts=(changed,), entries=(entry,))

    return _with_status(team, await put(team, caller, decide, AgentRecord, "agent"))


async def stop(team: Team, caller: Caller, agent_id: str) -> AgentWithStatus:
    """Note that an agent has stopped: it is away, and its drain time goes on."""
    await check_changes(team, caller, agent_id)

    async def decide() -> TeamChanges:
        record = await _present(team, caller, agent_id)
        entry = team.entry(caller, "agent_status", agent_id, status="stopped")
        stopped = replace(record, stopped_at=team.at(), current_load=0)
        return TeamChanges(caller.tenant, puts=(stopped,), entries=(entry,))

    return _with_status(team, await put(team, caller, decide, AgentRecord, "agent"))


async def deregister(team: Team, caller: Caller, agent_id: str) -> AgentWithStatus:
    """Deregister an agent. Its record stays with that status. Idempotent."""
    await check_changes(team, caller, agent_id)
    await _stored(team, caller, agent_id)
    return _with_status(team, await departure.depart(team, caller, agent_id))


async def _stored(team: Team, caller: Caller, agent_id: str) -> AgentRecord:
    record = await team.store.get(AgentRecord, caller.tenant, agent_id)
    if record is None:
        raise await no_such_agent(team, caller, agent_id)
    return record


async def _present(team: Team, caller: Caller, agent_id: str) -> AgentRecord:
    record = await _stored(team, caller, agent_id)
    if _health(team, record) is AgentStatus.DEREGISTERED:
        raise AgentGone("the agent has left", hint="register it again")
    return record


def _health(team: Team, record: AgentRecord) -> AgentStatus:
    now = team.clock.now()
    return health(record, stamp(now.at), stamp(now.since) if now.since else "")


class _Viewers(NamedTuple):
    """Through whose eyes a caller sees agents: those of an agent, or of all agents that act for a person."""

    book: Rulebook
    attributes: tuple[Attributes, ...]
    are_isolated: bool

    def are_apart_from(self, other: Attributes) -> bool:
        """Whether the policies keep all of them from talking to a party of another unit."""
        return self.are_isolated and all(are_apart(self.book, viewer, other) for viewer in self.attributes)


async def _viewers(team: Team, caller: Caller) -> _Viewers:
    book = (await in_force.in_force(team, caller.tenant, [])).book
    is_isolated = bool(caller.agent) and await in_force.several_units(team, caller.tenant, [])
    if not is_isolated:
        return _Viewers(book, (), are_isolated=False)
    own = (await in_force.party(team, caller.tenant, caller.agent)).attributes
    if caller.kind is KeyKind.HUMAN and caller.agent == caller.user:
        records = await agents_of_person(team, caller.tenant, caller.user)
        return _Viewers(book, tuple([record.attributes for record in records]) or (own,), are_isolated=True)
    return _Viewers(book, (own,), are_isolated=True)


def _shown(team: Team, caller: Caller, record: AgentRecord, viewers: _Viewers) -> AgentWithStatus:
    """The agent as the caller sees it: what it says of itself stays within the units that may talk to it."""
    if caller.all_seeing or record.id == caller.agent:
        return _with_status(team, record)
    if viewers.are_apart_from(record.attributes):
        return AgentWithStatus(public_part(record), _health(team, record))
    return _with_status(team, replace(record, endpoint=host_of(record.endpoint)))


def _with_status(team: Team, record: object) -> AgentWithStatus:
    assert isinstance(record, AgentRecord)  # noqa: S101  # what was put
    return AgentWithStatus(record, _health(team, record))
