"""What commands on a server share: options, the connection, and printing of answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parley.cli.command import add_json, settings_of
from parley.cli.output import json_text, safe
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.names import is_name, meant
from parley.domain.times import age, from_stamp, parse_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

HINTS = {
    "unreachable": "start a server with: parley up; set another address with --url or PARLEY_URL",
    "unauthorized": "set a valid key with --key or PARLEY_KEY",
    "scope_required": "use a key of that kind; see: parley key create, parley key list",
    "sender_mismatch": "leave out --agent (or PARLEY_AGENT), or use a service key",
    "required sender": "add --agent NAME, or set PARLEY_AGENT",
    "name_taken": "use the existing one, or another name",
    "channel_closed": "create another one with: parley channel create",
    "not_a_request": "only a request can be answered; use: parley post",
    "ask_timeout": "the question has expired; use a longer --timeout; active agents: parley agent list --server",
    "no_responders": "agents: parley agent list --server; --wait-for-responders waits for one that comes later",
    "version_mismatch": "it was changed meanwhile; check it and try again",
    "rate_limited": "wait a moment and try again",
    "cursor_evicted": "run the command without --since",
    "human_required": "use that person's own key: parley key create --user NAME",
    "not_approver": "the person that the agent acts for can decide, or an approver of the policy",
    "approval_stale": "see the present message: parley approvals show ID",
    "not_releasable": "answer or reject it: parley approvals answer, parley approvals reject",
    "suspended": "an admin can lift the suspension: parley suspensions, parley resume",
}
DATA_HELP = "data directory of the server (default: the one of `parley up`)"


# A person waits for the command: a server that is not there is said to be missing soon.
_CONNECT_SECONDS = 0.5


def add_server_options(parser: argparse.ArgumentParser, *, agent: bool = True) -> None:
    """Add --url, --key, --agent and --json, which every command on a server takes."""
    group = parser.add_argument_group("server")
    group.add_argument("--url", default="", help="address of the server (default: $PARLEY_URL, http://127.0.0.1:8420)")
    group.add_argument(
        "--key", default="", help="API key (default: $PARLEY_KEY, which is safer: process lists show --key)"
    )
    if agent:
        group.add_argument(
            "-a", "--agent", default="", metavar="AGENT", help="agent to act as, for a key of several agents"
        )
    add_json(parser)


def connection_of(args: argparse.Namespace, *, agent: bool = True) -> Connection:
    """Connect to the server that the options name. With `agent=False` --agent and $PARLEY_AGENT are ignored."""
    from parley.sdk.blocking.connection import Connection

    settings = settings_of(args)
    return Connection(
        settings.url,
        key=settings.key,
        agent=settings.agent if agent else "",
        plain_http=settings.plain_http == "any",
        connect_patience=_CONNECT_SECONDS,
        hints=HINTS,
    )


# ---------------------------------------------------------------- channels by id or by name


def add_channel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add CHANNEL and --intent."""
    parser.add_argument("channel", metavar="CHANNEL", help="id of the channel; with --intent also its name")
    parser.add_argument("--intent", default="", metavar="INTENT", help="intent of the channel")


def channel_id(connection: Connection, args: argparse.Namespace) -> str:
    """Find the id of the channel that the options name."""
    if not args.intent:
        return require_channel_id(args.channel)
    channels = connection.get("intents", args.intent, "channels")
    matches = [channel["id"] for channel in channels if args.channel in (channel["name"], channel["id"])]
    if not matches:
        raise NotFound(
            f"no channel {args.channel!r} in {args.intent}",
            hint=meant(args.channel, [channel["name"] for channel in channels])
            or f"see: parley channel list {args.intent}",
        )
    return str(matches[0])


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the channel or the agent to talk to, a text, and --intent."""
    parser.add_argument(
        "channel",
        metavar="CHANNEL|AGENT",
        help="id of the channel, with --intent also its name; or an agent, to talk to it directly",
    )
    parser.add_argument("text", nargs="?", default=None, metavar="TEXT", help='a payload of one text: {"text": TEXT}')
    parser.add_argument("--intent", default="", metavar="INTENT", help="intent of the channel")


def direct_agent(args: argparse.Namespace) -> str:
    """The agent that is named in place of a channel; empty when it is a channel."""
    if args.intent or args.channel.startswith("chan_"):
        return ""
    if not is_name(args.channel):
        raise Invalid(
            f"{args.channel!r} is neither the id of a channel nor an agent", hint="to use its name, add --intent INTENT"
        )
    if args.to not in (None, args.channel):
        raise Invalid(
            f"{args.channel} is no id of a channel, so it is the agent to talk to; --to names another one",
            hint=f"for the channel {args.channel}, add --intent INTENT",
        )
    return str(args.channel)


def direct_channel_id(connection: Connection, agent: str) -> str:
    """The id of the direct channel with an agent."""
    try:
        return str(connection.get("agents", agent, "direct")["channel_id"])
    except Invalid as error:
        # Somebody may have meant a channel.
        error.hint = f"{error.hint}; for the channel {agent}, add --intent INTENT"
        raise


def require_channel_id(channel: str) -> str:
    if not re.fullmatch(r"chan_[0-9A-Za-z]+", channel):
        raise Invalid(f"{channel!r} is not the id of a channel", hint="to use its name, add --intent INTENT")
    return channel


# ---------------------------------------------------------------- printing


def show_result(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any], line: str) -> None:
    """Print a document with --json, else one line about the result."""
    if args.json:
        screen.json(document)
    else:
        screen.line(line)


def show_fields(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any]) -> None:
    """Print the fields of a document, one per line."""
    if args.json:
        screen.json(document)
        return
    for name, value in document.items():
        if value not in (None, "", [], {}):
            screen.line(f"{screen.paint(safe(name) + ':', 'cyan')} {cell_text(value)}")


def show_table(
    args: argparse.Namespace,
    screen: Screen,
    documents: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Callable[[Mapping[str, Any]], str]],
    nothing: str,
) -> None:
    """Print documents as JSON, as a table with computed columns, or the text `nothing`."""
    if args.json:
        screen.json(documents)
    elif not documents:
        screen.line(nothing)
    else:
        screen.table(tuple(columns), [[make(document) for make in columns.values()] for document in documents])


def cell_text(value: object) -> str:
    """Format a value on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return safe(", ".join(value)) or "-"
    return safe(value) if isinstance(value, str) else json_text(value)


def field_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with the value of a field."""
    return lambda document: cell_text(document.get(name)) or "-"


def time_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with a time in UTC, to the second."""
    return lambda document: cell_text(f"{str(document.get(name) or '')[:19]}Z")


def age_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with the age of a time."""
    from parley.adapters.process import SystemClock

    now = SystemClock().now().at

    def age_text(document: Mapping[str, Any]) -> str:
        try:
            return age(from_stamp(str(document.get(name) or "")), now)
        except ValueError:
            return "-"

    return age_text


# ---------------------------------------------------------------- reading arguments


def parse_seconds(text: str, option: str) -> float:
    """Parse 30s, 5m or a number of seconds."""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text):
        return float(text)
    try:
        return parse_duration(text).total_seconds()
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None


def parse_time_from_now(text: str, option: str) -> str | None:
    """Parse a time or a duration from now into a time stamp; None for an empty text."""
    if not text:
        return None
    from parley.adapters.process import SystemClock
    from parley.domain.times import parse_moment, stamp

    try:
        return stamp(parse_moment(text, SystemClock().now().at))
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None


def parse_time_ago(text: str, option: str, *, ends: bool = False) -> str | None:
    """Parse a time, a day or a duration before now into a time stamp; None for an empty text."""
    if not text:
        return None
    from parley.adapters.process import SystemClock
    from parley.domain.times import parse_past, stamp

    try:
        return stamp(parse_past(text, SystemClock().now().at, ends=ends))
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out fields that are None; the server has defaults for them."""
    return {name: value for name, value in fields.items() if value is not None}


def split_names(groups: Iterable[str]) -> list[str]:
    """Split names that are separated by commas."""
    return [name.strip() for group in groups for name in group.split(",") if name.strip()]
