"""What the rules ask the file: once, and of new records for all at once."""

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
from parley.domain.audit.entry import AuditDraft, SideHead
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import PostState
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import NameTaken
from parley.domain.record import Record
from parley.domain.store.changes import ErasableMessage, Spend, TeamChanges
from parley.domain.store.source import FREE, name_key
from parley.domain.store.transaction import Transaction
from tests.contract.team_store import AT, T1, T2, a_channel, a_post, a_use, an_event, an_intent
from tests.rigs.team import kinds


class Desk:
    """A file, what is known of it, and the statements that were made."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.known = StoreCache(kinds())
        self.statements: list[str] = []
        db.set_trace_callback(self.statements.append)

    def source(self) -> SqliteSource:
        return SqliteSource(self.db, self.known)

    def commit(self, *batch: TeamChanges) -> None:
        """One transaction, of which nothing is known: as if the file had just been opened."""
        self.known = StoreCache(kinds())
        self.db.execute("BEGIN IMMEDIATE")
        done = Transaction(self.source(), team_writer.ENCODERS)
        for changes in batch:
            done.take(changes)
        team_acts.write(self.db, done)
        self.db.execute("COMMIT")
        self.known = StoreCache(kinds())
        self.statements.clear()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    path = str(tmp_path / "team.db")
    db = team_file.connect(path, writes=True, durable=False)
    team_file.migrate(db, path)
    yield Desk(db)
    db.close()


def named(number: int, label: str = "") -> Channel:
    return a_channel(f"chan_{number}", label=label or f"label-{number}")


def batch(*records: Record) -> list[TeamChanges]:
    return [TeamChanges(one.tenant_id, puts=(one,)) for one in records]


def test_what_was_asked_for_is_known_from_then_on(desk: Desk) -> None:
    fact = AuditDraft("aud_1", "alice", AT, "a", "x", {})
    desk.commit(TeamChanges(T1, (a_post(),), puts=(a_channel(),), audits=(fact,), spends=(Spend("key", 5),)))
    source = desk.source()
    counters = source.counters(T1, "chan_1")
    assert counters is not None

    for _ in range(2):
        assert source.record((T1, "channel", "chan_1")) is not None
        assert source.record((T1, "channel", "chan_2")) is None
        assert source.counters(T1, "chan_1") == counters
        assert source.head(T1).position == 1
        assert source.side((T1, "alice")).seq == 1
        assert source.side((T1, "bob")) == SideHead()
        assert source.spent((T1, "key", "")) == 1
        assert source.spent((T1, "other", "")) == 0
        source = desk.source()

    assert (counters.intent_id, counters.seq, counters.tally.total) == ("intent_1", 1, 1)
    assert len(desk.statements) == 8


def test_of_a_tenant_that_is_new_nothing_is_known_before_it_is_durable(desk: Desk) -> None:
    desk.db.execute("BEGIN IMMEDIATE")
    source = desk.source()
    head = source.head(T1)
    assert source.head(T1) == head == source.new_heads[T1]
    desk.db.execute("ROLLBACK")

    assert desk.known.heads == {}
    assert desk.db.execute("SELECT COUNT(*) FROM tenant").fetchone() == (0,)


def test_what_is_another_tenants_is_not_there(desk: Desk) -> None:
    waiting = a_post(to="role:r", recipients=(), state=PostState.PENDING)
    desk.commit(TeamChanges(T1, (waiting,), puts=(a_channel(),)), TeamChanges(T2))

    source = desk.source()

    assert source.pending(T1, "msg_1") == waiting._replace(position=1, seq=1)
    assert source.pending(T2, "msg_1") is None
    assert source.counters(T2, "chan_1") is None
    assert source.record((T2, "channel", "chan_1")) is None
    assert source.unerased(T1, (ErasableMessage("msg_1"),)) == 1
    assert source.unerased(T2, (ErasableMessage("msg_1"),)) == 0


def test_the_end_of_a_log_and_the_use_of_a_key_are_found(desk: Desk) -> None:
    desk.commit(TeamChanges(T1, events=(an_event("evt_1"), an_event("evt_2")), saved=a_use("s1")))

    source = desk.source()

    sequence, hashed = source.log_end(T1, "intent_1")
    assert (sequence, hashed[:7]) == (2, "sha256:")
    assert source.log_end(T1, "intent_2") == (0, "")
    assert (source.is_saved(T1, "s1"), source.is_saved(T1, "s2")) == (True, False)


# ---------------------------------------------------------------- numbers of channels


def test_channels_are_numbered_one_by_one_and_no_number_comes_back(desk: Desk) -> None:
    assert [desk.source().new_channel() for _ in range(3)] == [1, 2, 3]
    desk.commit(TeamChanges(T1, puts=(named(1), named(2))))
    assert desk.source().new_channel() == 3
    assert desk.source().new_channel() == 4


def test_a_number_that_messages_still_have_is_not_given_again(desk: Desk) -> None:
    desk.commit(TeamChanges(T1, (a_post(channel_id="chan_2"),), puts=(named(1), named(2))))
    desk.db.execute("DELETE FROM tally WHERE id = 'chan_2'")

    assert desk.source().new_channel() == 3


def test_the_number_of_a_channel_is_free_when_nothing_of_it_is_left(desk: Desk) -> None:
    desk.commit(TeamChanges(T1, (a_post(channel_id="chan_2"),), puts=(named(1), named(2))))
    found = desk.source().record((T1, "channel", "chan_2"))
    assert found is not None
    desk.commit(TeamChanges(T1, drops=(found,), purges=("chan_2",)))

    assert desk.source().new_channel() == 2
    assert desk.db.execute("SELECT COUNT(*) FROM post").fetchone() == (0,)


# ---------------------------------------------------------------- looking ahead


def test_looking_ahead_tells_which_new_records_are_not_there(desk: Desk) -> None:
    desk.commit(*batch(named(1)))

    desk.source().preload(batch(named(1), named(2), an_intent()))

    assert desk.known.records == {(T1, "channel", "chan_2"): None, (T1, "intent", "intent_1"): None}


def test_looking_ahead_asks_for_all_at_once_and_for_nothing_that_is_known(desk: Desk) -> None:
    many = [named(number) for number in range(60)]
    desk.known.records[T1, "channel", "chan_7"] = many[7]
    source = desk.source()

    source.preload(batch(*many))
    holders = {source.holder(name_key(one)) for one in many}
    absent = [one for one in many if source.record((T1, "channel", one.id)) is None]

    assert holders == {FREE}
    assert len(absent) == 59
    assert len(desk.statements) == 2


def test_looking_ahead_finds_names_that_are_taken(desk: Desk) -> None:
    desk.commit(*batch(named(1, "hall")))
    source = desk.source()

    source.preload(batch(named(2, "hall"), named(3), a_channel("chan_9", T2, label="hall")))

    assert source.holder((T1, "channel", "intent_1", "hall")) == "chan_1"
    assert source.holder((T1, "channel", "intent_1", "label-3")) == FREE
    assert source.holder((T2, "channel", "intent_1", "hall")) == FREE


def test_looking_ahead_finds_the_used_keys_of_a_group_at_once(desk: Desk) -> None:
    desk.commit(TeamChanges(T1, saved=a_use("s3")))
    source = desk.source()
    desk.statements.clear()

    source.preload([TeamChanges(T1, saved=a_use(f"s{n}")) for n in range(100)])

    assert [n for n in range(100) if source.is_saved(T1, f"s{n}")] == [3]
    assert len(desk.statements) == 2


def test_of_a_single_new_record_nothing_is_asked_ahead(desk: Desk) -> None:
    source = desk.source()

    source.preload(batch(named(1)))

    assert desk.statements == []
    assert source.holder(name_key(named(1))) == FREE
    assert source.holder(name_key(named(1))) == FREE
    assert len(desk.statements) == 1


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (TeamChanges(T1, puts=(a_channel("chan_2", label="chan_1"),)), NameTaken),
        (TeamChanges(T1, spends=(Spend("key", 1),)), Overspent),
        (TeamChanges(T1, erase=(ErasableMessage("msg_9"),)), NotFound),
    ],
)
def test_what_is_in_the_file_refuses_what_it_must(desk: Desk, changes: TeamChanges, refusal: type[Exception]) -> None:
    desk.commit(TeamChanges(T1, puts=(a_channel(),), spends=(Spend("key", 1),)))

    with pytest.raises(refusal):
        Transaction(desk.source(), team_writer.ENCODERS).take(changes)
