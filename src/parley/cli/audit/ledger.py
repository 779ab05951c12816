"""Read, verify and export the audit chain in the ledger of a mailbox.

No server signs checkpoints for a mailbox. That a chain was rewritten shows when it is compared with the ledger of the
other side.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid, NotFound, ParleyError
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from parley.domain.audit.entry import AuditEntry
    from parley.ports.mailbox import Store
    from parley.settings import Settings
    from parley.wire.proofs.audit_log import Report
    from parley.wire.proofs.reconcile import Log

_MAGIC = b"SQLite format 3\x00"
_PAGE = 1_000


def ledger_at(what: str, settings: Settings) -> str:
    """Find the ledger by its file, an agent's folder, or an agent of the project; "" if there is none."""
    if not what or what == "-":
        return ""
    if os.path.isdir(what):
        path = os.path.join(what, ".parley", "ledger.db")
        return path if os.path.exists(path) else ""
    if os.path.isfile(what):
        with open(what, "rb") as file:
            return what if file.read(len(_MAGIC)) == _MAGIC else ""
    return _agent_ledger(what, settings)


def _agent_ledger(name: str, settings: Settings) -> str:
    from parley.adapters.files.workspace import Workspace
    from parley.wiring import find_home, find_project

    # With --home or --project the name must be that of a mailbox.
    names_mailbox = "flag" in (settings.source_of("home"), settings.source_of("project"))
    try:
        home = find_home(settings).value
        folder = Workspace(home, find_project(settings, home).value).agent(name)
        folder.open().close()
    except ParleyError:
        if names_mailbox:
            raise
        return ""
    if not folder.has_ledger:
        raise NotFound(
            f"agent {name} has no ledger yet", hint="the ledger starts with the first message that is sent or claimed"
        )
    return folder.ledger_path(make=False)


def add_project_options(parser: argparse.ArgumentParser) -> None:
    """Add --home and --project."""
    group = parser.add_argument_group("mailbox")
    group.add_argument("--home", "--oacp-dir", default="", help="directory of all projects")
    group.add_argument("-p", "--project", default="", help="project of the agent")


@contextmanager
def explain_unknown_name(name: str) -> Iterator[None]:
    """Report a name that is neither a mailbox here nor an intent on the server."""
    try:
        yield
    except ParleyError as error:
        unreached = error.facts.get("arrived") is False and not name.startswith("intent_")
        if not name or not (error.code == NotFound.code or unreached):
            raise
        if error.hint.startswith("did you mean"):
            raise  # an intent with a similar title
        place = "(the server does not answer)" if unreached else "on the server"
        raise NotFound(
            f"no mailbox of agent {name!r} and no intent {name!r} {place}",
            hint="for another mailbox use --home and --project, for another server --url",
        ) from None


def check_ledger_file(path: str) -> Report:
    """Verify the chain of a ledger."""
    from parley import wiring
    from parley.wire.proofs.audit_log import LogCheck

    log_check = LogCheck(wiring.signatures().verify)
    entries = list(read_entries(path))
    log_check.header(_tenant(entries))
    for entry in entries:
        log_check.entry(entry.number, entry.side, entry.seq, entry.entry_hash, entry.document)
    return log_check.report()


def is_export(first: bytes) -> bool:
    """Whether a file with this first line is the export of a mailbox, which has no public key."""
    import json

    try:
        header = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("public_key") == "" and "parley_audit" in header


def check_export(lines: Iterable[bytes]) -> Report:
    """Verify the chain in the export of a mailbox."""
    import msgspec

    from parley import wiring
    from parley.wire.proofs.audit_log import CUT_OFF, UNREADABLE, EntryLine, Header, LogCheck, end_line

    log_check = LogCheck(wiring.signatures().verify)
    reading = iter(lines)
    try:
        header = msgspec.json.decode(next(reading, b""), type=Header)
    except UNREADABLE:
        raise Invalid("not an export of an audit log", hint="create one with: parley audit export AGENT") from None
    log_check.header(header.tenant, header.sides)
    ended = False
    for line in reading:
        if ended:
            log_check.refuse(log_check.size + 1, "there are lines after the end")
            break
        ended = line == end_line(header.size) == end_line(log_check.size)
        if not ended:
            try:
                entry = msgspec.json.decode(line, type=EntryLine)
            except UNREADABLE:
                if line.endswith(b"\n"):  # otherwise the file is cut off, which is reported below
                    log_check.refuse(log_check.size + 1, "not readable")
                break
            log_check.entry(entry.number, entry.side, entry.seq, entry.entry_hash, bytes(entry.document))
    if not ended:
        log_check.refuse(log_check.size + 1, CUT_OFF.format(log_check.size, header.size))
    return log_check.report()


def read_log(path: str) -> Log:
    """Read a ledger for comparison with another one."""
    from parley.wire.proofs.reconcile import log_of

    entries = list(read_entries(path))
    sides = [entries[0].side] if entries else [os.path.basename(os.path.dirname(os.path.dirname(path)))]
    return log_of(path, ((entry.number, entry.document) for entry in entries), sides)


def export_lines(path: str) -> Iterator[bytes]:
    """Export the chain of a ledger, unsigned."""
    from parley.wire.proofs.audit_log import VERSION, Header, end_line, entry_line, header_line

    entries = list(read_entries(path))
    sides = sorted({entry.side for entry in entries})
    yield header_line(
        Header(parley_audit=VERSION, tenant=_tenant(entries), public_key="", size=len(entries), sides=sides)
    )
    for entry in entries:
        yield entry_line(entry)
    yield end_line(len(entries))


def read_entries(path: str) -> Iterator[AuditEntry]:
    """Iterate over the entries of a ledger's chain."""
    store = _open_store(path)
    try:
        after = 0
        while page := drive(store.audits(after, _PAGE)):
            # A column that was changed by hand may hold anything; its hash will not match.
            yield from (entry._replace(document=_bytes(entry.document)) for entry in page)
            after = page[-1].seq
    finally:
        store.close()


def _open_store(path: str) -> Store:
    from parley.wiring import open_ledger

    if not os.path.exists(path):
        raise NotFound(f"no ledger {path}")
    return open_ledger(path)


def _bytes(document: object) -> bytes:
    return document if isinstance(document, bytes) else repr(document).encode()


def _tenant(entries: list[AuditEntry]) -> str:
    import json

    try:
        return str(json.loads(entries[0].document)["tenant"]) if entries else ""
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
