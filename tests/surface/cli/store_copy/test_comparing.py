"""Two stores side by side; and how a copy looks to who runs it."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.postgres.cluster import drop, new_database
from tests.surface.cli.store_copy.installation import (
    changed,
    copying,
    in_store,
)
from tests.surface.stage import Stage


def test_files_and_databases_are_copied_among_each_other(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    second = new_database()
    try:
        places = [str(data), dsn, second, str(tmp_path / "one.db"), str(tmp_path / "two"), str(tmp_path / "three.db")]
        for source, target in pairwise(places):
            ran = stage.run(*copying(source, target, "--json"))
            assert (ran.code, ran.err) == (0, ""), (source, target)
        assert stage.run(*copying(places[0], places[-1], "--verify-only")).code == 0
    finally:
        drop(second)


def test_what_differs_is_shown_and_nothing_is_written(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    assert stage.run(*copying(data, tmp_path / "back")).code == 0
    changed(tmp_path / "back", "UPDATE post SET payload = x'00' WHERE id = 'ask_acme_1'", "DELETE FROM saved")
    before = (tmp_path / "back" / "parley.db").read_bytes()

    ran = stage.run(*copying(data, tmp_path / "back", "--verify-only"))
    told = stage.run(*copying(data, tmp_path / "back", "--verify-only", "--json"))

    assert (ran.code, told.code) == (1, 1)
    assert [line.split()[:4] for line in ran.out.splitlines()] == [
        ["TABLE", "MISSING", "DIFFERENT", "EXTRA"],
        ["post", "0", "1", "0"],
        ["saved", "2", "0", "0"],
    ]
    assert [one["table"] for one in told.json["differences"]] == ["post", "saved"]
    assert (tmp_path / "back" / "parley.db").read_bytes() == before


def test_on_a_terminal_both_parts_show_how_far_they_are(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")

    code, shown = stage.on_terminal(*copying(data, tmp_path / "back"))

    assert code == 0
    assert f"\rCopying: 100 % [{'#' * 30}]" in shown
    assert f"\rChecking: 100 % [{'#' * 30}]" in shown


@pytest.mark.slow
def test_a_hundred_thousand_messages(
    stage: Stage, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = in_store(tmp_path / "data", 100_000)
    rates = []
    for source, target in ((data, dsn), (data, dsn), (dsn, tmp_path / "back")):
        ran = stage.run(*copying(source, target, "--json"))
        assert (ran.code, ran.err) == (0, "")
        rates.append(ran.json["rows"] / ran.json["seconds"])

    with capsys.disabled():
        said = ", ".join(f"{rate:,.0f}" for rate in rates)
        sys.stdout.write(f"\nstore copy, rows a second, verified: to PostgreSQL, again, and back: {said}\n")
    assert stage.run(*copying(data, tmp_path / "back", "--verify-only")).code == 0
