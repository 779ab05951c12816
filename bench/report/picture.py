"""The summary as a picture: how many times as fast as each peer and limit, on one logarithmic scale.

SVG by hand: text, rectangles and lines. Colours follow the reader's theme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.figures import ALONE, IN_MEMORY, ONE_NODE, PLAIN
from bench.report.run import LIMITS, Entry, in_order

_WIDTH = 700
_LEFT, _RIGHT, _TOP = 236, 64, 58
_HEADING, _BAR, _GAP = 22, 19, 8
# The scale, in powers of ten.
_LEAST, _MOST = -1, 3
_OWN = (IN_MEMORY, PLAIN, ONE_NODE, ALONE)
_SVG = "http://www.w3.org/2000/svg"
_LABEL = "Parley beside its peers and beside the limits, in times as fast"
_STYLE = """
  text { font: 12.5px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2933; }
  .back { fill: #ffffff; } .title { font-size: 15px; font-weight: 600; }
  .row { font-weight: 600; paint-order: stroke; stroke: #ffffff; stroke-width: 5px; }
  .soft { fill: #52606d; } .grid { stroke: #d8dee6; } .even { stroke: #52606d; stroke-width: 1.5; }
  .peer { fill: #2c6fb3; } .limit { fill: #b9770e; } .own { fill: #5f7f63; } .goal { stroke: #c0392b; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e9ef; } .back { fill: #14191f; } .soft { fill: #a5b1be; } .grid { stroke: #303a45; }
    .even { stroke: #a5b1be; } .peer { fill: #5aa0e6; } .limit { fill: #e0a33e; } .own { fill: #8bb592; }
    .goal { stroke: #ff7b6b; } .row { stroke: #14191f; }
  }
"""


def draw(entries: Sequence[Entry]) -> str:
    """An SVG of all entries that have a ratio about speed."""
    bars = [entry for entry in in_order(entries) if entry.speed and entry.peer and ":" not in entry.row]
    parts, at, before = list[str](), _TOP, ""
    for entry in bars:
        if entry.row != before:
            at += _GAP if before else 0
            parts.append(_text(16, at + 15, f"{entry.row}: {entry.ours}", "row"))
            at += _HEADING
            before = entry.row
        parts += _bar(entry, at)
        at += _BAR
    height = at + 58
    return "\n".join(
        [
            f'<svg xmlns="{_SVG}" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_LABEL}">',
            f"<style>{_STYLE}</style>",
            f'<rect class="back" width="{_WIDTH}" height="{height}" rx="10"/>',
            _text(16, 26, "Times as fast", "title"),
            _text(_WIDTH / 2, height - 8, "logarithmic; right of 1x, Parley is faster", "soft", "middle"),
            *_legend(),
            *_grid(at + 6),
            *parts,
            "</svg>\n",
        ]
    )


def _x(ratio: float) -> float:
    position = (math.log10(ratio) - _LEAST) / (_MOST - _LEAST)
    return round(_LEFT + min(max(position, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT), 1)


def _bar(entry: Entry, at: int) -> list[str]:
    speed = entry.speed or 1.0
    kind = "limit" if entry.peer in LIMITS else "own" if entry.peer in _OWN else "peer"
    start, end = sorted((_x(1.0), _x(speed)))
    label = f"{speed:.2f}x" if speed < 10 else f"{speed:.0f}x"
    parts = [
        _text(_LEFT - 8, at + 13, entry.peer, "soft", "end"),
        f'<rect class="{kind}" x="{start}" y="{at + 2}" width="{max(end - start, 1.0):.1f}" height="14" rx="2"/>',
        _text(_WIDTH - 14, at + 13, label, "", "end"),
    ]
    goal = _goal_of(entry)
    if goal:
        x = _x(goal)
        parts.append(f'<line class="goal" x1="{x}" x2="{x}" y1="{at}" y2="{at + 18}"/>')
    return parts


def _goal_of(entry: Entry) -> float | None:
    """The goal on the scale, if it is one about the ratio."""
    if not entry.goal.endswith("x"):
        return None
    bound = float(entry.goal.split()[1].removesuffix("x"))
    return bound if entry.faster else 1 / bound


def _legend() -> list[str]:
    parts, x = list[str](), 140
    names = {"peer": "as a peer", "limit": "as a limit", "own": "as Parley otherwise"}
    for kind, name in names.items():
        parts += [
            f'<rect class="{kind}" x="{x}" y="16" width="11" height="11" rx="2"/>',
            _text(x + 16, 26, name, "soft"),
        ]
        x += 44 + 7 * len(name)
    return [*parts, f'<line class="goal" x1="{x}" x2="{x}" y1="13" y2="29"/>', _text(x + 7, 26, "goal", "soft")]


def _grid(bottom: int) -> list[str]:
    parts = []
    for power in range(_LEAST, _MOST + 1):
        x, value = _x(10.0**power), f"{10.0**power:g}x"
        kind = "even" if power == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 18, value, "soft", "middle"))
    return parts


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x}" y="{y}"{kind}{anchor}>{escape(text)}</text>'
