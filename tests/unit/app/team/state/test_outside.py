"""What a server remembers of its checkpoints, notifications and policy files."""

from __future__ import annotations

import pytest

from parley.app.team.state import outside
from parley.app.team.state.outside import AuditState, NoticeState, PolicyState
from parley.domain.rules.policy import DEFAULT_DOCUMENT, Document, Fragment


def test_until_somebody_has_looked_every_tenant_may_have_grown() -> None:
    state = AuditState()

    state.mark_active("acme")

    assert state.active is None


def test_afterwards_only_what_was_written_in_is_looked_at() -> None:
    state = AuditState()
    state.active = set()

    state.mark_active("acme")
    state.mark_active("acme")

    assert state.active == {"acme"}


def test_a_letter_is_remembered_by_approval_stage_and_person() -> None:
    state = NoticeState()

    state.mark_notified("appr_1", "waits", "ann")

    assert state.was_notified("appr_1", "waits", "ann")
    assert not state.was_notified("appr_1", "waits", "ben")
    assert not state.was_notified("appr_1", "half_way", "ann")
    assert not state.was_notified("appr_2", "waits", "ann")


def test_only_so_many_are_remembered_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "_NOTIFIED_MAX", 2)
    state = NoticeState()

    for number in range(3):
        state.mark_notified(f"appr_{number}", "waits", "ann")

    assert [state.was_notified(f"appr_{number}", "waits", "ann") for number in range(3)] == [False, True, True]


def test_a_tenant_without_a_policy_is_under_the_one_that_was_brought_along() -> None:
    state = PolicyState(Document("text", Fragment(max_rounds=2)))

    first = state.first("acme")

    assert (first.texts, first.tenant_id, first.number, first.version) == ({DEFAULT_DOCUMENT: "text"}, "acme", 1, 0)


def test_it_is_one_object_so_that_what_follows_from_it_is_worked_out_once() -> None:
    state = PolicyState()

    assert state.first("acme") is state.first("acme")
    assert state.first("acme").label == state.first("globex").label
