"""What is not copied, and to where nothing is: said in one line, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surface.cli.store_copy.installation import (
    changed,
    copying,
    in_store,
    serving,
)
from tests.surface.stage import Stage


def test_another_store_is_never_written_over(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data, other = in_store(tmp_path / "data"), in_store(tmp_path / "other")
    changed(other, "UPDATE entry SET link = zeroblob(32) WHERE tenant = 1 AND position = 1")
    assert stage.run(*copying(data, dsn)).code == 0

    for target in (dsn, str(data)):
        refused = stage.run(*copying(other, target))
        assert (refused.code, refused.error) == (4, "conflict")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE audit SET document = replace(document, 'alice', 'mallo')", "audit log of"),
        ("UPDATE entry SET document = replace(document, 'alice', 'mallory') WHERE position = 2", "ledger of"),
        ("UPDATE event SET hash = 'none' WHERE sequence = 2", "intent_acme_1"),
        ("UPDATE tenant SET entry_position = 1 WHERE number = 1", "its tenant says 1"),
    ],
    ids=["audit", "ledger", "event", "order"],
)
def test_a_source_that_was_tampered_with_is_found_and_the_copy_is_not_finished(
    stage: Stage, tmp_path: Path, statement: str, said: str
) -> None:
    data = in_store(tmp_path / "data")
    assert stage.run(*copying(data, tmp_path / "sound", "--though-behind")).code == 0
    changed(data, statement)

    ran = stage.run(*copying(data, tmp_path / "back"))

    assert (ran.code, ran.error) == (13, "log_changed")
    assert said in ran.err
    assert not (tmp_path / "back" / "parley.db").exists()


def test_a_server_holds_its_data_directory_against_a_copy(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    with serving(tmp_path / "busy"):
        ran = stage.run(*copying(data, tmp_path / "busy"))

    assert (ran.code, ran.error) == (4, "conflict")
    assert "a server is running" in ran.err


def test_what_is_no_store_is_said_in_one_line(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    (tmp_path / "empty").mkdir()
    for words, code, error in (
        ((tmp_path / "none", dsn), 3, "not_found"),
        ((tmp_path / "empty", dsn), 3, "not_found"),
        ((data, data), 2, "invalid"),
        ((data, data / "parley.db"), 2, "invalid"),
        ((data, "mysql://db1/parley"), 2, "invalid"),
        ((data, "postgresql://parley@127.0.0.1:1/none"), 7, "unavailable"),
        ((dsn, tmp_path / "back"), 3, "not_found"),
    ):
        ran = stage.run(*copying(*words))
        assert (ran.code, ran.error) == (code, error), ran


def test_a_password_is_never_shown(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    secret = dsn.replace("parley@", "parley:hush@")

    text = stage.run(*copying(data, secret))
    told = stage.run(*copying(data, secret, "--json"))

    assert (text.code, told.code) == (0, 0)
    assert "hush" not in text.out + text.err + told.out + told.err
    assert f"parley up --store {dsn} --data DIR" in text.out
