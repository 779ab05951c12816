"""Power cuts under a server: what was acknowledged is there when the power is back."""

from __future__ import annotations

import pytest

from tests.fault.conftest import Play

pytestmark = [pytest.mark.fault, pytest.mark.slow]


def test_an_acknowledged_message_survives_a_power_cut(disk: Play, full: bool) -> None:
    report = disk("posting", cuts=25 if full else 2)

    assert report["wrong"] == []
    assert report["acknowledged"] == report["tried"]


def test_the_server_that_does_not_sync_its_commits_is_caught(disk: Play) -> None:
    report = disk("posting", "commit_without_sync", cuts=1)

    assert any("is lost" in found for found in report["wrong"])
