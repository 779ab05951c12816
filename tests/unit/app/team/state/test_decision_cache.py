"""Remembered decisions: valid for one generation and until a moment, and never more than fit into memory."""

from __future__ import annotations

from parley.app.team.state.decision_cache import DecisionCache, DecisionKey, RememberedDecision
from parley.domain.message.message import Pattern
from parley.domain.record import Expect
from parley.domain.store.ground import Ground

KEY = DecisionKey("default", "alice", "chan_1", "bob", Pattern.NOTIFY)
NOW = "2026-03-13T14:30:00.000000+00:00"
LATER = "2026-03-13T14:30:01.000000+00:00"


def remembered(generation: int = 1, until: str = "", expects: int = 1) -> RememberedDecision[str]:
    ground = Ground(generation, tuple(Expect("channel", str(number), 1) for number in range(expects)))
    return RememberedDecision(ground, until, "yes")


def test_a_decision_holds_until_the_generation_moves() -> None:
    generations = {"default": 1}
    cache: DecisionCache[str] = DecisionCache(generations.__getitem__)
    cache.remember(KEY, remembered())

    assert cache.find(KEY, NOW) == remembered()
    assert cache.find(KEY._replace(to="carol"), NOW) is None

    generations["default"] = 2
    assert cache.find(KEY, NOW) is None


def test_a_decision_ends_at_its_moment() -> None:
    cache: DecisionCache[str] = DecisionCache(lambda _: 1)
    cache.remember(KEY, remembered(until=LATER))

    assert (cache.find(KEY, NOW) is not None, cache.find(KEY, LATER)) == (True, None)


def test_nothing_is_remembered_of_a_generation_that_is_not_known() -> None:
    cache: DecisionCache[str] = DecisionCache(lambda _: 0)
    cache.remember(KEY, remembered(generation=0))

    assert (len(cache), cache.find(KEY, NOW)) == (0, None)


def test_what_rests_on_a_record_that_moves_no_generation_is_not_remembered() -> None:
    cache: DecisionCache[str] = DecisionCache(lambda _: 1)
    ground = Ground(1, (Expect("channel", "chan_1", 1), Expect("exchange", "exch_1", 1)))

    cache.remember(KEY, RememberedDecision(ground, "", "yes"))

    assert len(cache) == 0


def test_the_memory_is_bounded() -> None:
    cache: DecisionCache[str] = DecisionCache(lambda _: 1, limit=3)
    cache.remember(KEY, remembered(expects=1_000))
    assert len(cache) == 0

    for number in range(100):
        cache.remember(KEY._replace(to=f"agent-{number}"), remembered())
        assert 1 <= len(cache) <= 3
