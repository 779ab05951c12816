"""The one YAML form Parley writes, chosen because every YAML reader agrees on what it means.

A scalar is double-quoted on one physical line, or, when it has several plain lines, a `|` block indented by two.
Lists of texts are in flow style. No anchors, tags, folding or document marks; UTF-8 and LF.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.domain.message.message import Value

# Everything that some reader would not take literally inside double quotes.
_ESCAPED = '[\x00-\x1f"\\\\\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]'
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_BARE_KEY = r"[A-Za-z_][A-Za-z0-9_-]*\Z"
# Words that YAML readers take for something else than text.
_TYPED_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_NOT_IN_BLOCK = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"


def quoted(text: str) -> str:
    """`text` between double quotes on one line."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{re.sub(_ESCAPED, _escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT.get(character) or (f"\\x{ord(character):02x}" if character < "\x80" else f"\\u{ord(character):04x}")


def fits_block(text: str) -> bool:
    """Whether every reader gives back exactly `text` from a `|` block."""
    return (
        "\n" in text.rstrip("\n")
        and not text[0].isspace()
        and not text.endswith("\n\n")
        and re.search(_NOT_IN_BLOCK, text) is None
        and all(line.strip(" ") or not line for line in text.split("\n"))
    )


def scalar(text: str) -> str:
    """`text` as it stands after `key: `, without the final newline."""
    if not fits_block(text):
        return quoted(text)
    mark, body = ("|", text[:-1]) if text.endswith("\n") else ("|-", text)
    lines = "\n".join(f"  {line}" if line else "" for line in body.split("\n"))
    return f"{mark}\n{lines}"


def mapping_text(fields: Mapping[str, Value]) -> str:
    """A mapping as YAML text; numbers and booleans bare, so that readers see their type."""
    return "".join(_field(key, value, "") for key, value in fields.items())


def _field(key: str, value: Value, indent: str) -> str:
    name = key if re.match(_BARE_KEY, key) and key.lower() not in _TYPED_WORDS else quoted(key)
    if isinstance(value, dict) and value:
        inner = "".join(_field(str(k), v, indent + "  ") for k, v in value.items())
        return f"{indent}{name}:\n{inner}"
    if isinstance(value, str) and fits_block(value):
        return f"{indent}{name}: " + scalar(value).replace("\n  ", f"\n{indent}  ") + "\n"
    return f"{indent}{name}: {flow(value)}\n"


def flow(value: Value) -> str:
    """`value` on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return "{" + ", ".join(f"{quoted(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
