"""Numbers as small lines."""

from __future__ import annotations

import re

import pytest

from parley.surfaces.console.sparklines import sparkline


def points(values: list[int], steps: int) -> list[tuple[float, float]]:
    drawn = re.search(r'd="M([^"]*)" class="line"', sparkline(values, steps, "about"))
    assert drawn is not None
    return [(float(across), float(down)) for across, down in (point.split() for point in drawn[1].split("L"))]


def test_the_newest_value_is_at_the_right_end_and_the_highest_at_the_top() -> None:
    assert points([0, 4, 1], 5) == [(60.0, 22.0), (90.0, 2.0), (120.0, 17.0)]


def test_what_is_older_than_the_picture_is_left_out() -> None:
    assert points([9, 9, 0, 0], 2) == [(0.0, 22.0), (120.0, 22.0)]


@pytest.mark.parametrize("values", [[], [3]])
def test_few_values_make_a_picture_too(values: list[int]) -> None:
    assert 'aria-label="a &lt; b"' in sparkline(values, 60, "a < b")
