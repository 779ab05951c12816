"""`parley messages`: list the messages of a channel."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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
    show_table,
)
from parley.domain.store.limits import LONG_POLL_MAX_SECONDS

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_channel_arguments(parser)
    parser.add_argument("--since", default="", metavar="CURSOR", help="only messages after this id, number or time")
    parser.add_argument("--to", default="", metavar="AGENT", help="only messages that this agent can see")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="number of messages at most: 1 to 1000")
    parser.add_argument(
        "--wait", default="", metavar="TIME", help=f"wait for a new message, at most {LONG_POLL_MAX_SECONDS}s"
    )
    add_server_options(parser)


def _messages(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    channel = channel_id(connection, args)
    wait = min(parse_seconds(args.wait, "--wait"), LONG_POLL_MAX_SECONDS) if args.wait else 0.0
    query = {"since": args.since, "to": args.to, "limit": args.limit, "wait": f"{wait:g}" if wait else ""}
    answer = connection.send("GET", "channels", channel, "messages", query=query, timeout=wait + 30)
    evicted = answer.headers.get("x-cursor-evicted", "")
    if evicted:
        oldest = safe(evicted.removeprefix("oldest="))
        sys.stderr.write(f"parley: warning: older messages were evicted; the oldest one is number {oldest}\n")
    columns = {
        "#": field_column("seq"),
        "AGE": age_column("created_at"),
        "TYPE": field_column("message_type"),
        "FROM": field_column("sender"),
        "TO": lambda message: safe(message["to"] or "*"),
        "STATUS": field_column("status"),
        "ID": field_column("id"),
        "DISCLOSURE": lambda message: safe(message.get("disclosure") or "-"),
        "PAYLOAD": field_column("payload"),
    }
    show_table(args, screen_of(args), answer.document, columns, "No messages.")
    return OK


COMMANDS = {
    "messages": Command(
        "List the messages of a channel",
        _add_arguments,
        _messages,
        (
            "parley messages chan_01K...",
            "parley messages progress --intent intent_01K... --since msg_01K... --wait 30s --json",
        ),
    ),
}
