"""What a request costs is recorded, and a tree in which it costs more does not pass unseen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.counts import record
from bench.counts.counting import count_requests
from bench.counts.paths import REQUESTS
from bench.counts.record import Change, compare, load, release_to_compare, table
from bench.measure import Runner
from bench.workspace import Bench
from parley.domain.version import VERSION

_PATH = "plain POST"
# An id is made for every message.
_PLANTED = """
_ulid = SystemIds.ulid


def _slow(self):
    for _ in range({times}):
        pass
    return _ulid(self)


SystemIds.ulid = _slow
"""
# Of a loop that does nothing.
_BYTECODES_A_TURN = 2


@pytest.mark.parametrize(
    ("recorded", "now", "verdict", "fails"),
    [
        (1000, 1000, "", False),
        (1000, 1050, "", False),
        (1000, 950, "", False),
        (1000, 1051, "slower", True),
        (1000, 949, "faster: record it", False),
        (0, 1000, "not recorded", True),
        (1000, 0, "not counted", True),
    ],
)
def test_more_than_the_tolerance_fails_and_less_asks_for_a_new_record(
    recorded: int, now: int, verdict: str, fails: bool
) -> None:
    change = Change(_PATH, recorded, now)

    assert (change.verdict, change.fails) == (verdict, fails)


def test_the_table_shows_old_new_and_ratio() -> None:
    changes = compare({"send": 400_000, "gone": 7}, {"send": 500_000, "new": 9})

    lines = [line.split() for line in table(changes, "0.6.0").splitlines()]

    assert lines[0] == ["bytecodes", "recorded,", "0.6.0", "now", "ratio"]
    assert lines[1] == ["send", "400,000", "500,000", "1.250x", "slower"]
    assert lines[2] == ["new", "0", "9", "not", "recorded"]
    assert lines[3] == ["gone", "7", "0", "0.000x", "not", "counted"]


def test_a_release_is_compared_with_the_newest_until_it_is_recorded() -> None:
    records: record.Records = {"0.9.0": {}, "0.10.0": {}, "0.6.0": {}}

    assert release_to_compare(records, "0.9.0") == "0.9.0"
    assert release_to_compare(records, "0.11.0") == "0.10.0"


def test_a_failure_names_the_command_that_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = {"send": {"bytecodes": 400_000}, "done": {"bytecodes": 400_000}}
    monkeypatch.setattr(record, "load", lambda: {VERSION: {record.PYTHON: recorded}})
    now = {"send": {"bytecodes": 500_000}, "done": {"bytecodes": 300_000}}
    monkeypatch.setattr(record, "_count", lambda *_, **__: now)

    assert record.count_main([]) == 1

    output = capsys.readouterr().out
    assert "error: send: not within 5% of what is recorded" in output
    assert "done: not" not in output
    assert "`python -m bench record`" in output


def test_every_path_is_recorded_for_this_release() -> None:
    counts = load()[VERSION]["3.11"]

    assert set(REQUESTS) < set(counts)
    assert all(count["bytecodes"] > 0 and count["instructions"] > 0 for count in counts.values())


@pytest.mark.slow
def test_a_tree_that_does_a_tenth_more_is_found_and_the_same_tree_passes(tmp_path: Path) -> None:
    source = record.ROOT / "src"
    recorded = _bytecodes(tmp_path / "recorded", source)
    slower = tmp_path / "slower" / "src"
    shutil.copytree(source / "parley", slower / "parley", ignore=shutil.ignore_patterns("__pycache__"))
    with (slower / "parley/adapters/process.py").open("a") as file:
        file.write(_PLANTED.format(times=recorded[_PATH] // 10 // _BYTECODES_A_TURN))

    (same,) = compare(recorded, _bytecodes(tmp_path / "same", source))
    (planted,) = compare(recorded, _bytecodes(tmp_path / "planted", slower))

    assert abs(same.now / same.recorded - 1) < 0.02
    assert planted.verdict == "slower"


def _bytecodes(folder: Path, source: Path) -> dict[str, int]:
    folder.mkdir()
    return count_requests(Bench(str(folder), Runner(str(folder)), quick=True), str(source), {_PATH: REQUESTS[_PATH]})
