"""Counts a source tree of Parley: bytecodes by the interpreter, machine instructions by valgrind where it is installed.

Bytecodes repeat within some thousandths on a busy machine, need no other program and take seconds. They do not see what
C code does between two of them; instructions do, in a minute or two.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

from bench.channels.processes import Server, parley_up
from bench.counts.counter import Counter
from bench.counts.paths import REQUESTS, Connection, Prepare, commands
from bench.workspace import Bench

_WARM, _TIMES = 15, 60
_FEWER, _MORE = 20, 70
_INSTRUCTIONS = re.compile(r"I\s+refs:\s+([\d,]+)")


def count_bytecodes(bench: Bench, source: str) -> dict[str, int]:
    """What each path executes: a request, or a whole command."""
    counts = count_requests(bench, source, REQUESTS)
    counter = Counter(f"{bench.folder}/counter", source)
    for name, command in commands(bench, counter.program):
        start = counter.counts.bytecodes
        with counter.running():
            bench.runner.run(command)
        counts[name] = counter.counts.bytecodes - start
    return counts


def count_requests(bench: Bench, source: str, requests: dict[str, Prepare]) -> dict[str, int]:
    """The bytecodes of some requests."""
    counter = Counter(f"{bench.folder}/counter", source)
    with parley_up(f"{bench.folder}/counted", counter.program) as server:
        return {name: _bytecodes_of_request(server, prepare, counter) for name, prepare in requests.items()}


def _bytecodes_of_request(server: Server, prepare: Prepare, counter: Counter) -> int:
    requests, connection = prepare(server), Connection(server)
    for message in islice(requests, _WARM):
        connection.send(message)
    counts = []
    with counter.running():
        connection.send(next(requests))  # the first one switches
        for message in islice(requests, _TIMES):
            start = counter.counts.bytecodes
            connection.send(message)
            counts.append(counter.counts.bytecodes - start)
    connection.close()
    # A server also works by the clock now and then: some requests are charged with that, most are not.
    return round(median(counts))


def count_instructions(bench: Bench, source: str) -> dict[str, int]:
    """The same in instructions of the processor, from start to end of a process; nothing where valgrind is missing.

    A request is the difference between two servers, of which one got more of them.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("  valgrind is not installed: instructions are not counted", flush=True)
        return {}
    log = Path(f"{bench.folder}/valgrind.log")
    script = f"import sys; sys.path[0] = {source!r}; from parley.cli.main import entry; entry()"
    # The same order of sets each time, and every system call where valgrind sees it.
    program = ["/usr/bin/env", "PYTHONHASHSEED=0", "UV_USE_IO_URING=0", valgrind, "--tool=cachegrind"]
    program += ["--cache-sim=no", "--cachegrind-out-file=/dev/null", f"--log-file={log}", sys.executable, "-c", script]

    def instructions(run: Callable[[], object]) -> int:
        run()
        match = _INSTRUCTIONS.search(log.read_text())
        if match is None:
            raise RuntimeError(f"valgrind counted nothing: {log.read_text()[:400]}")
        return int(match[1].replace(",", ""))

    counts = {}
    for name, prepare in REQUESTS.items():
        fewer, more = (
            instructions(lambda: _serve(f"{bench.folder}/{name}-{times}", program, prepare, times))  # noqa: B023
            for times in (_FEWER, _MORE)
        )
        counts[name] = (more - fewer) // (_MORE - _FEWER)
    for name, command in commands(bench, program):
        counts[name] = instructions(lambda: bench.runner.run(command))  # noqa: B023
    return counts


def _serve(data: str, program: list[str], prepare: Prepare, times: int) -> None:
    with parley_up(data, program) as server:
        requests, connection = prepare(server), Connection(server)
        for message in islice(requests, times):
            connection.send(message)
        connection.close()
