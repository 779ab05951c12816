"""JSON that means one thing: no field twice, nothing too deep or too long, no text that others cannot read.

The decoder in C takes the last of two equal keys without a word. So the keys are counted twice, in the text and in what
was decoded: where the numbers differ, one was given twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Self

import msgspec

from parley.domain.errors.errors import DuplicateKey, Invalid, Problem, TooDeep
from parley.domain.errors.team import Malformed

# A whole string, and the colon that makes it a key.
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"([ \t\r\n]*:)?', re.DOTALL)
_LONGEST_INTEGER = 10**20
_UNWANTED = ("\x00", "\ufeff")


class JsonLimits(NamedTuple):
    """What one document may hold; the document itself is depth 1."""

    depth: int = 33
    keys: int = 1_100
    string_bytes: int = 64 * 1024


DEFAULT = JsonLimits()


def parse(content: bytes, limits: JsonLimits = DEFAULT) -> object:
    """The document, or `Malformed` for what is no JSON and `Invalid` for what cannot be accepted."""
    try:
        document: object = msgspec.json.decode(content)
    except RecursionError:
        raise TooDeep(f"the document is nested more than {limits.depth} deep") from None
    except msgspec.ValidationError as error:
        raise Invalid.because([Problem("invalid", "", str(error))]) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Malformed("the body is not valid JSON in UTF-8") from None
    colons = content.count(b":")
    plain = colons <= limits.keys and _is_plain(content, limits)
    keys = _count_plain(document) if plain else _Count(limits).walk(document, 1).keys
    # A text with as many colons as there are keys has no room for a second key of one name.
    if keys and colons != keys and _keys_in(content) != keys:
        raise DuplicateKey("a field is given twice")
    return document


def _keys_in(content: bytes) -> int:
    """How many keys there are in a text that is known to be JSON."""
    if b"\\" not in content:
        # Every second piece is a string, and what follows it says whether it was a key.
        return sum([after.lstrip()[:1] == b":" for after in content.split(b'"')[2::2]])
    strings = _STRINGS.findall(content)
    return len(strings) - strings.count(b"")


def _is_plain(content: bytes, limits: JsonLimits) -> bool:
    """Whether a text with few keys shows that no limit can be passed and no unwanted character can be in it."""
    return (
        len(content) <= limits.string_bytes
        and content.count(b"{") + content.count(b"[") <= limits.depth
        and b"\\u" not in content
        and b"\x00" not in content
        and b"\xef\xbb\xbf" not in content
    )


def _count_plain(document: object) -> int:
    """The keys of a document in which only a number can still be wrong."""
    keys = 0
    left = [document]
    for value in left:
        kind = type(value)
        if kind is str:
            continue
        if kind is dict:
            keys += len(value)  # type: ignore[arg-type]
            left += value.values()  # type: ignore[attr-defined]
        elif kind is list:
            left += value  # type: ignore[arg-type]
        elif kind is int:
            _check_integer(value)  # type: ignore[arg-type]
    return keys


def _check_integer(value: int) -> None:
    if not -_LONGEST_INTEGER < value < _LONGEST_INTEGER:
        raise Invalid.because([Problem("too_large", "", "an integer has at most 20 digits")])


class _Count:
    """Counts keys and measures on the way down."""

    __slots__ = ("_limits", "keys")

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self.keys = 0

    def walk(self, value: object, depth: int) -> Self:
        kind = type(value)
        if kind is str:
            self._text(value)  # type: ignore[arg-type]
        elif kind is dict:
            self._nested(depth)
            self.keys += len(value)  # type: ignore[arg-type]
            if self.keys > self._limits.keys:
                raise Invalid.because([Problem("too_many", "", f"more than {self._limits.keys} keys")])
            for key, item in value.items():  # type: ignore[attr-defined]
                self._text(key)
                self.walk(item, depth + 1)
        elif kind is list:
            self._nested(depth)
            for item in value:  # type: ignore[attr-defined]
                self.walk(item, depth + 1)
        elif kind is int:
            _check_integer(value)  # type: ignore[arg-type]
        return self

    def _nested(self, depth: int) -> None:
        if depth > self._limits.depth:
            raise TooDeep(f"the document is nested more than {self._limits.depth} deep")

    def _text(self, text: str) -> None:
        if len(text) * 4 > self._limits.string_bytes and len(text.encode()) > self._limits.string_bytes:
            raise Invalid.because([Problem("too_large", "", f"a text has at most {self._limits.string_bytes} bytes")])
        if not text.isprintable() and any(character in text for character in _UNWANTED):
            raise Invalid.because([Problem("invalid", "", "a text holds NUL or a byte order mark")])
