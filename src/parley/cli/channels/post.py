"""`parley post`: post a message to a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.channels.receipts import ANSWER, UNTIL, show_reply, show_until
from parley.cli.command import Command, screen_of
from parley.cli.exits import HELD, OK
from parley.cli.output import NO_DECIDER_HINT, join_with_or, safe
from parley.cli.parts.lookup import (
    MESSAGE_INTENT_NOTE,
    add_target_arguments,
    agent_named,
    channel_of,
    conversation_of,
    direct_channel_id,
    target_of,
    with_channel_hint,
)
from parley.cli.parts.payload import add_payload, add_purpose, read_metadata, read_text_or_payload
from parley.cli.parts.remote import (
    add_server_options,
    add_wait_for_responders,
    connection_of,
    parse_seconds,
    parse_time_from_now,
    show_result,
    time_text,
    without_none,
)
from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import NoResponders

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.sdk.blocking.connection import Connection

TYPES = ("request", "response", "notify", "broadcast")
_TYPE_HELP = "request (expects an answer), response, notify (default), or broadcast (to everyone)"

_TO_HELP = "an agent, role:ROLE for all who hold a role, any:ROLE for one of them, or * for everyone (default)"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target_arguments(parser)
    parser.add_argument("--to", default=None, help=_TO_HELP)
    parser.add_argument("--type", dest="pattern", default="notify", choices=TYPES, metavar="TYPE", help=_TYPE_HELP)
    parser.add_argument("--correlation", default=None, metavar="MESSAGE", help="request that a response answers")
    parser.add_argument(
        "--expires",
        default="",
        metavar="TIME",
        help="when the message expires: 30s, 5m, 2h, a day (its end), or a time like 2026-03-14T12:00:00Z",
    )
    later = parser.add_mutually_exclusive_group()
    later.add_argument(
        "--at", default="", metavar="TIME", help="post it later: on a day, or at a time like 2026-03-14T12:00:00Z"
    )
    later.add_argument("--in", dest="after", default="", metavar="TIME", help="post it later: in 30s, 5m, 2h, 3d")
    parser.add_argument("--metadata", default="", metavar="JSON", help="JSON object with metadata")
    parser.add_argument(
        "--until",
        default="",
        choices=["", *UNTIL],
        metavar="STATE",
        help=f"wait until every recipient is that far: {', '.join(UNTIL)} (at most 5m, or --wait)",
    )
    parser.add_argument("--wait", default="", metavar="TIME", help="how long to wait with --until: 30s, 5m")
    add_wait_for_responders(parser)
    add_payload(parser)
    add_purpose(parser)
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "With --intent or --to, a channel that does not exist is created; if it resembles\n"
        "another one, only with --create. An AGENT in its place is told directly, in a\n"
        "channel that nobody else sees.\n\n"
        f"{MESSAGE_INTENT_NOTE}\n\n"
        "When the command returns, the message is durable. Exit code 3: no such agent is\n"
        "known, or nobody holds the role. The message is not sent; with\n"
        "--wait-for-responders it waits for one that comes later. Exit code 9: it is held\n"
        "for approval and was not sent yet; the id of the approval is printed.\n\n"
        "With --until, exit code 0 says that every recipient is that far, and 8 that one\n"
        "is not; the message stays, and the error names the state that was reached. See\n"
        "parley status --help for the states.\n\n"
        "With --at or --in the message is posted then, once and never early; the channel\n"
        "must exist. See: parley timer list, parley timer cancel."
    )


def _post(args: argparse.Namespace) -> int:
    if args.pattern == "request" and not (args.to or agent_named(args)):
        raise Invalid("a request needs --to", hint="an agent, role:ROLE or any:ROLE; use --type broadcast for everyone")
    seconds = _checked_wait(args)
    body = without_none(
        {
            "message_type": args.pattern,
            "to": args.to,
            "correlation_id": args.correlation,
            "expires_at": parse_time_from_now(args.expires, "--expires", ends=True),
            "metadata": read_metadata(args, args.metadata),
            "payload": read_text_or_payload(args),
        }
    )
    connection = connection_of(args)
    if args.conversation:
        body["metadata"]["conversation_id"] = conversation_of(connection, args.conversation)
    if args.at or args.after:
        return _schedule(args, connection, body)
    target = target_of(connection, args, create=True)
    if target.agent:
        body["to"] = target.agent
        path: tuple[str, ...] = ("channels", direct_channel_id(connection, target.agent), "messages")
    elif target.intent is not None and not target.channel_id:
        path = ("intents", target.intent.id, "channels", target.channel, "messages")
    else:
        path = ("channels", target.channel_id, "messages")
    query = {"wait_for_responders": str(args.wait_for_responders).lower()}
    try:
        posted = connection.post(*path, body=body, query=query)
    except NoResponders as error:
        raise with_channel_hint(error, target.agent) if target.agent else error from None
    if not args.until or is_held(posted):
        return show_posted(args, posted, "Posted")
    if not args.json:
        show_posted(args, posted, "Posted")
    (show_reply if args.until == ANSWER else show_until)(args, connection, posted, seconds)
    return OK


def _checked_wait(args: argparse.Namespace) -> float:
    """The seconds to wait for the state of --until; 0 without it."""
    if not args.until:
        if args.wait:
            raise Invalid("--wait needs --until", hint=f"name what to wait for: {', '.join(UNTIL)}")
        return 0.0
    if args.at or args.after:
        raise Invalid("--until waits for a message that is posted now", hint="leave out --at and --in")
    if args.until == ANSWER and args.pattern != "request":
        raise Invalid(f"nobody answers a {args.pattern}", hint="add --type request, or wait until it is acted")
    args.wait = args.wait or "5m"
    return parse_seconds(args.wait, "--wait")


def _schedule(args: argparse.Namespace, connection: Connection, body: dict[str, Any]) -> int:
    """Set a timer for the message."""
    if args.after:
        body["after_seconds"] = parse_seconds(args.after, "--in")
    else:
        body["deliver_at"] = parse_time_from_now(args.at, "--at")
    target = target_of(connection, args, create=False)
    if target.agent:
        body["to"], channel = target.agent, direct_channel_id(connection, target.agent)
    else:
        channel = target.channel_id or channel_of(connection, args)
    timer = connection.post("channels", channel, "timers", body=body)
    to = "everyone" if timer["to"] in (None, "*") else timer["to"]
    line = f"Scheduled {timer['message_id']} to {safe(to)} at {time_text(timer['deliver_at'])} ({timer['id']})"
    show_result(args, screen_of(args), timer, line)
    return OK


def show_posted(args: argparse.Namespace, posted: Mapping[str, Any], verb: str) -> int:
    """Print the result of posting a message and return the exit code."""
    held = is_held(posted)
    show_result(args, screen_of(args), posted, held_line(posted) if held else posted_line(verb, posted))
    return HELD if held else OK


def is_held(answer: Mapping[str, Any]) -> bool:
    """Whether the server holds the message for approval."""
    return answer.get("status") == "held" and "approval" in answer


def held_line(held: Mapping[str, Any]) -> str:
    """Describe in one line a message that is held, for whom and why."""
    who = join_with_or(held["deciders"], "no one (no approver is set)")
    next_step = "" if held["deciders"] else f"; {NO_DECIDER_HINT}"
    return f"Held for approval by {who}: {safe(held['reason'])} (approval {safe(held['approval'])}){next_step}"


def posted_line(verb: str, message: Mapping[str, Any]) -> str:
    """Describe in one line a message that was posted."""
    to = "everyone" if message["to"] in (None, "*") else message["to"]
    waits = ", which has no receiver yet" if message["status"] == "pending" else ""
    return f"{verb} {message['id']} to {to}{waits} ({message['message_type']}, number {message['seq']})"


COMMANDS = {
    "post": Command(
        "Post a message to a channel",
        _add_arguments,
        _post,
        (
            "parley post codex 'The build is green' --agent claude",
            "parley post codex 'The build is green' --until acknowledged --wait 10m",
            "parley post progress --intent 'Research Q1' --field status=starting --agent claude",
            "parley post progress --intent 'Research Q1' --type broadcast --field done:=3 --field of:=10",
            """parley post questions --type request --to codex --expires 5m --payload '{"question": "Ready?"}'""",
            "parley post questions --to codex --field text=Figures --classification internal --data shared.yaml",
            "parley post questions --to codex --in 10m --field text='Still waiting'",
            "parley post jobs --to any:coder --field task=build",
            "jq '{rows: length}' data.json | parley post progress --to role:auditor",
        ),
    ),
}
