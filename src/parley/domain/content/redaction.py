"""What a body holds: every text in it, and what is left when data that may not pass is taken out."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from parley.domain.content.classification import DataItem

REDACTED = "[redacted]"


def texts_of(value: object) -> Iterator[str]:
    """All texts in a value in their order, the keys of its mappings among them: a commitment may hide in either.

    Numbers are texts, too: that of a card may come without quotes. A choice from a list of ours can hold nothing else.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Enum) or item is None:
            continue
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            for key, inner in reversed(item.items()):
                waiting += (inner, _Key(key)) if isinstance(key, str) else (inner,)
        elif isinstance(item, (list, tuple)):
            waiting.extend(reversed(item))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)


def text_of(value: object) -> str:
    """All texts in a value as one, each on its line: what is spread over several of them is found, too."""
    return "\n".join([f"{text}:" if type(text) is _Key else text for text in texts_of(value)])


def without_names(texts: Iterable[str], names: Iterable[str]) -> list[str]:
    """The texts without these names where they stand as parts of their own, as in msg-20260313T1430Z-NAME-a8f3."""
    texts = list(texts)
    spelled = "|".join([re.escape(name) for name in names if name and any(name in text for text in texts)])
    if not spelled:
        return texts
    named = re.compile(rf"(?<![0-9A-Za-z])(?:{spelled})(?![0-9A-Za-z])")
    return [named.sub("", text) for text in texts]


class _Key(str):
    """A text that names what follows it."""

    __slots__ = ()


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
