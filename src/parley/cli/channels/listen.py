"""`parley listen`: print messages as they arrive, and answer requests with a command."""

from __future__ import annotations

import gc
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import json_text, safe
from parley.cli.parts.remote import add_server_options, cell_text, connection_of, require_channel_id
from parley.domain.errors.errors import Forbidden, Invalid, ParleyError, UnknownSender

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

_MESSAGE = "channel_message"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "channel", nargs="?", default="", metavar="CHANNEL", help="id of a channel; with --intent its name"
    )
    parser.add_argument("--intent", default="", metavar="INTENT", help="all events of an intent")
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
        "another code than 0, no answer is sent."
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
    if args.run and connection.agent:
        _register(connection)
    screen, failed = screen_of(args), False
    for event in connection.follow(*_stream_path(connection, args), after=args.since, broken=_warn_disconnected):
        document = _document(event.data)
        if document is None or (args.pattern and document.get("message_type") != args.pattern):
            continue
        is_request = event.name.lower() == _MESSAGE and document.get("message_type") == "request"
        _print(args, screen, document)
        sys.stdout.flush()  # before the answer: whoever gets that may look here
        if args.run and is_request:
            failed = not _answer(args, connection, document) or failed
        left -= 1
        if left == 0:
            break
    return FOUND_PROBLEMS if failed else OK


def _register(connection: Connection) -> None:
    """Register the agent that answers: a question to an agent that nobody knows is refused."""
    with suppress(Forbidden):  # a person's key, which agents know anyway
        connection.post("agents", "register", body={"agent_id": connection.agent})


def _stream_path(connection: Connection, args: argparse.Namespace) -> tuple[str, ...]:
    """Return the path of the stream that the options name."""
    from parley.cli.parts.remote import channel_id

    targets = [bool(args.channel or args.intent), bool(args.for_agent)]
    if all(targets):
        raise Invalid("too many streams", hint="name one: a channel, --intent or --for-agent")
    if args.channel:
        channel = channel_id(connection, args) if args.intent else require_channel_id(args.channel)
        return "subscribe", "channels", channel
    if args.intent:
        return "subscribe", "intents", args.intent
    agent = args.for_agent or settings_of(args).agent
    if not agent:
        raise UnknownSender("no stream given", hint="name a channel, --intent INTENT or --agent NAME")
    return "subscribe", "agents", agent


def _warn_disconnected(reason: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"parley: warning: {safe(reason)}; reconnecting\n")
    sys.stderr.flush()


def _document(data: str) -> dict[str, Any] | None:
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _print(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any]) -> None:
    if args.json:
        screen.json(document, compact=True)
        return
    kind = document.get("message_type") or document.get("event_type")
    who = document.get("sender") or document.get("actor")
    to = f" -> {cell_text(document['to'] or '*')}" if "message_type" in document else ""
    payload = json_text(document.get("payload", {}))
    when = str(document.get("created_at", ""))[:19]
    label = f"  ({cell_text(document['disclosure'])})" if document.get("disclosure") else ""
    screen.line(
        f"{safe(when)}  {cell_text(kind)}  {cell_text(who)}{to}  {safe(payload)}"
        f"  [{cell_text(document.get('id'))}]{label}"
    )


def _answer(args: argparse.Namespace, connection: Connection, request: Mapping[str, Any]) -> bool:
    """Run the command and send its answer; False if that failed. A request to another agent is skipped."""
    import subprocess

    from parley.domain.errors.team import NotAddressee
    from parley.settings import child_environment

    if request["sender"] == connection.agent:
        return True
    settings = settings_of(args)
    environment = child_environment(
        PARLEY_URL=settings.url,
        PARLEY_KEY=settings.key,
        PARLEY_AGENT=settings.agent,
        PARLEY_MESSAGE_ID=request["id"],
        PARLEY_MESSAGE_CHANNEL=request["channel_id"],
        PARLEY_MESSAGE_FROM=request["sender"],
    )
    # Values travel in the environment and on standard input, never in the command's text.
    process = subprocess.run(  # noqa: S602  # the user's own command
        args.run,
        shell=True,
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        env=environment,
        check=False,
    )
    if process.returncode:
        _print_error("exec_failed", f"command exited with {process.returncode} for {request['id']}; no answer was sent")
        return False
    body = {"payload": _payload(process.stdout.decode("utf-8", "replace"))}
    try:
        connection.post("channels", request["channel_id"], "messages", request["id"], "reply", body=body)
    except NotAddressee:
        return True  # addressed to another agent; a service key sees those, too
    except ParleyError as error:
        _print_error(error.code, f"cannot answer {request['id']}: {error.message}")
        return False
    return True


def _payload(printed: str) -> dict[str, Any]:
    return _document(printed) or {"text": printed.rstrip("\n")}


def _print_error(code: str, message: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"parley: {code}: {safe(message)}\n")
    sys.stderr.flush()


COMMANDS = {
    "listen": Command(
        "Print messages as they arrive; answer with a command",
        _add_arguments,
        _listen,
        (
            "parley listen chan_01K...",
            "parley listen --intent intent_01K... --json",
            "parley listen --agent codex --type request --answer-with './answer.sh'",
            "parley listen questions --intent intent_01K... --once",
        ),
    ),
}
