"""`parley answer`: answer a request in a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.channels.post import show_posted
from parley.cli.command import Command
from parley.cli.parts.lookup import add_channel_option, message_of
from parley.cli.parts.payload import add_payload, add_purpose, read_metadata, read_text_or_payload
from parley.cli.parts.remote import add_server_options, connection_of, without_none

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_channel_option(parser, "the request")
    parser.add_argument("text", nargs="?", default=None, metavar="TEXT", help='a payload of one text: {"text": TEXT}')
    add_payload(parser)
    add_purpose(parser)
    add_server_options(parser)


def _answer(args: argparse.Namespace) -> int:
    body = without_none({"payload": read_text_or_payload(args), "metadata": read_metadata(args)})
    connection = connection_of(args)
    channel, message = message_of(connection, args)
    posted = connection.post("channels", channel, "messages", message, "reply", body=body)
    return show_posted(args, posted, "Answered with")


COMMANDS = {
    "answer": Command(
        "Answer a request in a channel",
        _add_arguments,
        _answer,
        (
            "parley answer 7K2M --channel questions 'Schema v2.3' --agent codex",
            "parley answer 7K2M --channel questions --field answer=v2.3 --agent codex",
        ),
    ),
}
