"""`parley channel create|list|show|close`: manage the channels of an intent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.lookup import (
    DEFAULT_INTENT_NOTE,
    add_channel_arguments,
    add_intent_argument,
    channel_of,
    intent_of,
    read_intent_argument,
)
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    parse_seconds,
    show_fields,
    show_result,
    show_table,
    split_names,
    without_none,
)
from parley.cli.table import ALWAYS, Column, id_column, text_column
from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    import argparse


def _add_create(parser: argparse.ArgumentParser) -> None:
    add_intent_argument(parser, "intent of the channel: ")
    parser.add_argument("name", metavar="NAME", help="name, unique in the intent")
    parser.add_argument(
        "--member", action="append", default=[], metavar="AGENT", help="member; repeat the option or use commas"
    )
    parser.add_argument("--explicit", action="store_true", help="only members can read and post")
    parser.add_argument("--audit", action="store_true", help="copy every message to the event log of the intent")
    parser.add_argument("--ttl", default="", metavar="TIME", help="close it this long after its last message: 30m, 2h")
    parser.add_argument(
        "--max-messages", type=int, default=None, metavar="N", help="number of messages to keep (default: 1000)"
    )
    parser.add_argument("--task", default=None, metavar="TASK", help="close it when this task ends")
    add_server_options(parser)
    parser.description = f"{parser.description}.\n\n{DEFAULT_INTENT_NOTE.replace('--intent', 'INTENT')}"


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_intent_argument(parser)
    parser.add_argument("--all", action="store_true", help="list the channels of all intents, last active first")
    parser.add_argument("--member", default="", metavar="AGENT", help="with --all: only channels with this member")
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="with --all: number of channels, 1 to 200 (default: 50)"
    )
    add_server_options(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    add_channel_arguments(parser)
    add_server_options(parser)


def _add_close(parser: argparse.ArgumentParser) -> None:
    add_channel_arguments(parser)
    parser.add_argument(
        "--delete", action="store_true", help="delete it with its messages, so that its name can be used again"
    )
    add_server_options(parser)


def _create(args: argparse.Namespace) -> int:
    read_intent_argument(args)
    members = split_names(args.member)
    options = without_none(
        {
            "audit": args.audit or None,
            "ttl_seconds": round(parse_seconds(args.ttl, "--ttl")) if args.ttl else None,
            "max_messages": args.max_messages,
        }
    )
    body = without_none(
        {
            "name": args.name,
            "members": members or None,
            "member_policy": "explicit" if args.explicit else None,
            "task_id": args.task,
            "options": options or None,
        }
    )
    connection = connection_of(args)
    intent = intent_of(connection, args, create=True)
    channel = connection.post("intents", intent.id, "channels", body=body)
    show_result(
        args,
        screen_of(args),
        channel,
        f"Created channel {safe(channel['name'])} [{channel['id']}] in {safe(intent.title)}",
    )
    return OK


def _list_all(args: argparse.Namespace) -> int:
    if args.intent:
        raise Invalid("name an intent or --all, not both")
    connection = connection_of(args)
    query = without_none({"member": args.member or None, "limit": args.limit})
    channels = connection.get("channels", query=query)
    columns = (
        Column("NAME", field_column("name"), ALWAYS),
        Column("STATUS", field_column("status"), 7, usual="open"),
        Column("MESSAGES", field_column("message_count"), 6),
        Column("LAST MESSAGE", age_column("last_message_at"), 8),
        Column("FROM", lambda channel: safe(_last(channel).get("sender", "-")), 5),
        text_column("SAYS", lambda channel: safe(_last(channel).get("summary", "")), 4),
        id_column("ID", field_column("id"), 9),
    )
    nothing = "No channels; create one with: parley channel create NAME"
    show_table(args, screen_of(args), channels, columns, nothing)
    return OK


def _last(channel: dict[str, Any]) -> dict[str, Any]:
    return channel["last_message"] or {}


def _list(args: argparse.Namespace) -> int:
    read_intent_argument(args)
    if args.all or args.member:
        return _list_all(args)
    connection = connection_of(args)
    intent = intent_of(connection, args)
    channels = connection.get("intents", intent.id, "channels")
    columns = (
        Column("NAME", field_column("name"), ALWAYS),
        Column("STATUS", field_column("status"), 7, usual="open"),
        Column("POLICY", field_column("member_policy"), 2),
        Column("MESSAGES", field_column("message_count"), 6),
        Column("LAST MESSAGE", age_column("last_message_at"), 5),
        id_column("ID", field_column("id"), 8),
        text_column("MEMBERS", field_column("members"), 4),
    )
    title = safe(intent.title)
    nothing = f"No channels in {title}; create one with: parley channel create '{title}' NAME"
    show_table(args, screen_of(args), channels, columns, nothing)
    return OK


def _show(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    show_fields(args, screen_of(args), connection.get("channels", channel_of(connection, args)))
    return OK


def _close(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    channel = channel_of(connection, args)
    screen = screen_of(args)
    if args.delete:
        deleted: dict[str, Any] = connection.send("DELETE", "channels", channel).document
        show_result(args, screen, deleted, f"Deleted channel {safe(channel)} with all its messages")
    else:
        closed = connection.send("PATCH", "channels", channel, body={"status": "closed"}).document
        show_result(args, screen, closed, f"Closed channel {safe(closed['name'])} [{closed['id']}]")
    return OK


COMMANDS = {
    "channel create": Command(
        "Create a channel in an intent",
        _add_create,
        _create,
        (
            "parley channel create data-questions --audit",
            "parley channel create 'Research Q1' review --explicit --member claude,codex --ttl 2h",
        ),
    ),
    "channel list": Command(
        "List the channels of an intent, or of all",
        _add_list,
        _list,
        (
            "parley channel list",
            "parley channel list 'Research Q1' --json",
            "parley channel list --all",
        ),
    ),
    "channel show": Command(
        "Show a channel",
        _add_show,
        _show,
        ("parley channel show data-questions", "parley channel show data-questions --intent 'Research Q1'"),
    ),
    "channel close": Command("Close or delete a channel", _add_close, _close, ("parley channel close data-questions",)),
}
