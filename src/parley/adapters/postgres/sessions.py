"""The connection pool of one node: few connections, each restricted to the tenants it was set to.

A connection that lets us wait is cut off, not cancelled: while a commit waits for a replica, a cancel would end the
wait and keep the commit, and nobody could say that it is safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from parley.adapters.postgres.connect import BROKEN, TIMEOUT_SECONDS, connect, lost_connection_errors, to_parley_error
from parley.domain.errors.errors import BadConfig, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_RETRY_SECONDS = 0.1
ALL_TENANTS = "*"
# The timeline, which is another one after a replica was promoted or a backup put back.
_TIMELINE = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
# What could be changed while a node runs, or be otherwise on a replica that was promoted: a commit waits for the disk.
_DURABLE = (
    "SELECT current_setting('fsync', true) IS DISTINCT FROM 'off'"
    " AND current_setting('full_page_writes', true) IS DISTINCT FROM 'off', set_config('synchronous_commit',"
    " CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"
)
# A connection that has been idle for longer is closed, except for one: other nodes may need the slot.
_IDLE_SECONDS = 10.0
_MIN_IDLE = 1


async def _require_durable(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Have commits of a connection wait for the disk, or refuse it."""
    try:
        durable = await connection.fetchval(_DURABLE)
    except asyncpg.PostgresError as error:  # what cannot be found out is not so
        raise to_parley_error(error) from None
    if not durable:
        raise Unavailable("fsync or full_page_writes is off: the database would lose what it acknowledged")


class Session:
    """One connection, and whose rows it may see."""

    __slots__ = ("connection", "idle_since", "tenants")

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection
        self.tenants = ""
        # Since when it is idle.
        self.idle_since = 0.0

    async def set_tenants(self, tenants: str) -> None:
        """See the rows of these tenants, by their numbers, and no others."""
        if self.tenants != tenants:
            await self.connection.execute("SELECT set_config('parley.tenants', $1, false)", tenants)
            self.tenants = tenants

    def terminate(self) -> None:
        """End it at once, whatever it does."""
        self.connection.terminate()


class Sessions:
    """The connection pool of one node. Waiters are served in order."""

    def __init__(self, dsn: str, name: str, max_connections: int, *, durable: bool = False) -> None:
        self.dsn = dsn
        self.name = name
        self.max_connections = max_connections
        self.open = 0
        self._durable = durable
        # The one that has been idle for the longest time first; the last one is taken next.
        self._idle: list[Session] = []
        self._close_timer: asyncio.TimerHandle | None = None
        # There are waiters only while all connections are open and none is idle.
        self._waiters: deque[asyncio.Future[Session | None]] = deque()
        self._closed = False
        # Which of the database's pasts the connections belong to, and who has to know when it is another one.
        self._history = ""
        self.on_other_history: Callable[[], None] | None = None

    async def open_connection(self, name: str, seconds: float = TIMEOUT_SECONDS) -> asyncpg.Connection[asyncpg.Record]:
        """A new connection beside the others. A replica in the primary's place may not have all that we have seen."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            connection = await connect(self.dsn, name, seconds)
        except BadConfig as error:  # it was good enough when the node began, and may be again
            raise Unavailable(error.message, hint=error.hint) from None
        except Unavailable:
            # There may be no room for more, or they are lost as well. If neither is so, one goes from hand to hand.
            self._close_idle(_MIN_IDLE)
            raise
        watch = loop.call_at(end, connection.terminate)
        try:
            with lost_connection_errors(connection):
                if self._durable:
                    await _require_durable(connection)
                history = str(await connection.fetchval(_TIMELINE))
        except BROKEN as error:
            connection.terminate()
            raise to_parley_error(error) from None
        except asyncpg.PostgresError:
            history = ""  # an engine that has no such thing
        except BaseException:
            connection.terminate()
            raise
        finally:
            watch.cancel()
        if history and self._history not in ("", history) and self.on_other_history is not None:
            self.on_other_history()
        self._history = history or self._history
        return connection

    async def fetch(
        self,
        tenants: str,
        query: str,
        *values: Any,  # noqa: ANN401  # as the driver
        seconds: float = TIMEOUT_SECONDS,
    ) -> list[asyncpg.Record]:
        """The rows of a query; asked again of a new connection when the old one turns out to be broken."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            try:
                async with self.session(end - loop.time()) as session:
                    await session.set_tenants(tenants)
                    return await session.connection.fetch(query, *values)
            except (ValueError, asyncpg.CharacterNotInRepertoireError):
                return []  # no text or number that the database could hold: nothing in it is called so
            except BROKEN as error:
                if loop.time() + _RETRY_SECONDS >= end:
                    raise to_parley_error(error) from None
                await asyncio.sleep(_RETRY_SECONDS)
            except asyncpg.PostgresError as error:
                raise to_parley_error(error) from None

    async def row(self, tenants: str, query: str, *values: Any) -> asyncpg.Record | None:  # noqa: ANN401
        """The only row of a query, if any."""
        result = await self.fetch(tenants, query, *values)
        return result[0] if result else None

    @asynccontextmanager
    async def session(self, seconds: float = TIMEOUT_SECONDS) -> AsyncIterator[Session]:
        """A connection for a while; it is cut off when that takes too long, and given up when anything goes wrong."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        session = await self._take(end)
        watch = loop.call_at(end, session.terminate)
        try:
            with lost_connection_errors(session.connection):
                yield session
        except (asyncpg.PostgresError, ValueError) as error:
            # Something was wrong with the question, mostly: the connection is as good as before.
            (self._discard if isinstance(error, BROKEN) else self._give_back)(session)
            raise
        except BaseException:
            self._discard(session)
            raise
        else:
            self._give_back(session)
        finally:
            watch.cancel()

    async def _take(self, end: float) -> Session:
        if self._closed:
            raise Unavailable("the store is closed")
        session = self._pop_idle()
        if session is None and self.open < self.max_connections:
            self.open += 1
        elif session is None:
            session = await self._wait_for_turn(end)
        if session is not None and not session.connection.is_closed():
            return session
        try:
            return await self._open_session(end)
        except BaseException:
            self._release_slot()
            raise

    async def _open_session(self, end: float) -> Session:
        """A new one, tried for until its time is over: a database that restarts is back soon. Or one that is free."""
        loop = asyncio.get_running_loop()
        reason: Unavailable | None = None
        while True:
            try:
                return Session(await self.open_connection(self.name, min(TIMEOUT_SECONDS, end - loop.time())))
            except Unavailable as error:
                # The last try may just have had no time left: the first one says more.
                reason = reason or error
                if loop.time() + _RETRY_SECONDS >= end:
                    raise reason from None
                await asyncio.sleep(_RETRY_SECONDS)
            if (free := self._pop_idle()) is not None:
                self._release_slot()
                return free

    def _pop_idle(self) -> Session | None:
        """The idle session that was used last."""
        while self._idle:
            session = self._idle.pop()
            if not session.connection.is_closed():
                return session
            self.open -= 1
        return None

    async def _wait_for_turn(self, end: float) -> Session | None:
        """Wait for a released session; None is the permission to open one."""
        turn: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            async with asyncio.timeout_at(end):
                return await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                session = turn.result()  # it was our turn: the next one's now
                if session is None:
                    self._release_slot()
                else:
                    self._give_back(session)
            if isinstance(error, TimeoutError):
                raise Unavailable("every connection to the database is busy") from None
            raise

    def _give_back(self, session: Session) -> None:
        if self._closed or session.connection.is_closed():
            self._discard(session)
        elif not self._hand_to_waiter(session):
            session.idle_since = asyncio.get_running_loop().time()
            self._idle.append(session)
            if self._close_timer is None:
                self._schedule_close()

    def _schedule_close(self) -> None:
        self._close_timer = None
        if len(self._idle) > _MIN_IDLE:
            self._close_timer = asyncio.get_running_loop().call_at(
                self._idle[0].idle_since + _IDLE_SECONDS, self._close_unused
            )

    def _close_unused(self) -> None:
        end = asyncio.get_running_loop().time() - _IDLE_SECONDS
        self._close_idle(max(_MIN_IDLE, len([session for session in self._idle if session.idle_since > end])))
        self._schedule_close()

    def _close_idle(self, keep_count: int) -> None:
        """Close idle sessions, except for this many of the most recently used."""
        while len(self._idle) > keep_count:
            self.open -= 1
            self._idle.pop(0).terminate()

    def _discard(self, session: Session) -> None:
        session.terminate()
        self._release_slot()

    def _release_slot(self) -> None:
        if not self._hand_to_waiter(None):
            self.open -= 1

    def _hand_to_waiter(self, session: Session | None) -> bool:
        while self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(session)
                return True
        return False

    def busy(self) -> int:
        """How many connections are in use."""
        return self.open - len(self._idle)

    async def close(self) -> None:
        """Close what is idle; what is in use is closed when it is given back."""
        self._closed = True
        for turn in self._waiters:
            if not turn.done():
                turn.set_exception(Unavailable("the store is closed"))
        self._waiters.clear()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._close_idle(0)
