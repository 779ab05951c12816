"""`parley ask`: ask an agent a question and wait for the answer."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from parley.cli.channels.post import is_held, show_posted
from parley.cli.command import Command, screen_of
from parley.cli.exits import OK, exit_code
from parley.cli.output import safe
from parley.cli.parts.payload import add_payload, add_purpose, read_metadata, read_text_or_payload
from parley.cli.parts.remote import (
    add_place_arguments,
    add_server_options,
    cell_text,
    channel_id,
    connection_of,
    direct_agent,
    direct_channel_id,
    parse_seconds,
    require_channel_id,
)
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.errors.team import NameTaken
from parley.sdk.protocol.asking import Question
from parley.sdk.protocol.failures import failure_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

_TIMEOUT_MAX_SECONDS = 3600
# By the kind of partial answer.
_TITLES = {"artifact": "Part", "progress": "Progress"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    parser.add_argument("--to", default=None, help="agent, role:ROLE or any:ROLE to ask in a channel")
    parser.add_argument("--timeout", default="30s", metavar="TIME", help="how long to wait: 10s, 5m (default: 30s)")
    parser.add_argument("--stream", action="store_true", help="print partial answers and progress as they come")
    parser.add_argument(
        "--wait-for-responders",
        action="store_true",
        help="wait also when no such agent is known, or nobody holds the role",
    )
    add_payload(parser)
    add_purpose(parser)
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "With --intent, CHANNEL may be a name; a channel that does not exist is created.\n"
        "An AGENT in its place is asked directly, in a channel that nobody else sees.\n\n"
        "Exit code 1: the agent answered with an error. It is printed with the agents\n"
        "through which it came: planner <- writer: ValueError: no ink. With --json the\n"
        "answer is printed as it is. Exit code 3: no such agent is known, or nobody holds\n"
        "the role. Exit code 8: no answer in time; the question has expired. Exit code 9:\n"
        "the question is held for approval and was not sent yet.\n\n"
        "With --stream, partial answers are printed as they come; the last one is the\n"
        "answer. With --json each is one line. Ctrl-C withdraws the question."
    )


def _ask(args: argparse.Namespace) -> int:
    timeout = parse_seconds(args.timeout, "--timeout")
    if not 0 < timeout <= _TIMEOUT_MAX_SECONDS:
        raise Invalid(f"--timeout must be more than 0 and at most {_TIMEOUT_MAX_SECONDS} seconds")
    agent = direct_agent(args)
    to = args.to or agent
    if not to:
        raise Invalid("a question in a channel needs --to", hint="an agent, role:ROLE or any:ROLE")
    payload = read_text_or_payload(args)
    connection = connection_of(args)
    if agent:
        channel = direct_channel_id(connection, agent)
    else:
        channel = _find_or_create_channel(connection, args) if args.intent else require_channel_id(args.channel)
    waits, metadata = args.wait_for_responders, read_metadata(args)
    if args.stream:
        question = Question(channel, to, payload, timeout, metadata=metadata, wait_for_responders=waits)
        return _follow(args, connection, question)
    answer = connection.ask(channel, to, payload, timeout=timeout, metadata=metadata, wait_for_responders=waits)
    if is_held(answer):
        return show_posted(args, answer, "Asked")
    screen = screen_of(args)
    failed = failure_in(answer["sender"], answer["payload"], answer["metadata"])
    if args.json:
        screen.json(answer)
        return exit_code(failed) if failed else OK
    if failed:
        raise failed
    show_answer(screen, answer)
    return OK


def _follow(args: argparse.Namespace, connection: Connection, question: Question) -> int:
    """Print partial answers as they come, with --json one on each line; the last one is the answer."""
    screen = screen_of(args)
    code = OK
    with closing(connection.ask_stream(question)) as answers:
        for answer in answers:
            if is_held(answer):
                return show_posted(args, answer, "Asked")
            failed = failure_in(answer["sender"], answer["payload"], answer["metadata"])
            if args.json:
                screen.json(answer, compact=True)
            elif failed:
                raise failed
            else:
                show_answer(screen, answer)
            sys.stdout.flush()
            code = exit_code(failed) if failed else OK
    return code


def _find_or_create_channel(connection: Connection, args: argparse.Namespace) -> str:
    try:
        return channel_id(connection, args)
    except NotFound as missing:
        if args.channel.startswith("chan_") or missing.facts:
            raise
    try:
        channel = connection.post("intents", args.intent, "channels", body={"name": args.channel})
        return str(channel["id"])
    except NameTaken:
        return channel_id(connection, args)  # another client has just created it


def show_answer(screen: Screen, message: Mapping[str, Any]) -> None:
    """Print the sender of an answer and the fields of its payload."""
    title = _TITLES.get(message["metadata"].get("partial"), "Answer")
    screen.line(screen.paint(f"{title} from {safe(message['sender'])} [{safe(message['id'])}]", "dim"))
    for name, value in message["payload"].items():
        screen.line(f"{screen.paint(safe(name) + ':', 'cyan')} {cell_text(value)}")


COMMANDS = {
    "ask": Command(
        "Ask an agent a question and wait for the answer",
        _add_arguments,
        _ask,
        (
            "parley ask codex 'Which schema?' --agent claude",
            "parley ask chan_01K... --to codex --field question='Which schema?' --agent claude",
            "parley ask chan_01K... --to codex --purpose information_query --field question='Which schema?'",
            "parley ask chan_01K... --to writer --stream --timeout 5m --field topic=whales",
            "parley ask questions --intent intent_01K... --to role:reviewer --timeout 5m --field pr:=42 --json",
        ),
    ),
}
