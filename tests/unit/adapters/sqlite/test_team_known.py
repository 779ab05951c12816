from __future__ import annotations

from parley.adapters.sqlite.team_known import Known, Place
from parley.domain.channel import Tally
from tests.contract.team_store import T1
from tests.team_rig import kinds


def test_what_is_known_is_forgotten_when_it_is_too_much() -> None:
    known = Known(kinds())
    known.most = 2
    for n in range(2):
        known.records[T1, "intent", str(n)] = None
    known.trim()
    assert (len(known.records), known.generation) == (2, 0)

    known.records[T1, "intent", "2"] = None
    known.trim()

    assert (len(known.records), known.generation) == (0, 1)


def test_the_places_of_channels_are_forgotten_on_their_own() -> None:
    known = Known(kinds())
    known.most = 0
    known.places["chan_1"] = Place(1, "intent_1", 0, Tally())

    known.trim()

    assert (known.places, known.generation) == ({}, 0)
