"""The drawing of traffic: names on a circle, and a curve for each way that messages went.

Plain curves are delivered messages, dashed ones held, dotted ones denied. The matrix has the numbers.
"""

from __future__ import annotations

from math import cos, pi, sin
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from parley.surfaces.console.html import Html, h

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.surfaces.console.visit import Document

_WIDTH, _HEIGHT, _RADIUS, _DOT = 420, 400, 140, 13
_LABEL_MAX = 16
_HUES = 10
# How far curves bend, in pixels: the two directions, and the kinds of one, must not lie on each other.
_BENDS = {"delivered": 24, "held": 44, "denied": 62}
# Delivered messages from which on a curve is thicker.
_THICK = (10, 100)


class _Place(NamedTuple):
    x: float
    y: float


def drawing(pairs: list[Document], names: list[str]) -> Html:
    """The whole drawing; what it shows is in the matrix, too."""
    places = {name: _place(number, len(names)) for number, name in enumerate(names)}
    curves = [
        _curve(places[pair["from"]], places[pair["to"]], kind, pair[kind])
        for pair in pairs
        if pair["from"] in places and pair["to"] in places and pair["from"] != pair["to"]
        for kind in _BENDS
        if pair[kind]
    ]
    legend = h("p", "Plain: delivered. Dashed: held. Dotted: denied.", class_="muted")
    svg = h(
        "svg", curves, _nodes(places), viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
        aria_label="Who talked to whom, drawn; the matrix has the numbers",
    )  # fmt: skip
    return h("div", svg, legend, class_="drawing")


def _place(number: int, size: int) -> _Place:
    angle = 2 * pi * number / size - pi / 2
    return _Place(_WIDTH / 2 + _RADIUS * cos(angle), _HEIGHT / 2 + _RADIUS * sin(angle))


def _curve(start: _Place, end: _Place, kind: str, count: int) -> Html:
    """A curve that bends to the left of its direction, with a dot where it arrives."""
    dx, dy = end.x - start.x, end.y - start.y
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    bend = _BENDS[kind]
    middle = _Place((start.x + end.x) / 2 + bend * dy / length, (start.y + end.y) / 2 - bend * dx / length)
    # It ends at the edge of the receiver's dot, coming from the bend.
    back = ((end.x - middle.x) ** 2 + (end.y - middle.y) ** 2) ** 0.5 or 1.0
    tip = _Place(end.x - (end.x - middle.x) * (_DOT + 3) / back, end.y - (end.y - middle.y) * (_DOT + 3) / back)
    thickness = 1 + sum(count >= limit for limit in _THICK)
    path = f"M{start.x:.1f} {start.y:.1f}Q{middle.x:.1f} {middle.y:.1f} {tip.x:.1f} {tip.y:.1f}"
    arrival = h("circle", cx=f"{tip.x:.1f}", cy=f"{tip.y:.1f}", r=3)
    return h("g", h("path", d=path), arrival, class_=f"flow {kind} w{thickness}")


def _nodes(places: Mapping[str, _Place]) -> list[Html]:
    return [_node(name, place) for name, place in places.items()]


def _node(name: str, place: _Place) -> Html:
    label = name if len(name) <= _LABEL_MAX else f"{name[: _LABEL_MAX - 1]}…"
    below = place.y > _HEIGHT / 2
    y = place.y + (_DOT + 16 if below else -_DOT - 6)
    dot = h("circle", cx=f"{place.x:.1f}", cy=f"{place.y:.1f}", r=_DOT, class_=f"f{crc32(name.encode()) % _HUES}")
    return h("g", dot, h("text", label, x=f"{place.x:.1f}", y=f"{y:.1f}", text_anchor="middle"), h("title", name))
