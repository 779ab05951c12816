"""What a server remembers of the letters it has carried."""

from __future__ import annotations

import pytest

from parley.app.team.decisions import state as notice_keeping
from parley.app.team.decisions.state import NoticeKeeping


def test_a_letter_is_remembered_by_approval_stage_and_person() -> None:
    keeping = NoticeKeeping()

    keeping.carried("appr_1", "waits", "ann")

    assert keeping.has_carried("appr_1", "waits", "ann")
    assert not keeping.has_carried("appr_1", "waits", "ben")
    assert not keeping.has_carried("appr_1", "half_way", "ann")
    assert not keeping.has_carried("appr_2", "waits", "ann")


def test_only_so_many_are_remembered_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_keeping, "_MOST", 2)
    keeping = NoticeKeeping()

    for number in range(3):
        keeping.carried(f"appr_{number}", "waits", "ann")

    assert [keeping.has_carried(f"appr_{number}", "waits", "ann") for number in range(3)] == [False, True, True]
