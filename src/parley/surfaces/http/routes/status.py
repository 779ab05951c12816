"""How the servers are that share a store, and the store: for whoever runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.team import ScopeRequired
from parley.surfaces.http.route import ADMINS, Call, Route, json
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.store.node import Node, StoreReport
    from parley.surfaces.http.http1.message import Response
    from parley.surfaces.http.metrics import Metrics


class NodeOut(msgspec.Struct):
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


class ReplicaOut(msgspec.Struct):
    """A replica of the database. `state` is null when the server's role may not read it."""

    name: str
    state: str | None
    lag_bytes: int


class StoreOut(msgspec.Struct):
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
    replicas: list[ReplicaOut]
    row_security: bool | None


class ConcernOut(msgspec.Struct):
    """A problem that needs an operator."""

    code: str
    detail: str


class ServerStatusOut(msgspec.Struct):
    """The servers that share a store, and the store. `ok` when nothing needs an operator."""

    ok: bool
    concerns: list[ConcernOut]
    nodes: list[NodeOut]
    store: StoreOut


def check_operator(call: Call) -> None:
    """Refuse all callers but those of the operator's tenant: the status covers all tenants."""
    if call.caller.tenant != DEFAULT_TENANT:
        raise ScopeRequired("this needs a key of the operator's tenant")


def gauge(metrics: Metrics, team: Team) -> None:
    """The gauges of this server."""
    here = _here(team)
    for name in ("streams", "queue", "lag", "connections", "pool"):
        metrics.gauge(f"node_{name}", getattr(here, name))
    metrics.gauge("clock_step_seconds", here.clock_step)


async def status(call: Call) -> Response:
    check_operator(call)
    here = _here(call.team)
    report = await call.team.nodes.report(here)
    concerns = [ConcernOut(*concern) for concern in report.concerns()]
    nodes = [_node(node, here.name) for node in report.nodes]
    return json(200, ServerStatusOut(not concerns, concerns, nodes, _store(report)))


def _here(team: Team) -> Node:
    now = team.clock.now()
    return team.nodes.node((now.at - team.began).total_seconds(), len(team.tail), now.step)


def _node(node: Node, here: str) -> NodeOut:
    return fill_record(NodeOut, node, here=node.name == here, seen=round(node.seen, 3), uptime=round(node.uptime, 3))


def _store(report: StoreReport) -> StoreOut:
    return fill_record(
        StoreOut,
        report,
        longest_wait=round(report.longest_wait, 3),
        oldest_transaction=round(report.oldest_transaction, 3),
        synchronous_standby_names=report.standbys,
        replicas=[fill_record(ReplicaOut, replica, state=replica.state or None) for replica in report.replicas],
        row_security=report.row_security if report.kind == "postgresql" else None,
    )


ROUTES = (
    Route(
        "GET",
        "/status",
        status,
        "Get the status of the servers and their store",
        "system",
        {200: ServerStatusOut},
        ADMINS,
        untimed=True,
    ),
)
