"""The file of the team's store: opening it safely, its schema, and online copies of it."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from parley.adapters.sqlite.file import quote_path, split_statements, sqlite_errors
from parley.domain.errors.errors import Conflict, Invalid, NewerSchema, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

# Each migration leads from its index to the next version; forward only.
_SCHEMA = "schema.sql"
SCHEMA_VERSION = 7
# From this one on the tables have the same columns: they can be read as they are.
_READABLE_FROM = 2
# From this one on there are all tables of `domain.store.tables`.
COPIED_FROM = 7
_COUNT_STORE_TABLES = (
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('tenant', 'tally', 'event', 'entry')"
)
BUSY_SECONDS = 30.0
_CACHE_KIB = 16 * 1024


def connect(path: str, *, writes: bool, durable: bool = True) -> sqlite3.Connection:
    """A connection to the store; the writer makes the file, mode 0600."""
    with sqlite_errors(path):
        if writes and not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(
            f"file:{quote_path(path)}?mode={'rw' if writes else 'ro'}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            db.execute("PRAGMA trusted_schema=OFF")
            if writes:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
                db.execute("PRAGMA fullfsync=ON")
                # What is deleted or replaced is overwritten, in records as well: an erasure reaches the file. Most
                # builds of SQLite do so anyway.
                db.execute("PRAGMA secure_delete=ON")
                # Checkpoints are made by another thread: the writer's commits do not wait for them.
                db.execute("PRAGMA wal_autocheckpoint=0")
        except BaseException:
            db.close()
            raise
        return db


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date, forward only; `NewerSchema` when it was written by a newer Parley."""
    version = _known_version(db, path)
    for step in range(version, SCHEMA_VERSION):
        db.execute("BEGIN IMMEDIATE")
        try:
            for statement in split_statements(_read(step)):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={step + 1}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def check_readable(db: sqlite3.Connection, path: str, oldest: int = _READABLE_FROM) -> None:
    """Refuse a file whose tables are other ones: who only reads brings nothing up to date."""
    version = _known_version(db, path)
    if version < oldest:
        hint = "start the server on it once with this Parley, or bring a backup in with: parley restore"
        raise Invalid(f"{path} has schema {version}, this Parley reads {oldest} to {SCHEMA_VERSION}", hint=hint)


def _known_version(db: sqlite3.Connection, path: str) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise NewerSchema(f"{path} has schema {version}, this Parley knows {SCHEMA_VERSION}", hint="upgrade Parley")
    return version


def _read(step: int) -> str:
    name = _SCHEMA if step == 0 else f"schema_{step + 1}.sql"
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def copy(source: str, target: str, progress: Callable[[int, int], None]) -> None:
    """A consistent copy of a store that may be in use, durable when this returns."""
    with sqlite_errors(target):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        try:
            _copy_pages(source, target, progress)
        except BaseException:
            os.unlink(target)  # ours, and half a copy is worse than none
            raise


def _copy_pages(source: str, target: str, progress: Callable[[int, int], None]) -> None:
    source_db = connect(source, writes=False)
    target_db = sqlite3.connect(target, isolation_level=None)
    try:
        source_db.backup(target_db, pages=1024, progress=lambda _, left, total: progress(total - left, total))
        target_db.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        check = target_db.execute("PRAGMA quick_check").fetchone()[0]
        if check != "ok":
            raise sqlite3.DatabaseError(check)
    finally:
        target_db.close()
        source_db.close()
    _sync(target)
    _sync(os.path.dirname(os.path.abspath(target)))


def restore(source: str, target: str, progress: Callable[[int, int], None], *, force: bool) -> None:
    """Replace a store that no process has open by a copy. The old file stays until the new one is complete."""
    with sqlite_errors(source):
        if not os.path.exists(source):
            raise NotFound(f"no backup {source}")
        if os.path.exists(target) and not force:
            raise Conflict(f"{target} exists", hint="say --force to replace it")
        staged = f"{target}.restored"
        if os.path.exists(staged):
            os.unlink(staged)  # of a restore that was interrupted
        copy(source, staged, progress)
        try:
            _check_is_store(staged, source)
        except BaseException:
            os.unlink(staged)
            raise
        for suffix in ("-wal", "-shm"):
            if os.path.exists(target + suffix):
                os.unlink(target + suffix)
        os.replace(staged, target)
        _sync(os.path.dirname(os.path.abspath(target)))


def _check_is_store(path: str, source: str) -> None:
    """Bring a copy up to date, if it is one: an empty file or another program's would become an empty store."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        if db.execute(_COUNT_STORE_TABLES).fetchone()[0] != 4:
            raise Invalid(f"{source} is no backup of a server's data")
        migrate(db, source)
    finally:
        db.close()


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
