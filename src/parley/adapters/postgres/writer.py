"""The writer of one node: what has queued up is committed in one transaction, while the next queue gathers.

    commit ──> lane of the tenant ──> take all ──> BEGIN, lock the heads ──> others' journal ──> load, decide, write
                                                     COMMIT ──> tell the watchers, answer, announce

A lane has a connection of its own; a tenant always takes the same one. A refusal is found before anything of its commit
is written, so it takes no savepoint to let the others go on. When a statement fails, the whole transaction is taken
back and each commit is tried alone. Commits of a tenant whose head another node holds go to the end of the queue.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from parley.adapters.postgres.connect import BROKEN, TIMEOUT_SECONDS, lost_connection_errors, to_parley_error
from parley.adapters.postgres.evictor import Evictor
from parley.adapters.postgres.sessions import Session
from parley.adapters.postgres.transaction import WRITE_ERRORS, InDoubt, TransactionRunner, tenants_of
from parley.domain.errors.errors import ParleyError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.adapters.postgres.journal import Follower
    from parley.adapters.postgres.sessions import Sessions
    from parley.adapters.postgres.transaction import Connection, Outcome
    from parley.domain.store.changes import Committed, TeamChanges

    # Told when a commit is durable or refused.
    Done = Callable[[Committed | Exception], None]

_log = logging.getLogger("parley.postgres")
_BATCH_LIMIT = 512
# Maximum bytes per transaction: it is encoded at once, and has to arrive in time.
_BATCH_MAX_BYTES = 4 * 1024 * 1024
_RETRY_SECONDS = 0.1
# Most time to gather commits after those of other nodes were met; the last group took at least as long.
_GATHER_SECONDS = 0.01
# Milliseconds for which a head that another node holds is waited for: with others in the queue, and without.
_SHORT_WAIT, _LONG_WAIT = 250, 2_000


class QueuedCommit(NamedTuple):
    """A commit in the queue, and until when it is worth trying."""

    changes: TeamChanges
    done: Done
    end: float
    size: int


class PostgresWriter:
    """The lanes of one node."""

    def __init__(self, sessions: Sessions, follower: Follower, lanes: int) -> None:
        self._evictor = Evictor(sessions)
        self._lanes = [_Lane(sessions, follower, self._evictor) for _ in range(lanes)]

    async def commit(self, changes: TeamChanges, /) -> Committed:
        """Queue a change, and wait until it is durable. Once queued it is committed, even if the caller goes away."""
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self.submit(changes, partial(_resolve, future))
        return await future

    def submit(self, changes: TeamChanges, done: Done, /) -> None:
        """Queue a change; `done` is called when it is durable or refused."""
        self._lanes[zlib.crc32(changes.tenant.encode()) % len(self._lanes)].queue(changes, done)

    @property
    def queued(self) -> int:
        """How many commits wait for their transaction."""
        return sum(lane.queued for lane in self._lanes)

    async def close(self) -> None:
        """Take nothing more; what is queued is still committed."""
        for lane in self._lanes:
            await lane.close()
        await self._evictor.close()


class _Lane:
    def __init__(self, sessions: Sessions, follower: Follower, evictor: Evictor) -> None:
        self._sessions = sessions
        self._queue: deque[QueuedCommit] = deque()
        self._runner = TransactionRunner(follower, evictor, self._queue)
        self._session: Session | None = None
        # Cuts the session off when a transaction takes too long.
        self._watch: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        # How many at the head of the queue are tried alone, because together they did not work.
        self._single_count = 0
        # Whether others hold all tenants of the queue: then one is waited for.
        self._is_blocked = False
        # Where other nodes write in the same tenants: how many commits to gather, until when, and who waits for it.
        self._expected = 0
        self._gather_end = 0.0
        self._gathered: asyncio.Future[None] | None = None

    @property
    def queued(self) -> int:
        return len(self._queue)

    def queue(self, changes: TeamChanges, done: Done) -> None:
        changes = changes.with_creates_checked()
        if self._closed:
            raise Unavailable("the store is closed")
        size = sum([len(post.payload) for post in changes.posts])
        self._queue.append(QueuedCommit(changes, done, asyncio.get_running_loop().time() + TIMEOUT_SECONDS, size))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        elif self._gathered is not None and len(self._queue) >= self._expected and not self._gathered.done():
            self._gathered.set_result(None)

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            await self._task
        if self._session is not None:
            self._session.terminate()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            # Its caller has timed out, or is told to retry: later ones can still be served in time.
            began = loop.time()
            if self._queue[0].end < began and not self._single_count:
                self._queue.popleft().done(_too_busy())
                continue
            if began < self._gather_end and len(self._queue) < self._expected and not self._closed:
                began = await self._gather(self._gather_end - began)
            batch = self._next_batch()
            await self._commit_batch(batch)
            self._gather_end = 0.0
            if self._runner.met_others:
                # Those that were answered now mostly come back. Who waits for others with a small group would come back
                # with the next small group.
                now = loop.time()
                self._expected = min(_BATCH_LIMIT, len(batch) + len(self._queue))
                self._gather_end = now + min(_GATHER_SECONDS, now - began)

    async def _gather(self, seconds: float) -> float:
        """Wait until as many commits are queued as there were before, or until the time is over; when that is."""
        loop = asyncio.get_running_loop()
        self._gathered = loop.create_future()
        timer = loop.call_later(seconds, _wake, self._gathered)
        await self._gathered
        timer.cancel()
        self._gathered = None
        return loop.time()

    def _next_batch(self) -> list[QueuedCommit]:
        """What is tried together: all that has queued up, or the commits of one tenant that is waited for."""
        first = self._queue.popleft()
        if self._single_count:
            self._single_count -= 1
            return [first]
        if first.changes.stands_alone:
            return [first]
        batch = [first]
        remaining: list[QueuedCommit] = []
        tenants = tenants_of(first.changes)
        size = first.size
        while self._queue and len(batch) < _BATCH_LIMIT and not self._queue[0].changes.stands_alone:
            size += self._queue[0].size
            if size > _BATCH_MAX_BYTES:
                break
            commit = self._queue.popleft()
            joins_batch = not self._is_blocked or tenants_of(commit.changes) == tenants
            (batch if joins_batch else remaining).append(commit)
        self._queue.extendleft(reversed(remaining))
        return batch

    async def _commit_batch(self, batch: list[QueuedCommit]) -> None:
        """Commit these together; each alone when that does not work."""
        try:
            outcomes = await self._commit_with_retry(
                [commit.changes for commit in batch], min([commit.end for commit in batch])
            )
        except ParleyError as error:
            # Who queued up behind it has waited as long, and would only find out the same.
            batch += self._queue
            self._queue.clear()
            self._single_count = 0
            outcomes = [error] * len(batch)
        except (asyncpg.PostgresError, *WRITE_ERRORS) as error:
            if len(batch) > 1:
                self._queue.extendleft(reversed(batch))
                self._single_count = len(batch)
                return
            _log.error("a commit cannot be written", extra={"action": "commit", "detail": str(error)})
            outcomes = [to_parley_error(error) if isinstance(error, asyncpg.PostgresError) else error]
        self._is_blocked = all(outcome is None for outcome in outcomes)
        loop = asyncio.get_running_loop()
        now = loop.time()
        for commit, outcome in zip(batch, outcomes, strict=True):
            if outcome is not None:
                # Later: the next group is on its way before these are answered.
                loop.call_soon(commit.done, outcome)
            elif now < commit.end:
                self._queue.append(commit)
            else:
                loop.call_soon(commit.done, _too_busy())

    async def _commit_with_retry(self, batch: list[TeamChanges], first_end: float) -> list[Outcome]:
        """Try until it works or the time is over; what may have been committed is not tried again."""
        loop = asyncio.get_running_loop()
        end = loop.time() + TIMEOUT_SECONDS
        wait = 0
        if self._is_blocked or len(set().union(*map(tenants_of, batch))) == 1:
            # The wait for another node is not longer than the timeout of the database.
            milliseconds_left = max(1, round((first_end - loop.time()) * 1000))
            wait = min(_SHORT_WAIT if self._queue else _LONG_WAIT, milliseconds_left)
        while True:
            try:
                session = await self._open_session(end)
                with lost_connection_errors(session.connection):
                    return await self._runner.run(session.connection, batch, wait, partial(self._reconnect, end))
            except InDoubt as error:
                self._drop_session()
                problem = f"the database was lost in the middle of a commit: {error}"
                raise Unavailable(problem, hint="ask again with the same idempotency key") from None
            except (Unavailable, *BROKEN) as error:
                self._drop_session()
                if loop.time() + _RETRY_SECONDS >= end:
                    raise error if isinstance(error, ParleyError) else to_parley_error(error) from None
            except BaseException:
                self._drop_session()
                raise
            finally:
                if self._watch is not None:
                    self._watch.cancel()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _reconnect(self, end: float, error: Exception) -> Connection:
        """Another connection in place of one that was lost in the middle of a commit, as long as there is time."""
        loop = asyncio.get_running_loop()
        while True:
            self._drop_session()
            if loop.time() + _RETRY_SECONDS >= end:
                raise InDoubt(str(error)) from None
            await asyncio.sleep(_RETRY_SECONDS)
            try:
                return (await self._open_session(end)).connection
            except Unavailable:
                continue

    async def _open_session(self, end: float) -> Session:
        """The lane's session, which is cut off at this moment unless it is watched no longer by then."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.connection.is_closed():
            connection = await self._sessions.open_connection(f"{self._sessions.name} writes", end - loop.time())
            connection.add_log_listener(self._runner.on_log_message)
            self._session = Session(connection)
        if self._watch is not None:
            self._watch.cancel()
        self._watch = loop.call_at(end, self._session.terminate)
        return self._session

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session.terminate()
            self._session = None


def _too_busy() -> Unavailable:
    return Unavailable("others hold this tenant, or too much is to be written at this moment")


def _wake(gathered: asyncio.Future[None]) -> None:
    if not gathered.done():
        gathered.set_result(None)


def _resolve(future: asyncio.Future[Committed], outcome: Committed | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
