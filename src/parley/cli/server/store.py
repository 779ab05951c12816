"""`parley store copy`: copy a store between a file and PostgreSQL, and verify the copy."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, INTERRUPTED, OK
from parley.cli.output import count_of, safe
from parley.cli.server.backup import ProgressBar
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.rules import LogChanged

if TYPE_CHECKING:
    import argparse

    from parley.app.store.copy import Comparison, CopyOutcome
    from parley.cli.output import Screen

# The files of a data directory that an installation needs besides the store.
_FILES_BESIDE = ("audit.key", "audit.pub", "checkpoints", "policies")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    place = "a data directory, a parley.db, or postgresql://..."
    parser.add_argument("source", metavar="FROM", help=f"store to copy: {place}")
    parser.add_argument("target", metavar="TO", help="target: empty, or an unfinished copy of FROM")
    parser.add_argument("--verify-only", action="store_true", help="compare the two without writing")
    parser.add_argument(
        "--though-behind",
        action="store_true",
        help="for a trial: finish the copy though servers still use FROM, and leave FROM open for them",
    )
    add_json(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Servers may keep using FROM. No server can start on TO until the copy is\n"
        "finished, which includes comparing every row and computing every hash again. If\n"
        "the command is interrupted, run it again: it continues where it stopped.\n\n"
        "If a server still runs on FROM at the end, or FROM was written to meanwhile,\n"
        "the copy is not finished and the exit code is 1: stop the servers and run the\n"
        "command again, which copies only what is new. Once it is finished, no server\n"
        "starts on FROM any more (parley store reopen). With --verify-only the exit code\n"
        "is 1 when the two differ. Exit code 13: a log was changed. Exit code 78:\n"
        "the target database could lose acknowledged data; nothing was written."
    )


def _copy(args: argparse.Namespace) -> int:
    import asyncio
    import gc

    gc.enable()  # a large copy takes long
    if _absolute(args.source) == _absolute(args.target):
        raise Invalid("FROM and TO are the same store", hint="name another target")
    try:
        return asyncio.run(_compare(args) if args.verify_only else _run(args))
    except KeyboardInterrupt:
        if not args.verify_only:
            sys.stderr.write("Interrupted. Run the same command again to continue.\n")
        return INTERRUPTED


def _absolute(place: str) -> str:
    from parley.store_wiring import find_store

    if find_store(place).is_database:
        return place
    path = os.path.realpath(os.path.expanduser(place))
    # The lock is on the directory, so a file stands for its directory.
    return os.path.dirname(path) if os.path.basename(path) == "parley.db" else path


async def _run(args: argparse.Namespace) -> int:
    from parley import wiring
    from parley.app.store.copy import copy
    from parley.store_wiring import find_store

    source, target = _absolute(args.source), _absolute(args.target)
    progress = _CopyProgress()
    logs = _LogsCheck(args, source)
    began = wiring.monotonic()
    try:
        async with (
            find_store(source).open_tables(source) as (source_tables, use),
            find_store(target).open_target(target) as (target_tables, target_place),
        ):
            outcome = await copy(
                source_tables,
                target_tables,
                lambda: logs.check(target_place),
                progress.update,
                though_behind=args.though_behind,
                use=use,
                place=_printable_place(target),
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
    from parley.app.store.copy import compare
    from parley.store_wiring import find_store

    source, target = _absolute(args.source), _absolute(args.target)
    progress = _CopyProgress()
    logs = _LogsCheck(args, source)
    try:
        async with (
            find_store(source).open_tables(source) as (source_tables, _),
            find_store(target).open_tables(target) as (target_tables, _),
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
    """The progress bars of a copy, one per step."""

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
    """Verifies the ledgers, event logs and audit logs of a store, and counts them."""

    def __init__(self, args: argparse.Namespace, source: str) -> None:
        from parley.cli.audit.verify import checkpoints_in
        from parley.settings import checkpoints_directory
        from parley.store_wiring import find_store

        # Checkpoint files beside the source are independent of the store. They are read first: a server that runs
        # meanwhile signs entries that are not copied.
        folder = "" if find_store(source).is_database else checkpoints_directory(settings_of(args), source)
        self._outside = checkpoints_in(folder)
        self.logs = 0
        self.links = 0
        self.intact = False

    def __str__(self) -> str:
        return f"{count_of(self.logs, 'log')} with {count_of(self.links, 'entry', 'entries')}"

    async def check(self, place: str) -> None:
        """Verify all logs; `LogChanged` names the first bad entry of each."""
        from parley.cli.audit.verify import check_logs, result_of
        from parley.store_wiring import open_reader

        async with open_reader(place) as store:
            reports, results = await check_logs(store, outside=self._outside)
        results += [result_of(report) for report in reports]
        self.logs, self.links = len(results), sum(result.length for result in results)
        bad = [result for result in results if result.bad]
        self.intact = not bad
        if bad:
            raise LogChanged.because(
                [Problem("chain_broken", result.log, f"number {result.bad}: {result.why}") for result in bad]
            )


# ---------------------------------------------------------------- what came out


def _printable_place(place: str) -> str:
    from parley.settings import without_password

    return safe(without_password(place) if "://" in place else place)


def _files_beside(source: str) -> list[str]:
    return (
        [name for name in _FILES_BESIDE if os.path.exists(os.path.join(source, name))] if os.path.isdir(source) else []
    )


def _copy_document(source: str, target: str, outcome: CopyOutcome, logs: _LogsCheck, seconds: float) -> dict[str, Any]:
    return {
        "from": _printable_place(source),
        "to": _printable_place(target),
        "finished": outcome.finished,
        "moved_on": outcome.moved,
        "behind": outcome.behind,
        "running": list(outcome.servers.running),
        "silent": list(outcome.servers.silent),
        "rows": sum(table.rows for table in outcome.tables),
        "written": sum(table.new + table.changed + table.gone for table in outcome.tables),
        "seconds": round(seconds, 3),
        "logs": logs.logs,
        "links": logs.links,
        "tables": [table._asdict() for table in outcome.tables],
        "source_closed": outcome.closed,
        "take_along": _files_beside(source),
    }


def _show_copy(
    screen: Screen, source: str, target: str, outcome: CopyOutcome, logs: _LogsCheck, seconds: float
) -> None:
    columns = (
        Column("TABLE", lambda table: table.table, ALWAYS),
        Column("ROWS", lambda table: f"{table.rows:,}", 8),
        Column("NEW", lambda table: f"{table.new:,}", 7),
        Column("CHANGED", lambda table: f"{table.changed:,}", 6),
        Column("DELETED", lambda table: f"{table.gone:,}", 5),
    )
    show_rows(screen, columns, outcome.tables)
    total = sum(table.rows for table in outcome.tables)
    screen.prose(
        f"Copied {_printable_place(source)} to {_printable_place(target)}: {count_of(total, 'row')} in {seconds:.1f} s"
    )
    screen.prose(f"Verified: all rows equal, order kept, {logs} intact.")
    _show_missing(screen, outcome)
    if outcome.finished:
        _show_next_steps(screen, source, target)
    if outcome.closed and (os.path.isdir(source) or "://" in source):
        shown = _printable_place(source)
        screen.prose(f"No server starts on {shown} any more. To use it again on purpose: parley store reopen {shown}")


def _show_missing(screen: Screen, outcome: CopyOutcome) -> None:
    """Print what the copy lacks, or will lack."""
    running, silent = (", ".join(map(safe, names)) for names in outcome.servers)
    if running:
        screen.prose(f"Servers still use FROM: {running}. The copy will lack what they write from now on.")
    if not outcome.finished:
        missing = "servers may write more"
        if outcome.moved:
            new = count_of(outcome.behind, "new message or event", "new messages and events")
            missing = f"{new if outcome.behind else 'FROM was changed'} meanwhile"
        advice = "Stop the servers on FROM and run the same command again; it copies only what is new."
        screen.prose(f"Not finished: {missing}. {advice}")
    elif outcome.moved:
        screen.prose(f"Finished. New messages and events that are not in the copy: {outcome.behind:,}.")
    if silent:
        screen.prose(f"No heartbeat, but not shut down: {silent}. Make sure that they do not use FROM again.")


def _show_next_steps(screen: Screen, source: str, target: str) -> None:
    from parley.store_wiring import find_store, is_directory

    beside = _files_beside(source)
    if beside:
        screen.prose(f"Only the store was copied. Copy from {safe(source)} to the new --data: {', '.join(beside)}")
    elif find_store(source).is_database:
        screen.prose(f"Only the store was copied. Copy from a node's --data to the new one: {', '.join(_FILES_BESIDE)}")
    if find_store(target).is_database:
        screen.prose(f"To start a server on it: parley up --store {_printable_place(target)} --data DIR")
    elif is_directory(target):
        screen.prose(f"To start a server on it: parley up --data {safe(target)}")


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
        columns = (
            Column("TABLE", lambda difference: difference.table, ALWAYS),
            Column("MISSING", lambda difference: f"{difference.missing:,}", 8),
            Column("DIFFERENT", lambda difference: f"{difference.other:,}", 8),
            Column("EXTRA", lambda difference: f"{difference.surplus:,}", 7),
            text_column("FIRST", lambda difference: difference.first, 6),
        )
        show_rows(screen, columns, comparison.differences)
    for problem in comparison.disorder:
        screen.prose(safe(problem))
    if comparison.same and logs.intact:
        total = sum(table.rows for table in comparison.tables)
        screen.prose(f"Equal: {count_of(total, 'row')}, order kept, {logs} intact.")


# ---------------------------------------------------------------- using the source again


def _add_reopen_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="STORE", help="a data directory, or postgresql://...")
    add_json(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "What servers accept on it from then on is not in the copy, nor the other way\n"
        "round: do not let servers run on both."
    )


def _reopen(args: argparse.Namespace) -> int:
    import asyncio

    place = _absolute(args.place)
    moved_to = asyncio.run(_open_again(place))
    shown = _printable_place(place)
    screen = screen_of(args)
    if args.json:
        screen.json({"store": shown, "moved_to": moved_to})
    elif moved_to:
        screen.prose(f"Reopened {shown}. It was moved to {safe(moved_to)}: do not let servers run on both.")
    else:
        screen.prose(f"{shown} was not moved; servers may start on it.")
    return OK


async def _open_again(place: str) -> str:
    from parley.store_wiring import find_store

    async with find_store(place).open_tables(place) as (_, use):
        moved_to = await use.moved_to()
        if moved_to:
            await use.mark_moved("")
        return moved_to


COMMANDS = {
    "store copy": Command(
        "Copy a store between a file and PostgreSQL",
        _add_arguments,
        _copy,
        (
            "parley store copy ./team postgresql://parley@db1/parley",
            "parley store copy postgresql://parley@db1/parley ./team-again",
            "parley store copy ./team postgresql://parley@db1/parley --verify-only --json",
        ),
    ),
    "store reopen": Command(
        "Let servers start again on a store that was moved",
        _add_reopen_arguments,
        _reopen,
        ("parley store reopen ./team", "parley store reopen postgresql://parley@db1/parley"),
    ),
}
