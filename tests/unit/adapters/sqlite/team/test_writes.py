"""A transaction in the file: what belongs together goes into few statements, and everything is there afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team import writer as team_writer
from parley.adapters.sqlite.team import writes as team_acts
from parley.adapters.sqlite.team.cache import StoreCache
from parley.adapters.sqlite.team.source import SqliteSource
from parley.domain.channel.post import Receipt
from parley.domain.store.changes import ErasableMessage, TeamChanges
from parley.domain.store.transaction import Transaction
from tests.contract.team_store import AT, T1, a_channel, a_post, a_request, a_use, an_answer, an_entry, an_event
from tests.rigs.team import kinds


class Desk:
    """A file with a channel, `chan_1`, and the statements that were made."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.statements: list[str] = []
        self.write(TeamChanges(T1, puts=(a_channel(),)))
        db.set_trace_callback(self.statements.append)

    def write(self, *batch: TeamChanges) -> None:
        done = Transaction(SqliteSource(self.db, StoreCache(kinds())), team_writer.ENCODERS)
        for changes in batch:
            done.take(changes)
        done.writes += done.evicted()
        self.statements.clear()
        team_acts.write(self.db, done)

    def ran(self, start: str) -> int:
        return sum(one.startswith(start) for one in self.statements)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return self.db.execute(query).fetchall()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    path = str(tmp_path / "team.db")
    db = team_file.connect(path, writes=True, durable=False)
    team_file.migrate(db, path)
    yield Desk(db)
    db.close()


def test_many_messages_events_and_keys_go_into_few_statements(desk: Desk) -> None:
    desk.write(
        *[
            TeamChanges(T1, (a_post(f"msg_{n}"),), events=(an_event(f"evt_{n}"),), saved=a_use(f"s{n}"))
            for n in range(100)
        ]
    )

    assert [desk.ran(f"INSERT INTO {table}") for table in ("post", "event")] == [2, 2]
    assert (desk.ran("INSERT INTO saved"), desk.ran("UPDATE tally"), desk.ran("UPDATE tenant")) == (2, 1, 1)
    counted = "SELECT (SELECT COUNT(*) FROM post), (SELECT COUNT(*) FROM event), (SELECT COUNT(*) FROM saved)"
    assert desk.rows(counted) == [(100, 100, 100)]
    assert desk.rows("SELECT head FROM tenant") == [(200,)]
    assert desk.rows("SELECT count, seq, last_at, floor FROM tally") == [(100, 100, AT, 0)]


def test_a_commit_of_nothing_writes_nothing(desk: Desk) -> None:
    desk.write(TeamChanges(T1))

    assert desk.statements == []


def test_a_request_and_its_answer_may_come_in_one_transaction(desk: Desk) -> None:
    desk.write(TeamChanges(T1, (a_request("msg_1"),)), TeamChanges(T1, (an_answer("msg_2", "msg_1"),)))

    assert desk.rows("SELECT id, answered FROM post ORDER BY seq") == [("msg_1", 1), ("msg_2", 0)]


def test_a_channel_that_goes_and_comes_again_has_the_counters_of_the_new_one(desk: Desk) -> None:
    desk.write(TeamChanges(T1, (a_post("msg_1"),)))

    desk.write(TeamChanges(T1, drops=(a_channel(version=1),)), TeamChanges(T1, (a_post("msg_2"),), puts=(a_channel(),)))

    assert desk.rows("SELECT number, id, count, seq FROM tally") == [(2, "chan_1", 1, 1)]
    assert desk.rows("SELECT id, channel, seq FROM post ORDER BY number") == [("msg_1", 1, 1), ("msg_2", 2, 1)]


def test_a_channel_that_comes_and_goes_leaves_no_counters(desk: Desk) -> None:
    made = a_channel("chan_2")

    desk.write(TeamChanges(T1, puts=(made,)), TeamChanges(T1, drops=(a_channel("chan_2", version=1),)))

    assert desk.rows("SELECT id FROM tally") == [("chan_1",)]
    assert desk.rows("SELECT id FROM record") == [("chan_1",)]


def test_a_purge_leaves_nothing_that_was_said_or_read(desk: Desk) -> None:
    desk.write(TeamChanges(T1, (a_post("msg_1"), a_post("msg_2")), receipts=(Receipt("msg_1", "bob", AT),)))

    desk.write(TeamChanges(T1, receipts=(Receipt("msg_2", "bob", AT),), purges=("chan_1",)))

    assert desk.rows("SELECT id FROM post UNION ALL SELECT post_id FROM receipt") == []
    assert desk.rows("SELECT count, seq, floor FROM tally") == [(2, 2, 2)]


def test_what_is_blanked_is_what_was_named_and_the_answers_that_tell_of_it(desk: Desk) -> None:
    for name in ("msg_1", "msg_2", "msg_3"):
        told = a_use(f"of {name}", message_id=name, status=201, answer=b"hello")
        desk.write(TeamChanges(T1, (a_post(name),), saved=told))

    desk.write(TeamChanges(T1, erase=(ErasableMessage("msg_1", ("of msg_1", "of msg_3")), ErasableMessage("msg_2"))))

    assert desk.rows("SELECT id FROM post WHERE payload = CAST('{}' AS BLOB)") == [("msg_1",), ("msg_2",)]
    assert desk.rows("SELECT scope FROM saved WHERE answer = x'' ORDER BY 1") == [("of msg_1",), ("of msg_3",)]


def test_the_ledger_is_written_in_its_order(desk: Desk) -> None:
    desk.write(*[TeamChanges(T1, entries=(an_entry(f"a{n}"), an_entry(f"b{n}"))) for n in range(40)])

    assert desk.rows("SELECT position FROM entry") == [(n,) for n in range(1, 81)]
