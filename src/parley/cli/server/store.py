"""`parley store copy`: move a store between a file and PostgreSQL, and see that all of it has come over."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, INTERRUPTED, OK
from parley.cli.output import safe
from parley.cli.server.backup import ProgressBar
from parley.domain.errors.errors import Invalid, Problem

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from parley.app.store.copy import Comparison, Copied, Outcome
    from parley.cli.output import Screen

# What lies beside the store in a data directory, and belongs to the installation as much.
_FILES_BESIDE = ("audit.key", "audit.pub", "checkpoints", "policies")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    place = "a data directory, a parley.db, or postgresql://..."
    parser.add_argument("source", metavar="FROM", help=f"the store that is copied: {place}")
    parser.add_argument("target", metavar="TO", help="where it goes: empty, or a copy of it that was begun")
    parser.add_argument("--verify-only", action="store_true", help="compare the two, and write nothing")
    parser.add_argument(
        "--though-behind",
        action="store_true",
        help="finish the copy although servers go on using FROM (for a trial: what they take meanwhile is not in it)",
    )
    add_json(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Servers may go on using FROM. None may run on TO, and none starts there before the copy is\n"
        "finished: every row compared, every order and every hash computed again. If it is interrupted,\n"
        "the same command goes on where it stopped. If a server still runs on FROM at the end, or FROM\n"
        "was written to meanwhile, the copy is not finished and the exit code is 1: stop the servers and\n"
        "run the command once more, which brings only what came since. With --verify-only the exit code\n"
        "is 1 when the two differ. A log that was tampered with is exit code 2. A database that might\n"
        "lose what it acknowledges is refused before anything is written, as by parley up: exit code 78."
    )


def _copy(args: argparse.Namespace) -> int:
    import asyncio
    import gc

    gc.enable()  # a large copy takes long
    for place in (args.source, args.target):
        _check_place(place)
    if _absolute(args.source) == _absolute(args.target):
        raise Invalid("FROM and TO are the same store")
    try:
        return asyncio.run(_compare(args) if args.verify_only else _run(args))
    except KeyboardInterrupt:
        if not args.verify_only:
            sys.stderr.write("Interrupted. The same command goes on where it stopped.\n")
        return INTERRUPTED


def _check_place(place: str) -> None:
    from parley.store_wiring import is_database

    if "://" in place and not is_database(place):
        raise Invalid(f"{_printable_place(place)} is no store", hint="a path, or postgresql://USER@HOST/DATABASE")


def _absolute(place: str) -> str:
    from parley.store_wiring import is_database

    if is_database(place):
        return place
    path = os.path.realpath(os.path.expanduser(place))
    # A data directory by its file: it is the directory that no server may hold meanwhile.
    return os.path.dirname(path) if os.path.basename(path) == "parley.db" else path


async def _run(args: argparse.Namespace) -> int:
    from parley import store_wiring, wiring
    from parley.app.store.copy import copy

    source, target = _absolute(args.source), _absolute(args.target)
    progress = _CopyProgress()
    logs = _LogsCheck(args, source)
    began = wiring.monotonic()
    try:
        async with (
            store_wiring.open_tables(source) as (source_tables, servers),
            store_wiring.open_target(target) as (target_tables, target_place),
        ):
            outcome = await copy(
                source_tables,
                target_tables,
                lambda: logs.check(target_place),
                progress.update,
                though_behind=args.though_behind,
                served=servers,
            )
    finally:
        progress.end()
    seconds = max(0.001, wiring.monotonic() - began)
    screen = screen_of(args)
    if args.json:
        screen.json(_copy_document(source, target, outcome, logs, seconds))
    else:
        _show_copy(screen, source, target, outcome, logs, seconds)
    return OK if outcome.finished else FOUND_PROBLEMS


async def _compare(args: argparse.Namespace) -> int:
    from parley import store_wiring
    from parley.app.store.copy import compare

    source, target = _absolute(args.source), _absolute(args.target)
    progress = _CopyProgress()
    logs = _LogsCheck(args, source)
    try:
        async with (
            store_wiring.open_tables(source) as (source_tables, _),
            store_wiring.open_tables(target) as (target_tables, _),
        ):
            comparison = await compare(source_tables, target_tables, progress.update)
            try:
                await logs.check(target)
            finally:
                progress.end()
                _show_comparison(args, comparison, logs)
    finally:
        progress.end()
    return OK if comparison.same else FOUND_PROBLEMS


class _CopyProgress:
    """The bars of a copy, one after the other."""

    def __init__(self) -> None:
        self._bars: dict[str, ProgressBar] = {}

    def update(self, doing: str, done: int, total: int) -> None:
        if doing not in self._bars:
            self.end()
            self._bars[doing] = ProgressBar(doing)
        self._bars[doing].update(done, total)

    def end(self) -> None:
        for bar in self._bars.values():
            bar.end()


class _LogsCheck:
    """The check of a store's ledgers, event logs and audit logs, and how much there was to check."""

    def __init__(self, args: argparse.Namespace, source: str) -> None:
        from parley.cli.audit.verify import checkpoints_in
        from parley.settings import checkpoints_directory
        from parley.store_wiring import is_database

        # Checkpoints that lie beside the source are not in the store: they know how it was. Read before the source is:
        # a server that runs meanwhile signs what is not copied.
        folder = "" if is_database(source) else checkpoints_directory(settings_of(args), source)
        self._outside = checkpoints_in(folder)
        self.logs = 0
        self.links = 0
        self.intact = False

    def __str__(self) -> str:
        return f"{self.logs} {'log' if self.logs == 1 else 'logs'}, {self.links:,} links"

    async def check(self, place: str) -> None:
        """Compute everything again; `Invalid` names the first bad entry of each log."""
        from parley.cli.audit.verify import check_logs, result_of
        from parley.store_wiring import open_copy

        async with open_copy(place) as store:
            reports, results = await check_logs(store, outside=self._outside)
        results += [result_of(report) for report in reports]
        self.logs, self.links = len(results), sum(result.length for result in results)
        bad = [result for result in results if result.bad]
        self.intact = not bad
        if bad:
            raise Invalid.because(
                [Problem("chain_broken", result.log, f"number {result.bad}: {result.why}") for result in bad]
            )


# ---------------------------------------------------------------- what came out


def _printable_place(place: str) -> str:
    from parley.settings import without_password

    return safe(without_password(place) if "://" in place else place)


def _table_documents(tables: Sequence[Copied]) -> list[dict[str, Any]]:
    return [table._asdict() for table in tables]


def _files_beside(source: str) -> list[str]:
    return (
        [name for name in _FILES_BESIDE if os.path.exists(os.path.join(source, name))] if os.path.isdir(source) else []
    )


def _copy_document(source: str, target: str, outcome: Outcome, logs: _LogsCheck, seconds: float) -> dict[str, Any]:
    return {
        "from": _printable_place(source),
        "to": _printable_place(target),
        "finished": outcome.finished,
        "moved_on": outcome.moved,
        "behind": outcome.behind,
        "running": list(outcome.servers.running),
        "silent": list(outcome.servers.silent),
        "rows": sum(table.rows for table in outcome.tables),
        "written": _rows_written(outcome.tables),
        "seconds": round(seconds, 3),
        "logs": logs.logs,
        "links": logs.links,
        "tables": _table_documents(outcome.tables),
        "take_along": _files_beside(source),
    }


def _rows_written(tables: Sequence[Copied]) -> int:
    return sum(table.new + table.changed + table.gone for table in tables)


def _show_copy(screen: Screen, source: str, target: str, outcome: Outcome, logs: _LogsCheck, seconds: float) -> None:
    rows = [
        (table.table, *(f"{count:,}" for count in (table.rows, table.new, table.changed, table.gone)))
        for table in outcome.tables
    ]
    screen.table(("TABLE", "ROWS", "NEW", "CHANGED", "GONE"), rows)
    total = sum(table.rows for table in outcome.tables)
    screen.line(f"Copied {_printable_place(source)} to {_printable_place(target)}: {total:,} rows in {seconds:.1f} s")
    screen.line(f"Compared row by row; in order; {logs}: whole.")
    _show_missing(screen, outcome)
    if outcome.finished:
        _show_next_steps(screen, source, target)


def _show_missing(screen: Screen, outcome: Outcome) -> None:
    """What is not in the copy, or will not be."""
    running, silent = (", ".join(map(safe, names)) for names in outcome.servers)
    if running:
        screen.line(f"Servers run on FROM: {running}. What they take from now on is not in the copy.")
    if not outcome.finished:
        missing = "they may take more"
        if outcome.moved:
            missing = f"{outcome.behind:,} messages and events came" if outcome.behind else "something was changed"
            missing += " meanwhile"
        advice = "Stop the servers of FROM, and run the same command again: it brings only what is new."
        screen.line(f"Not finished: {missing}. {advice}")
    elif outcome.moved:
        screen.line(f"Finished without what came meanwhile ({outcome.behind:,} messages and events).")
    if silent:
        screen.line(f"Not heard of for a while, and took no leave: {silent}. See that they do not come back to FROM.")


def _show_next_steps(screen: Screen, source: str, target: str) -> None:
    from parley.store_wiring import is_database, is_directory

    beside = _files_beside(source)
    if beside:
        screen.line(f"Only the store was copied. The new --data needs from {safe(source)}: {', '.join(beside)}")
    elif is_database(source):
        screen.line(f"Only the store was copied. The new --data needs from a node's: {', '.join(_FILES_BESIDE)}")
    if is_database(target):
        screen.line(f"Start a server on it with: parley up --store {_printable_place(target)} --data DIR")
    elif is_directory(target):
        screen.line(f"Start a server on it with: parley up --data {safe(target)}")


def _comparison_document(source: str, target: str, comparison: Comparison, logs: _LogsCheck) -> dict[str, Any]:
    return {
        "from": _printable_place(source),
        "to": _printable_place(target),
        "same": comparison.same,
        "tables": [{"table": table.table, "rows": table.rows} for table in comparison.tables],
        "differences": [difference._asdict() for difference in comparison.differences],
        "disorder": list(comparison.disorder),
        "logs": logs.logs,
        "links": logs.links,
    }


def _show_comparison(args: argparse.Namespace, comparison: Comparison, logs: _LogsCheck) -> None:
    screen = screen_of(args)
    if args.json:
        screen.json(_comparison_document(args.source, args.target, comparison, logs))
        return
    if comparison.differences:
        rows = [
            (
                difference.table,
                *(f"{count:,}" for count in (difference.missing, difference.other, difference.surplus)),
                safe(difference.first),
            )
            for difference in comparison.differences
        ]
        screen.table(("TABLE", "MISSING", "OTHER", "SURPLUS", "FIRST"), rows)
    for problem in comparison.disorder:
        screen.line(safe(problem))
    if comparison.same and logs.intact:
        total = sum(table.rows for table in comparison.tables)
        screen.line(f"The same: {total:,} rows; in order; {logs}: whole.")


COMMANDS = {
    "store copy": Command(
        "Copy a server's store between a file and PostgreSQL, and verify it",
        _add_arguments,
        _copy,
        (
            "parley store copy ./team postgresql://parley@db1/parley",
            "parley store copy postgresql://parley@db1/parley ./team-again",
            "parley store copy ./team postgresql://parley@db1/parley --verify-only --json",
        ),
    ),
}
