"""Python values become payloads, payloads become what a handler asks for, and what does not fit is named."""

from __future__ import annotations

import json
from collections import OrderedDict, UserDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import PayloadInvalid
from parley.sdk.protocol.flow import as_payload, encoded
from parley.sdk.protocol.payloads import check_schema, convert, is_schema

AT = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
NAIVE = AT.replace(tzinfo=None)
ID = UUID("12345678-1234-5678-1234-567812345678")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


@dataclass
class Part:
    name: str
    price: Decimal
    at: datetime


@dataclass
class Order:
    id: int
    parts: list[Part] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)


class Query(msgspec.Struct):
    dataset: str
    limit: int = 10
    since: date | None = None


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    bones: int


class Row(TypedDict):
    name: str
    age: int


class Pair(NamedTuple):
    a: int
    b: int


class Model:
    """What a pydantic model looks like from outside: pydantic itself is not needed to use Parley."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return self.fields

    @classmethod
    def model_validate(cls, payload: dict[str, Any]) -> Model:
        if not isinstance(payload.get("n"), int):
            raise ModelError
        return cls(**payload)


class ModelError(ValueError):
    def errors(self) -> list[dict[str, Any]]:
        return [{"loc": ("n",), "msg": "Input should be a valid integer"}, {"loc": (), "msg": "wrong"}]


def sent(value: object) -> Any:
    return json.loads(encoded({"payload": as_payload(value)}))["payload"]


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        ({"a": 1}, {"a": 1}),
        (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        (UserDict({"a": 1}), {"a": 1}),
        (OrderedDict(a=UserDict({"b": AT})), {"a": {"b": "2026-03-13T14:30:00+00:00"}}),
        ({"at": AT, "day": date(2026, 3, 1), "time": time(1, 2)},
         {"at": "2026-03-13T14:30:00+00:00", "day": "2026-03-01", "time": "01:02:00"}),
        ({"for": timedelta(seconds=90)}, {"for": "PT90S"}),
        ({"price": Decimal("1.10"), "id": ID}, {"price": "1.10", "id": str(ID)}),
        ({"c": Colour.RED, "l": Level.HIGH, "w": Word.YES}, {"c": "red", "l": 3, "w": "yes"}),
        ({"s": {3, 1, 2}, "f": frozenset("b"), "t": (1,), "p": Pair(1, 2)},
         {"s": [1, 2, 3], "f": ["b"], "t": [1], "p": [1, 2]}),
        (Order(1, [Part("x", Decimal("2.50"), AT)], {"b", "a"}),
         {"id": 1, "parts": [{"name": "x", "price": "2.50", "at": "2026-03-13T14:30:00+00:00"}], "tags": ["a", "b"]}),
        (Query("q1", since=date(2026, 3, 1)), {"dataset": "q1", "limit": 10, "since": "2026-03-01"}),
        ({"order": Order(2)}, {"order": {"id": 2, "parts": [], "tags": []}}),
        (Model(n=1), {"n": 1}),
        ({"model": Model(n=1)}, {"model": {"n": 1}}),
        ([Query("q1")], {"items": [{"dataset": "q1", "limit": 10, "since": None}]}),
        ((1, 2), {"items": [1, 2]}),
        ({"b", "a"}, {"items": ["a", "b"]}),
        ([], {"items": []}),
        ("v2.3", {"text": "v2.3"}),
        (Word.YES, {"text": "yes"}),
        (7, {"value": 7}),
        (True, {"value": True}),
        (AT, {"value": "2026-03-13T14:30:00+00:00"}),
        (Decimal("0.1"), {"value": "0.1"}),
        (None, {}),
    ],
)  # fmt: skip
def test_a_value_is_sent_as_one_would_expect(value: object, payload: dict[str, Any]) -> None:
    assert sent(value) == payload


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"report": {"when": NAIVE}}, "payload.report.when: a datetime without a time zone"),
        ({"rows": [1, {"raw": b"x"}]}, "payload.rows[1].raw: bytes are not JSON"),
        ({"x": float("nan")}, "payload.x: nan is not JSON"),
        ({"x": object()}, "payload.x: object is not JSON"),
        ({"x": {1, object()}}, "object is not JSON"),
        ({"x": {(1, 2): 3}}, "payload.x: a key is tuple, not text"),
        ({"part": Part("x", Decimal(1), NAIVE)}, "payload.part.at: a datetime without a time zone"),
        ([object()], "payload.items[0]: object is not JSON"),
        (object(), "object is not JSON"),
        (Order, "type is not JSON"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_key(value: object, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        sent(value)

    assert said in str(refused.value)


def test_a_value_in_a_circle_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = [circle]

    with pytest.raises(Invalid, match=r"payload\.again"):
        sent(circle)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("abcé\n"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text("ab"), plain, max_size=4))
def test_json_is_sent_as_it_is(payload: dict[str, Any]) -> None:
    assert as_payload(payload) is payload
    assert sent(payload) == payload


# ---------------------------------------------------------------- schemas


@pytest.mark.parametrize(
    ("schema", "payload", "value"),
    [
        (Query, {"dataset": "q1", "since": "2026-03-01"}, Query("q1", since=date(2026, 3, 1))),
        (Order, {"id": 1, "tags": ["a"]}, Order(1, tags={"a"})),
        (Row, {"name": "ann", "age": 3}, {"name": "ann", "age": 3}),
        (dict[str, int], {"a": 1}, {"a": 1}),
    ],
)
def test_a_payload_becomes_what_is_asked_for(schema: Any, payload: dict[str, Any], value: object) -> None:
    assert convert(payload, schema) == value


def test_a_pydantic_model_validates_for_itself() -> None:
    assert convert({"n": 1}, Model).fields == {"n": 1}


@pytest.mark.parametrize(
    ("schema", "payload", "fields"),
    [
        (Query, {}, ["dataset"]),
        (Query, {"dataset": 1}, ["dataset"]),
        (Order, {"id": 1, "parts": [{"name": "x", "price": "1", "at": "soon"}]}, ["parts[0].at"]),
        (Order, {"id": 1, "parts": [{"price": "1", "at": "2026-03-13T14:30:00Z"}]}, ["parts[0].name"]),
        (Row, {"name": "ann"}, ["age"]),
        (Model, {"n": "x"}, ["n", "payload"]),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_its_field(
    schema: Any, payload: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        convert(payload, schema)

    assert refused.value.code == "payload_invalid"
    assert [problem.field for problem in refused.value.problems] == fields
    assert fields[0] in str(refused.value)


@pytest.mark.parametrize("schema", [Query, Order, Row, Model, Cat | Dog])
def test_these_types_of_a_parameter_are_schemas(schema: object) -> None:
    assert is_schema(schema)
    check_schema(schema, "schema")


@pytest.mark.parametrize("kind", [dict, dict[str, Any], str, Any, object, list[int], Exception, 3])
def test_these_types_of_a_parameter_are_none(kind: object) -> None:
    assert not is_schema(kind)


@pytest.mark.parametrize("kind", [Exception, object, 3, "Query"])
def test_what_nothing_can_be_converted_to_is_no_schema(kind: object) -> None:
    with pytest.raises(Invalid, match="is no schema"):
        check_schema(kind, "schema")
