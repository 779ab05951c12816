"""What a caller may do with an intent, by its access list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.directory.access import Access, Permission, Standing, standing
from parley.domain.directory.intent import Intent
from parley.domain.errors.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.access import Assignment
    from parley.domain.directory.callers import Caller


async def intent_access(team: Team, caller: Caller, intent_id: str, needed: Permission) -> tuple[Intent, Access]:
    """The intent and its access list, if the caller may do this with it; `NotFound` if it may not know of it."""
    intent = await team.store.get(Intent, caller.tenant, intent_id)
    access = await team.store.get(Access, caller.tenant, intent_id)
    if intent is None or access is None:
        raise NotFound("no such intent")
    stands = stands_on(access, caller, team.at())
    if stands is None:
        raise NotFound("no such intent")
    if not stands.allows(needed):
        raise Forbidden(f"you have {stands.permission.value} on this intent; this needs {needed.value}")
    return intent, access


def stands_on(access: Access, caller: Caller, now: str) -> Standing | None:
    """The caller's standing; a key that speaks for the whole tenant rules."""
    if caller.all_seeing:
        return Standing(Permission.ADMIN, 0)
    return standing(access, caller.agent, now) if caller.agent else None


def assigned(access: Access, agent: str) -> Assignment | None:
    """The agent's assignment, if it has one."""
    return next((assignment for assignment in access.assignments if assignment.agent_id == agent), None)
