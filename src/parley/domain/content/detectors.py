"""Content detectors: a detection can raise the level that the sender declared, and never lower it.

Each looks first for what its findings cannot be without (enough digits, a prefix), which costs next to nothing; only
then it looks closely. None of them does more than a fixed amount of work for each sign of a text.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from parley.domain.content.classification import Classification, ContentPattern, highest
from parley.domain.content.encodings import decoded
from parley.domain.content.unicode_folding import folded, normalised


class Detection(NamedTuple):
    """A detected kind of content, and its lowest level."""

    name: str
    level: Classification


PAYMENT_CARD = Detection("payment_card", Classification.RESTRICTED)
IBAN = Detection("iban", Classification.CONFIDENTIAL)
PRIVATE_KEY = Detection("private_key", Classification.RESTRICTED)
API_TOKEN = Detection("api_token", Classification.RESTRICTED)
US_SSN = Detection("us_ssn", Classification.RESTRICTED)
PASSWORD = Detection("password", Classification.RESTRICTED)
_DESCRIPTIONS = {
    PAYMENT_CARD: "a payment card number",
    IBAN: "an IBAN",
    US_SSN: "a US social security number",
    PRIVATE_KEY: "a private key",
    API_TOKEN: "an API token",
    PASSWORD: "a password",
}
_OWN = tuple(_DESCRIPTIONS)


class _Wanted(NamedTuple):
    finding: Detection
    # The longest part of it that stands for itself: most texts do not have it.
    literal: str
    shape: re.Pattern[str]


def findings(texts: Iterable[str], patterns: tuple[ContentPattern, ...] = ()) -> tuple[Detection, ...]:
    """What these texts hold, each once: by our own detectors in their order, then by a policy's patterns in theirs."""
    wanted = _compiled(patterns) if patterns else ()
    detections: set[Detection] = set()
    for text in texts:
        if not text:
            continue
        plain = folded(text)
        raw = plain.encode("ascii", "replace")
        has_long_run = _has_long_run(raw)
        _add_found(detections, plain, raw, wanted, has_long_run=has_long_run)
        if has_long_run:
            hidden = decoded(raw).decode("latin-1")
            raw = hidden.encode("ascii", "replace")
            _add_found(detections, hidden, raw, wanted, has_long_run=_has_long_run(raw))
    if not detections:
        return ()
    order = dict.fromkeys((*_OWN, *[pattern.finding for pattern in wanted]))
    return tuple([detection for detection in order if detection in detections])


# A run of letters, digits and these signs that is long enough to hold, in Base64 or hexadecimal, what is looked
# for. Keys and tokens have one, too: see `_TOKENS`.
_RUN_CHARS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/_-"
_RUN_OR_NOT = bytes([ord("x") if sign in _RUN_CHARS else ord(" ") for sign in range(256)])
_LONG_RUN = b"x" * 14


def _has_long_run(raw: bytes) -> bool:
    return _LONG_RUN in raw.translate(_RUN_OR_NOT)


def _add_found(
    detections: set[Detection], text: str, raw: bytes, wanted: tuple[_Wanted, ...], *, has_long_run: bool
) -> None:
    """Add what a text holds; `raw` is the text with a ? for everything that is not ASCII."""
    _add_own(detections, text, raw, has_long_run=has_long_run)
    if wanted:
        small = text.lower()
        for pattern in wanted:
            if pattern.literal in small and pattern.shape.search(small):
                detections.add(pattern.finding)


def describe_detections(detections: Iterable[Detection]) -> str:
    """What was detected, for people: the kinds of content, and never the content."""
    names = [_DESCRIPTIONS.get(detection, f'text like the pattern "{detection.name}"') for detection in detections]
    return f"it contains {' and '.join(names)}"


def level_with(declared: Classification, detections: tuple[Detection, ...]) -> Classification:
    """The declared level, or that of the most secret finding if it is higher."""
    return highest(declared, *[detection.level for detection in detections])


def _add_own(detections: set[Detection], text: str, raw: bytes, *, has_long_run: bool) -> None:
    digits = len(raw.translate(None, _NO_DIGIT))
    if digits >= _IBAN_DIGITS:
        if digits >= _CARD_DIGITS and _has_card(text):
            detections.add(PAYMENT_CARD)
        if _has_iban(text):
            detections.add(IBAN)
        if digits >= _SSN_DIGITS and _has_ssn(text):
            detections.add(US_SSN)
    if _PEM_BEGINS in text and _PEM.search(text):
        detections.add(PRIVATE_KEY)
    for prefix, shape in _ALL_TOKENS if has_long_run else _PARTED_TOKENS:
        if prefix in text and shape.search(text):
            detections.add(API_TOKEN)
            break
    if _has_password(text):
        detections.add(PASSWORD)


# ---------------------------------------------------------------- numbers

_NO_DIGIT = bytes([sign for sign in range(256) if sign not in b"0123456789"])
# One card number in ten is valid by chance, one account in a hundred. A text where so many are not was made for looking
# at it to take long; it counts as one that has what we look for.
_MOST = 2000

_CARD_DIGITS = 13
# In a row, or in groups: those that are printed, halves, or each digit alone. It looks ahead and goes on with the next
# group, which may be the first.
_CARD = re.compile(
    r"[2-6](?<![0-9][2-6])(?=([0-9]{3}(?:[0-9]{9,15}"
    r"|[ -][0-9]{4}[ -][0-9]{4}[ -][0-9]{4}|([^0-9A-Za-z]{1,4})[0-9]{4}\2[0-9]{4}\2[0-9]{4}"
    r"|([^0-9A-Za-z]{1,4})[0-9]{6}\3[0-9]{4,5}"
    r"|[0-9]{4}([^0-9A-Za-z]{1,4})[0-9]{8})|(?<![0-9][ ._/-][2-6])([ ._/-])[0-9](?:\5[0-9]){11,17})"
    r"(?![0-9]))"
)
# Between the groups of a longer row, as people print cards one after the other. Where anything else parts them, a
# card's groups are all there is: numbers in a list are none.
_PRINTED = (None, " ", "-")
# Which numbers are given out at all: their first digits, and how many they have.
_ISSUED = re.compile(
    r"4.{12}(?:.{3}){0,2}|(?:5[0-8]|2[2-7]|35|6[02-9]).{14}|62.{15,17}|3[47].{13}|3(?:0[0-5]|[689].).{11}"
)
_VALUES = bytes([sign - 48 if 48 <= sign < 58 else 0 for sign in range(256)])
_DOUBLED = bytes([0, 2, 4, 6, 8, 1, 3, 5, 7, 9]) + bytes(246)


def _has_card(text: str) -> bool:
    tried = 0
    for start in _CARD.finditer(text):
        number = _DIGITS_ONLY.sub("", start[0] + start[1])
        if not _ISSUED.fullmatch(number) or _in_a_number(text, start, number):
            continue
        separator = start[2] or start[3] or start[4] or start[5]
        if separator not in _PRINTED and _in_a_list(text, start, separator):
            continue
        tried += 1
        if _luhn(number) or tried >= _MOST:
            return True
    return False


_DIGITS_ONLY = re.compile("[^0-9]")


_HEX_LETTERS = "ABCDEFabcdef"
# Letters beside a number that are looked at: a fixed amount of work.
_BESIDE = 13
# Identifiers and digests in hexadecimal have a multiple of four digits.
_HEX_GROUP = 4


def _in_a_number(text: str, start: re.Match[str], number: str) -> bool:
    """Whether these digits are the decimals of a fraction, or part of a hexadecimal number: digests and ids have many.

    Other letters may stand beside a card number, and decimals behind it.
    """
    begin, end = start.start(), start.end(1)
    before, behind = text[max(begin - _BESIDE, 0) : begin], text[end : end + _BESIDE]
    if end - begin == len(number) and before[-1:] == "." and before[-2:-1].isdigit():
        return True
    head, tail = before.rstrip(_HEX_LETTERS), behind.lstrip(_HEX_LETTERS)
    if head.endswith(("0x", "0X")):
        return True
    letters = len(before) - len(head) + len(behind) - len(tail)
    if not letters:
        return False
    if head[-1:].isdigit() or tail[:1].isdigit():
        return True
    in_a_word = head[-1:].isalpha() or tail[:1].isalpha()
    return not in_a_word and (letters + len(number)) % _HEX_GROUP == 0


def _in_a_list(text: str, start: re.Match[str], separator: str) -> bool:
    """Whether more numbers stand before or behind these, parted by the same."""
    before, behind = start.start() - len(separator), start.end(1)
    return (text.startswith(separator, max(before, 0)) and text[before - 1 : before].isdigit()) or (
        text.startswith(separator, behind) and text[behind + len(separator) :][:1].isdigit()
    )


def _luhn(number: str) -> bool:
    values = number.encode("ascii").translate(_VALUES)[::-1]
    return (sum(values[::2]) + sum(values[1::2].translate(_DOUBLED))) % 10 == 0


# Norway's has 15 signs, and Malta's few digits.
_IBAN_DIGITS = 8
# Behind a letter it is one only where it is named.
_IBAN = re.compile(
    r"[0-9]{2}(?<=[A-Za-z]{2}[0-9]{2})(?:(?<![0-9A-Za-z][A-Za-z]{2}[0-9]{2})|(?<=[Ii][Bb][Aa][Nn][A-Za-z]{2}[0-9]{2}))"
)
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
    return int(_SEPARATORS.sub("", number).upper().translate(_BASE_36)) % 97 == 1


_SEPARATORS = re.compile("[^0-9A-Za-z]")


@lru_cache(32)  # there are 18 lengths
def _account(length: int) -> re.Pattern[str]:
    """In a row, or in groups of four."""
    last = f"[ ._/-][0-9A-Za-z]{{{length % 4}}}" if length % 4 else ""
    groups = f"(?:[ ._/-][0-9A-Za-z]{{4}}){{{length // 4}}}{last}"
    return re.compile(f"(?:[0-9A-Za-z]{{{length}}}|{groups})(?![0-9A-Za-z])")


# A social security number of the United States: as it is printed, with spaces where no other number stands beside it,
# and in any form behind its name. Some were never given out.
_SSN_DIGITS = 9
_SSN = re.compile(
    r"(?<![0-9A-Za-z-])(?!000|666|9)[0-9]{3}(?:-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![0-9A-Za-z]|-[0-9A-Za-z])"
    r"|(?<![0-9][ .,:/][0-9]{3}) (?!00)[0-9]{2} (?!0000)[0-9]{4}(?![0-9A-Za-z-]|[ .,:/][0-9]))"
)
_NAMED_SSN = re.compile(
    r"(?:(?<![a-z])ssn|social[ _-]?security)[^0-9]{0,20}"
    r"(?!000|666|9)[0-9]{3}([ ._/-]?)(?!00)[0-9]{2}\1(?!0000)[0-9]{4}(?![0-9])"
)
_SSN_NAMES = ("ssn", "social")


def _has_ssn(text: str) -> bool:
    if _SSN.search(text):
        return True
    small = text.lower()
    return any(name in small for name in _SSN_NAMES) and _NAMED_SSN.search(small) is not None


# ---------------------------------------------------------------- keys, tokens and passwords

_PEM_BEGINS = "-----BEGIN"
_PEM = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")


def _token_shapes(*shapes: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """What each begins with, and its shape, up to where it can be nothing else: a bound for the work at every place."""
    return tuple(
        [(prefix, re.compile(shape if prefix[0] == "." else rf"(?<![0-9A-Za-z]){shape}")) for prefix, shape in shapes]
    )


# Each of these is one long run.
_TOKENS = _token_shapes(
    ("AKIA", r"AKIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("ASIA", r"ASIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("gh", r"gh[oprsu]_[0-9A-Za-z]{36}"),
    ("github_pat_", r"github_pat_[0-9A-Za-z_]{22}"),
    ("glpat-", r"glpat-(?=[A-Za-z_-]{0,19}[0-9])[0-9A-Za-z_-]{20}"),
    ("xox", r"xox[a-z]-[0-9A-Za-z-]{10}"),
    ("AIza", r"AIza[0-9A-Za-z_-]{35}"),
    ("sk-", r"sk-(?=[A-Za-z_-]{0,60}+[0-9])[0-9A-Za-z_-]{20}"),
    ("k_live_", r"[rs]k_live_[0-9A-Za-z]{16}"),
    ("k_test_", r"[rs]k_test_[0-9A-Za-z]{16}"),
    ("npm_", r"npm_[0-9A-Za-z]{36}"),
    ("pypi-", r"pypi-[0-9A-Za-z_-]{50}"),
    ("hf_", r"hf_[0-9A-Za-z]{34}"),
    # Our own: 32 random bytes.
    ("pk_", r"pk_(?=[0-9a-z_-]{0,39}[A-Z])(?=[A-Za-z_-]{0,39}[0-9])[0-9A-Za-z_-]{40}"),
    ("whsec_", r"whsec_[0-9A-Za-z+/]{32}"),
)
# These have points, spaces or other signs in them.
_PARTED_TOKENS = _token_shapes(
    # In the second part of three, behind a point: the first may be long.
    (".eyJ", r"(?<=[0-9A-Za-z_-]{8})\.eyJ[0-9A-Za-z_-]{5,}+\.[0-9A-Za-z_-]{4}"),
    ("earer", r"[Bb]earer[ \t](?=[A-Za-z._~+/=-]{0,60}+[0-9])[0-9A-Za-z._~+/=-]{16}"),
    ("BEARER", r"BEARER[ \t](?=[A-Za-z._~+/=-]{0,60}+[0-9])[0-9A-Za-z._~+/=-]{16}"),
)
_ALL_TOKENS = _TOKENS + _PARTED_TOKENS
# The name, and a value with a digit in it: prose and the names of variables have none, placeholders begin otherwise.
_PASSWORD = re.compile(
    r"(?:passw(?:or)?d|passphrase|pwd)[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?=[^\s\"',;0-9]{0,40}[0-9])"
    r"[^\s\"'<>{}$*\[\]();,\\|/.][^\s\"'<>{}$*\[\]();,\\|]{5}"
    r"|(?:api|access|secret)[_-]?key[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?=[A-Za-z+/_-]{0,40}[0-9])[0-9A-Za-z+/_-]{16}"
)
# In a URL: scheme://user:password@host.
_CREDENTIALS = re.compile(r"://[^\s/:@\"'<>{}$\[\]]{1,64}:(?![*.])[^\s/@\"'<>{}$\[\]]{1,128}@[0-9A-Za-z\[]")


def _has_password(text: str) -> bool:
    if "://" in text and "@" in text and _CREDENTIALS.search(text):
        return True
    if ":" not in text and "=" not in text:
        return False
    small = text.lower()
    return _may_name_password(small) and _PASSWORD.search(small) is not None


def _may_name_password(small: str) -> bool:
    """Whether a text in small letters has one of the names in `_PASSWORD`."""
    if "pwd" in small or ("pass" in small and ("passw" in small or "passphrase" in small)):
        return True
    return "key" in small and ("api" in small or "access" in small or "secret" in small)


# ---------------------------------------------------------------- a policy's own


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
