"""Every message of the log once, with all its entries, and why it ended as it did."""

from __future__ import annotations

from typing import Any

from parley.domain.rules.reasons import reasons_of, recorded_messages, rule_text

RULE = {"key": "max_classification (sender)", "value": "internal", "source": "directory"}


def entry(outcome: str, message_id: str, role: str = "sender", **facts: Any) -> dict[str, Any]:  # noqa: ANN401
    fields = {
        "action": "agent_exchange",
        "outcome": outcome,
        "message_id": message_id,
        "role": role,
        "sender": "ann-bot",
    }
    return {**fields, "to": "bob-bot", "classification": "internal", "round": 1, "policy": "1-ab", **facts}


DECIDED = {"action": "approval_decided", "approval": "appr_1", "decision": "approved", "actor": "ann", "cause": "rule"}


def test_both_sides_and_the_approval_of_a_message_are_one() -> None:
    entries = [
        (1, entry("held", "msg_1", approval="appr_1")),
        (2, DECIDED),
        (3, entry("delivered", "msg_1", approval="appr_1")),
        (4, entry("delivered", "msg_1", "receiver", approval="appr_1")),
        (5, entry("denied", "msg_2", reason="no", code="policy_denied")),
        (6, {"action": "agent_exchange_ended", "outcome": "denied"}),
    ]

    messages = recorded_messages(entries)

    assert [(message.number, message.numbers) for message in messages] == [(3, (1, 2, 3, 4)), (5, (5,))]
    assert [message.decision for message in messages] == [DECIDED, None]


def test_a_receiver_alone_sees_each_message_once_and_messages_without_an_id_are_many() -> None:
    received = [(1, entry("delivered", "msg_1", "receiver")), (2, entry("delivered", "msg_1", "receiver"))]
    unnamed = [(3, entry("denied", "", reason="no")), (4, entry("denied", "", reason="no"))]

    assert [message.number for message in recorded_messages(received + unnamed)] == [1, 3, 4]


def test_the_reason_names_the_rule_the_policies_and_who_decided() -> None:
    denied = entry("denied", "msg_1", reason="too secret.", code="classification_exceeded", rule=RULE, max_rounds=3)

    assert reasons_of(denied) == [
        "too secret [classification_exceeded]",
        "denied by max_classification of ann-bot: internal in the directory",
        "internal, round 1 of 3, policies 1-ab",
    ]
    assert reasons_of(entry("delivered", "msg_1"), DECIDED)[-1] == "approved by ann, held for rule"
    assert rule_text(entry("held", "msg_1", tightened=True, rules="7")) == "the organisation's own rules 7"
