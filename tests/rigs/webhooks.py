"""Webhooks without their worker: one pass over all subscriptions, when the test says so."""

from __future__ import annotations

from parley.app.team.team import Team
from parley.app.team.webhooks import pushing
from parley.app.team.webhooks.subscriptions import follow_endpoint
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.subscription import ENDPOINTS, Subscription
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Tenant
from parley.ports.outside import Outbound


async def push_due(team: Team, outbound: Outbound) -> None:
    """Push what every subscription has coming now, a limited number for each."""
    tenants = [tenant.id for tenant in await team.store.children(Tenant, NO_TENANT, "")]
    for tenant in dict.fromkeys((DEFAULT_TENANT, *tenants)):
        for record in await team.store.children(AgentRecord, tenant, ""):
            await follow_endpoint(team, tenant, record.id)
        for parent in ("", ENDPOINTS):
            for subscription in await team.store.children(Subscription, tenant, parent):
                await pushing.deliver(team, outbound, tenant, subscription.id)
