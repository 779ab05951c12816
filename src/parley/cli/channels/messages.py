"""`parley messages`: list the messages of a channel, or those between you and an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.lookup import add_intent_option, direct_channel_id, readable_channel
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    parse_seconds,
    payload_text,
    show_table,
)
from parley.cli.table import ALWAYS, Column, id_column, text_column
from parley.domain.errors.errors import Invalid
from parley.domain.store.limits import LONG_POLL_MAX_SECONDS
from parley.sdk.protocol.failures import failure_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.sdk.blocking.connection import Connection

_PAGE = 500


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "channel",
        metavar="CHANNEL|AGENT",
        help="channel: its name, its id or the end of its id; or an agent, for your direct messages with it",
    )
    parser.add_argument("--direct", action="store_true", help="it is an agent, also if a channel has the same name")
    add_intent_option(parser)
    parser.add_argument("--since", default="", metavar="CURSOR", help="only messages after this id, number or time")
    parser.add_argument("--to", default="", metavar="AGENT", help="only messages that this agent can see")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--limit", type=int, default=None, metavar="N", help="only the oldest N messages: 1 to 1000")
    part.add_argument("--last", type=int, default=None, metavar="N", help="only the newest N messages")
    parser.add_argument(
        "--wait", default="", metavar="TIME", help=f"wait for a new message, at most {LONG_POLL_MAX_SECONDS}s"
    )
    add_server_options(parser)


def _messages(args: argparse.Namespace) -> int:
    if args.last is not None and args.last < 1:
        raise Invalid("--last is a number of messages, at least 1")
    connection = connection_of(args)
    target = readable_channel(connection, args)
    channel = direct_channel_id(connection, target.agent) if target.agent else target.channel_id
    wait = min(parse_seconds(args.wait, "--wait"), LONG_POLL_MAX_SECONDS) if args.wait else 0.0
    limit = _PAGE if args.last else args.limit
    query = {"since": args.since, "to": args.to, "limit": limit, "wait": f"{wait:g}" if wait else ""}
    answer = connection.send("GET", "channels", channel, "messages", query=query, timeout=wait + 30)
    messages = answer.document
    if args.last:
        messages = _newest(connection, channel, args, messages)
    evicted = answer.headers.get("x-cursor-evicted", "")
    if evicted:
        from parley.cli.reports import warn

        oldest = evicted.removeprefix("oldest=")
        warn(f"older messages were evicted; the oldest one is number {oldest}")
    columns = (
        Column("#", field_column("seq"), 2),
        Column("AGE", age_column("created_at"), 6),
        Column("TYPE", field_column("message_type"), 4, usual="notify"),
        Column("FROM", field_column("sender"), ALWAYS),
        Column("TO", lambda message: message["to"] or "*", 7),
        Column("STATUS", field_column("status"), 5, usual="delivered"),
        id_column("ID", field_column("id"), 8),
        Column("DISCLOSURE", lambda message: message.get("disclosure") or "-", 1),
        text_column("PAYLOAD", _payload_text),
    )
    show_table(args, screen_of(args), messages, columns, "No messages.")
    return OK


def _newest(
    connection: Connection, channel: str, args: argparse.Namespace, page: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The newest messages: the list of a channel begins with its oldest."""
    messages = page[-args.last :]
    while len(page) == _PAGE:
        query = {"since": page[-1]["id"], "to": args.to, "limit": _PAGE}
        page = connection.send("GET", "channels", channel, "messages", query=query).document
        messages = [*messages, *page][-args.last :]
    return messages


def _payload_text(message: Mapping[str, Any]) -> str:
    """A payload; of an answer that is a failure, what the failure says."""
    failed = failure_in(message["sender"], message["payload"], message.get("metadata") or {})
    return f"error: {safe(failed.reason)}" if failed else payload_text(message["payload"])


COMMANDS = {
    "messages": Command(
        "List the messages of a channel, or with an agent",
        _add_arguments,
        _messages,
        (
            "parley messages questions",
            "parley messages codex --agent claude",
            "parley messages questions --last 20",
            "parley messages progress --intent 'Research Q1' --since 12 --wait 30s --json",
        ),
    ),
}
