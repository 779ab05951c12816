"""The summary of a run: the figures that have a row in it, kept in `bench/recorded/run.json`, and its table."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.figures import COMMITS, ECHO, Figure, shown

ROOT = Path(__file__).parent.parent.parent
RECORD = ROOT / "bench" / "recorded" / "run.json"
LIMITS = (ECHO, COMMITS)
# The disk is tried this often.
_SYNCS = 50


class Entry(NamedTuple):
    """One line of the summary: a row of Parley beside one peer, or beside nothing."""

    row: str
    peer: str
    ours: str
    theirs: str
    # How many times as fast as the peer, or as much; None without a peer.
    ratio: float | None
    # Whether a larger ratio is better.
    faster: bool
    goal: str
    met: bool | None
    release: str
    load: float

    @property
    def verdict(self) -> str:
        return {None: "", True: "met", False: "missed"}[self.met]

    @property
    def speed(self) -> float | None:
        """How many times as fast as the peer, whichever way the ratio is told."""
        return self.ratio if self.faster or not self.ratio else 1 / self.ratio


def entries_of(figures: Sequence[Figure], release: str) -> list[Entry]:
    return [
        Entry(
            figure.row,
            figure.peer,
            shown(figure.ours.middle, figure.unit),
            shown(figure.theirs.middle, figure.unit) if figure.theirs else "",
            round(figure.ratio, 4) if figure.ratio else None,
            figure.faster,
            str(figure.goal) if figure.goal else "",
            figure.is_met,
            release,
            round(os.getloadavg()[0], 1),
        )
        for figure in figures
        if figure.row
    ]


def load() -> list[Entry]:
    entries = json.loads(RECORD.read_text())["entries"] if RECORD.exists() else []
    return [Entry(**entry) for entry in entries]


def save(entries: Sequence[Entry]) -> None:
    """Record a run. Rows that it did not measure stay as they were recorded."""
    measured = {(entry.row, entry.peer) for entry in entries}
    kept = [entry for entry in load() if (entry.row, entry.peer) not in measured]
    machine = {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "sync_ms": round(_sync_seconds() * 1e3, 2),
        "python": ".".join(map(str, sys.version_info[:3])),
        "sqlite": sqlite3.sqlite_version,
        "system": sys.platform,
    }
    content = {"machine": machine, "entries": [entry._asdict() for entry in in_order([*kept, *entries])]}
    RECORD.write_text(json.dumps(content, indent=1) + "\n")


def _processor() -> str:
    """What the processor calls itself, where Linux says it."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return names[0] if names else ""


def _sync_seconds() -> float:
    """How long the disk of the repository takes for one page in its place, as in the log of a store: a median."""
    taken = list[float]()
    with tempfile.TemporaryFile(dir=ROOT) as file:
        os.pwrite(file.fileno(), bytes(_SYNCS * 4096), 0)
        os.fsync(file.fileno())
        for number in range(_SYNCS):
            began = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 4096, number * 4096)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return median(taken)


def machine() -> dict[str, object]:
    """Where the recorded run was made."""
    found: dict[str, object] = json.loads(RECORD.read_text())["machine"]
    return found


# The summary is in this order; a row belongs to the first text that it begins with.
_ORDER = (
    "durable POST, 1 ",
    "durable POST, 16",
    "durable POST, 64",
    "governed POST",
    "ask between",
    "one message to",
    "durable POST beside",
    "durable POST on PostgreSQL",
    "two nodes",
    "listing 10,000 messages, cold",
    "listing 10,000 messages, warm",
    "listing",
    "cold",
    "memory",
)


def in_order(entries: Sequence[Entry]) -> list[Entry]:
    def place(entry: Entry) -> tuple[int, str, str, bool]:
        number = next((n for n, start in enumerate(_ORDER) if entry.row.startswith(start)), len(_ORDER))
        return number, entry.row.partition(":")[0], entry.row, entry.peer in LIMITS

    return sorted(entries, key=place)


HEADS = ("what", "Parley", "beside", "", "ratio", "goal", "verdict", "load")


def cells(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """The rows of the summary as text; a row is named once."""
    rows, before = list[tuple[str, ...]](), ""
    for entry in in_order(entries):
        first = entry.row != before
        before = entry.row
        ratio = "" if entry.ratio is None else f"{entry.ratio:.2f}x" if entry.ratio < 10 else f"{entry.ratio:.0f}x"
        ours = entry.ours if first else ""
        load = f"{entry.load:g}" if first else ""
        rows.append(
            (entry.row if first else "", ours, entry.peer, entry.theirs, ratio, entry.goal, entry.verdict, load)
        )
    return rows


def table(entries: Sequence[Entry]) -> str:
    rows = [HEADS, *cells(entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
