from __future__ import annotations

from typing import Any, cast

from parley.adapters.sqlite.team.cache import StoreCache
from parley.domain.audit.entry import SideHead
from parley.domain.channel.channel import Tally
from parley.domain.store.source import ChannelCounters, Head, TransactionSource
from parley.domain.store.transaction import Encoders, Transaction
from parley.domain.store.writes import ForgetKeys
from tests.contract.team_store import T1, an_intent
from tests.rigs.team import kinds

COUNTERS = ChannelCounters(1, "intent_1", 0, Tally())


def a_transaction(**noted: Any) -> Transaction:  # noqa: ANN401
    """One that has noted something, and that asks nobody."""
    done = Transaction(cast(TransactionSource, None), cast(Encoders, None))
    for name, value in noted.items():
        setattr(done, name, value)
    return done


def test_what_is_known_is_forgotten_when_it_is_too_much() -> None:
    known = StoreCache(kinds())
    known.max_items = 2
    for n in range(2):
        known.records[T1, "intent", str(n)] = None
    known.trim()
    assert (len(known.records), known.clearings) == (2, 0)

    known.records[T1, "intent", "2"] = None
    known.trim()

    assert (len(known.records), known.clearings) == (0, 1)


def test_the_places_of_channels_are_forgotten_on_their_own() -> None:
    known = StoreCache(kinds())
    known.max_items = 0
    known.channel_counters[T1, "chan_1"] = COUNTERS

    known.trim()

    assert (known.channel_counters, known.clearings) == ({}, 0)


def test_as_many_sides_and_budgets_as_there_are_do_not_fill_the_memory() -> None:
    known = StoreCache(kinds())
    known.max_items = 3

    for number in range(20):
        known.update(a_transaction(sides={(T1, f"side_{number}"): SideHead()}, budgets={(T1, f"key_{number}", ""): 1}))
        known.trim()

        assert len(known.sides) <= 3
        assert len(known.budgets) <= 3


def test_what_a_transaction_has_become_is_known() -> None:
    known = StoreCache(kinds())
    head, intent = Head(1, 7, 0, b""), an_intent(version=1)

    known.update(
        a_transaction(
            records={(T1, "intent", "intent_1"): intent, (T1, "intent", "intent_2"): None},
            channel_counters={(T1, "chan_1"): COUNTERS},
            heads={T1: head},
            sides={(T1, "alice"): SideHead(1, "hash")},
            budgets={(T1, "key", ""): 2},
        )
    )

    assert known.records == {(T1, "intent", "intent_1"): intent, (T1, "intent", "intent_2"): None}
    assert (known.channel_counters, known.heads) == ({(T1, "chan_1"): COUNTERS}, {T1: head})
    assert (known.sides, known.budgets) == ({(T1, "alice"): SideHead(1, "hash")}, {(T1, "key", ""): 2})


def test_of_a_channel_that_is_gone_nothing_is_known_unless_it_came_again() -> None:
    known = StoreCache(kinds())
    one, other = (T1, "chan_1"), (T1, "chan_2")
    known.channel_counters[one] = known.channel_counters[other] = COUNTERS
    again = ChannelCounters(2, "intent_1", 0, Tally())

    known.update(
        a_transaction(channel_counters={one: COUNTERS, other: again}, gone_channels={one, other}, new_channels={other})
    )

    assert known.channel_counters == {other: again}


def test_after_budgets_were_forgotten_none_of_before_is_known() -> None:
    known = StoreCache(kinds())
    known.budgets[T1, "old", "2026"] = 3

    known.update(a_transaction(writes=[ForgetKeys("2027")], budgets={(T1, "new", ""): 1}))

    assert known.budgets == {(T1, "new", ""): 1}
