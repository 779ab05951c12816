from __future__ import annotations

from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Party, source_of
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose, Source
from tests.samples.governed import a_party


def test_an_agent_of_whom_nothing_was_said_has_the_least_that_is_useful() -> None:
    party = Party("stranger")

    assert party.attributes is UNKNOWN_ATTRIBUTES
    assert (party.attributes.org_unit, party.user) == ("default", "unassigned")
    assert party.attributes.max_classification is Classification.INTERNAL
    assert party.attributes.supported_exchange_types == tuple(Purpose)
    assert (party.attributes.can_receive_queries, party.attributes.can_auto_respond) == (True, True)
    assert party.attributes.max_rounds_accepted is None
    assert not party.human


def test_who_sends_is_what_the_directory_says_and_not_what_anybody_claims() -> None:
    assert source_of(a_party("alice"), "acme") == Source("alice", "alice.h", "engineering", "acme")
    assert source_of(Party("stranger"), "acme") == Source("stranger", "unassigned", "default", "acme")
