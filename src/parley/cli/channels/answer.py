"""`parley answer`: answer a request in a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.channels.post import show_posted
from parley.cli.command import Command
from parley.cli.parts.payload import add_payload, add_purpose, read_metadata, read_payload
from parley.cli.parts.remote import add_server_options, channel_id, connection_of, without_none

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message", metavar="MESSAGE", help="id of the request")
    parser.add_argument("--channel", required=True, help="channel of the request: its id; with --intent its name")
    parser.add_argument("--intent", default="", metavar="INTENT", help="intent of the channel")
    add_payload(parser)
    add_purpose(parser)
    add_server_options(parser)


def _answer(args: argparse.Namespace) -> int:
    body = without_none({"payload": read_payload(args), "metadata": read_metadata(args)})
    connection = connection_of(args)
    channel = channel_id(connection, args)
    posted = connection.post("channels", channel, "messages", args.message, "reply", body=body)
    return show_posted(args, posted, "Answered with")


COMMANDS = {
    "answer": Command(
        "Answer a request in a channel",
        _add_arguments,
        _answer,
        ("parley answer msg_01K... --channel chan_01K... --field answer=v2.3 --agent codex",),
    ),
}
