"""One post, one ask and one wake-up at rest: over a file, over PostgreSQL, and across two nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from bench.channels.processes import Worker, load, request
from bench.figures import Figure
from bench.postgres.nodes import MACHINE, Node, Result, channels, database, in_turns, node, nodes, of, post, shown
from bench.workspace import Bench

_TIMES = 40
_ANSWERER = "answerer"
_FILE, _ONE, _TWO, _BARE = "one file", "one node", "two nodes", "NOTIFY alone"


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/latency"
    with ExitStack() as stack:
        cluster = stack.enter_context(database(bench, "latency"))
        clients, crowd = stack.enter_context(load()), stack.enter_context(Worker("bench.postgres.crowd"))
        dsn = cluster.create_database("two")
        here, there = nodes(stack, home, dsn, 2)
        file = stack.enter_context(node(f"{home}/file"))
        for server in (here, file):
            server.call("POST", "/agents/register", {"agent_id": _ANSWERER})
        places: dict[str, tuple[Node, Node]] = {_FILE: (file, file), _ONE: (here, here), _TWO: (here, there)}
        turns = 3 if bench.quick else 15
        results = {}
        for what, job in (("post", _post), ("push", _push), ("ask", _ask)):
            sides: dict[str, Callable[[], Result]] = {}
            for name, (first, second) in places.items():
                (channel,) = channels(first, 1)
                sides[name] = partial(job, clients, crowd, (first, second), channel)
            if what == "push":
                sides[_BARE] = partial(crowd.do, "wake", dsn=dsn, times=_TIMES)
            results[what] = in_turns(turns, sides)
    print(_table(results), flush=True)
    return _figures(results)


def _post(clients: Worker, crowd: Worker, servers: tuple[Node, Node], channel: str) -> Result:
    """Said to the second node, which did not make the channel."""
    del crowd
    result: Result = clients.do("in_order", port=servers[1].port, request=post(channel), times=_TIMES)
    return result


def _push(clients: Worker, crowd: Worker, servers: tuple[Node, Node], channel: str) -> Result:
    del clients
    follow = request("GET", f"/api/v1/subscribe/channels/{channel}", agent=_ANSWERER)
    ports = [server.port for server in servers]
    result: Result = crowd.do("push", ports=ports, request=post(channel), follow=follow, times=_TIMES)
    return result


def _ask(clients: Worker, crowd: Worker, servers: tuple[Node, Node], channel: str) -> Result:
    del clients
    question = {"to": _ANSWERER, "payload": {"question": "is the key in place?"}, "timeout": 30}
    answer = {"sender": _ANSWERER, "payload": {"answer": "yes"}}
    result: Result = crowd.do(
        "ask",
        ports=[server.port for server in servers],
        request=request("POST", f"/api/v1/channels/{channel}/ask", question),
        reply=request("POST", f"/api/v1/channels/{channel}/messages/{{id}}/reply", answer, agent=_ANSWERER),
        follow=request("GET", f"/api/v1/subscribe/channels/{channel}", agent=_ANSWERER),
        times=_TIMES,
    )
    return result


_SPOKEN = {"post": "a post", "push": "a post until a follower has it", "ask": "an ask until its answer is there"}


def _table(results: dict[str, dict[str, list[Result]]]) -> str:
    rows = []
    for what, sides in results.items():
        for name, samples in sides.items():
            times = [f"{of(samples, field).middle * 1e3:.2f} ms" for field in ("p50", "p99")]
            after = f"{of(samples, 'after').middle * 1e3:.2f} ms" if "after" in samples[0] else ""
            rows.append((f"{_SPOKEN[what]}: {name}", *times, after))
    return f"{shown(('at rest', 'p50', 'p99', 'after the answer'), rows)}{MACHINE}"


def _figures(results: dict[str, dict[str, list[Result]]]) -> list[Figure]:
    return [
        Figure("latency", f"{_SPOKEN[what]}: {name} over one file", "ms", of(sides[name], "p50"), base, faster=False)
        for what, sides in results.items()
        for base in [of(sides[_FILE], "p50")]
        for name in (_ONE, _TWO)
    ]
