"""The words of a message in brief."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.message.message import Body
from parley.domain.message.snippets import snippet
from tests.samples.messages import a_message

LONG = "x" * 50 + " needle " + "y" * 50


@pytest.mark.parametrize(
    ("body", "text", "shown"),
    [
        ("one\nWhere is the Needle?\nthree", "needle", "Where is the Needle?"),
        ("one\ntwo", "not there", "one"),
        ({"summary": "a\tneedle", "owner": "codex"}, "NEEDLE", "a needle"),
        ("", "x", ""),
    ],
)
def test_a_snippet_is_the_line_that_contains_the_text(body: Body, text: str, shown: str) -> None:
    assert snippet(a_message(body=body), text) == shown


def test_a_long_line_is_cut_around_the_text() -> None:
    cut = snippet(a_message(body=LONG), "needle", 40)

    assert "needle" in cut
    assert (cut[0], cut[-1], len(cut)) == ("…", "…", 42)


@given(body=st.text(max_size=200), text=st.text(max_size=10))
def test_a_snippet_is_one_line_and_short(body: str, text: str) -> None:
    shown = snippet(a_message(body=body), text, 40)

    assert len(shown) <= 42
    assert len(shown.splitlines()) <= 1
