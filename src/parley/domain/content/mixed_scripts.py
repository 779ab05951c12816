"""Words that mix Latin letters with Cyrillic or Greek ones, which look alike.

The approver of a message must be able to tell an address with a Cyrillic letter from the one that it imitates, so these
words are pointed out.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

import re
import unicodedata
from typing import NamedTuple

# Letters with their marks: what a reader takes for one word.
_WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|[\u0300-\u036f])*")
_LATIN = "Latin"
_SCRIPTS = {"LATIN": _LATIN, "CYRILLIC": "Cyrillic", "GREEK": "Greek"}


class MixedWord(NamedTuple):
    """A word in several scripts, and where it is."""

    position: int
    length: int
    scripts: tuple[str, ...]


def mixed_words_in(text: str) -> list[MixedWord]:
    """Every word of a text that mixes Latin with Cyrillic or Greek, in order."""
    if text.isascii():
        return []
    words = []
    for match in _WORD.finditer(text):
        word = match[0]
        if not word.isascii():
            scripts = sorted({_script_of(letter) for letter in word} - {""})
            if _LATIN in scripts and len(scripts) > 1:
                words.append(MixedWord(match.start(), len(word), tuple(scripts)))
    return words


def _script_of(letter: str) -> str:
    return _SCRIPTS.get(unicodedata.name(letter, "").partition(" ")[0], "")
