"""The tables, brought up to date forward only; and whether the database keeps what it acknowledges.

A migration only adds, so that the version before goes on working beside it while nodes are restarted one by one. What
the older version would break needs two releases: the first one stops using it, the second one takes it away. An index
on a large table keeps writers waiting while it is built: such a step has to build it beside them, outside of this.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from parley.adapters.postgres.connect import FAILURES, LONG_TIMEOUT_SECONDS, lost_connection_errors, to_parley_error
from parley.domain.errors.errors import BadConfig, Conflict, NewerSchema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_log = logging.getLogger("parley.postgres")
# What this version brings the tables to, and the newest that it can work with: a newer node may have been here first.
VERSION = 4
# Advisory lock of a migration, so that nodes that start together wait for each other. "parley" in ASCII.
MIGRATION_LOCK = 0x7061726C6579
_RETRY_SECONDS = 0.1
_DURABLE = frozenset({"on", "remote_apply"})
COPYING = "copying"
# In the table about: where the store was moved to.
MOVED_TO = "moved_to"
_COPY_STATE = f"SELECT name, value FROM about WHERE name IN ('state', '{MOVED_TO}')"


async def migrate(db: Connection) -> int:
    """Bring the tables up to date; the version that they have then. While another node does it, wait."""
    waited = False
    while (version := await _try_migrate(db)) is None:
        if not waited:
            _log.info("another node brings the tables up to date", extra={"action": "migrate"})
        waited = True
        await asyncio.sleep(_RETRY_SECONDS)
    return version


async def _try_migrate(db: Connection) -> int | None:
    """Migrate unless another node does; None in that case. Only the schema changes themselves have no timeout."""
    try:
        with _terminate_after_timeout(db):
            if await db.fetchval("SELECT pg_is_in_recovery()"):
                hint = "add target_session_attrs=read-write to the address of the store"
                raise BadConfig("this database is a replica: it can be read, not written", hint=hint)
        with lost_connection_errors(db):
            async with db.transaction():
                with _terminate_after_timeout(db):
                    # Not waited for in the database: a migration may take longer than lock_timeout.
                    if not await db.fetchval("SELECT pg_try_advisory_xact_lock($1)", MIGRATION_LOCK):
                        return None
                    version = await _version(db)
                    oldest = _to_int(await _read_about(db, "works_with") or "1") if version else 1
                for step in range(version + 1, VERSION + 1):
                    await _apply_step(db, step)
    except FAILURES as error:
        raise to_parley_error(error) from None
    if oldest > VERSION:
        problem = f"the database has schema {version}, which needs a Parley that knows schema {oldest}"
        raise NewerSchema(f"{problem}; this one knows {VERSION}", hint="upgrade Parley")
    return max(version, VERSION)


async def _apply_step(db: Connection, step: int) -> None:
    await db.execute(_read(step))
    statement = "INSERT INTO about VALUES ('schema', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    await db.execute(statement, str(step))


@contextmanager
def _terminate_after_timeout(db: Connection) -> Iterator[None]:
    """Terminate the connection when it does not answer within the timeout."""
    watch = asyncio.get_running_loop().call_later(LONG_TIMEOUT_SECONDS, db.terminate)
    try:
        with lost_connection_errors(db):
            yield
    finally:
        watch.cancel()


async def check(db: Connection, *, durable: bool) -> None:
    """Refuse a database that would lose what it has acknowledged, that a copy fills, or that was moved elsewhere."""
    try:
        with _terminate_after_timeout(db):
            rows = await db.fetch(_COPY_STATE)
    except FAILURES as error:
        raise to_parley_error(error) from None
    _check_state(rows)
    await check_settings(db, durable=durable)


async def check_open(fetch: Callable[..., Awaitable[list[asyncpg.Record]]]) -> None:
    """Refuse a database that is being filled by a copy or was moved elsewhere, asked as a node asks."""
    _check_state(await fetch("", _COPY_STATE))


def _check_state(rows: list[asyncpg.Record]) -> None:
    about = {row[0]: row[1] for row in rows}
    if about.get("state") == COPYING:
        raise Conflict("a copy into this database has not ended", hint="run `parley store copy` again")
    check_not_moved(about.get(MOVED_TO, ""))


def check_not_moved(place: str) -> None:
    """Refuse a database that was moved elsewhere: what it accepts would be missing there."""
    if place:
        hint = "start servers there; to use this one again on purpose: parley store reopen postgresql://..."
        raise Conflict(f"this database was moved to {place}", hint=hint)


async def check_settings(db: Connection, *, durable: bool) -> None:
    """Refuse a database that would lose what it has acknowledged, whether there are tables in it or not."""
    try:
        with _terminate_after_timeout(db):
            settings = {
                name: await db.fetchval("SELECT current_setting($1)", name)
                for name in ("synchronous_commit", "fsync", "full_page_writes", "server_encoding")
            }
    except FAILURES as error:
        raise to_parley_error(error) from None
    if settings["server_encoding"] != "UTF8":
        raise BadConfig(f"the database's encoding is {settings['server_encoding']}", hint="make one with encoding UTF8")
    if not durable:
        return
    if settings["synchronous_commit"] not in _DURABLE:
        problem = (
            f"synchronous_commit is {settings['synchronous_commit']}: the database would lose what it acknowledged"
        )
        raise BadConfig(problem, hint="ALTER ROLE or ALTER DATABASE ... SET synchronous_commit = on")
    for name in ("fsync", "full_page_writes"):
        if settings[name] != "on":
            problem = f"{name} is {settings[name]}: the database would lose what it acknowledged in a power cut"
            raise BadConfig(problem, hint=f"set {name} = on in postgresql.conf")


async def has_row_security(db: Connection) -> bool:
    """Whether the row security holds for this role: it does not for a superuser."""
    query = "SELECT NOT (rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname = current_user"
    try:
        with _terminate_after_timeout(db):
            return bool(await db.fetchval(query))
    except FAILURES as error:
        raise to_parley_error(error) from None


async def _version(db: Connection) -> int:
    if await db.fetchval("SELECT to_regclass('about') IS NULL"):
        return 0
    return _to_int(await _read_about(db, "schema") or "0")


def _to_int(text: str) -> int:
    if not text.isdecimal():
        raise BadConfig(
            f"the table about of this database says {text[:20]!r} where a number belongs", hint="is it ours?"
        )
    return int(text)


async def _read_about(db: Connection, name: str) -> str | None:
    value: str | None = await db.fetchval("SELECT value FROM about WHERE name = $1", name)
    return value


def _read(step: int) -> str:
    with open(os.path.join(os.path.dirname(__file__), f"schema_{step}.sql"), encoding="utf-8") as file:
        return file.read()
