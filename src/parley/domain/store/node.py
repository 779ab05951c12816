"""A node, one of the servers that share a store; and the status report of nodes and store."""

from __future__ import annotations

from typing import NamedTuple

# A lease is asked for again long before it ends, and is another's soon after its holder has died.
LEASE_SECONDS = 6.0
SILENT_SECONDS = 10.0
# What is over for one node must not be to come for another: a clock so far off needs a person, one further away takes
# its node out of the group.
SKEW_SECONDS = 1.0
MOST_SKEW_SECONDS = 5.0
# Share of the database's connections above which a concern is reported.
_FULL = 0.9


class NodeSample(NamedTuple):
    """A step of a server's history: the highest queue, lag and number of streams in it; how many requests it answered;
    and how many of them were refusals, by code.
    """

    # The beginning of the step, in seconds since 1970.
    at: int
    queue: int = 0
    lag: int = 0
    streams: int = 0
    requests: int = 0
    refusals: dict[str, int] = {}  # noqa: RUF012  # never changed


class Node(NamedTuple):
    """How one server is. Times are seconds since it started or since it was heard of; `lag` is in commits."""

    name: str
    version: str = ""
    url: str = ""
    uptime: float = 0.0
    streams: int = 0
    # Commits that wait for their transaction, and how many of other nodes' it has not seen yet.
    queue: int = 0
    lag: int = 0
    # Connections to the database: in use, and how many it opens at most.
    connections: int = 0
    pool: int = 0
    leads: tuple[str, ...] = ()
    seen: float = 0.0
    # By how many seconds its clock is ahead of the store's.
    skew: float = 0.0
    # How many seconds its wall clock is away from where it was expected, until it has stayed there for five minutes.
    clock_step: float = 0.0
    # Where another server is that has the same name; empty when there is none.
    namesake: str = ""
    # What it did in the last minutes, the oldest step first.
    history: tuple[NodeSample, ...] = ()
    # The agents with a stream on it, by tenant.
    connected: dict[str, list[str]] = {}  # noqa: RUF012  # never changed

    @property
    def silent(self) -> bool:
        """Whether its last heartbeat is so old that it may be dead."""
        return self.seen > SILENT_SECONDS


class Replica(NamedTuple):
    """One that follows the database. Without the right to know more, its state is empty."""

    name: str
    # sync, quorum, potential or async
    state: str = ""
    lag_bytes: int = 0


class Concern(NamedTuple):
    """Something that needs a person: a stable code, and what it is."""

    code: str
    detail: str


class StoreReport(NamedTuple):
    """How the store is. What it does not know stays empty: a file has no replicas."""

    kind: str
    version: str = ""
    tenants: int = 0
    bytes: int = 0
    # What is written ahead of a file, and what the nodes tell each other.
    log_bytes: int = 0
    journal: int = 0
    # Transactions that wait for another one, for how many seconds the longest, and how old the oldest open one is.
    waiting: int = 0
    longest_wait: float = 0.0
    oldest_transaction: float = 0.0
    # To the whole database server; of them those of nodes; and how many there can be.
    connections: int = 0
    ours: int = 0
    most_connections: int = 0
    # The standbys that a commit waits for, as the database spells them, and who follows.
    standbys: str = ""
    replicas: tuple[Replica, ...] = ()
    row_security: bool = False
    nodes: tuple[Node, ...] = ()
    # Why it could not be asked how it is; then nothing else is known of it.
    unreachable: str = ""

    @property
    def wanted_connections(self) -> int:
        """How many connections there are when every node has opened all of its own."""
        return self.connections - self.ours + max(self.ours, sum(node.pool for node in self.nodes if not node.silent))

    def concerns(self) -> tuple[Concern, ...]:
        """What needs a person."""
        concerns = [
            Concern("node_silent", f"{node.name} was last heard of {node.seen:.0f} s ago")
            for node in self.nodes
            if node.silent
        ]
        concerns += [
            Concern("clock_skewed", f"the clock of {node.name} is {node.skew:+.1f} s off the database's")
            for node in self.nodes
            if abs(node.skew) > SKEW_SECONDS and not node.silent
        ]
        concerns += [
            Concern(
                "clock_stepped",
                f"the wall clock of {node.name} is {node.clock_step:+.0f} s away from where it was expected; "
                "nothing expires until it has stayed so for 5 minutes",
            )
            for node in self.nodes
            if node.clock_step and not node.silent
        ]
        concerns += [
            Concern("name_shared", f"two servers are called {node.name}: {node.url} and {node.namesake}")
            for node in self.nodes
            if node.namesake and not node.silent
        ]
        if self.unreachable:
            return (Concern("database_unreachable", self.unreachable), *concerns)
        if self.standbys and not any(replica.state in ("sync", "quorum", "") for replica in self.replicas):
            # Commits wait for it, for as long as the database was told to.
            concerns.append(
                Concern("no_sync_standby", f"synchronous_standby_names is {self.standbys}, and none follows")
            )
        if self.kind == "postgresql" and not self.row_security:
            detail = "the role is a superuser: nothing but our own queries keeps tenants apart"
            concerns.append(Concern("no_row_security", detail))
        if self.most_connections and self.connections > self.most_connections * _FULL:
            detail = f"{self.connections} of {self.most_connections} connections to the database are taken"
            concerns.append(Concern("connections_exhausted", detail))
        elif self.most_connections and self.wanted_connections > self.most_connections * _FULL:
            detail = f"the nodes may come to {self.wanted_connections} connections; the database has room for"
            concerns.append(Concern("pools_too_large", f"{detail} {self.most_connections}"))
        return tuple(concerns)
