"""Read and export event logs of intents and ledgers of tenants, from a server or from files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from parley.cli.audit.chains import EventLog, LogResult, check_ledger, event_from_api
from parley.cli.output import json_text
from parley.sdk.protocol.lookup import find_intent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from parley.domain.channel.event import Event
    from parley.ports.team import TeamStore
    from parley.sdk.blocking.connection import Connection

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
# First characters that make a spreadsheet treat a cell as a formula, also as full-width characters.
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def check_server(connection: Connection, intent: str) -> Iterator[LogResult]:
    """Verify all event logs of a server, or one."""
    for intent_id in _intent_ids(connection, intent):
        log = EventLog("", intent_id)
        for page in _event_pages(connection, intent_id):
            log.add(event_from_api(document) for document in page)
        verdict = connection.get("intents", intent_id, "events", "verify")
        if not verdict["valid"]:
            broken = [link.get("sequence") for link in verdict.get("breaks", []) if isinstance(link, dict)]
            log.add_problem(
                next((sequence for sequence in broken if isinstance(sequence, int)), 1), "reported by the server"
            )
        elif verdict["event_count"] < log.length:
            log.add_problem(verdict["event_count"] + 1, "not counted by the server")
        yield log.result()


async def check_store(store: TeamStore, tenant: str, intent: str) -> AsyncIterator[LogResult]:
    """Verify the ledger and event logs of a tenant in a store, or one event log."""
    from parley.domain.channel.checkpoint import Checkpoint
    from parley.domain.directory.intent import Intent

    if not intent:
        yield check_ledger(tenant, [entry async for entry in _entries(store, tenant)])
    async for record in children(store, Intent, tenant, ""):
        if intent in ("", record.id):
            log = EventLog(tenant, record.id)
            async for page in _stored_event_pages(store, tenant, record.id):
                log.add(page)
            async for checkpoint in children(store, Checkpoint, tenant, record.id):
                log.check_against(checkpoint)
            yield log.result()


async def children(store: TeamStore, kind: Any, tenant: str, parent: str) -> AsyncIterator[Any]:  # noqa: ANN401
    """Iterate over the records of a parent."""
    after = ""
    while page := await store.children(kind, tenant, parent, after=after, limit=_PAGE):
        for record in page:
            yield record
        after = page[-1].id


async def _entries(store: TeamStore, tenant: str) -> AsyncIterator[Any]:
    after = 0
    while page := await store.entries(tenant, after, _PAGE):
        for entry in page:
            yield entry
        after = page[-1].position


async def _stored_event_pages(store: TeamStore, tenant: str, intent: str) -> AsyncIterator[tuple[Event, ...]]:
    after = 0
    while page := await store.events(tenant, intent, after=after, limit=_PAGE):
        yield page
        after = page[-1].sequence


def _intent_ids(connection: Connection, intent: str) -> Iterator[str]:
    if intent:
        yield connection.run(find_intent(connection.session, intent)).id
        return
    offset = 0
    while page := connection.get("intents", query={"limit": _PAGE, "offset": offset})["intents"]:
        yield from (document["id"] for document in page)
        offset += len(page)


def _event_pages(connection: Connection, intent: str) -> Iterator[list[dict[str, Any]]]:
    """Iterate over the events of an intent in order."""
    after = 0
    while page := connection.get("intents", intent, "events", query={"after": after, "limit": _PAGE}):
        yield page
        after = max(int(event["sequence"]) for event in page)


# ---------------------------------------------------------------- export


def export_events(connection: Connection, intent: str, *, as_csv: bool) -> None:
    """Print all events, or those of one intent."""
    events = (
        event
        for intent_id in _intent_ids(connection, intent)
        for page in _event_pages(connection, intent_id)
        for event in page
    )
    if as_csv:
        write_csv(_COLUMNS, events)
        return
    for event in events:
        sys.stdout.write(json_text(event) + "\n")


def write_csv(columns: tuple[str, ...], documents: Iterator[dict[str, Any]]) -> None:
    """Write documents as CSV. Nothing is written, not even the names of the columns, if the first cannot be had."""
    import csv
    from itertools import chain, islice

    first = list(islice(documents, 1))
    rows = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(columns)
    for document in chain(first, documents):
        rows.writerow([spreadsheet_safe(document.get(name)) for name in columns])


def spreadsheet_safe(value: object) -> str:
    """Return a cell that no spreadsheet treats as a formula."""
    text = "" if value is None else value if isinstance(value, str) else json_text(value)
    return f"'{text}" if text.lstrip(" ")[:1] and text.lstrip(" ")[0] in _FORMULA else text
