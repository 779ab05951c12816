"""The store in one SQLite file: WAL, synchronous=FULL, one transaction a commit."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from parley.adapters.sqlite.file import quote_path, split_statements, sqlite_errors
from parley.adapters.sqlite.ledger import rows
from parley.domain.errors.errors import Duplicate, NewerSchema, Stale
from parley.domain.hashes import chained
from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Status
from parley.domain.mailbox.ledger import (
    GENESIS,
    Entry,
    ExpectDelivery,
    MailboxChanges,
    StoredEntry,
    StoredMessage,
    canonical,
)
from parley.domain.message.message import search_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeVar

    from parley.domain.audit.entry import AuditEntry
    from parley.domain.record import Record

    R = TypeVar("R", bound=Record)

# The scripts that lead from each version to the next.
_SCRIPTS = ("schema.sql", "schema_2.sql")
SCHEMA_VERSION = len(_SCRIPTS)
_BUSY_SECONDS = 30.0
_SETUP_TRIES = 50
# A small log: the next command reads all of it when the last one did not checkpoint.
_SETUP = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA fullfsync=ON; PRAGMA trusted_schema=OFF;"
    "PRAGMA wal_autocheckpoint=200"
)


# Prefix, version of the data and number of conversations as they were last counted.
_NOT_COUNTED = ("", -1, 0)


class SqliteStore:
    """A ledger in a file. Any number of processes may open it; SQLite lets one write at a time.

    With `read_only` it is read without leaving a trace: as it is now, so such a store is closed again soon.
    """

    def __init__(self, path: str, *, create: bool = True, read_only: bool = False) -> None:
        self._path = path
        self._last_count = _NOT_COUNTED
        with sqlite_errors(path):
            if read_only:
                # Without a log nobody is writing, and SQLite need not create one to read.
                self._open("mode=ro" if _has_log(path) else "mode=ro&immutable=1")
                return
            if create and not os.path.exists(path):
                # Made by us and empty, so that the file never exists with a looser mode.
                os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            try:
                self._open("mode=rw")
            except sqlite3.OperationalError as error:
                # SQLite needs its log and the index of it even to read, and cannot create them here.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or _has_log(path):
                    raise
                self._open("mode=ro&immutable=1")

    def _open(self, mode: str) -> None:
        """Open the file. What only reads it sees it as it is now, and can commit nothing."""
        self._db = sqlite3.connect(
            f"file:{quote_path(self._path)}?{mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if mode == "mode=rw":
                self._set_up()
            self._migrate()
        except BaseException:
            self._db.close()
            raise

    def _set_up(self) -> None:
        """Choose the journal. Where several processes switch a new file to WAL at once SQLite gives up at once instead
        of waiting, so the one that loses waits until no other process reads or writes, and tries again.
        """
        for turns_left in reversed(range(_SETUP_TRIES)):
            try:
                self._db.executescript(_SETUP)
            except sqlite3.OperationalError as error:
                if not turns_left or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
            else:
                return
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()

    def _migrate(self) -> None:
        if self._version() == SCHEMA_VERSION:
            return
        with self._transaction():
            version = self._version()  # another process may have been faster
            if version > SCHEMA_VERSION:
                raise NewerSchema(
                    f"{self._path} has schema {version}, this Parley knows {SCHEMA_VERSION}",
                    hint="upgrade Parley",
                )
            for script in _SCRIPTS[version:]:
                for statement in split_statements(_read_schema(script)):
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    async def commit(self, changes: MailboxChanges) -> int:
        with sqlite_errors(self._path):
            if not changes.durable:
                self._db.execute("PRAGMA synchronous=NORMAL")
            try:
                with self._transaction():
                    position = self._write(changes)
                self._update_count(changes)
                return position
            finally:
                if not changes.durable:
                    self._db.execute("PRAGMA synchronous=FULL")

    def _write(self, changes: MailboxChanges) -> int:
        for expect in changes.expects:
            self._check(expect)
        if changes.new_conversation:
            # The second condition is that of the index, without which SQLite reads every message.
            query = "SELECT 1 FROM message WHERE conversation_id = ? AND conversation_id <> '' LIMIT 1"
            if self._db.execute(query, (changes.new_conversation,)).fetchone():
                raise Stale(f"the conversation {changes.new_conversation} exists already")
        if changes.new_file:
            query = "SELECT 1 FROM delivery WHERE file = ? LIMIT 1"
            if self._db.execute(query, (changes.new_file,)).fetchone():
                raise Stale(f"the file name {changes.new_file} is used already")
        if changes.puts or changes.audits:
            self._govern(changes)
        for stored_message in changes.messages:
            self._insert_message(stored_message)
        for delivery in changes.deliveries:
            self._put_delivery(delivery)
        if changes.watched:
            self._db.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", changes.watched)
        if changes.unwatched:
            self._db.executemany("DELETE FROM seen WHERE watcher = ? AND file = ?", changes.unwatched)
        return self._append(changes.entries)

    def _govern(self, changes: MailboxChanges) -> None:
        from parley.adapters.sqlite.ledger import records as mail_records

        mail_records.check_versions(self._db, changes.puts)
        mail_records.put_records(self._db, changes.puts)
        mail_records.append_audits(self._db, changes.tenant, changes.audits)

    def _check(self, expect: ExpectDelivery) -> None:
        query = "SELECT status, lease FROM delivery WHERE message_id = ? AND digest = ? AND recipient = ?"
        status, document = self._db.execute(query, expect.key).fetchone() or (None, None)
        lease = rows.lease_from_row(document)
        if (status, lease.token if lease else None) != (expect.status, expect.token):
            raise Stale(f"{expect.key.message_id} has changed meanwhile")

    def _insert_message(self, stored_message: StoredMessage) -> None:
        message = stored_message.message
        if stored_message.minted:
            query = "SELECT 1 FROM message WHERE id = ? AND sender = ? AND digest <> ?"
            if self._db.execute(query, (message.id, message.sender, stored_message.digest)).fetchone():
                raise Duplicate(f"the id {message.id} is taken by another message")
        self._db.execute(
            "INSERT OR IGNORE INTO message (id, digest, sender, conversation_id, document, search, content)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                message.id,
                stored_message.digest,
                message.sender,
                message.conversation_id,
                rows.message_to_row(message),
                search_text(message),
                stored_message.content,
            ),
        )

    def _put_delivery(self, delivery: Delivery) -> None:
        key, file = delivery.key, delivery.file
        state = (delivery.status.value, delivery.tries, rows.lease_to_row(delivery.lease), delivery.reason)
        if delivery.status is not Status.PENDING and self._db.execute(_CHANGE_STATE, (*state, *key, file)).rowcount:
            return
        self._db.execute(_PUT, (*key, file, *state))

    def _append(self, entries: tuple[Entry, ...]) -> int:
        last = self._db.execute("SELECT position, link FROM entry ORDER BY position DESC LIMIT 1").fetchone()
        position, link = last if last else (0, GENESIS)
        for entry in entries:
            position += 1
            document = canonical(position, entry)
            link = chained(link, document)
            self._db.execute("INSERT INTO entry VALUES (?, ?, ?)", (position, document.decode(), link))
        return int(position)

    async def delivery(self, key: DeliveryKey) -> Delivery | None:
        with sqlite_errors(self._path):
            return self._delivery(key)

    def _delivery(self, key: DeliveryKey) -> Delivery | None:
        query = f"SELECT {_DELIVERY} FROM delivery WHERE message_id = ? AND digest = ? AND recipient = ?"
        row = self._db.execute(query, key).fetchone()
        return _to_delivery(row) if row else None

    async def deliveries(self, *statuses: Status) -> tuple[Delivery, ...]:
        with sqlite_errors(self._path):
            delivery_rows = self._db.execute(_query_for(statuses), [status.value for status in statuses]).fetchall()
        return tuple(map(_to_delivery, delivery_rows))

    async def find_deliveries(self, recipient: str, *names: str) -> tuple[Delivery, ...]:
        marks = ", ".join("?" * len(names))
        query = (
            f"SELECT {_DELIVERY} FROM delivery WHERE recipient = ?"
            f" AND (message_id IN ({marks}) OR file IN ({marks})) ORDER BY number"
        )
        with sqlite_errors(self._path):
            return tuple(_to_delivery(row) for row in self._db.execute(query, (recipient, *names, *names)))

    async def find(self, message_id: str) -> tuple[StoredMessage, ...]:
        return self._fetch_messages("id = ? ORDER BY number", (message_id,))

    async def conversation(self, conversation_id: str) -> tuple[StoredMessage, ...]:
        return self._fetch_messages("conversation_id = ? AND conversation_id <> '' ORDER BY number", (conversation_id,))

    async def count_conversations(self, prefix: str) -> int:
        with sqlite_errors(self._path):
            version = self._db.execute("PRAGMA data_version").fetchone()[0]  # changes when another process writes
            if self._last_count[:2] != (prefix, version):
                query = (
                    "SELECT COUNT(DISTINCT conversation_id) FROM message"
                    " WHERE conversation_id >= ? AND conversation_id < ? AND conversation_id <> ''"
                )
                count = self._db.execute(query, (prefix, prefix + "\U0010ffff")).fetchone()[0]
                self._last_count = (prefix, version, count)
            return self._last_count[2]

    def _update_count(self, changes: MailboxChanges) -> None:
        """Keep the last count right over a commit of our own: a busy sender would count all its day's each time."""
        prefix, version, count = self._last_count
        counted = [
            stored_message
            for stored_message in changes.messages
            if stored_message.message.conversation_id.startswith(prefix)
        ]
        if not counted or self._last_count == _NOT_COUNTED:
            return
        is_new = len(counted) == 1 and counted[0].message.conversation_id == changes.new_conversation
        self._last_count = (prefix, version, count + 1) if is_new else _NOT_COUNTED

    async def search(self, text: str, limit: int) -> tuple[StoredMessage, ...]:
        return self._fetch_messages("instr(search, ?) ORDER BY number DESC LIMIT ?", (text.casefold(), limit))

    def _fetch_messages(self, condition: str, values: tuple[str | int, ...]) -> tuple[StoredMessage, ...]:
        query = f"SELECT document, content, digest FROM message WHERE {condition}"
        with sqlite_errors(self._path):
            message_rows = self._db.execute(query, values).fetchall()
        return tuple(
            StoredMessage(rows.message_from_row(document), content, digest)
            for document, content, digest in message_rows
        )

    async def entries(self, after: int, limit: int) -> tuple[StoredEntry, ...]:
        query = "SELECT position, document, link FROM entry WHERE position > ? ORDER BY position LIMIT ?"
        with sqlite_errors(self._path):
            entry_rows = self._db.execute(query, (after, limit)).fetchall()
        return tuple(StoredEntry(at, rows.entry_from_row(document), link) for at, document, link in entry_rows)

    async def entries_about(self, message_id: str, action: str) -> tuple[StoredEntry, ...]:
        contains = "instr(document, ?) AND instr(document, ?)"
        query = f"SELECT position, document, link FROM entry WHERE {contains} ORDER BY position"
        with sqlite_errors(self._path):
            entry_rows = self._db.execute(query, (rows.json_word(action), rows.json_word(message_id))).fetchall()
        entries = [StoredEntry(at, rows.entry_from_row(document), link) for at, document, link in entry_rows]
        return tuple(e for e in entries if (e.entry.message_id, e.entry.action) == (message_id, action))

    async def replies(self, message_id: str) -> tuple[StoredMessage, ...]:
        # Without an index, which every send would pay for: asked only where the conversation does not tell.
        messages = self._fetch_messages("instr(document, ?) ORDER BY number", (rows.json_word(message_id),))
        return tuple(stored for stored in messages if message_id and stored.message.in_reply_to == message_id)

    async def record(self, kind: type[R], record_id: str) -> R | None:
        from parley.adapters.sqlite.ledger import records as mail_records

        with sqlite_errors(self._path):
            return mail_records.get_record(self._db, kind, record_id)

    async def records(
        self, kind: type[R], parent: str | None = None, *, after: str = "", limit: int = 1_000
    ) -> tuple[R, ...]:
        from parley.adapters.sqlite.ledger import records as mail_records

        with sqlite_errors(self._path):
            return mail_records.list_records(self._db, kind, parent, after, limit)

    async def has_records(self, kind: str, parent: str) -> bool:
        query = "SELECT 1 FROM record WHERE kind = ? AND parent = ? LIMIT 1"
        with sqlite_errors(self._path):
            return self._db.execute(query, (kind, parent)).fetchone() is not None

    async def audits(self, after: int, limit: int) -> tuple[AuditEntry, ...]:
        from parley.adapters.sqlite.ledger import records as mail_records

        with sqlite_errors(self._path):
            return mail_records.list_audits(self._db, after, limit)

    async def seen_files(self, watcher: str) -> frozenset[str]:
        with sqlite_errors(self._path):
            file_rows = self._db.execute("SELECT file FROM seen WHERE watcher = ?", (watcher,)).fetchall()
        return frozenset(file for (file,) in file_rows)


_DELIVERY = "message_id, digest, recipient, file, status, tries, lease, reason"
_PUT = (
    f"INSERT INTO delivery ({_DELIVERY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (message_id, digest, recipient) DO UPDATE SET file = excluded.file, status = excluded.status,"
    " tries = excluded.tries, lease = excluded.lease, reason = excluded.reason"
)


@cache
def _query_for(statuses: tuple[Status, ...]) -> str:
    marks = ", ".join("?" * len(statuses))
    # SQLite uses a partial index only where its condition stands word by word.
    still_open = "" if set(statuses) - {Status.PENDING, Status.CLAIMED} else "status IN ('pending', 'claimed') AND "
    return f"SELECT {_DELIVERY} FROM delivery WHERE {still_open}status IN ({marks}) ORDER BY number"


# The usual change leaves the file's name, and with it two of the indexes, alone.
_CHANGE_STATE = (
    "UPDATE delivery SET status = ?, tries = ?, lease = ?, reason = ?"
    " WHERE message_id = ? AND digest = ? AND recipient = ? AND file = ?"
)


def _to_delivery(row: tuple[str, str, str, str, str, int, str | None, str]) -> Delivery:
    message_id, digest, recipient, file, status, tries, lease, reason = row
    key = DeliveryKey(message_id, digest, recipient)
    return Delivery(key, file, Status(status), tries, rows.lease_from_row(lease), reason)


def _has_log(path: str) -> bool:
    """Whether there is anything in the log beside the file; without it the file is out of date."""
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False


def _read_schema(script: str) -> str:
    # By path: importlib.resources would cost each first command several milliseconds.
    with open(os.path.join(os.path.dirname(__file__), script), encoding="utf-8") as file:
        return file.read()
