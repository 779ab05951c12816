"""What others write cannot control a terminal, and cannot hide."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.visible import safe, safe_text


def test_controls_and_characters_that_reorder_or_hide_text_become_visible() -> None:
    assert safe("a\x1b[31m\u202eb\u200bc\nd") == "a\\x1b[31m\\u202eb\\u200bc\\nd"
    assert safe("tag \U000e0041") == "tag \\U000e0041"


def test_an_emoji_of_two_stays_one() -> None:
    assert safe("👩\u200d💻") == "👩\u200d💻"


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert not [character for character in safe(text) if unicodedata.category(character) == "Cc"]
    assert {character for character in safe_text(text) if unicodedata.category(character) == "Cc"} <= {"\n", "\t"}
