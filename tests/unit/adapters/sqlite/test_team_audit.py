"""Only what the contract does not say: what the writer knows without asking its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.sqlite import team_audit, team_file
from parley.adapters.sqlite.team_audit import AuditWriter, read_page
from parley.adapters.sqlite.team_known import Head
from parley.domain.audit import AuditDraft
from parley.domain.governance_errors import Overspent
from parley.domain.team_changes import AuditQuery, Spend

HEAD = Head(1, 0, 0, b"")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = str(tmp_path / "team.db")
    found = team_file.connect(path, writes=True, durable=False)
    team_file.migrate(found, path)
    yield found
    found.close()


def facts(*sides: str) -> tuple[AuditDraft, ...]:
    return tuple(AuditDraft(f"aud_{n}", side, "at", "a", "x", {"n": n}) for n, side in enumerate(sides))


def test_more_entries_than_one_statement_takes_are_all_written(db: sqlite3.Connection) -> None:
    writer = AuditWriter(db)

    head = writer.append("t", HEAD, facts(*["alice"] * 250))
    writer.flush()
    writer.flush()

    assert head.audit_number == 250
    assert [one.seq for one in read_page(db, 1, AuditQuery())] == list(range(1, 251))


def test_what_was_taken_back_is_not_known(db: sqlite3.Connection) -> None:
    writer = AuditWriter(db)
    for done in (False, True):
        db.execute("BEGIN")
        writer.append("t", HEAD, facts("alice"))
        writer.spend("t", (Spend("k", 5),))
        writer.flush()
        db.execute("COMMIT" if done else "ROLLBACK")
        if done:
            writer.done()
        writer.clear()

    assert [one.seq for one in read_page(db, 1, AuditQuery())] == [1]
    writer.check("t", (Spend("k", 2),))
    with pytest.raises(Overspent):
        writer.check("t", (Spend("k", 1),))


def test_as_many_sides_and_budgets_as_there_are_do_not_fill_the_memory(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_audit, "_MOST_KNOWN", 3)
    writer = AuditWriter(db)
    head = HEAD

    for number in range(20):
        head = writer.append("t", head, facts(f"side_{number % 10}"))
        writer.spend("t", (Spend(f"key_{number % 10}", 99),))
        writer.flush()
        writer.done()
        writer.clear()

    assert len(writer._known_sides) <= 3
    assert len(writer._known_budgets) <= 3
    assert [one.seq for one in read_page(db, 1, AuditQuery())] == [1] * 10 + [2] * 10
    with pytest.raises(Overspent):
        writer.check("t", (Spend("key_0", 2),))


@pytest.mark.parametrize("query", [AuditQuery(exchange_id="exch_1"), AuditQuery(entry_id="aud_1")])
def test_what_is_asked_for_most_is_found_by_an_index(db: sqlite3.Connection, query: AuditQuery) -> None:
    asked: list[str] = []
    db.set_trace_callback(asked.append)
    read_page(db, 1, query)
    db.set_trace_callback(None)

    plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {asked[-1]}"))

    assert "USING INDEX audit_" in plan
