"""Names of agents and of people. Both are addresses, so a name belongs to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.agents.agent import AgentRecord
from parley.domain.directory.callers import NO_TENANT, IssuedKey, Key, KeyKind
from parley.domain.errors.team import NameTaken
from parley.domain.names import is_name

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
    return "" if await has_key(team, tenant, KeyKind.AGENT, user) else user


async def check_agent_name(team: Team, tenant: str, name: str) -> None:
    """Refuse an agent the name of a person."""
    if await has_key(team, tenant, KeyKind.HUMAN, name):
        raise NameTaken(f"{name} is the name of a person", hint="give the agent another name", facts={"name": name})


async def check_person_name(team: Team, tenant: str, name: str) -> None:
    """Refuse a person the name of an agent."""
    record = await team.store.get(AgentRecord, tenant, name)
    if record is not None or await has_key(team, tenant, KeyKind.AGENT, name):
        raise NameTaken(f"{name} is the name of an agent", hint="give the person another name", facts={"name": name})


async def has_key(team: Team, tenant: str, kind: KeyKind, name: str) -> bool:
    """Whether an agent or a person of this name was ever given a key. A revoked one counts: its mail is still there."""
    for issued in await team.store.children(IssuedKey, tenant, "", limit=team.limits.keys_per_tenant + 1):
        key = await team.store.get(Key, NO_TENANT, issued.id)
        if key is not None and key.key_kind is kind and name == (key.agent_id or key.user_id):
            return True
    return False
