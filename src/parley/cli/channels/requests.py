"""`parley withdraw` and `parley forward`: take back a request, or hand one on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.channels.post import show_posted
from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.payload import json_object
from parley.cli.parts.remote import add_server_options, channel_id, connection_of

if TYPE_CHECKING:
    import argparse


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the request and its channel."""
    parser.add_argument("message", metavar="MESSAGE", help="id of the request")
    parser.add_argument("--channel", required=True, help="channel of the request: its id; with --intent its name")
    parser.add_argument("--intent", default="", metavar="INTENT", help="intent of the channel")


def _add_withdraw(parser: argparse.ArgumentParser) -> None:
    add_request_arguments(parser)
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "The agent that was asked is notified and stops working on it. Only the sender of\n"
        "the request can withdraw it. Ctrl-C in `parley ask` does the same.\n\n"
        "Exit code 4: the request is answered or expired already."
    )


def _withdraw(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    channel = channel_id(connection, args)
    status = connection.send("DELETE", "channels", channel, "messages", args.message).document
    screen = screen_of(args)
    if args.json:
        screen.json(status)
    else:
        screen.line(f"Withdrawn: {safe(status['id'])} to {safe(status['to'])}")
    return OK


def _add_forward(parser: argparse.ArgumentParser) -> None:
    add_request_arguments(parser)
    parser.add_argument("--to", required=True, help="agent, role:ROLE or any:ROLE that answers in your place")
    parser.add_argument("--payload", default="", metavar="JSON", help="ask this instead of what you were asked")
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "The other agent answers the one who asked; you no longer can. It must take\n"
        "part in the channel, and nobody gets a request twice.\n\n"
        "Exit code 4: the request is over, or was with that agent before.\n"
        "Exit code 9: it is held for approval."
    )


def _forward(args: argparse.Namespace) -> int:
    body: dict[str, Any] = {"to": args.to}
    if args.payload:
        body["payload"] = json_object(args.payload, "--payload")
    connection = connection_of(args)
    channel = channel_id(connection, args)
    posted = connection.post("channels", channel, "messages", args.message, "forward", body=body)
    return show_posted(args, posted, "Handed on with")


COMMANDS = {
    "forward": Command(
        "Hand a request on; the next agent answers its sender",
        _add_forward,
        _forward,
        ("parley forward msg_01K... --channel chan_01K... --to expert --agent router",),
    ),
    "withdraw": Command(
        "Withdraw a request that is not answered yet",
        _add_withdraw,
        _withdraw,
        (
            "parley withdraw msg_01K... --channel chan_01K... --agent claude",
            "parley withdraw msg_01K... --channel questions --intent intent_01K... --json",
        ),
    ),
}
