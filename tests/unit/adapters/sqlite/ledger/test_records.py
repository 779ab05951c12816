"""Records and the audit chain of a ledger on the disk: an old ledger learns them, and nobody changes an entry."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.sqlite.file import split_statements
from parley.adapters.sqlite.ledger import store as module
from parley.adapters.sqlite.ledger.store import SqliteStore
from parley.app.mailbox.kernel import drive
from parley.domain.audit.entry import AuditDraft
from parley.domain.errors.errors import Unavailable
from parley.domain.exchange.incoming import Spent
from parley.domain.mailbox.ledger import Entry, MailboxChanges


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(str(path))
    yield made
    made.close()


def draft(number: int) -> AuditDraft:
    return AuditDraft(f"aud_{number}", "alice", "2026-03-13T14:30:00Z", "agent_exchange", "alice", {"number": number})


def old_ledger(path: Path) -> None:
    """A ledger as the first version of its schema made it, with an entry in it."""
    db = sqlite3.connect(path)
    for statement in split_statements(module._read_schema("schema.sql")):
        db.execute(statement)
    db.execute("INSERT INTO entry VALUES (1, '{}', x'00')")
    db.execute("PRAGMA user_version=1")
    db.commit()
    db.close()


def test_a_ledger_of_the_first_version_is_brought_forward_and_keeps_what_it_has(path: Path) -> None:
    old_ledger(path)

    store = SqliteStore(str(path))
    drive(store.commit(MailboxChanges(puts=(Spent(id="s", tenant_id="acme"),), audits=(draft(1),), tenant="acme")))

    assert drive(store.record(Spent, "s")) == Spent(id="s", tenant_id="acme", version=1)
    assert [one.seq for one in drive(store.audits(0, 10))] == [1]
    store.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT COUNT(*) FROM entry").fetchone() == (1,)
    assert db.execute("PRAGMA user_version").fetchone() == (module.SCHEMA_VERSION,)
    db.close()


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE audit SET document = x'00'",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 1",
        "INSERT INTO audit SELECT seq + 9, id, side, tenant, at, exchange, hash, document FROM audit",
    ],
)
def test_an_entry_is_final(path: Path, store: SqliteStore, attack: str) -> None:
    drive(store.commit(MailboxChanges(audits=(draft(1), draft(2)), tenant="acme")))
    db = sqlite3.connect(path)

    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(attack)

    db.close()


def test_a_commit_that_cannot_write_its_entry_writes_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("parley.adapters.sqlite.ledger.records.append_audits", breaks)
    entry = Entry("sent", "", "alice", "m", "d")
    with pytest.raises(Unavailable):
        drive(store.commit(MailboxChanges(entries=(entry,), puts=(Spent(id="s", tenant_id="a"),), audits=(draft(1),))))

    assert drive(store.entries(0, 10)) == ()
    assert drive(store.audits(0, 10)) == ()
    assert drive(store.record(Spent, "s")) is None
