"""Characters that hide something from a reader: invisible ones, and those that turn the direction of others.

The approver of a message must see what its receiver will read, so these are spelled out.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

import unicodedata
from typing import NamedTuple

# Control, format, private use, surrogate, unassigned: none of them has a shape of its own.
_SHAPELESS = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
# Spaces and letters that look like nothing, and marks that choose how the character before them looks.
_BLANK = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159")
_PLAIN = frozenset("\n\t")


class Hidden(NamedTuple):
    """A character, and where it is."""

    position: int
    code_point: str
    name: str


def is_hidden(character: str) -> bool:
    """Whether a reader cannot see this character for what it is."""
    if character in _PLAIN:
        return False
    category = unicodedata.category(character)
    if category in _SHAPELESS or character in _BLANK:
        return True
    if category == "Zs":
        return character != " "
    return category in ("Zl", "Zp") or "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def hidden_in(text: str) -> list[Hidden]:
    """Every such character of a text, in order."""
    if text.isascii() and text.isprintable():
        return []
    return [
        Hidden(position, f"U+{ord(character):04X}", unicodedata.name(character, "CONTROL"))
        for position, character in enumerate(text)
        if is_hidden(character)
    ]


def made_visible(text: str) -> str:
    """The text with every such character spelled as its code point between angle brackets."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([f"⟨U+{ord(character):04X}⟩" if is_hidden(character) else character for character in text])
