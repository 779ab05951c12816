"""What a caller may do with an intent: by its access list, and by the isolation of org units.

Whatever was looked at is noted in `expects`, so that a commit is refused when it has changed meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.rules import in_force as rules
from parley.domain.agents.party import Attributes
from parley.domain.channel.channel import view
from parley.domain.directory.access import (
    AGENT,
    ORG_UNIT,
    RULER,
    Access,
    AccessPolicy,
    Permission,
    Standing,
    check_allows,
    standing,
)
from parley.domain.directory.callers import KeyKind
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import NotFound
from parley.domain.names import is_name
from parley.domain.record import Expect, expecting
from parley.domain.rules.isolation import are_apart, bounded

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.channel import Channel, View
    from parley.domain.directory.access import Assignment
    from parley.domain.directory.callers import Caller


class IntentAccess(NamedTuple):
    """An intent that a caller may use, with its access list, and what a commit about it depends on."""

    intent: Intent
    access: Access
    expects: tuple[Expect, ...]


async def intent_access(team: Team, caller: Caller, intent_id: str, needed: Permission) -> IntentAccess:
    """The intent, if the caller may do this with it; `NotFound` if it may not know of it."""
    intent = await team.store.get(Intent, caller.tenant, intent_id)
    access = await team.store.get(Access, caller.tenant, intent_id)
    if intent is None or access is None:
        raise NotFound.no_such("intent")
    expects = [expecting(access)]
    stands = await stands_on(team, access, caller, expects)
    if stands is None:
        raise NotFound.no_such("intent")
    check_allows(stands, needed)
    return IntentAccess(intent, access, tuple(expects))


async def stands_on(team: Team, access: Access, caller: Caller, expects: list[Expect] | None = None) -> Standing | None:
    """The caller's standing on an intent, for everything but messages; a key that speaks for the whole tenant rules.

    Who only reads needs no `expects`.
    """
    if caller.all_seeing:
        return RULER
    if not caller.agent:
        return None
    noted = expects if expects is not None else []
    stands = standing(access, caller.agent, team.at(), await _unit_on(team, access, caller, noted))
    return None if stands is None else await _bounded(team, access, caller, stands, noted)


async def is_listed(team: Team, access: Access, caller: Caller) -> bool:
    """Whether the access list lets the caller write, whatever isolation says: messages are judged one by one."""
    stands = standing(access, caller.agent, team.at(), await _unit_on(team, access, caller, []))
    return stands is not None and stands.allows(Permission.WRITE)


async def may_ask(team: Team, access: Access, caller: Caller, expects: list[Expect]) -> bool:
    """Whether isolation lets the caller ask for access: a request is text that others on the intent read."""
    stands = await _bounded(team, access, caller, RULER, expects)
    return stands is not None and stands.allows(Permission.WRITE)


async def _bounded(
    team: Team, access: Access, caller: Caller, stands: Standing, expects: list[Expect]
) -> Standing | None:
    """What isolation leaves of a standing."""
    if not await is_isolated(team, caller, expects):
        return stands
    attributes = (await rules.party(team, caller.tenant, caller.agent, expects)).attributes
    owner = await _owner(team, access, expects)
    readers = None if owner or access.policy is AccessPolicy.OPEN else await _readers(team, access, expects)
    book = (await rules.in_force(team, caller.tenant, expects)).book
    return bounded(book, stands, attributes, owner, readers)


async def is_isolated(team: Team, caller: Caller, expects: list[Expect]) -> bool:
    """Whether org units matter to what this caller sees: it speaks as an agent, and there are several."""
    if not caller.agent or (caller.kind is KeyKind.HUMAN and caller.agent == caller.user):
        return False
    return await rules.several_units(team, caller.tenant, expects)


async def is_apart(team: Team, caller: Caller, other: Attributes) -> bool:
    """Whether the policies keep the caller's agent from talking to a party of another unit."""
    if not await is_isolated(team, caller, []):
        return False
    attributes = (await rules.party(team, caller.tenant, caller.agent)).attributes
    return are_apart((await rules.in_force(team, caller.tenant, [])).book, attributes, other)


async def sees(team: Team, channel: Channel, access: Access, caller: Caller) -> View:
    """What the caller may see of the messages of a channel: each was judged for those who read it."""
    return view(channel, access, caller, team.at(), await _unit_on(team, access, caller, []))


async def _unit_on(team: Team, access: Access, caller: Caller, expects: list[Expect]) -> str:
    """The unit of the caller's agent, where the access list goes by units."""
    return (await rules.units_of(team, access, (caller.agent,), expects)).get(caller.agent, "")


async def _owner(team: Team, access: Access, expects: list[Expect]) -> str:
    """The unit that an intent belongs to: from before there were several, the one that its creator is in now."""
    if access.org_unit or not is_name(access.created_by):
        return access.org_unit
    return (await rules.party(team, access.tenant_id, access.created_by, expects)).attributes.org_unit


async def _readers(team: Team, access: Access, expects: list[Expect]) -> list[Attributes]:
    """Everyone on an access list."""
    names = [assignment.agent_id for assignment in access.assignments]
    names += [grant.principal_id for grant in access.grants if grant.principal_type == AGENT]
    units = [grant.principal_id for grant in access.grants if grant.principal_type == ORG_UNIT]
    parties = [await rules.party(team, access.tenant_id, name, expects) for name in names]
    return [*(party.attributes for party in parties), *(Attributes(org_unit=unit) for unit in units)]


def assigned(access: Access, agent: str) -> Assignment | None:
    """The agent's assignment, if it has one."""
    return next((assignment for assignment in access.assignments if assignment.agent_id == agent), None)
