"""Replacing a file: all of it or nothing, in the one order that survives a power cut."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from parley import durable_files
from parley.durable_files import replace_file, replace_in

STEPS = ("open", "write", "fchmod", "fsync", "rename", "unlink")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of the system that change something, in their order; each is carried out."""
    done: list[str] = []

    def watch(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: object, **options: object) -> object:
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)  # type: ignore[arg-type]
            if name != "open" or arguments[1] & os.O_CREAT:  # type: ignore[operator]
                done.append(f"{name} folder" if is_folder else name)
            return call(*arguments, **options)

        return watched

    for name in STEPS:
        monkeypatch.setattr(os, name, watch(name, getattr(os, name)))
    monkeypatch.setattr(durable_files, "_FULL_SYNC", None)
    return done


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_after_it(tmp_path: Path, steps: list[str]) -> None:
    replace_file(str(tmp_path / "file"), b"new", 0o640)

    assert steps == ["open", "write", "fchmod", "fsync", "rename", "fsync folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert ((tmp_path / "file").read_bytes(), stat.S_IMODE((tmp_path / "file").stat().st_mode)) == (b"new", 0o640)


def test_where_a_folder_cannot_be_listed_the_file_is_synced_behind_its_name(tmp_path: Path, steps: list[str]) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    replace_in(folder, "file", b"new", is_listable=False)
    os.close(folder)

    assert steps == ["open", "write", "fchmod", "fsync", "rename", "fsync"]


@pytest.mark.parametrize("step", ["write", "fchmod", "fsync", "rename"])
def test_after_an_error_the_old_content_is_there_and_nothing_else(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def fail(*_arguments: object, **_options: object) -> object:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(durable_files, "_FULL_SYNC", None)
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="Input/output error"):
        replace_file(str(tmp_path / "file"), b"new")

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter([".file.1-0.tmp", ".file.1-1.tmp"])
    monkeypatch.setattr(durable_files, "temporary_name", lambda _name: next(names))
    (tmp_path / ".file.1-0.tmp").write_bytes(b"half")

    replace_file(str(tmp_path / "file"), b"new")

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {".file.1-0.tmp": b"half", "file": b"new"}


def test_of_many_writers_one_is_last_and_none_is_mixed(tmp_path: Path) -> None:
    contents = [bytes([number]) * 50_000 for number in range(8)]
    writers = [Thread(target=replace_file, args=(str(tmp_path / "file"), content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert (tmp_path / "file").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "file").symlink_to(tmp_path / "target")

    replace_file(str(tmp_path / "file"), b"new")

    assert (tmp_path / "target").read_bytes() == b"precious"
    assert not (tmp_path / "file").is_symlink()
