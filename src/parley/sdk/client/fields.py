"""The fields of requests: what is not given is left out, and times are written as the server reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from parley.domain.errors.errors import Invalid
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    # A time: with its zone, or as RFC 3339 has it.
    Moment: TypeAlias = datetime | str

NOTHING: Mapping[str, Any] = {}


def without_none(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  # whatever JSON holds
    """The fields that have a value, for a body or query whose other fields have defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def lists_of(**fields: Iterable[Any] | None) -> dict[str, list[Any]]:
    """The fields that have a value, each as a list."""
    return {name: list(values) for name, values in fields.items() if values is not None}


def timestamp_of(moment: Moment | None) -> str | None:
    """A time as the server reads it."""
    if moment is None or isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise Invalid(f"{moment} has no time zone", hint="use datetime.now(UTC)")
    return stamp(moment)


def if_match(version: int | None) -> dict[str, str]:
    """The header that names the version that a change is for; without a version it is for the current one."""
    return {"if-match": "*" if version is None else f'"{version}"'}
