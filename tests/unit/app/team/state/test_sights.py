"""What agents see is kept until the rights of their tenant change."""

from __future__ import annotations

import pytest

from parley.app.team.state import sights
from parley.app.team.state.sights import SightCache, VisibleParts
from parley.domain.record import Record
from parley.domain.store.changes import Committed
from tests.contract.team_store import a_channel, an_intent

SIGHT = VisibleParts({"chan_1": 0}, {"chan_1": 0}, ())


@pytest.mark.parametrize(
    ("committed", "known"),
    [
        (Committed(1), True),
        (Committed(1, puts=(an_intent(),)), True),
        (Committed(1, puts=(a_channel(),)), False),
        (Committed(1, ended=("chan_1",)), False),
        (Committed(1, missed=True), False),
    ],
)
def test_a_change_of_rights_ends_what_was_kept(committed: Committed, known: bool) -> None:
    cache = SightCache()
    cache.publish("t1", Committed(1))
    cache.keep("t1", "bob", cache.generation("t1"), SIGHT)

    cache.publish("t2", Committed(1, puts=(a_channel(),)))
    assert cache.get("t1", "bob") == SIGHT
    cache.publish("t1", committed)

    assert (cache.get("t1", "bob") == SIGHT) is known


def test_what_was_found_while_rights_changed_is_not_used() -> None:
    cache = SightCache()
    generation = cache.generation("t1")
    changed: tuple[Record, ...] = (a_channel(),)
    cache.publish("t1", Committed(1, puts=changed))

    cache.keep("t1", "bob", generation, SIGHT)

    assert cache.get("t1", "bob") is None


def test_neither_many_nor_large_ones_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sights, "_KEPT", 3)
    monkeypatch.setattr(sights, "_KEPT_ITEMS", 2)
    cache = SightCache()
    cache.publish("t1", Committed(1))
    for agent in "abcd":
        cache.keep("t1", agent, 0, SIGHT)
    cache.keep("t1", "e", 0, VisibleParts({"a": 0}, {"a": 0}, ("b",)))

    assert [cache.get("t1", agent) is not None for agent in "abcde"] == [False, False, False, True, False]


def test_nothing_is_used_before_it_is_known_up_to_where_the_rights_are_known() -> None:
    cache = SightCache()
    cache.keep("t1", "bob", 0, SIGHT)

    assert (cache.get("t1", "bob"), cache.position("t1")) == (None, None)
    cache.publish("t1", Committed(7))
    assert (cache.get("t1", "bob"), cache.position("t1")) == (SIGHT, 7)
