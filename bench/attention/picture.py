"""The times from `send` to the model as a picture: for each situation the range from best to p95, and the median.

SVG by hand: text, rectangles and lines. Colours follow the reader's theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.attention.record import Latency
from bench.attention.waking import in_order

_WIDTH = 700
_LEFT, _RIGHT, _TOP, _ROW = 218, 76, 58, 24
_GOAL_SECONDS = 0.5
# The axis ends at the next half second after the slowest p95, and not before this.
_LEAST_AXIS_SECONDS = 1.0
_SVG = "http://www.w3.org/2000/svg"
_LABEL = "Seconds from parley send to the first request to the model that tells of the message"
_NAMES = {"claude": "Claude Code", "codex": "Codex CLI", "gemini": "Gemini CLI", "opencode": "OpenCode"}
_STYLE = """
  text { font: 12.5px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2933; }
  .back { fill: #ffffff; } .title { font-size: 15px; font-weight: 600; }
  .soft { fill: #52606d; } .grid { stroke: #d8dee6; }
  .idle { fill: #2c6fb3; } .busy { fill: #b9770e; } .median { stroke: #1f2933; stroke-width: 3; }
  .goal { stroke: #c0392b; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e9ef; } .back { fill: #14191f; } .soft { fill: #a5b1be; } .grid { stroke: #303a45; }
    .idle { fill: #5aa0e6; } .busy { fill: #e0a33e; } .median { stroke: #ffffff; } .goal { stroke: #ff7b6b; }
  }
"""


def draw(latencies: Sequence[Latency]) -> str:
    """An SVG of all situations in which a message arrived."""
    bars = [latency for latency in in_order(latencies) if latency.seconds]
    longest = max((latency.percentile(0.95) for latency in bars), default=0.0)
    axis = max(-(-longest * 2 // 1) / 2, _LEAST_AXIS_SECONDS)
    bottom = _TOP + _ROW * len(bars)
    height = bottom + 40
    return "\n".join(
        [
            f'<svg xmlns="{_SVG}" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_LABEL}">',
            f"<style>{_STYLE}</style>",
            f'<rect class="back" width="{_WIDTH}" height="{height}" rx="10"/>',
            _text(16, 26, "Send to model", "title"),
            *_legend(),
            *_grid(axis, bottom),
            *(part for number, bar in enumerate(bars) for part in _bar(bar, axis, _TOP + _ROW * number)),
            "</svg>\n",
        ]
    )


def _x(seconds: float, axis: float) -> float:
    return round(_LEFT + min(seconds / axis, 1.0) * (_WIDTH - _LEFT - _RIGHT), 1)


def _bar(latency: Latency, axis: float, at: int) -> list[str]:
    start, end = _x(latency.seconds[0], axis), _x(latency.percentile(0.95), axis)
    middle = _x(latency.percentile(0.5), axis)
    name = _NAMES[latency.program] + (f", {latency.way}" if latency.way == "parley run" else "")
    width = f"{max(end - start, 2.0):.1f}"
    return [
        _text(_LEFT - 8, at + 15, name, "soft", "end"),
        f'<rect class="{latency.state}" x="{start}" y="{at + 4}" width="{width}" height="14" rx="2"/>',
        f'<line class="median" x1="{middle}" x2="{middle}" y1="{at + 2}" y2="{at + 20}"/>',
        _text(_WIDTH - 14, at + 15, f"{latency.percentile(0.5):.2f} s", "", "end"),
    ]


def _legend() -> list[str]:
    parts, x = list[str](), 168
    for kind, name in {"idle": "idle, best to p95", "busy": "busy, best to p95"}.items():
        parts += [
            f'<rect class="{kind}" x="{x}" y="16" width="11" height="11" rx="2"/>',
            _text(x + 16, 26, name, "soft"),
        ]
        x += 142
    for kind, name in {"median": "median", "goal": "goal when idle"}.items():
        parts += [f'<line class="{kind}" x1="{x}" x2="{x}" y1="13" y2="29"/>', _text(x + 8, 26, name, "soft")]
        x += 72
    return parts


def _grid(axis: float, bottom: int) -> list[str]:
    step = 0.25 if axis <= 2 else 1.0
    parts = []
    for number in range(int(axis / step) + 1):
        seconds = number * step
        x = _x(seconds, axis)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom + 6}"/>')
        parts.append(_text(x, bottom + 24, f"{seconds:g} s", "soft", "middle"))
    x = _x(_GOAL_SECONDS, axis)
    return [*parts, f'<line class="goal" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom + 6}"/>']


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x}" y="{y}"{kind}{anchor}>{escape(text)}</text>'
