"""What somebody can do who has the store itself in hand: look at all that it keeps, and change it behind the server's
back. The tables of a file and of a database have the same names."""

from __future__ import annotations

import asyncio
import itertools
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg

from parley.adapters.postgres.sessions import ALL_TENANTS
from parley.adapters.postgres.store import PostgresTeamStore
from tests.postgres.cluster import aside
from tests.rigs.team import Rig

# Which nodes there are, and that something was committed: neither is what somebody said or did.
_OF_NODES = frozenset({"journal", "lease", "node"})
_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
_SUPERUSER = "postgres"

Rows = list[tuple[object, ...]]


class Guarded(Exception):
    """The store itself does not let this be changed."""


def tables(rig: Rig) -> dict[str, Rows]:
    """Everything in the store, but for what servers note about themselves."""
    if rig.dsn:
        found = aside(lambda: asyncio.run(_rows(rig.dsn)))
        return {name: rows for name, rows in found.items() if name not in _OF_NODES}
    with closing(sqlite3.connect(f"file:{rig.path}?mode=ro", uri=True)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: db.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # our own tables


def kept(rig: Rig) -> bytes:
    """Every byte that the store keeps: of its files, or of all rows of the database."""
    if not rig.dsn:
        return b"".join(path.read_bytes() for path in sorted(rig.path.parent.glob(f"{rig.path.name}*")))
    every = itertools.chain.from_iterable(aside(lambda: asyncio.run(_rows(rig.dsn))).values())
    values = itertools.chain.from_iterable(every)
    return b"\0".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


async def spent_of(rig: Rig, budget: str) -> int:
    """How much is spent of a budget that is for ever."""
    if isinstance(rig.store, PostgresTeamStore):
        query = "SELECT spent FROM budget WHERE key = $1 AND span = ''"
        row = await rig.store.sessions.row(ALL_TENANTS, query, budget)
    else:
        with closing(sqlite3.connect(f"file:{rig.path}?mode=ro", uri=True)) as db:
            row = db.execute("SELECT spent FROM budget WHERE key = ? AND window = ''", (budget,)).fetchone()
    return int(row[0]) if row else 0


def change(rig: Rig, statement: str, *values: object, guards: bool = True) -> int:
    """Change rows, with ? for each value; how many. `Guarded` when the store stands in the way, unless it is made to
    stand aside, as its owner can."""
    if rig.dsn:
        return aside(lambda: asyncio.run(_changed(rig.dsn, statement, values, guards=guards)))
    return _changed_in_file(rig.path, statement, values, guards=guards)


def _changed_in_file(path: Path, statement: str, values: tuple[object, ...], *, guards: bool) -> int:
    triggers = "SELECT type, name, sql FROM sqlite_master WHERE type = 'trigger'"
    with closing(sqlite3.connect(path, isolation_level="IMMEDIATE")) as db, db:
        standing = [] if guards else db.execute(triggers).fetchall()
        for _, name, _ in standing:
            db.execute(f"DROP TRIGGER {name}")
        try:
            changed = db.execute(statement, values).rowcount
        except sqlite3.IntegrityError as error:
            raise Guarded(str(error)) from None
        for _, _, made_by in standing:
            db.execute(made_by)
        return changed


async def _changed(dsn: str, statement: str, values: tuple[object, ...], *, guards: bool) -> int:
    numbers = itertools.count(1)
    numbered = re.sub(r"\?", lambda _: f"${next(numbers)}", statement)
    # With its guards in place it is asked by the server's own role, which row security binds, too.
    db = await asyncpg.connect(dsn, server_settings={"parley.tenants": "*"}, user=None if guards else _SUPERUSER)
    try:
        async with db.transaction():
            if not guards:
                await db.execute("SET LOCAL session_replication_role = replica")
            done = await db.execute(numbered, *values)
    except asyncpg.RestrictViolationError as error:
        raise Guarded(str(error)) from None
    finally:
        await db.close()
    return int(done.rpartition(" ")[2])


async def _rows(dsn: str) -> dict[str, Rows]:
    db = await asyncpg.connect(dsn, user=_SUPERUSER)
    try:
        async with db.transaction(isolation="repeatable_read", readonly=True):
            names = [name for (name,) in await db.fetch(_TABLES)]
            return {name: await _rows_of(db, name) for name in names}
    finally:
        await db.close()


async def _rows_of(db: asyncpg.Connection[asyncpg.Record], name: str) -> Rows:
    """In any order that is always the same. A tenant's revision only counts what was committed."""
    found = await db.fetch(f'SELECT * FROM "{name}"')  # our own tables
    rows = [tuple(value for column, value in row.items() if column != "revision") for row in found]
    return sorted(rows, key=repr)
