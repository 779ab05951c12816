"""Folders by descriptor: made with the mode that was asked for, never entered through a link."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley import durable_files
from parley.adapters.files.folders import Folder, lock_folder, os_errors, to_parley_error
from parley.domain.errors.errors import DiskFull, Forbidden, NotFound, NotRegular, ParleyError, Unavailable
from tests.rigs.open_files import opened_below


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Folder]:
    with Folder.root(str(tmp_path)) as folder:
        yield folder


def test_a_folder_is_found_step_by_step(root: Folder, tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)

    with root.walk("a", "b", "c") as folder:
        assert os.fstat(folder.fd).st_ino == (tmp_path / "a" / "b" / "c").stat().st_ino
        assert folder.path == f"{tmp_path}/a/b/c"
        assert folder.listable


@pytest.mark.parametrize("link", ["a", "a/b"])
def test_a_link_is_not_followed_at_any_step(root: Folder, tmp_path: Path, link: str) -> None:
    (tmp_path / "real" / "b").mkdir(parents=True)
    (tmp_path / "a").mkdir(exist_ok=True)
    if link == "a":
        (tmp_path / "a").rmdir()
    (tmp_path / link).symlink_to(tmp_path / "real")

    with pytest.raises(NotRegular, match="symbolic link"):
        root.walk("a", "b")


def test_the_home_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")

    with Folder.root(str(tmp_path / "home")) as folder:
        assert os.fstat(folder.fd).st_ino == (tmp_path / "real").stat().st_ino


@pytest.mark.parametrize("name", ["missing", "file"])
def test_what_is_no_folder_is_not_found(root: Folder, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotFound):
        root.sub(name)


def test_a_walk_that_fails_leaves_nothing_open(root: Folder, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert opened_below(tmp_path) == [str(tmp_path)]

    with pytest.raises(NotFound):
        root.walk("a", "b", "missing")

    assert opened_below(tmp_path) == [str(tmp_path)]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_a_new_folder_has_exactly_its_mode_whatever_the_umask(root: Folder, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        root.make("inbox", 0o3730).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "inbox").stat().st_mode) == 0o3730


def test_a_folder_that_is_there_keeps_its_mode(root: Folder, tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir(mode=0o755)

    root.make("inbox", 0o3730).close()

    assert stat.S_IMODE((tmp_path / "inbox").stat().st_mode) == 0o755


def test_a_folder_that_another_process_makes_first_is_taken_as_it_is(
    root: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def beaten(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, 0o700, dir_fd=dir_fd)
        mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", beaten)

    root.make("inbox", 0o3730).close()

    assert stat.S_IMODE((tmp_path / "inbox").stat().st_mode) == 0o700


def test_a_new_folder_is_durable_before_it_is_used(root: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    root.make("inbox", 0o700).close()

    assert synced == [root.fd]


def test_what_lies_in_a_folder_is_told_without_following_links(root: Folder, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()

    assert sorted(root.names()) == ["file", "link"]
    assert root.stat("missing") is None
    assert root.is_link("link")
    assert not root.is_link("file")
    assert not root.is_link("missing")


def test_a_folder_that_may_only_be_entered_is_neither_listed_nor_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another user sees an inbox; root may list everything, so the refusal is played."""
    (tmp_path / "inbox").mkdir()
    opening = os.open

    def refuse_to_read(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "inbox" and not flags & os.O_PATH:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse_to_read)
    with Folder.root(str(tmp_path)) as home, home.sub("inbox") as inbox:
        assert not inbox.listable
        inbox.sync()
        with pytest.raises(Forbidden):
            inbox.names()


def test_a_folder_knows_whether_its_path_still_leads_to_it(root: Folder, tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    with root.sub("inbox") as inbox:
        assert inbox.is_still_there()

        (tmp_path / "inbox").rename(tmp_path / "aside")
        assert not inbox.is_still_there()

        (tmp_path / "inbox").symlink_to("aside")
        assert not inbox.is_still_there()


def test_closing_twice_closes_once(tmp_path: Path) -> None:
    folder = Folder.root(str(tmp_path))
    folder.close()
    number = os.open(tmp_path, os.O_RDONLY)

    folder.close()

    os.close(number)  # still ours


def test_a_folder_that_is_dropped_is_closed(tmp_path: Path) -> None:
    folder = Folder.root(str(tmp_path))
    before = opened_below(tmp_path)
    del folder

    assert (before, opened_below(tmp_path)) == ([str(tmp_path)], [])


def test_a_locked_folder_is_locked_for_others_until_the_end(root: Folder, tmp_path: Path) -> None:
    with Folder.root(str(tmp_path)) as other:
        with lock_folder(root), pytest.raises(BlockingIOError):
            fcntl.flock(other.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

        fcntl.flock(other.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("number", "meant"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EACCES, Forbidden),
        (errno.EPERM, Forbidden),
        (errno.EROFS, Forbidden),
        (errno.ENOENT, NotFound),
        (errno.ENOTDIR, NotFound),
        (errno.ELOOP, NotRegular),
        (errno.ENXIO, NotRegular),
        (errno.EIO, Unavailable),
        (errno.ENOLCK, Unavailable),
    ],
)
def test_an_error_of_the_system_is_said_in_our_words_with_its_path(number: int, meant: type[ParleyError]) -> None:
    with pytest.raises(meant, match="some/path") as refusal, os_errors("some/path"):
        raise OSError(number, "raw")

    assert type(refusal.value) is meant
    assert type(to_parley_error(OSError(number, "raw"), "p")) is meant


def test_errors_of_ours_pass_as_they_are() -> None:
    with pytest.raises(NotRegular, match="mine"), os_errors("some/path"):
        raise NotRegular("mine")


def test_where_the_drive_keeps_data_to_itself_it_is_asked_by_its_own_command(
    root: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS"""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(durable_files, "_FULL_SYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: asked.append((fd, command)))

    root.sync()

    assert asked == [(root.fd, 51)]
