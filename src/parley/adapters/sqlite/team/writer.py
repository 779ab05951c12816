"""The one writer of the team's store: a thread that commits what has queued up in one transaction.

    loop:   commit ──> gather           ┌──────────── one transaction ────────────┐
    thread:            take all ──> decide 1, decide 2, ... ──> write all ──> fsync ──> answer all at once
    loop:                                                                            <── tell the watchers, wake

The loop gathers while the thread writes, and after that for a few rounds as long as each brings more: senders that were
answered come back with their next message, and share the transaction. It never waits for one: the first round that
brings none hands over what there is.

What a change becomes is decided by `Transaction`; a refusal leaves the others in it alone. An error of the disk, or in
one of the changes, takes the whole transaction back; then each change is tried alone.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from parley.adapters.sqlite.file import to_parley_error
from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team import writes as team_writes
from parley.adapters.sqlite.team.source import SqliteSource
from parley.domain.errors.errors import Forbidden, ParleyError, Unavailable
from parley.domain.store.changes import Committed, merge_posts
from parley.domain.store.transaction import Encoders, Transaction
from parley.domain.store.writes import EraseContent
from parley.wire.proofs.event_log import appended
from parley.wire.rows import encode_audit_entry

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Iterator

    from parley.adapters.sqlite.team.cache import StoreCache
    from parley.domain.store.changes import TeamChanges

    QueuedCommit = tuple[TeamChanges, Callable[[Committed | Exception], None]]

_BATCH_LIMIT = 512
# The loop gathers for at most this many rounds: each may be long when it has other things to do.
_GATHER_ROUNDS = 4
# A log longer than this is truncated by the writer itself: under constant load no other connection can.
_LOG_MAX_BYTES = 64 * 1024 * 1024
# Every so many batches the log is copied into the file, and begins anew in the place that it has on the disk: where it
# grows, each sync also writes the size of the file.
_RESTART_EVERY = 256
# Every so many batches the size of the log is looked at: each look is a system call.
_LOOK_EVERY = 16
_READER_MS = 100

ENCODERS = Encoders(appended, encode_audit_entry)

CommitOutcome = Committed | Exception
# A change that cannot be written as it is: its own fault, which must not stop the writer.
_WRITE_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


class SqliteWriter:
    """Owns the writing connection and its thread."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: str,
        cache: StoreCache,
        log_bytes: Callable[[], int],
    ) -> None:
        self._db = db
        # A statement of many rows keeps the pages that it changes as they were, in case it fails. A large one would
        # write them to a file in /var/tmp: time, and content outside of the store, which no erasure reaches.
        db.execute("PRAGMA temp_store=MEMORY")
        self._path = path
        self._cache = cache
        self._log_bytes = log_bytes
        # Called in the event loop with each commit and its tenant, before its caller goes on.
        self.watchers: list[Callable[[str, Committed], None]] = []
        # What the loop has gathered, and what it has handed over.
        self._gathered: list[QueuedCommit] = []
        self._queue: queue.SimpleQueue[list[QueuedCommit] | None] = queue.SimpleQueue()
        self._loop: AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="parley-writer", daemon=True)
        self._closed = False
        # How many commits the thread has; whether the loop goes on gathering, in which round, and with how many so far.
        self._writing = 0
        self._gathering = False
        self._round = 0
        self._gathered_before = 0
        self.queued = 0
        # Something was erased, and the log still has it.
        self._erased = False
        self._batches = 0
        # A reader kept the log from being cut the last time.
        self._reader_blocks = False

    def start(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()

    async def commit(self, changes: TeamChanges, /) -> Committed:
        """Queue a change, and wait until it is durable. Once queued it is committed, even if the caller goes away."""
        if self._loop is None:
            raise Unavailable("the store is closed")
        future: Future[Committed] = self._loop.create_future()
        self.submit(changes, partial(_resolve, future))
        return await future

    def submit(self, changes: TeamChanges, done: Callable[[CommitOutcome], None], /) -> None:
        """Queue a change; `done` is called in the event loop when it is durable or refused."""
        if self._loop is None or self._closed:
            raise Unavailable("the store is closed")
        self._gathered.append((changes, done))
        self.queued += 1
        if not (self._writing or self._gathering):
            self._gathering = True
            self._loop.call_soon(self._gather)

    def _gather(self) -> None:
        """Go on while each round of the loop brings more; then hand over.

        Most of what a transaction costs, it costs once; and the threads do not compete for the interpreter meanwhile.
        """
        gathered = len(self._gathered)
        self._round += 1
        if self._gathered_before < gathered < _BATCH_LIMIT and self._round < _GATHER_ROUNDS and self._loop is not None:
            self._gathered_before = gathered
            self._loop.call_soon(self._gather)
        else:
            self._gathering = False
            self._hand_over(_BATCH_LIMIT)

    def _hand_over(self, limit: int | None = None) -> None:
        self._round = self._gathered_before = 0
        if self._gathered and not self._closed:
            group = self._gathered[:limit]
            del self._gathered[:limit]
            self._writing += len(group)
            self._queue.put(group)

    def stop(self) -> None:
        """Take nothing more; what is queued is still committed. Call it where `commit` is called."""
        if not self._closed and self._loop is not None:
            self._hand_over()
            self._closed = True
            self._queue.put(None)

    def join(self) -> None:
        """Wait for the last commit, and close the file."""
        if self._loop is not None:
            self._thread.join()
        self._db.close()

    def _run(self) -> None:
        while (group := self._queue.get()) is not None:
            for part in _batches(group):
                self._commit_batch(part)
            self._batches += 1
            if self._batches % _RESTART_EVERY == 0:
                self._restart_log()
            if self._batches % _LOOK_EVERY == 0:
                self._cut_log()

    def _commit_batch(self, batch: list[QueuedCommit]) -> None:
        """Commit a batch in one transaction and answer its callers. After an error each change is tried alone."""
        outcomes: list[CommitOutcome] = []
        try:
            with self._transaction([changes for changes, _ in batch]) as transaction:
                for changes, _ in batch:
                    try:
                        outcomes.append(transaction.take(changes))
                    except ParleyError as refusal:
                        outcomes.append(refusal)
                transaction.writes += transaction.evicted()
                team_writes.write(self._db, transaction)
        except (sqlite3.Error, OSError, *_WRITE_ERRORS) as error:
            if len(batch) > 1:
                for commit in batch:
                    self._commit_batch([commit])
                return
            outcomes = [_as_outcome(error, self._path)]
        if self._erased:
            self._cut_log()  # an erasure is answered when the log no longer has what was erased
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._deliver, batch, outcomes)

    @contextmanager
    def _transaction(self, batch: list[TeamChanges]) -> Iterator[Transaction]:
        """A transaction of the file, committed at the end and rolled back by an error; then the cache follows."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            source = SqliteSource(self._db, self._cache)
            source.preload(batch)
            transaction = Transaction(source, ENCODERS)
            yield transaction
            self._db.execute("COMMIT")
            self._erased = self._erased or any(isinstance(act, EraseContent) for act in transaction.writes)
            self._cache.heads.update(source.new_heads)
            self._cache.update(transaction)
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        finally:
            self._cache.trim()

    def _deliver(self, batch: list[QueuedCommit], outcomes: list[CommitOutcome]) -> None:
        self.queued -= len(batch)
        self._writing -= len(batch)
        commits = [
            (changes.tenant, outcome)
            for (changes, _), outcome in zip(batch, outcomes, strict=True)
            if isinstance(outcome, Committed)
        ]
        for tenant, committed in merge_posts(commits):
            for watcher in self.watchers:
                watcher(tenant, committed)
        for (_, done), outcome in zip(batch, outcomes, strict=True):
            done(outcome)
        if self._gathered and not (self._writing or self._gathering):
            self._gathering = True
            self._gather()

    def _restart_log(self) -> None:
        """Copy the log into the file: unless a reader still needs it, the next commit begins it anew."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _cut_log(self) -> None:
        if self._erased or self._log_bytes() > _LOG_MAX_BYTES:
            try:
                # A reader is soon done, or stays for as long as a copy of the whole store takes: it is waited for once.
                self._db.execute(f"PRAGMA busy_timeout={0 if self._reader_blocks else _READER_MS}")
                (busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._reader_blocks = bool(busy)
                self._erased = self._erased and bool(busy)
            except sqlite3.Error:
                return  # a reader is in the way, or the disk is full: the log goes on growing until it can be cut
            finally:
                self._db.execute(f"PRAGMA busy_timeout={team_file.BUSY_SECONDS * 1000:.0f}")


def _resolve(future: Future[Committed], outcome: CommitOutcome) -> None:
    """Let the caller of `commit` go on, if it is still there."""
    if future.done():
        return
    if isinstance(outcome, Committed):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)


def _as_outcome(error: Exception, path: str) -> Exception:
    """What the caller is told; a caller can do nothing about a file that the machine forbids the server to write."""
    if not isinstance(error, sqlite3.Error | OSError):
        return error
    refusal = to_parley_error(error, path)
    return Unavailable(refusal.message) if isinstance(refusal, Forbidden) else refusal


def _batches(work: list[QueuedCommit]) -> Iterator[list[QueuedCommit]]:
    """The work in its order, cut where something needs a transaction for itself."""
    batch: list[QueuedCommit] = []
    for commit in work:
        if not commit[0].stands_alone:
            batch.append(commit)
            continue
        if batch:
            yield batch
            batch = []
        yield [commit]
    if batch:
        yield batch
