"""Whether somebody could answer a request, and who was meant when nobody could."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory.permissions import is_apart
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.post import holders
from parley.domain.directory.access import AGENT
from parley.domain.directory.callers import role_of
from parley.domain.errors.team import NoResponders
from parley.domain.names import near_misses

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from parley.app.team.team import Team
    from parley.domain.channel.channel import Channel
    from parley.domain.directory.access import Access
    from parley.domain.directory.callers import Caller, Role

_SIMILAR_MAX = 3
# More are looked at than shown: some may be hidden from the caller.
_SIMILAR_CANDIDATES = 12


async def check(
    team: Team,
    caller: Caller,
    channel: Channel,
    access: Access,
    to: str,
    role: Role | None,
    units: Mapping[str, str],
    joined: Container[str] = (),
) -> None:
    """Refuse a request that nobody could answer.

    `role` is the one it is for, `units` those of the addressed agents, `joined` the holders that joined the intent.
    """
    if not role_of(to):
        await _check_known(team, caller, channel, access, to)
    elif not holders(role, channel, access, team.at(), units, joined):
        await _refuse_unheld_role(team, caller, to)


async def _check_known(team: Team, caller: Caller, channel: Channel, access: Access, to: str) -> None:
    """Refuse a request to an agent that nobody knows of.

    Registered agents are known, however long they have been away, and so is everyone who was ever given a key, takes
    part in the intent or is a member of the channel. One that was deregistered is refused as departed.
    """
    if to == caller.agent or await team.store.get(AgentRecord, caller.tenant, to) is not None:
        return
    if not _is_listed(channel, access, to):
        await check_known(team, caller, to)


async def check_known(team: Team, caller: Caller, to: str) -> None:
    """Refuse an agent that is not registered and was never given a key."""
    if await team.store.get(AgentRecord, caller.tenant, to) is not None:
        return
    keys = await team.key_names.of(caller.tenant)
    if to in keys.agents or to in keys.people:
        return
    names = await team.names.get(caller.tenant)
    similar = []
    for name in near_misses(to, names.agents, _SIMILAR_CANDIDATES):
        record = await team.store.get(AgentRecord, caller.tenant, name)
        if record is not None and not await is_apart(team, caller, record.attributes):
            similar.append(name)
    raise _no_responders(f'no agent "{to}" is registered', to, similar[:_SIMILAR_MAX])


async def _refuse_unheld_role(team: Team, caller: Caller, to: str) -> None:
    """Refuse a request to a role that nobody who could read it holds."""
    names = await team.names.get(caller.tenant)
    role = role_of(to)
    prefix = to.removesuffix(role)
    similar = [f"{prefix}{name}" for name in near_misses(role, names.roles - {role}, _SIMILAR_MAX)]
    raise _no_responders(f'nobody in this channel holds the role "{role}"', to, similar)


def _no_responders(text: str, to: str, similar: list[str]) -> NoResponders:
    hint = f"did you mean {' or '.join(similar)}?" if similar else ""
    return NoResponders(text, hint=hint, facts={"to": to, "similar": similar})


def _is_listed(channel: Channel, access: Access, agent: str) -> bool:
    return (
        agent in (access.created_by, channel.created_by)
        or channel.member(agent) is not None
        or any(assignment.agent_id == agent for assignment in access.assignments)
        or any(grant.principal_type == AGENT and grant.principal_id == agent for grant in access.grants)
    )
