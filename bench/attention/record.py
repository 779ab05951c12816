"""What `python -m bench attention` measured, kept in bench/recorded/attention.json."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parley.domain.version import VERSION
from tests.harness.packages import locked
from tests.harness.programs import AGENTS

ROOT = Path(__file__).parent.parent.parent
RECORD = ROOT / "bench" / "recorded" / "attention.json"


class Latency(NamedTuple):
    """Seconds from the end of `parley send` to the first request to the model that tells of the message."""

    program: str
    way: str
    state: str
    sent: int
    seconds: tuple[float, ...]
    load: float

    def percentile(self, share: float) -> float:
        """The value that this share of the messages did not exceed (nearest rank)."""
        rank = -(-len(self.seconds) * share // 1)
        return self.seconds[max(int(rank), 1) - 1]


class MessageCost(NamedTuple):
    """Tokens and requests from the notice of a message to its end."""

    program: str
    body: int
    requests: int
    # Beside the body: of Parley's own texts and of the calls; and with what the program puts around them.
    tokens: int
    as_sent: int


class ToolCost(NamedTuple):
    """Tokens of the list of tools, plain or as a program sends it."""

    program: str
    tokens: int


class Kills(NamedTuple):
    """What became of messages while their agent was killed again and again."""

    program: str
    sent: int
    kills: int
    lost: int
    answered_twice: int
    early_receipts: int


class ProcessCost(NamedTuple):
    """What one run of a command costs, in seconds: the median and the least of several."""

    name: str
    runs: int
    median: float
    least: float
    load: float


class AttentionRecord(NamedTuple):
    """All figures of the page."""

    latencies: tuple[Latency, ...] = ()
    messages: tuple[MessageCost, ...] = ()
    tools: tuple[ToolCost, ...] = ()
    kills: tuple[Kills, ...] = ()
    processes: tuple[ProcessCost, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


_TYPES: dict[str, type[Any]] = {
    "latencies": Latency,
    "messages": MessageCost,
    "tools": ToolCost,
    "kills": Kills,
    "processes": ProcessCost,
}
# How many fields name what a line is about.
_KEYS = {"latencies": 3, "messages": 1, "tools": 1, "kills": 1, "processes": 1}


def load() -> AttentionRecord:
    """What is recorded; empty without a record."""
    if not RECORD.exists():
        return AttentionRecord()
    document = json.loads(RECORD.read_text())
    lines = {field: tuple(_entry(kind, line) for line in document[field]) for field, kind in _TYPES.items()}
    return AttentionRecord(**lines, facts=tuple(document["facts"].items()))


def _entry(kind: type[Any], line: dict[str, Any]) -> Any:  # noqa: ANN401  # a line of any table
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in line.items()})


def save(measured: AttentionRecord) -> None:
    """Record a run. What it did not measure stays as it was recorded."""
    merged = merge(load(), measured)
    lines = [f' "facts": {json.dumps(dict(merged.facts))}']
    for field in _TYPES:
        entries = ",\n".join(f"  {json.dumps(entry._asdict())}" for entry in getattr(merged, field))
        lines.append(f' "{field}": [\n{entries}\n ]')
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def merge(before: AttentionRecord, measured: AttentionRecord) -> AttentionRecord:
    """Both, where the later one replaces what has the same name."""
    merged = {field: _merge(getattr(before, field), getattr(measured, field), _KEYS[field]) for field in _TYPES}
    return AttentionRecord(**merged, facts=measured.facts)


def _merge(before: Sequence[Any], measured: Sequence[Any], key: int) -> tuple[Any, ...]:
    entries = {entry[:key]: entry for entry in before}
    entries |= {entry[:key]: entry for entry in measured}
    return tuple(entries.values())


def facts() -> tuple[tuple[str, str], ...]:
    """With what is measured: Parley, Python, the machine and the programs."""
    python = ".".join(map(str, sys.version_info[:3]))
    programs = {name: locked()[name].short_version for name in AGENTS}
    return tuple({"parley": VERSION, "python": python, "cores": str(os.cpu_count()), **programs}.items())
