"""Whether a caller is suspended: asked before everything that it reads, and again by everything that it commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Party
from parley.domain.directory.callers import KeyKind
from parley.domain.record import Expect, expecting
from parley.domain.rules import suspension
from parley.domain.rules.suspension import Suspensions, check_not_stopped, check_person_not_stopped

if TYPE_CHECKING:
    from parley.domain.directory.callers import Caller
    from parley.ports.team import TeamStore

NO_SUSPENSIONS = Expect(Suspensions.kind, suspension.ALL, 0)


async def check_not_suspended(store: TeamStore, caller: Caller) -> tuple[Expect, ...]:
    """Refuse a caller that speaks for a suspended agent, or is a suspended person; else what that depends on."""
    stopped = await store.get(Suspensions, caller.tenant, suspension.ALL)
    if stopped is None:
        return (NO_SUSPENSIONS,)
    is_person = caller.kind is KeyKind.HUMAN
    if stopped.stopped and is_person:
        # In the place of an agent, too.
        check_person_not_stopped(stopped, caller.user)
    if stopped.stopped and caller.agent and not (is_person and caller.agent == caller.user):
        record = await store.get(AgentRecord, caller.tenant, caller.agent)
        attributes = record.attributes if record is not None else UNKNOWN_ATTRIBUTES
        check_not_stopped(stopped, Party(caller.agent, attributes), None)
    return (expecting(stopped),)


async def check_speaks_for(store: TeamStore, caller: Caller, agent_id: str) -> None:
    """Refuse a service key that acts for a suspended agent. What an admin does to an agent is not said for it."""
    if caller.kind is KeyKind.SERVICE and caller.agent != agent_id:
        await check_not_suspended(store, caller._replace(agent=agent_id))
