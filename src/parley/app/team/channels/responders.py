"""Whom a message may be for, whether somebody could get it, and who was meant when nobody could."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.names import nameable, similar_addresses, similar_roles
from parley.app.team.directory.participants import find_joined
from parley.app.team.rules import in_force as rules
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import MemberPolicy
from parley.domain.channel.post import NO_UNITS, holders
from parley.domain.directory.access import AGENT
from parley.domain.directory.callers import EVERYONE, QUEUE_PREFIX, Role, role_of
from parley.domain.errors.team import NoResponders, NotMember
from parley.domain.message.message import Pattern
from parley.domain.names import suggestion
from parley.domain.record import Expect, expecting

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from parley.app.team.channels.venues import Venue
    from parley.app.team.rules.docket import TeamDocket
    from parley.app.team.team import Team
    from parley.domain.channel.channel import Channel, View
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.directory.access import Access
    from parley.domain.directory.callers import Caller


class Addressees(NamedTuple):
    """The role that a draft is for, the org units of whom it may be for, and which holders joined the intent."""

    role: Role | None
    units: Mapping[str, str]
    joined: Container[str]


async def addressees_of(
    docket: TeamDocket,
    caller: Caller,
    venue: Venue,
    sender_view: View,
    record: AgentRecord | None,
    draft: PostDraft,
    request: Post | None,
) -> Addressees:
    """Whom a draft may be for. Refuses a draft that nobody could get, unless it may wait for somebody."""
    team, channel, access, expects = docket.team, venue.channel, venue.access, docket.expects
    role = await addressed_role(team, caller.tenant, draft, expects)
    addressed = _addressed_agents(draft, role, request)
    units = (
        await rules.addressed_units(team, docket.book, access, record, addressed) if access.names_units else NO_UNITS
    )
    joined = await find_joined(team, access, role, docket.at, expects) if role is not None else ()
    must_check = draft.wait_for_responders is False or (role is None and draft.to.startswith(QUEUE_PREFIX))
    if must_check and channel.is_open and sender_view.may_write:
        await check(team, caller, channel, access, draft, role, units, joined)
    return Addressees(role, units, joined)


async def addressed_role(team: Team, tenant: str, draft: PostDraft, expects: list[Expect]) -> Role | None:
    """The role that a draft is for, noted as something the decision depends on."""
    role_id = role_of(draft.to)
    if not role_id:
        return None
    role = await team.store.get(Role, tenant, role_id)
    expects.append(expecting(role) if role else Expect(Role.kind, role_id, 0))
    return role


def _addressed_agents(draft: PostDraft, role: Role | None, request: Post | None) -> Iterable[str]:
    """The agents that a draft may be for."""
    if role is not None:
        return [holder.agent for holder in role.holders]
    return (request.sender,) if request is not None else (draft.to,)


async def check(
    team: Team,
    caller: Caller,
    channel: Channel,
    access: Access,
    draft: PostDraft,
    role: Role | None,
    units: Mapping[str, str],
    joined: Container[str] = (),
) -> None:
    """Refuse a message that nobody could get, unless it may wait for somebody.

    `role` is the one it is for, `units` those of the addressed agents, `joined` the holders that joined the intent.
    """
    to, waits = draft.to, draft.wait_for_responders
    if waits is True or draft.pattern is Pattern.RESPONSE or to in ("", EVERYONE):
        return
    if waits is None:
        # A queue may wait for holders of its role, but not for ever because of a typing error.
        if role is None and to.startswith(QUEUE_PREFIX):
            await _refuse_role(team, caller, channel, access, to, None)
    elif not role_of(to):
        await _check_known(team, caller, channel, access, to)
    elif not holders(role, channel, access, team.at(), units, joined):
        await _refuse_role(team, caller, channel, access, to, role)


async def _check_known(team: Team, caller: Caller, channel: Channel, access: Access, to: str) -> None:
    """Refuse a message to an agent that nobody knows of.

    Registered agents are known, however long they have been away, and so is everyone who was ever given a key, takes
    part in the intent or is a member of the channel. One that was deregistered is refused as departed.
    """
    if to == caller.agent or await team.store.get(AgentRecord, caller.tenant, to) is not None:
        return
    if not _is_listed(channel, access, to):
        await check_known(team, caller, to)


async def check_known(team: Team, caller: Caller, to: str) -> None:
    """Refuse an agent that is not registered and was never given a key."""
    if not await _is_known(team, caller, to):
        similar = await similar_addresses(team, caller, to)
        text = f'no agent "{to}" is registered'
        raise NoResponders(text, hint=suggestion(similar), facts={"to": to, "similar": similar})


async def with_similar(team: Team, caller: Caller, refusal: NotMember) -> NotMember:
    """The refusal of a message to an agent that takes no part, with similar names when nobody knows of the agent."""
    to = str(refusal.facts.get("to", ""))
    if not to or await _is_known(team, caller, to):
        return refusal
    similar = await similar_addresses(team, caller, to)
    return NotMember(
        refusal.message, hint=suggestion(similar) or refusal.hint, facts={**refusal.facts, "similar": similar}
    )


async def _is_known(team: Team, caller: Caller, agent: str) -> bool:
    if await team.store.get(AgentRecord, caller.tenant, agent) is not None:
        return True
    keys = await team.key_names.of(caller.tenant)
    return agent in keys.agents or agent in keys.people


async def _refuse_role(
    team: Team, caller: Caller, channel: Channel, access: Access, to: str, role: Role | None
) -> None:
    """Refuse a message to a role that nobody who could read it holds."""
    role_id = role_of(to)
    prefix = to.removesuffix(role_id)
    similar = [f"{prefix}{name}" for name in await similar_roles(team, caller, role_id)]
    facts = {"to": to, "similar": similar}
    outside = await nameable(team, caller, [holder.agent for holder in role.holders]) if role is not None else []
    if outside:
        holds = f"{' and '.join(outside)} {'holds' if len(outside) == 1 else 'hold'} it"
        bring = f"parley intent assign {access.id} {outside[0]}"
        if channel.policy is MemberPolicy.EXPLICIT:
            bring = f'PATCH /channels/{channel.id} {{"add_members": ["{outside[0]}"]}}'
        text = f'nobody in this channel holds the role "{role_id}"'
        raise NoResponders(text, hint=f"{holds}, but not here; bring one: {bring}", facts=facts)
    give = f"give it to an agent: parley agent register NAME --role {role_id}"
    raise NoResponders(f'nobody holds the role "{role_id}"', hint=suggestion(similar) or give, facts=facts)


def _is_listed(channel: Channel, access: Access, agent: str) -> bool:
    return (
        agent in (access.created_by, channel.created_by)
        or channel.member(agent) is not None
        or any(assignment.agent_id == agent for assignment in access.assignments)
        or any(grant.principal_type == AGENT and grant.principal_id == agent for grant in access.grants)
    )
