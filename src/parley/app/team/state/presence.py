"""Which agents have a stream open: on this server by its own count, on others by their heartbeats.

A stream counts when the agent's own key, or a service in its name, opened it. People and admins who look at what an
agent sees do not make it present.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.agents.presence import is_online
from parley.domain.directory.callers import KeyKind
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.team.state.tail import Tail
    from parley.domain.agents.agent import AgentRecord
    from parley.domain.directory.callers import AgentStatus, Caller
    from parley.ports.mailbox import Clock

# Agents whose last stream has ended and of which the moment is remembered.
LEFT_MAX = 10_000


class Connected(NamedTuple):
    """The agents of a tenant with an open stream on any server, and when others here ended theirs."""

    agents: frozenset[str]
    left_at: dict[str, str]
    now: str

    def is_online(self, record: AgentRecord, status: AgentStatus) -> bool:
        """Whether an agent with this status is there."""
        return is_online(status, record.last_heartbeat_at, is_connected=record.id in self.agents)

    def last_seen(self, record: AgentRecord) -> str:
        """When an agent was last seen; empty: never."""
        if record.id in self.agents:
            return self.now
        return max(record.last_heartbeat_at, self.left_at.get(record.id, ""))


class ConnectedAgents:
    """Counts the streams of agents on this server."""

    def __init__(self, tail: Tail, clock: Clock) -> None:
        self._tail = tail
        self._clock = clock
        self._open: Counter[tuple[str, str]] = Counter()
        self._left: OrderedDict[tuple[str, str], str] = OrderedDict()

    def enter(self, caller: Caller) -> None:
        """A stream of this caller opens."""
        if not _is_agent(caller):
            return
        agent = (caller.tenant, caller.agent)
        self._open[agent] += 1
        if self._open[agent] == 1:
            self._left.pop(agent, None)
            self._tail.note_agent(*agent)

    def leave(self, caller: Caller) -> None:
        """A stream of this caller has ended."""
        if not _is_agent(caller):
            return
        agent = (caller.tenant, caller.agent)
        self._open[agent] -= 1
        if self._open[agent]:
            return
        del self._open[agent]
        self._left[agent] = stamp(self._clock.now().at)
        if len(self._left) > LEFT_MAX:
            self._left.popitem(last=False)
        self._tail.note_agent(*agent)

    def here(self) -> dict[str, list[str]]:
        """The agents with a stream on this server, by tenant."""
        agents: dict[str, list[str]] = {}
        for tenant, agent in self._open:
            agents.setdefault(tenant, []).append(agent)
        return agents

    def of_tenant(self, tenant: str, elsewhere: set[str]) -> Connected:
        """The agents of a tenant with a stream here, or elsewhere."""
        here = {agent for owner, agent in self._open if owner == tenant}
        left = {agent: at for (owner, agent), at in self._left.items() if owner == tenant}
        return Connected(frozenset(here | elsewhere), left, stamp(self._clock.now().at))


def _is_agent(caller: Caller) -> bool:
    return bool(caller.agent) and caller.kind in (KeyKind.AGENT, KeyKind.SERVICE)
