"""Wording: words in a text, however they are spelt.

    Schedule  SCHEDULING  rescheduled  scheduleReview  schedule_review  "schedule":     forms, keys, JSON as it is
    s c h e d u l e   s.c.h.e.d.u.l.e   sche-dule   5chedu1e   scheduIe                letters apart or replaced
    sche/dule   sche''dule   sche<b>dule</b>   (ommit                                   signs inside, signs for letters
    look-alikes, accents, invisible signs, signs from right to left, hidden tags        see `unicode_folding`
    c2NoZWR1bGU=  7363686564756c65                                                      Base64, hexadecimal

A word that only contains another is none of its forms. Every pass takes the text once and does as much work for one
sign as for the next, so no text is slow. Most texts hold nothing, and are let go after the first glance.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from parley.domain.content.display_order import displayed
from parley.domain.content.encodings import decoded
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
    """Words with all their forms, parted by spaces. To do it again, too early or too often is to do it: + is for a form
    that such a prefix may precede.
    """
    words_by_form = {}
    for word, spellings in forms.items():
        for form in spellings.split():
            for prefix in ("", *_PREFIXES) if form.startswith("+") else ("",):
                words_by_form[_alike(prefix + form.lstrip("+"))] = word
    stems = {_alike(_stem(word)): word for word in forms}
    return Vocabulary(tuple(forms), {form.encode(): word for form, word in words_by_form.items()}, stems)


_PREFIXES = ("re", "pre", "over")


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
        if text:
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
# And those that are more often something else; the last are money, see `_MONEY`.
_MORE_LEET = _table(a="4@", b="86", c="(<\x1d", e="3\x1a", g="9", i="1!|\x1b", o="0", s="5$", t="7+", y="\x1e")
_MONEY = {ord("\u20ac"): "\x1a", ord("\u00a3"): "\x1b", ord("\u00a2"): "\x1d", ord("\u00a5"): "\x1e"}
_ODD = b"!|(<6+\x1a\x1b\x1c\x1d\x1e"
_NO_LETTER = bytes([sign for sign in range(256) if _LEET[sign] == ord(" ")])
_NOT_A_LETTER = bytes([sign for sign in range(256) if _LETTERS[sign] == ord(" ")])
_NOT_EVEN_ODD = bytes([sign for sign in range(256) if _MORE_LEET[sign] == ord(" ")])
# What people put inside a word: it looks like one still. Control characters are not even seen.
_GLUE = b"-_.*~`" + bytes([sign for sign in (*range(32), 127) if sign not in b"\t\n\v\f\r"])
_SHAPES = _only(b"", U=_LARGE + _DIGITS, l=_SMALL)
# A capital or a digit after a small letter, or two before one: scheduleReview, HTTPCommit.
_HUMPS = ("lU", "UUl")
# Base64 of a word has one, too, or many capitals and digits in a row; hexadecimal has a digit behind a letter or many.
_ENCODED = ("lU", "UUUUUU")
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
# So thin that a word is read across them.
_THIN = re.compile("[\u2005-\u200a\u202f\u205f]")
# Inside a word: tags and comments of HTML, and what sets the colours of a terminal.
_MARKUP = re.compile(
    r"(?<=[^\W\d_])(?:</?[A-Za-z][^<>]{0,80}>|<!--[^<>]{0,80}-->|\x1b\[[0-9;]{0,16}[A-Za-z])++(?=[^\W\d_])"
)


def _look(text: str, vocabulary: Vocabulary, words: set[str]) -> None:
    plain = folded(text)
    raw = (plain if plain is text else plain.translate(_MONEY)).encode("ascii", "replace")
    shape = raw.translate(_SHAPES).decode("ascii")
    if _may_hold(raw, vocabulary):
        _read(plain, raw, shape, vocabulary, words)
    if _ENCODED[0] in shape or _ENCODED[1] in shape:
        words.update(_forms_in(decoded(raw).translate(_LETTERS).split(), vocabulary))
    if vocabulary.phrases:
        row = b" %b " % b" ".join(raw.translate(_LETTERS).split())
        words.update([word for phrase, word in vocabulary.phrases if phrase in row])
    if vocabulary.literals:
        small = plain.lower()
        words.update([word for literal, word in vocabulary.literals if literal in small])
    if "<" in plain or "\x1b" in plain:
        # Once: what is left of tags within tags is no tag.
        bare = _MARKUP.sub("", plain)
        if bare != plain:
            _look(bare.replace("<", " ").replace("\x1b", " "), vocabulary, words)
    if plain is not text:
        _look_behind(text, vocabulary, words)


def _may_hold(raw: bytes, vocabulary: Vocabulary) -> bool:
    """Whether the beginning of a word is among the letters of a text, with or without signs that stand for letters."""
    letters = raw.translate(_LETTERS, _NOT_A_LETTER)
    if any(map(letters.decode("ascii").__contains__, vocabulary.stems)):
        return True
    leet = raw.translate(_LEET, _NO_LETTER)
    # Most texts have no sign that stands for a letter.
    if len(leet) != len(letters) and any(map(leet.decode("ascii").__contains__, vocabulary.stems)):
        return True
    if len(raw.translate(None, _ODD)) == len(raw):
        return False
    return any(map(raw.translate(_MORE_LEET, _NOT_EVEN_ODD).decode("ascii").__contains__, vocabulary.stems))


def _look_behind(text: str, vocabulary: Vocabulary, words: set[str]) -> None:
    """Text that is displayed from right to left, with thin spaces in it, or written in invisible characters."""
    if _REVERSED in text:
        _look(displayed(text), vocabulary, words)
        _look(text.replace(_REVERSED, "")[::-1], vocabulary, words)
    if _THIN.search(text):
        _look(_THIN.sub("", text), vocabulary, words)
    hidden = "".join([chr(ord(sign) - 0xE0000) for sign in _HIDDEN.findall(text)])
    if hidden:
        _look(hidden, vocabulary, words)


def _read(plain: str, raw: bytes, shape: str, vocabulary: Vocabulary, found_words: set[str]) -> None:
    """Word by word: as they stand, with signs for letters, with signs inside, with capitals inside, letters apart."""
    for letters in {raw.translate(_LETTERS), raw.translate(_LEET), raw.translate(_MORE_LEET)}:
        words = letters.split()
        found_words.update(_forms_in(words, vocabulary))
        row = b" %b " % b" ".join(words)
        if _APART in row.translate(_ANY_LETTER):
            spelt = b"|".join(_RUNS.findall(row)).replace(b" ", b"").decode("ascii")
            found_words.update([word for stem, word in vocabulary.stems.items() if stem in spelt])
    together = plain.encode("ascii", "ignore").translate(_LEET, _GLUE)
    if len(together) != len(plain):
        found_words.update(_forms_in(together.split(), vocabulary))
    for spelled in {raw.translate(_SMALL_LETTERS), raw.translate(_SMALL_LEET)}:
        found_words.update(_forms_in(_parted(spelled, vocabulary), vocabulary))
    if _HUMPS[0] in shape or _HUMPS[1] in shape:
        humps = _ONE_WORD.sub(b" ", raw) if b"Book" in raw else raw
        for capital in _CAPITALS:
            humps = humps.replace(capital, b" " + capital)
        humps = b" ".join([humps, *_ALL_CAPITALS.findall(raw)])
        found_words.update(_forms_in(humps.translate(_LETTERS).split(), vocabulary))


def _parted(text: bytes, vocabulary: Vocabulary) -> list[bytes]:
    """Words with signs between their letters (com/mit, sche''dule), without those signs.

    A part of a longer name is none: com.mit.example, example.com/mit.
    """
    words = []
    for match in _parted_stems(tuple(vocabulary.stems)).finditer(text):
        signs = set(_SIGNS.findall(match[0]))
        if signs and not any(_goes_on(text, match, sign) for sign in signs):
            words.append(_SIGNS.sub(b"", match[0]))
    return words


def _goes_on(text: bytes, match: re.Match[bytes], sign: bytes) -> bool:
    """Whether more letters stand before or behind a word, parted by the same; or a host's name before a path."""
    before, behind = match.start() - len(sign), match.end() + len(sign)
    if sign == b"/" and _HOST.search(text, max(match.start() - 2, 0), match.start()):
        return True
    return (text.startswith(sign, max(before, 0)) and text[before - 1 : before].isalpha()) or (
        text.startswith(sign, match.end()) and text[behind : behind + 1].isalpha()
    )


_HOST = re.compile(rb"[0-9a-z]\.")
_SIGNS = re.compile(rb"[^0-9a-z]+")
_SMALL_LETTERS = bytes([ord(_alike(chr(sign).lower())) if sign < 128 else sign for sign in range(256)])
_SMALL_LEET = bytes([_LEET[sign] if _LEET[sign] != ord(" ") else sign for sign in range(256)])


@lru_cache(256)  # policies are few, messages many
def _parted_stems(stems: tuple[str, ...]) -> re.Pattern[bytes]:
    """Each stem with up to eight signs between its letters, and the letters that follow it."""
    parted = ["[^0-9a-z\\s]{0,8}".join(map(re.escape, stem)) for stem in stems]
    return re.compile(f"(?<![0-9a-z])(?:{'|'.join(_PREFIXES)})?(?:{'|'.join(parted)})[a-z]{{0,16}}".encode())


def _forms_in(words: list[bytes], vocabulary: Vocabulary) -> list[str]:
    forms = vocabulary.forms
    return [forms[form] for form in forms.keys() & words]
