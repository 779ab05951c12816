"""Power cuts: what was acknowledged is there, whole, when the power is back."""

from __future__ import annotations

import pytest

from tests.fault.conftest import Play

pytestmark = pytest.mark.fault


@pytest.fixture
def cuts(full: bool) -> int:
    return 25 if full else 2


def test_a_delivered_file_survives_a_power_cut(disk: Play, cuts: int) -> None:
    report = disk("delivery", cuts=cuts)

    assert report == {"wrong": [], "acknowledged": 5 * cuts}


def test_an_acknowledged_send_survives_a_power_cut(disk: Play, cuts: int) -> None:
    report = disk("sending", cuts=cuts)

    assert report == {"wrong": [], "acknowledged": 3 * cuts}


def test_an_acknowledged_done_survives_a_power_cut(disk: Play, cuts: int) -> None:
    report = disk("finishing", cuts=cuts)

    assert report == {"wrong": [], "acknowledged": 2 * cuts}


@pytest.mark.usefixtures("strace")
def test_a_power_cut_in_the_middle_of_a_broadcast_leaves_all_copies_or_none(disk: Play, cuts: int) -> None:
    report = disk("broadcasting", cuts=cuts)

    assert report == {"wrong": []}


def test_power_cuts_among_busy_senders_and_readers_lose_nothing_acknowledged(
    disk: Play, cuts: int, request: pytest.FixtureRequest
) -> None:
    report = disk("storm", cuts=cuts, seed=request.config.getoption("randomly_seed", 0))

    print(f"{cuts} cuts, {report['acknowledged']} acknowledgements")
    assert report["wrong"] == []
    assert report["acknowledged"] >= 3 * cuts


@pytest.mark.parametrize("scenario", ["delivery", "sending"])
def test_the_mutant_that_does_not_sync_the_folder_is_caught(disk: Play, scenario: str) -> None:
    report = disk(scenario, "no_folder_sync", cuts=1)

    assert any("is lost" in found for found in report["wrong"])


@pytest.mark.parametrize("scenario", ["delivery", "sending"])
def test_the_mutant_that_does_not_sync_the_file_is_caught(disk: Play, scenario: str) -> None:
    report = disk(scenario, "no_file_sync", cuts=1)

    assert any("torn" in found for found in report["wrong"])


@pytest.mark.usefixtures("strace")
def test_the_mutant_that_does_not_sync_the_ledger_is_caught(disk: Play) -> None:
    report = disk("broadcasting", "commit_without_sync", cuts=1)

    assert any("was handed" in found for found in report["wrong"])
