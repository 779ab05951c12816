"""The arguments of calls that send messages: what a call means, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.sdk.protocol.call_arguments import NOT_GIVEN, address_from, brief, flag_from, id_from, payload_from


@pytest.mark.parametrize(
    ("payload", "fields", "means"),
    [
        ("Which schema?", {}, {"text": "Which schema?"}),
        ({"question": "Which?"}, {}, {"question": "Which?"}),
        (NOT_GIVEN, {"question": "Which?"}, {"question": "Which?"}),
        ([1, 2], {}, {"items": [1, 2]}),
        ({}, {}, {}),
    ],
)
def test_a_payload_is_a_text_a_mapping_another_value_or_keywords(payload: object, fields: Any, means: object) -> None:
    assert payload_from("ask", payload, fields) == means


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1))
def test_keywords_say_the_same_as_a_mapping(fields: dict[str, int]) -> None:
    assert payload_from("ask", NOT_GIVEN, fields) == payload_from("ask", fields, {})


@pytest.mark.parametrize(
    ("payload", "fields", "sentence"),
    [
        (NOT_GIVEN, {}, "ask: there is no payload (give a text, a mapping, or keywords)"),
        (
            {"a": 1},
            {"tag": "question"},
            "ask: a payload, and beside it the keywords tag (what is not part of the payload goes into metadata={...})",
        ),
    ],
)
def test_a_payload_that_is_missing_or_given_twice_is_refused(payload: object, fields: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        payload_from("ask", payload, fields)

    assert str(refused.value) == sentence


@pytest.mark.parametrize(("to", "named"), [({"a": 1}, "a dict"), (None, "None"), ("", "''"), (3, "3")])
def test_an_address_is_a_name(to: object, named: str) -> None:
    with pytest.raises(Invalid) as refused:
        address_from("ask", to)

    assert str(refused.value) == f"ask: to is an agent's name, 'role:ROLE', 'any:ROLE' or '*', not {named}"


def test_what_has_an_id_stands_for_it() -> None:
    class Thing:
        id = "chan_1"

    assert id_from("ask", "channel_id", Thing()) == id_from("ask", "channel_id", "chan_1") == "chan_1"
    with pytest.raises(Invalid) as refused:
        id_from("ask", "channel_id", {"id": "chan_1"})
    assert str(refused.value) == "ask: channel_id is a text, or what has an id, not a dict"


def test_a_field_of_the_payload_is_not_taken_for_a_switch() -> None:
    assert flag_from("ask", "check", False) is False
    with pytest.raises(Invalid) as refused:
        flag_from("ask", "check", "the rows")
    assert str(refused.value) == (
        "ask: check is True or False, not 'the rows' (if check is part of the payload, give the payload as a mapping)"
    )


def test_a_long_text_is_not_repeated_in_an_error() -> None:
    assert (brief("x" * 41), brief("x")) == ("a str", "'x'")
