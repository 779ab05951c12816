"""`parley audit list|export|prove|erase`: list and export the audit log, prove an entry, erase message content."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from parley.cli.audit.filters import ACTIONS, OUTCOMES, check_side, check_word
from parley.cli.audit.ledger import add_project_options, explain_unknown_name, ledger_at
from parley.cli.audit.subjects import subject_of
from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import UNLIMITED, confirm, count_of, is_interactive, safe
from parley.cli.parts.lookup import id_of
from parley.cli.parts.remote import (
    add_server_options,
    cell_text,
    connection_of,
    field_column,
    parse_time_ago,
    show_result,
    show_table,
    utc_column,
    utc_text,
    without_none,
)
from parley.cli.table import ALWAYS, Column, id_column, text_column
from parley.domain.errors.errors import Invalid, NotFound
from parley.sdk.protocol.lookup import CONVERSATIONS, EXCHANGES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from parley.sdk.blocking.connection import Connection

_COLUMNS = (
    "number",
    "side",
    "seq",
    "at",
    "action",
    "actor",
    "what",
    "exchange_id",
    "conversation_id",
    "round",
    "direction",
    "sender",
    "to",
    "receivers",
    "source_org",
    "target_org",
    "classification",
    "outcome",
    "code",
    "reason",
    "keywords",
    "dataWithheld",
    "approval",
    "approved_by",
    "policy",
    "content_digest",
    "entry_hash",
)
_PAGE_MAX = 1_000
_LIST_DEFAULT = 100
_NUMBER_MAX = 10**15 - 1
_ID_OR_END = "its id or the end of it"


# ---------------------------------------------------------------- list


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--side", default="", metavar="AGENT", help="only entries of this side: an agent, a person, or @tenant"
    )
    parser.add_argument("--exchange", default="", metavar="ID", help=f"only entries of this exchange: {_ID_OR_END}")
    parser.add_argument(
        "--conversation", default="", metavar="ID", help=f"only entries of this conversation: {_ID_OR_END}"
    )
    parser.add_argument("--action", default="", help="only entries with this action, such as agent_exchange")
    parser.add_argument("--outcome", default="", help="only entries with this outcome: delivered, held, denied, ...")
    parser.add_argument("--actor", default="", metavar="NAME", help="only what this agent, person or key did")
    parser.add_argument("--code", default="", metavar="CODE", help="only entries with this error code")
    parser.add_argument("--pair", default="", metavar="AGENT,AGENT", help="only messages between these two agents")
    parser.add_argument("--message", default="", metavar="ID", help="only entries about this message")
    _add_period(parser)
    parser.add_argument("--after", type=int, default=None, metavar="NUMBER", help="the first entries after this number")
    parser.add_argument(
        "--before", type=int, default=None, metavar="NUMBER", help="the last entries before this number"
    )
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="number of entries at most (default: 100)")
    parser.add_argument("--all", action="store_true", help="all entries, without a limit")
    add_server_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "Prints the newest entries, oldest first, with times in UTC. If there are more, a\n"
        "note on standard error says how to get them."
    )


def _add_period(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", default="", metavar="TIME", help="only entries since this time or day (UTC); 1h is an hour ago"
    )
    parser.add_argument(
        "--until", default="", metavar="TIME", help="only entries before this time, or up to the end of this day"
    )


def _period(args: argparse.Namespace) -> dict[str, str | None]:
    return {
        "since": parse_time_ago(args.since, "--since"),
        "until": parse_time_ago(args.until, "--until", ends=True),
    }


def _list(args: argparse.Namespace) -> int:
    if args.all and not (args.after is args.before is args.limit is None):
        raise Invalid("--all excludes --after, --before and --limit", hint="leave out --all or the others")
    if min(_value_or(args.limit, 1), _value_or(args.before, 1)) < 1 or _value_or(args.after, 0) < 0:
        raise Invalid("--limit and --before must be at least 1, --after at least 0")
    connection = connection_of(args, agent=False)
    query = {
        "side": args.side,
        "exchange_id": args.exchange and id_of(connection, EXCHANGES, args.exchange),
        "conversation_id": _conversation(connection, args.conversation),
        "action": args.action,
        "outcome": args.outcome,
        # A server of before 0.7 does not know these.
        **{name: value for name, value in _newer_filters(args).items() if value},
        **_period(args),
    }
    forward = args.all or (args.after is not None and args.before is None)
    entries, more = (_list_forward if forward else _list_newest)(args, connection, query)
    if not entries:
        check_word(args.action, ACTIONS, "--action")
        check_word(args.outcome, OUTCOMES, "--outcome")
        check_side(connection, args.side, "--side")
    screen = screen_of(args)
    is_narrow = screen.width() < UNLIMITED and any(map(_subject_column, entries))
    show_table(args, screen, entries, _NARROW_COLUMNS if is_narrow else _TABLE_COLUMNS, "No entries.")
    if more:
        from parley.cli.reports import note

        go_on = f"--after {more}" if forward else f"--before {more}"
        note(f"there are more entries: use {go_on}, a larger --limit, or --all")
    return OK


def _newer_filters(args: argparse.Namespace) -> dict[str, str]:
    return {"actor": args.actor, "code": args.code, "pair": args.pair, "message_id": args.message}


def _conversation(connection: Connection, text: str) -> str:
    """The id of a conversation, by its end, too. One that never became an exchange has entries all the same."""
    try:
        return id_of(connection, CONVERSATIONS, text) if text else ""
    except NotFound:
        return text


def _list_forward(
    args: argparse.Namespace, connection: Connection, query: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """Fetch the first entries after a number, or all; also return the number after which there are more, or 0."""
    limit = sys.maxsize if args.all else args.limit or _LIST_DEFAULT
    entries: list[dict[str, Any]] = []
    after: int | None = args.after or 0
    while after is not None and len(entries) < limit:
        page_size = min(_PAGE_MAX, limit - len(entries))
        page = connection.get("audit", query={**query, "after": after, "limit": page_size})
        entries += page["entries"]
        after = page["next"]
    has_more = after is not None and connection.get("audit", query={**query, "after": after, "limit": 1})["entries"]
    return entries, after or 0 if has_more else 0


def _list_newest(
    args: argparse.Namespace, connection: Connection, query: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """Fetch the last entries before a number; also return the number before which older ones match, or 0."""
    limit = args.limit or _LIST_DEFAULT
    entries: list[dict[str, Any]] = []
    before: int | None = args.before or _NUMBER_MAX
    # One more than is printed: older entries may not match the filters.
    while before is not None and len(entries) <= limit:
        page_size = min(_PAGE_MAX, limit + 1 - len(entries))
        page_query = {**query, "before": before, "after": args.after or 0, "limit": page_size}
        page = connection.get("audit", query=page_query)
        entries = page["entries"] + entries
        before = page["previous"]
    shown = entries[-limit:]
    return shown, shown[0]["number"] if len(entries) > limit else 0


def _value_or(value: int | None, default: int) -> int:
    return default if value is None else value


def _outcome_column(entry: Mapping[str, Any]) -> str:
    """The outcome of a message, or the decision about it."""
    document = entry["document"] or {}
    return cell_text(document.get("outcome") or document.get("decision"))


def _minute_column(entry: Mapping[str, Any]) -> str:
    """The time in UTC, to the minute: `2026-03-13 14:30Z`. The number says the order."""
    return f"{utc_text(entry['at'])[:16]}Z"


def _subject_column(entry: Mapping[str, Any]) -> str:
    """What an administrative entry is about."""
    return subject_of(entry["document"] or {})


def _parties_or_subject(entry: Mapping[str, Any]) -> str:
    """Who wrote to whom, or what an administrative entry is about."""
    document = entry["document"] or {}
    if document.get("sender"):
        return f"{cell_text(document['sender'])} to {cell_text(document.get('to') or '*')}"
    return _subject_column(entry) or "-"


def _reason_column(entry: Mapping[str, Any]) -> str:
    document = entry["document"] or {}
    return cell_text(document.get("reason") or document.get("note") or None)


def _fact_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with a field of the entry's document, which may have been trimmed."""
    return lambda entry: cell_text((entry["document"] or {}).get(name))


_TABLE_COLUMNS = (
    Column("NUMBER", field_column("number"), ALWAYS),
    Column("TIME", utc_column("at"), 7),
    Column("SIDE", field_column("side"), 2),
    Column("ACTION", _fact_column("action"), 6),
    Column("FROM", _fact_column("sender"), 8),
    Column("TO", _fact_column("to"), 8),
    Column("LEVEL", _fact_column("classification"), 2),
    Column("ROUND", _fact_column("round"), 2),
    Column("OUTCOME", _outcome_column, ALWAYS),
    Column("ACTOR", _fact_column("actor"), 3),
    text_column("SUBJECT", lambda entry: _subject_column(entry) or "-", 5),
    Column("POLICY", _fact_column("policy"), 1),
    id_column("EXCHANGE", field_column("exchange_id"), 3),
    text_column("REASON", _reason_column, 4),
)
# On a terminal, with administrative entries: when, what, about whom, and how it ended fit into 80 columns.
_NARROW_COLUMNS = (
    Column("NUMBER", field_column("number"), ALWAYS),
    Column("TIME", _minute_column, ALWAYS),
    Column("ACTION", _fact_column("action"), ALWAYS),
    text_column("SUBJECT", _parties_or_subject),
    Column("OUTCOME", _outcome_column, ALWAYS),
    Column("ACTOR", _fact_column("actor"), 4),
    Column("SIDE", field_column("side"), 2),
    Column("LEVEL", _fact_column("classification"), 2),
    Column("ROUND", _fact_column("round"), 2),
    Column("POLICY", _fact_column("policy"), 1),
    id_column("EXCHANGE", field_column("exchange_id"), 3),
    text_column("REASON", _reason_column, 5),
)


# ---------------------------------------------------------------- export


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "intent",
        nargs="?",
        default="",
        metavar="INTENT|AGENT",
        help="event log of an intent (title or id), or ledger of a mailbox",
    )
    parser.add_argument(
        "--log",
        default="",
        choices=("audit", "events"),
        help="which log: audit, with its checkpoints (default), or the events of all intents",
    )
    parser.add_argument("--side", default="", metavar="AGENT", help="only entries of one side; the others as hashes")
    _add_period(parser)
    parser.add_argument("--format", default="jsonl", choices=("jsonl", "csv"), help="jsonl or csv (default: jsonl)")
    add_server_options(parser, agent=False)
    add_project_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "An export in JSON lines can be verified without a server: parley audit verify\n"
        "FILE. CSV is for reading and cannot be verified. With --log events, or an\n"
        "intent, the event log of all intents or of one is exported instead."
    )


def _export(args: argparse.Namespace) -> int:
    if args.json and args.format == "csv":
        raise Invalid("--json and --format csv together", hint="leave one of them out")
    if args.intent and args.log == "audit":
        raise Invalid("--log audit with an intent: an intent has an event log", hint="leave one of them out")
    screen_of(args)  # a terminal that cannot show a character must not end the export
    ledger = ledger_at(args.intent, settings_of(args))
    if ledger:
        from parley.cli.audit import ledger as mailbox_audit

        if args.since or args.until:
            raise Invalid("--since and --until work only with the audit log of a server", hint="leave them out")
        (_write_csv if args.format == "csv" else write_lines)(mailbox_audit.export_lines(ledger))
        return OK
    connection = connection_of(args, agent=False)
    events = args.log == "events" or bool(args.intent)
    if events and (args.since or args.until):
        raise Invalid("--since and --until work only with the audit log", hint="leave them out")
    if events:
        from parley.cli.audit.event_logs import export_events

        if args.side:
            raise Invalid("--side works only with the audit log", hint="leave out --side")
        with explain_unknown_name(args.intent):
            export_events(connection, args.intent, as_csv=args.format == "csv")
        return OK
    lines = connection.lines("audit", "export", query={"side": args.side, **_period(args)})
    if args.format == "csv":
        _write_csv(lines)
    else:
        write_lines(lines)
    return OK


def _write_csv(lines: Iterable[bytes]) -> None:
    from parley.cli.audit.event_logs import write_csv

    write_csv(_COLUMNS, _rows(lines))


def _rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    import json

    for line in lines:
        entry = json.loads(line)
        if entry.get("side"):
            document = entry.get("document") or {}
            place = {name: entry[name] for name in entry if name != "document"}
            yield {**document, **place, "what": subject_of(document)}


def write_lines(lines: Iterable[bytes]) -> None:
    """Write lines byte for byte, since they are hashed; on a terminal with control characters made visible."""
    if sys.stdout.isatty():
        for line in lines:
            sys.stdout.write(safe(line.decode().rstrip("\n")) + "\n")
        return
    sys.stdout.flush()
    for line in lines:
        sys.stdout.buffer.write(line)


# ---------------------------------------------------------------- prove and erase


def _add_prove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("entry", metavar="ID", help="id or number of the entry")
    add_server_options(parser, agent=False)


def _prove(args: argparse.Namespace) -> int:
    screen_of(args)
    write_lines([b"".join(connection_of(args, agent=False).lines("audit", "proof", args.entry)).rstrip() + b"\n"])
    return OK


def _add_erase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--conversation", default=None, metavar="ID", help="erase the messages of this conversation")
    parser.add_argument("--sender", default=None, metavar="AGENT", help="erase all messages of this agent or person")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_server_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "The content of messages, transcripts and held messages is erased and cannot be\n"
        "restored. The audit log keeps its entries, which hold only digests. Copies in\n"
        "event logs of audited channels, in backups and at readers remain. The command\n"
        "asks for confirmation; without a terminal it needs --yes."
    )


def _erase(args: argparse.Namespace) -> int:
    if (args.conversation is None) == (args.sender is None):
        raise Invalid("need either --conversation or --sender")
    what = f"in conversation {safe(args.conversation)}" if args.sender is None else f"from {safe(args.sender)}"
    warning = f"This erases the content of all messages {what} for ever"
    if not args.yes and (args.json or not is_interactive()):
        raise Invalid(warning, hint="to confirm, add --yes")
    if not args.yes and not confirm(f"{warning}. Continue?"):
        screen_of(args).line("Nothing was erased.")
        return FOUND_PROBLEMS
    body = without_none({"conversation_id": args.conversation, "agent_id": args.sender})
    done = connection_of(args, agent=False).post("audit", "erasures", body=body)
    counts = ", ".join(count_of(done[f"{noun}s"], noun) for noun in ("message", "exchange", "approval"))
    show_result(args, screen_of(args), done, f"Erased the content of {counts} (audit entry {safe(done['entry_id'])})")
    return OK


COMMANDS = {
    "audit list": Command(
        "List entries of the audit log",
        _add_list,
        _list,
        (
            "parley audit list --side research --outcome denied",
            "parley audit list --since 2026-11-17 --until 2026-11-17",
            "parley audit list --pair ann-bot,bob-bot --code classification_exceeded",
            "parley audit list --exchange ex_01K... --json",
        ),
    ),
    "audit export": Command(
        "Export the audit log or the logs of intents",
        _add_export,
        _export,
        (
            "parley audit export > audit.jsonl && parley audit verify audit.jsonl",
            "parley audit export --side research > research.jsonl",
            "parley audit export --since 2026-11-17 --until 2026-11-17 --format csv > day.csv",
            "parley audit export --log events > events.jsonl",
            "parley audit export 'Research Q1' --format csv > events.csv",
        ),
    ),
    "audit prove": Command(
        "Prove that an entry is part of the signed log",
        _add_prove,
        _prove,
        ("parley audit prove aud_01K... > proof.json && parley audit verify --proof proof.json",),
    ),
    "audit erase": Command(
        "Erase message content; the audit log stays intact",
        _add_erase,
        _erase,
        ("parley audit erase --conversation conv_01K...", "parley audit erase --sender research --yes"),
    ),
}
