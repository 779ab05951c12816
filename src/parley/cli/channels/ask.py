"""`parley ask`: ask an agent a question and wait for the answer."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from parley.cli.channels.post import is_held, show_posted
from parley.cli.command import Command, screen_of
from parley.cli.exits import INTERRUPTED, OK, exit_code
from parley.cli.output import is_interactive, safe
from parley.cli.parts.lookup import (
    MESSAGE_INTENT_NOTE,
    add_target_arguments,
    agent_named,
    check_no_channel,
    conversation_of,
    direct_channel_id,
    existing_channel,
    intent_of,
    named_intent,
)
from parley.cli.parts.payload import add_payload, add_purpose, read_metadata, read_text_or_payload
from parley.cli.parts.remote import (
    add_server_options,
    add_wait_for_responders,
    cell_text,
    connection_of,
    parse_seconds,
    without_none,
)
from parley.cli.waiting_line import waiting_for
from parley.domain.errors.errors import Invalid, NotFound, ParleyError
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import NameTaken, NoResponders
from parley.domain.lookup import is_id
from parley.sdk.protocol import asking, lookup
from parley.sdk.protocol.asking import Question
from parley.sdk.protocol.failures import failure_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

_TIMEOUT = "30s"
_TIMEOUT_MAX_SECONDS = 3600
# How long an answer is waited for when the server came back at the last moment.
_LAST_SECONDS = 1.0
# By the kind of partial answer.
_TITLES = {"artifact": "Part", "progress": "Progress"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target_arguments(parser)
    parser.add_argument("--to", default=None, help="agent, role:ROLE or any:ROLE to ask in a channel")
    parser.add_argument(
        "--follow-up", default="", metavar="MESSAGE", help="answer in CHANNEL to reply to: its sender is asked on"
    )
    parser.add_argument("--timeout", default="", metavar="TIME", help="how long to wait: 10s, 5m (default: 30s)")
    parser.add_argument("--stream", action="store_true", help="print partial answers and progress as they come")
    add_wait_for_responders(parser)
    add_payload(parser)
    add_purpose(parser)
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "A CHANNEL needs --to, and is created if it does not exist; if it resembles\n"
        "another one, only with --create. An AGENT in its place is asked directly, in a\n"
        "channel that nobody else sees.\n\n"
        f"{MESSAGE_INTENT_NOTE}\n\n"
        "Exit code 1: the agent answered with an error. It is printed with the agents\n"
        "through which it came: planner <- writer: ValueError: no ink. With --json the\n"
        "answer is printed as it is. Exit code 3: no such agent is known, or nobody holds\n"
        "the role. Exit code 8: no answer in time; the question has expired. Exit code 9:\n"
        "the question is held for approval and was not sent yet.\n\n"
        "With --timeout, a server that cannot be reached is waited for, too: it may be\n"
        "restarting. Without it, the command fails at once.\n\n"
        "An agent may answer with a question. On a terminal you can type your reply; else\n"
        "the command that replies is printed: it has --follow-up.\n\n"
        "With --stream, partial answers are printed as they come; the last one is the\n"
        "answer. With --json each is one line. Ctrl-C withdraws the question; a line says\n"
        "so, with exit code 130."
    )


def _ask(args: argparse.Namespace) -> int:
    timeout = parse_seconds(args.timeout or _TIMEOUT, "--timeout")
    if not 0 < timeout <= _TIMEOUT_MAX_SECONDS:
        raise Invalid(f"--timeout must be more than 0 and at most {_TIMEOUT_MAX_SECONDS} seconds")
    agent = "" if args.follow_up else agent_named(args)
    to = args.to or agent
    if not to and not args.follow_up:
        raise Invalid("a question in a channel needs --to", hint="an agent, role:ROLE or any:ROLE")
    payload = read_text_or_payload(args)
    connection, timeout = _connected(args, timeout)
    try:
        channel = direct_channel_id(connection, agent) if agent else _find_or_create_channel(connection, args, to)
    except Suspended as suspended:
        return _ask_by_names(args, connection, {"message_type": "request", "to": to, "payload": payload}, suspended)
    args.conversation = conversation_of(connection, args.conversation)
    metadata = read_metadata(args)
    if args.follow_up:
        follow_up = connection.run(lookup.find_message(connection.session, channel, args.follow_up))
        earlier = connection.get("channels", channel, "messages", follow_up)
        to = args.to or earlier["sender"]
        metadata = {**asking.continued(earlier["id"], earlier["metadata"]), **(metadata or {})}
    key, waits = connection.session.new_key(), args.wait_for_responders
    question = Question(channel, to, payload, timeout, metadata=metadata, key=key, wait_for_responders=waits)
    try:
        return _follow(args, connection, question) if args.stream else _wait(args, connection, question)
    except NoResponders:
        if agent:
            check_no_channel(connection, args)
        raise
    except KeyboardInterrupt:
        return _say_interrupted(connection, question)


def _connected(args: argparse.Namespace, timeout: float) -> tuple[Connection, float]:
    """A connection, and how many seconds are left for the answer.

    Whoever gives a --timeout waits for a server that restarts.
    """
    connection = connection_of(args)
    if not args.timeout:
        return connection, timeout
    from parley.wiring import monotonic

    began = monotonic()
    with waiting_for(connection.session.url).running():
        connection_of(args, patience=timeout).get("whoami")
    return connection, max(timeout - (monotonic() - began), _LAST_SECONDS)


def _wait(args: argparse.Namespace, connection: Connection, question: Question) -> int:
    """Print the first answer. A question in return is answered on a terminal, as long as somebody types."""
    screen = screen_of(args)
    while True:
        with waiting_for(question.to).running():
            answer = connection.ask(question)
        if is_held(answer):
            return show_posted(args, answer, "Asked")
        failed = failure_in(answer["sender"], answer["payload"], answer["metadata"])
        if args.json:
            screen.json(answer)
            return exit_code(failed) if failed else OK
        if failed:
            raise failed
        show_answer(screen, answer)
        reply = _read_reply(args, screen, answer)
        if not reply:
            return OK
        metadata = {**(question.metadata or {}), **asking.continued(answer["id"], answer["metadata"])}
        key, payload = connection.session.new_key(), {"text": reply}
        question = question._replace(to=answer["sender"], payload=payload, metadata=metadata, key=key)


def _read_reply(args: argparse.Namespace, screen: Screen, answer: Mapping[str, Any]) -> str:
    """What somebody types in reply to a question in return; without a terminal the command that replies is printed."""
    if not _is_question(answer):
        return ""
    if is_interactive() and not args.stream:
        try:
            return input("Your reply (Enter to stop): ").strip()
        except (EOFError, KeyboardInterrupt):
            screen.line("")
            return ""
    speaker = f" --agent {safe(args.agent)}" if args.agent else ""
    command = f"parley ask {safe(answer['channel_id'])} --follow-up {safe(answer['id'])}{speaker} 'YOUR REPLY'"
    screen.prose(f"Reply with: {command}", "dim")
    return ""


def _say_interrupted(connection: Connection, question: Question) -> int:
    """Say in one line what became of a question when Ctrl-C was pressed. Withdrawing it twice is no error."""
    outcome = connection.run(asking.withdraw(connection.session, question))
    if not isinstance(outcome, ParleyError):
        line = f"{outcome['id']} to {outcome['to']} was withdrawn"
    elif isinstance(outcome, NotFound):
        line = f"the question to {question.to} was not sent"
    else:
        line = f"the question to {question.to} was not withdrawn: {outcome.message}"
    from parley.cli.reports import say_interrupted

    say_interrupted(line)
    return INTERRUPTED


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
                _read_reply(args, screen, answer)
            sys.stdout.flush()
            code = exit_code(failed) if failed else OK
    return code


def _ask_by_names(
    args: argparse.Namespace, connection: Connection, body: Mapping[str, Any], suspended: Suspended
) -> int:
    """Send a question of a suspended agent, which cannot look up the channel, so that its refusal is recorded."""
    path = ("intents", named_intent(args).id, "channels", args.channel, "messages")
    try:
        posted = connection.post(*path, body=without_none({**body, "metadata": read_metadata(args)}))
    except (NotFound, Invalid):
        raise suspended from None
    return show_posted(args, posted, "Asked")  # it was resumed meanwhile


def _find_or_create_channel(connection: Connection, args: argparse.Namespace, to: str) -> str:
    """The id of the channel. One that does not exist is created if somebody could answer in it."""
    if is_id(args.channel, lookup.CHANNEL.prefix):
        return str(args.channel)
    intent = intent_of(connection, args, create=True)
    channel = existing_channel(connection, intent, args)
    if channel:
        return channel
    try:
        query = {} if args.wait_for_responders or not to else {"for": to}
        return str(connection.post("intents", intent.id, "channels", body={"name": args.channel}, query=query)["id"])
    except NameTaken:  # another client has just created it
        return connection.run(lookup.find_channel(connection.session, intent, args.channel))


def _is_question(message: Mapping[str, Any]) -> bool:
    return bool(message["metadata"].get("kind") == "question")


def show_answer(screen: Screen, message: Mapping[str, Any]) -> None:
    """Print the sender of an answer and the fields of its payload."""
    last = "Question" if _is_question(message) else "Answer"
    title = _TITLES.get(message["metadata"].get("partial"), last)
    screen.prose(f"{title} from {safe(message['sender'])} [{safe(message['id'])}]", "dim")
    for name, value in message["payload"].items():
        screen.prose(f"{screen.paint(safe(name) + ':', 'cyan')} {cell_text(value)}")


COMMANDS = {
    "ask": Command(
        "Ask an agent a question and wait for the answer",
        _add_arguments,
        _ask,
        (
            "parley ask codex 'Which schema?' --agent claude",
            "parley ask questions --to codex --field question='Which schema?' --agent claude",
            "parley ask questions --to codex --purpose information_query --field question='Which schema?'",
            "parley ask chan_01K... --follow-up msg_01K... 'Rome' --agent claude",
            "parley ask questions --to writer --stream --timeout 5m --field topic=whales",
            "parley ask questions --intent 'Research Q1' --to role:reviewer --timeout 5m --field pr:=42 --json",
        ),
    ),
}
