"""Content detectors: a detection can raise the level that the sender declared, and never lower it.

Each looks first for what its findings cannot be without (enough digits, a prefix), which costs next to nothing; only
then it looks closely. None of them does more than a fixed amount of work for each sign of a text.
"""

# Annotations are evaluated here: from text, a NamedTuple would compile each of them at every start.

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from parley.domain.content.classification import Classification, ContentPattern, highest
from parley.domain.content.unicode_folding import folded, normalised


class Detection(NamedTuple):
    """A detected kind of content, and its lowest level."""

    name: str
    level: Classification


PAYMENT_CARD = Detection("payment_card", Classification.RESTRICTED)
IBAN = Detection("iban", Classification.CONFIDENTIAL)
PRIVATE_KEY = Detection("private_key", Classification.RESTRICTED)
API_TOKEN = Detection("api_token", Classification.RESTRICTED)


def findings(texts: Iterable[str], patterns: tuple[ContentPattern, ...] = ()) -> tuple[Detection, ...]:
    """What these texts hold, each once: by our own detectors in their order, then by a policy's patterns in theirs."""
    wanted = _compiled(patterns) if patterns else ()
    detections: set[Detection] = set()
    for text in texts:
        plain = folded(text)
        detections.update(_own(plain))
        if wanted:
            small = plain.lower()
            detections.update(
                [pattern.finding for pattern in wanted if pattern.literal in small and pattern.shape.search(small)]
            )
    if not detections:
        return ()
    order = dict.fromkeys((PAYMENT_CARD, IBAN, PRIVATE_KEY, API_TOKEN, *[pattern.finding for pattern in wanted]))
    return tuple([detection for detection in order if detection in detections])


def level_with(declared: Classification, detections: tuple[Detection, ...]) -> Classification:
    """The declared level, or that of the most secret finding if it is higher."""
    return highest(declared, *[detection.level for detection in detections])


def _own(text: str) -> Iterator[Detection]:
    digits = len(text.encode("ascii", "replace").translate(None, _NO_DIGIT))
    if digits >= _CARD_DIGITS and _has_card(text):
        yield PAYMENT_CARD
    if digits >= _IBAN_DIGITS and _has_iban(text):
        yield IBAN
    if _PEM_BEGINS in text and _PEM.search(text):
        yield PRIVATE_KEY
    for prefix, shape in _TOKENS:
        if prefix in text and shape.search(text):
            yield API_TOKEN
            break


# ---------------------------------------------------------------- numbers

_NO_DIGIT = bytes([sign for sign in range(256) if sign not in b"0123456789"])
# One card number in ten is valid by chance, one account in a hundred. A text where so many are not was made for looking
# at it to take long; it counts as one that has what we look for.
_MOST = 2000

_CARD_DIGITS = 13
# In a row, or in the groups that are printed. It looks ahead and goes on with the next group, which may be the first.
_CARD = re.compile(
    r"[2-6](?<![0-9A-Za-z.][2-6])(?=([0-9]{3}(?:[0-9]{9,15}"
    r"|([ -])[0-9]{4}\2[0-9]{4}\2[0-9]{4}|([ -])[0-9]{6}\3[0-9]{4,5}))"
    r"(?![0-9A-Za-z]|\.[0-9]))"
)
# Which numbers are given out at all: their first digits, and how many they have.
_ISSUED = re.compile(
    r"4.{12}(?:.{3}){0,2}|(?:5[0-8]|2[2-7]|35|6[02-9]).{14}|62.{15,17}|3[47].{13}|3(?:0[0-5]|[689].).{11}"
)
_VALUES = bytes([sign - 48 if 48 <= sign < 58 else 0 for sign in range(256)])
_DOUBLED = bytes([0, 2, 4, 6, 8, 1, 3, 5, 7, 9]) + bytes(246)


def _has_card(text: str) -> bool:
    tried = 0
    for start in _CARD.finditer(text):
        number = (start[0] + start[1]).replace(" ", "").replace("-", "")
        if not _ISSUED.fullmatch(number):
            continue
        tried += 1
        if _luhn(number) or tried >= _MOST:
            return True
    return False


def _luhn(number: str) -> bool:
    values = number.encode("ascii").translate(_VALUES)[::-1]
    return (sum(values[::2]) + sum(values[1::2].translate(_DOUBLED))) % 10 == 0


# Norway's has 15 signs, and Malta's few digits.
_IBAN_DIGITS = 8
_IBAN = re.compile(r"[0-9]{2}(?<=[A-Za-z]{2}[0-9]{2})(?<![0-9A-Za-z][A-Za-z]{2}[0-9]{2})")
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
_BASE_36 = {ord(letter): str(value) for value, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ", start=10)}


def _has_iban(text: str) -> bool:
    tried = 0
    for check in _IBAN.finditer(text):
        country = text[check.start() - 2 : check.start()].upper()
        length = _IBAN_LENGTHS.get(country)
        if length is None:
            continue
        tried += 1
        account = _account(length - 4).match(text, check.end())
        if (account and _mod_97(account[0] + country + check[0])) or tried >= _MOST:
            return True
    return False


def _mod_97(number: str) -> bool:
    return int(number.upper().replace(" ", "").replace("-", "").translate(_BASE_36)) % 97 == 1


@lru_cache(32)  # there are 18 lengths
def _account(length: int) -> re.Pattern[str]:
    """In a row, or in groups of four."""
    last = f"[ -][0-9A-Za-z]{{{length % 4}}}" if length % 4 else ""
    groups = f"(?:[ -][0-9A-Za-z]{{4}}){{{length // 4}}}{last}"
    return re.compile(f"(?:[0-9A-Za-z]{{{length}}}|{groups})(?![0-9A-Za-z])")


# ---------------------------------------------------------------- keys and tokens

_PEM_BEGINS = "-----BEGIN"
_PEM = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")

# What each begins with, and its shape. None begins inside a word, so that no text is gone through twice; a possessive
# quantifier (+ after it) never gives back what it took.
_TOKENS = tuple(
    [
        (
            prefix,
            re.compile(rf"(?<![0-9A-Za-z]){shape}" if prefix in ("AKIA", "ASIA") else rf"(?<![0-9A-Za-z_-]){shape}"),
        )
        for prefix, shape in (
            ("AKIA", r"AKIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
            ("ASIA", r"ASIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
            ("gh", r"gh[oprsu]_[0-9A-Za-z]{36,}+"),
            ("github_pat_", r"github_pat_[0-9A-Za-z_]{22,}+"),
            ("xox", r"xox[a-z]-[0-9A-Za-z-]{10,}+"),
            ("AIza", r"AIza[0-9A-Za-z_-]{35}"),
            ("sk-", r"sk-(?=[A-Za-z_-]*+[0-9])[0-9A-Za-z_-]{20,}+"),
            # Our own: 32 random bytes.
            ("pk_", r"pk_[0-9A-Za-z_-]{40,}+"),
            ("eyJ", r"eyJ[0-9A-Za-z_-]{5,}+\.eyJ[0-9A-Za-z_-]{5,}+\.[0-9A-Za-z_-]{4,}+"),
        )
    ]
)


# ---------------------------------------------------------------- a policy's own


class _Wanted(NamedTuple):
    finding: Detection
    # The longest part of it that stands for itself: most texts do not have it.
    literal: str
    shape: re.Pattern[str]


@lru_cache(256)  # policies are few, messages many
def _compiled(patterns: tuple[ContentPattern, ...]) -> tuple[_Wanted, ...]:
    return tuple([_wanted(pattern) for pattern in patterns])


def _wanted(pattern: ContentPattern) -> _Wanted:
    """Each sign of it is one of a text, so that its length is all that looking for it can cost."""
    parts = [part if part in _SIGNS else normalised(part) for part in _WILD.split(pattern.pattern)]
    literal = max([part for part in parts if part not in _SIGNS], key=len)
    shape = re.compile("".join([_SIGNS.get(part) or re.escape(part) for part in parts]))
    return _Wanted(Detection(pattern.name, pattern.classification), literal, shape)


_WILD = re.compile("([#?])")
_SIGNS = {"#": "[0-9]", "?": r"[^\W\d_]"}
