"""What the contract does not show: the bytes in the file are overwritten, and nothing else is slowed down by it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import erase as team_erase
from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team.erase import count_unerased, erase_posts, find_erasable
from parley.domain.channel.post import Post
from parley.domain.store.changes import ErasableMessage, ErasureQuery
from parley.wire import rows as team_rows
from tests.contract.team_store import a_post

SECRET = b'{"text":"a secret that is long enough to be found in a file"}'


@pytest.fixture(name="db")
def a_file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = str(tmp_path / "team.db")
    with closing(team_file.connect(path, writes=True, durable=False)) as db:
        team_file.migrate(db, path)
        yield db


def said(db: sqlite3.Connection, *posts: Post, tenant: int = 1) -> None:
    for number, post in enumerate(posts, 1):
        row = team_rows.post_to_row(post._replace(position=number, seq=number), tenant, tenant)
        db.execute(f"INSERT INTO post VALUES ({', '.join('?' * len(row))})", row)


@pytest.mark.parametrize("before", [0, 1])
def test_the_bytes_are_overwritten_and_the_connection_is_left_as_it_was(
    db: sqlite3.Connection, tmp_path: Path, before: int
) -> None:
    db.execute("PRAGMA journal_mode=DELETE")
    db.execute(f"PRAGMA secure_delete={before}")
    said(db, a_post(payload=SECRET))
    assert SECRET in (tmp_path / "team.db").read_bytes()

    erase_posts(db, 1, (ErasableMessage("msg_1"),))

    assert count_unerased(db, 1, (ErasableMessage("msg_1"),)) == 0
    assert db.execute("PRAGMA secure_delete").fetchone() == (before,)
    assert SECRET not in (tmp_path / "team.db").read_bytes()


def test_only_messages_of_the_tenant_that_still_say_something_are_counted(db: sqlite3.Connection) -> None:
    said(db, a_post("msg_1"), a_post("msg_2"), a_post("msg_3"))
    said(db, a_post("msg_other"), tenant=2)
    erase_posts(db, 1, (ErasableMessage("msg_1"), ErasableMessage("msg_other")))

    assert count_unerased(db, 1, tuple(map(ErasableMessage, ("msg_1", "msg_2", "msg_3", "msg_9", "msg_other")))) == 2
    assert count_unerased(db, 2, (ErasableMessage("msg_other"),)) == 1
    assert count_unerased(db, 1, ()) == 0


def test_only_so_many_messages_are_looked_through_at_once(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_erase, "_WINDOW", 3)
    said(db, *[a_post(f"msg_{n}", sender="bob" if n == 5 else "alice") for n in range(1, 8)])

    looks = [find_erasable(db, 1, ErasureQuery(sender="bob"), after) for after in (0, 3, 6, 7)]

    assert looks == [((), 3), ((ErasableMessage("msg_5"),), 6), ((), 7), ((), 0)]
