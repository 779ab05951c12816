"""`python -m bench against TREE`: this checkout beside another one, in one run, by CPU time and by function calls.

A plain and a governed POST over 16 connections on SQLite, a cold `parley inbox` and a cold `parley send`. Both sides
run on this interpreter with its installed packages, in many short rounds that take turns. Compare the lowest values and
the 25th percentiles: other processes only ever add CPU time. Calls are those of functions of Parley, and repeat exactly
but for what a server does by the clock. `--quick` takes about a minute.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.channels import posts
from bench.channels.processes import Server, Worker, load, parley_up
from bench.cold_send import MESSAGE
from bench.counts.counter import Counter
from bench.governance import sends
from bench.measure import Runner
from bench.workspace import READER, SENDER, Bench, fill, parley

_ROOT = Path(__file__).parent.parent
_SCRATCH = Path(__file__).parent / "results" / "local"
_CONNECTIONS = 16
_COUNTED_POSTS = 50
# In each pair of servers.
_ROUNDS = 6
# A server also works by the clock now and then; the lowest of a few counts is without that.
_COUNTS = 5
_FIGURES = ("plain POST", "governed POST", "cold inbox", "cold send")
_UNITS = {"us": 1e6, "ms": 1e3}


class Tree(NamedTuple):
    """A checkout of Parley."""

    source: str
    counter: Counter

    @property
    def program(self) -> list[str]:
        """`parley` of this checkout, as its console script runs it."""
        script = f"import sys; sys.path[0] = {self.source!r}; from parley.cli.main import entry; entry()"
        return [sys.executable, "-c", script]


# What a measurement gives for one side: CPU seconds or calls.
Turn = Callable[[], float]


def main(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    other = Path(args.tree).resolve()
    if not (other / "src" / "parley").is_dir():
        print(f"error: {args.tree} is no checkout of Parley: it has no src/parley", file=sys.stderr)
        return 2
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="against-", dir=_SCRATCH) as folder:
        sources = [f"{tree}/src" for tree in (_ROOT, other)]
        trees = [Tree(source, Counter(f"{folder}/calls-{number}", source)) for number, source in enumerate(sources)]
        for source in sources:
            compileall.compile_dir(f"{source}/parley", quiet=1)
        bench = Bench(folder, Runner(folder), args.quick)
        for line in _table(_measure_posts(bench, trees) | _measure_cold(bench, trees), _count(bench, trees)):
            print(line)
    print(f"\nthis: {_ROOT}\nother: {other}\nload now: {os.getloadavg()[0]:.1f}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench against", description=__doc__)
    parser.add_argument("tree", metavar="TREE", help="another checkout of Parley")
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions")
    return parser


def _in_turns(times: int, sides: list[Turn]) -> list[list[float]]:
    values: list[list[float]] = [[] for _ in sides]
    for turn in range(times):
        for number in range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides))):
            values[number].append(sides[number]())
    return values


def _measure_posts(bench: Bench, trees: list[Tree]) -> dict[str, list[list[float]]]:
    """In several pairs of servers: one process may be faster than the next by how its memory happens to lie."""
    print("  posts ...", flush=True)
    figures: dict[str, list[list[float]]] = {name: [[] for _ in trees] for name in _REQUESTS}
    for start in range(bench.repeat(20)):
        with ExitStack() as stack:
            clients = stack.enter_context(load())
            servers = [
                stack.enter_context(parley_up(f"{bench.folder}/data-{start}-{number}", tree.program))
                for number, tree in enumerate(trees)
            ]
            for name, prepare in _REQUESTS.items():
                sides = [_post_cpu(clients, server, prepare(server)) for server in servers]
                for number, more in enumerate(_in_turns(_ROUNDS, sides)):
                    figures[name][number] += more
    return figures


def _plain_request(server: Server) -> str:
    return posts.post(server.channel("plain"))


def _governed_request(server: Server) -> str:
    sends.set_up(server)
    return sends.post(server.channel("governed"), {"exchange_type": "information_query"})


# In this order: a server on which nobody has set a policy yet, and then the same one with a policy.
_REQUESTS = {_FIGURES[0]: _plain_request, _FIGURES[1]: _governed_request}


def _post_cpu(clients: Worker, server: Server, request: str) -> Turn:
    def cpu() -> float:
        before = server.cpu
        result = clients.do(
            "closed_loop", port=server.port, request=request, connections=_CONNECTIONS, seconds=0.3, warm=0.0
        )
        return (server.cpu - before) / float(result["all"])

    return cpu


def _measure_cold(bench: Bench, trees: list[Tree]) -> dict[str, list[list[float]]]:
    print("  cold commands ...", flush=True)
    figures = {}
    for name, commands in _commands(bench, "cold", [tree.program for tree in trees]).items():
        runs = bench.runner.in_turns(bench.repeat(200), *commands)
        figures[name] = [[run.cpu for run in side] for side in runs]
    return figures


def _commands(bench: Bench, prefix: str, programs: list[list[str]]) -> dict[str, list[list[str]]]:
    inbox, send = list[list[str]](), list[list[str]]()
    for number, program in enumerate(programs):
        read, written = bench.home(f"{prefix}-inbox-{number}"), bench.home(f"{prefix}-send-{number}")
        fill(read, 10)
        inbox.append(parley("inbox", read, READER, program=program))
        send.append(parley("send", written, SENDER, *MESSAGE, program=program))
    return {_FIGURES[2]: inbox, _FIGURES[3]: send}


def _count(bench: Bench, trees: list[Tree]) -> dict[str, list[float]]:
    """The calls of each side: a post, or a whole command."""
    print("  calls ...", flush=True)
    figures: dict[str, list[float]] = {name: [] for name in _FIGURES}
    for number, tree in enumerate(trees):
        with load() as clients, parley_up(f"{bench.folder}/counted-{number}", tree.counter.program) as server:
            for name, prepare in _REQUESTS.items():
                request = prepare(server)
                figures[name].append(min(_post_calls(clients, server, tree, request) for _ in range(_COUNTS)))
    for name, commands in _commands(bench, "counted", [tree.counter.program for tree in trees]).items():
        for tree, command in zip(trees, commands, strict=True):
            bench.runner.run(command)  # the first one creates files
            before = tree.counter.counts.calls
            with tree.counter.running():
                bench.runner.run(command)
            figures[name].append(float(tree.counter.counts.calls - before))
    return figures


def _post_calls(clients: Worker, server: Server, tree: Tree, request: str) -> float:
    before = tree.counter.counts.calls
    with tree.counter.running():
        clients.do("in_order", port=server.port, request=request, times=_COUNTED_POSTS)
    return (tree.counter.counts.calls - before) / _COUNTED_POSTS


def _table(cpu: dict[str, list[list[float]]], calls: dict[str, list[float]]) -> list[str]:
    lines = [f"\n{'':30}{'this':>10}{'other':>10}{'ratio':>9}"]
    for name in _FIGURES:
        unit = "us" if "POST" in name else "ms"
        ordered = [sorted(value * _UNITS[unit] for value in side) for side in cpu[name]]
        quarter = len(ordered[0]) // 4
        lines.append(_row(f"{name}, CPU {unit}, min", ordered[0][0], ordered[1][0]))
        lines.append(_row("  25th percentile", ordered[0][quarter], ordered[1][quarter]))
        lines.append(_row("  calls", *calls[name]))
    return lines


def _row(what: str, this: float, other: float) -> str:
    return f"{what:30}{this:10.1f}{other:10.1f}{this / other:8.3f}x"
