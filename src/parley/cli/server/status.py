"""`parley status`: show the state of the servers and of the store that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import add_server_options, connection_of
from parley.domain.errors.errors import Unavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection
    from parley.sdk.protocol.flow import Flow

_HEADINGS = ("NODE", "STATE", "VERSION", "UP", "STREAMS", "QUEUE", "LAG", "CONNECTIONS", "LEADS", "URL")
_STEP = 1024
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
# A person looking for a problem should see an overloaded server at once, not wait for it.
_RETRY_WITHIN_SECONDS = 2.0
_TIMEOUT_SECONDS = 10.0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _status(args: argparse.Namespace) -> int:
    status = _fetch_status(connection_of(args, agent=False))
    screen = screen_of(args)
    if args.json:
        screen.json(status)
    else:
        _show_status(screen, status)
    return OK if status["ok"] else FOUND_PROBLEMS


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
    rows = [_node_row(node) for node in nodes]
    screen.table(_HEADINGS, rows, ["red" if node["silent"] else "" for node in nodes])
    screen.line()
    lines = list(_store_lines(status["store"]))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        screen.line(f"{screen.paint(f'{name:<{width}}', 'cyan')}  {safe(text)}")
    screen.line()
    for concern in status["concerns"]:
        screen.line(screen.paint(f"{concern['code']}: {safe(concern['detail'])}", "red"))
    if status["ok"]:
        screen.line(screen.paint("No problems.", "green"))


def _node_row(node: Mapping[str, Any]) -> tuple[str, ...]:
    state = f"no heartbeat for {_duration(node['seen'])}" if node["silent"] else "answers" if node["here"] else "up"
    of_pool = f"{node['connections']} of {node['pool']}" if node["pool"] else "-"
    return (
        safe(node["name"]),
        state,
        safe(node["version"]),
        _duration(node["uptime"]),
        *(str(node[name]) for name in ("streams", "queue", "lag")),
        of_pool,
        safe(", ".join(node["leads"])) or "-",
        safe(node["url"]) or "-",
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
        "Show the state of the servers; exit code 1 on problems",
        _add_arguments,
        _status,
        ("parley status", "parley status --json", "parley status --url http://10.0.0.2:8420"),
    ),
}
