"""The audit chain in a mailbox's own ledger, as `parley audit` reads it: checked, compared, taken along.

A mailbox has no server that would sign checkpoints: that a chain was written anew from some place on shows when it is
compared with the other side's, which has a ledger of its own.
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
    """The ledger that is meant: its file, an agent's folder, or an agent of the project; "" for anything else."""
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

    # Who names the project means a mailbox: nothing else is looked for.
    names_mailbox = any(
        setting.name in ("home", "project") and setting.source == "flag" for setting in settings.sources
    )
    try:
        home = find_home(settings).value
        folder = Workspace(home, find_project(settings, home).value).agent(name)
        folder.open().close()
    except ParleyError:
        if names_mailbox:
            raise
        return ""
    if not folder.has_ledger:
        raise NotFound(f"{name} has no ledger yet", hint="it begins with the first message that is sent or taken there")
    return folder.ledger_path(make=False)


def add_project_options(parser: argparse.ArgumentParser) -> None:
    """--home and --project, as other commands on a mailbox take them."""
    group = parser.add_argument_group("mailbox")
    group.add_argument("--home", "--oacp-dir", default="", help="the home of all projects")
    group.add_argument("-p", "--project", default="", help="the project whose agent is meant")


@contextmanager
def explain_unknown_name(name: str) -> Iterator[None]:
    """A name that is no mailbox's is asked for on a server; when that has none either, both are said."""
    try:
        yield
    except ParleyError as error:
        unreached = error.facts.get("arrived") is False and not name.startswith("intent_")
        if not name or not (error.code == NotFound.code or unreached):
            raise
        there = "that could be asked for: no server answers" if unreached else "on the server"
        raise NotFound(
            f"there is no agent {name!r} in a mailbox here, and no intent {name!r} {there}",
            hint="a mailbox elsewhere: --home and --project; a server: --url",
        ) from None


def check_ledger_file(path: str) -> Report:
    """Compute the chain of a ledger again."""
    from parley import wiring
    from parley.wire.proofs.audit_log import LogCheck

    log_check = LogCheck(wiring.signatures().verify)
    entries = list(read_entries(path))
    log_check.header(_tenant(entries))
    for entry in entries:
        log_check.entry(entry.number, entry.side, entry.seq, entry.entry_hash, entry.document)
    return log_check.report()


def is_export(first: bytes) -> bool:
    """Whether a file that begins with this line is a mailbox's export: it names nobody who would have signed it."""
    import json

    try:
        header = json.loads(first)
    except ValueError:
        return False
    return isinstance(header, dict) and header.get("public_key") == "" and "parley_audit" in header


def check_export(lines: Iterable[bytes]) -> Report:
    """Compute the chain in a mailbox's export again."""
    import msgspec

    from parley import wiring
    from parley.wire.proofs.audit_log import CUT_OFF, EntryLine, Header, LogCheck, end_line

    log_check = LogCheck(wiring.signatures().verify)
    reading = iter(lines)
    try:
        header = msgspec.json.decode(next(reading, b""), type=Header)
    except msgspec.MsgspecError:
        raise Invalid("this is no export of an audit log", hint="make one with: parley audit export AGENT") from None
    log_check.header(header.tenant, header.sides)
    ended = False
    for line in reading:
        if ended:
            log_check.refuse(log_check.size + 1, "something comes after the end")
            break
        ended = line == end_line(header.size) == end_line(log_check.size)
        if not ended:
            try:
                entry = msgspec.json.decode(line, type=EntryLine)
            except msgspec.MsgspecError:
                if line.endswith(b"\n"):  # else it is cut off here, which is said below
                    log_check.refuse(log_check.size + 1, "it cannot be read")
                break
            log_check.entry(entry.number, entry.side, entry.seq, entry.entry_hash, bytes(entry.document))
    if not ended:
        log_check.refuse(log_check.size + 1, CUT_OFF.format(log_check.size, header.size))
    return log_check.report()


def read_log(path: str) -> Log:
    """What a ledger tells, to be compared with another's."""
    from parley.wire.proofs.reconcile import log_of

    entries = list(read_entries(path))
    sides = [entries[0].side] if entries else [os.path.basename(os.path.dirname(os.path.dirname(path)))]
    return log_of(path, ((entry.number, entry.document) for entry in entries), sides)


def export_lines(path: str) -> Iterator[bytes]:
    """A ledger's chain as an export. Nobody signed it."""
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
    """Every entry of a ledger's chain, in order."""
    store = _open_store(path)
    try:
        after = 0
        while page := drive(store.audits(after, _PAGE)):
            # A column that was changed by hand may hold anything: it does not fit its hash then.
            yield from (entry._replace(document=_bytes(entry.document)) for entry in page)
            after = page[-1].seq
    finally:
        store.close()


def _open_store(path: str) -> Store:
    from parley.wiring import open_ledger

    if not os.path.exists(path):
        raise NotFound(f"there is no ledger {path}")
    return open_ledger(path)


def _bytes(document: object) -> bytes:
    return document if isinstance(document, bytes) else repr(document).encode()


def _tenant(entries: list[AuditEntry]) -> str:
    import json

    try:
        return str(json.loads(entries[0].document)["tenant"]) if entries else ""
    except (ValueError, KeyError, TypeError):
        return ""
