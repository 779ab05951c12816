"""What commands on a server share: options, the connection, and printing of answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parley.cli.command import add_json, settings_of
from parley.cli.output import UNLIMITED, json_text, label_of, safe, terminal_width
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.errors.errors import Invalid
from parley.domain.times import age, from_stamp, local_time, parse_duration, utc_time

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from parley.cli.output import Screen
    from parley.domain.logins import ServerAccess
    from parley.sdk.blocking.connection import Connection
    from parley.sdk.client.connection import AsyncConnection

HINTS = {
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
CONNECT_SECONDS = 0.5
# One that was there is waited for a little longer.
PATIENCE_SECONDS = 10.0


def add_server_options(parser: argparse.ArgumentParser, *, agent: bool = True) -> None:
    """Add --context, --url, --key, --agent and --json, which every command on a server takes."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--context",
        default="",
        metavar="CONTEXT",
        help="saved login to use (default: the current one)",
    )
    group.add_argument("--url", default="", help="address of the server (default: $PARLEY_URL, or that of the context)")
    group.add_argument(
        "--key", default="", help="API key (default: $PARLEY_KEY, or the saved one; process lists show --key)"
    )
    if agent:
        group.add_argument(
            "-a", "--agent", default="", metavar="AGENT", help="agent to act as, for a key of several agents"
        )
    add_json(parser)


def connection_of(args: argparse.Namespace, *, agent: bool = True, patience: float = 0.0) -> Connection:
    """Connect to the server that the options name. With `agent=False` --agent and $PARLEY_AGENT are ignored.

    A server that cannot be reached is an error at once, or after `patience` seconds.
    """
    from parley.login_wiring import access_hints
    from parley.sdk.blocking.connection import Connection

    settings = settings_of(args)
    access = access_of(args)
    return Connection(
        access.url,
        key=access.key,
        agent=settings.agent if agent else "",
        plain_http=settings.plain_http == "any",
        patience=patience or PATIENCE_SECONDS,
        connect_patience=patience or CONNECT_SECONDS,
        hints={**HINTS, **access_hints(access)},
    )


def async_connection_of(args: argparse.Namespace) -> AsyncConnection:
    """The same in an event loop."""
    from parley.login_wiring import access_hints
    from parley.sdk.client.connection import AsyncConnection

    settings, access = settings_of(args), access_of(args)
    return AsyncConnection(
        access.url,
        key=access.key,
        agent=settings.agent,
        plain_http=settings.plain_http == "any",
        patience=PATIENCE_SECONDS,
        connect_patience=CONNECT_SECONDS,
        hints={**HINTS, **access_hints(access)},
    )


def access_of(args: argparse.Namespace) -> ServerAccess:
    """The server and the key that the options, the settings and the saved logins name; found once per command."""
    access: ServerAccess | None = getattr(args, "server_access", None)
    if access is None:
        from parley.login_wiring import find_access

        access = args.server_access = find_access(settings_of(args))
    return access


def add_wait_for_responders(parser: argparse.ArgumentParser) -> None:
    """Add --wait-for-responders."""
    parser.add_argument(
        "--wait-for-responders",
        action="store_true",
        help="wait also when no such agent is known, or nobody holds the role",
    )


# ---------------------------------------------------------------- printing


def show_result(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any], line: str) -> None:
    """Print a document with --json, else one line about the result."""
    if args.json:
        screen.json(document)
    else:
        for part in line.split("\n"):
            screen.prose(part)


def show_fields(args: argparse.Namespace, screen: Screen, document: Mapping[str, Any]) -> None:
    """Print the fields of a document, one per line."""
    if args.json:
        screen.json(document)
        return
    for name, value in document.items():
        if value not in (None, "", [], {}):
            is_time = name.endswith("_at") and isinstance(value, str)
            screen.field(label_of(name), time_text(value) if is_time else cell_text(value))


def show_table(
    args: argparse.Namespace,
    screen: Screen,
    documents: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    nothing: str,
) -> None:
    """Print documents as JSON, as a table, or the text `nothing`."""
    if args.json:
        screen.json(documents)
    elif not documents:
        screen.prose(nothing)
    else:
        show_rows(screen, columns, documents)


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
    """A column with a local time, to the second, with its zone."""
    return lambda document: time_text(document.get(name))


def time_text(value: object) -> str:
    """A time stamp for people: local, to the second, with its zone."""
    try:
        return local_time(from_stamp(str(value or "")))
    except ValueError:
        return cell_text(value) or "-"


def utc_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with a time in UTC, to the second: in audit logs, where a day is a day in UTC, too."""
    return lambda document: utc_text(document.get(name))


def utc_text(value: object) -> str:
    """A time stamp for people: in UTC, to the second, with its zone."""
    try:
        return utc_time(from_stamp(str(value or "")))
    except ValueError:
        return cell_text(value) or "-"


def payload_text(payload: object) -> str:
    """A payload on one line: its text first, then what else is in it."""
    if not isinstance(payload, dict) or not isinstance(payload.get("text"), str):
        return cell_text(payload) or "-"
    rest = {name: value for name, value in payload.items() if name != "text"}
    return safe(payload["text"]) + (f"  {json_text(rest)}" if rest else "")


def payload_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with a payload."""
    return lambda document: payload_text(document.get(name))


def actor_column(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A column with who did something; where the width is limited, a key is shown by the end of its id."""
    limited = terminal_width() < UNLIMITED

    def actor(document: Mapping[str, Any]) -> str:
        text = cell_text(document.get(name)) or "-"
        return re.sub(r"\bkey_\w{22}(\w{4})\b", r"…\1", text) if limited else text

    return actor


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


def parse_time_from_now(text: str, option: str, *, ends: bool = False) -> str | None:
    """Parse a time, a day or a duration from now into a time stamp; None for an empty text."""
    if not text:
        return None
    from parley.adapters.process import SystemClock
    from parley.domain.times import parse_moment, stamp

    try:
        return stamp(parse_moment(text, SystemClock().now().at, ends=ends))
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None


def parse_time_ago(text: str, option: str, *, ends: bool = False) -> str | None:
    """Parse a time, a day or a duration before now into a time stamp; None for an empty text.

    Without a zone a time is in UTC, as `utc_text` shows it. Only the end of a period may be in the future.
    """
    if not text:
        return None
    from parley.adapters.process import SystemClock
    from parley.domain.times import parse_past, parse_shown_time, stamp

    now = SystemClock().now().at
    try:
        moment = parse_shown_time(text, now) or parse_past(text, now, ends=ends)
    except Invalid as error:
        raise Invalid(f"{option}: {error.message}", hint=error.hint) from None
    if moment > now and not ends:
        raise Invalid(f"{option}: {text} is in the future", hint=f"now it is {utc_time(now)}")
    return stamp(moment)


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out fields that are None; the server has defaults for them."""
    return {name: value for name, value in fields.items() if value is not None}


def split_names(groups: Iterable[str]) -> list[str]:
    """Split names that are separated by commas."""
    return [name.strip() for group in groups for name in group.split(",") if name.strip()]


def show_steps(screen: Screen, steps: Sequence[Mapping[str, Any]]) -> None:
    """Print every check with its value, its source and its result."""
    columns = (
        Column("CHECK", field_column("check"), ALWAYS),
        text_column("VALUE", field_column("value")),
        Column("SOURCE", field_column("source"), 8),
        text_column("RESULT", field_column("found"), 7),
    )
    show_rows(screen, columns, steps)
