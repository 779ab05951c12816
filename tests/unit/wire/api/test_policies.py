"""Policies as JSON."""

from __future__ import annotations

from msgspec import json

from parley.domain.agents.party import Attributes
from parley.domain.rules.policy import CURRENT, BrokenPolicy, CrossOrg, Fragment, Policy, PolicySnapshot, with_document
from parley.wire.api import policies as policy_json

AT = "2026-03-13T14:30:00.000000Z"


def a_snapshot() -> PolicySnapshot:
    empty = PolicySnapshot(id=CURRENT, tenant_id="acme", made_at=AT, made_by="ana")
    sales = with_document(empty, "org/sales", "sales text", Fragment(cross_org=CrossOrg.DENY, approvers=()))
    return with_document(sales, "enterprise/default", "default text", Fragment(max_rounds=3))


def test_documents_are_listed_with_what_they_say_the_enterprises_first() -> None:
    snapshot = a_snapshot()

    shown = policy_json.documents_of(snapshot)

    assert [policy.to_dict() for policy in shown] == [
        {
            "scope": "enterprise",
            "name": "default",
            "label": snapshot.label,
            "keys": {"max_rounds": 3},
            "text": "default text",
        },
        {
            "scope": "org",
            "name": "sales",
            "label": snapshot.label,
            "keys": {"cross_org": False, "approvers": []},
            "text": "sales text",
        },
    ]


def test_a_list_is_without_texts_unless_somebody_asks() -> None:
    flaw = {"file": "org/x.yaml", "line": 1, "key": "", "code": "invalid", "detail": "is empty"}
    broken = BrokenPolicy("org/x.yaml", "org/x.yaml:1: is empty", (flaw,))

    shown = policy_json.policies_of(a_snapshot(), (broken,), texts=False)

    assert [policy.text for policy in shown.policies] == [None, None]
    assert shown.broken[0].flaws[0].to_dict() == flaw
    assert len(policy_json.policies_of(a_snapshot(), (), texts=True).policies) == 2
    assert policy_json.revision_of(a_snapshot()).documents == ["enterprise/default", "org/sales"]


def test_what_is_in_force_has_every_key_as_a_document_spells_it() -> None:
    shown = policy_json.in_force_of("1-a", "alice", Attributes(user_id="ana"), Policy(), {"enabled": "built in"})

    assert json.decode(json.encode(shown))["policy"]["cross_org"] is False
    assert shown.user_id == "ana"
    assert policy_json.in_force_of("1-a", "", Attributes(), None, {})["policy"] is None
