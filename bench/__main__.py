"""`python -m bench`: Parley beside its peers and beside bare system calls, in one run.

`mailbox` is everything beside oacp-cli, `channels` everything beside the OpenIntent server and SDK, `governance` what
the rules cost beside doing without them, `sdk` how fast agents are, `postgres` many nodes on one PostgreSQL.
`--quick`, or PARLEY_BENCH=quick, takes about a minute for the channels. Exit code 1 when a goal is missed.
`python -m bench against TREE` compares this checkout with another one of Parley, for example an earlier release;
`python -m bench count` with what was recorded of it, and `python -m bench record` records it. `--record` keeps the
summary of a run. `python -m bench page` writes what is recorded into docs/explanation/speed.md. `python -m bench
attention` measures how coding agents notice messages, for docs/explanation/attention.md; `python -m bench console` the
budget of the console in a browser.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import parley
from bench import against, cold_inbox, cold_send, durable_send, listing, next_done, reading, senders, start
from bench.channels import asks, hidden, posts, pushes, sdk_asks, server_start, volume
from bench.counts import record
from bench.figures import Figure, table
from bench.governance import decisions, sends, verifying
from bench.measure import Runner
from bench.postgres import drivers, latency, queues, sharding, subscribers, throughput
from bench.postgres import volume as stored
from bench.report import page, picture
from bench.report import run as report
from bench.sdk import agents, transports
from bench.sdk import asks as agent_asks
from bench.workspace import Bench, check_shape
from parley.domain.version import VERSION

# Those that make and remove many files come last: file systems remember it for a while.
_MAILBOX: dict[str, Callable[[Bench], list[Figure]]] = {
    "start": start.run,
    "cold_inbox": cold_inbox.run,
    "cold_send": cold_send.run,
    "durable_send": durable_send.run,
    "list_1000": listing.run_1000,
    "list_10000": listing.run_10000,
    "next_done": next_done.run,
    "senders": senders.run,
    "reading": reading.run,
}
_CHANNELS: dict[str, Callable[[Bench], list[Figure]]] = {
    "server_start": server_start.run,
    "posts": posts.run,
    "volume": volume.run,
    "hidden": hidden.run,
    "asks": asks.run,
    "sdk_asks": sdk_asks.run,
    "pushes": pushes.run,
}
_GOVERNANCE: dict[str, Callable[[Bench], list[Figure]]] = {
    "sends": sends.run,
    "decisions": decisions.run,
    "verifying": verifying.run,
}
_SDK: dict[str, Callable[[Bench], list[Figure]]] = {
    "agent_asks": agent_asks.run,
    "agents": agents.run,
    "transports": transports.run,
}
_POSTGRES: dict[str, Callable[[Bench], list[Figure]]] = {
    "drivers": drivers.run,
    "latency": latency.run,
    "throughput": throughput.run,
    "queues": queues.run,
    "subscribers": subscribers.run,
    "stored": stored.run,
    "sharding": sharding.run,
}
BENCHES = _CHANNELS | _GOVERNANCE | _SDK | _POSTGRES | _MAILBOX
_GROUPS = {
    "mailbox": list(_MAILBOX),
    "channels": list(_CHANNELS),
    "governance": list(_GOVERNANCE),
    "sdk": list(_SDK),
    "postgres": list(_POSTGRES),
}


def _record(arguments: list[str]) -> int:
    """Record, and show it on the page that shows the records."""
    return record.record_main(arguments) or page.main([])


def _attention(arguments: list[str]) -> int:
    """Measure the real coding agents. Loaded only then: it needs their programs."""
    from bench.attention import main as attention

    return attention.main(arguments)


def _console(arguments: list[str]) -> int:
    """Measure the console. Loaded only then: it needs a browser."""
    from bench.console import main as console

    return console.main(arguments)


_VERBS = {
    "against": against.main,
    "attention": _attention,
    "console": _console,
    "count": record.count_main,
    "page": page.main,
    "record": _record,
}
# Ignored by git, and on the file system of the repository: a /tmp in memory would make every sync free.
_SCRATCH = Path(__file__).parent / "results" / "local"


def main(arguments: list[str]) -> int:
    if arguments[:1] and arguments[0] in _VERBS:
        return _VERBS[arguments[0]](arguments[1:])
    args = _parser().parse_args(arguments)
    quick = args.quick or os.environ.get("PARLEY_BENCH") == "quick"
    chosen = [name for choice in args.benches or _GROUPS for name in _GROUPS.get(choice, [choice])]
    # pip compiles what it installs. An editable install is compiled when it first runs, or never with
    # PYTHONDONTWRITEBYTECODE: without this line one side would be measured with its compiler.
    compileall.compile_dir(os.path.dirname(parley.__file__), quiet=1)
    print("Compiled src/parley beforehand, as pip compiles an installed package.", flush=True)
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="bench-", dir=_SCRATCH)
    figures: list[Figure] = []
    try:
        for figure in _run(Bench(folder, Runner(folder), quick), chosen):
            figures.append(figure)
    finally:
        shutil.rmtree(folder)
        print(f"\n{table(figures)}\n")
    entries = report.entries_of(figures, VERSION)
    if entries:
        drawing = _SCRATCH / "speed.svg"
        drawing.write_text(picture.draw(entries))
        print(f"{report.table(entries)}\n\nDrawn in {drawing}")
    if args.record:
        report.save(entries)
        page.main([])
    print(f"Medians of runs in turns, ratios of neighbours; judged by these. Load now: {os.getloadavg()[0]:.1f}")
    if args.json:
        Path(args.json).write_text(json.dumps([figure.as_json() for figure in figures], indent=1) + "\n")
    missed = [figure for figure in figures if figure.is_met is False]
    print(f"{len(missed)} goals missed" if missed else "all goals met")
    return 1 if missed and not args.no_fail else 0


def _run(bench: Bench, names: list[str]) -> Iterator[Figure]:
    if any(name in _MAILBOX for name in names):
        check_shape(bench)
    for name in names:
        print(f"  {name} ...", flush=True)
        yield from BENCHES[name](bench)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [*_GROUPS, *BENCHES]
    parser.add_argument("benches", nargs="*", choices=[*names, []], metavar="BENCH", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions")
    parser.add_argument("--json", metavar="FILE", help="also write every single measurement")
    parser.add_argument("--record", action="store_true", help="keep the summary for docs/explanation/speed.md")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 even when a goal is missed")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
