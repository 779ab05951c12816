"""An index of headings gives back what was kept, or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.files import heading_index
from parley.adapters.files.folders import Folder
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.mailbox.listing import NO_INDEX, FileKey, KnownHeading
from parley.domain.message.message import Heading

NAME = "headings-inbox"
HEADING = Heading(
    "m1", "claude", ("codex", "gemini"), "question", "P2", "2026-03-13T12:00:00Z", "Which?", "", "c1", "m0"
)
ME = os.geteuid()
# Long ago by the file system's clock.
OLD = (7 << 64) | 1


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Folder]:
    with Folder.root(str(tmp_path)) as folder:
        yield folder


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    os.utime(folder, ns=(1, 1))
    return folder


def kept(private: Folder, inbox: Path, entries: dict[FileKey, KnownHeading], files: int = 1) -> None:
    heading_index.save(private, NAME, inbox.stat(), DEFAULT_LIMITS, entries, files)


def test_what_was_kept_comes_back(private: Folder, inbox: Path) -> None:
    entries = {("a.yaml", OLD): (HEADING, ME), ("b.yaml", OLD + 1): (HEADING._replace(subject="Ärger: ja?"), ME)}
    kept(private, inbox, entries, 2)

    assert heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS).entries == entries


def test_nothing_is_kept_of_an_empty_folder(private: Folder, inbox: Path) -> None:
    kept(private, inbox, {}, 0)

    assert heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS).entries == {}


@pytest.mark.parametrize("subject", ["two\nlines", "with \x1f mark"])
def test_a_heading_that_the_text_cannot_hold_is_left_out(private: Folder, inbox: Path, subject: str) -> None:
    kept(private, inbox, {("a.yaml", OLD): (HEADING._replace(subject=subject), ME), ("b.yaml", OLD): (HEADING, ME)}, 2)

    assert [*heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS).entries] == [("b.yaml", OLD)]


def test_a_file_that_changed_less_than_ten_seconds_ago_is_left_out(private: Folder, inbox: Path) -> None:
    fresh = (7 << 64) | inbox.stat().st_ctime_ns
    kept(private, inbox, {("a.yaml", fresh): (HEADING, ME), ("b.yaml", OLD): (HEADING, ME)}, 2)

    assert [*heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS).entries] == [("b.yaml", OLD)]


def test_a_folder_that_changed_less_than_ten_seconds_ago_is_looked_at_again(private: Folder, inbox: Path) -> None:
    kept(private, inbox, {("a.yaml", OLD): (HEADING, ME)})

    assert not heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS).complete


@pytest.mark.parametrize(("owner", "files", "complete"), [(ME, 1, True), (ME, 2, False), (ME + 1, 1, False)])
def test_a_folder_is_not_looked_at_again_when_all_its_files_are_kept_and_one_s_own(
    private: Folder, inbox: Path, monkeypatch: pytest.MonkeyPatch, owner: int, files: int, *, complete: bool
) -> None:
    monkeypatch.setattr(heading_index, "_SETTLED_NS", -3_600_000_000_000)
    kept(private, inbox, {("a.yaml", OLD): (HEADING, owner)}, files)

    assert heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS).complete is complete
    (inbox / "b.yaml").touch()
    assert not heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS).complete


def test_no_byte_of_the_rows_can_change_unseen(private: Folder, inbox: Path, tmp_path: Path) -> None:
    kept(private, inbox, {("a.yaml", OLD): (HEADING, ME)})
    whole = (tmp_path / NAME).read_bytes()
    for at in range(whole.index(b"\n") + 1, len(whole)):
        (tmp_path / NAME).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])

        assert heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS) is NO_INDEX


def test_without_a_file_there_is_no_index(private: Folder, inbox: Path) -> None:
    assert heading_index.load(private, NAME, inbox.stat(), DEFAULT_LIMITS) is NO_INDEX
