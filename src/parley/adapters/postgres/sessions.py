"""Connections to the database: few, kept, each seeing only the tenants it was told to; and how errors are said.

Nothing waits longer for the database than `PATIENCE`. A connection that lets us wait is cut off, not cancelled: while a
commit waits for a replica, a cancel would end the wait and keep the commit, and nobody could say that it is safe.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from parley.domain.errors import BadConfig, DiskFull, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from parley.domain.errors import ParleyError

_log = logging.getLogger("parley.postgres")
PATIENCE = 2.5
# A search looks at every message of its tenant.
LONG_PATIENCE = 30.0
_AGAIN = 0.1
EVERYBODY = "*"
# The timeline, which is another one after a replica was promoted or a backup put back.
_HISTORY = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
# What could be changed while a node runs, or be otherwise on a replica that was promoted: a commit waits for the disk.
_DURABLE = (
    "SELECT current_setting('fsync', true) IS DISTINCT FROM 'off'"
    " AND current_setting('full_page_writes', true) IS DISTINCT FROM 'off', set_config('synchronous_commit',"
    " CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"
)
# A connection that nobody has needed for so long is closed, but for one: another node may have none.
_IDLE_SECONDS = 10.0
_KEPT_IDLE = 1
FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
# After these the same question may be asked again of a new connection: nothing is wrong with the question.
BROKEN = (
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # it was the primary a moment ago
    asyncpg.TooManyConnectionsError,
    OSError,
    TimeoutError,
)
# They come with a connection that was cut off, and say nothing about certificates.
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
_TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_SETTINGS = {
    # A node that falls asleep in the middle of a transaction must not hold up the others.
    "idle_in_transaction_session_timeout": "2000",
    "lock_timeout": "2000",
    # Whatever the role or the database says: a statement sees what was committed before it, and takes its time.
    "default_transaction_isolation": "read committed",
    "statement_timeout": "0",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "jit": "off",
    # Every usual question has its index; which one is taken must not depend on when the tables were last analysed.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
}
# Said once the connection is there: a pooler refuses what it does not know when it is said with the greeting.
_SET = "; ".join([f"SET {name} = '{value}'" for name, value in _SETTINGS.items()])
# What we no longer wait for must not go on, and keep what others wait for. Not every engine knows it.
_SET_CHECKED = f"{_SET}; SET client_connection_check_interval = 500"


def as_parley(error: Exception) -> ParleyError:
    """What a failure of the database is to whoever asked."""
    if isinstance(error, asyncpg.DiskFullError):
        return DiskFull("the disk of the database is full")
    said = str(error) or type(error).__name__
    return Unavailable(f"the database cannot be asked: {said}", hint="is it running? Its log says more")


@contextmanager
def known_as_lost(connection: asyncpg.Connection[asyncpg.Record]) -> Iterator[None]:
    """The driver trips over a connection that is lost under it: an error that has nothing to do with the question."""
    try:
        yield
    except asyncpg.InternalClientError as error:  # the database has said farewell, and has not hung up yet
        raise asyncpg.InterfaceError(str(error)) from error
    except AttributeError as error:
        if not connection.is_closed():
            raise
        raise asyncpg.InterfaceError("the connection was cut off") from error


async def connect(dsn: str, name: str, seconds: float = PATIENCE) -> asyncpg.Connection[asyncpg.Record]:
    """A new connection; `Unavailable` when there is none to be had, `BadConfig` when there can never be one.

    Of several hosts the one that answered last is asked first, and one that does not answer leaves time for the others.
    """
    hosts = _hosts(dsn)
    first = _answered.get(dsn, 0)
    error: ParleyError | None = None
    for at in (*range(first, len(hosts)), *range(first)):
        try:
            connection = await _connect(hosts[at], name, seconds / len(hosts), several=len(hosts) > 1)
        except BadConfig as refused:
            error = refused
        except Unavailable as refused:
            error = error or refused  # what has to be mended is told first
        else:
            _answered[dsn] = at
            return connection
    raise error or Unavailable("the address of the store names no host")


# The host of an address with several that answered last.
_answered: dict[str, int] = {}


async def _connect(dsn: str, name: str, seconds: float, *, several: bool) -> asyncpg.Connection[asyncpg.Record]:
    named = {"application_name": f"parley {name}"[:63]}
    # Of several one can be written, the others follow it.
    wanted = SessionAttribute.read_write if several and "target_session_attrs" not in dsn else None
    try:
        # The time limit is kept here: the library would keep it for each address that a name leads to.
        async with asyncio.timeout(seconds):
            connection = await asyncpg.connect(dsn, timeout=seconds, server_settings=named, target_session_attrs=wanted)
            try:
                await _set(connection)
            except BaseException:
                connection.terminate()
                raise
            return connection
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise Unavailable(f"this database cannot be written: {error}") from None
    except asyncpg.ClientConfigurationError as error:
        raise BadConfig(f"the address of the store cannot be used: {error}", hint="see sslrootcert for TLS") from None
    except _REFUSED as error:
        raise BadConfig(f"the database refuses this node: {error}", hint="see pg_hba.conf, and its log") from None
    except ssl.SSLError as error:
        raise _about_tls(error) from None
    except ValueError:  # what it says may be a part of the password
        hint = "postgresql://user:password@host:port/database; in a password write %2F for /, %23 for #, %40 for @"
        raise BadConfig("the address of the store cannot be read", hint=hint) from None
    except FAILURES as error:
        raise _missing_file(dsn) or as_parley(error) from None


async def _set(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    try:
        await connection.execute(_SET_CHECKED)
    except asyncpg.UndefinedObjectError:
        await connection.execute(_SET)


def _about_tls(error: ssl.SSLError) -> ParleyError:
    if isinstance(error, ssl.SSLCertVerificationError):
        said = f"the certificate of the database cannot be trusted: {error.verify_message}"
        return BadConfig(said, hint="sslrootcert names who may sign it, and it must be for the host in the address")
    if isinstance(error, _CUT_OFF):
        return as_parley(error)
    said = error.reason or str(error)
    return BadConfig(f"no TLS with the database: {said}", hint="see sslrootcert, sslcert and sslkey in the address")


def _missing_file(dsn: str) -> BadConfig | None:
    """A file for TLS that the address names and that cannot be read: the driver says only that some file cannot."""
    for name, path in parse_qsl(dsn.partition("?")[2]):
        if name in _TLS_FILES:
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                return BadConfig(f"{name} of the store cannot be read: {path}: {error.strerror}")
    return None


def _hosts(dsn: str) -> list[str]:
    """An address for each host that one names."""
    scheme, mark, rest = dsn.partition("://")
    place = re.split("[/?]", rest, maxsplit=1)[0]  # options may come without a database
    who, at, hosts = place.rpartition("@")
    return [f"{scheme}{mark}{who}{at}{host}{rest[len(place) :]}" for host in hosts.split(",")]


async def _keep_durable(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Have commits of a connection wait for the disk, or refuse it."""
    if not await connection.fetchval(_DURABLE):
        raise Unavailable("fsync or full_page_writes is off: the database would lose what it acknowledged")


class Session:
    """One connection, and whose rows it may see."""

    __slots__ = ("connection", "since", "tenants")

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection
        self.tenants = ""
        # Since when it is idle.
        self.since = 0.0

    async def see(self, tenants: str) -> None:
        """See the rows of these tenants, by their numbers, and no others."""
        if self.tenants != tenants:
            await self.connection.execute("SELECT set_config('parley.tenants', $1, false)", tenants)
            self.tenants = tenants

    def cut_off(self) -> None:
        """End it at once, whatever it does."""
        self.connection.terminate()


class Sessions:
    """The connections of one node. Who waits for one gets it in turn: nobody who comes later is served before."""

    def __init__(self, dsn: str, name: str, most: int, *, durable: bool = False) -> None:
        self.dsn = dsn
        self.name = name
        self.most = most
        self.open = 0
        self._durable = durable
        # The one that has been idle for the longest time first; the last one is taken next.
        self._idle: list[Session] = []
        self._closing: asyncio.TimerHandle | None = None
        # Somebody waits only while as many are open as may be, and none of them is idle.
        self._waiting: deque[asyncio.Future[Session | None]] = deque()
        self._closed = False
        # Which of the database's pasts the connections belong to, and who has to know when it is another one.
        self._history = ""
        self.on_other_history: Callable[[], None] | None = None

    async def connected(self, name: str, seconds: float = PATIENCE) -> asyncpg.Connection[asyncpg.Record]:
        """A new connection beside the others. A replica in the primary's place may not have all that we have seen."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            connection = await connect(self.dsn, name, seconds)
        except BadConfig as error:  # it was good enough when the node began, and may be again
            raise Unavailable(error.message, hint=error.hint) from None
        except Unavailable:
            self._close_idle(0)  # there may be no room for more, or they are lost as well
            raise
        watch = loop.call_at(end, connection.terminate)
        try:
            with known_as_lost(connection):
                if self._durable:
                    await _keep_durable(connection)
                history = str(await connection.fetchval(_HISTORY))
        except BROKEN as error:
            connection.terminate()
            raise as_parley(error) from None
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
        seconds: float = PATIENCE,
    ) -> list[asyncpg.Record]:
        """The rows of a query; asked again of a new connection when the old one turns out to be broken."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            try:
                async with self.session(end - loop.time()) as session:
                    await session.see(tenants)
                    return await session.connection.fetch(query, *values)
            except (ValueError, asyncpg.CharacterNotInRepertoireError):
                return []  # no text or number that the database could hold: nothing in it is called so
            except BROKEN as error:
                if loop.time() + _AGAIN >= end:
                    raise as_parley(error) from None
                await asyncio.sleep(_AGAIN)
            except asyncpg.PostgresError as error:
                raise as_parley(error) from None

    async def row(self, tenants: str, query: str, *values: Any) -> asyncpg.Record | None:  # noqa: ANN401
        """The only row of a query, if any."""
        found = await self.fetch(tenants, query, *values)
        return found[0] if found else None

    @asynccontextmanager
    async def session(self, seconds: float = PATIENCE) -> AsyncIterator[Session]:
        """A connection for a while; it is cut off when that takes too long, and given up when anything goes wrong."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        session = await self._take(end)
        watch = loop.call_at(end, session.cut_off)
        try:
            with known_as_lost(session.connection):
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
        session: Session | None = None
        while self._idle and session is None:
            session = self._idle.pop()
            if session.connection.is_closed():
                session = None
                self.open -= 1
        if session is None and self.open < self.most:
            self.open += 1
        elif session is None:
            session = await self._turn(end)
        if session is not None and not session.connection.is_closed():
            return session
        try:
            return Session(await self._connected(end))
        except BaseException:
            self._let_go()
            raise

    async def _connected(self, end: float) -> asyncpg.Connection[asyncpg.Record]:
        """A connection, tried for until its time is over: a database that restarts is back soon."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await self.connected(self.name, min(PATIENCE, end - loop.time()))
            except Unavailable:
                if loop.time() + _AGAIN >= end:
                    raise
                await asyncio.sleep(_AGAIN)

    async def _turn(self, end: float) -> Session | None:
        """What somebody lets go of: a connection, or leave to open one."""
        turn: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(end):
                return await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                given = turn.result()  # it was our turn: the next one's now
                if given is None:
                    self._let_go()
                else:
                    self._give_back(given)
            if isinstance(error, TimeoutError):
                raise Unavailable("every connection to the database is busy") from None
            raise

    def _give_back(self, session: Session) -> None:
        if self._closed or session.connection.is_closed():
            self._discard(session)
        elif not self._hand_on(session):
            session.since = asyncio.get_running_loop().time()
            self._idle.append(session)
            if self._closing is None:
                self._close_later()

    def _close_later(self) -> None:
        self._closing = None
        if len(self._idle) > _KEPT_IDLE:
            self._closing = asyncio.get_running_loop().call_at(self._idle[0].since + _IDLE_SECONDS, self._close_unused)

    def _close_unused(self) -> None:
        end = asyncio.get_running_loop().time() - _IDLE_SECONDS
        self._close_idle(max(_KEPT_IDLE, len([one for one in self._idle if one.since > end])))
        self._close_later()

    def _close_idle(self, kept: int) -> None:
        """Close what is idle, but for so many of those that were used last."""
        while len(self._idle) > kept:
            self.open -= 1
            self._idle.pop(0).cut_off()

    def _discard(self, session: Session) -> None:
        session.cut_off()
        self._let_go()

    def _let_go(self) -> None:
        if not self._hand_on(None):
            self.open -= 1

    def _hand_on(self, session: Session | None) -> bool:
        while self._waiting:
            turn = self._waiting.popleft()
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
        for turn in self._waiting:
            if not turn.done():
                turn.set_exception(Unavailable("the store is closed"))
        self._waiting.clear()
        if self._closing is not None:
            self._closing.cancel()
        self._close_idle(0)
