"""`parley status`: show the state of the servers and of the store that they share, or how far a message has come."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import add_server_options, connection_of, field_column
from parley.cli.server.history import show_history
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.errors.errors import ParleyError, Unavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection
    from parley.sdk.protocol.flow import Flow

_STEP = 1024
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
# A person looking for a problem should see an overloaded server at once, not wait for it.
_RETRY_WITHIN_SECONDS = 2.0
_TIMEOUT_SECONDS = 10.0
# Of messages on a server.
_MESSAGE_PREFIX = "msg"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message",
        nargs="?",
        default="",
        metavar="MESSAGE",
        help="message that you sent: id, in a mailbox also file name or end of an id (default: show the servers)",
    )
    parser.add_argument(
        "--history", action="store_true", help="show the requests, refusals and queues of the last ten minutes"
    )
    add_server_options(parser, agent=False)
    group = parser.add_argument_group("mailbox, for a message")
    group.add_argument(
        "--home", "--oacp-dir", default="", help="directory of all projects (default: see parley config)"
    )
    group.add_argument("-p", "--project", default="", help="project (default: by working directory, or the only one)")
    group.add_argument("-a", "--agent", "--from", default="", metavar="AGENT", help="agent that sent the message")
    parser.description = (
        f"{parser.description}.\n\n"
        "Without a message: the servers and their store; exit code 1 on problems.\n\n"
        "The states of a message, each with what it is known by:\n"
        "  queued        it is in the mailbox of its recipient, or durable on the server\n"
        "  offered       a notice about it was handed to the coding agent\n"
        "  injected      the model answered a request that contained the notice\n"
        "  acknowledged  the whole message was handed over\n"
        "  acted         it was answered or finished\n"
        "What is not proved has not happened. An agent that uses another tool than Parley\n"
        "writes no receipts: its messages stay queued until it answers. On a server no\n"
        "message is offered or injected: hooks look at mailboxes. There a message is\n"
        "named by its whole id, msg_..."
    )


def _status(args: argparse.Namespace) -> int:
    if args.message:
        return _show_message(args)
    connection = connection_of(args, agent=False)
    if args.history:
        return show_history(screen_of(args), connection, is_json=args.json)
    status = _with_broken_policies(connection, _fetch_status(connection))
    screen = screen_of(args)
    if args.json:
        screen.json(status)
    else:
        _show_status(screen, status)
    return OK if status["ok"] else FOUND_PROBLEMS


def _show_message(args: argparse.Namespace) -> int:
    """Show a message. Servers and mailboxes give ids of different forms."""
    from parley.domain.lookup import is_id

    if args.url or args.context or is_id(args.message, _MESSAGE_PREFIX):
        from parley.cli.channels.receipts import show_status as show_server_status

        return show_server_status(args, connection_of(args))
    from parley.cli.mailbox.receipts import show_status

    return show_status(args)


def _fetch_status(connection: Connection) -> Any:  # noqa: ANN401  # as the server says it
    """Fetch the status. Without its database a server cannot check the key and only answers that it is unavailable."""
    session = connection.session
    try:
        return connection.run(
            session.send("GET", "status", timeout=_TIMEOUT_SECONDS, within=_RETRY_WITHIN_SECONDS)
        ).document
    except Unavailable as error:
        # It answers 503 with Retry-After; so might a load balancer without servers.
        asks_again = error.code == Unavailable.code and "retry_after" in error.facts
        if not (asks_again and connection.run(_is_alive(session.place.prefix))):
            raise
    raise Unavailable(
        f"the server at {connection.url} runs, but its database does not answer",
        hint="check that the database runs and is reachable; the server's log has the reason",
    )


def _with_broken_policies(connection: Connection, status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status, with policy files that cannot be read: their previous versions stay in force."""
    with suppress(ParleyError):  # the key may not be one of an admin, or the database does not answer
        broken = [
            {"code": "policy_broken", "detail": f"{file['message']}; its previous version stays in force"}
            for file in connection.get("policies")["broken"]
        ]
        if broken:
            return {**status, "ok": False, "concerns": [*status["concerns"], *broken]}
    return status


def _is_alive(prefix: str) -> Flow[bool]:
    """Whether the server answers its health check, which needs neither key nor database."""
    from parley.sdk.transport.port import Broken, Request

    try:
        response = yield Request("GET", f"{prefix}/healthz", {"accept": "application/json"}, timeout=_TIMEOUT_SECONDS)
    except Broken:
        return False
    return bool(response.status == 200)


def _show_status(screen: Screen, status: Mapping[str, Any]) -> None:
    nodes = status["nodes"]
    columns = [column for column in _COLUMNS if column.head != "LEADS" or len(nodes) > 1]
    show_rows(screen, columns, nodes, ["red" if node["silent"] else "" for node in nodes])
    screen.line()
    lines = list(_store_lines(status["store"]))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        screen.prose(f"{screen.paint(f'{name:<{width}}', 'cyan')}  {safe(text)}")
    screen.line()
    for concern in status["concerns"]:
        screen.prose(f"{concern['code']}: {safe(concern['detail'])}", "red")
    if status["ok"]:
        screen.prose("No problems.", "green")


def _state_column(node: Mapping[str, Any]) -> str:
    return f"no heartbeat for {_duration(node['seen'])}" if node["silent"] else "answers" if node["here"] else "up"


# One node leads everything: LEADS is for several.
_COLUMNS = (
    Column("NODE", field_column("name"), ALWAYS, usual=None),
    Column("STATE", _state_column, ALWAYS),
    Column("VERSION", field_column("version"), 5),
    Column("UP", lambda node: _duration(node["uptime"]), 8),
    Column("STREAMS", field_column("streams"), 4),
    Column("QUEUE", field_column("queue"), 6),
    Column("LAG", field_column("lag"), 6),
    Column("CONNECTIONS", lambda node: f"{node['connections']} of {node['pool']}" if node["pool"] else "-", 3),
    text_column("LEADS", field_column("leads"), 2),
    Column("URL", field_column("url"), 7),
)


def _store_lines(store: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not store["version"]:
        yield "store", f"{store['kind']}, does not answer"
        return
    yield (
        "store",
        f"{store['kind']} {store['version']}, {_size(store['bytes'])}, {count_of(store['tenants'], 'tenant')}",
    )
    if store["kind"] != "postgresql":
        yield "log", f"{_size(store['log_bytes'])} write-ahead log"
        return
    yield "journal", f"about {count_of(store['journal'], 'row')}"
    locks = "none awaited"
    if store["waiting"]:
        locks = f"{count_of(store['waiting'], 'transaction')} waiting, the longest for {store['longest_wait']:.1f} s"
    yield "locks", f"{locks}; the oldest open transaction is {store['oldest_transaction']:.1f} s old"
    used = f"{store['connections']} of {store['most_connections']} used"
    yield "connections", f"{used}; at most {store['wanted_connections']} if every node uses its whole pool"
    waits = store["synchronous_standby_names"]
    yield "commits", f"wait for {waits}" if waits else "do not wait for a standby"
    for replica in store["replicas"]:
        state = replica["state"] or "state unknown: GRANT pg_read_all_stats to the role"
        yield "replica", f"{replica['name']}: {state}, {_size(replica['lag_bytes'])} behind"
    yield "row security", "on" if store["row_security"] else "off: the role is a superuser"


def _size(number: int) -> str:
    """Format a number of bytes."""
    size, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < _STEP:
            break
        size, unit = size / _STEP, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _duration(seconds: float) -> str:
    """Format seconds in the largest unit that fits."""
    for unit, length in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


COMMANDS = {
    "status": Command(
        "Show the state of a message, or of the servers",
        _add_arguments,
        _status,
        (
            "parley status a8f3",
            "parley status msg_01K...",
            "parley status",
            "parley status --json",
            "parley status --url http://10.0.0.2:8420",
        ),
    ),
}
