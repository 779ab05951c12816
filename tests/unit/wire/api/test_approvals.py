from __future__ import annotations

import json

import msgspec
import pytest

from parley.domain.exchange.approval import ApprovalStatus, Cause, Decision, DecisionRight
from parley.domain.exchange.exchange import Outcome, accepted, ended, escalated
from parley.domain.rules.suspension import Stopped, Suspension
from parley.wire.api import approvals as governance
from parley.wire.api.approvals import CloseIn, DecisionIn, SuspensionIn
from tests.samples.governed import AT, END, a_held_draft, an_approval, an_exchange


def test_an_exchange_is_shown_in_the_words_of_the_specification_and_ours() -> None:
    shown = governance.exchange_of(escalated(accepted(an_exchange(), "alice", "asked", AT, 1), "appr_1"))

    assert shown.to_dict() == {
        "exchangeId": "exch_1",
        "conversationId": "conv-1",
        "currentRound": 1,
        "maxRounds": 3,
        "transcript": [{"round": 1, "sender": "alice", "summary": "asked"}],
        "outcome": "escalated",
        "exchange_type": "information_query",
        "initiator": "alice",
        "responder": "bob",
        "channel_id": None,
        "reply_policy": "agent-ok",
        "requires_commitment": False,
        "pending_approvals": ["appr_1"],
        "dataShared": [],
        "dataWithheld": [],
        "started_at": AT,
        "expires_at": END,
        "ended_at": None,
        "ended_by": None,
        "reason": None,
        "policy_version": "",
        "messages": None,
    }


def test_what_waits_is_shown_as_long_as_it_does() -> None:
    limit = escalated(an_exchange(), "appr_2", limit=True)

    assert governance.exchange_of(limit)["pending_approvals"] == ["appr_2"]
    assert governance.exchange_of(ended(limit, Outcome.RESOLVED, AT, "ann", "x"))["pending_approvals"] == []


def test_an_approval_shows_exactly_what_would_be_sent() -> None:
    shown = governance.approval_of(an_approval())

    assert shown["payload"] == {"text": "We promise it."}
    assert shown["metadata"] == {"k": "v"}
    assert (shown["message_type"], shown["correlation_id"], shown["to"]) == ("request", None, "bob")
    assert shown["visible_text"] == '{"text":"We promise it."}'
    assert shown["hidden_characters"] == []
    assert (shown["status"], shown["decided_by"], shown["message_id"]) == ("pending", None, None)


def test_an_approval_says_who_may_decide_and_why_the_one_who_asks_may_not() -> None:
    shown = governance.approval_of(an_approval(), DecisionRight(("ann", "dee"), "not_approver"))
    decided = governance.approval_of(an_approval(status=ApprovalStatus.APPROVED))

    assert (shown["deciders"], shown["barred"]) == (["ann", "dee"], "not_approver")
    assert (decided["deciders"], decided["barred"]) == ([], None)


def test_nothing_hides_from_who_approves_neither_in_the_payload_nor_beside_it() -> None:
    draft = a_held_draft(payload='{"text":"ok\u202e\u200b"}', metadata='{"note":"\U000e0041"}')

    shown = governance.approval_of(an_approval(draft=draft))

    assert shown["visible_text"] == '{"text":"ok⟨U+202E⟩⟨U+200B⟩"}'
    assert [(one["where"], one["position"], one["code_point"]) for one in shown["hidden_characters"]] == [
        ("payload", 11, "U+202E"),
        ("payload", 12, "U+200B"),
        ("metadata", 9, "U+E0041"),
    ]
    # It can be shown anywhere.
    assert "\u202e" not in json.dumps(shown["visible_text"], ensure_ascii=False)


def test_an_approval_without_a_message_shows_none() -> None:
    shown = governance.approval_of(an_approval(draft=None, status=ApprovalStatus.CLOSED, decided_by="ann"))

    assert (shown["payload"], shown["metadata"], shown["message_type"], shown["decided_by"]) == (
        None,
        None,
        None,
        "ann",
    )


def test_a_suspension_is_shown_as_it_is() -> None:
    shown = governance.suspension_of(Suspension(what=Stopped.PAIR, name="a,b", reason="night", by="ann", at=AT))

    assert shown.to_dict() == {"what": "pair", "name": "a,b", "reason": "night", "by": "ann", "at": AT, "until": None}


@pytest.mark.parametrize(
    ("given", "payload"),
    [(None, b""), ("", b""), ({}, b""), ("yes", b'{"text":"yes"}'), ({"a": [1]}, b'{"a":[1]}')],
)
def test_what_a_person_says_becomes_a_payload(given: object, payload: bytes) -> None:
    assert governance.answer_payload(given) == payload  # type: ignore[arg-type]


def test_a_decision_is_read_strictly() -> None:
    read = msgspec.json.decode(b'{"decision":"approve","digest":"d","note":"n"}', type=DecisionIn)
    assert (read.decision, read.digest, read.note, read.answer) == (Decision.APPROVE, "d", "n", None)

    for body in (
        b"{}",
        b'{"decision":"yes"}',
        b'{"decision":"approve","by":"boss"}',
        b'{"decision":"approve","note":7}',
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(body, type=DecisionIn)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps({"decision": "reject", "note": "x" * 2001}), type=DecisionIn)


def test_what_is_to_be_stopped_is_read_strictly() -> None:
    assert msgspec.json.decode(b'{"what":"org_unit","name":"sales"}', type=SuspensionIn).what is Stopped.ORG_UNIT
    for body in (b"{}", b'{"what":"world"}', b'{"what":"agent","by":"x"}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(body, type=SuspensionIn)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"outcome":"denied"}', type=CloseIn)


def test_the_answer_to_what_is_held_has_everything_that_a_sender_has_to_know() -> None:
    approval = an_approval(detected_keywords=("promise",))

    assert msgspec.to_builtins(governance.held_of(approval, ("ann", "dee"))) == {
        "status": "held",
        "approval": "appr_1",
        "reason": "why",
        "cause": "commitment",
        "requiresHuman": True,
        "detectedKeywords": ["promise"],
        "exchange_id": "exch_1",
        "conversation_id": "conv-1",
        "digest": approval.digest,
        "expires_at": approval.expires_at,
        "deciders": ["ann", "dee"],
    }
    limit = an_approval(cause=Cause.ROUND_LIMIT, escalation={"exchangeId": "exch_1"})
    assert governance.held_of(limit, ()).escalation == {"exchangeId": "exch_1"}
