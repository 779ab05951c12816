"""Settings files of others are replaced as a whole, and what they were before is on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.adapters.harness import files
from parley.adapters.harness.files import FirstState, SetupRecord
from parley.domain.errors.errors import Invalid, ParleyError


def test_a_file_that_is_not_there_has_no_text(tmp_path: Path) -> None:
    assert files.read_text(str(tmp_path / "none.json")) is None


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (1024 * 1024 + 1)])
def test_what_is_no_text_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)

    with pytest.raises(Invalid):
        files.read_text(str(path))


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".claude").write_text("a file")

    with pytest.raises(Invalid):
        files.read_text(str(tmp_path / ".claude" / "settings.json"))
    with pytest.raises(ParleyError):
        files.replace(str(tmp_path / ".claude" / "settings.json"), b"{}")


def test_a_replaced_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_text("{}")
    real.chmod(0o640)
    link.symlink_to(real)

    files.replace(str(link), b'{"a": 1}')

    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ('{"a": 1}', 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dotfiles.json", "settings.json"]


def test_a_removed_file_takes_its_empty_folders_with_it(tmp_path: Path) -> None:
    files.replace(str(tmp_path / ".codex" / "hooks.json"), b"{}")

    files.remove(str(tmp_path / ".codex" / "hooks.json"), str(tmp_path))
    files.remove(str(tmp_path / ".codex" / "hooks.json"), str(tmp_path))

    assert [*tmp_path.iterdir()] == []


def test_the_record_keeps_the_first_bytes_of_each_repository(tmp_path: Path) -> None:
    first, second = SetupRecord(str(tmp_path), "/repo/a"), SetupRecord(str(tmp_path), "/repo/b")
    states = {"x.json": FirstState(b"\xff{ }", "d1"), "y.json": FirstState(None, "d2")}

    first.save(states)

    assert (first.load(), second.load()) == (states, {})
    first.save({})
    assert [*(tmp_path / "setup").iterdir()] == []


def test_a_record_that_is_broken_counts_as_none(tmp_path: Path) -> None:
    record = SetupRecord(str(tmp_path), "/repo")
    record.save({"x": FirstState(None, "d")})
    (path,) = (tmp_path / "setup").iterdir()
    for text in ("", "[]", '{"files": {"x": 1}}', '{"files": {"x": {"before": "%", "after": 1}}}'):
        path.write_text(text)
        assert isinstance(record.load(), dict)
