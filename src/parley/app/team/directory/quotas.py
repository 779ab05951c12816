"""Limits on what a tenant and one of its agents may create."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.domain.directory.intent import Intent, IntentCount
from parley.domain.errors.team import QuotaExceeded

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller


async def check_intents(team: Team, tenant: str) -> None:
    """Refuse one more intent than a tenant may have."""
    if await team.store.count(Intent, tenant, "") >= team.limits.intents_per_tenant:
        raise QuotaExceeded(f"there are at most {team.limits.intents_per_tenant} intents")


async def counted_intent(team: Team, caller: Caller) -> tuple[IntentCount, ...]:
    """The count of an agent's intents with one more: no agent takes all that a tenant may have."""
    if not caller.agent:
        return ()
    stored = await team.store.get(IntentCount, caller.tenant, caller.agent)
    count = stored or IntentCount(id=caller.agent, tenant_id=caller.tenant)
    if count.total >= team.limits.intents_per_agent:
        raise QuotaExceeded(f"an agent creates at most {team.limits.intents_per_agent} intents")
    return (replace(count, total=count.total + 1),)
