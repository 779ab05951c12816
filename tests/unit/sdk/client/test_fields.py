"""The fields of requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from parley.domain.errors.errors import Invalid
from parley.sdk.client.fields import if_match, lists_of, timestamp_of, without_none


def test_only_what_was_given_is_sent() -> None:
    assert without_none(a=1, b=None, c="", d=False, e={}) == {"a": 1, "c": "", "d": False, "e": {}}


def test_what_can_be_iterated_over_is_sent_as_a_list() -> None:
    assert lists_of(a=("x", "y"), b=None, c=iter(())) == {"a": ["x", "y"], "c": []}


def test_a_time_is_sent_in_utc() -> None:
    there = datetime(2026, 3, 13, 14, 30, tzinfo=timezone(timedelta(hours=2)))

    assert timestamp_of(there) == "2026-03-13T12:30:00.000000+00:00"
    assert timestamp_of(there.astimezone(UTC)) == timestamp_of(there)
    assert timestamp_of("2026-03-13T14:30:00Z") == "2026-03-13T14:30:00Z"
    assert timestamp_of(None) is None


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(Invalid, match="has no time zone"):
        timestamp_of(datetime(2026, 3, 13))  # noqa: DTZ001


def test_a_change_names_its_version_or_any() -> None:
    assert if_match(3) == {"if-match": '"3"'}
    assert if_match(None) == {"if-match": "*"}
