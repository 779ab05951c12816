from __future__ import annotations

import copy
from typing import Any

import pytest

from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.redaction import REDACTED, texts_of, without


def item(*fields: str) -> tuple[DataItem, ...]:
    return (DataItem("crm", fields, Classification.RESTRICTED),)


def test_texts_are_found_however_deep_they_lie_and_keys_are_texts_too() -> None:
    body = {"a": "one", "b": [{"c": ["two", ("three", {"d": 4, "e": None})]}], "f": True}

    assert sorted(texts_of(body)) == sorted(["a", "b", "c", "d", "e", "f", "one", "two", "three", "4"])
    assert list(texts_of("alone")) == ["alone"]
    assert list(texts_of(None)) == []


def test_a_number_is_looked_at_as_a_text() -> None:
    assert list(texts_of({"card": 4111111111111111})) == ["card", "4111111111111111"]
    assert list(texts_of([1.5, True])) == ["1.5"]


def test_a_body_nested_a_hundred_thousand_deep_is_gone_through() -> None:
    body: Any = "bottom"
    for _ in range(100_000):
        body = [body]

    found = list(texts_of(body))
    while isinstance(body, list):
        body = body.pop()  # a chain this long must not be freed by recursion

    assert found == ["bottom"]


BODY: dict[str, Any] = {
    "name": "Ann",
    "card": {"number": 4, "holder": "Ann"},
    "rows": [{"iban": "x", "sum": 1}, {"iban": "y", "sum": 2}, "plain"],
    "dotted.key": {"deep": 1},
}


@pytest.mark.parametrize(
    ("field", "left"),
    [
        ("name", {key: value for key, value in BODY.items() if key != "name"}),
        ("card.number", {**BODY, "card": {"holder": "Ann"}}),
        ("rows.iban", {**BODY, "rows": [{"sum": 1}, {"sum": 2}, "plain"]}),
        ("dotted.key", {key: value for key, value in BODY.items() if key != "dotted.key"}),
        ("dotted.key.deep", {**BODY, "dotted.key": {}}),
        ("nowhere", BODY),
        ("card.nowhere", BODY),
        ("name.first", BODY),
    ],
)
def test_a_field_that_may_not_pass_is_taken_out_at_its_path(field: str, left: dict[str, Any]) -> None:
    before = copy.deepcopy(BODY)

    assert without(BODY, item(field), redact=False) == left
    assert before == BODY


@pytest.mark.parametrize(
    ("field", "left"),
    [
        ("name", {**BODY, "name": REDACTED}),
        ("card.number", {**BODY, "card": {"number": REDACTED, "holder": "Ann"}}),
        ("rows.iban", {**BODY, "rows": [{"iban": REDACTED, "sum": 1}, {"iban": REDACTED, "sum": 2}, "plain"]}),
        ("nowhere", BODY),
    ],
)
def test_a_field_that_is_redacted_stays_with_nothing_in_it(field: str, left: dict[str, Any]) -> None:
    assert without(BODY, item(field), redact=True) == left


def test_everything_is_taken_out_of_a_body_that_has_it_in_several_places() -> None:
    items = item("a", "b.c") + item("d")

    assert without({"a": 1, "b": {"c": 2}, "d": 3, "e": 4}, items, redact=False) == {"b": {}, "e": 4}


def test_a_key_with_dots_hides_nothing_behind_it() -> None:
    # Both spellings of the path are there: both are meant.
    body = {"a.b": "secret", "a": {"b": "secret too"}}

    assert without(body, item("a.b"), redact=False) == {"a": {}}
