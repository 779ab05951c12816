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
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from parley.adapters.postgres.connect import BROKEN, TIMEOUT_SECONDS, lost_connection_errors, to_parley_error
from parley.adapters.postgres.evictor import Evictor
from parley.adapters.postgres.sessions import Session
from parley.adapters.postgres.transaction import WRITE_ERRORS, InDoubt, TransactionRunner, tenants_of
from parley.domain.errors.errors import ParleyError, Unavailable
from parley.domain.store.transaction import stands_alone

if TYPE_CHECKING:
    from parley.adapters.postgres.journal import Follower
    from parley.adapters.postgres.sessions import Sessions
    from parley.adapters.postgres.transaction import Outcome
    from parley.domain.store.changes import Committed, TeamChanges

_log = logging.getLogger("parley.postgres")
_BATCH_LIMIT = 512
# Maximum bytes per transaction: it is encoded at once, and has to arrive in time.
_BATCH_MAX_BYTES = 4 * 1024 * 1024
_RETRY_SECONDS = 0.1
# Milliseconds for which a head that another node holds is waited for: with others in the queue, and without.
_SHORT_WAIT, _LONG_WAIT = 250, 2_000


class QueuedCommit(NamedTuple):
    """A commit in the queue, and until when it is worth trying."""

    changes: TeamChanges
    future: asyncio.Future[Committed]
    end: float
    size: int


class PostgresWriter:
    """The lanes of one node."""

    def __init__(self, sessions: Sessions, follower: Follower, lanes: int) -> None:
        self._evictor = Evictor(sessions)
        self._lanes = [_Lane(sessions, follower, self._evictor) for _ in range(lanes)]

    async def commit(self, changes: TeamChanges, /) -> Committed:
        """Queue a change, and wait until it is durable. Once queued it is committed, even if the caller goes away."""
        return await self._lanes[zlib.crc32(changes.tenant.encode()) % len(self._lanes)].queue(changes)

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
        self._runner = TransactionRunner(follower, evictor)
        self._queue: deque[QueuedCommit] = deque()
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        # How many at the head of the queue are tried alone, because together they did not work.
        self._single_count = 0
        # Whether others hold all tenants of the queue: then one is waited for.
        self._is_blocked = False

    @property
    def queued(self) -> int:
        return len(self._queue)

    def queue(self, changes: TeamChanges) -> asyncio.Future[Committed]:
        if self._closed:
            raise Unavailable("the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Committed] = loop.create_future()
        size = sum([len(post.payload) for post in changes.posts])
        self._queue.append(QueuedCommit(changes, future, loop.time() + TIMEOUT_SECONDS, size))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        return future

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            await self._task
        if self._session is not None:
            self._session.terminate()

    async def _run(self) -> None:
        while self._queue:
            # Its caller has timed out, or is told to retry: later ones can still be served in time.
            late = self._queue[0].end < asyncio.get_running_loop().time()
            if late and not self._single_count:
                _resolve(self._queue.popleft().future, None)
            else:
                await self._commit_batch(self._next_batch())

    def _next_batch(self) -> list[QueuedCommit]:
        """What is tried together: all that has queued up, or the commits of one tenant that is waited for."""
        first = self._queue.popleft()
        if self._single_count:
            self._single_count -= 1
            return [first]
        if stands_alone(first.changes):
            return [first]
        batch = [first]
        remaining: list[QueuedCommit] = []
        tenants = tenants_of(first.changes)
        size = first.size
        while self._queue and len(batch) < _BATCH_LIMIT and not stands_alone(self._queue[0].changes):
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
        now = asyncio.get_running_loop().time()
        for commit, outcome in zip(batch, outcomes, strict=True):
            if outcome is None and now < commit.end:
                self._queue.append(commit)
            else:
                _resolve(commit.future, outcome)

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
                session = await self._open_session(end - loop.time())
                watch = loop.call_at(end, session.terminate)
                try:
                    with lost_connection_errors(session.connection):
                        return await self._runner.run(session.connection, batch, wait)
                finally:
                    watch.cancel()
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
            await asyncio.sleep(_RETRY_SECONDS)

    async def _open_session(self, seconds: float) -> Session:
        if self._session is None or self._session.connection.is_closed():
            connection = await self._sessions.open_connection(f"{self._sessions.name} writes", seconds)
            connection.add_log_listener(self._runner.on_log_message)
            self._session = Session(connection)
        return self._session

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session.terminate()
            self._session = None


def _resolve(future: asyncio.Future[Committed], outcome: Outcome) -> None:
    if future.done():
        return
    if outcome is None:
        future.set_exception(Unavailable("others hold this tenant, or too much is to be written at this moment"))
    elif isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
