"""A pause ends when something is put into the folder, and not before its time otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.adapters import inotify
from parley.adapters.inotify import FolderWatch


def test_a_file_that_is_linked_moved_or_written_ends_the_pause(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    outside = tmp_path / "file"
    outside.write_text("x")
    watch = FolderWatch(str(folder))

    assert not watch.pause(0)
    (folder / "linked").hardlink_to(outside)
    assert watch.pause(30)
    outside.rename(folder / "moved")
    assert watch.pause(30)
    (folder / "moved").write_text("y")
    assert watch.pause(30)
    assert not watch.pause(0)
    watch.close()
    watch.close()


def test_without_inotify_a_pause_is_short_and_knows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "_SHORT_PAUSE_SECONDS", 0.0)
    watch = FolderWatch(str(tmp_path / "missing"))
    tmp_path.joinpath("missing").mkdir()

    assert not watch.pause(30)
    watch.close()
