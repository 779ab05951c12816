"""A filter takes a day, a time or how long ago; what is none of them goes to the API, which says so."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parley.surfaces.console.periods import as_time

NOW = datetime(2026, 11, 18, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ("2026-11-17", "2026-11-17T00:00:00+00:00", "2026-11-18T00:00:00+00:00"),
        ("2h", "2026-11-18T07:30:00+00:00", "2026-11-18T07:30:00+00:00"),
        (" 7 d ", "2026-11-11T09:30:00+00:00", "2026-11-11T09:30:00+00:00"),
        ("2026-11-17T10:00:00Z", "2026-11-17T10:00:00Z", "2026-11-17T10:00:00Z"),
        ("9999-12-31", "9999-12-31T00:00:00+00:00", "9999-12-31"),
        ("never", "never", "never"),
        ("999999w", "999999w", "999999w"),
        ("", "", ""),
    ],
)
def test_a_time_is_read_as_people_type_it(text: str, begins: str, ends: str) -> None:
    assert (as_time(text, NOW), as_time(text, NOW, ends=True)) == (begins, ends)
