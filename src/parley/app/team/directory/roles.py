"""Roles: holders, grants, and the delivery of messages that waited for a holder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.directory.participants import find_joined
from parley.app.team.retry import committed
from parley.app.team.rules import in_force as rules
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import PostState, holders
from parley.domain.directory.access import Access
from parley.domain.directory.callers import ROLE_PREFIX, Caller, KeyKind, Role, party_name, with_holder, without_holder
from parley.domain.errors.errors import Conflict, Forbidden, NotFound
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import AgentDeparted
from parley.domain.record import expecting
from parley.domain.rules.isolation import are_apart
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.suspension import check_not_stopped
from parley.domain.store.changes import Moved, TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.participation import Participant
    from parley.domain.record import Expect

# Waiting messages checked in one pass.
_LOOKED_AT = 500


async def deliver_waiting(team: Team, tenant: str, *, role_id: str = "", channel_id: str = "") -> int:
    """Deliver waiting messages of roles that now have a holder, of one role or channel; return how many."""
    role_ids = [role_id] if role_id else [role.id for role in await team.store.children(Role, tenant, "")]
    delivered = 0
    for waiting_role in role_ids:

        async def decide(role_id: str = waiting_role) -> TeamChanges | None:
            return await _delivering(team, tenant, role_id, channel_id)

        done = await committed(team, Caller.system(tenant), decide, "role")
        delivered += len(done.posts) if done else 0
    return delivered


async def _delivering(team: Team, tenant: str, role_id: str, channel_id: str) -> TeamChanges | None:
    """What of a role's messages can be delivered at this moment, and what that depends on."""
    role = await team.store.get(Role, tenant, role_id)
    if role is None or not role.holders:
        return None
    moved, expects = [], [expecting(role)]
    for post in await team.store.pending(tenant, ROLE_PREFIX + role_id):
        channel = await team.store.get(Channel, tenant, post.channel_id)
        access = await team.store.get(Access, tenant, post.intent_id)
        if channel is None or access is None or (channel_id and channel.id != channel_id) or post.over(team.at()):
            continue
        units = await rules.units_of(team, access, [holder.agent for holder in role.holders], expects)
        joined = await find_joined(team, access, role, team.at())
        able = holders(role, channel, access, team.at(), units, joined)
        recipients = tuple([agent for agent in able if await may_have(team, tenant, post.sender, agent, expects)])
        if recipients:
            moved.append(Moved(post.id, PostState.DELIVERED, recipients))
            expects += [expecting(channel), expecting(access)]
    return TeamChanges(tenant, expects=tuple(dict.fromkeys(expects)), moved=tuple(moved)) if moved else None


async def deliver_to_newcomer(team: Team, newcomer: Participant) -> None:
    """Deliver what waited for a holder of a role to an agent that holds it and has just joined the intent."""
    tenant = newcomer.tenant_id
    for role in await team.store.children(Role, tenant, ""):
        if role.held_by(newcomer.agent):
            # The message by which it joined is durable, and must not fail now; the sweep delivers what is left.
            with suppress(Conflict):
                await deliver_waiting(team, tenant, role_id=role.id)


async def deliver_stranded(team: Team) -> None:
    """Deliver what waits though somebody could receive it: a server may have died right after it granted a role.

    A part of all that waits is looked at each time, in turn.
    """
    addresses = await team.store.waiting(team.stranded_after, _LOOKED_AT)
    team.stranded_after = addresses[-1][1] if addresses else ""
    await team.store.catch_up(*{tenant for tenant, _ in addresses})
    for tenant, to in addresses:
        await deliver_waiting(team, tenant, role_id=to.removeprefix(ROLE_PREFIX))


async def may_have(
    team: Team, tenant: str, sender: str, agent: str, expects: list[Expect], *, was_judged: bool = False
) -> bool:
    """Whether an agent may have what a sender said to a role that it holds.

    What was judged for this agent when it was sent goes to it, unless the two are kept apart by now. Other messages
    were judged for nobody: they go to it only where no rule concerns the two. Nothing reaches or leaves who is
    suspended.
    """
    in_force = await rules.in_force(team, tenant, expects)
    speaker = await rules.party(team, tenant, sender, expects)
    receiver = await rules.party(team, tenant, agent, expects)
    attributes = (speaker.attributes, receiver.attributes)
    if was_judged:
        is_kept = are_apart(in_force.book, *attributes)
    else:
        is_kept = concerns(in_force.book.between(*attributes), speaker, receiver)
    try:
        check_not_stopped(in_force.stopped, speaker, receiver)
    except Suspended:
        return False
    return not is_kept


async def registering(
    team: Team, caller: Caller, agent_id: str, record: AgentRecord | None, role_id: str | None
) -> tuple[Role, ...]:
    """The roles as they are when an agent registers with one. An agent does not take a role; it is granted."""
    if not role_id:
        return ()
    role = await team.store.get(Role, caller.tenant, role_id) or Role(id=party_name(role_id), tenant_id=caller.tenant)
    if role.held_by(agent_id):
        return ()
    if caller.kind not in (KeyKind.SERVICE, KeyKind.ADMIN):
        command = f"parley agent register {agent_id} --role {role_id}"
        raise Forbidden("an agent does not take a role by itself", hint=f"an admin grants it: {command}")
    changed = [with_holder(role, agent_id)]
    if record is not None and record.role_id and record.role_id != role_id:
        before = await team.store.get(Role, caller.tenant, record.role_id)
        if before is not None and before.held_by(agent_id):
            changed.append(without_holder(before, agent_id))
    return tuple(changed)


async def held(team: Team, caller: Caller, role_id: str) -> Role:
    """A role with its holders; one that was never granted has none."""
    return await team.store.get(Role, caller.tenant, role_id) or Role(id=party_name(role_id), tenant_id=caller.tenant)


async def list_all(team: Team, caller: Caller) -> list[Role]:
    """All roles that were ever granted in the tenant."""
    return list(await team.store.children(Role, caller.tenant, ""))


async def grant(team: Team, caller: Caller, role_id: str, agent_id: str) -> Role:
    """Grant a role to an agent, and deliver the messages that waited for a holder."""
    agent_id = party_name(agent_id)
    async with team.roster:
        role = await _grant(team, caller, role_id, agent_id)
    await deliver_waiting(team, caller.tenant, role_id=role_id)
    return role or await held(team, caller, role_id)


async def _grant(team: Team, caller: Caller, role_id: str, agent_id: str) -> Role | None:
    """The role as the grant leaves it; None when the agent holds it already."""

    async def decide() -> TeamChanges | None:
        role = await held(team, caller, role_id)
        if role.held_by(agent_id):
            return None
        record = await team.store.get(AgentRecord, caller.tenant, agent_id)
        if record is not None and record.gone:
            raise AgentDeparted(f"{agent_id} has left", hint="register it again")
        # The first role an agent is granted is the one that its record shows.
        shown = (replace(record, role_id=role_id),) if record is not None and not record.role_id else ()
        # It must not leave at this moment, at another server.
        stays = (expecting(record),) if record is not None else ()
        entry = team.entry(caller, "role_granted", agent_id, role=role_id)
        return TeamChanges(caller.tenant, expects=stays, puts=(with_holder(role, agent_id), *shown), entries=(entry,))

    done = await committed(team, caller, decide, "role")
    role = done.puts[0] if done is not None else None
    assert role is None or isinstance(role, Role)  # noqa: S101  # what was put
    return role


async def revoke(team: Team, caller: Caller, role_id: str, agent_id: str) -> Role:
    """Revoke a role from an agent; messages that it has received stay."""
    async with team.roster:
        await _revoke(team, caller, role_id, agent_id)
    return await held(team, caller, role_id)


async def _revoke(team: Team, caller: Caller, role_id: str, agent_id: str) -> None:
    async def decide() -> TeamChanges:
        role = await team.store.get(Role, caller.tenant, role_id)
        if role is None or not role.held_by(agent_id):
            raise NotFound("the agent does not hold this role")
        record = await team.store.get(AgentRecord, caller.tenant, agent_id)
        shown = (replace(record, role_id=""),) if record is not None and record.role_id == role_id else ()
        entry = team.entry(caller, "role_revoked", agent_id, role=role_id)
        return TeamChanges(caller.tenant, puts=(without_holder(role, agent_id), *shown), entries=(entry,))

    await committed(team, caller, decide, "role")
