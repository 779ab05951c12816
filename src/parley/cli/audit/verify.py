"""`parley audit verify`: verify hashes, chains and signatures of the logs in a file, server or data directory."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from parley.cli.audit import ledger as mailbox_audit
from parley.cli.audit.chains import LogResult
from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import add_server_options, connection_of, utc_text
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.errors.rules import LogChanged

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from parley.cli.output import Screen
    from parley.domain.audit.checkpoint import AuditCheckpoint
    from parley.ports.team import TeamStore
    from parley.wire.proofs.audit_log import Report

_PAGE = 1_000
_UNSIGNED_NOTE = (
    "a mailbox has no signed checkpoints, so its owner could rewrite the whole log."
    " Compare it with the log of the other side: parley audit reconcile"
)
_KEY_HINT = " (compare the key with the server's audit.pub, or use --public-key)"


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="FILE|AGENT|INTENT",
        help="export (- is standard input), agent or ledger of a mailbox, or intent (title or id) for its event log",
    )
    parser.add_argument("--data", default="", metavar="DIR", help="verify the files of a data directory, with ledgers")
    parser.add_argument("--proof", default="", metavar="FILE", help="verify a proof from `parley audit prove`")
    parser.add_argument(
        "--checkpoints", action="append", default=[], metavar="FILE", help="checkpoints that you stored elsewhere"
    )
    parser.add_argument(
        "--public-key",
        action="append",
        default=[],
        metavar="KEY",
        help="trusted public key: the server's audit.pub, or 64 hexadecimal digits",
    )
    add_server_options(parser, agent=False)
    mailbox_audit.add_project_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "An export is verified without a server. Otherwise the logs are fetched from the\n"
        "server and verified here; with --data, the logs, checkpoints and ledgers of all\n"
        "tenants are read from the files. The owner of a server could rewrite the whole\n"
        "log: checkpoints that you stored elsewhere and a public key that you know reveal\n"
        "it. Exit code 13: a log was changed or is incomplete; the first bad entry is\n"
        "named. Exit code 2: wrong usage, or a file that is no export."
    )


def _verify(args: argparse.Namespace) -> int:
    trusted = frozenset(_public_key(key) for key in args.public_key)
    if args.proof:
        return _verify_proof(args, trusted)
    outside = [checkpoint for path in args.checkpoints for checkpoint in _read_checkpoints(path)]
    reports: list[Report] = []
    results: list[LogResult] = []
    ledger = mailbox_audit.ledger_at(args.what, settings_of(args))
    of_mailbox = bool(ledger)
    if ledger:
        reports.append(mailbox_audit.check_ledger_file(ledger))
    elif args.what == "-" or os.path.exists(args.what):
        report, of_mailbox = _check_file(args.what, trusted, outside)
        reports.append(report)
    elif args.data:
        import asyncio

        reports, results = asyncio.run(_check_data(args, trusted, outside))
    elif args.what.endswith((".jsonl", ".json")) or os.sep in args.what:
        raise NotFound(f"no file {args.what!r}", hint="export a log with: parley audit export > FILE")
    else:
        with mailbox_audit.explain_unknown_name(args.what):
            reports, results = _check_server(args, trusted, outside)
    results += [result_of(report) for report in reports]
    _show_results(args, results, reports, of_mailbox=of_mailbox)
    bad = [result for result in results if result.bad]
    if bad:
        raise LogChanged.because(
            [Problem("chain_broken", result.log, f"number {result.bad}: {result.why}") for result in bad]
        )
    return OK


def result_of(report: Report) -> LogResult:
    """Turn the report about an audit log into a result."""
    bad = report.bad
    why = f"{f'{bad.side} {bad.seq}: ' if bad.side else ''}{bad.why}" if bad else ""
    name = f"audit log of {report.tenant}"
    return LogResult(report.tenant, name, "audit", report.entries, max(1, bad.number) if bad else 0, why)


# ---------------------------------------------------------------- from where


def _check_file(path: str, trusted: frozenset[str], outside: list[AuditCheckpoint]) -> tuple[Report, bool]:
    """Verify an export; also return whether it is from a mailbox."""
    from parley import wiring
    from parley.wire.proofs.audit_log import check_export

    with open_lines(path) as lines:
        reading = iter(lines)
        first = next(reading, b"")
        if not trusted and not outside and mailbox_audit.is_export(first):
            return mailbox_audit.check_export(chain((first,), reading)), True
        verify = wiring.signatures().verify
        return check_export(chain((first,), reading), verify, trusted=trusted, outside=outside), False


def _check_server(
    args: argparse.Namespace, trusted: frozenset[str], outside: list[AuditCheckpoint]
) -> tuple[list[Report], list[LogResult]]:
    from parley import wiring
    from parley.cli.audit.event_logs import check_server
    from parley.wire.proofs.audit_log import check_export

    connection = connection_of(args, agent=False)
    results = list(check_server(connection, args.what))
    if args.what:
        return [], results
    lines = connection.lines("audit", "export")
    report = check_export(lines, wiring.signatures().verify, trusted=trusted, outside=outside)
    return [report] if report.entries or report.bad else [], results


async def _check_data(
    args: argparse.Namespace, trusted: frozenset[str], outside: list[AuditCheckpoint]
) -> tuple[list[Report], list[LogResult]]:
    from parley import wiring
    from parley.settings import checkpoints_directory, data_directory

    settings = settings_of(args)
    data = data_directory(settings)
    folder = checkpoints_directory(settings, data)
    async with wiring.open_data(data) as store:
        return await check_logs(store, folder, args.what, trusted, outside)


async def check_logs(
    store: TeamStore,
    folder: str = "",
    intent: str = "",
    trusted: frozenset[str] = frozenset(),
    outside: Sequence[AuditCheckpoint] = (),
) -> tuple[list[Report], list[LogResult]]:
    """Verify ledger, event logs and audit log of every tenant, with the checkpoints in a folder; or one event log."""
    from parley.cli.audit.event_logs import check_store, children
    from parley.domain.directory.callers import NO_TENANT, Tenant

    reports, results = [], []
    for tenant in [record.id async for record in children(store, Tenant, NO_TENANT, "")]:
        results += [result async for result in check_store(store, tenant, intent)]
        if not intent:
            checkpoints = [checkpoint for checkpoint in outside if checkpoint.tenant_id == tenant]
            checkpoints = checkpoints or _checkpoints_of(folder, tenant)
            report = await _check_log(store, tenant, trusted, checkpoints)
            reports += [report] if report.entries or report.bad else []
    return reports, results


async def _check_log(store: TeamStore, tenant: str, trusted: frozenset[str], outside: list[AuditCheckpoint]) -> Report:
    """Verify the audit log of a tenant in a store. Entries after the last checkpoint get one within seconds."""
    from parley import wiring
    from parley.cli.audit.event_logs import children
    from parley.domain.audit.checkpoint import AuditCheckpoint
    from parley.domain.store.changes import AuditQuery
    from parley.wire.proofs.audit_log import LogCheck

    check = LogCheck(wiring.signatures().verify, trusted=trusted)
    check.header(tenant)
    # Read before the entries: a running server may sign entries that we have not read.
    signed = [checkpoint async for checkpoint in children(store, AuditCheckpoint, tenant, "")]
    after = 0
    while page := await store.audits(tenant, AuditQuery(after=after, limit=_PAGE)):
        for entry in page:
            check.stored(entry, _content(entry.document))
        after = page[-1].number
    for checkpoint in signed:
        check.checkpoint(checkpoint)
    for checkpoint in outside:
        check.checkpoint(checkpoint, outside=True)
    return check.report()


def _content(document: object) -> bytes:
    """The bytes that are hashed; a column that was changed by hand may hold anything."""
    return document if isinstance(document, bytes) else repr(document).encode()


def checkpoints_in(folder: str) -> list[AuditCheckpoint]:
    """Read the checkpoints of all tenants in a folder."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [
        checkpoint
        for name in names
        if name.endswith(".jsonl")
        for checkpoint in _read_checkpoints(os.path.join(folder, name))
    ]


def _checkpoints_of(folder: str, tenant: str) -> list[AuditCheckpoint]:
    path = os.path.join(folder, f"{tenant}.jsonl")
    return _read_checkpoints(path) if folder and os.path.exists(path) else []


# ---------------------------------------------------------------- proofs and files


def _verify_proof(args: argparse.Namespace, trusted: frozenset[str]) -> int:
    from parley import wiring
    from parley.domain.audit.checkpoint import key_id
    from parley.wire.proofs.audit_proof import check_proof

    with open_lines(args.proof) as lines:
        content = b"".join(lines)
    proof, why = check_proof(content, wiring.signatures().verify, trusted)
    entry, checkpoint = proof.entry, proof.checkpoint
    signer = key_id(checkpoint.public_key) if not why else ""
    screen = screen_of(args)
    if args.json:
        screen.json(
            {
                "valid": not why,
                "why": why or None,
                "tenant": checkpoint.tenant,
                "number": entry.number,
                "side": entry.side,
                "seq": entry.seq,
                "size": checkpoint.size,
                "at": checkpoint.at,
                "key_id": signer or None,
            }
        )
    if why:
        raise LogChanged.because([Problem("proof_invalid", args.proof, why)])
    if not args.json:
        hint = "" if trusted else _KEY_HINT
        screen.prose(
            f"Proof valid: entry {entry.number} ({safe(entry.side)}, {entry.seq}) is one of the"
            f" {checkpoint.size} entries of {safe(checkpoint.tenant)} that key {signer}"
            f" signed at {utc_text(checkpoint.at)}{hint}."
        )
    return OK


@contextmanager
def open_lines(path: str) -> Iterator[Iterable[bytes]]:
    """Open a file, or standard input, for reading lines."""
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror or error}") from None


def _read_checkpoints(path: str) -> list[AuditCheckpoint]:
    from parley.wire.proofs.audit_log import read_checkpoints

    with open_lines(path) as lines:
        try:
            return list(read_checkpoints(lines))
        except Invalid as error:
            raise Invalid(f"{path}: {error.message}") from None


def _public_key(text: str) -> str:
    from parley import wiring

    if len(text) == 64 and set(text.lower()) <= set("0123456789abcdef"):
        return text.lower()
    with open_lines(text) as lines:
        return wiring.public_key(b"".join(lines))


# ---------------------------------------------------------------- what came out


def _chain_column(result: LogResult) -> str:
    return f"broken at {result.bad}: {result.why}" if result.bad else "intact"


_COLUMNS = (
    Column("LOG", lambda result: result.log, ALWAYS),
    Column("KIND", lambda result: result.kind, 6),
    Column("LENGTH", lambda result: str(result.length), 7),
    text_column("CHAIN", _chain_column),
)


def _show_results(
    args: argparse.Namespace, results: list[LogResult], reports: list[Report], *, of_mailbox: bool
) -> None:
    screen = screen_of(args)
    broken = [result for result in results if result.bad]
    if args.json:
        document: dict[str, Any] = {"valid": not broken, "chains": [result.document() for result in results]}
        if reports:
            document["audit"] = [report.document() for report in reports]
        screen.json(document)
        return
    if results:
        show_rows(screen, _COLUMNS, results, ["red" if result.bad else "" for result in results])
    for report in reports:
        if of_mailbox and report.entries:
            screen.prose(f"{safe(report.tenant)}: {_UNSIGNED_NOTE}")
        else:
            _show_report(screen, report, key_given=bool(args.public_key))
    if not broken:
        length = sum(result.length for result in results)
        screen.prose(f"{count_of(len(results), 'log')} with {count_of(length, 'entry', 'entries')} verified: intact.")


def _show_report(screen: Screen, report: Report, *, key_given: bool) -> None:
    """Print what is signed, unsigned, trimmed and hidden in an audit log."""
    name = safe(report.tenant)
    if report.covered:
        hint = "" if key_given else _KEY_HINT
        keys = ", ".join(report.keys)
        at = utc_text(report.covered_at)
        screen.prose(f"{name}: entries 1 to {report.covered} signed at {at} by key {keys}{hint}")
    if report.entries > report.covered and report.bad is None:
        newer = count_of(report.entries - report.covered, "newer entry", "newer entries")
        screen.prose(f"{name}: {newer} without a checkpoint yet")
    if report.let_go:
        screen.prose(
            f"{name}: {count_of(report.let_go, 'entry', 'entries')} trimmed, covered by the checkpoint over"
            f" {count_of(report.let_go_covered, 'entry', 'entries')}"
        )
    if report.hidden:
        screen.prose(f"{name}: {count_of(report.hidden, 'entry', 'entries')} of other sides or times only as hashes")


COMMANDS = {
    "audit verify": Command(
        "Verify that no log was changed",
        _add_verify,
        _verify,
        (
            "parley audit verify",
            "parley audit verify audit.jsonl --checkpoints /mnt/other/acme.jsonl --public-key audit.pub",
            "parley audit verify --proof proof.json",
            "parley audit verify 'Research Q1' --json",
            "parley audit verify --data ./team",
            "parley audit verify claude",
        ),
    ),
}
