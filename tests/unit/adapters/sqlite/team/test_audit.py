"""Only what the contract does not say: how much goes into a statement, and what is found by an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import audit as team_audit
from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team.audit import read_page
from parley.domain.audit.entry import AuditEntry, SideHead
from parley.domain.store.changes import AuditQuery


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = str(tmp_path / "team.db")
    found = team_file.connect(path, writes=True, durable=False)
    team_file.migrate(found, path)
    yield found
    found.close()


def entries(count: int, side: str = "alice", tenant: int = 1) -> list[tuple[int, AuditEntry]]:
    return [
        (tenant, AuditEntry(n, side, n, f"aud_{n}", f"2026-{n}", "", f"hash_{n}", b'{"n":1}'))
        for n in range(1, count + 1)
    ]


def test_more_entries_than_one_statement_takes_are_all_written(db: sqlite3.Connection) -> None:
    team_audit.write(db, entries(250))

    assert [one.seq for one in read_page(db, 1, AuditQuery())] == list(range(1, 251))


def test_a_chain_ends_with_its_last_entry_and_one_without_any_at_its_beginning(db: sqlite3.Connection) -> None:
    team_audit.write(db, entries(3) + entries(2, "bob", tenant=2))

    assert team_audit.side_head(db, 1, "alice") == SideHead(3, "hash_3")
    assert team_audit.side_head(db, 2, "bob") == SideHead(2, "hash_2")
    assert team_audit.side_head(db, 1, "bob") == SideHead()


def test_documents_are_let_go_of_up_to_a_number_within_a_tenant(db: sqlite3.Connection) -> None:
    team_audit.write(db, entries(3) + entries(3, tenant=2))

    team_audit.trim(db, 1, 2)

    assert [one.document for one in read_page(db, 1, AuditQuery())] == [b"", b"", b'{"n":1}']
    assert [one.document for one in read_page(db, 2, AuditQuery())] == [b'{"n":1}'] * 3


def test_what_is_spent_is_kept_until_its_time_is_over(db: sqlite3.Connection) -> None:
    team_audit.write_budgets(db, {("t", "key", "2026-01"): 3, ("t", "key", ""): 1})
    team_audit.write_budgets(db, {("t", "key", "2026-01"): 4})
    assert team_audit.spent(db, ("t", "key", "2026-01")) == 4

    team_audit.drop_budgets(db, "2026-02")

    assert [team_audit.spent(db, ("t", "key", window)) for window in ("2026-01", "")] == [0, 1]


@pytest.mark.parametrize("query", [AuditQuery(exchange_id="exch_1"), AuditQuery(entry_id="aud_1")])
def test_what_is_asked_for_most_is_found_by_an_index(db: sqlite3.Connection, query: AuditQuery) -> None:
    asked: list[str] = []
    db.set_trace_callback(asked.append)
    read_page(db, 1, query)
    db.set_trace_callback(None)

    plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {asked[-1]}"))

    assert "USING INDEX audit_" in plan
