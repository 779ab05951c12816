"""What every command on a server has in common: its options, the connection they name, and how answers are shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parley.cli.command import add_json, settings_of
from parley.cli.output import json_text, safe
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.times import age, from_stamp, parse_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

HINTS = {
    "unreachable": "start one with: parley up; another address goes into --url or PARLEY_URL",
    "unauthorized": "give a valid key with --key or PARLEY_KEY",
    "scope_required": "use a key of that kind: parley key create, parley key list",
    "sender_mismatch": "leave out --agent (or PARLEY_AGENT), or use a service key",
    "required sender": "add --agent NAME, or set PARLEY_AGENT",
    "name_taken": "use the one that is there, or another name",
    "channel_closed": "create another one with: parley channel create",
    "not_a_request": "only a message of type request can be answered; use: parley post",
    "ask_timeout": "ask again with a longer --timeout; who is there: parley agent list --server",
    "version_mismatch": "somebody changed it meanwhile; look at it and try again",
    "rate_limited": "wait a moment and try again",
    "cursor_evicted": "begin again without --since",
    "human_required": "use that person's own key: parley key create --user NAME",
    "not_approver": "the person whom the agent acts for decides, or one whom the policy names",
    "approval_stale": "look at what waits now: parley approvals show ID",
    "not_releasable": "answer it yourself, or reject it: parley approvals answer, parley approvals reject",
    "suspended": "an admin can lift that: parley suspensions, parley resume",
}
DATA_HELP = "the data directory of the server (default: as `parley up` finds it)"


def add_server_options(parser: argparse.ArgumentParser, *, agent: bool = True) -> None:
    """--url, --key, --agent and --json, as every command on a server takes them."""
    group = parser.add_argument_group("server")
    group.add_argument("--url", default="", help="where the server is (default: $PARLEY_URL, http://127.0.0.1:8420)")
    group.add_argument("--key", default="", help="the key (default: $PARLEY_KEY, which other users cannot see)")
    if agent:
        group.add_argument(
            "-a", "--agent", default="", metavar="AGENT", help="who speaks, for a key that speaks for several"
        )
    add_json(parser)


def connection_of(args: argparse.Namespace, *, agent: bool = True) -> Connection:
    """The server that the options name. Without `agent` the key speaks for itself, whatever the environment says."""
    from parley.sdk.blocking.connection import Connection

    settings = settings_of(args)
    return Connection(settings.url, key=settings.key, agent=settings.agent if agent else "", hints=HINTS)


# ---------------------------------------------------------------- channels by id or by name


def add_channel_arguments(parser: argparse.ArgumentParser) -> None:
    """The channel, by its id or by its name on an intent."""
    parser.add_argument("channel", metavar="CHANNEL", help="its id; with --intent also its name")
    parser.add_argument("--intent", default="", metavar="INTENT", help="the intent on which CHANNEL is a name")


def channel_id(connection: Connection, args: argparse.Namespace) -> str:
    """The id of the channel that the options name."""
    if not args.intent:
        return require_channel_id(args.channel)
    channels = connection.get("intents", args.intent, "channels")
    matches = [channel["id"] for channel in channels if args.channel in (channel["name"], channel["id"])]
    if not matches:
        raise NotFound(
            f"there is no channel {args.channel!r} on {args.intent}",
            hint=f"see: parley channel list {args.intent}",
        )
    return str(matches[0])


def require_channel_id(channel: str) -> str:
    if not re.fullmatch(r"chan_[0-9A-Za-z]+", channel):
        raise Invalid(f"{channel!r} is no id of a channel", hint="add --intent INTENT to name a channel by its name")
    return channel


# ---------------------------------------------------------------- showing


def show_result(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any], line: str) -> None:
    """One document: all of it as JSON, or one line that says what happened."""
    if args.json:
        screen.json(document)
    else:
        screen.line(line)


def show_fields(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any]) -> None:
    """Everything that a document says, a field a line."""
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
    """A list of documents: as it is, or a table with what each column makes of one."""
    if args.json:
        screen.json(documents)
    elif not documents:
        screen.line(nothing)
    else:
        screen.table(tuple(columns), [[make(document) for make in columns.values()] for document in documents])


def cell_text(value: object) -> str:
    """Any value on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return safe(", ".join(value)) or "-"
    return safe(value) if isinstance(value, str) else json_text(value)


def field_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with one field as it is."""
    return lambda document: cell_text(document.get(name)) or "-"


def age_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with how long ago a moment was."""
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
    """30s, 5m or a bare number of seconds."""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text):
        return float(text)
    try:
        return parse_duration(text).total_seconds()
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None


def parse_time_from_now(text: str, option: str) -> str | None:
    """A time, or how long from now, as the server reads it; None when nothing was given."""
    if not text:
        return None
    from parley.adapters.process import SystemClock
    from parley.domain.times import parse_moment, stamp

    try:
        return stamp(parse_moment(text, SystemClock().now().at))
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None


def parse_time_ago(text: str, option: str) -> str | None:
    """A time, or how long ago, as the server reads it; None when nothing was given."""
    if not text:
        return None
    from parley.adapters.process import SystemClock
    from parley.domain.times import parse_past, stamp

    try:
        return stamp(parse_past(text, SystemClock().now().at))
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, for a body whose other fields have defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def split_names(groups: Iterable[str]) -> list[str]:
    """Names given one by one or with commas between them."""
    return [name.strip() for group in groups for name in group.split(",") if name.strip()]
