"""The plain form of a message file, read line by line.

Nearly every message file is written as `key: value` lines and `|` blocks. Those are read here several times faster
than by a full parser, and without importing one. The rule that keeps this honest: this reader refuses nothing and
guesses nothing. Whatever it is not sure of (escapes it does not know, comments, flow mappings, anchors, odd
indentation, repeated keys, control characters) it declines with None, and the strict reader decides. Where it
answers, it answers what the strict reader would; a property test holds the two together.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.domain.limits import Limits

# C0, DEL and C1 controls, the other line breaks of YAML 1.1, the byte order mark, surrogates and non-characters.
_ODD = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
_ORDINARY_ASCII = bytes([9, 10, *range(32, 127)])
_PLAIN_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/")
_NULLS = frozenset({"null", "Null", "NULL"})
_KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
# Seldom needed, so `re` compiles these when they are first used.
_QUOTED = r'"((?:[^"\\]|\\["\\/bfnrt0]|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U000[0-9A-Fa-f]{5})*)"\Z'
_ESCAPE = r"\\(?:([\"\\/bfnrt0])|x(..)|u(....)|U(........))"
_FLOW_LIST = r'\[(?:"[^"\\]*"|[A-Za-z][A-Za-z0-9_.-]*)(?:, (?:"[^"\\]*"|[A-Za-z][A-Za-z0-9_.-]*))*\]\Z'
_CHARACTERS = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "0": "\0",
}

Plain = dict[str, str | list[str] | None]


def read_plain(text: str, limits: Limits) -> Plain | None:
    """The fields of a file in the plain form, or None: let the strict reader look at it."""
    if not text.endswith("\n") or not is_ordinary(text):
        return None
    lines = text.split("\n")
    end = len(lines) - 1
    fields: Plain = {}
    index = items_read = 0
    while index < end:
        key, colon, value = lines[index].partition(": ")
        index += 1
        # A line that goes on with a scalar of the line before is no key, so it is declined here, too.
        if not colon or key in fields or not is_key(key):
            return None
        first = value[:1]
        if first in _PLAIN_START and first:
            if ": " in value or " #" in value or value[-1] in " :\t" or value in _NULLS or "\t" in value:
                return None
            fields[key] = value
        elif first == '"':
            scalar = unquote(value)
            if scalar is None:
                return None
            fields[key] = scalar
        elif value in {"|", "|-"}:
            stop = _block_end(lines, index, end)
            if stop is None:
                return None
            block = "\n".join([line[2:] for line in lines[index:stop]]).rstrip("\n")
            fields[key] = block + "\n" if value == "|" else block
            index = stop
        elif first == "[" and re.match(_FLOW_LIST, value):
            items = [item.strip('"') if item[0] == '"' else item for item in _items(value)]
            if any(item in _NULLS for item in items):
                return None
            fields[key] = list(items)
            items_read += len(items)
        else:
            return None
    # The strict reader counts the mapping, its keys, its values and their items; a list is the second level.
    nodes = 1 + 2 * len(fields) + items_read
    if nodes > limits.yaml_nodes or (items_read and limits.yaml_depth < 2):
        return None
    return fields or None


def is_blank(text: str) -> bool:
    """Whether there is nothing in a file but space and comments."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.split("\n"))


def is_ordinary(text: str) -> bool:
    """Whether a text is free of characters that readers could take for something else."""
    if text.isascii():
        # Several times faster than a search for the others.
        return not text.encode().translate(None, _ORDINARY_ASCII)
    return re.search(_ODD, text) is None


@lru_cache(256)
def is_key(text: str) -> bool:
    """Whether a text is a key that no reader could take for something else."""
    return 1 <= len(text) <= 64 and "a" <= text[0] <= "z" and _KEY_CHARACTERS.issuperset(text)


def unquote(value: str) -> str | None:
    """The text between double quotes, or None when it takes more to understand it."""
    if "\\" not in value:
        return value[1:-1] if value.find('"', 1) == len(value) - 1 > 0 else None
    match = re.match(_QUOTED, value)
    if match is None:
        return None
    text = re.sub(_ESCAPE, _character, match[1])
    return None if any("\ud800" <= character <= "\udfff" for character in text) else text


def _character(match: re.Match[str]) -> str:
    letter, *codes = match.groups()
    return _CHARACTERS[letter] if letter else chr(int(next(code for code in codes if code), 16))


def _block_end(lines: list[str], start: int, end: int) -> int | None:
    """Where a block indented by two ends; None when its indentation is not plainly two."""
    first = lines[start]
    if first[:2] != "  " or first[2:3] in {"", " ", "\t"}:
        return None
    stop = start
    while stop < end and (lines[stop][:2] == "  " or not lines[stop]):
        stop += 1
    return stop


def _items(value: str) -> list[str]:
    return re.findall(r'"[^"]*"|[A-Za-z][A-Za-z0-9_.-]*', value[1:-1])
