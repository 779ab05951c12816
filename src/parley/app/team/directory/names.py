"""Names of agents and of people. Both are addresses, so a name belongs to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory.permissions import is_apart
from parley.domain.agents.agent import AgentRecord
from parley.domain.directory.callers import ALL_KEYS, ROLE_PREFIXES, KeyNames
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import NameTaken, WrongSender
from parley.domain.names import is_name, near_misses, suggestion
from parley.domain.record import Expect
from parley.domain.store.changes import RecordQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

_SIMILAR_MAX = 3
# More are looked at than shown: some may be hidden from the caller.
_SIMILAR_CANDIDATES = 12


async def name_of_person(team: Team, tenant: str, user: str) -> str:
    """The name under which a person speaks: its own, unless that is the name of an agent of somebody else.

    New names are never both. Data of before 0.7 may have such pairs: then the name is the agent's.
    """
    if not is_name(user):
        return ""
    record = await team.store.get(AgentRecord, tenant, user)
    if record is not None:
        return user if record.attributes.user_id == user else ""
    return "" if user in (await team.key_names.of(tenant)).agents else user


async def agents_of_person(team: Team, tenant: str, user: str) -> tuple[AgentRecord, ...]:
    """The agents that act for a person, also those that have left."""
    if not user:
        return ()
    query = RecordQuery("", (("attributes.user_id", user),), limit=team.limits.agents_per_tenant + 1)
    return await team.store.find(AgentRecord, tenant, query)


async def check_agent_name(team: Team, tenant: str, name: str) -> tuple[Expect, ...]:
    """Refuse an agent the name of a person; else what that depends on."""
    names = await team.key_names.of(tenant)
    if name in names.people:
        raise NameTaken(f"{name} is the name of a person", hint="give the agent another name", facts={"name": name})
    return (Expect(KeyNames.kind, ALL_KEYS, names.version),)


async def check_person_name(team: Team, tenant: str, name: str) -> tuple[Expect, ...]:
    """Refuse a person the name of an agent; else what that depends on."""
    record = await team.store.get(AgentRecord, tenant, name)
    if record is not None or name in (await team.key_names.of(tenant)).agents:
        raise NameTaken(f"{name} is the name of an agent", hint="give the person another name", facts={"name": name})
    return (Expect(AgentRecord.kind, name, 0),)


async def similar_agents(team: Team, caller: Caller, name: str) -> list[str]:
    """Registered agents whose names resemble this one, without those that the policies keep apart from the caller."""
    names = await team.names.get(caller.tenant)
    close = near_misses(name, names.agents - {name}, _SIMILAR_CANDIDATES)
    return (await _not_apart(team, caller, close))[:_SIMILAR_MAX]


async def similar_addresses(team: Team, caller: Caller, to: str) -> list[str]:
    """What an unknown agent's name may have been meant for: the role of this name first, then similar names."""
    roles = (await team.names.get(caller.tenant)).roles
    addresses = [f"{prefix}{to}" for prefix in ROLE_PREFIXES] if to in roles else []
    return addresses + await similar_agents(team, caller, to)


async def similar_roles(team: Team, caller: Caller, role: str) -> list[str]:
    """Roles that somebody holds and that resemble this one."""
    return near_misses(role, (await team.names.get(caller.tenant)).roles - {role}, _SIMILAR_MAX)


async def nameable(team: Team, caller: Caller, agents: Iterable[str]) -> list[str]:
    """The first few of these agents that may be named to the caller."""
    return (await _not_apart(team, caller, agents))[:_SIMILAR_MAX]


async def _not_apart(team: Team, caller: Caller, agents: Iterable[str]) -> list[str]:
    records = [await team.store.get(AgentRecord, caller.tenant, agent) for agent in agents]
    known = [record for record in records if record is not None]
    return [record.id for record in known if not await is_apart(team, caller, record.attributes)]


async def no_such_agent(team: Team, caller: Caller, name: str) -> NotFound:
    """The error for an agent that is not registered, with similar names."""
    similar = await similar_agents(team, caller, name)
    return NotFound.no_such("agent", suggestion(similar), similar=similar)


async def check_speaks_for_no_person(team: Team, tenant: str, name: str) -> None:
    """Refuse a key of the tenant the name of a person: only a person's own key says who it is."""
    names = await team.key_names.of(tenant)
    if (
        name in names.people
        and name not in names.agents
        and await team.store.get(AgentRecord, tenant, name) is None  # older data: then the name is the agent's
    ):
        raise WrongSender(f"{name} is a person, not an agent", hint=f"use a key of {name}", facts={"name": name})
