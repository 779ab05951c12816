"""Strict JSON means what the standard library reads, with no key twice; everything else is refused by its class."""

from __future__ import annotations

import json

from parley.domain.errors.errors import ParleyError
from parley.wire.json_strict import JsonLimits, parse

LIMITS = JsonLimits(depth=8, keys=40, string_bytes=512)


class Twice(Exception):
    """A key is given twice."""


def check(data: bytes) -> None:
    try:
        ours = parse(data, LIMITS)
    except ParleyError:
        return
    theirs = json.loads(data.decode("utf-8"), object_pairs_hook=_pairs)
    assert _same(ours, theirs), "the standard library reads something else"


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise Twice
    return dict(pairs)


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    # A number that has neither point nor exponent is an integer for both.
    return ours == theirs and (type(ours) is type(theirs) or isinstance(ours, (int, float)))
