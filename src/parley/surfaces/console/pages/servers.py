"""Servers: what needs an operator first, then the store, the servers that share it, and their last ten minutes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from parley.surfaces.console.html import h
from parley.surfaces.console.parts import data_table, duration, fresh, note, tag
from parley.surfaces.console.sparklines import sparkline
from parley.surfaces.console.visit import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley.surfaces.console.html import Child, Html
    from parley.surfaces.console.visit import Document, Visit

_HISTORY_SECONDS = 600
_REFRESH_SECONDS = 2
_UNIT = 1024
_STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
# What an operator does about a concern, by its code.
_ADVICE = {
    "database_unreachable": "Check that the database runs and is reachable from the servers.",
    "node_silent": "Look at its log, or start it again. Other servers have taken over what it led.",
    "clock_skewed": "Synchronise its clock: beyond five seconds the server leaves the group.",
    "clock_stepped": "Check the time service of its machine.",
    "name_shared": "Give each server a name of its own: parley up --node NAME",
    "no_sync_standby": "Commits wait until a standby follows.",
    "no_row_security": "Connect as a role that is no superuser: see “Operate PostgreSQL” in the documentation.",
    "connections_exhausted": "Lower the pools of the servers, or raise max_connections of the database.",
    "pools_too_large": "Lower the pools of the servers, or raise max_connections of the database.",
}


async def list_page(visit: Visit) -> Page:
    """All servers and their store, as they are now."""
    status: Document = await visit.get("status")
    history: Document = await visit.get("status", "history", seconds=_HISTORY_SECONDS)
    content = fresh(
        "servers",
        h("h1", "Servers ", _verdict(status["concerns"])),
        [_concern(concern) for concern in status["concerns"]],
        h("dl", _store_tiles(status["store"]), class_="tiles"),
        _node_table(status["nodes"]),
        _replica_table(status["store"]["replicas"]),
        h("h2", "The last ten minutes", class_="title"),
        [_node_history(node, history["step_seconds"]) for node in history["nodes"]],
    )
    return Page("Servers", content, "servers", every=_REFRESH_SECONDS)


def _verdict(concerns: list[Document]) -> Html:
    if not concerns:
        return tag("no problems", "ok")
    return tag("1 problem" if len(concerns) == 1 else f"{len(concerns)} problems", "bad")


def _concern(concern: Document) -> Html:
    advice = _ADVICE.get(concern["code"])
    return note(
        "bad", h("b", concern["detail"]), h("p", advice) if advice else None, h("p", h("code", concern["code"]))
    )


# ---------------------------------------------------------------- the store


def _tile(name: str, value: Child, about: str = "") -> Html:
    return h("div", h("dt", name), h("dd", value), h("dd", about, class_="muted") if about else None)


def _store_tiles(store: Document) -> Iterator[Html]:
    if not store["version"]:
        yield _tile("Store", store["kind"], "does not answer")
        return
    yield _tile("Store", f"{_STORES.get(store['kind'], store['kind'])} {store['version']}")
    yield _tile("Size", _size(store["bytes"]))
    if store["kind"] == "postgresql":
        yield _tile("Journal", store["journal"], "rows, about")
        yield _tile("Waiting for locks", store["waiting"], f"longest {_seconds(store['longest_wait'])}")
        yield _tile("Oldest transaction", _seconds(store["oldest_transaction"]))
        most = f"of {store['most_connections']:,}; the servers may want {store['wanted_connections']:,}"
        yield _tile("Connections", store["connections"], most)
        yield _tile("Commits wait for", store["synchronous_standby_names"] or "no standby")
        yield _tile("Row security", "on" if store["row_security"] else "off")
    else:
        yield _tile("Write-ahead log", _size(store["log_bytes"]))
        yield _tile("Waiting writes", store["waiting"])
    yield _tile("Tenants", store["tenants"])


def _replica_table(replicas: list[Document]) -> Html | None:
    if not replicas:
        return None
    rows = [
        h("tr", h("td", replica["name"], dir="auto"), h("td", replica["state"] or "not visible to the server's role"),
          h("td", _size(replica["lag_bytes"])))
        for replica in replicas
    ]  # fmt: skip
    return data_table("Replicas of the database", ("Replica", "State", "Behind by"), rows)


# ---------------------------------------------------------------- the servers


def _node_table(nodes: list[Document]) -> Html:
    headings = ("Server", "Seen", "Up", "Streams", "Queue", "Lag", "Connections", "Version", "Leads")
    return data_table("Servers that share the store", headings, [_node_row(node) for node in nodes])


def _node_row(node: Document) -> Html:
    state = tag("silent", "bad") if node["silent"] else tag("answers") if node["here"] else None
    return h(
        "tr",
        h("th", h("span", class_="state-dot lost" if node["silent"] else "state-dot"),
          h("span", _name_of(node), dir="auto"), " ", state,
          h("div", node["url"], class_="muted", dir="auto"), scope="row"),
        h("td", f"{_seconds(node['seen'])} ago"),
        h("td", duration(node["uptime"])),
        h("td", node["streams"]),
        h("td", node["queue"]),
        h("td", node["lag"]),
        h("td", f"{node['connections']:,} of {node['pool']:,}" if node["pool"] else "-"),
        h("td", node["version"]),
        h("td", ", ".join(node["leads"]) or "-"),
    )  # fmt: skip


def _name_of(node: Document) -> str:
    """What a server is called; one that was started by a program has no name."""
    return node["name"] or "this server"


# ---------------------------------------------------------------- ten minutes


def _node_history(node: Document, step_seconds: int) -> Html:
    """One card for a server: a line for each number, and what was refused."""
    name, samples = _name_of(node), node["samples"]
    steps = _HISTORY_SECONDS // step_seconds
    lines = [_line(name, number, [read(sample) for sample in samples], steps) for number, read in _LINES]
    refusals: Counter[str] = Counter()
    for sample in samples:
        refusals.update(sample["refusals"])
    words = ", ".join([f"{count:,} {code}" for code, count in refusals.most_common()])
    return h(
        "section",
        h("h3", h("span", name, dir="auto"), [" ", tag("silent", "bad")] if node["silent"] else None),
        h("dl", lines, class_="lines"),
        h("p", f"Refused: {words}" if words else "No request was refused.", class_="muted"),
        class_="card history", aria_label=f"The last ten minutes of {name}",
    )  # fmt: skip


def _line(node: str, number: str, values: list[int], steps: int) -> Html:
    now, highest = values[-1] if values else 0, max(values, default=0)
    about = f"{number} of {node} in the last ten minutes: now {now:,}, at most {highest:,}"
    return h(
        "div",
        h("dt", number),
        h("dd", sparkline(values, steps, about), h("b", now), h("span", f"at most {highest:,}", class_="muted")),
    )


def _refusals_of(sample: Document) -> int:
    return sum(sample["refusals"].values())


def _reader(field: str) -> Callable[[Document], int]:
    return lambda sample: int(sample[field])


# What is drawn: requests and refusals are those of a step, the others the highest of it.
_LINES: tuple[tuple[str, Callable[[Document], int]], ...] = (
    ("Requests in 10 s", _reader("requests")),
    ("Refusals in 10 s", _refusals_of),
    ("Queue", _reader("queue")),
    ("Lag", _reader("lag")),
    ("Streams", _reader("streams")),
)


def _size(number: int) -> str:
    size, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < _UNIT:
            break
        size, unit = size / _UNIT, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _seconds(seconds: float) -> str:
    """Short times with a tenth, as lags and locks need it."""
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)
