"""What a server remembers of the letters it has carried."""

from __future__ import annotations

import pytest

from parley.app.team.state import notices
from parley.app.team.state.notices import NoticeState


def test_a_letter_is_remembered_by_approval_stage_and_person() -> None:
    state = NoticeState()

    state.mark_notified("appr_1", "waits", "ann")

    assert state.was_notified("appr_1", "waits", "ann")
    assert not state.was_notified("appr_1", "waits", "ben")
    assert not state.was_notified("appr_1", "half_way", "ann")
    assert not state.was_notified("appr_2", "waits", "ann")


def test_only_so_many_are_remembered_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_MOST", 2)
    state = NoticeState()

    for number in range(3):
        state.mark_notified(f"appr_{number}", "waits", "ann")

    assert [state.was_notified(f"appr_{number}", "waits", "ann") for number in range(3)] == [False, True, True]
