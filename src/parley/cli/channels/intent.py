"""`parley intent create|list|show|events|activate|complete|abandon|assign`: manage intents on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    show_fields,
    show_result,
    show_table,
    split_names,
    without_none,
)
from parley.domain.errors.team import VersionMismatch

if TYPE_CHECKING:
    import argparse

    from parley.sdk.blocking.connection import Connection

_STATUSES = ("draft", "active", "blocked", "completed", "abandoned")
_POLICIES = (["open"], ["closed"])
_TRIES = 5


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("title", metavar="TITLE", help="the goal, in one line")
    parser.add_argument("--description", default="", metavar="TEXT", help="longer description")
    parser.add_argument("--parent", default=None, metavar="INTENT", help="parent intent")
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
    parser.add_argument("intent", metavar="INTENT", help="id of the intent")
    add_server_options(parser)


def _add_events(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", metavar="INTENT", help="id of the intent")
    parser.add_argument(
        "--type", default=None, metavar="TYPE", help="only events of this type (assignment_failed, ...)"
    )
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="number of events, the last ones (default: 50)"
    )
    add_server_options(parser)


def _add_change(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", metavar="INTENT", help="id of the intent")
    parser.add_argument("--reason", default=None, metavar="TEXT", help="reason, for the event log")
    add_server_options(parser)


def _add_assign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", metavar="INTENT", help="id of the intent")
    parser.add_argument("assignee", metavar="AGENT", help="agent to assign")
    parser.add_argument("--role", default="worker", metavar="ROLE", help="worker or coordinator (default: worker)")
    parser.add_argument("--remove", action="store_true", help="remove the assignment")
    add_server_options(parser)


def _create(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    body = without_none({"title": args.title, "description": args.description or None, "parent_intent_id": args.parent})
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
    columns = {
        "ID": field_column("id"),
        "STATUS": field_column("status"),
        "VERSION": field_column("version"),
        "CHANGED": age_column("updated_at"),
        "CREATED BY": field_column("created_by"),
        "TITLE": field_column("title"),
    }
    nothing = "No intents that you can see; create one with: parley intent create TITLE"
    show_table(args, screen_of(args), intents, columns, nothing)
    return OK


def _show(args: argparse.Namespace) -> int:
    show_fields(args, screen_of(args), connection_of(args).get("intents", args.intent))
    return OK


def _events(args: argparse.Namespace) -> int:
    query = without_none({"event_type": args.type, "limit": args.limit})
    columns = {
        "#": field_column("sequence"),
        "AGE": age_column("created_at"),
        "TYPE": field_column("event_type"),
        "BY": field_column("actor"),
        "PAYLOAD": field_column("payload"),
    }
    events = connection_of(args).get("intents", args.intent, "events", query=query)
    show_table(args, screen_of(args), events, columns, "No such events")
    return OK


def _activate(args: argparse.Namespace) -> int:
    return _change_and_show(args, "active")


def _complete(args: argparse.Namespace) -> int:
    return _change_and_show(args, "completed")


def _abandon(args: argparse.Namespace) -> int:
    return _change_and_show(args, "abandoned")


def _change_and_show(args: argparse.Namespace, status: str) -> int:
    changed = _change_status(connection_of(args), args.intent, status, args.reason, None)
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
    who, what = safe(args.assignee), safe(args.intent)
    if args.remove:
        connection.send("DELETE", "intents", args.intent, "agents", args.assignee)
        document = {"intent_id": args.intent, "agent_id": args.assignee, "assigned": False}
        show_result(args, screen, document, f"{who} is no longer assigned to {what}")
    else:
        body = {"agent_id": args.assignee, "role": args.role}
        assigned = connection.post("intents", args.intent, "agents", body=body)
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
    "intent show": Command("Show an intent", _add_show, _show, ("parley intent show intent_01K... --json",)),
    "intent events": Command(
        "Show the event log of an intent",
        _add_events,
        _events,
        ("parley intent events intent_01K...", "parley intent events intent_01K... --type assignment_failed --json"),
    ),
    "intent activate": Command(
        "Activate a draft or blocked intent",
        _add_change,
        _activate,
        ("parley intent activate intent_01K...",),
    ),
    "intent complete": Command(
        "Complete an intent and close its channels",
        _add_change,
        _complete,
        ("parley intent complete intent_01K... --reason 'report delivered'",),
    ),
    "intent abandon": Command(
        "Abandon an intent and close its channels", _add_change, _abandon, ("parley intent abandon intent_01K...",)
    ),
    "intent assign": Command(
        "Assign an agent to an intent, or unassign it",
        _add_assign,
        _assign,
        (
            "parley intent assign intent_01K... codex",
            "parley intent assign intent_01K... claude --role coordinator",
            "parley intent assign intent_01K... codex --remove",
        ),
    ),
}
