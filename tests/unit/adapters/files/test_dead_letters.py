"""Dead letters are listed with their reasons, however those look."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.adapters.files import dead_letters
from parley.adapters.files.folders import Folder
from parley.domain.mailbox.listing import RefusedFile


def listed(folder: Path) -> list[RefusedFile]:
    with Folder.root(str(folder)) as dead:
        return list(dead_letters.dead_letters(dead))


def test_what_was_buried_is_listed_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "dead").mkdir()
    (tmp_path / "inbox" / "b.yaml").write_text("x: y\n")
    with Folder.root(str(tmp_path / "inbox")) as inbox, Folder.root(str(tmp_path / "dead")) as dead:
        dead_letters.bury(inbox, dead, RefusedFile("b.yaml", "dead_letter", "not_yaml", "no YAML", "now"))

    assert listed(tmp_path / "dead") == [RefusedFile("b.yaml", "dead_letter", "not_yaml", "no YAML", "now")]


@pytest.mark.parametrize("reason", ["", "{", "[]", '{"code": ""}', None])
def test_a_dead_letter_without_a_readable_reason_is_listed_too(tmp_path: Path, reason: str | None) -> None:
    (tmp_path / "a.yaml").write_text("x")
    if reason is not None:
        (tmp_path / "a.yaml.reason.json").write_text(reason)

    [letter] = listed(tmp_path)

    assert (letter.file, letter.code, letter.detail) == ("a.yaml", "unknown", "its reason is not recorded")
