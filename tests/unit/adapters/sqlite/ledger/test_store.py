"""What the SQLite file promises beyond the contract of every store."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from parley.adapters.sqlite.ledger.store import SCHEMA_VERSION, SqliteStore
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import DiskFull, Forbidden, NewerSchema, Stale, Unavailable
from parley.domain.mailbox.delivery import DeliveryKey, Status
from parley.domain.mailbox.ledger import Entry, ExpectDelivery, MailboxChanges

FULL = 2
ENTRY = Entry("sent", "2026-03-13T14:30:00Z", "claude", "m1", "d" * 64)

CREATOR = """
import sys
from parley.adapters.sqlite.ledger.store import SqliteStore
from parley.domain.mailbox.ledger import MailboxChanges, Entry

print("ready", flush=True)
sys.stdin.readline()
for path in sys.argv[2:]:
    store = SqliteStore(path)
    try:
        store.commit(MailboxChanges(entries=(Entry("sent", "", sys.argv[1], "", ""),))).send(None)
    except StopIteration:
        pass
    store.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as opened:
        yield opened


def commit(store: SqliteStore, changes: MailboxChanges) -> int:
    return drive(store.commit(changes))


def pragma(store: SqliteStore, name: str) -> object:
    return store._db.execute(f"PRAGMA {name}").fetchone()[0]


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everything, so root steps down for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_the_ledger_and_its_companions_belong_to_their_owner_alone(path: str, store: SqliteStore) -> None:
    commit(store, MailboxChanges(entries=(ENTRY,)))

    modes = {name: stat.S_IMODE(os.stat(path + name).st_mode) for name in ("", "-wal", "-shm")}

    assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600}


def test_a_generous_umask_does_not_open_the_ledger(path: str) -> None:
    before = os.umask(0)
    try:
        SqliteStore(path).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_commits_are_durable_and_readers_do_not_block_writers(store: SqliteStore) -> None:
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == FULL


@pytest.mark.parametrize("refused", [False, True])
def test_a_commit_that_may_be_lost_leaves_the_next_one_durable(store: SqliteStore, refused: bool) -> None:
    expects = (ExpectDelivery(DeliveryKey("x", "y", "z"), Status.DONE),) if refused else ()
    try:
        commit(store, MailboxChanges(entries=(ENTRY,), expects=expects, durable=False))
    except Stale:
        assert refused

    assert pragma(store, "synchronous") == FULL


def test_a_ledger_is_read_again_after_it_was_closed(path: str) -> None:
    with closing(SqliteStore(path)) as first:
        commit(first, MailboxChanges(entries=(ENTRY,)))

    with closing(SqliteStore(path)) as second:
        assert [one.entry for one in drive(second.entries(0, 10))] == [ENTRY]
        assert commit(second, MailboxChanges(entries=(ENTRY,))) == 2


@pytest.mark.parametrize("name", ["100% sure?.db", "a#b.db", "ü db", "a?mode=memory"])
def test_any_file_name_is_taken_literally(tmp_path: Path, name: str) -> None:
    SqliteStore(str(tmp_path / name)).close()

    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_newer_schema_is_refused_and_left_alone(path: str) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")

    with pytest.raises(NewerSchema) as refusal:
        SqliteStore(path)

    assert (refusal.value.code, refusal.value.hint) == ("newer_schema", "upgrade Parley")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET document = '{}' WHERE position = 1",
        "UPDATE entry SET position = 7 WHERE position = 2",
        "DELETE FROM entry WHERE position = 2",
        "INSERT OR REPLACE INTO entry VALUES (1, '{}', x'00')",
        "INSERT INTO entry VALUES (4, '{}', x'00')",
        "INSERT INTO entry VALUES (0, '{}', x'00')",
    ],
)
def test_the_ledger_only_grows_at_its_end(path: str, store: SqliteStore, statement: str) -> None:
    commit(store, MailboxChanges(entries=(ENTRY, ENTRY)))
    before = drive(store.entries(0, 10))

    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)

    assert drive(store.entries(0, 10)) == before


def test_a_full_disk_is_said_in_plain_words_and_writes_nothing(store: SqliteStore) -> None:
    pages = pragma(store, "page_count")
    store._db.execute(f"PRAGMA max_page_count={pages}")
    large = ENTRY._replace(facts={"file": "x" * 100_000})

    with pytest.raises(DiskFull, match="disk is full") as refusal:
        commit(store, MailboxChanges(entries=(ENTRY, large)))

    assert refusal.value.code == "disk_full"
    assert drive(store.entries(0, 10)) == ()
    assert commit(store, MailboxChanges(entries=(ENTRY,))) == 1


def test_a_ledger_that_may_not_be_written_is_forbidden(open_folder: Path) -> None:
    path = open_folder / "ledger.db"
    SqliteStore(str(path)).close()
    path.chmod(0o444)
    open_folder.chmod(0o555)

    with without_privileges(), pytest.raises(Forbidden) as refusal:
        commit(SqliteStore(str(path)), MailboxChanges(entries=(ENTRY,)))

    assert refusal.value.code == "forbidden"


def test_a_folder_that_may_not_be_written_is_forbidden(open_folder: Path) -> None:
    open_folder.chmod(0o555)

    with without_privileges(), pytest.raises(Forbidden):
        SqliteStore(str(open_folder / "ledger.db"))

    assert list(open_folder.iterdir()) == []


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        SqliteStore(str(tmp_path / "missing" / "ledger.db"))

    assert list(tmp_path.iterdir()) == []


def test_who_only_looks_makes_no_ledger(tmp_path: Path, path: str) -> None:
    with pytest.raises((Forbidden, Unavailable)):
        SqliteStore(path, create=False)

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_unavailable_and_left_alone(path: str) -> None:
    content = b"this is not a database\n" * 100
    Path(path).write_bytes(content)

    with pytest.raises(Unavailable) as refusal:
        SqliteStore(path)

    assert refusal.value.code == "unavailable"
    assert Path(path).read_bytes() == content


def test_a_writer_that_never_gets_its_turn_is_told_so(path: str, store: SqliteStore) -> None:
    store._db.execute("PRAGMA busy_timeout=0")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(Unavailable, match="locked"):
            commit(store, MailboxChanges(entries=(ENTRY,)))

        other.execute("ROLLBACK")
    assert commit(store, MailboxChanges(entries=(ENTRY,))) == 1


@pytest.mark.parametrize("busy", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN; SELECT * FROM sqlite_master"])
def test_who_meets_another_at_a_new_ledger_waits_for_its_turn(path: str, busy: str) -> None:
    made: list[SqliteStore] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in busy.split("; "):
            other.execute(statement).fetchall()
        opening = Thread(target=lambda: made.append(SqliteStore(path)))
        opening.start()
        opening.join(0.3)
        assert opening.is_alive(), "gave up, or went ahead, while another was busy"
        other.execute("ROLLBACK")
        opening.join()

    assert pragma(made[0], "journal_mode") == "wal"
    made[0].close()


def test_processes_that_create_one_ledger_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"ledger-{number}.db") for number in range(10)]
    creators = [
        subprocess.Popen(
            [sys.executable, "-c", CREATOR, str(number), *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for creator in creators:
        assert creator.stdout is not None
        creator.stdout.readline()

    errors = []
    for creator in creators:
        assert creator.stdin is not None
        creator.stdin.write("go\n")
        creator.stdin.flush()
    for creator in creators:
        errors.append(creator.communicate()[1])

    assert errors == [""] * 6
    for path in paths:
        with closing(SqliteStore(path)) as store:
            assert sorted(one.entry.agent for one in drive(store.entries(0, 10))) == list("012345")
