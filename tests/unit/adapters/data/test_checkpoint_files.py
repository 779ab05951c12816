from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from parley.adapters.data.checkpoint_files import CheckpointFiles
from parley.domain.errors.errors import Unavailable
from parley.wire.proofs.audit_log import checkpoint_line, read_checkpoints
from tests.samples.audit import TENANT, a_log, checkpoints_of

MARKS = checkpoints_of(a_log(30), 5, 10, 20, 30)


def keep(folder: Path, *which: int) -> None:
    asyncio.run(CheckpointFiles(str(folder)).append([MARKS[one] for one in which]))


def known(folder: Path, tenant: str = TENANT) -> int:
    return asyncio.run(CheckpointFiles(str(folder)).covered(tenant))


def test_checkpoints_are_lines_behind_each_other_that_only_the_owner_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"

    keep(folder, 0, 1)
    keep(folder, 2)
    keep(folder)

    with open(folder / f"{TENANT}.jsonl", "rb") as file:
        assert [*read_checkpoints(file)] == MARKS[:3]
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(folder / f"{TENANT}.jsonl").st_mode) == 0o600


def test_it_is_known_how_far_they_reach(tmp_path: Path) -> None:
    assert known(tmp_path) == 0

    keep(tmp_path, 0, 1, 2)

    assert known(tmp_path) == 20
    assert known(tmp_path, "globex") == 0


def test_a_write_that_was_interrupted_is_cut_off_and_said_again(tmp_path: Path) -> None:
    keep(tmp_path, 0, 1)
    path = tmp_path / f"{TENANT}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + checkpoint_line(MARKS[2])[:50])

    assert known(tmp_path) == 10
    keep(tmp_path, 2)

    assert path.read_bytes() == whole + checkpoint_line(MARKS[2])


@pytest.mark.parametrize("content", [b"", b"\n", b'{"ten'])
def test_a_file_without_a_whole_line_knows_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{TENANT}.jsonl").write_bytes(content)

    if content == b"\n":
        with pytest.raises(Exception, match="no checkpoint"):
            known(tmp_path)
    else:
        assert known(tmp_path) == 0


def test_a_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / f"{TENANT}.jsonl"
    path.write_bytes(checkpoint_line(MARKS[0]) * 500 + checkpoint_line(MARKS[3]))

    assert known(tmp_path) == 30


def test_a_link_is_not_followed_and_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", tmp_path / f"{TENANT}.jsonl")
    with pytest.raises(Unavailable):
        keep(tmp_path, 0)
    assert not (tmp_path / "elsewhere").exists()

    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        keep(tmp_path / "file" / "folder", 0)
    with pytest.raises(Unavailable):
        known(tmp_path / "file" / "folder")
