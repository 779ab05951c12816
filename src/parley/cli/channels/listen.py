"""`parley listen`: print messages as they arrive, and answer requests with a command."""

from __future__ import annotations

import gc
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from parley.cli.channels.answering import answer_request, document_of, presence
from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.parts.lookup import INTENT_HELP, channel_of, intent_of
from parley.cli.parts.remote import add_server_options, cell_text, connection_of, payload_text, time_text
from parley.cli.reports import warn
from parley.cli.waiting_line import waiting_for
from parley.domain.errors.errors import Invalid, UnknownSender

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

_MESSAGE = "channel_message"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "channel", nargs="?", default="", metavar="CHANNEL", help="name or id of a channel, or the end of its id"
    )
    parser.add_argument("--intent", default="", metavar="INTENT", help=f"all events of an intent: {INTENT_HELP}")
    parser.add_argument(
        "--for-agent", default="", metavar="AGENT", help="all messages for this agent (default: --agent)"
    )
    parser.add_argument(
        "--type", dest="pattern", default="", metavar="TYPE", help="only messages of this type, such as request"
    )
    parser.add_argument("--once", action="store_true", help="exit after the first message")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="exit after N messages")
    parser.add_argument("--since", default="", metavar="POSITION", help="start after this position; 0 is the beginning")
    parser.add_argument(
        "--answer-with", dest="run", default="", metavar="CMD", help="run CMD in a shell for each request (see above)"
    )
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Without CHANNEL and --intent: all messages for the agent. When the connection\n"
        "breaks, it continues where it stopped: no message is missed or printed twice.\n\n"
        "CMD gets the request as JSON on standard input and PARLEY_MESSAGE_ID, _CHANNEL\n"
        "and _FROM, PARLEY_URL, _KEY and _AGENT in the environment. Its output is the\n"
        'answer: a JSON object, or text, which becomes {"text": ...}. If it exits with\n'
        "another code than 0, the answer is an error, handler_failed, and what it printed\n"
        "is not sent. It is run for one request at a time."
    )


def _listen(args: argparse.Namespace) -> int:
    gc.enable()  # it may run for long
    left = 1 if args.once else args.count
    if args.once and args.count > 1:
        raise Invalid("--once and --count together", hint="leave one of them out")
    if args.count < 0:
        raise Invalid("--count must be more than 0")
    if args.since and not args.since.isdigit():
        raise Invalid(f"--since: {args.since!r} is not a position", hint="use a whole number; 0 is the beginning")
    connection = connection_of(args)
    screen, failed = screen_of(args), False
    present = presence(args, connection) if args.run and connection.agent else nullcontext()
    with present, waiting_for("messages").running() as waiting:

        def broken(reason: str) -> None:
            with waiting.hidden():
                warn(f"{reason}; reconnecting")

        for event in connection.follow(*_stream_path(connection, args), after=args.since, broken=broken):
            document = document_of(event.data)
            if document is None or (args.pattern and document.get("message_type") != args.pattern):
                continue
            is_request = event.name.lower() == _MESSAGE and document.get("message_type") == "request"
            with waiting.hidden():
                _print(args, screen, document)
                sys.stdout.flush()  # before the answer: whoever gets that may look here
                if args.run and is_request:
                    failed = not answer_request(args, connection, document) or failed
            left -= 1
            if left == 0:
                break
    return FOUND_PROBLEMS if failed else OK


def _stream_path(connection: Connection, args: argparse.Namespace) -> tuple[str, ...]:
    """Return the path of the stream that the options name."""
    targets = [bool(args.channel or args.intent), bool(args.for_agent)]
    if all(targets):
        raise Invalid("too many streams", hint="name one: a channel, --intent or --for-agent")
    if args.channel:
        return "subscribe", "channels", channel_of(connection, args)
    if args.intent:
        return "subscribe", "intents", intent_of(connection, args).id
    agent = args.for_agent or settings_of(args).agent
    if not agent:
        raise UnknownSender("no stream given", hint="name a channel, --intent INTENT or --agent NAME")
    return "subscribe", "agents", agent


def _print(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any]) -> None:
    if args.json:
        screen.json(document, compact=True)
        return
    kind = document.get("message_type") or document.get("event_type")
    who = document.get("sender") or document.get("actor")
    to = f" -> {cell_text(document['to'] or '*')}" if "message_type" in document else ""
    when = time_text(document.get("created_at")).rpartition(" ")[2][:8]
    label = f"  ({cell_text(document['disclosure'])})" if document.get("disclosure") else ""
    text = f"{cell_text(kind)}  {cell_text(who)}{to}  {payload_text(document.get('payload', {}))}"
    screen.prose(f"{when}  {text}  [{cell_text(document.get('id'))}]{label}")


COMMANDS = {
    "listen": Command(
        "Print messages as they arrive; answer with a command",
        _add_arguments,
        _listen,
        (
            "parley listen questions",
            "parley listen --intent 'Research Q1' --json",
            "parley listen --agent codex --type request --answer-with './answer.sh'",
            "parley listen questions --intent 'Research Q1' --once",
        ),
    ),
}
