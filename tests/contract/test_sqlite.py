"""The SQLite store keeps the contract, also when several processes write at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.adapters.sqlite.ledger.store import SqliteStore
from parley.domain.mailbox.delivery import Status
from parley.domain.mailbox.ledger import StoredEntry
from parley.ports.mailbox import Store
from tests.contract.store import StoreContract, assert_chained

WRITERS, COMMITS = 4, 25

# Each writer has its own store on the same file. Every third commit carries two entries, every fifth is refused.
WRITER = """
import sys
from parley.adapters.sqlite.ledger.store import SqliteStore
from parley.domain.mailbox.ledger import MailboxChanges, Entry, ExpectDelivery
from parley.domain.mailbox.delivery import DeliveryKey, Status
from parley.domain.errors.errors import Stale

path, name, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])

def run(verb):
    try:
        verb.send(None)
    except StopIteration as end:
        return end.value

print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(path)
for number in range(commits):
    entries = [Entry(f"{name}.{number}", "", name, "", "") for _ in range(2 if number % 3 == 0 else 1)]
    if number % 5 == 0:
        try:
            missing = ExpectDelivery(DeliveryKey("x", "y", "z"), Status.DONE)
            run(store.commit(MailboxChanges(entries=tuple(entries), expects=(missing,))))
        except Stale:
            pass
    last = run(store.commit(MailboxChanges(entries=tuple(entries), durable=number % 2 == 0)))
    mine = run(store.entries(last - len(entries), len(entries)))
    assert [one.entry.action for one in mine] == [f"{name}.{number}"] * len(entries)
store.close()
"""


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self.path = str(tmp_path / "ledger.db")
        self.made: list[SqliteStore] = []
        yield
        for store in self.made:
            store.close()

    def make_store(self) -> Store:
        self.made.append(SqliteStore(self.path))
        return self.made[-1]

    def test_a_second_store_on_the_file_sees_what_the_first_wrote(self, store: Store) -> None:
        self.commit(store, entries=())
        other = self.make_store()

        assert self.run(other.deliveries(*Status)) == ()
        assert self.everything(other) == self.everything(store)

    def test_a_reader_between_racing_processes_never_skips_an_entry(self, store: Store) -> None:
        writers = [self._writer(name) for name in "abcd"[:WRITERS]]
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()

        read: list[StoredEntry] = []
        while any(writer.poll() is None for writer in writers):
            read += self.run(store.entries(len(read), 7))
        while page := self.run(store.entries(len(read), 7)):
            read += page

        assert [writer.communicate()[1] for writer in writers] == [""] * WRITERS
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        assert_chained(tuple(read))
        for name in "abcd"[:WRITERS]:
            mine = [one.entry.action for one in read if one.entry.agent == name]
            assert mine == [f"{name}.{n}" for n in range(COMMITS) for _ in range(2 if n % 3 == 0 else 1)]

    def _writer(self, name: str) -> subprocess.Popen[str]:
        """A writer process that has started and waits for the word."""
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, self.path, name, str(COMMITS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        return writer
