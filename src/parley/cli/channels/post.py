"""`parley post`: say something in a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import HELD, OK
from parley.cli.output import NO_DECIDER_HINT, join_with_or, safe
from parley.cli.parts.payload import add_payload, add_purpose, read_metadata, read_payload
from parley.cli.parts.remote import (
    add_channel_arguments,
    add_server_options,
    connection_of,
    parse_time_from_now,
    require_channel_id,
    show_result,
    without_none,
)
from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

TYPES = ("request", "response", "notify", "broadcast")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_channel_arguments(parser)
    parser.add_argument("--to", default=None, help="an agent, role:ROLE, or * for everyone (default: everyone)")
    parser.add_argument(
        "--type", dest="pattern", default="notify", choices=TYPES, metavar="TYPE", help=f"one of {', '.join(TYPES)}"
    )
    parser.add_argument("--correlation", default=None, metavar="MESSAGE", help="the request that a response answers")
    parser.add_argument(
        "--expires", default="", metavar="TIME", help="30s, 5m, 2h, or a time like 2026-03-14T12:00:00Z"
    )
    parser.add_argument("--metadata", default="", metavar="JSON", help="a JSON object beside the payload")
    add_payload(parser)
    add_purpose(parser)
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\nWith --intent, CHANNEL may be a name; a channel of that name is created when\n"
        "there is none. When the command returns, the message is durable. A message that waits for a\n"
        "person is not sent yet: the exit code is 9, and the approval's id is shown."
    )


def _post(args: argparse.Namespace) -> int:
    if args.pattern == "request" and not args.to:
        raise Invalid("a request needs --to", hint="an agent or role:ROLE; use --type broadcast for everyone")
    body = without_none(
        {
            "message_type": args.pattern,
            "to": args.to,
            "correlation_id": args.correlation,
            "expires_at": parse_time_from_now(args.expires, "--expires"),
            "metadata": read_metadata(args, args.metadata),
            "payload": read_payload(args),
        }
    )
    connection = connection_of(args)
    if args.intent and not args.channel.startswith("chan_"):
        posted = connection.post("intents", args.intent, "channels", args.channel, "messages", body=body)
    else:
        posted = connection.post("channels", require_channel_id(args.channel), "messages", body=body)
    return show_posted(args, posted, "Posted")


def show_posted(args: argparse.Namespace, posted: Mapping[str, Any], verb: str) -> int:
    """What became of a message, and the exit code that says it."""
    held = is_held(posted)
    show_result(args, screen_of(args), posted, held_line(posted) if held else posted_line(verb, posted))
    return HELD if held else OK


def is_held(answer: Mapping[str, Any]) -> bool:
    """Whether the answer to a message is that it waits for a person."""
    return answer.get("status") == "held" and "approval" in answer


def held_line(held: Mapping[str, Any]) -> str:
    """That a message waits, for whom and why, in one line."""
    who = join_with_or(held["deciders"], "nobody who may decide")
    next_step = "" if held["deciders"] else f"; {NO_DECIDER_HINT}"
    return f"held for {who}: {safe(held['reason'])} (approval {safe(held['approval'])}){next_step}"


def posted_line(verb: str, message: Mapping[str, Any]) -> str:
    """What became of a message, in one line."""
    to = "everyone" if message["to"] in (None, "*") else message["to"]
    waits = ", which nobody can receive yet" if message["status"] == "pending" else ""
    return f"{verb} {message['id']} to {to}{waits} ({message['message_type']}, number {message['seq']} in the channel)"


COMMANDS = {
    "post": Command(
        "Post a message to a channel",
        _add_arguments,
        _post,
        (
            "parley post chan_01K... --field status=starting --agent claude",
            "parley post progress --intent intent_01K... --type broadcast --field done:=3 --field of:=10",
            """parley post chan_01K... --type request --to codex --expires 5m --payload '{"question": "Ready?"}'""",
            "parley post chan_01K... --to codex --field text=Figures --classification internal --data shared.yaml",
            "jq '{rows: length}' data.json | parley post progress --intent intent_01K... --to role:auditor",
        ),
    ),
}
