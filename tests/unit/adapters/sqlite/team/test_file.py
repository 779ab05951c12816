from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team.tables import SqliteTables
from parley.domain.errors.errors import Forbidden, Invalid, NewerSchema, ParleyError, Unavailable


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store with its schema and one row."""
    place = str(tmp_path / "team.db")
    db = team_file.connect(place, writes=True)
    team_file.migrate(db, place)
    db.execute("INSERT INTO tenant VALUES (1, 'acme', 0, 0, x'00', 0)")
    db.close()
    return place


def setting(db: sqlite3.Connection, name: str) -> object:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


def test_the_writer_makes_a_private_file_whose_commits_survive_a_power_cut(tmp_path: Path) -> None:
    place = str(tmp_path / "new.db")

    db = team_file.connect(place, writes=True)

    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
    assert (setting(db, "journal_mode"), setting(db, "synchronous")) == ("wal", 2)
    assert (setting(db, "fullfsync"), setting(db, "wal_autocheckpoint")) == (1, 0)
    assert setting(db, "secure_delete") == 1
    db.close()


def test_a_store_that_may_be_forgotten_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    db = team_file.connect(str(tmp_path / "new.db"), writes=True, durable=False)

    assert setting(db, "synchronous") == 0
    db.close()


def test_a_reader_makes_nothing_and_writes_nothing(path: str, tmp_path: Path) -> None:
    writer = team_file.connect(path, writes=True)
    db = team_file.connect(path, writes=False)

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM tenant")
    with pytest.raises(Forbidden):
        team_file.connect(str(tmp_path / "none.db"), writes=False)

    assert not (tmp_path / "none.db").exists()
    db.close()
    writer.close()


def test_a_schema_is_brought_up_to_date_once(path: str) -> None:
    db = team_file.connect(path, writes=True)
    before = db.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall()

    team_file.migrate(db, path)

    assert db.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall() == before
    assert setting(db, "user_version") == team_file.SCHEMA_VERSION
    db.close()


def test_a_newer_schema_is_refused(path: str) -> None:
    db = team_file.connect(path, writes=True)
    db.execute(f"PRAGMA user_version={team_file.SCHEMA_VERSION + 1}")

    with pytest.raises(NewerSchema):
        team_file.migrate(db, path)
    db.close()


@pytest.mark.parametrize(("version", "refusal"), [(1, Invalid), (2, None), (3, None), (7, None), (8, NewerSchema)])
def test_who_only_reads_takes_every_file_with_the_same_tables(
    path: str, version: int, refusal: type[ParleyError] | None
) -> None:
    db = team_file.connect(path, writes=True)
    db.execute(f"PRAGMA user_version={version}")

    with pytest.raises(refusal) if refusal else nullcontext():
        team_file.check_readable(db, path)

    assert setting(db, "user_version") == version
    db.close()


def test_used_idempotency_keys_survive_the_change_of_their_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "team.db")
    db = team_file.connect(place, writes=True)
    monkeypatch.setattr(team_file, "SCHEMA_VERSION", 2)
    team_file.migrate(db, place)
    uses = [
        (f"scope {9 - n}", "f", f"once_{n}", f"2026-03-13T08:00:0{n}", f"msg_{n}", 201, b"answer") for n in range(5)
    ]
    db.executemany("INSERT INTO saved VALUES (?, ?, ?, ?, ?, ?, ?)", uses)
    monkeypatch.undo()

    team_file.migrate(db, place)

    # In the order in which they were used, as they are from now on.
    assert db.execute("SELECT * FROM saved ORDER BY rowid").fetchall() == uses
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO saved SELECT * FROM saved LIMIT 1")
    db.close()


def test_records_and_the_order_of_the_audit_log_survive_the_change_of_their_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "team.db")
    db = team_file.connect(place, writes=True)
    monkeypatch.setattr(team_file, "SCHEMA_VERSION", 3)
    team_file.migrate(db, place)
    kept = [("t1", "exchange", f"exch_{n}", 1, "conv_1", name, "", b"{}") for n, name in enumerate(["a,b", "", "a,c"])]
    kept.append(("t1", "channel", "chan_1", 1, "intent_1", "goals", "", b"{}"))
    db.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kept)
    insert = (
        "INSERT INTO audit (place, side, seq, id, at, exchange, hash, document) VALUES (?, ?, ?, 'a', '', '', '', x'')"
    )
    for tenant in (1, 2):
        db.executemany(insert, [(tenant << 40 | number, "bob", number) for number in (1, 2)])
    monkeypatch.undo()

    team_file.migrate(db, place)

    assert db.execute("SELECT * FROM record ORDER BY kind DESC, id").fetchall() == kept
    by_parent = "SELECT id FROM record INDEXED BY record_parent WHERE (kind <> 'exchange' OR name = '') ORDER BY id"
    assert db.execute(by_parent).fetchall() == [("chan_1",), ("exch_1",)]
    # The log goes on where it ended, of each tenant, and nowhere else.
    db.execute(insert, (1 << 40 | 3, "bob", 3))
    db.execute(insert, (3 << 40 | 1, "bob", 1))
    for wrong in ((1 << 40 | 3, "eve", 1), (1 << 40 | 5, "bob", 4), (2 << 40 | 3, "bob", 2), (4 << 40 | 2, "bob", 1)):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(insert, wrong)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "team.db")
    db = team_file.connect(place, writes=True)
    monkeypatch.setattr(team_file, "_read", lambda _: "CREATE TABLE a (x);\nCREATE TABLE a (x);\n")

    with pytest.raises(sqlite3.OperationalError):
        team_file.migrate(db, place)

    assert db.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone() == (0,)
    assert setting(db, "user_version") == 0
    db.close()


def test_a_copy_is_whole_while_the_store_is_in_use(path: str, tmp_path: Path) -> None:
    writer = team_file.connect(path, writes=True)
    writer.execute("INSERT INTO tenant VALUES (2, 'late', 0, 0, x'00', 0)")  # in the log, not yet in the file
    target, told = str(tmp_path / "copy.db"), []

    team_file.copy(path, target, lambda done, total: told.append((done, total)))

    writer.close()
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.glob("copy.db*")) == ["copy.db"]
    copied = sqlite3.connect(target)
    assert copied.execute("SELECT id FROM tenant ORDER BY id").fetchall() == [("acme",), ("late",)]
    copied.close()
    assert told[-1][0] == told[-1][1] > 0


def test_a_copy_overwrites_nothing(path: str, tmp_path: Path) -> None:
    target = tmp_path / "there.db"
    target.write_bytes(b"precious")

    with pytest.raises(ParleyError):
        team_file.copy(path, str(target), lambda *_: None)

    assert target.read_bytes() == b"precious"


def test_a_file_that_is_no_store_is_said_so(tmp_path: Path) -> None:
    place = tmp_path / "team.db"
    place.write_bytes(b"this is no database at all" * 100)

    with pytest.raises(Unavailable):
        team_file.connect(str(place), writes=True)


def test_a_copy_that_fails_leaves_nothing_of_itself_behind(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("this is no database, and never was one")
    (tmp_path / "empty.db").touch()

    with pytest.raises(ParleyError):
        team_file.copy(str(tmp_path / "other.db"), str(tmp_path / "copy.db"), lambda _done, _total: None)
    with pytest.raises(ParleyError, match="no backup"):
        team_file.restore(str(tmp_path / "empty.db"), str(tmp_path / "s.db"), lambda _done, _total: None, force=False)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "other.db"]


def test_channels_that_evicted_messages_before_these_were_counted_are_known_with_up_to_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "team.db")
    db = team_file.connect(place, writes=True)
    monkeypatch.setattr(team_file, "SCHEMA_VERSION", 6)
    team_file.migrate(db, place)
    db.execute("INSERT INTO tenant VALUES (7, 'acme', 9, 0, x'', 0)")
    channels = [(1, "full", 3, "2026-03"), (2, "fresh", 0, "2026-03"), (3, "empty", 5, "2026-02")]
    db.executemany(
        "INSERT INTO tally (number, id, floor, last_at, tenant, intent, count, seq)"
        " VALUES (?, ?, ?, ?, 'acme', '', 5, 5)",
        channels,
    )
    for seq, at in ((3, "2026-01-03"), (4, "2026-01-04"), (5, "2026-01-05")):
        values = (7 << 40 | seq, seq, f"msg_{seq}", at)
        db.execute(
            "INSERT INTO post (number, channel, seq, id, created_at, sender, addressee, pattern, in_reply_to,"
            " expires_at, state, answered, payload, metadata)"
            " VALUES (?, 1, ?, ?, ?, 'a', '', '', '', '', 'delivered', 0, x'', x'')",
            values,
        )
    monkeypatch.undo()

    with pytest.raises(Invalid):
        SqliteTables(place)  # what is not known yet cannot be copied
    team_file.migrate(db, place)

    marks = db.execute("SELECT tenant, hour, kind, scope, number, last_at FROM traffic ORDER BY scope").fetchall()
    assert marks == [(7, "", "uncounted", "empty", 0, "2026-02"), (7, "", "uncounted", "full", 0, "2026-01-04")]
    db.close()
