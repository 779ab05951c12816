"""A connection to the database: at which host, over which TLS, with which settings; and how its errors are said.

Nothing waits longer for the database than `PATIENCE`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from parley.domain.errors.errors import BadConfig, DiskFull, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley.domain.errors.errors import ParleyError

TIMEOUT_SECONDS = 2.5
# A search looks at every message of its tenant.
LONG_TIMEOUT_SECONDS = 30.0
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
_CONNECTION_LOST = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
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


def to_parley_error(error: Exception) -> ParleyError:
    """A database error as a Parley error."""
    if isinstance(error, asyncpg.DiskFullError):
        return DiskFull("the disk of the database is full")
    detail = str(error) or type(error).__name__
    return Unavailable(f"the database cannot be asked: {detail}", hint="is it running? Its log says more")


@contextmanager
def lost_connection_errors(connection: asyncpg.Connection[asyncpg.Record]) -> Iterator[None]:
    """The driver trips over a connection that is lost under it: an error that has nothing to do with the question."""
    try:
        yield
    except asyncpg.InternalClientError as error:  # the database has said farewell, and has not hung up yet
        raise asyncpg.InterfaceError(str(error)) from error
    except AttributeError as error:
        if not connection.is_closed():
            raise
        raise asyncpg.InterfaceError("the connection was cut off") from error


async def connect(dsn: str, name: str, seconds: float = TIMEOUT_SECONDS) -> asyncpg.Connection[asyncpg.Record]:
    """A new connection; `Unavailable` when there is none to be had, `BadConfig` when there can never be one.

    Of several hosts the one that answered last is asked first, and one that does not answer leaves time for the others.
    """
    hosts = _hosts(dsn)
    first = _last_host.get(dsn, 0)
    error: ParleyError | None = None
    for at in (*range(first, len(hosts)), *range(first)):
        try:
            connection = await _connect(hosts[at], name, seconds / len(hosts), several=len(hosts) > 1)
        except BadConfig as refused:
            error = refused
        except Unavailable as refused:
            error = error or refused  # configuration errors are reported first
        else:
            _last_host[dsn] = at
            return connection
    raise error or Unavailable("the address of the store names no host")


# The host of an address with several that answered last.
_last_host: dict[str, int] = {}


async def _connect(dsn: str, name: str, seconds: float, *, several: bool) -> asyncpg.Connection[asyncpg.Record]:
    server_settings = {"application_name": f"parley {name}"[:63]}
    # Of several one can be written, the others follow it.
    session_attribute = SessionAttribute.read_write if several and "target_session_attrs" not in dsn else None
    try:
        # The time limit is kept here: the library would keep it for each address that a name leads to.
        async with asyncio.timeout(seconds):
            connection = await asyncpg.connect(
                dsn, timeout=seconds, server_settings=server_settings, target_session_attrs=session_attribute
            )
            try:
                await _apply_settings(connection)
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
        raise _tls_error(error) from None
    except ValueError:  # what it says may be a part of the password
        hint = "postgresql://user:password@host:port/database; in a password write %2F for /, %23 for #, %40 for @"
        raise BadConfig("the address of the store cannot be read", hint=hint) from None
    except FAILURES as error:
        raise _unreadable_file_error(dsn) or to_parley_error(error) from None


async def _apply_settings(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    try:
        await connection.execute(_SET_CHECKED)
    except asyncpg.UndefinedObjectError:
        await connection.execute(_SET)


def _tls_error(error: ssl.SSLError) -> ParleyError:
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = f"the certificate of the database cannot be trusted: {error.verify_message}"
        return BadConfig(detail, hint="sslrootcert names who may sign it, and it must be for the host in the address")
    if isinstance(error, _CONNECTION_LOST):
        return to_parley_error(error)
    detail = error.reason or str(error)
    return BadConfig(f"no TLS with the database: {detail}", hint="see sslrootcert, sslcert and sslkey in the address")


def _unreadable_file_error(dsn: str) -> BadConfig | None:
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
    authority = re.split("[/?]", rest, maxsplit=1)[0]  # options may come without a database
    user, at, hosts = authority.rpartition("@")
    return [f"{scheme}{mark}{user}{at}{host}{rest[len(authority) :]}" for host in hosts.split(",")]
