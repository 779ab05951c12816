"""Replay: an entry of the audit log is tried again, and only what would fare otherwise is told."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.agents.party import Party
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Origin, ReplyPolicy
from parley.domain.rules.policy import AppliesTo, CrossOrg
from parley.domain.rules.replay import Change, Recorded, audience_of, replay_entry, replayable, trial_of
from parley.domain.rules.rulebook import Rulebook
from tests.samples.governed import ALICE, AT, BOB, a_party, a_rulebook

MIA = a_party("mia", org_unit="sales")


def some_facts(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """What is on record about a query that was delivered."""
    return {
        "role": "sender",
        "outcome": "delivered",
        "sender": "alice",
        "to": "bob",
        "receivers": ["bob"],
        "message_id": "msg_1",
        "exchange_id": "exch_1",
        "purpose": "information_query",
        "reply_policy": "agent-ok",
        "requires_commitment": False,
        "initiator": "alice",
        "origin": "agent-generated",
        "classification": "internal",
        "declared": "internal",
        "annotated": True,
        "round": 1,
        "max_rounds": 3,
        "hops": 1,
        "keywords": [],
        "over": [],
        "shared_levels": [],
        "fixed_levels": [],
        **changes,
    }


def again(
    book: Rulebook,
    *receivers: Party,
    texts: tuple[str, ...] | None = ("hello",),
    **changes: Any,  # noqa: ANN401
) -> list[Change]:
    facts = some_facts(**changes)
    to = receivers or (BOB,)
    trial = trial_of(facts, ALICE, to[0], texts, own_limit=False)
    return replay_entry(Recorded("aud_1", AT, facts), trial, to, book)


def told(changes: list[Change]) -> list[tuple[str, str, str]]:
    return [(one.receiver, one.was, one.now) for one in changes]


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (some_facts(), True),
        (some_facts(role="receiver"), False),
        (some_facts(outcome="expired"), False),
        ({"role": "sender", "outcome": "denied"}, False),
    ],
)
def test_only_the_senders_side_of_what_was_judged_is_tried(facts: dict[str, Any], found: bool) -> None:
    assert replayable(facts) is found


def test_what_would_fare_the_same_is_not_told() -> None:
    assert again(a_rulebook()) == []
    assert again(a_rulebook(), outcome="held", texts=("We promise it.",)) == []
    assert again(a_rulebook(exchange_types=()), outcome="denied") == []


def test_a_change_names_the_entry_the_message_and_why() -> None:
    (change,) = again(a_rulebook(exchange_types=()))

    assert change == Change(
        "aud_1",
        AT,
        "msg_1",
        "exch_1",
        "alice",
        "bob",
        "allow",
        "deny",
        "the policy allows no information_query",
    )


@pytest.mark.parametrize(
    ("was", "said", "texts", "now"),
    [
        ("delivered", {"commitment_words": ("ship",)}, ("We ship it.",), "hold"),
        ("delivered", {"exchange_types": ()}, ("hello",), "deny"),
        ("held", {"exchange_types": ()}, ("We promise it.",), "deny"),
        ("held", {}, ("hello",), "allow"),
        ("denied", {}, ("hello",), "allow"),
        ("denied", {}, ("We promise it.",), "hold"),
    ],
)
def test_a_message_is_now_denied_held_or_released(
    was: str, said: dict[str, Any], texts: tuple[str, ...], now: str
) -> None:
    (change,) = again(a_rulebook(**said), texts=texts, outcome=was)

    assert change.now == now
    assert change.why == ("no policy forbids it" if now == "allow" else change.why)


def test_what_is_no_longer_kept_is_tried_by_what_was_found_in_it() -> None:
    kept: dict[str, Any] = {"outcome": "held", "keywords": ["promise"]}

    assert again(a_rulebook(), texts=None, **kept) == []
    assert told(again(a_rulebook(), texts=("hello",), **kept)) == [("bob", "hold", "allow")]
    raised: dict[str, Any] = {"declared": "internal", "classification": "confidential", "outcome": "denied"}
    assert again(a_rulebook(), texts=None, **raised) == []
    assert told(again(a_rulebook(), **raised)) == [("bob", "deny", "allow")]


def test_a_person_who_approved_it_is_not_asked_again_unless_it_may_not_be() -> None:
    approved: dict[str, Any] = {"origin": "agent-assisted"}

    assert again(a_rulebook(commitment_words=("ship",)), texts=("We ship it.",), **approved) == []
    assert told(again(a_rulebook(exchange_types=()), **approved)) == [("bob", "allow", "deny")]


def test_a_reply_is_tried_as_one() -> None:
    trial = trial_of(
        some_facts(initiator="bob", reply_policy="human-only", round=2, over=["restricted"]),
        ALICE,
        BOB,
        (),
        own_limit=True,
    )

    assert (trial.initiates, trial.round, trial.max_rounds) == (False, 2, 3)
    assert (trial.reply_policy, trial.origin) == (ReplyPolicy.HUMAN_ONLY, Origin.AGENT)
    assert trial.data == (Classification.RESTRICTED,)


def test_a_round_limit_of_the_policy_is_that_of_the_new_one_and_an_own_one_stays() -> None:
    late = some_facts(round=3, max_rounds=3)
    two, nine = a_rulebook(max_rounds=2), a_rulebook(max_rounds=9)

    def found(book: Rulebook, own: bool, **changes: Any) -> list[Change]:  # noqa: ANN401
        facts = {**late, **changes}
        return replay_entry(Recorded("", AT, facts), trial_of(facts, ALICE, BOB, (), own_limit=own), (BOB,), book)

    assert told(found(two, own=False)) == [("bob", "allow", "hold")]
    assert found(nine, own=False) == []
    assert told(found(nine, own=False, round=4, outcome="held")) == [("bob", "hold", "allow")]
    assert found(nine, own=True, round=4, outcome="held") == []


def test_of_a_message_to_several_each_is_told_who_would_be_left_out_or_let_in() -> None:
    both_sides: dict[str, Any] = {"to": "*", "receivers": ["bob", "mia"]}
    one_side: dict[str, Any] = {
        "to": "*",
        "receivers": ["bob"],
        "excluded": [{"agent": "mia", "reason": "policy_denied"}],
    }
    open_book = a_rulebook(cross_org=CrossOrg.ALLOW)

    assert told(again(a_rulebook(), BOB, MIA, **both_sides)) == [("mia", "allow", "deny")]
    assert again(open_book, BOB, MIA, **both_sides) == []
    assert told(again(open_book, BOB, MIA, **one_side)) == [("mia", "deny", "allow")]
    assert again(a_rulebook(), BOB, MIA, **one_side) == []
    assert audience_of(some_facts(**one_side)) == ("bob", "mia")


def test_a_message_to_several_is_held_as_a_whole() -> None:
    asked = again(a_rulebook(cross_org=CrossOrg.APPROVAL), BOB, MIA, to="*", receivers=["bob", "mia"])

    assert told(asked) == [("mia", "allow", "hold")]


def test_a_message_to_several_that_nobody_would_get_is_denied_once() -> None:
    changes = again(a_rulebook(exchange_types=()), BOB, MIA, to="*", receivers=["bob", "mia"])

    assert [(one.was, one.now) for one in changes] == [("allow", "deny")]


def test_what_rules_beside_the_documents_made_stricter_is_not_released_by_a_document() -> None:
    tightened: dict[str, Any] = {"rules": "rego-1", "tightened": True}

    assert again(a_rulebook(), outcome="denied", **tightened) == []
    assert again(a_rulebook(), outcome="held", **tightened) == []
    assert told(again(a_rulebook(exchange_types=()), outcome="held", **tightened)) == [("bob", "hold", "deny")]
    out: dict[str, Any] = {"to": "*", "receivers": ["bob"], "excluded": [{"agent": "eve", "reason": "policy_denied"}]}
    assert told(again(a_rulebook(), BOB, a_party("eve"), **out)) == [("eve", "deny", "allow")]
    assert again(a_rulebook(), BOB, a_party("eve"), **out, **tightened) == []
    assert told(again(a_rulebook(exchange_types=()), rules="rego-1", tightened=False)) == [("bob", "allow", "deny")]


def test_a_message_that_asked_for_nothing_passes_where_the_rules_no_longer_concern_it() -> None:
    silent: dict[str, Any] = {"outcome": "denied", "receivers": ["mia"], "to": "mia"}

    assert told(again(a_rulebook(applies_to=AppliesTo.ANNOTATED), MIA, annotated=False, **silent)) == [
        ("mia", "deny", "allow")
    ]
    assert again(a_rulebook(applies_to=AppliesTo.ANNOTATED), MIA, annotated=True, **silent) == []
