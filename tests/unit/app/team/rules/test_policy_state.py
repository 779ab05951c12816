from __future__ import annotations

from parley.app.team.rules.policy_state import PolicyKeeping
from parley.domain.rules.policy import DEFAULT_DOCUMENT, Document, Fragment


def test_a_tenant_without_a_policy_is_under_the_one_that_was_brought_along() -> None:
    keeping = PolicyKeeping(Document("text", Fragment(max_rounds=2)))

    first = keeping.first("acme")

    assert (first.texts, first.tenant_id, first.number, first.version) == ({DEFAULT_DOCUMENT: "text"}, "acme", 1, 0)


def test_it_is_one_object_so_that_what_follows_from_it_is_worked_out_once() -> None:
    keeping = PolicyKeeping()

    assert keeping.first("acme") is keeping.first("acme")
    assert keeping.first("acme").label == keeping.first("globex").label
