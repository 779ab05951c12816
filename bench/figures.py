"""What a bench found: figures, the goals they are held against, and the table that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from bench.measure import Sample

# Unit -> factor from the measured value, and digits to show.
_UNITS = {"s": (1.0, 2), "ms": (1e3, 1), "us": (1e6, 1), "MB": (1.0, 0), "/s": (1.0, 0)}


# What stands beside Parley in the summary: peers, limits that no server can pass, and Parley itself without something.
REFERENCE, SDK, OACP = "reference in memory", "reference SDK and server", "oacp-cli"
ECHO, COMMITS, PGBENCH = "bare ASGI echo", "bare group commit", "pgbench"
IN_MEMORY = "parley up --ephemeral"
PLAIN, ONE_NODE, ALONE = "the same, not governed", "one node", "the same, alone"


class Goal(NamedTuple):
    """A bound on a figure: at least (`>=`), at most (`<=`) or below (`<`) a number."""

    sign: str
    bound: float
    unit: str

    def met_by(self, figure: float) -> bool:
        if self.sign == ">=":
            return figure >= self.bound
        return figure <= self.bound if self.sign == "<=" else figure < self.bound

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}{'x' if self.unit == 'x' else ' ' + self.unit}"


class Figure(NamedTuple):
    """One line of the report. A goal in `x` is about the ratio, any other about our own median."""

    bench: str
    what: str
    unit: str
    ours: Sample
    theirs: Sample | None = None
    goal: Goal | None = None
    # How a ratio is told: how many times faster we are, or how many times the other's time we take.
    faster: bool = True
    # For the summary: the row that it belongs to, and what stands beside Parley there. Empty: not in the summary.
    row: str = ""
    peer: str = ""

    @property
    def ratio(self) -> float | None:
        """The median over pairs that ran one after the other: what slows the machine down for a while slows both.

        Where there are fewer of theirs, the ratio of the medians.
        """
        if self.theirs is None:
            return None
        if len(self.ours.values) != len(self.theirs.values):
            return self._ratio(self.ours.middle, self.theirs.middle)
        return median(map(self._ratio, self.ours.values, self.theirs.values))

    @property
    def least_ratio(self) -> float | None:
        return self._ratio(self.best(self.ours), self.best(self.theirs)) if self.theirs else None

    def best(self, sample: Sample) -> float:
        """The best of all repetitions: of rates the highest, of everything else the lowest."""
        return sample.most if self.unit == "/s" else sample.least

    def _ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.faster and self.unit != "/s" else ours / theirs

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        if self.goal.unit == "x":
            return self.ratio is not None and self.goal.met_by(self.ratio)
        return self.goal.met_by(self.ours.middle * _UNITS[self.goal.unit][0])

    def as_json(self) -> dict[str, object]:
        return {
            "bench": self.bench,
            "what": self.what,
            "unit": "s" if self.unit in ("s", "ms", "us") else self.unit,
            "ours": self.ours.values,
            "theirs": self.theirs.values if self.theirs else None,
            "ratio": self.ratio,
            "goal": str(self.goal) if self.goal else None,
            "met": self.is_met,
        }


_HEADS = ("figure", "ours", "(best)", "theirs", "(best)", "ratio", "(best)", "goal", "verdict")


def table(figures: Sequence[Figure]) -> str:
    """All figures, aligned: medians, and beside them the best of all repetitions."""
    rows = [_HEADS, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _row(figure: Figure) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "MISSED"}[figure.is_met]
    theirs = figure.theirs
    return (
        figure.what,
        shown(figure.ours.middle, figure.unit),
        shown(figure.best(figure.ours), figure.unit),
        shown(theirs.middle, figure.unit) if theirs else "",
        shown(figure.best(theirs), figure.unit) if theirs else "",
        f"{figure.ratio:.2f}x" if figure.ratio else "",
        f"{figure.least_ratio:.2f}x" if figure.least_ratio else "",
        str(figure.goal) if figure.goal else "",
        verdict,
    )


def shown(value: float, unit: str) -> str:
    """A measured value in its unit, as people read it."""
    factor, digits = _UNITS[unit]
    return f"{value * factor:,.{digits}f} {unit}"
