"""The order in which a text is displayed where it overrides its own direction."""

from __future__ import annotations

import pytest

from parley.domain.content.display_order import displayed

RLO, LRO, PDF, FSI, PDI = "\u202e", "\u202d", "\u202c", "\u2068", "\u2069"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        (f"{RLO}timmoc", "commit"),
        (f"com{RLO}tim{PDF} it", "commit it"),
        (f"a{RLO}cb{PDF}d{RLO}fe{PDF}g", "abcdefg"),
        (f"{RLO}fe{RLO}dc{PDF}ba{PDF}", "abcdef"),
        (f"{RLO}f{LRO}cde{PDF}ba", "abcdef"),
        (f"{RLO}dc{FSI}b{PDI}a", "abcd"),
        (f"{RLO}cba\n{RLO}fed", "abc\ndef"),
        (f"{PDF}a{PDI}b{RLO}", "ab"),
        (f"{FSI}{RLO}cb{PDF}{PDI}d", "bcd"),
    ],
)
def test_what_stands_behind_an_override_is_read_from_its_end(text: str, seen: str) -> None:
    assert displayed(text) == seen


def test_overrides_in_each_other_are_counted_to_unicodes_bound() -> None:
    assert displayed(RLO * 1000 + "ab") == "ba"
    assert sorted(displayed(f"a{RLO}b" * 1000)) == sorted("ab" * 1000)
