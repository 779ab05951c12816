"""What a body holds: every text in it, and what is left when data that may not pass is taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley.domain.content.classification import DataItem

REDACTED = "[redacted]"


def texts_of(value: object) -> Iterator[str]:
    """All texts in a value, the keys of its mappings among them: a commitment may hide in either.

    Numbers are texts, too: that of a card may come without quotes.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from (key for key in item if isinstance(key, str))
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)


def without(body: dict[str, Any], items: tuple[DataItem, ...], *, redact: bool) -> dict[str, Any]:
    """The body without the fields of these items, or with nothing in them. Other parts are the very same objects."""
    return _without(body, _paths(items), redact=redact)


class _Paths(dict[str, "_Paths"]):
    """Paths that begin alike, as one tree: a body is gone through once, however many there are."""

    ends = False


def _paths(items: tuple[DataItem, ...]) -> _Paths:
    root = _Paths()
    for item in items:
        for path in item.fields:
            place = root
            for part in path.split("."):
                place = place.setdefault(part, _Paths())
            place.ends = True
    return root


def _without(body: dict[str, Any], paths: _Paths, *, redact: bool) -> dict[str, Any]:
    # A key may hold dots itself, so a path has several readings. What may not pass is taken out by all of them.
    left: dict[str, Any] = {}
    for key, value in body.items():
        place: _Paths | None = paths
        for part in key.split("."):
            place = place.get(part) if place is not None else None
        if place is None:
            left[key] = value
        elif not place.ends:
            left[key] = _within(value, place, redact=redact)
        elif redact:
            left[key] = REDACTED
    return left


def _within(value: object, paths: _Paths, *, redact: bool) -> object:
    """In a list a path goes on in each of its elements."""
    if isinstance(value, dict):
        return _without(value, paths, redact=redact)
    if isinstance(value, list):
        return [_within(item, paths, redact=redact) for item in value]
    return value
