from __future__ import annotations

from parley.app.team.state.policies import PolicyState
from parley.domain.rules.policy import DEFAULT_DOCUMENT, Document, Fragment


def test_a_tenant_without_a_policy_is_under_the_one_that_was_brought_along() -> None:
    state = PolicyState(Document("text", Fragment(max_rounds=2)))

    first = state.first("acme")

    assert (first.texts, first.tenant_id, first.number, first.version) == ({DEFAULT_DOCUMENT: "text"}, "acme", 1, 0)


def test_it_is_one_object_so_that_what_follows_from_it_is_worked_out_once() -> None:
    state = PolicyState()

    assert state.first("acme") is state.first("acme")
    assert state.first("acme").label == state.first("globex").label
