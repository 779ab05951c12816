"""The top-level scalars of a small YAML file in the form that Parley writes, such as the card of an agent.

A hook reads cards at every event of a coding agent, and importing a full parser takes a quarter of its time. Like the
plain reader, this one declines with None what it is not sure of, and the strict reader decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.wire.yaml.plain import is_key, is_ordinary, unquote

if TYPE_CHECKING:
    from parley.domain.limits import Limits

_PLAIN_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/")
_EMPTY = frozenset({"[]", "{}", "null"})
_NULLS = frozenset({"null", "Null", "NULL"})
# A line has at most a key, a value, and the list or mapping that it begins; that is the third level.
_NODES_PER_LINE, _LEVELS = 3, 3
_INDENT = 2


def read_scalars(text: str, limits: Limits) -> dict[str, str] | None:
    """The texts of `key: value` lines at the top level, or None: let the strict reader look at it.

    Below a key without a value there may be lines indented by two: `- item` lines, or `key: value` lines, with `- item`
    lines indented by four below such a key without a value.
    """
    lines = text.split("\n")
    if not is_ordinary(text) or len(lines) * _NODES_PER_LINE > limits.yaml_nodes or limits.yaml_depth < _LEVELS:
        return None
    scalars: dict[str, str] = {}
    keys: set[str] = set()
    inner_keys: set[str] = set()
    # Whether lines of a mapping may follow, and how far items of a list would be indented.
    has_block, list_level = False, 0
    for line in lines:
        if not line or line[0] == "#":
            continue
        content = line.lstrip(" ")
        level = len(line) - len(content)
        if level and level == list_level and content[:2] == "- " and _scalar(content[2:]) is not None:
            has_block = has_block and level != _INDENT
            continue
        level_keys = keys if level == 0 else inner_keys
        key, colon, value = content.partition(":")
        if level not in (0, _INDENT) or (level and not has_block) or not colon or not is_key(key) or key in level_keys:
            return None
        if value and value[0] != " ":
            return None
        level_keys.add(key)
        list_level = 0 if value else level + _INDENT
        if level == 0:
            has_block = not value
            inner_keys = set()
        if not value or value[1:] in _EMPTY:
            continue
        scalar = _scalar(value[1:])
        if scalar is None:
            return None
        if level == 0:
            scalars[key] = scalar
    return scalars if keys else None


def _scalar(value: str) -> str | None:
    if value[:1] == '"':
        return unquote(value)
    if value[:1] not in _PLAIN_START or not value or value in _NULLS:
        return None
    return None if ": " in value or " #" in value or value[-1] in " :\t" or "\t" in value else value
