"""Wording: words in a text, however they are spelt.

    Schedule  SCHEDULING  rescheduled  scheduleReview  schedule_review  "schedule":     forms, keys, JSON as it is
    s c h e d u l e   s.c.h.e.d.u.l.e   sche-dule   5chedu1e   scheduIe                letters apart or replaced
    look-alikes, accents, invisible signs, signs from right to left, hidden tags        see `unicode_folding`
    c2NoZWR1bGU=                                                                        Base64

A word that only contains another is none of its forms. Every pass takes the text once and does as much work for one
sign as for the next, so no text is slow. Most texts hold nothing, and are let go after the first glance.
"""

# Annotations are evaluated here: from text, a NamedTuple would compile each of them at every start.

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from parley.domain.content.unicode_folding import folded, normalised


class Vocabulary(NamedTuple):
    """Words, and what they are found by. Letters that look alike are one in all of it: see `_alike`."""

    words: tuple[str, ...]
    # Every form, and the word that it is one of.
    forms: dict[bytes, str]
    # What all forms of a word begin with: where none of these is among the letters, no form is.
    stems: dict[str, str]
    # What a policy may have besides: several words in a row, and what is not written in Latin letters.
    phrases: tuple[tuple[bytes, str], ...] = ()
    literals: tuple[tuple[str, str], ...] = ()


def vocabulary(forms: Mapping[str, str]) -> Vocabulary:
    """Words with all their forms, parted by spaces. To do it again is to do it: + is for a form that "re" precedes."""
    words_by_form = {}
    for word, spellings in forms.items():
        for form in spellings.split():
            words_by_form[_alike(form.lstrip("+"))] = word
            if form.startswith("+"):
                words_by_form[_alike(f"re{form[1:]}")] = word
    stems = {_alike(_stem(word)): word for word in forms}
    return Vocabulary(tuple(forms), {form.encode(): word for form, word in words_by_form.items()}, stems)


def with_words(vocabulary: Vocabulary, extra: tuple[str, ...]) -> Vocabulary:
    """And more: whole words with regular endings, phrases, and words in another script wherever they stand."""
    forms, stems = dict(vocabulary.forms), dict(vocabulary.stems)
    phrases, literals = [], []
    for word in extra:
        plain = normalised(word)
        parts = plain.translate(_HYPHENS).split()
        if not parts:
            continue
        if not all(part.isascii() and part.isalpha() for part in parts):
            literals.append((plain.strip(), word))
        elif len(parts) > 1:
            phrases.append((_alike(f" {' '.join(parts)} ").encode(), word))
        else:
            stems.setdefault(_alike(_stem(parts[0])), word)
            for form in _regular(parts[0]):
                forms.setdefault(_alike(form).encode(), word)
    words = tuple(dict.fromkeys(vocabulary.words + extra))
    return Vocabulary(words, forms, stems, tuple(phrases), tuple(literals))


def words_in(texts: Iterable[str], vocabulary: Vocabulary) -> set[str]:
    """Which words these texts hold in any of their forms."""
    words: set[str] = set()
    for text in texts:
        _look(text, vocabulary, words)
    return words


def _alike(word: str) -> str:
    """A capital I, a small l and a 1 are one stroke in many fonts."""
    return word.replace("l", "i")


def _stem(word: str) -> str:
    """approv is in approve, approval and approving; agree is in agreed."""
    return word[:-1] if word[-1] in "ey" and not word.endswith("ee") else word


def _regular(word: str) -> list[str]:
    stem = _stem(word)
    return [
        word,
        *[word + end for end in ("s", "es", "d", "ed", "ing")],
        *[stem + end for end in ("ing", "ies", "ied")],
    ]


_HYPHENS = {ord("-"): " ", ord("_"): " "}


# ---------------------------------------------------------------- looking


_SMALL = b"abcdefghijklmnopqrstuvwxyz"
_LARGE = _SMALL.upper()
_DIGITS = b"0123456789"


def _table(**signs: str) -> bytes:
    """Letters to small ones that are alike, and each of these signs to its letter; all else parts words."""
    table = bytearray(b" " * 256)
    for letter in _SMALL.decode("ascii"):
        for sign in letter + letter.upper() + signs.get(letter, ""):
            table[ord(sign)] = ord(_alike(letter))
    return bytes(table)


def _only(signs: bytes, **classes: bytes) -> bytes:
    """These signs as they are, those of a class to its name; all else parts words."""
    table = bytearray(b" " * 256)
    for sign in signs:
        table[sign] = sign
    for name, members in classes.items():
        for sign in members:
            table[sign] = ord(name)
    return bytes(table)


_LETTERS = _table()
# Digits and signs that stand for a letter.
_LEET = _table(a="4@", b="8", e="3", g="9", i="1", o="0", s="5$", t="7")
_NO_LETTER = bytes([sign for sign in range(256) if _LEET[sign] == ord(" ")])
# What people put inside a word: it looks like one still. Control characters are not even seen.
_GLUE = b"-_.*~`" + bytes([sign for sign in (*range(32), 127) if sign not in b"\t\n\v\f\r"])
_SHAPES = _only(b"", U=_LARGE + _DIGITS, l=_SMALL)
# A capital or a digit after a small letter, or two before one: scheduleReview, HTTPCommit.
_HUMPS = ("lU", "UUl")
# Base64 of a word has one, too, or many capitals and digits in a row.
_BASE64 = ("lU", "UUUUUU")
_BASE64_ONLY = _only(_LARGE + _SMALL + _DIGITS + b"+/-_")
_THREE_SPACES = b"ICAg"
_CAPITALS = [bytes([sign]) for sign in _LARGE]
_ALL_CAPITALS = re.compile(rb"[A-Z]{4,}(?![a-z])")
# One word however it is written; by its capitals, it would be two.
_ONE_WORD = re.compile(
    rb"(?:[Aa]ddress|[Cc]hrome|[Cc]ode|[Cc]ook|[Ff]ace|[Gg]uide|[Hh]and|[Ll]og|[Mm]ac|[Nn]et|[Nn]ote|[Oo]rder|[Pp]hone"
    rb"|[Pp]lay|[Qq]uick|[Rr]un|[Ss]tory|[Tt]ext|[Ww]ork)Books?(?![a-z])"
)
# Four letters, each alone.
_APART = b" x x x x "
_ANY_LETTER = _only(b"", x=_SMALL)
_RUNS = re.compile(rb"(?<= )[a-z] (?:[a-z] ){3,}")
_HIDDEN = re.compile("[\U000e0020-\U000e007e]")
_REVERSED = "\u202e"


def _look(text: str, vocabulary: Vocabulary, words: set[str]) -> None:
    plain = folded(text)
    raw = plain.encode("ascii", "replace")
    letters = raw.translate(_LEET, _NO_LETTER).decode("ascii")
    shape = raw.translate(_SHAPES).decode("ascii")
    for stem in vocabulary.stems:
        if stem in letters:
            _read(plain, raw, shape, vocabulary, words)
            break
    if _BASE64[0] in shape or _BASE64[1] in shape:
        words.update(_forms_in(_decoded(raw).translate(_LETTERS).split(), vocabulary))
    if vocabulary.phrases:
        row = b" %b " % b" ".join(raw.translate(_LETTERS).split())
        words.update([word for phrase, word in vocabulary.phrases if phrase in row])
    if vocabulary.literals:
        small = plain.lower()
        words.update([word for literal, word in vocabulary.literals if literal in small])
    if plain is not text:
        _look_behind(text, vocabulary, words)


def _look_behind(text: str, vocabulary: Vocabulary, words: set[str]) -> None:
    """Text that is displayed from right to left, or written in invisible characters."""
    if _REVERSED in text:
        _look(text.replace(_REVERSED, "")[::-1], vocabulary, words)
    hidden = "".join([chr(ord(sign) - 0xE0000) for sign in _HIDDEN.findall(text)])
    if hidden:
        _look(hidden, vocabulary, words)


def _read(plain: str, raw: bytes, shape: str, vocabulary: Vocabulary, found_words: set[str]) -> None:
    """Word by word: as they stand, with signs for letters, with signs inside, with capitals inside, letters apart."""
    for letters in {raw.translate(_LETTERS), raw.translate(_LEET)}:
        words = letters.split()
        found_words.update(_forms_in(words, vocabulary))
        row = b" %b " % b" ".join(words)
        if _APART in row.translate(_ANY_LETTER):
            spelt = b"|".join(_RUNS.findall(row)).replace(b" ", b"").decode("ascii")
            found_words.update([word for stem, word in vocabulary.stems.items() if stem in spelt])
    together = plain.encode("ascii", "ignore").translate(_LEET, _GLUE)
    if len(together) != len(plain):
        found_words.update(_forms_in(together.split(), vocabulary))
    if _HUMPS[0] in shape or _HUMPS[1] in shape:
        humps = _ONE_WORD.sub(b" ", raw) if b"Book" in raw else raw
        for capital in _CAPITALS:
            humps = humps.replace(capital, b" " + capital)
        humps = b" ".join([humps, *_ALL_CAPITALS.findall(raw)])
        found_words.update(_forms_in(humps.translate(_LETTERS).split(), vocabulary))


def _forms_in(words: list[bytes], vocabulary: Vocabulary) -> list[str]:
    forms = vocabulary.forms
    return [forms[form] for form in forms.keys() & words]


def _decoded(raw: bytes) -> bytes:
    """What the tokens of a text hold if they are Base64, one after the other. Six characters hold four letters."""
    from base64 import b64decode  # only for those who have some

    tokens = raw.translate(_BASE64_ONLY).split()
    whole = [token + b"AAA"[: -len(token) % 4] for token in tokens if len(token) >= 6 and not token.islower()]
    return b64decode(_THREE_SPACES.join(whole), altchars=b"-_")
