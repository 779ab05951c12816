"""Folding: a text as a reader sees it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.unicode_folding import folded, normalised
from tests.samples.messages import PROPERTY

# A sign, or several, and what a reader takes them for.
SEEN_AS = {
    "\uff53\uff43\uff48": "sch",
    "\U0001d41a\U0001d4ea\U0001d552": "aaa",
    "\u24d0\u24b7": "aB",
    "\U0001f150\U0001f171": "AB",
    "\U0001f1e7\U0001f1f4": "BO",
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445": "aeopcyx",
    "\u03b1\u03bf\u03c1\u03bd": "aopv",
    "\u1d00\u0299\u1d04\u1d05": "abcd",
    "\u00e9\u00fc\u00f1\u0142\u00f8": "eunlo",
    "e\u0301\u0336": "e",
    "\u00df\ufb01\u0153": "ssfioe",
    "\u2160\u217d": "Ic",
    "\u0397\u0395": "HE",
    "a\u200b\u200c\u200d\u2060\ufeffb": "ab",
    "a\u00adb\u034fc\ufe0fd": "abcd",
    "\u202aa\u202eb\u2066c\u2069": "abc",
    "a\U000e0061\U000e007fb\U000e0100c": "abc",
    "a\u115fb\uffa0c": "abc",
    "a\u2010b\u00b7c": "a-b-c",
    "a\ud800b": "a\ud800b",
}


@pytest.mark.parametrize(("text", "seen"), SEEN_AS.items())
def test_what_looks_like_a_letter_becomes_it_and_what_is_not_seen_goes(text: str, seen: str) -> None:
    assert folded(text) == seen
    # Between many other signs, too, and in a long text: they are put together in other ways.
    others = "".join(chr(sign) for sign in range(0x0400, 0x0450))
    assert folded(text + others) == seen + folded(others)
    assert folded(text + "." * 3000) == seen + "." * 3000


@pytest.mark.parametrize("text", ["", 'Plain ASCII, \t\x00 and {"json":1}', "\u4f60\u597d", "\U0001f600", "\uac00"])
def test_what_needs_no_folding_stays_as_it_is(text: str) -> None:
    assert folded(text) is text


def test_capitals_are_kept_by_folding_and_not_by_normalising() -> None:
    assert folded("\u0410pproveB\uff35dget") == "ApproveBUdget"
    assert normalised("\u0410pproveB\uff35dget") == "approvebudget"


def test_one_sign_for_a_whole_sentence_does_not_blow_a_text_up() -> None:
    assert folded("\ufdfa" * 10) == "\ufdfa" * 10


@PROPERTY
@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)
    assert folded(folded(text)) == folded(text)


def test_normalising_any_single_sign_twice_changes_nothing_more() -> None:
    unstable = [
        hex(number)
        for number in (*range(0x30000), *range(0xE0000, 0xE1000))
        if normalised(once := normalised(chr(number))) != once
    ]

    assert unstable == []


@PROPERTY
@given(st.text(st.characters(max_codepoint=0x24F)))
def test_western_text_keeps_its_letters_and_loses_only_their_accents(text: str) -> None:
    letters = [sign for sign in unicodedata.normalize("NFKD", text) if sign.isascii() and sign.isalpha()]

    kept = folded(text)

    assert all(letter in kept for letter in letters)
