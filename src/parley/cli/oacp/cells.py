"""Text from messages on a terminal, made harmless and laid out as the OACP tool does."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 200
# Controls, formats, surrogates and the other line breaks: what a terminal might act on.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def cell(text: str) -> str:
    """`text` on one line of at most 200 characters, safe between the bars of a table."""
    cut = _without_controls(text[:_MOST]).replace("|", "\\|")
    return cut[: _MOST - 3] + "..." if len(text) > _MOST or len(cut) > _MOST else cut


def harmless(text: str) -> str:
    """`text` with its line breaks and tabs, but without anything else that a terminal might act on."""
    return "\n".join("\t".join(map(_without_controls, line.split("\t"))) for line in text.split("\n"))


def _without_controls(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join("?" if unicodedata.category(character) in _UNSAFE else character for character in text)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table whose columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    rule = "|-" + "-|-".join("-" * width for width in widths) + "-|"
    return [_line(heads, widths), rule, *(_line(row, widths) for row in rows)]


def _line(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)) + " |"
