"""Exchanges, approvals, policies and trials as the API answers with them."""

from __future__ import annotations

from parley.wire.api.records.rules import Approval, Exchange, Explanation, Policy


def test_what_the_specification_names_has_its_spelling_in_json() -> None:
    assert Exchange.__struct_encode_fields__[:4] == ("exchangeId", "conversationId", "currentRound", "maxRounds")
    assert "detectedKeywords" in Approval.__struct_encode_fields__
    assert "detectedKeywords" in Explanation.__struct_encode_fields__


def test_the_keys_of_a_policy_are_its_rules_in_python() -> None:
    policy = Policy(scope="org", name="sales", label="1-a", rules={"max_rounds": 3})

    assert policy.to_dict()["keys"] == {"max_rounds": 3}
    assert policy.keys() == ("scope", "name", "label", "rules", "text")
