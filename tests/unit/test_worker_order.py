"""Each worker begins with its share of the slow modules, and every test is there once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.rigs.worker_order import slow_first_on_each


def test_each_of_two_workers_begins_with_a_slow_module() -> None:
    tests = [(module, f"{module}{number}") for module in "abcdef" for number in range(2)]

    ordered = slow_first_on_each(tests, frozenset("bf"), 2)

    assert ordered == ["b0", "b1", "a0", "a1", "c0", "c1", "f0", "f1", "d0", "d1", "e0", "e1"]


@given(st.lists(st.sampled_from("abcdef")), st.frozensets(st.sampled_from("abcdef")), st.integers(1, 5))
def test_no_test_is_lost_or_doubled(modules: list[str], slow: frozenset[str], workers: int) -> None:
    tests = [(module, number) for number, module in enumerate(modules)]

    assert sorted(slow_first_on_each(tests, slow, workers)) == list(range(len(modules)))
