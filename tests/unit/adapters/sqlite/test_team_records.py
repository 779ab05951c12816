"""Records of one transaction: asked for once, written once, and each name with one holder all the while."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from parley.adapters.sqlite import team_file
from parley.adapters.sqlite.team_records import RecordWriter
from parley.domain.channel import Channel
from parley.domain.record import Record
from parley.domain.team_changes import TeamChanges
from parley.domain.team_errors import NameTaken
from tests.contract.team_store import T1, T2, a_channel, an_intent


class Desk:
    """A record writer in a transaction on its own file, and the statements that it made."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.records = RecordWriter(db)
        self.statements: list[str] = []
        db.execute("BEGIN IMMEDIATE")
        db.set_trace_callback(self.statements.append)

    def put(self, record: Record, before: Record | None = None) -> Record:
        self.records.check_name(record, before)
        return self.records.put(record, before)

    def rows(self, columns: str = "id, version, name") -> list[tuple[object, ...]]:
        return self.db.execute(f"SELECT {columns} FROM record ORDER BY kind, id").fetchall()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    path = str(tmp_path / "team.db")
    db = team_file.connect(path, writes=True, durable=False)
    team_file.migrate(db, path)
    yield Desk(db)
    db.close()


def named(number: int, label: str = "") -> Channel:
    return a_channel(f"chan_{number}", label=label or f"label-{number}")


def test_records_are_written_when_the_transaction_ends_with_one_statement(desk: Desk) -> None:
    for number in range(50):
        desk.put(named(number))
    assert desk.rows() == []
    desk.statements.clear()

    desk.records.flush()

    assert len(desk.statements) == 1
    assert len(desk.rows()) == 50


def test_more_than_fit_into_a_statement_are_all_written(desk: Desk) -> None:
    for number in range(150):
        desk.put(named(number))

    desk.records.flush()

    assert len(desk.rows()) == 150


def test_what_is_kept_is_one_version_further(desk: Desk) -> None:
    first = desk.put(named(1))
    desk.records.flush()

    second = desk.put(first, first)
    desk.records.flush()

    assert (first.version, second.version) == (1, 2)
    assert desk.rows() == [("chan_1", 2, "label-1")]


def test_what_stays_in_its_place_touches_no_index(desk: Desk) -> None:
    kept = desk.put(named(1))
    desk.records.flush()
    assert isinstance(kept, Channel)
    desk.statements.clear()

    desk.put(replace(kept, created_by="bob"), kept)
    desk.records.flush()

    assert len(desk.statements) == 1
    assert "parent = excluded.parent" not in desk.statements[0]
    assert desk.rows("json_extract(CAST(document AS TEXT), '$.created_by')") == [("bob",)]


def test_a_record_that_is_put_twice_in_a_transaction_is_kept_as_it_was_last(desk: Desk) -> None:
    first = desk.put(named(1))
    assert isinstance(first, Channel)
    second = desk.put(replace(first, label="other"), first)
    assert isinstance(second, Channel)
    third = desk.put(replace(second, created_by="bob"), second)

    desk.records.flush()

    assert third.version == 3
    assert desk.rows() == [("chan_1", 3, "other")]


def test_a_name_that_was_taken_in_this_transaction_is_taken(desk: Desk) -> None:
    desk.put(named(1, "hall"))

    with pytest.raises(NameTaken) as refusal:
        desk.put(named(2, "hall"))

    assert refusal.value.facts == {"channel_id": "chan_1"}


def test_a_name_that_is_in_the_file_is_taken(desk: Desk) -> None:
    desk.put(named(1, "hall"))
    desk.records.flush()
    desk.records.clear()

    with pytest.raises(NameTaken):
        desk.put(named(2, "hall"))


def test_a_name_that_was_let_go_in_this_transaction_is_free(desk: Desk) -> None:
    kept = desk.put(named(1, "hall"))
    desk.records.flush()
    desk.records.clear()
    assert isinstance(kept, Channel)

    desk.put(replace(kept, label="old-hall"), kept)
    desk.put(named(2, "hall"))
    desk.records.flush()

    assert desk.rows() == [("chan_1", 2, "old-hall"), ("chan_2", 1, "hall")]


def test_two_records_can_change_names_in_one_transaction(desk: Desk) -> None:
    one, other = desk.put(named(1, "east")), desk.put(named(2, "west"))
    desk.records.flush()
    assert isinstance(one, Channel)
    assert isinstance(other, Channel)

    aside = desk.put(replace(one, label="aside"), one)
    desk.put(replace(other, label="east"), other)
    assert isinstance(aside, Channel)
    desk.put(replace(aside, label="west"), aside)
    desk.records.flush()

    assert desk.rows("id, name") == [("chan_1", "west"), ("chan_2", "east")]


def test_a_name_of_a_record_that_was_dropped_is_free(desk: Desk) -> None:
    kept = desk.put(named(1, "hall"))

    desk.records.drop(kept, kept)
    desk.put(named(2, "hall"))
    desk.records.flush()

    assert desk.rows("id") == [("chan_2",)]


def test_after_a_transaction_that_was_taken_back_nothing_of_it_is_known(desk: Desk) -> None:
    desk.put(named(1, "hall"))
    desk.db.execute("ROLLBACK")
    desk.records.clear()
    desk.db.execute("BEGIN IMMEDIATE")

    desk.put(named(2, "hall"))
    desk.records.flush()

    assert desk.rows("id") == [("chan_2",)]


# ---------------------------------------------------------------- looking ahead


def batch(*records: Record) -> list[TeamChanges]:
    return [TeamChanges(one.tenant_id, puts=(one,)) for one in records]


def test_looking_ahead_tells_which_new_records_are_not_there(desk: Desk) -> None:
    desk.put(named(1))
    desk.records.flush()
    desk.records.clear()

    absent = desk.records.look_ahead(batch(named(1), named(2), an_intent()), lambda _: False)

    assert absent == {(T1, "channel", "chan_2"), (T1, "intent", "intent_1")}


def test_looking_ahead_asks_for_all_at_once_and_for_nothing_that_is_known(desk: Desk) -> None:
    many = batch(*[named(number) for number in range(60)])
    desk.statements.clear()

    absent = desk.records.look_ahead(many, lambda key: key[2] == "chan_7")
    for changes in many:
        desk.records.check_name(changes.puts[0], None)

    assert len(absent) == 59
    assert len(desk.statements) == 2


def test_looking_ahead_finds_names_that_are_taken(desk: Desk) -> None:
    desk.put(named(1, "hall"))
    desk.records.flush()
    desk.records.clear()

    desk.records.look_ahead(batch(named(2, "hall"), named(3)), lambda _: False)

    with pytest.raises(NameTaken):
        desk.records.check_name(named(2, "hall"), None)
    desk.records.check_name(named(3), None)


def test_the_names_of_one_tenant_are_free_in_another(desk: Desk) -> None:
    desk.put(named(1, "hall"))
    elsewhere = a_channel("chan_9", T2, label="hall")

    desk.records.look_ahead(batch(elsewhere, named(2)), lambda _: False)

    desk.put(elsewhere)
    desk.records.flush()
    assert len(desk.rows()) == 2


def test_of_a_single_new_record_nothing_is_asked_ahead(desk: Desk) -> None:
    desk.statements.clear()

    assert desk.records.look_ahead(batch(named(1)), lambda _: False) == set()
    assert desk.statements == []
