"""A file that is still being written is told from one that is finished."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parley.adapters.files import writers
from parley.adapters.files.folders import Folder
from parley.adapters.files.writers import SETTLING_SECONDS, has_writer, is_unfinished

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


def changed(path: Path, seconds_ago: float) -> Path:
    moment = (NOW - timedelta(seconds=seconds_ago)).timestamp()
    os.utime(path, (moment, moment))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text("id: x\n")
    return path


def asks(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return has_writer(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("mode", ["a", "r+", "w"])
def test_a_file_that_somebody_has_open_for_writing_has_a_writer(path: Path, mode: str) -> None:
    with path.open(mode):
        assert asks(path)
    assert not asks(path)


def test_a_file_that_others_read_has_no_writer(path: Path) -> None:
    with path.open():
        assert not asks(path)


def test_a_writer_in_another_process_is_seen(path: Path) -> None:
    code = f"import sys; file = open({str(path)!r}, 'a'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        seen = asks(path)
        writer.communicate()

    assert seen
    assert not asks(path)


def test_who_asks_is_not_ended_by_a_writer_that_comes_meanwhile(path: Path) -> None:
    """The signal that announces a writer must be one that is ignored."""
    code = f"""if True:
        import os, subprocess, sys, threading
        from parley.adapters.files import writers
        fcntl = writers.fcntl.fcntl
        def slow(fd, command, argument):
            if command == writers.fcntl.F_SETLEASE and argument == writers.fcntl.F_UNLCK:
                os.write(1, b"leased\\n")
                sys.stdin.readline()
            return fcntl(fd, command, argument)
        writers.fcntl.fcntl = slow
        print(writers.has_writer(os.open({str(path)!r}, os.O_RDONLY)), flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        with suppress(BlockingIOError):  # the lease is being broken
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        out, _ = asking.communicate(b"go on\n")

    assert (asking.returncode, out) == (0, b"False\n")


def test_where_there_are_no_leases_nobody_is_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_SET_LEASE", None)

    with path.open("a"):
        assert not asks(path)


@pytest.mark.parametrize(
    ("seconds_ago", "unfinished"),
    [(0, True), (SETTLING_SECONDS - 1, True), (SETTLING_SECONDS, False), (3600, False), (-5, True), (-3600, False)],
)
def test_a_file_is_left_alone_for_ten_seconds_after_its_last_change(
    path: Path, seconds_ago: float, unfinished: bool
) -> None:
    changed(path, seconds_ago)

    with Folder.root(str(path.parent)) as folder:
        assert is_unfinished(folder, path.name, NOW) is unfinished


def test_a_file_that_is_open_for_writing_is_unfinished_however_old(path: Path) -> None:
    with path.open("a"), Folder.root(str(path.parent)) as folder:
        changed(path, 3600)

        assert is_unfinished(folder, path.name, NOW)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "link.yaml").symlink_to("gone")

    with Folder.root(str(tmp_path)) as folder:
        now = datetime.now(UTC)
        assert not any(is_unfinished(folder, name, now) for name in ("fifo.yaml", "link.yaml", "gone.yaml"))
