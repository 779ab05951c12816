"""Whether a caller may announce something to others, by the suspensions in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Party
from parley.domain.channel.channel import Channel
from parley.domain.directory.intent import Intent, Task
from parley.domain.record import Expect, expecting
from parley.domain.rules import suspension
from parley.domain.rules.suspension import Suspensions, check_not_stopped

if TYPE_CHECKING:
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import TeamChanges
    from parley.ports.team import TeamStore

NO_SUSPENSIONS = Expect(Suspensions.kind, suspension.ALL, 0)


def announces(changes: TeamChanges) -> bool:
    """Whether a change tells others something, and is not a message: messages are judged one by one."""
    return not changes.posts and (
        changes.events != () or any(isinstance(record, Channel | Intent | Task) for record in changes.puts)
    )


async def check_not_suspended(store: TeamStore, caller: Caller) -> tuple[Expect, ...]:
    """Refuse a suspended caller; else what that depends on."""
    stopped = await store.get(Suspensions, caller.tenant, suspension.ALL)
    if stopped is None:
        return (NO_SUSPENSIONS,)
    record = await store.get(AgentRecord, caller.tenant, caller.agent)
    attributes = record.attributes if record is not None else UNKNOWN_ATTRIBUTES
    check_not_stopped(stopped, Party(caller.agent, attributes), None)
    return (expecting(stopped),)
