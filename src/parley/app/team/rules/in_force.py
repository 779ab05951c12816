"""What a decision depends on: the rulebook of the tenant, its suspensions, and the parties.

Whatever was looked at is noted in `expects`, so that a commit is refused when it has changed meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.state.rules import Rules
from parley.app.team.state.suspended import NO_SUSPENSIONS
from parley.domain.agents import org_units
from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.org_units import OrgUnits
from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Party
from parley.domain.channel.channel import Channel, MemberPolicy, reaches
from parley.domain.channel.post import NO_UNITS
from parley.domain.directory.access import AGENT, ORG_UNIT
from parley.domain.directory.callers import KeyKind
from parley.domain.record import Expect, expecting
from parley.domain.rules import suspension
from parley.domain.rules.isolation import are_apart
from parley.domain.rules.policy import CURRENT, PolicySnapshot
from parley.domain.rules.suspension import Suspensions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.app.team.team import Team
    from parley.domain.directory.access import Access
    from parley.domain.directory.callers import Caller
    from parley.domain.rules.rulebook import Rulebook

_NO_POLICY = Expect(PolicySnapshot.kind, CURRENT, 0)
_NO_UNITS = Expect(OrgUnits.kind, org_units.ALL, 0)


async def in_force(team: Team, tenant: str, expects: list[Expect]) -> Rules:
    """The rules in force in a tenant; the built-in policy if it never had one."""
    snapshot = await team.store.get(PolicySnapshot, tenant, CURRENT)
    stopped = await team.store.get(Suspensions, tenant, suspension.ALL)
    book = team.governance.rulebook(tenant, snapshot or team.policies.first(tenant))
    rules = team.governance.in_force.get(tenant)
    if rules is None or rules.book is not book or rules.stopped is not stopped:
        policy = expecting(snapshot) if snapshot is not None else _NO_POLICY
        rules = Rules(book, stopped, (policy, expecting(stopped) if stopped is not None else NO_SUSPENSIONS))
        team.governance.in_force[tenant] = rules
    expects += rules.expects
    return rules


async def several_units(team: Team, tenant: str, expects: list[Expect]) -> bool:
    """Whether the tenant has more than one org unit."""
    units = await team.store.get(OrgUnits, tenant, org_units.ALL)
    expects.append(expecting(units) if units is not None else _NO_UNITS)
    return units is not None and len(units.names) > 1


async def party(team: Team, tenant: str, agent: str, expects: list[Expect] | None = None) -> Party:
    """An agent in the directory; an unknown one has default attributes."""
    record = await team.store.get(AgentRecord, tenant, agent)
    if expects is not None:
        expects.append(expecting(record) if record is not None else Expect(AgentRecord.kind, agent, 0))
    return Party(agent, record.attributes if record is not None else UNKNOWN_ATTRIBUTES)


async def home_unit(team: Team, caller: Caller, expects: list[Expect]) -> str:
    """The org unit that a caller speaks for: its agent's. A person's is that of the agents that act for it.

    "" for a key of the whole tenant, and for a person whose agents are in several units, or who has none.
    """
    if not caller.agent:
        return ""
    if not (caller.kind is KeyKind.HUMAN and caller.agent == caller.user):
        return (await party(team, caller.tenant, caller.agent, expects)).attributes.org_unit
    records = await team.store.children(AgentRecord, caller.tenant, "", limit=team.limits.agents_per_tenant + 1)
    own = [record for record in records if record.attributes.user_id == caller.user]
    expects += [expecting(record) for record in own]
    units = {record.attributes.org_unit for record in own}
    return units.pop() if len(units) == 1 else ""


async def units_of(
    team: Team, access: Access, agents: Iterable[str], expects: list[Expect] | None = None
) -> Mapping[str, str]:
    """The org units of these agents, where an access list goes by units; else none, and nothing is looked up."""
    if not access.names_units:
        return NO_UNITS
    return {agent: (await party(team, access.tenant_id, agent, expects)).attributes.org_unit for agent in agents}


async def addressed_units(
    team: Team, book: Rulebook, access: Access, sender: AgentRecord | None, agents: Iterable[str]
) -> Mapping[str, str]:
    """The org units of the addressed agents, where the access list names units.

    An agent that is kept apart from the sender is treated as granted, so that the policy denies the message and the
    denial is audited.
    """
    attributes = sender.attributes if sender is not None else UNKNOWN_ATTRIBUTES
    let_in = next(grant.principal_id for grant in access.grants if grant.principal_type == ORG_UNIT)
    units = {}
    for agent in agents:
        other = (await party(team, access.tenant_id, agent)).attributes
        units[agent] = let_in if are_apart(book, attributes, other) else other.org_unit
    return units


def speaker(caller: Caller, record: AgentRecord | None, held_for: str = "", home: str = "") -> Party:
    """The sender: the agent of the credential, or a person in its place or from its `home` unit.

    A held message keeps its owner.
    """
    attributes = record.attributes if record is not None else UNKNOWN_ATTRIBUTES
    if caller.kind is KeyKind.HUMAN:
        if home:
            attributes = replace(attributes, org_unit=home)
        return Party(caller.agent, replace(attributes, user_id=held_for or caller.user), human=True)
    return Party(caller.agent, attributes)


async def audience(
    team: Team, channel: Channel, access: Access, sender: str, now: str, expects: list[Expect]
) -> list[Party]:
    """Everyone who could read a broadcast now, from the directory and the access lists."""
    tenant = channel.tenant_id
    if channel.policy is MemberPolicy.EXPLICIT:
        names = [member.agent for member in channel.members]
    else:
        records = await team.store.children(AgentRecord, tenant, "", limit=team.limits.agents_per_tenant + 1)
        names = [record.id for record in records if not record.gone]
        names += [access.created_by, *(assignment.agent_id for assignment in access.assignments)]
        names += [grant.principal_id for grant in access.grants if grant.principal_type == AGENT]
        names += [member.agent for member in channel.members]
    units = await units_of(team, access, names)
    wanted = [
        name
        for name in dict.fromkeys(names)
        if name != sender and reaches(channel, access, name, now, units.get(name, ""))
    ]
    return [await party(team, tenant, name, expects) for name in wanted]
