"""The status of the servers that share a store, and of the store, for operators."""

from parley.wire.api.records.record import Record, Timestamp


class NodeStatus(Record, frozen=True, kw_only=True):
    """One server. Times are in seconds; `lag` counts transactions of other nodes that it has not read yet."""

    name: str
    version: str
    url: str
    # Whether it is the one that answers.
    here: bool
    silent: bool
    seen: float
    uptime: float
    streams: int
    queue: int
    lag: int
    connections: int
    pool: int
    leads: list[str]
    # How many seconds its wall clock is away from where it was expected; 0 when nothing is wrong.
    clock_step: float


class StatusSample(Record, frozen=True, kw_only=True):
    """A step of a server's history: the highest queue, lag and number of streams in it; requests, and refusals by
    code, are those of the step.
    """

    at: Timestamp
    queue: int
    lag: int
    streams: int
    requests: int
    refusals: dict[str, int]


class NodeHistory(Record, frozen=True, kw_only=True):
    """What one server did lately, the oldest step first. It begins with the server's start: it is in memory only."""

    name: str
    # Whether it is the one that answers.
    here: bool
    silent: bool
    samples: list[StatusSample]


class StatusHistory(Record, frozen=True, kw_only=True):
    """What the servers that share a store did lately. Those of other servers are as of their last heartbeat."""

    __module__ = "parley"

    step_seconds: int
    nodes: list[NodeHistory]


class ReplicaStatus(Record, frozen=True, kw_only=True):
    """A replica of the database. `state` is null when the server's role may not read it."""

    name: str
    state: str | None
    lag_bytes: int


class StoreStatus(Record, frozen=True, kw_only=True):
    """The SQLite file or PostgreSQL database. Values that do not apply are 0, empty or null."""

    kind: str
    version: str
    tenants: int
    bytes: int
    log_bytes: int
    journal: int
    waiting: int
    longest_wait: float
    oldest_transaction: float
    connections: int
    wanted_connections: int
    most_connections: int
    synchronous_standby_names: str
    replicas: list[ReplicaStatus]
    row_security: bool | None


class Concern(Record, frozen=True, kw_only=True):
    """A problem that needs an operator."""

    code: str
    detail: str


class ServerStatus(Record, frozen=True, kw_only=True):
    """The servers that share a store, and the store. `ok` when nothing needs an operator."""

    ok: bool
    concerns: list[Concern]
    nodes: list[NodeStatus]
    store: StoreStatus
