"""Disks without space, and disks that take nothing: said clearly, nothing lost."""

from __future__ import annotations

import pytest

from tests.fault.conftest import Play

pytestmark = pytest.mark.fault

OTHERS = ("codex", "gemini", "human")


def test_a_full_disk_is_told_and_what_was_begun_is_carried_when_there_is_room(disk: Play) -> None:
    report = disk("full", sends=12)

    acknowledged = [line.split()[1] for line in report["sent"] if line.startswith("ok")]
    refused = [line for line in report["sent"] if not line.startswith("ok")]
    assert refused
    assert all(line.startswith("error disk_full") for line in refused)
    assert report["after"] == ["ok after"]
    assert report["pending"] == []
    for agent in OTHERS:
        handed = report["handed"][agent]
        assert set(acknowledged) | {"after"} <= set(handed)
        assert len(handed) == len(set(handed))
        assert report["mail"][agent]["inbox"] == report["mail"][agent]["dead"] == report["mail"][agent]["strays"] == []
        # Whoever did not read before the disk was full reads `before` now; the rest is the same for everyone.
        assert set(report["outbox"]) - {"before"} == set(handed) - {"before"}


def test_a_done_on_a_full_disk_is_done_or_told(disk: Play) -> None:
    report = disk("full", sends=1)

    claimed, *rest = report["done"] or [""]
    handed = report["handed"][OTHERS[0]]
    if claimed.startswith("error"):
        assert claimed.startswith("error disk_full")
        assert "before" in handed
    elif rest[0].startswith("ok"):
        assert "before" not in handed
    else:
        assert rest[0].startswith("error disk_full")


def test_a_read_only_disk_is_told_and_can_still_be_looked_at(disk: Play) -> None:
    report = disk("read_only")

    assert [line.split()[:2] for line in report["send"] + report["next"]] == [["error", "forbidden"]] * 2
    assert report["list"] == ["ok before"]
    assert report["after"] == ["ok after"]
    assert sorted(report["handed"]) == ["after", "before"]
