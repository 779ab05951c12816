from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from parley.adapters.sqlite.file import quote_path, split_statements, sqlite_errors, to_parley_error
from parley.domain.errors.errors import DiskFull, Forbidden, NotText, ParleyError, Unavailable


def test_a_script_is_cut_into_statements_with_triggers_whole() -> None:
    script = """
    CREATE TABLE a (x);  -- a comment; with a semicolon
    CREATE TRIGGER t BEFORE INSERT ON a BEGIN SELECT 1; SELECT 2; END;
    """

    found = list(split_statements(script))

    assert len(found) == 2
    db = sqlite3.connect(":memory:")
    for one in found:
        db.execute(one)
    db.close()


@pytest.mark.parametrize("name", ["plain.db", "a?b.db", "a#b.db", "a%20b.db", "ü ö.db"])
def test_any_file_name_can_be_opened_by_its_uri(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    db = sqlite3.connect(f"file:{quote_path(str(path))}?mode=rwc", uri=True)
    db.execute("CREATE TABLE a (x)")
    db.close()

    assert [one.name for one in tmp_path.iterdir()] == [name]


def sqlite_error(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("it went wrong")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sqlite_error("SQLITE_FULL"), DiskFull),
        (sqlite_error("SQLITE_READONLY"), Forbidden),
        (sqlite_error("SQLITE_CANTOPEN"), Forbidden),
        (sqlite_error("SQLITE_PERM"), Forbidden),
        (sqlite_error("SQLITE_BUSY"), Unavailable),
        (sqlite_error("SQLITE_CORRUPT"), Unavailable),
        (sqlite3.ProgrammingError("closed"), Unavailable),
        (OSError(errno.ENOSPC, "no space"), DiskFull),
        (OSError(errno.EDQUOT, "quota"), DiskFull),
        (PermissionError(errno.EACCES, "no"), Forbidden),
        (OSError(errno.EIO, "io"), Unavailable),
    ],
)
def test_errors_of_the_file_are_said_in_our_words(
    tmp_path: Path, error: sqlite3.Error | OSError, kind: type[ParleyError]
) -> None:
    assert type(to_parley_error(error, str(tmp_path / "x.db"))) is kind


def test_an_io_error_on_a_full_disk_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.db")
    assert type(to_parley_error(sqlite_error("SQLITE_IOERR_SHMSIZE"), path)) is Unavailable

    def full(_: object) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 100, 0, 0, 0, 0, 0, 0, 255))

    monkeypatch.setattr(os, "statvfs", full)

    assert type(to_parley_error(sqlite_error("SQLITE_IOERR_SHMSIZE"), path)) is DiskFull


def test_only_errors_of_the_file_are_translated() -> None:
    with pytest.raises(Unavailable) as said, sqlite_errors("x.db"):
        raise sqlite_error("SQLITE_BUSY")
    assert isinstance(said.value.__cause__, sqlite3.Error)

    with pytest.raises(KeyError), sqlite_errors("x.db"):
        raise KeyError
    with sqlite_errors("x.db"):
        pass


def test_a_value_that_cannot_be_encoded_is_no_text(tmp_path: Path) -> None:
    db = sqlite3.connect(":memory:")

    with pytest.raises(NotText, match=r"a\\udcff is not UTF-8 text"), sqlite_errors(str(tmp_path)):
        db.execute("SELECT ?", ("a\udcff",))

    db.close()
