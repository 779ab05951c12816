"""`parley status --history`: what the servers did in the last ten minutes, as one line for each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from parley.cli.exits import OK
from parley.cli.parts.remote import field_column
from parley.cli.table import ALWAYS, Column, show_rows, text_column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

_BARS = "▁▂▃▄▅▆▇█"
# Steps that one character of a line stands for, so that ten minutes fit beside the other columns.
_STEPS_OF_A_BAR = 3


def show_history(screen: Screen, connection: Connection, *, is_json: bool) -> int:
    """Print what the servers did lately."""
    history = connection.get("status", "history")
    if is_json:
        screen.json(history)
        return OK
    nodes = history["nodes"]
    show_rows(screen, _COLUMNS, nodes, ["red" if node["silent"] else "" for node in nodes])
    refusals: Counter[str] = Counter()
    for node in nodes:
        for sample in node["samples"]:
            refusals.update(sample["refusals"])
    screen.line()
    if refusals:
        screen.prose("Refused: " + ", ".join(f"{code} {count}" for code, count in refusals.most_common()))
    else:
        screen.prose("No request was refused.")
    return OK


def bars(values: Sequence[int]) -> str:
    """Numbers as a line of bars; the highest fills its place, and what is not 0 is never the lowest bar."""
    highest = max(values, default=0)
    if not highest:
        return _BARS[0] * len(values)
    return "".join([_BARS[-(-value * (len(_BARS) - 1) // highest)] for value in values])


def _line_of(name: str) -> Callable[[Mapping[str, Any]], str]:
    def line(node: Mapping[str, Any]) -> str:
        values = [sample[name] for sample in node["samples"]]
        groups = [values[begin : begin + _STEPS_OF_A_BAR] for begin in range(0, len(values), _STEPS_OF_A_BAR)]
        return bars([max(group) for group in groups])

    return line


def _peak(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda node: str(max([sample[name] for sample in node["samples"]], default=0))


def _sum_of_requests(node: Mapping[str, Any]) -> str:
    return str(sum([sample["requests"] for sample in node["samples"]]))


def _sum_of_refusals(node: Mapping[str, Any]) -> str:
    return str(sum([count for sample in node["samples"] for count in sample["refusals"].values()]))


_COLUMNS = (
    Column("NODE", field_column("name"), ALWAYS, usual=None),
    Column("REQUESTS", _sum_of_requests, ALWAYS),
    Column("REFUSED", _sum_of_refusals, ALWAYS),
    Column("STREAMS", _peak("streams"), 4),
    Column("QUEUE", _peak("queue"), 6),
    Column("LAG", _peak("lag"), 6),
    text_column("TEN MINUTES", _line_of("requests"), 3),
)
