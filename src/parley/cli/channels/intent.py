"""`parley intent create|list|show|events|activate|complete|abandon|assign`: manage intents on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.lookup import INTENT_HELP, intent_of
from parley.cli.parts.remote import (
    actor_column,
    add_server_options,
    age_column,
    connection_of,
    field_column,
    payload_column,
    show_fields,
    show_result,
    show_table,
    split_names,
    without_none,
)
from parley.cli.table import ALWAYS, Column, id_column, text_column
from parley.domain.errors.team import VersionMismatch
from parley.sdk.protocol.lookup import find_intent

if TYPE_CHECKING:
    import argparse

    from parley.sdk.blocking.connection import Connection

_STATUSES = ("draft", "active", "blocked", "completed", "abandoned")
_POLICIES = (["open"], ["closed"])
_TRIES = 5


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("title", metavar="TITLE", help="the goal, in one line")
    parser.add_argument("--description", default="", metavar="TEXT", help="longer description")
    parser.add_argument("--parent", default="", metavar="INTENT", help="parent intent, by its title or id")
    parser.add_argument("--draft", action="store_true", help="create it as a draft (default: active)")
    parser.add_argument(
        "--access",
        action="append",
        default=[],
        metavar="WHO",
        help="who else has access: open (every agent), closed (nobody; the default), or agents, separated by commas",
    )
    add_server_options(parser)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", default="", choices=["", *_STATUSES], metavar="STATUS", help=_statuses_help())
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="number of intents at most (default: 50)")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="number of intents to skip")
    add_server_options(parser)


def _statuses_help() -> str:
    return "one of " + ", ".join(_STATUSES)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", nargs="?", default="", metavar="INTENT", help=INTENT_HELP)
    add_server_options(parser)


def _add_events(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", nargs="?", default="", metavar="INTENT", help=INTENT_HELP)
    parser.add_argument(
        "--type", default=None, metavar="TYPE", help="only events of this type (assignment_failed, ...)"
    )
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="number of events, the last ones (default: 50)"
    )
    add_server_options(parser)


def _add_change(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", metavar="INTENT", help="its title, its id or the end of its id")
    parser.add_argument("--reason", default=None, metavar="TEXT", help="reason, for the event log")
    add_server_options(parser)


def _add_assign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", nargs="?", default="", metavar="INTENT", help=INTENT_HELP)
    parser.add_argument("assignee", metavar="AGENT", help="agent to assign")
    parser.add_argument("--role", default="worker", metavar="ROLE", help="worker or coordinator (default: worker)")
    parser.add_argument("--remove", action="store_true", help="remove the assignment")
    add_server_options(parser)


def _create(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    parent = connection.run(find_intent(connection.session, args.parent)).id if args.parent else None
    body = without_none({"title": args.title, "description": args.description or None, "parent_intent_id": parent})
    if args.access:
        body["access"] = args.access[0] if args.access in _POLICIES else split_names(args.access)
    intent = connection.post("intents", body=body)
    if not args.draft and intent["status"] == "draft":
        intent = _change_status(connection, intent["id"], "active", None, intent)
    screen = screen_of(args)
    show_result(args, screen, intent, f"Created intent {safe(intent['title'])} [{intent['id']}] ({intent['status']})")
    return OK


def _list(args: argparse.Namespace) -> int:
    query = {"status": args.status, "limit": args.limit, "offset": args.offset or None}
    intents = connection_of(args).get("intents", query=query)["intents"]
    columns = (
        id_column("ID", field_column("id")),
        Column("STATUS", field_column("status"), 6, usual="active"),
        Column("VERSION", field_column("version"), 1),
        Column("CHANGED", age_column("updated_at"), 4),
        Column("CREATED BY", actor_column("created_by"), 3),
        text_column("TITLE", field_column("title")),
    )
    nothing = "No intents that you can see; create one with: parley intent create TITLE"
    show_table(args, screen_of(args), intents, columns, nothing)
    return OK


def _show(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    show_fields(args, screen_of(args), connection.get("intents", intent_of(connection, args).id))
    return OK


def _events(args: argparse.Namespace) -> int:
    query = without_none({"event_type": args.type, "limit": args.limit})
    columns = (
        Column("#", field_column("sequence"), 6),
        Column("AGE", age_column("created_at"), 5),
        Column("TYPE", field_column("event_type"), ALWAYS),
        Column("BY", actor_column("actor"), 7),
        text_column("PAYLOAD", payload_column("payload")),
    )
    connection = connection_of(args)
    events = connection.get("intents", intent_of(connection, args).id, "events", query=query)
    show_table(args, screen_of(args), events, columns, "No such events")
    return OK


def _activate(args: argparse.Namespace) -> int:
    return _change_and_show(args, "active")


def _complete(args: argparse.Namespace) -> int:
    return _change_and_show(args, "completed")


def _abandon(args: argparse.Namespace) -> int:
    return _change_and_show(args, "abandoned")


def _change_and_show(args: argparse.Namespace, status: str) -> int:
    connection = connection_of(args)
    changed = _change_status(connection, intent_of(connection, args).id, status, args.reason, None)
    ended = "; its channels are closed" if status in ("completed", "abandoned") else ""
    line = f"Intent {safe(changed['title'])} [{changed['id']}] is {changed['status']}{ended}"
    show_result(args, screen_of(args), changed, line)
    return OK


def _change_status(
    connection: Connection, intent: str, status: str, reason: str | None, current_record: dict[str, Any] | None
) -> dict[str, Any]:
    """Set the status of an intent; retried when another client changes the intent meanwhile."""
    body = without_none({"status": status, "reason": reason})
    for left in range(_TRIES - 1, -1, -1):
        current = current_record or connection.get("intents", intent)
        current_record = None
        try:
            document: dict[str, Any] = connection.send(
                "POST", "intents", intent, "status", body=body, headers={"If-Match": str(current["version"])}
            ).document
            return document
        except VersionMismatch:
            if not left:
                raise
    raise AssertionError  # the last attempt returns or raises


def _assign(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    screen = screen_of(args)
    intent = intent_of(connection, args)
    who, what = safe(args.assignee), safe(intent.title)
    if args.remove:
        connection.send("DELETE", "intents", intent.id, "agents", args.assignee)
        document = {"intent_id": intent.id, "agent_id": args.assignee, "assigned": False}
        show_result(args, screen, document, f"{who} is no longer assigned to {what}")
    else:
        body = {"agent_id": args.assignee, "role": args.role}
        assigned = connection.post("intents", intent.id, "agents", body=body)
        show_result(args, screen, assigned, f"Assigned {who} to {what} as {safe(args.role)}")
    return OK


COMMANDS = {
    "intent create": Command(
        "Create an intent: a goal, with its agents and channels",
        _add_create,
        _create,
        (
            "parley intent create 'Research Q1 financials' --access data-agent,writer",
            "parley intent create 'Town hall' --access open",
            "parley intent create 'Later' --draft --json",
        ),
    ),
    "intent list": Command("List intents you can see", _add_list, _list, ("parley intent list --status active",)),
    "intent show": Command(
        "Show an intent", _add_show, _show, ("parley intent show", "parley intent show 'Research Q1' --json")
    ),
    "intent events": Command(
        "Show the event log of an intent",
        _add_events,
        _events,
        ("parley intent events", "parley intent events 'Research Q1' --type assignment_failed --json"),
    ),
    "intent activate": Command(
        "Activate a draft or blocked intent",
        _add_change,
        _activate,
        ("parley intent activate 'Research Q1'",),
    ),
    "intent complete": Command(
        "Complete an intent and close its channels",
        _add_change,
        _complete,
        ("parley intent complete 'Research Q1' --reason 'report delivered'",),
    ),
    "intent abandon": Command(
        "Abandon an intent and close its channels", _add_change, _abandon, ("parley intent abandon 'Research Q1'",)
    ),
    "intent assign": Command(
        "Assign an agent to an intent, or unassign it",
        _add_assign,
        _assign,
        (
            "parley intent assign codex",
            "parley intent assign 'Research Q1' claude --role coordinator",
            "parley intent assign 'Research Q1' codex --remove",
        ),
    ),
}
