"""Records of one transaction: asked for once, written once, and each name with one holder all the while."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team import records as team_records
from parley.domain.channel.channel import Channel
from parley.domain.record import Record
from parley.domain.store.source import RecordKey, name_key
from tests.contract.team_store import T1, T2, a_channel, an_intent


def key_of(record: Record) -> RecordKey:
    return record.tenant_id, record.kind, record.id


class Desk:
    """A file with records in it, and the statements that were made."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.statements: list[str] = []
        self.kept: dict[RecordKey, Record | None] = {}
        db.set_trace_callback(self.statements.append)

    def write(self, *records: Record, drops: tuple[Record, ...] = ()) -> None:
        """One transaction."""
        after: dict[RecordKey, Record | None] = {key_of(one): None for one in drops}
        after.update({key_of(one): one for one in records})
        self.statements.clear()
        team_records.write(self.db, after, {key: self.kept.get(key) for key in after})
        self.kept.update(after)

    def rows(self, columns: str = "id, version, name") -> list[tuple[object, ...]]:
        return self.db.execute(f"SELECT {columns} FROM record ORDER BY kind, id").fetchall()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    path = str(tmp_path / "team.db")
    db = team_file.connect(path, writes=True, durable=False)
    team_file.migrate(db, path)
    yield Desk(db)
    db.close()


def named(number: int, label: str = "", version: int = 1) -> Channel:
    return a_channel(f"chan_{number}", label=label or f"label-{number}", version=version)


def test_records_are_written_when_the_transaction_ends_with_one_statement(desk: Desk) -> None:
    desk.write(*[named(number) for number in range(50)])

    assert len(desk.statements) == 1
    assert len(desk.rows()) == 50


def test_more_than_fit_into_a_statement_are_all_written(desk: Desk) -> None:
    desk.write(*[named(number) for number in range(150)])

    assert len(desk.rows()) == 150


def test_what_stays_in_its_place_touches_no_index(desk: Desk) -> None:
    desk.write(named(1))

    desk.write(replace(named(1, version=2), created_by="bob"))

    assert len(desk.statements) == 1
    assert "parent = excluded.parent" not in desk.statements[0]
    assert desk.rows("version, json_extract(CAST(document AS TEXT), '$.created_by')") == [(2, "bob")]


def test_what_changes_only_its_time_does_not_let_go_of_its_name(desk: Desk) -> None:
    desk.write(named(1))

    desk.write(replace(named(1, version=2), expires="2026"))

    assert len(desk.statements) == 1
    assert desk.rows("name, due") == [("label-1", "2026")]


def test_a_name_that_was_let_go_in_this_transaction_is_free(desk: Desk) -> None:
    desk.write(named(1, "hall"))

    # The one that takes it comes first.
    desk.write(named(2, "hall"), named(1, "old-hall", version=2))

    assert desk.rows() == [("chan_1", 2, "old-hall"), ("chan_2", 1, "hall")]


def test_two_records_can_change_names_in_one_transaction(desk: Desk) -> None:
    desk.write(named(1, "east"), named(2, "west"))

    desk.write(named(1, "west", version=3), named(2, "east", version=2))

    assert desk.rows() == [("chan_1", 3, "west"), ("chan_2", 2, "east")]


def test_names_can_go_round_in_a_ring(desk: Desk) -> None:
    desk.write(*[named(n) for n in range(100)])

    desk.write(*[named(n, f"label-{(n + 1) % 100}", version=2) for n in range(100)])

    assert desk.rows("id, name") == sorted((f"chan_{n}", f"label-{(n + 1) % 100}") for n in range(100))


def test_a_name_of_a_record_that_was_dropped_is_free(desk: Desk) -> None:
    desk.write(named(1, "hall"))

    desk.write(named(2, "hall"), drops=(named(1, "hall"),))

    assert desk.rows("id") == [("chan_2",)]


def test_a_record_that_came_and_went_in_one_transaction_was_never_there(desk: Desk) -> None:
    desk.write(drops=(named(1),))

    assert desk.rows() == []


def test_a_record_that_went_and_came_again_is_the_new_one(desk: Desk) -> None:
    desk.write(named(1, "hall", version=4))

    desk.write(named(1, "yard"))

    assert desk.rows() == [("chan_1", 1, "yard")]


# ---------------------------------------------------------------- looking ahead


def test_which_records_are_there_is_found_with_one_statement(desk: Desk) -> None:
    desk.write(named(1), an_intent(version=1))
    wanted = [key_of(one) for one in (named(1), named(2), an_intent(), an_intent(tenant=T2))]
    desk.statements.clear()

    found = team_records.present(desk.db, wanted)

    assert found == {(T1, "channel", "chan_1"), (T1, "intent", "intent_1")}
    assert len(desk.statements) == 1


def test_who_has_which_name_is_found_with_one_statement(desk: Desk) -> None:
    desk.write(named(1, "hall"), an_intent(version=1))
    wanted = [name_key(one) for one in (named(2, "hall"), named(3), a_channel("chan_9", T2, label="hall"))]
    desk.statements.clear()

    found = team_records.holders(desk.db, wanted)

    assert found == {(T1, "channel", "intent_1", "hall"): "chan_1"}
    assert len(desk.statements) == 1


def test_more_than_fit_into_a_question_are_all_found(desk: Desk) -> None:
    many = [named(number) for number in range(150)]
    desk.write(*many)

    assert len(team_records.present(desk.db, [key_of(one) for one in many])) == 150
    assert len(team_records.holders(desk.db, [name_key(one) for one in many])) == 150
