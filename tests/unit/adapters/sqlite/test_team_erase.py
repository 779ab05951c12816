"""What the contract does not show: the bytes in the file are overwritten, and nothing else is slowed down by it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.adapters.sqlite import team_file
from parley.adapters.sqlite.team_erase import blank_posts
from parley.domain.team_changes import Blank
from parley.wire import team_rows
from tests.contract.team_store import a_post

SECRET = b'{"text":"a secret that is long enough to be found in a file"}'


@pytest.mark.parametrize("before", [0, 1])
def test_the_bytes_are_overwritten_and_the_connection_is_left_as_it_was(tmp_path: Path, before: int) -> None:
    path = str(tmp_path / "team.db")
    with closing(team_file.connect(path, writes=True, durable=False)) as db:
        team_file.migrate(db, path)
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute(f"PRAGMA secure_delete={before}")
        row = team_rows.post_to_row(a_post(payload=SECRET, position=1, seq=1), 1, 1)
        db.execute(f"INSERT INTO post VALUES ({', '.join('?' * len(row))})", row)
        assert SECRET in (tmp_path / "team.db").read_bytes()
        low = 1 << team_rows.SHIFT

        done = blank_posts(db, low, low | team_rows.MASK, Blank(sender="alice"))

        assert done == 1
        assert db.execute("PRAGMA secure_delete").fetchone() == (before,)
    assert SECRET not in (tmp_path / "team.db").read_bytes()


def test_nobody_named_is_nothing_erased() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        assert blank_posts(db, 0, 1, Blank()) == 0
