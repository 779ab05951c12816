"""`parley asks`, `parley withdraw` and `parley forward`: list requests, take one back, or hand one on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.channels.post import show_posted
from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.lookup import add_channel_option, add_intent_option, channel_of, message_of
from parley.cli.parts.payload import json_object
from parley.cli.parts.remote import (
    add_server_options,
    add_wait_for_responders,
    age_column,
    connection_of,
    field_column,
    parse_time_ago,
    show_table,
    without_none,
)
from parley.cli.table import ALWAYS, Column, id_column, text_column

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

_STATES = {"waiting": "waiting", "late": "late", "all": "waiting,late"}


def _add_asks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "of", nargs="?", default="", metavar="AGENT", help="only requests that this agent sent or was asked"
    )
    parser.add_argument(
        "--state",
        default="waiting",
        choices=list(_STATES),
        metavar="STATE",
        help="waiting, late (no answer in time) or all (default: waiting)",
    )
    parser.add_argument("--channel", default="", help="only requests in this channel: its name or id")
    add_intent_option(parser)
    parser.add_argument("--since", default="", metavar="TIME", help="only requests since a time, a day, or 24h ago")
    parser.add_argument("--newest", action="store_true", help="newest first (default: oldest first)")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="number of requests at most (default: 100)")
    parser.add_argument("--after", default="", metavar="MESSAGE", help="only requests after this one in the list")
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "An agent sees its own requests, a person those of the agents that act for it, an\n"
        "admin all. A request that was withdrawn is not listed."
    )


def _asks(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    query = without_none(
        {
            "state": _STATES[args.state],
            "agent": args.of or None,
            "channel_id": channel_of(connection, args) if args.channel else None,
            "since": parse_time_ago(args.since, "--since"),
            "order": "newest" if args.newest else "oldest",
            "limit": args.limit,
            "after": args.after or None,
        }
    )
    asks = connection.get("asks", query=query)
    columns = (
        id_column("MESSAGE", field_column("message_id"), 4),
        Column("FROM", field_column("sender"), ALWAYS),
        Column("TO", _asked_column, ALWAYS),
        Column("ASKED", age_column("asked_at"), 8, usual=None),
        Column("STATE", field_column("state"), 6, usual="waiting"),
        Column("LEFT", _left_column(), 7),
        text_column("ABOUT", field_column("summary")),
    )
    nothing = "No request waits for an answer." if args.state == "waiting" else "No matching requests."
    show_table(args, screen_of(args), asks, columns, nothing)
    return OK


def _asked_column(ask: Mapping[str, Any]) -> str:
    """Who was asked, and who has it now."""
    return safe(ask["to"]) + (f" > {safe(ask['forwarded_to'])}" if ask["forwarded_to"] else "")


def _left_column() -> Callable[[Mapping[str, Any]], str]:
    """How long a request can still be answered."""
    from parley.adapters.process import SystemClock
    from parley.domain.times import age, from_stamp

    now = SystemClock().now().at

    def left(ask: Mapping[str, Any]) -> str:
        if not ask["until"] or ask["state"] != "waiting":
            return ""
        return age(now, from_stamp(ask["until"]))

    return left


def _add_withdraw(parser: argparse.ArgumentParser) -> None:
    add_channel_option(parser, "the request")
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "The agent that was asked is notified and stops working on it. Only the sender of\n"
        "the request can withdraw it. Ctrl-C in `parley ask` does the same.\n\n"
        "Exit code 4: the request is answered or expired already."
    )


def _withdraw(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    channel, message = message_of(connection, args)
    status = connection.send("DELETE", "channels", channel, "messages", message).document
    screen = screen_of(args)
    if args.json:
        screen.json(status)
    else:
        screen.prose(f"Withdrawn: {safe(status['id'])} to {safe(status['to'])}")
    return OK


def _add_forward(parser: argparse.ArgumentParser) -> None:
    add_channel_option(parser, "the request")
    parser.add_argument("--to", required=True, help="agent, role:ROLE or any:ROLE that answers in your place")
    parser.add_argument("--payload", default="", metavar="JSON", help="ask this instead of what you were asked")
    add_wait_for_responders(parser)
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "The other agent answers the one who asked; you no longer can. It must take\n"
        "part in the channel, and nobody gets a request twice.\n\n"
        "Exit code 3: no such agent is known, or nobody holds the role.\n"
        "Exit code 4: the request is over, or was with that agent before.\n"
        "Exit code 9: it is held for approval."
    )


def _forward(args: argparse.Namespace) -> int:
    body: dict[str, Any] = {"to": args.to}
    if args.wait_for_responders:
        body["wait_for_responders"] = True
    if args.payload:
        body["payload"] = json_object(args.payload, "--payload")
    connection = connection_of(args)
    channel, message = message_of(connection, args)
    posted = connection.post("channels", channel, "messages", message, "forward", body=body)
    return show_posted(args, posted, "Handed on with")


COMMANDS = {
    "asks": Command(
        "List requests that wait for an answer, and who owes it",
        _add_asks,
        _asks,
        (
            "parley asks",
            "parley asks codex --channel questions",
            "parley asks --state late --since 24h --json",
        ),
    ),
    "forward": Command(
        "Hand a request on; the next agent answers its sender",
        _add_forward,
        _forward,
        ("parley forward 7K2M --channel questions --to expert --agent router",),
    ),
    "withdraw": Command(
        "Withdraw a request that is not answered yet",
        _add_withdraw,
        _withdraw,
        (
            "parley withdraw 7K2M --channel questions --agent claude",
            "parley withdraw 7K2M --channel questions --intent 'Research Q1' --json",
        ),
    ),
}
