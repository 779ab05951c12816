"""`parley channel create|list|show|close`: manage the channels of an intent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import (
    add_channel_arguments,
    add_server_options,
    age_column,
    channel_id,
    connection_of,
    field_column,
    parse_seconds,
    show_fields,
    show_result,
    show_table,
    split_names,
    without_none,
)

if TYPE_CHECKING:
    import argparse


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", metavar="INTENT", help="intent of the channel")
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


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("intent", metavar="INTENT", help="id of the intent")
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
    channel = connection_of(args).post("intents", args.intent, "channels", body=body)
    show_result(
        args,
        screen_of(args),
        channel,
        f"Created channel {safe(channel['name'])} [{channel['id']}] in {channel['intent_id']}",
    )
    return OK


def _list(args: argparse.Namespace) -> int:
    channels = connection_of(args).get("intents", args.intent, "channels")
    columns = {
        "NAME": field_column("name"),
        "STATUS": field_column("status"),
        "POLICY": field_column("member_policy"),
        "MESSAGES": field_column("message_count"),
        "LAST MESSAGE": age_column("last_message_at"),
        "ID": field_column("id"),
        "MEMBERS": field_column("members"),
    }
    nothing = f"No channels in {safe(args.intent)}; create one with: parley channel create {safe(args.intent)} NAME"
    show_table(args, screen_of(args), channels, columns, nothing)
    return OK


def _show(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    show_fields(args, screen_of(args), connection.get("channels", channel_id(connection, args)))
    return OK


def _close(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    channel = channel_id(connection, args)
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
            "parley channel create intent_01K... data-questions --audit",
            "parley channel create intent_01K... review --explicit --member claude,codex --ttl 2h",
        ),
    ),
    "channel list": Command(
        "List the channels of an intent", _add_list, _list, ("parley channel list intent_01K... --json",)
    ),
    "channel show": Command(
        "Show a channel",
        _add_show,
        _show,
        ("parley channel show chan_01K...", "parley channel show data-questions --intent intent_01K..."),
    ),
    "channel close": Command("Close or delete a channel", _add_close, _close, ("parley channel close chan_01K...",)),
}
