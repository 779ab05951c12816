"""What a node knows of a tenant is moved on by the journal, and never for longer than it is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from parley.adapters.postgres import cache as tenancy
from parley.adapters.postgres.cache import Note, TenantCache, decode_note, encode_note
from parley.domain.audit.entry import SideHead
from parley.domain.channel.channel import Tally
from parley.domain.store.source import ChannelCounters, Head
from tests.contract.team_store import T1, a_channel, an_intent

if TYPE_CHECKING:
    import asyncpg

LINK = b"\x01" * 32
CHANNEL, INTENT = (T1, "channel", "chan_1"), (T1, "intent", "intent_1")
BUDGET = (T1, "messages", "")


def a_tenancy() -> TenantCache:
    """Number 7 at revision 3, with something of every sort that can be known."""
    made = TenantCache(cast("asyncpg.Record", (7, T1, 40, 3, 5, LINK, 6)))
    made.put(CHANNEL, a_channel(version=1))
    made.put(INTENT, an_intent(version=1))
    made.channel_counters["chan_1"] = ChannelCounters(1, "intent_1", 40, Tally(40, "", 0))
    made.sides["alice"] = SideHead(1, "x")
    made.budgets[BUDGET] = 9
    made.logs["intent_1"] = (2, "y")
    return made


def a_note(**changes: object) -> Note:
    note = Note((41, 6, LINK, 7))
    for name, value in changes.items():
        setattr(note, name, value)
    return note


def test_a_tenant_begins_as_its_head_row_says() -> None:
    one = a_tenancy()

    assert (one.number, one.id, one.revision, one.scope) == (7, T1, 3, "7")
    assert one.head == Head(7, 40, 5, LINK, 6)


def test_a_note_comes_out_of_the_journal_as_it_went_in() -> None:
    note = Note((41, 6, LINK, 7), [("intent", "intent_1")], ["chan_1"], ["chan_2"], ["bob"], True)

    assert decode_note(encode_note(note)) == note
    assert decode_note(encode_note(a_note())) == a_note()


def test_an_older_version_that_says_less_is_understood() -> None:
    assert decode_note(b'[[41,6,"",7]]').others is False


def test_what_another_node_changed_is_forgotten_and_nothing_else() -> None:
    one = a_tenancy()

    one.apply_other(4, a_note(records=[("intent", "intent_1")]))

    assert (one.revision, one.head) == (4, Head(7, 41, 6, LINK, 7))
    assert INTENT not in one.records
    assert CHANNEL in one.records
    assert set(one.channel_counters) == {"chan_1"}
    assert (one.sides, one.budgets, one.logs) != ({}, {}, {})


def test_counters_go_with_their_channel_and_chains_all_together() -> None:
    one = a_tenancy()

    one.apply_other(4, a_note(channels=["chan_1"]))
    assert one.channel_counters == {}
    assert one.budgets == {BUDGET: 9}

    one.apply_other(5, a_note(others=True))
    assert (one.sides, one.budgets, one.logs) == ({}, {}, {})


def test_what_this_node_wrote_it_knows() -> None:
    one = a_tenancy()

    one.apply_own(a_note(records=[("intent", "intent_1")], channels=["chan_1"], others=True))

    assert (one.revision, one.head) == (4, Head(7, 41, 6, LINK, 7))
    assert {CHANNEL, INTENT} == one.records.keys()
    assert one.budgets == {BUDGET: 9}


def test_who_reads_a_record_while_it_changes_learns_that_it_may_be_old() -> None:
    one = a_tenancy()
    other = (T1, "intent", "intent_2")
    for key in (INTENT, CHANNEL, other):
        one.readers[key] = object()

    one.drop(INTENT)
    one.put(CHANNEL, None)

    assert one.readers.keys() == {other}
    one.clear()
    assert one.readers == {}


def test_everything_can_be_forgotten() -> None:
    one = a_tenancy()

    one.clear()

    assert (one.records, one.channel_counters, one.sides, one.budgets, one.logs) == ({}, {}, {}, {}, {})
    assert one.revision == 3


def test_what_is_known_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenancy, "_RECORDS_LIMIT", 2)
    monkeypatch.setattr(tenancy, "_OTHERS_LIMIT", 1)
    one = a_tenancy()
    one.trim()
    assert (len(one.records), len(one.channel_counters), len(one.budgets)) == (2, 1, 1)

    one.put((T1, "intent", "intent_2"), None)
    one.readers[INTENT] = object()
    one.budgets[T1, "other", ""] = 1
    one.trim()

    assert (one.records, one.readers, one.budgets) == ({}, {}, {})
    assert set(one.channel_counters) == {"chan_1"}
