"""`parley audit verify|export`: is the log whole, and take it along."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from parley.cli.chains import Checked, EventLog, check_ledger, served_event
from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import json_text, safe
from parley.cli.remote import add_server, connection_of
from parley.domain.errors import Invalid, Problem

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Callable, Iterator

    from parley.domain.event import Event
    from parley.ports import TeamStore
    from parley.sdk.connection import Connection

_PAGE = 500
_COLUMNS = (
    "intent_id",
    "sequence",
    "id",
    "event_type",
    "actor",
    "created_at",
    "trace_id",
    "parent_event_id",
    "payload",
    "previous_event_hash",
    "event_hash",
)
# What makes a spreadsheet take a cell for a formula, also in their wide spelling.
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", nargs="?", default="", metavar="INTENT", help="only this one's log (default: all)")
    parser.add_argument(
        "--data", default="", metavar="DIR", help="check the files of a data directory instead, ledgers too"
    )
    add_server(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "Asks the server, and computes every hash again on this side. With --data no server is needed: all\n"
        "tenants' logs, checkpoints and ledgers are read from the files. A broken chain is exit code 2, and\n"
        "the line names the first bad number."
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", nargs="?", default="", metavar="INTENT", help="only this one's log (default: all)")
    parser.add_argument("--format", default="jsonl", choices=("jsonl", "csv"), help="jsonl or csv (default: jsonl)")
    add_server(parser, agent=False)


# ---------------------------------------------------------------- verify


def _verify(args: argparse.Namespace) -> int:
    if args.data:
        import asyncio

        from parley.settings import data_directory

        checked = asyncio.run(_check_files(data_directory(settings_of(args)), args.intent))
    else:
        checked = list(_check_server(connection_of(args, agent=False), args.intent))
    bad = [one for one in checked if one.bad]
    screen = screen_of(args)
    if args.json:
        screen.json({"valid": not bad, "chains": [one.document() for one in checked]})
    else:
        rows = [
            (safe(one.log), one.kind, str(one.length), f"broken at {one.bad}: {one.why}" if one.bad else "whole")
            for one in checked
        ]
        if rows:
            screen.table(("LOG", "KIND", "LENGTH", "CHAIN"), rows, ["red" if one.bad else "" for one in checked])
    if bad:
        raise Invalid.because([Problem("chain_broken", one.log, f"number {one.bad}: {one.why}") for one in bad])
    if not args.json:
        screen.line(
            f"{len(checked)} {'log' if len(checked) == 1 else 'logs'}, {sum(c.length for c in checked)} links: whole."
        )
    return OK


def _check_server(connection: Connection, intent: str) -> Iterator[Checked]:
    for intent_id in _intents(connection, intent):
        found = EventLog("", intent_id)
        for page in _pages(connection, intent_id):
            found.take(served_event(one) for one in page)
        said = connection.get("intents", intent_id, "events", "verify")
        if not said["valid"]:
            broken = [one.get("sequence") for one in said.get("breaks", []) if isinstance(one, dict)]
            found.refuse(next((one for one in broken if isinstance(one, int)), 1), "the server says so")
        elif said["event_count"] < found.length:
            found.refuse(said["event_count"] + 1, "the server does not count it")
        yield found.checked()


async def _check_files(data: str, intent: str) -> list[Checked]:
    from parley import wiring
    from parley.domain.checkpoint import Checkpoint
    from parley.domain.directory import NO_TENANT, Tenant
    from parley.domain.intent import Intent

    checked = []
    async with wiring.open_data(data) as store:
        for tenant in [one.id async for one in _children(store, Tenant, NO_TENANT, "")]:
            if not intent:
                entries = [one async for one in _entries(store, tenant)]
                checked.append(check_ledger(tenant, entries))
            async for one in _children(store, Intent, tenant, ""):
                if intent in ("", one.id):
                    found = EventLog(tenant, one.id)
                    async for page in _stored_pages(store, tenant, one.id):
                        found.take(page)
                    async for mark in _children(store, Checkpoint, tenant, one.id):
                        found.compare(mark)
                    checked.append(found.checked())
    return checked


async def _children(store: TeamStore, kind: Any, tenant: str, parent: str) -> AsyncIterator[Any]:  # noqa: ANN401
    after = ""
    while page := await store.children(kind, tenant, parent, after=after, limit=_PAGE):
        for one in page:
            yield one
        after = page[-1].id


async def _entries(store: TeamStore, tenant: str) -> AsyncIterator[Any]:
    after = 0
    while page := await store.entries(tenant, after, _PAGE):
        for one in page:
            yield one
        after = page[-1].position


async def _stored_pages(store: TeamStore, tenant: str, intent: str) -> AsyncIterator[tuple[Event, ...]]:
    after = 0
    while page := await store.events(tenant, intent, after=after, limit=_PAGE):
        yield page
        after = page[-1].sequence


def _intents(connection: Connection, intent: str) -> Iterator[str]:
    if intent:
        yield intent
        return
    offset = 0
    while page := connection.get("intents", query={"limit": _PAGE, "offset": offset})["intents"]:
        yield from (one["id"] for one in page)
        offset += len(page)


def _pages(connection: Connection, intent: str) -> Iterator[list[dict[str, Any]]]:
    """An intent's events in their order."""
    after = 0
    while page := connection.get("intents", intent, "events", query={"after": after, "limit": _PAGE}):
        yield page
        after = max(int(one["sequence"]) for one in page)


# ---------------------------------------------------------------- export


def _export(args: argparse.Namespace) -> int:
    if args.json and args.format == "csv":
        raise Invalid("--json or --format csv, not both")
    screen_of(args)  # a terminal that cannot show a character must not end the export
    write = _csv_writer() if args.format == "csv" else _write_line
    connection = connection_of(args, agent=False)
    for intent_id in _intents(connection, args.intent):
        for page in _pages(connection, intent_id):
            for event in page:
                write(event)
    return OK


def _write_line(event: dict[str, Any]) -> None:
    sys.stdout.write(json_text(event) + "\n")


def _csv_writer() -> Callable[[dict[str, Any]], None]:
    import csv

    rows = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(_COLUMNS)
    return lambda event: rows.writerow([inert(event.get(name)) for name in _COLUMNS])


def inert(value: object) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = "" if value is None else value if isinstance(value, str) else json_text(value)
    return f"'{text}" if text.lstrip(" ")[:1] and text.lstrip(" ")[0] in _FORMULA else text


COMMANDS = {
    "audit verify": Command(
        "Check that no log was changed: every event, checkpoint and ledger entry",
        _add_verify,
        _verify,
        ("parley audit verify", "parley audit verify intent_01K... --json", "parley audit verify --data ./team"),
    ),
    "audit export": Command(
        "Print the event logs as JSON lines or CSV",
        _add_export,
        _export,
        ("parley audit export > events.jsonl", "parley audit export intent_01K... --format csv > events.csv"),
    ),
}
