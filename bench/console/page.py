"""What `python -m bench console` measured: kept in bench/recorded/console.json, shown in docs/explanation/speed.md."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from bench.report.page import PAGE, replace
from bench.report.run import ROOT
from parley.domain.version import VERSION

RECORD = ROOT / "bench" / "recorded" / "console.json"
_BEGIN, _END = "<!-- console: python -m bench console --page -->", "<!-- end of console -->"


class ConsoleFigure(NamedTuple):
    """One figure, of so many runs, at this load of the machine."""

    name: str
    value: float
    runs: int
    load: float
    release: str


class ConsoleGoal(NamedTuple):
    """What a figure is about, in which unit, and what it must not exceed."""

    what: str
    unit: str
    most: float | None = None


GOALS = {
    "console.js": ConsoleGoal("script, gzipped", "kB", 8),
    "console.css": ConsoleGoal("style, gzipped", "kB", 8),
    "approvals cold": ConsoleGoal("approvals, nothing cached: bytes on the wire", "kB", 30),
    "approvals warm": ConsoleGoal("approvals, files cached", "kB", 12),
    "channel cold": ConsoleGoal("channel, its last 100 messages, nothing cached", "kB", 30),
    "channel warm": ConsoleGoal("channel, its last 100 messages, files cached", "kB", 12),
    "approvals paint": ConsoleGoal("approvals, nothing cached: first paint with content", "ms", 300),
    "channel paint": ConsoleGoal("channel, its last 100 messages: first paint with content", "ms", 300),
    "far paint": ConsoleGoal("approvals at a round trip of 150 ms, nothing cached, not connected", "ms", 900),
    "live there p50": ConsoleGoal("POST leaves until its row is on the page, p50", "ms"),
    "live there p95": ConsoleGoal("the same, p95", "ms", 50),
    "live painted p50": ConsoleGoal("POST leaves until its row is painted, p50", "ms"),
    "live painted p95": ConsoleGoal("the same, p95", "ms", 80),
    "held p50": ConsoleGoal("POST of a held message until it is in the queue, p50", "ms"),
    "held p95": ConsoleGoal("the same, p95", "ms", 100),
    "flood sent": ConsoleGoal("10,000 messages at once: time to send them", "s"),
    "flood last": ConsoleGoal("from then until the last one is painted", "s", 1),
    "flood task": ConsoleGoal("longest task of the page meanwhile", "ms", 500),
    "flood rows": ConsoleGoal("rows on the page at most", "", 500),
    "tabs": ConsoleGoal("a message in the last of 12 tabs", "s", 6),
    "start": ConsoleGoal("start of `parley up` until it is ready", "s", 1),
    "start ratio": ConsoleGoal("start of `parley up`, beside one without the console", "x", 1.05),
    "first page": ConsoleGoal("first page of a server, which loads the console", "ms"),
    "next page": ConsoleGoal("the next page", "ms"),
}


def load() -> dict[str, ConsoleFigure]:
    """What is recorded, by name; empty without a record."""
    lines = json.loads(RECORD.read_text()) if RECORD.exists() else []
    return {line["name"]: ConsoleFigure(**line) for line in lines}


def save(measured: Sequence[ConsoleFigure]) -> None:
    """Record a run. What it did not measure stays as it was recorded."""
    merged = load() | {figure.name: figure for figure in measured}
    lines = ",\n".join(f" {json.dumps(merged[name]._asdict())}" for name in GOALS if name in merged)
    RECORD.write_text(f"[\n{lines}\n]\n")


def figure(name: str, value: float, runs: int) -> ConsoleFigure:
    """What was measured just now."""
    return ConsoleFigure(name, round(value, 3), runs, round(os.getloadavg()[0], 1), VERSION)


def write() -> int:
    """Write what is recorded into the page."""
    PAGE.write_text(page(PAGE.read_text(), load()))
    print(PAGE)
    return 0


def page(text: str, recorded: dict[str, ConsoleFigure]) -> str:
    """The page with these figures in place of those that it has."""
    return replace(text, _BEGIN, _END, table(recorded))


def table(figures: dict[str, ConsoleFigure]) -> str:
    """The figures, their goals, and how many are met."""
    lines = ["| what | figure | goal | runs | load |  |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    for name, goal in GOALS.items():
        if name in figures:
            at = figures[name]
            most = "" if goal.most is None else f"<= {_spell(goal.most, goal.unit)}"
            verdict = {None: "", True: "met", False: "missed"}[is_met(at)]
            value = _spell(at.value, goal.unit)
            lines.append(f"| {goal.what} | {value} | {most} | {at.runs} | {at.load:g} | {verdict} |")
    verdicts = [met for met in map(is_met, figures.values()) if met is not None]
    counted = f"{sum(verdicts)} of {len(verdicts)}" if not all(verdicts) else f"All {len(verdicts)}"
    releases = ", ".join(sorted({at.release for at in figures.values()}))
    return "\n".join([*lines, "", f"Parley {releases}, headless Chromium. {counted} goals are met."])


def is_met(at: ConsoleFigure) -> bool | None:
    """Whether a figure meets its goal; None when it has none."""
    most = GOALS[at.name].most
    return None if most is None else at.value <= most


def _spell(value: float, unit: str) -> str:
    digits = f"{value:.1f}" if value < 10 and value % 1 else f"{value:,.0f}"
    if unit == "s" and value % 1:
        digits = f"{value:.2f}"
    elif unit == "x":
        return f"{value:.2f}x"
    elif unit == "kB" and value % 1:
        digits = f"{value:.1f}"
    return f"{digits} {unit}".strip()
