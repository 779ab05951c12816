"""Arguments are checked against annotations, whatever the class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.sdk.arguments import check_arguments


@check_arguments
class Place:
    """Methods with every form of annotation."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def take(
        self,
        text: str = "",
        *,
        names: str | Iterable[str] = (),
        fields: Mapping[str, int | None] | None = None,
        lease: timedelta | None = None,
        seconds: float = 0,
        pause: Callable[[float], None] | None = None,
        place: Place | None = None,
    ) -> str:
        """What the test gives."""
        return f"{text}{names}{fields}{lease}{seconds}{pause}{place}"

    def _private(self, text: str) -> object:
        return text


class Inner(Place):
    """A class below one that is named."""


@pytest.mark.parametrize(
    "given",
    [
        {"text": "a"},
        {"names": "a"},
        {"names": ["a"]},
        {"fields": {"a": None}},
        {"fields": None},
        {"lease": timedelta(1)},
        {"seconds": 1},
        {"pause": print},
        {"place": Place()},
        {"place": Inner()},
    ],
)
def test_what_an_annotation_allows_passes(given: dict[str, Any]) -> None:
    assert Place().take(**given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"text": None}, "text: must be text, not NoneType"),
        ({"names": 1}, "names: must be text or a list, not int"),
        ({"fields": []}, "fields: must be a mapping, not list"),
        ({"lease": "1m"}, "lease: must be a timedelta, not str"),
        ({"seconds": "1"}, "seconds: must be a number, not str"),
        ({"pause": 1}, "pause: must be a function, not int"),
        ({"place": "here"}, "place: must be a Place, not str"),
    ],
)
def test_what_it_does_not_allow_is_refused_by_its_name(given: dict[str, Any], text: str) -> None:
    with pytest.raises(Invalid) as refused:
        Place().take(**given)

    assert str(refused.value) == text


def test_what_is_missing_or_unknown_is_named_by_python() -> None:
    take: Any = Place().take

    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        take(colour="red")


def test_the_constructor_is_checked_and_private_methods_are_not() -> None:
    wrong: Any = 7

    with pytest.raises(Invalid, match="name: must be text, not int"):
        Place(wrong)
    assert Place()._private(wrong) == 7
