"""Putting a complete file under a name: all of it or nothing, never over another."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.adapters.files import place as module
from parley.adapters.files.folders import Folder
from parley.adapters.files.place import is_temporary, place, replace
from parley.adapters.files.writers import has_writer
from parley.domain.errors.errors import DiskFull, NameExists, ParleyError, Unavailable
from parley.durable_files import temporary_name

WAYS = pytest.mark.parametrize("use_tmpfile", [True, False], ids=["unnamed file", "temporary name"])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.root(str(tmp_path)) as folder:
        yield folder


def names(folder: Folder) -> list[str]:
    return sorted(os.listdir(folder.path))


def read(folder: Folder, name: str) -> bytes:
    return Path(folder.path, name).read_bytes()


@WAYS
def test_a_file_is_placed_whole_with_its_mode_and_nothing_else(folder: Folder, use_tmpfile: bool) -> None:
    content = bytes(range(256)) * 1_000
    before = os.umask(0)
    try:
        place(folder, "a.yaml", content, use_tmpfile=use_tmpfile)
    finally:
        os.umask(before)

    assert names(folder) == ["a.yaml"]
    assert read(folder, "a.yaml") == content
    found = Path(folder.path, "a.yaml").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_nlink) == (0o640, 1)


@WAYS
def test_a_name_that_is_taken_stays_with_its_first_file(folder: Folder, use_tmpfile: bool) -> None:
    place(folder, "a.yaml", b"first", use_tmpfile=use_tmpfile)

    with pytest.raises(NameExists):
        place(folder, "a.yaml", b"second", use_tmpfile=use_tmpfile)

    assert names(folder) == ["a.yaml"]
    assert read(folder, "a.yaml") == b"first"


@WAYS
def test_a_name_that_is_a_link_is_taken_and_nothing_is_written_through_it(folder: Folder, use_tmpfile: bool) -> None:
    Path(folder.path, "a.yaml").symlink_to("elsewhere")

    with pytest.raises(NameExists):
        place(folder, "a.yaml", b"x", use_tmpfile=use_tmpfile)

    assert names(folder) == ["a.yaml"]


@WAYS
def test_the_content_is_durable_before_it_has_a_name_and_the_name_before_we_return(
    folder: Folder, use_tmpfile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    fsync, link = os.fsync, os.link

    def seen_fsync(fd: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def seen_link(*arguments: str, **options: int) -> None:
        order.append("link")
        link(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "link", seen_link)

    place(folder, "a.yaml", b"x", use_tmpfile=use_tmpfile)

    assert order == ["file", "link", "folder"]


def test_where_the_folder_cannot_be_read_the_file_is_synced_again_after_its_name(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.listable = False
    synced = []
    fsync = os.fsync

    def seen(fd: int) -> None:
        synced.append((stat.S_ISREG(os.fstat(fd).st_mode), "a.yaml" in names(folder)))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", seen)

    place(folder, "a.yaml", b"x")

    assert synced == [(True, False), (True, True)]


@WAYS
@pytest.mark.parametrize("step", ["write", "fchmod", "fsync"])
def test_a_file_that_cannot_be_finished_is_given_up_without_a_trace(
    folder: Folder, use_tmpfile: bool, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*_: object) -> int:
        calls.append(step)
        raise OSError(errno.ENOSPC if step == "write" else errno.EIO, "raw")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(DiskFull if step == "write" else Unavailable):
        place(folder, "a.yaml", b"x", use_tmpfile=use_tmpfile)

    assert names(folder) == []
    assert calls == [step]  # after an error fsync would say yes and mean nothing


@WAYS
def test_a_write_that_takes_only_a_part_is_continued(
    folder: Folder, use_tmpfile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))

    place(folder, "a.yaml", b"0123456789", use_tmpfile=use_tmpfile)

    assert read(folder, "a.yaml") == b"0123456789"


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT])
def test_a_file_system_without_unnamed_files_gets_a_temporary_name(
    folder: Folder, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, "raw")
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)

    place(folder, "a.yaml", b"x")

    assert names(folder) == ["a.yaml"]


def test_another_error_on_opening_is_told(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "raw")

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(DiskFull):
        place(folder, "a.yaml", b"x")


@pytest.mark.parametrize("attribute", ["_TMPFILE", "_has_descriptor_names"])
def test_a_system_without_unnamed_files_or_without_proc_gets_a_temporary_name(
    folder: Folder, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, attribute, 0 if attribute == "_TMPFILE" else lambda: False)
    seen = watch_links(folder, monkeypatch)

    place(folder, "a.yaml", b"x")

    assert [is_temporary(source) for source in seen] == [True]
    assert names(folder) == ["a.yaml"]


def watch_links(folder: Folder, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None) -> list[str]:
    seen: list[str] = []
    link = os.link

    def seen_link(source: str, *arguments: str, **options: int) -> None:
        seen.append(source)
        link(source, *arguments, **options)  # type: ignore[arg-type]
        then()

    monkeypatch.setattr(os, "link", seen_link)
    return seen


def test_while_a_file_has_two_names_its_lock_is_held(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a reader can tell a live sender from a dead one."""
    refused = []

    def try_to_lock() -> None:
        with open(Path(folder.path, "a.yaml"), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refused.append(len(names(folder)))

    watch_links(folder, monkeypatch, try_to_lock)

    place(folder, "a.yaml", b"x", use_tmpfile=False)

    assert refused == [2]


def test_a_temporary_name_is_no_message_and_never_used_twice() -> None:
    one, two = temporary_name("a.yaml"), temporary_name("a.yaml")

    assert one != two
    assert is_temporary(one)
    assert not one.endswith(".yaml")
    assert not is_temporary("a.yaml")
    assert not is_temporary("a.tmp")


def test_replacing_keeps_the_mode_and_leaves_no_other_name(folder: Folder) -> None:
    path = Path(folder.path, "profile.yaml")
    path.write_bytes(b"old")
    path.chmod(0o644)

    replace(folder, "profile.yaml", b"new")
    replace(folder, "other.yaml", b"fresh")

    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o644)
    assert stat.S_IMODE(Path(folder.path, "other.yaml").stat().st_mode) == 0o600
    assert names(folder) == ["other.yaml", "profile.yaml"]


def test_a_replacement_that_fails_leaves_what_was_there(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(folder.path, "profile.yaml").write_bytes(b"old")

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "raw")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ParleyError):
        replace(folder, "profile.yaml", b"new")

    assert read(folder, "profile.yaml") == b"old"
    assert names(folder) == ["profile.yaml"]


@pytest.mark.parametrize("use_tmpfile", [True, False])
@pytest.mark.parametrize("sync_name", [True, False])
def test_nobody_has_a_file_open_for_writing_when_it_gets_its_name(
    folder: Folder, use_tmpfile: bool, sync_name: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look() -> None:
        fd = os.open("a.yaml", os.O_RDONLY, dir_fd=folder.fd)
        seen.append(has_writer(fd))
        os.close(fd)

    watch_links(folder, monkeypatch, look)

    place(folder, "a.yaml", b"content", use_tmpfile=use_tmpfile, sync_name=sync_name)

    assert seen == [False]
