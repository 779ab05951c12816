"""Durable posts by 1, 2 and 4 nodes on one PostgreSQL, beside the same rows written by bare SQL and beside one file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from bench.channels.processes import Worker
from bench.figures import ONE_NODE, PGBENCH, Figure, Goal
from bench.postgres import bare
from bench.postgres.nodes import (
    MACHINE,
    Database,
    Node,
    Result,
    channels,
    database,
    in_turns,
    node,
    nodes,
    of,
    post,
    shown,
    tenants,
)
from bench.workspace import Bench

_MANY = 64
_ROW = "durable POST on PostgreSQL"
_WARM = 0.3
_NODES = (1, 2, 4)
_PLACES = ("one channel", f"{_MANY} channels", f"{_MANY} tenants")
_SINGLE, _PAIR = "1 node, one channel", "2 nodes, one channel"
_GOALS = {64: Goal(">=", 1.0, "x")}
_PGBENCH, _GROUPED, _FILE = "pgbench, one INSERT a transaction", "bare SQL in groups", "one file (SQLite)"


class Side(NamedTuple):
    """Who answers: its nodes, and what is asked of them."""

    servers: list[Node]
    requests: list[str]


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/throughput"
    with ExitStack() as stack:
        cluster = stack.enter_context(database(bench, "throughput"))
        plain = cluster.create_database("plain")
        bare.prepare(plain)
        groups = stack.enter_context(Worker("bench.postgres.bare", plain))
        crowd = stack.enter_context(Worker("bench.postgres.crowd"))
        parties = _parties(stack, home, cluster)
        figures = []
        for connections in (16, 64):
            seconds = 1.0 if bench.quick else 2.0
            sides: dict[str, Callable[[], Result]] = {
                name: partial(_posting, crowd, cluster, side, connections, seconds) for name, side in parties.items()
            }
            sides[_PGBENCH] = partial(bare.pgbench, plain, connections, bare.whole(seconds))
            sides[_GROUPED] = partial(groups.do, "grouped", connections=connections, seconds=seconds, warm=_WARM)
            results = in_turns(2 if bench.quick else 5, sides)
            print(_table(connections, results), flush=True)
            figures += _figures(connections, results)
    print(MACHINE)
    return figures


def _parties(stack: ExitStack, home: str, cluster: Database) -> dict[str, Side]:
    """Each number of nodes has a database of its own, so that nobody hears what is said elsewhere."""
    parties = {}
    for count in _NODES:
        servers = nodes(stack, f"{home}/{count}", cluster.create_database(f"nodes{count}"), count)
        hot, *_ = many = channels(servers[0], _MANY)
        apart = tenants(servers[0], _MANY)
        called = f"{count} node{'s' if count > 1 else ''}"
        for place, requests in zip(
            _PLACES,
            ([post(hot)], [post(channel) for channel in many], [post(*tenant_channel) for tenant_channel in apart]),
            strict=True,
        ):
            parties[f"{called}, {place}"] = Side(servers, requests)
    file = stack.enter_context(node(f"{home}/file"))
    parties[_FILE] = Side([file], [post(channels(file, 1)[0])])
    return parties


def _posting(crowd: Worker, cluster: Database, side: Side, connections: int, seconds: float) -> Result:
    ports = [server.port for server in side.servers]
    before, within, log = sum(server.cpu for server in side.servers), cluster.cpu, cluster.wal
    load = {"connections": connections, "seconds": seconds, "warm": _WARM}
    result: Result = crowd.do("posts", ports=ports, requests=side.requests, **load)
    spent = sum(server.cpu for server in side.servers) - before
    costs = {"cpu": spent, "database": cluster.cpu - within, "wal": cluster.wal - log}
    return result | {name: cost / result["all"] for name, cost in costs.items()}


_HEADS = ("durable posts", "a second", "p50", "p99", "of pgbench", "of groups", "CPU: node", "database", "log")


def _table(connections: int, results: dict[str, list[Result]]) -> str:
    rows = []
    for name, result in results.items():
        ours = name not in (_PGBENCH, _GROUPED)
        database_too = ours and name != _FILE
        rate, pgbench, grouped = [of(some, "rate").middle for some in (result, results[_PGBENCH], results[_GROUPED])]
        rows.append(
            (
                name,
                f"{rate:,.0f}",
                f"{of(result, 'p50').middle * 1e3:.1f} ms",
                f"{of(result, 'p99').middle * 1e3:.1f} ms",
                f"{rate / pgbench:.2f}x",
                f"{rate / grouped:.2f}x",
                f"{of(result, 'cpu').middle * 1e6:.0f} us" if ours else "",
                f"{of(result, 'database').middle * 1e6:.0f} us" if database_too else "",
                f"{of(result, 'wal').middle:,.0f} B" if database_too else "",
            )
        )
    return f"\n{connections} connections{shown(_HEADS, rows)}"


def _figures(connections: int, results: dict[str, list[Result]]) -> list[Figure]:
    figures = []
    for name, result in results.items():
        if name in (_PGBENCH, _GROUPED):
            continue
        what = f"post, {connections} connections, {name}"
        rate = of(result, "rate")
        goal, row = (_GOALS.get(connections), _ROW) if name == _SINGLE else (None, "")
        row = f"{row}, {connections} connections" if row else ""
        pgbench = of(results[_PGBENCH], "rate")
        figures += [
            Figure("throughput", f"{what}: over pgbench", "/s", rate, pgbench, goal, row=row, peer=PGBENCH),
            Figure("throughput", "  over bare SQL in groups", "/s", rate, of(results[_GROUPED], "rate")),
            Figure(
                "throughput", "  p99, over pgbench", "ms", of(result, "p99"), of(results[_PGBENCH], "p99"), faster=False
            ),
        ]
    pair, single = of(results[_PAIR], "rate"), of(results[_SINGLE], "rate")
    what = f"post, {connections} connections: two nodes over one"
    row = f"two nodes, {connections} connections"
    figures.append(Figure("throughput", what, "/s", pair, single, _GOALS.get(connections), row=row, peer=ONE_NODE))
    return figures
