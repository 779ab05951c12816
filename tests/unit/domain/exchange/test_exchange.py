from __future__ import annotations

from typing import Any

import pytest

from parley.domain.content.envelope import ReplyPolicy
from parley.domain.errors.rules import ExchangeClosed, ExchangeExpired, NoReplyNeeded
from parley.domain.exchange.exchange import (
    FINAL,
    Exchange,
    Outcome,
    Turn,
    accepted,
    chain_length,
    check_open,
    ended,
    escalated,
    escalation,
    released,
    summary_of,
    with_person,
)
from tests.samples.governed import AT, END, an_exchange


def talk(rounds: int, **changes: Any) -> Exchange:  # noqa: ANN401  # what an exchange has
    """An exchange in which so much was said, to and fro."""
    exchange = an_exchange(**changes)
    for number in range(rounds):
        exchange = accepted(exchange, ("alice", "bob")[number % 2], f"said {number + 1}", AT, 1)
    return exchange


def test_a_round_is_taken_by_what_is_accepted_whoever_says_it() -> None:
    exchange = talk(2)

    assert exchange.current_round == 2
    assert exchange.transcript == (Turn(1, "alice", "said 1"), Turn(2, "bob", "said 2"))
    assert exchange.outcome is Outcome.IN_PROGRESS


def test_what_needs_no_reply_is_resolved_when_it_is_said() -> None:
    exchange = talk(1, reply_policy=ReplyPolicy.NO_REPLY)

    assert (exchange.outcome, exchange.ended_at, exchange.ended_by) == (Outcome.RESOLVED, AT, "alice")
    assert exchange.due == ""


def test_a_held_message_takes_no_round_and_the_exchange_goes_on_when_nothing_else_waits() -> None:
    waiting = escalated(escalated(talk(1), "appr_1"), "appr_2")
    assert (waiting.outcome, waiting.holds, waiting.current_round) == (Outcome.ESCALATED, ("appr_1", "appr_2"), 1)

    one_left = released(waiting, "appr_1")
    assert (one_left.outcome, one_left.holds) == (Outcome.ESCALATED, ("appr_2",))

    none_left = released(one_left, "appr_2")
    assert (none_left.outcome, none_left.holds) == (Outcome.IN_PROGRESS, ())


def test_the_limit_stays_whatever_else_is_decided() -> None:
    waiting = escalated(escalated(talk(3), "appr_1"), "appr_2", limit=True)

    after = released(waiting, "appr_1")

    assert (after.outcome, after.limit_approval) == (Outcome.ESCALATED, "appr_2")


@pytest.mark.parametrize("first", sorted(FINAL))
@pytest.mark.parametrize("second", sorted(FINAL))
def test_an_exchange_ends_once(first: Outcome, second: Outcome) -> None:
    over = ended(escalated(talk(1), "appr_1"), first, AT, "ann", "why")

    assert (over.outcome, over.ended_at, over.ended_by, over.reason, over.holds) == (first, AT, "ann", "why", ())
    assert over.over
    with pytest.raises(ExchangeClosed):
        ended(over, second, AT, "eve", "again")


def test_what_is_over_is_no_longer_due_and_what_waits_still_is() -> None:
    assert an_exchange().due == END
    assert escalated(an_exchange(), "appr_1").due == END
    assert ended(an_exchange(), Outcome.DENIED, AT, "ann", "").due == ""


# A notification of alice, and the same with a reply of bob's person.
NOTICE: dict[str, Any] = {
    "outcome": Outcome.RESOLVED,
    "reply_policy": ReplyPolicy.NO_REPLY,
    "transcript": (Turn(1, "alice", "It is done."),),
}
ANSWERED = {**NOTICE, "transcript": (*NOTICE["transcript"], Turn(2, "bob", "Thank you."))}


@pytest.mark.parametrize(
    ("changes", "sender", "human", "refusal"),
    [
        ({}, "alice", False, None),
        ({"outcome": Outcome.ESCALATED}, "bob", False, None),
        ({"outcome": Outcome.RESOLVED}, "bob", False, ExchangeClosed),
        ({"outcome": Outcome.DENIED}, "bob", True, ExchangeClosed),
        ({"outcome": Outcome.EXPIRED}, "bob", False, ExchangeExpired),
        ({"expires_at": AT}, "bob", False, ExchangeExpired),
        ({"expires_at": AT, "outcome": Outcome.ESCALATED}, "bob", False, ExchangeExpired),
        ({"expires_at": AT, "outcome": Outcome.RESOLVED}, "bob", False, ExchangeClosed),
        (NOTICE, "bob", False, NoReplyNeeded),
        (NOTICE, "bob", True, None),
        ({**NOTICE, "expires_at": AT}, "bob", True, ExchangeExpired),
        ({**NOTICE, "outcome": Outcome.DENIED}, "bob", True, ExchangeClosed),
        ({**NOTICE, "transcript": ()}, "bob", True, ExchangeClosed),
        (NOTICE, "alice", False, ExchangeClosed),
        (NOTICE, "alice", True, ExchangeClosed),
        (ANSWERED, "alice", True, None),
        (ANSWERED, "alice", False, ExchangeClosed),
        (ANSWERED, "bob", False, NoReplyNeeded),
    ],
)
def test_nothing_is_said_in_what_is_over(
    changes: dict[str, Any], sender: str, human: bool, refusal: type[Exception] | None
) -> None:
    exchange = an_exchange(**changes)
    if refusal is None:
        check_open(exchange, sender, AT, human=human)
        return

    with pytest.raises(refusal) as refused:
        check_open(exchange, sender, AT, human=human)

    assert type(refused.value) is refusal
    assert refused.value.facts["exchange_id"] == "exch_1"  # type: ignore[attr-defined]


def test_a_pair_has_one_exchange_in_a_conversation_and_one_that_never_began_none() -> None:
    assert an_exchange().name == an_exchange(initiator="bob", responder="alice").name == "alice,bob"
    assert an_exchange(reserved=False).name == ""
    assert an_exchange().parent == "conv-1"
    assert an_exchange().includes("bob")
    assert not an_exchange().includes("carol")


# ---------------------------------------------------------------- hops


def heard(exchange_id: str, hops: int, *senders: str) -> Exchange:
    exchange = an_exchange(id=exchange_id, hops=hops)
    for number, sender in enumerate(senders, 1):
        exchange = accepted(exchange, sender, "x", AT, hops)
        assert exchange.current_round == number
    return exchange


def test_a_conversation_begins_with_one_hop() -> None:
    assert chain_length(None, (), "alice") == 1


def test_to_and_fro_between_two_is_one_hop() -> None:
    assert chain_length(heard("e1", 1, "alice", "bob"), (), "alice") == 1


def test_what_is_carried_on_to_a_third_is_one_hop_more() -> None:
    assert chain_length(None, (heard("e1", 1, "alice"),), "bob") == 2
    assert chain_length(None, (heard("e1", 1, "alice"), heard("e2", 4, "carol")), "bob") == 5


def test_what_one_said_oneself_last_leads_nowhere() -> None:
    assert chain_length(None, (heard("e1", 7, "alice"),), "alice") == 1
    assert chain_length(None, (an_exchange(hops=7),), "bob") == 1


def test_an_exchange_never_comes_nearer_to_where_it_all_began() -> None:
    assert chain_length(heard("e1", 3, "alice"), (heard("e2", 1, "carol"),), "bob") == 3


# ---------------------------------------------------------------- what is told of it


def test_the_escalation_is_that_of_the_specification() -> None:
    exchange = an_exchange(id="exch-001", conversation_id="conv-789-xyz")
    for sender, said in (
        ("agent-alice", "Requested project status"),
        ("agent-bob", "Provided status update"),
        ("agent-alice", "Asked follow-up question"),
    ):
        exchange = accepted(exchange, sender, said, AT, 1)

    assert escalation(exchange, "agent-bob", "Provided additional context") == {
        "exchangeId": "exch-001",
        "conversationId": "conv-789-xyz",
        "currentRound": 4,
        "maxRounds": 3,
        "conversationSummary": "Round 1 (agent-alice): Requested project status\n"
        "Round 2 (agent-bob): Provided status update\n"
        "Round 3 (agent-alice): Asked follow-up question\n"
        "Round 4 (agent-bob): Provided additional context",
        "reason": "Exchange reached maximum round limit (3). Human review required.",
    }


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("plain", "plain"),
        ({"x": 1, "text": "the text", "message": "not this"}, "the text"),
        ({"summary": "first", "text": "second"}, "first"),
        ({"text": "", "subject": "next"}, "next"),
        ({"text": 5, "list": [1, 2], "map": {"a": 1}, "none": {}}, "text: 5, list: [2], map: {…}, none: {}"),
        ({"x": None, "y": True, "z": False, "n": 1}, "x: null, y: true, z: false, n: 1"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("a\u200bb\u202ec", "a\\u200bb\\u202ec"),
        ("tab\tand \x1b[31m", "tab\\tand \\x1b[31m"),
        ("Grüße, 日本", "Grüße, 日本"),
        ({}, ""),
        (None, ""),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        ("\n" * 200, "\\n" * 99 + "\\…"),
    ],
)
def test_a_summary_is_one_line_in_which_nothing_hides(body: object, line: str) -> None:
    summary = summary_of(body)

    assert summary == line
    assert len(summary) <= 200
    assert summary.isprintable()


def test_a_line_of_the_summary_cannot_be_forged() -> None:
    exchange = accepted(an_exchange(), "alice", summary_of("ok\nRound 2 (bob): I agree"), AT, 1)

    told = escalation(exchange, "bob", "x")["conversationSummary"].splitlines()

    assert told == ["Round 1 (alice): ok\\nRound 2 (bob): I agree", "Round 2 (bob): x"]


def test_a_message_that_a_person_wrote_in_its_senders_place_names_the_person() -> None:
    exchange = accepted(accepted(an_exchange(), "alice", "one", AT, 1), "bob", "two", AT, 1)

    told = with_person(exchange, 2, "bob", "ben")

    assert [(turn.sender, turn.person) for turn in told.transcript] == [("alice", ""), ("bob", "ben")]
