"""How the servers are that share a store, and the store: for whoever runs them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parley.app.team.state.history import STEP_SECONDS
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.team import ScopeRequired
from parley.surfaces.http.route import ADMINS, Call, Param, Route, json
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.status import (
    Concern,
    NodeHistory,
    NodeStatus,
    ReplicaStatus,
    ServerStatus,
    StatusHistory,
    StatusSample,
    StoreStatus,
)

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.store.node import Node, NodeSample, StoreReport
    from parley.surfaces.http.http1.message import Response
    from parley.surfaces.http.metrics import Metrics


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
    jobs = {"waiting": 0, "claimed": 0, "done": 0}
    for counts in team.queues.counts().values():
        for state, count in counts.items():
            jobs[state] += count
    metrics.count_jobs(jobs)


async def status(call: Call) -> Response:
    check_operator(call)
    here = _here(call.team)
    report = await call.team.nodes.report(here)
    concerns = [fill_record(Concern, concern) for concern in report.concerns()]
    nodes = [_node(node, here.name) for node in report.nodes]
    return json(200, ServerStatus(ok=not concerns, concerns=concerns, nodes=nodes, store=_store(report)))


async def history(call: Call) -> Response:
    check_operator(call)
    seconds = call.whole("seconds", 600, 1, 600)
    now = call.team.now()
    here = _here(call.team)._replace(history=call.team.nodes.history.samples(now))
    report = await call.team.nodes.report(here)
    since = now.timestamp() - seconds
    nodes = [
        NodeHistory(
            name=node.name,
            here=node.name == here.name,
            silent=node.silent,
            samples=[_sample(sample) for sample in node.history if sample.at + STEP_SECONDS > since],
        )
        for node in report.nodes
    ]
    return json(200, StatusHistory(step_seconds=STEP_SECONDS, nodes=nodes))


def _sample(sample: NodeSample) -> StatusSample:
    return fill_record(StatusSample, sample, at=datetime.fromtimestamp(sample.at, UTC))


def _here(team: Team) -> Node:
    now = team.clock.now()
    return team.nodes.node((now.at - team.began).total_seconds(), len(team.tail), now.step)


def _node(node: Node, here: str) -> NodeStatus:
    return fill_record(NodeStatus, node, here=node.name == here, seen=round(node.seen, 3), uptime=round(node.uptime, 3))


def _store(report: StoreReport) -> StoreStatus:
    return fill_record(
        StoreStatus,
        report,
        longest_wait=round(report.longest_wait, 3),
        oldest_transaction=round(report.oldest_transaction, 3),
        synchronous_standby_names=report.standbys,
        replicas=[fill_record(ReplicaStatus, replica, state=replica.state or None) for replica in report.replicas],
        row_security=report.row_security if report.kind == "postgresql" else None,
    )


ROUTES = (
    Route(
        "GET",
        "/status",
        status,
        "Get the status of the servers and their store",
        "system",
        {200: ServerStatus},
        ADMINS,
        untimed=True,
    ),
    Route(
        "GET",
        "/status/history",
        history,
        "Get what the servers did in the last minutes",
        "system",
        {200: StatusHistory},
        ADMINS,
        query=(Param("seconds", "How far back: up to 600 seconds.", type="integer", minimum=1, maximum=600),),
        untimed=True,
    ),
)
