"""Whether a connection is a session of its own, or a pooler lends it another one for each transaction.

What a node says of itself in a session would be lost there, or be found by others: whose rows it may see, to whom it
listens, what it has prepared. All of that fails silently, and not at once; so it is looked for at the start.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from parley.adapters.postgres.connect import FAILURES, LONG_TIMEOUT_SECONDS, lost_connection_errors, to_parley_error
from parley.domain.errors.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Connection = asyncpg.Connection[asyncpg.Record]

_PID = "SELECT pg_backend_pid()"
# What engines say that have no processes.
_NO_PIDS = (None, 0, -1)
_ROUNDS = 3
# Another client's prepared statement in our session, or ours missing from it.
_FOREIGN_SESSION_ERRORS = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
_HINT = "let the pooler pool by session (PgBouncer: pool_mode = session), or connect without it"


async def check(db: Connection, connect_again: Callable[[], Awaitable[Connection]]) -> None:
    """Refuse a connection that is not one session. `another` makes a second one; only behind a pooler there is need."""
    try:
        async with asyncio.timeout(LONG_TIMEOUT_SECONDS):
            with lost_connection_errors(db):
                is_session = await _is_one_session(db, connect_again)
    except _FOREIGN_SESSION_ERRORS:
        is_session = False
    except FAILURES as error:
        raise to_parley_error(error) from None
    if not is_session:
        raise BadConfig("a pooler gives this node another session of the database for each transaction", hint=_HINT)


async def _is_one_session(db: Connection, connect_again: Callable[[], Awaitable[Connection]]) -> bool:
    pid = await db.fetchval(_PID)
    # The database greets with the number of the process at the other end, a pooler with one that it made up.
    if pid in (db.get_server_pid(), *_NO_PIDS):
        return True
    other = await connect_again()
    try:
        # A pooler lends a server connection to the next client, or to each in turn; a transaction keeps its own.
        for _ in range(_ROUNDS):
            if await other.fetchval(_PID) == pid:
                return False
            async with other.transaction():
                if await other.fetchval(_PID) == pid or await db.fetchval(_PID) != pid:
                    return False
    finally:
        other.terminate()
    return True
