"""`parley audit reconcile`: lay two sides' logs beside each other, and show what one of them lacks."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from parley.cli.audit import ledger as mailbox_audit
from parley.cli.audit.verify import open_lines
from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import safe
from parley.domain.errors.errors import Invalid, NotFound

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from parley.wire.proofs.reconcile import Log


def _add_reconcile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "first", metavar="A", help="an export: parley audit export --side A; or a mailbox's ledger, or whose it is"
    )
    parser.add_argument(
        "second", nargs="?", default="", metavar="B", help="another side's export (default: A's own other sides)"
    )
    add_json(parser)
    mailbox_audit.add_project_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Entries are paired by exchange, round and digest of the content. What only one log has, and\n"
        "where they tell different things, is listed; then the exit code is 1."
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
            heads = ("EXCHANGE", "ROUND", "FROM", "TO", "A", "B", "WHAT")
            rows = [
                (
                    safe(difference.exchange_id) or "-",
                    str(difference.round),
                    safe(difference.sender),
                    safe(difference.receiver),
                    str(difference.first or "-"),
                    str(difference.second or "-"),
                    safe(difference.why),
                )
                for difference in differences
            ]
            screen.table(heads, rows, ["red"] * len(rows))
        screen.line(f"{paired} messages on both sides, {len(differences)} on one side only or different.")
    return FOUND_PROBLEMS if differences else OK


def _read_log(args: argparse.Namespace, path: str) -> Log:
    """A log from its export, or from a mailbox's ledger. One that is not what was signed proves nothing."""
    from parley import wiring
    from parley.wire.proofs.audit_log import check_export, read_export
    from parley.wire.proofs.reconcile import log_of

    ledger = mailbox_audit.ledger_at(path, settings_of(args))
    copy: list[bytes] = []
    if not ledger and path != "-" and not os.path.exists(path):
        raise NotFound(
            f"there is no file {path!r}, and no agent {path!r} in a mailbox here",
            hint="make an export with: parley audit export --side AGENT; a mailbox elsewhere: --home and --project",
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
        raise Invalid(f"{path} was changed: {report.bad}", hint=f"see: parley audit verify {path}")
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
        "Compare two sides' audit logs: what one of them lacks, and where they differ",
        _add_reconcile,
        _reconcile,
        (
            "parley audit reconcile research.jsonl analysis.jsonl",
            "parley audit reconcile audit.jsonl --json",
            "parley audit reconcile claude codex",
        ),
    ),
}
