from __future__ import annotations

import pytest

from parley.domain.content.invisible_characters import Hidden, hidden_in, is_hidden, made_visible


@pytest.mark.parametrize(
    "one",
    [
        "\u200b",  # zero width space
        "\u200d",  # zero width joiner
        "\u00ad",  # soft hyphen
        "\u202e",  # right-to-left override
        "\u2066",  # left-to-right isolate
        "\ufeff",  # byte order mark
        "\u00a0",  # no-break space
        "\u2028",  # line separator
        "\u3164",  # Hangul filler
        "\u034f",  # combining grapheme joiner
        "\ufe0f",  # variation selector
        "\U000e0041",  # tag A
        "\U000e0100",  # variation selector 17
        "\u180b",  # Mongolian free variation selectors
        "\u180c",
        "\u180d",
        "\u180f",
        "\U00016fe4",  # Khitan small script filler
        "\U0001d159",  # musical symbol null notehead
        "\x00",
        "\x1b",
        "\x7f",
        "\ue000",  # private use
        "\r",
    ],
)
def test_a_character_that_a_reader_cannot_see_is_hidden(one: str) -> None:
    assert is_hidden(one)
    assert made_visible(f"a{one}b") == f"a⟨U+{ord(one):04X}⟩b"
    assert [found.position for found in hidden_in(f"a{one}b")] == [1]


@pytest.mark.parametrize("one", ["a", " ", "ä", "日", "\n", "\t", "🙂", "é", "—", "́"])
def test_what_a_reader_sees_is_left_alone(one: str) -> None:
    assert not is_hidden(one)
    assert made_visible(f"x{one}") == f"x{one}"
    assert hidden_in(f"x{one}") == []


def test_every_hidden_character_is_told_with_its_place_and_name() -> None:
    assert hidden_in("I ap\u200bprove\u202e.\x00") == [
        Hidden(4, "U+200B", "ZERO WIDTH SPACE"),
        Hidden(10, "U+202E", "RIGHT-TO-LEFT OVERRIDE"),
        Hidden(12, "U+0000", "CONTROL"),
    ]
