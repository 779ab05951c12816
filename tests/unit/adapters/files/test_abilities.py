"""What a file system can do is found out by doing it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.files.abilities import probe
from parley.adapters.files.folders import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.root(str(tmp_path)) as folder:
        yield folder


def failing(folder: Folder) -> dict[str, bool]:
    """The abilities that do not work, each with whether it is vital."""
    found = {one.name: one.vital for one in probe(folder) if not one.works}
    assert os.listdir(folder.path) == []
    return found


def test_an_ordinary_file_system_can_do_everything_and_is_left_as_it_was(folder: Folder) -> None:
    abilities = probe(folder)

    assert [one.name for one in abilities if not one.works or one.detail] == []
    assert [one.name for one in abilities if not one.vital] == ["unnamed file"]
    assert os.listdir(folder.path) == []


def test_links_that_are_refused_are_found(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "raw")

    monkeypatch.setattr(os, "link", refuse)

    [ability] = [one for one in probe(folder) if not one.works]
    assert (ability.name, ability.vital) == ("exclusive link", True)
    assert ability.detail == "Operation not permitted; delivery needs it"


def test_links_that_overwrite_are_found(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def overwrite(source: str, name: str, **options: int) -> None:
        if folder.stat(name):
            os.unlink(name, dir_fd=folder.fd)
        link(source, name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", overwrite)

    assert failing(folder) == {"exclusive link": True}


def test_locks_that_hold_nobody_are_found(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some network file systems."""
    monkeypatch.setattr(fcntl, "flock", lambda _fd, _how: None)

    assert failing(folder) == {"lock": True}


def test_locks_that_are_refused_are_found(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "raw")

    monkeypatch.setattr(fcntl, "flock", refuse)

    assert failing(folder) == {"lock": True}


@pytest.mark.parametrize(("what", "name"), [(stat.S_ISDIR, "folder sync"), (stat.S_ISREG, "file sync")])
def test_a_sync_that_is_refused_is_found(
    folder: Folder, what: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse(fd: int) -> None:
        if what(os.fstat(fd).st_mode):  # type: ignore[operator]
            raise OSError(errno.EINVAL, "raw")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", refuse)

    assert failing(folder) == {name: True}


def test_unnamed_files_that_are_missing_are_noted(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", 0)

    assert failing(folder) == {"unnamed file": False}
