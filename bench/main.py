"""`python -m bench`: Parley beside its peers and beside bare system calls, in one run."""

from __future__ import annotations

import argparse
import compileall
import difflib
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
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
    "against": (against.main, "compare this checkout with another one of Parley, for example an earlier release"),
    "attention": (_attention, "how soon coding agents notice messages, for docs/explanation/attention.md"),
    "console": (_console, "the budget of the console in a browser"),
    "count": (record.count_main, "compare what requests and commands execute with what is recorded"),
    "record": (_record, "record what requests and commands execute, for this release"),
    "page": (page.main, "write what is recorded into docs/explanation/speed.md"),
}
_EXAMPLES = """
Exit code 1 when a goal is missed. Everything takes about 40 minutes, with --quick a quarter of that.

  python -m bench --quick posts sends
  python -m bench --quick --record posts
  python -m bench against ../parley-0.6"""
# Ignored by git, and on the file system of the repository: a /tmp in memory would make every sync free.
_SCRATCH = Path(__file__).parent / "results" / "local"


def main(arguments: list[str]) -> int:
    if arguments[:1] and arguments[0] in _VERBS:
        return _VERBS[arguments[0]][0](arguments[1:])
    args = _arguments(arguments)
    quick = args.quick or os.environ.get("PARLEY_BENCH") == "quick"
    chosen = [name for choice in args.benches or _GROUPS for name in _GROUPS.get(choice, [choice])]
    # pip compiles what it installs. An editable install is compiled when it first runs, or never with
    # PYTHONDONTWRITEBYTECODE: without this line one side would be measured with its compiler.
    compileall.compile_dir(os.path.dirname(parley.__file__), quiet=1)
    print("Compiled src/parley beforehand, as pip compiles an installed package.", flush=True)
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="bench-", dir=_SCRATCH)
    figures, broken = list[Figure](), list[str]()
    try:
        _run(Bench(folder, Runner(folder), quick), chosen, figures, broken)
    finally:
        shutil.rmtree(folder)
        if figures:
            print(f"\n{table(figures)}\n")
    entries = report.entries_of(figures, VERSION)
    if entries:
        drawing = _SCRATCH / "speed.svg"
        drawing.write_text(picture.draw(entries))
        print(f"{report.table(entries)}\n\nDrawn in {drawing}")
    if args.record:
        report.save(entries)
        page.main([])
    print("Figures are medians of turns, and (best) is the best turn. A ratio is the median over neighbouring turns.")
    print(f"Goals are judged by the medians. Load now: {os.getloadavg()[0]:.1f}")
    if args.json:
        Path(args.json).write_text(json.dumps([figure.as_json() for figure in figures], indent=1) + "\n")
    if broken:
        print(f"failed, with an error above: {', '.join(broken)}")
    missed = [figure for figure in figures if figure.is_met is False]
    for figure in missed:
        print(f"missed: {figure.row or figure.what.strip()}: {figure.goal}")
    print(f"{len(missed)} goal{'s' if len(missed) > 1 else ''} missed" if missed else "all goals met")
    return 1 if broken or (missed and not args.no_fail) else 0


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = _parser()
    args = parser.parse_intermixed_args(arguments)
    names = [*_GROUPS, *BENCHES]
    for name in args.benches:
        if name not in names:
            similar = difflib.get_close_matches(name, names, 1)
            parser.error(f"no bench {name!r}" + (f" (did you mean {similar[0]!r}?)" if similar else "; see --help"))
    if args.json:
        try:
            Path(args.json).open("a").close()
        except OSError as error:
            parser.error(f"cannot write {args.json}: {error.strerror}")
    return args


def _run(bench: Bench, names: list[str], figures: list[Figure], broken: list[str]) -> None:
    """Run benches and collect their figures, and the names of those that fail: the others are still worth the time."""
    if any(name in _MAILBOX for name in names):
        check_shape(bench)
    for name in names:
        print(f"  {name} ...", flush=True)
        try:
            figures += BENCHES[name](bench)
        except Exception:  # noqa: BLE001  # whatever it is, it is shown
            traceback.print_exc()
            broken.append(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benches", nargs="*", metavar="BENCH", help="benches or groups, listed below; all by default")
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions, and fewer clients")
    parser.add_argument("--json", metavar="FILE", help="also write every single measurement to this file")
    parser.add_argument(
        "--record", action="store_true", help="replace these rows in docs/explanation/speed.md and its picture"
    )
    parser.add_argument("--no-fail", action="store_true", help="exit with 0 even when a goal is missed")
    return parser


def _overview() -> str:
    """The groups and what each bench measures, the other commands, and examples."""
    lines = list[str]()
    for group, names in _GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<14}{_summary_of(BENCHES[name])}" for name in names]
    lines += ["", "other commands, each with a --help of its own:"]
    lines += [f"  {verb:<14}{about}" for verb, (_, about) in _VERBS.items()]
    return "\n".join([*lines, _EXAMPLES])


def _summary_of(run: Callable[[Bench], list[Figure]]) -> str:
    """What the docstring of a bench says first."""
    text = (sys.modules[run.__module__].__doc__ or "").partition("\n")[0].partition(";")[0]
    text = text.removeprefix("For information: ").removeprefix("For context: ").rstrip(".")
    return text[:1].upper() + text[1:]
