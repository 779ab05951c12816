"""What a file can hold and a database cannot, or nobody can read: the row is named, and nothing is finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surface.cli.store_copy.installation import changed, copying, in_store
from tests.surface.stage import Stage

SENDER = "UPDATE post SET sender = {} WHERE id = 'ask_acme_1'"
MEND = SENDER.format("'alice'")


@pytest.mark.parametrize(
    "value",
    ["'a' || char(0) || 'b'", "x'0102'", "CAST(x'61ff' AS TEXT)"],
    ids=["nul", "bytes", "no-utf8"],
)
def test_a_value_that_postgresql_cannot_keep_is_named_and_once_it_is_mended_the_copy_goes_on(
    stage: Stage, dsn: str, tmp_path: Path, value: str
) -> None:
    data = in_store(tmp_path / "data")
    changed(data, SENDER.format(value))

    ran = stage.run(*copying(data, dsn))

    assert (ran.code, ran.error) == (2, "invalid")
    assert "the sender of the post with number 10995116277" in ran.err
    early = stage.script("up", "--port", "0", "--data", str(tmp_path / "node"), "--store", dsn)
    assert (early.code, early.error) == (4, "conflict")
    changed(data, MEND)
    assert stage.run(*copying(data, dsn)).code == 0


def test_what_is_no_text_is_named_from_file_to_file_too(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    changed(data, "UPDATE record SET name = CAST(x'ff' AS TEXT) WHERE id = 'chan_globex_1'")

    ran = stage.run(*copying(data, tmp_path / "back"))

    assert (ran.code, ran.error) == (2, "invalid")
    assert "the name of the record with tenant 2, kind channel, id chan_globex_1 is no text" in ran.err
    assert not (tmp_path / "back" / "parley.db").exists()
