"""`parley audit reconcile`: compare the audit logs of two sides."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from parley.cli.audit import ledger as mailbox_audit
from parley.cli.audit.verify import open_lines
from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import count_of
from parley.cli.table import Column, id_column, show_rows, text_column
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import LogChanged

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from parley.wire.proofs.reconcile import Log


def _add_reconcile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "first",
        metavar="A",
        help="export of one side (parley audit export --side A), ledger of a mailbox, or its agent",
    )
    parser.add_argument(
        "second", nargs="?", default="", metavar="B", help="the same for the other side (default: the other sides in A)"
    )
    add_json(parser)
    mailbox_audit.add_project_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Entries are paired by exchange, round and content digest. Entries that one log\n"
        "lacks or that differ are listed, and the exit code is 1."
    )


def _reconcile(args: argparse.Namespace) -> int:
    from parley.wire.proofs.reconcile import reconcile

    first = _read_log(args, args.first)
    second = _read_log(args, args.second) if args.second and args.second != args.first else first
    paired, differences = reconcile(first, second)
    screen = screen_of(args)
    if args.json:
        screen.json(
            {
                "equal": not differences,
                "paired": paired,
                "differences": [difference.document() for difference in differences],
            }
        )
    else:
        if differences:
            columns = (
                id_column("EXCHANGE", lambda difference: difference.exchange_id or "-", 6),
                Column("ROUND", lambda difference: str(difference.round), 5),
                Column("FROM", lambda difference: difference.sender, 8),
                Column("TO", lambda difference: difference.receiver, 8),
                Column("A", lambda difference: str(difference.first or "-"), 7, usual=None),
                Column("B", lambda difference: str(difference.second or "-"), 7, usual=None),
                text_column("DIFFERENCE", lambda difference: difference.why),
            )
            show_rows(screen, columns, differences, ["red"] * len(differences))
        screen.prose(f"{count_of(paired, 'message')} on both sides, {len(differences)} missing or different.")
    return FOUND_PROBLEMS if differences else OK


def _read_log(args: argparse.Namespace, path: str) -> Log:
    """Read a log from an export or from the ledger of a mailbox. A log that was changed is refused."""
    from parley import wiring
    from parley.wire.proofs.audit_log import check_export, read_export
    from parley.wire.proofs.reconcile import log_of

    ledger = mailbox_audit.ledger_at(path, settings_of(args))
    copy: list[bytes] = []
    if not ledger and path != "-" and not os.path.exists(path):
        raise NotFound(
            f"no file {path!r} and no mailbox of agent {path!r}",
            hint="create an export: parley audit export --side AGENT; for another mailbox use --home and --project",
        )
    if ledger:
        report = mailbox_audit.check_ledger_file(ledger)
    else:
        with open_lines(path) as lines:
            reading = iter(lines)
            first = next(reading, b"")
            taken = _copy_lines(chain((first,), reading), copy)
            unsigned = mailbox_audit.is_export(first)
            report = mailbox_audit.check_export(taken) if unsigned else check_export(taken, wiring.signatures().verify)
    if report.bad is not None:
        raise LogChanged(f"{path} was changed: {report.bad}", hint=f"for details: parley audit verify {path}")
    if ledger:
        return mailbox_audit.read_log(ledger)
    header, entries = read_export(copy)
    return log_of(path, entries, header.sides)


def _copy_lines(lines: Iterable[bytes], copy: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        copy.append(line)
        yield line


COMMANDS = {
    "audit reconcile": Command(
        "Compare what two audit logs say about the same exchanges",
        _add_reconcile,
        _reconcile,
        (
            "parley audit reconcile research.jsonl analysis.jsonl",
            "parley audit reconcile audit.jsonl --json",
            "parley audit reconcile claude codex",
        ),
    ),
}
