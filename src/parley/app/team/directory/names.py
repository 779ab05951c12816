"""Names of agents and of people. Both are addresses, so a name belongs to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.agents.agent import AgentRecord
from parley.domain.directory.callers import ALL_KEYS, KeyNames
from parley.domain.errors.team import NameTaken, WrongSender
from parley.domain.names import is_name
from parley.domain.record import Expect

if TYPE_CHECKING:
    from parley.app.team.team import Team


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


async def check_speaks_for_no_person(team: Team, tenant: str, name: str) -> None:
    """Refuse a key of the tenant the name of a person: only a person's own key says who it is."""
    names = await team.key_names.of(tenant)
    if (
        name in names.people
        and name not in names.agents
        and await team.store.get(AgentRecord, tenant, name) is None  # older data: then the name is the agent's
    ):
        raise WrongSender(f"{name} is a person, not an agent", hint=f"use a key of {name}", facts={"name": name})
