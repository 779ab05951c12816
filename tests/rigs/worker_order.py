"""The order of tests for workers that each begin with a share of the slow ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def slow_first_on_each(tests: Sequence[tuple[Hashable, _T]], slow: frozenset[Hashable], workers: int) -> list[_T]:
    """Deal slow modules to the workers in turn, and fill up the share of each with the other tests.

    A test comes with its module. xdist gives each worker an equal part of the list, and lets a worker that is done take
    over what is last in another's part. With all slow modules in front, the first worker would get all of them, and the
    others would take them over at the end.
    """
    modules: dict[Hashable, list[_T]] = {}
    for module, test in tests:
        modules.setdefault(module, []).append(test)
    shares: list[list[_T]] = [[] for _ in range(workers)]
    for number, module in enumerate(module for module in modules if module in slow):
        shares[number % workers] += modules[module]
    quick = [test for module, test in tests if module not in slow]
    ordered: list[_T] = []
    for number, share in enumerate(shares):
        room = max(0, (len(tests) - len(ordered)) // (workers - number) - len(share))
        ordered += share + quick[:room]
        del quick[:room]
    return ordered + quick
