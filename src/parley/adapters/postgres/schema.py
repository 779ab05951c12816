"""The tables, brought up to date forward only; and whether the database keeps what it acknowledges.

A migration only adds, so that the version before goes on working beside it while nodes are restarted one by one. What
the older version would break needs two releases: the first one stops using it, the second one takes it away.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.adapters.postgres.sessions import FAILURES, as_parley
from parley.domain.errors import BadConfig, Conflict, NewerSchema

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

# What this version brings the tables to, and the newest that it can work with: a newer node may have been here first.
VERSION = 1
# Taken by whoever migrates, so that nodes that start together wait for each other. "parley" in ASCII.
_MIGRATING = 0x7061726C6579
_DURABLE = frozenset({"on", "remote_apply"})
COPYING = "copying"


async def migrate(db: Connection) -> int:
    """Bring the tables up to date; the version that they have then."""
    try:
        if await db.fetchval("SELECT pg_is_in_recovery()"):
            hint = "add target_session_attrs=read-write to the address of the store"
            raise BadConfig("this database is a replica: it can be read, not written", hint=hint)
        async with db.transaction():
            await db.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATING)
            version = await _version(db)
            for step in range(version + 1, VERSION + 1):
                await db.execute(_read(step))
                await db.execute(
                    "INSERT INTO about VALUES ('schema', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    str(step),
                )
            oldest = int(await _about(db, "works_with") or "1") if version else 1
    except FAILURES as error:
        raise as_parley(error) from None
    if oldest > VERSION:
        said = f"the database has schema {version}, which needs a Parley that knows schema {oldest}"
        raise NewerSchema(f"{said}; this one knows {VERSION}", hint="upgrade Parley")
    return max(version, VERSION)


async def check(db: Connection, *, durable: bool) -> None:
    """Refuse a database that would lose what it has acknowledged, or that is being filled by a copy."""
    try:
        found = {
            name: await db.fetchval("SELECT current_setting($1)", name)
            for name in ("synchronous_commit", "fsync", "full_page_writes", "server_encoding")
        }
        state = await _about(db, "state")
    except FAILURES as error:
        raise as_parley(error) from None
    if state == COPYING:
        raise Conflict("a copy into this database has not ended", hint="run `parley store copy` again")
    if found["server_encoding"] != "UTF8":
        raise BadConfig(f"the database's encoding is {found['server_encoding']}", hint="make one with encoding UTF8")
    if not durable:
        return
    if found["synchronous_commit"] not in _DURABLE:
        said = f"synchronous_commit is {found['synchronous_commit']}: the database would lose what it acknowledged"
        raise BadConfig(said, hint="ALTER ROLE or ALTER DATABASE ... SET synchronous_commit = on")
    for name in ("fsync", "full_page_writes"):
        if found[name] != "on":
            said = f"{name} is {found[name]}: the database would lose what it acknowledged in a power cut"
            raise BadConfig(said, hint=f"set {name} = on in postgresql.conf")


async def walled(db: Connection) -> bool:
    """Whether the row security holds for this role: it does not for a superuser."""
    query = "SELECT NOT (rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname = current_user"
    return bool(await db.fetchval(query))


async def _version(db: Connection) -> int:
    if await db.fetchval("SELECT to_regclass('about') IS NULL"):
        return 0
    return int(await _about(db, "schema") or "0")


async def _about(db: Connection, name: str) -> str | None:
    value: str | None = await db.fetchval("SELECT value FROM about WHERE name = $1", name)
    return value


def _read(step: int) -> str:
    with open(os.path.join(os.path.dirname(__file__), f"schema_{step}.sql"), encoding="utf-8") as file:
        return file.read()
