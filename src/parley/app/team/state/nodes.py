"""The servers that share a store, as one of them knows them. Alone, it does every job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from parley.app.team.state.history import NodeHistory
from parley.domain.errors.errors import Unavailable
from parley.domain.store.node import MOST_SKEW_SECONDS, Node, StoreReport

if TYPE_CHECKING:
    from parley.ports.team import Condition, Nodes

# How old an answer of the store about other nodes may be; they report every two seconds.
_FRESH_SECONDS = 1.0


class NodeState:
    """Who the others are, and which jobs this one does for all of them."""

    def __init__(
        self,
        nodes: Nodes | None = None,
        name: str = "",
        url: str = "",
        version: str = "",
        condition: Condition | None = None,
    ) -> None:
        # None where the store is not shared.
        self.nodes = nodes
        self.name = name
        self.url = url
        self.version = version
        # Reports how the store is.
        self.condition: Condition | None = condition or nodes
        self.leading: set[str] = set()
        # Its first key does not exist yet.
        self.starting = False
        # About to stop: a load balancer should send requests elsewhere.
        self.leaving = False
        # By how many seconds this node's clock is ahead of the store's.
        self.skew = 0.0
        # Agents with a stream on other nodes, by tenant, and when they were asked for.
        self._connected: dict[str, set[str]] = {}
        self._connected_at = float("-inf")
        # What this node did in the last minutes.
        self.history = NodeHistory()

    @property
    def out_of_time(self) -> bool:
        """Whether this node's clock is so far off that it must not serve beside the others."""
        return abs(self.skew) > MOST_SKEW_SECONDS

    def check_time(self) -> None:
        """Refuse to decide anything by a clock that is not the others'."""
        if self.out_of_time:
            message = f"this server's clock is {abs(self.skew):.0f} s off the store's"
            raise Unavailable(message, hint="see to its time service; another server may answer")

    async def leads(self, job: str) -> bool:
        """Whether this node is the one that does a job."""
        leads = self.nodes is None or (not self.out_of_time and await self.nodes.leads(job))
        (self.leading.add if leads else self.leading.discard)(job)
        return leads

    async def connected_elsewhere(self, tenant: str) -> set[str]:
        """The agents of a tenant with a stream on another node, as of a few seconds ago."""
        if self.nodes is None:
            return set()
        now = asyncio.get_running_loop().time()
        if now - self._connected_at > _FRESH_SECONDS:
            self._connected_at = now
            connected: dict[str, set[str]] = {}
            for node in await self.nodes.list_nodes():
                if node.name == self.name or node.silent:
                    continue
                for owner, agents in node.connected.items():
                    connected.setdefault(owner, set()).update(agents)
            self._connected = connected
        return self._connected.get(tenant, set())

    async def leave(self) -> None:
        """Give up what this node does for the others."""
        if self.nodes is not None:
            await self.nodes.leave(self.name)

    def node(self, uptime: float, streams: int, clock_step: float = 0.0) -> Node:
        """How this node is."""
        here = Node(
            self.name,
            self.version,
            self.url,
            uptime,
            streams,
            leads=tuple(sorted(self.leading)),
            skew=self.skew,
            clock_step=clock_step,
        )
        return self.condition.measured(here) if self.condition is not None else here

    async def report(self, here: Node) -> StoreReport:
        """How all of them are, and the store."""
        report = await self.condition.report() if self.condition is not None else StoreReport("")
        # What it says of itself is not older than the question. Nothing is written: it may be that nothing can be.
        others = [node for node in report.nodes if node.name != here.name]
        return report._replace(nodes=tuple(sorted((*others, here))))
