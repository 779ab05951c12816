"""Numbers over time as small lines, drawn by the server as SVG: no script, no inline style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.html import h

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.surfaces.console.html import Html

_WIDTH = 120
_HEIGHT = 24
# The line is two units wide and stays inside the picture.
_MARGIN = 2


def sparkline(values: Sequence[int], steps: int, about: str) -> Html:
    """The newest values at the right end; `steps` fill the whole width. `about` says the same in words."""
    newest = values[-steps:]
    return h(
        "svg",
        h("path", d=f"M0 {_HEIGHT - 1}H{_WIDTH}", class_="base"),
        h("path", d=_path(newest, steps), class_="line"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=_WIDTH, height=_HEIGHT, preserveAspectRatio="none", role="img",
        aria_label=about, class_="spark",
    )  # fmt: skip


def _path(values: Sequence[int], steps: int) -> str:
    """A line through the values; the highest touches the top. A single value is a short line: a point is not drawn."""
    if not values:
        return ""
    highest = max(values) or 1
    across = _WIDTH / max(steps - 1, 1)
    first = steps - len(values)
    points = [
        f"{(first + number) * across:.1f} {_MARGIN + (_HEIGHT - 2 * _MARGIN) * (1 - value / highest):.1f}"
        for number, value in enumerate(values)
    ]
    return f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h-{across:.1f}"
