from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.mixed_scripts import mixed_words_in

CYRILLIC_A, GREEK_O = "\u0430", "\u03bf"


def test_a_word_that_mixes_latin_with_look_alikes_is_pointed_out_where_it_is() -> None:
    found = mixed_words_in(f"see https://{CYRILLIC_A}pple.com and g{GREEK_O}{GREEK_O}gle.com")

    assert [(word.position, word.length, word.scripts) for word in found] == [
        (12, 5, ("Cyrillic", "Latin")),
        (26, 6, ("Greek", "Latin")),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "apple.com",
        "\u041f\u0440\u0438\u0432\u0435\u0442 hello",
        "caf\u00e9 na\u00efve",
        "\u03b1\u03b2",
        "\u65e5\u672c tokyo",
    ],
)
def test_a_text_whose_words_keep_to_one_script_has_none(text: str) -> None:
    assert mixed_words_in(text) == []


@given(st.text())
def test_what_is_found_is_in_the_text_and_not_ascii(text: str) -> None:
    for word in mixed_words_in(text):
        assert not text[word.position : word.position + word.length].isascii()
        assert "Latin" in word.scripts
