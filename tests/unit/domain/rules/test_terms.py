"""Terms: what holds between parties whatever is said, so that it can be kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.agents.party import Party
from parley.domain.content.classification import LEVELS, Classification, DataItem
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import PolicyUnavailable
from parley.domain.rules.judge import Deny
from parley.domain.rules.policy import Commitments, CrossOrg
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.ruling import Proposal, rule
from parley.domain.rules.terms import Terms
from tests.samples.governed import ALICE, BOB, NOTHING_IN_FORCE, a_party, a_proposal, a_rulebook, an_exchange
from tests.samples.messages import PROPERTY

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = LEVELS
PARTIES = st.builds(
    a_party,
    st.sampled_from(["bob", "carol", "dave"]),
    org_unit=st.sampled_from(["engineering", "sales"]),
    max_classification=st.sampled_from(LEVELS),
    can_receive_queries=st.booleans(),
    can_auto_respond=st.booleans(),
)
POLICIES = st.fixed_dictionaries(
    {
        "cross_org": st.sampled_from(CrossOrg),
        "commitments": st.sampled_from(Commitments),
        "max_rounds": st.sampled_from([1, 2, 9]),
        "hop_limit": st.sampled_from([1, 8]),
    }
)
MESSAGES = st.fixed_dictionaries(
    {
        "wishes": st.builds(
            Wishes()._replace,
            purpose=st.sampled_from([None, *Purpose]),
            classification=st.sampled_from([None, *LEVELS]),
            data=st.sampled_from([(), (DataItem("crm", ("rate",), CONFIDENTIAL),), (DataItem("crm", (), RESTRICTED),)]),
        ),
        "body": st.sampled_from(
            [{"text": "What is the status?"}, {"text": "We promise it."}, {"rate": "password: x12345"}]
        ),
        "asks": st.booleans(),
        "exchange": st.sampled_from(
            [None, an_exchange(version=1, current_round=1), an_exchange(version=3, current_round=3, hops=4)]
        ),
    }
)


def outcome(proposal: Proposal, book: Rulebook) -> object:
    """A ruling as values: an error is one by its code and its words."""
    try:
        ruling = rule(proposal, book)
    except ParleyError as error:
        return (error.code, error.message)
    verdict = ruling.verdict
    if isinstance(verdict, Deny):
        verdict = (verdict.error.code, verdict.error.message, verdict.ends)  # type: ignore[assignment]
    # Whose terms they are is what differs.
    return (verdict, *[part for part in ruling[1:] if part is not ruling.terms])


@PROPERTY
@given(
    receivers=st.lists(PARTIES, min_size=1, max_size=3, unique_by=lambda party: party.agent),
    policy=POLICIES,
    messages=st.lists(MESSAGES, min_size=1, max_size=6),
)
def test_a_ruling_by_kept_terms_is_the_ruling_of_fresh_ones(
    receivers: list[Party], policy: dict[str, Any], messages: list[dict[str, Any]]
) -> None:
    book = a_rulebook(**policy)
    proposals = [a_proposal(receivers=tuple(receivers), **message) for message in messages]
    kept = Terms(proposals[0].tenant, proposals[0].sender, proposals[0].receivers, book)

    # Twice: the second time everything that can be kept is.
    for proposal in proposals * 2:
        assert outcome(proposal._replace(terms=kept), book) == outcome(proposal, book)


@pytest.mark.parametrize("level", LEVELS)
def test_the_ceiling_is_the_lowest_of_the_level_the_policies_and_all_parties(level: Classification) -> None:
    receivers = (a_party("bob", max_classification=RESTRICTED), a_party("carol", max_classification=INTERNAL))
    terms = Terms("t1", a_party("alice", max_classification=RESTRICTED), receivers, a_rulebook())

    assert terms.ceiling(level) is min(level, INTERNAL, key=lambda each: each.rank)
    assert terms.ceiling(level) is terms.ceiling(level)


def test_without_a_policy_there_are_no_terms() -> None:
    with pytest.raises(PolicyUnavailable):
        Terms("t1", ALICE, (BOB,), NOTHING_IN_FORCE)


def test_only_so_many_facts_are_kept() -> None:
    terms = Terms("t1", ALICE, (BOB,), a_rulebook())

    for number in range(1000):
        terms.note_allowed((number,))

    assert terms.is_allowed((999,))
    assert not terms.is_allowed((0,))
