"""One message to very many followers, spread over the nodes: how long until each has it, and that each has it once."""

from __future__ import annotations

import resource
from contextlib import ExitStack

from bench.channels.processes import KEY, Worker, request
from bench.figures import Figure, Goal
from bench.measure import Sample
from bench.postgres.nodes import MACHINE, Database, Node, Result, channels, database, nodes, of, post, shown
from bench.workspace import Bench

_NODES = 4
# Each has an agent of its own, as followers do: what they may see is looked at for each of them.
_AGENTS = 100
_SPARE_FILES = 200
# Half of what release 0.6.0 took: 112 us.
_CPU = Goal("<=", 56, "us")


def run(bench: Bench) -> list[Figure]:
    count = _allowed(1_000 if bench.quick else 10_000)
    rounds = 5 if bench.quick else 20
    home = f"{bench.folder}/subscribers"
    with ExitStack() as stack:
        cluster = stack.enter_context(database(bench, "subscribers"))
        limits = {"streams": count, "streams_per_key": count}
        servers = nodes(stack, home, cluster.create_database("many"), _NODES, **limits)
        crowd = stack.enter_context(Worker("bench.postgres.crowd"))
        (channel,) = channels(servers[0], 1)
        ports = [server.port for server in servers]
        follow = [request("GET", f"/api/v1/subscribe/channels/{channel}", agent=f"agent-{n}") for n in range(_AGENTS)]
        alone = [server.megabytes for server in servers]
        came = crowd.do("gather", ports=ports, requests=follow, count=count)
        grown = sum(server.megabytes for server in servers) - sum(alone)
        heard = [_heard(crowd, cluster, servers, ports[0], channel) for _ in range(rounds)]
        crowd.do("leave")
    _check(heard)
    print(_table(count, came, heard, grown), flush=True)
    return _figures(count, heard, grown)


def _allowed(count: int) -> int:
    """As many as there may be files open in one process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < count + _SPARE_FILES:
        print(f"  only {hard} files may be open (ulimit -n): {hard - _SPARE_FILES} followers instead of {count}")
        return hard - _SPARE_FILES
    return count


def _heard(crowd: Worker, cluster: Database, servers: list[Node], port: int, channel: str) -> Result:
    before, within = sum(server.cpu for server in servers), cluster.cpu
    result: Result = crowd.do("hear", port=port, request=post(channel, KEY))
    return result | {"cpu": sum(server.cpu for server in servers) - before, "database": cluster.cpu - within}


def _check(heard: list[Result]) -> None:
    """What was measured would be worth nothing if somebody had missed it."""
    wrong = {name: sum(report[name] for report in heard) for name in ("missing", "twice", "lost")}
    if any(wrong.values()):
        raise RuntimeError(f"not everyone has heard everything once: {wrong}")


def _table(count: int, came: Result, heard: list[Result], grown: float) -> str:
    spread = [(what, f"{of(heard, field).middle * 1e3:,.1f} ms") for what, field in _FIELDS]
    per = of(heard, "cpu").middle / count
    rows = [
        *spread,
        ("CPU of the nodes, a follower and message", f"{per * 1e6:.0f} us"),
        ("CPU of the database, a message", f"{of(heard, 'database').middle * 1e3:.0f} ms"),
        ("memory of the nodes, a follower", f"{grown * 1024 / count:.1f} kB"),
        ("all of them came within", f"{came['seconds']:.1f} s"),
        ("missed, or got twice", "nobody"),
    ]
    return f"\n{count:,} followers on {_NODES} nodes{shown(('one message', ''), rows)}{MACHINE}"


_FIELDS = (
    ("answered to who posted", "answered"),
    ("at the first follower", "first"),
    ("at half of them", "p50"),
    ("at 99 of 100", "p99"),
    ("at the last", "last"),
)


def _figures(count: int, heard: list[Result], grown: float) -> list[Figure]:
    what = f"to {count:,} followers on {_NODES} nodes"
    row = f"one message to {count:,} followers: CPU for each"
    each = Sample(tuple(report["cpu"] / count for report in heard))
    return [
        Figure("subscribers", f"one message {what}: at the first", "ms", of(heard, "first")),
        Figure("subscribers", "  at half of them", "ms", of(heard, "p50")),
        Figure("subscribers", "  at 99 of 100", "ms", of(heard, "p99")),
        Figure("subscribers", "  at the last", "ms", of(heard, "last")),
        Figure("subscribers", "  CPU of the nodes, a follower", "us", each, goal=_CPU, row=row),
        Figure("subscribers", "  memory of the nodes in all", "MB", Sample((grown,))),
    ]
