"""A database of the team's store as plain tables: read as of one moment while nodes write, or filled from another.

While it is filled, the database itself says so (`schema.COPYING`): no node starts on it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from parley.adapters.postgres import schema
from parley.adapters.postgres.sessions import EVERYBODY, FAILURES, as_parley
from parley.domain.errors import Conflict, Invalid, NotFound
from parley.domain.node import SILENT_SECONDS
from parley.domain.shelf import AUDIT, ENTRY, POST, TENANT, Pulse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from parley.domain.shelf import Key, Row, Table

    Connection = asyncpg.Connection[asyncpg.Record]

_CONNECT_SECONDS = 10.0
_NAME = "parley store copy"
_COPIED = "copied"
# Held by who fills a database, for as long as it is connected. "copy" in ASCII.
_FILLING = 0x636F7079
_SETTINGS = {
    "application_name": _NAME,
    # A snapshot is held for as long as a copy takes, and waits while the other side writes.
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "10000",
    "jit": "off",
}
_WHOLE = frozenset(
    {
        *("number", "tenant", "head", "entry_position", "audit_number", "version", "count", "seq", "floor"),
        *("channel", "sequence", "position", "place", "spent"),
    }
)
_BYTES = frozenset({"entry_link", "document", "link", "payload", "metadata", "answer"})
_PULSE = "SELECT coalesce(sum(head), 0)::bigint, coalesce(sum(revision), 0)::bigint FROM tenant"


class _failures:  # noqa: N801  # reads like the function it would be
    """Say the database's errors in Parley's words."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncpg.DataError | asyncpg.exceptions.UntranslatableCharacterError):
            raise Invalid(f"PostgreSQL cannot keep a value of the source: {error}") from None
        if isinstance(error, FAILURES):
            raise as_parley(error) from None


class _Tables:
    """The tables of a database, read."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    async def close(self) -> None:
        """Let go of the database."""
        self._db.terminate()

    async def count(self, table: Table) -> int:
        with _failures():
            return int(await self._db.fetchval(f"SELECT count(*) FROM {table.name}"))

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        key = ", ".join(table.key)
        behind, size = "", 0
        if after is not None:
            size = len(after)
            marks = ", ".join(f"${n}::{_type(table, one)}" for n, one in enumerate(table.key, 1))
            behind = f"WHERE ({key}) > ({marks})"
        query = f"SELECT {', '.join(table.columns)} FROM {table.name} {behind} ORDER BY {key} LIMIT ${size + 1}"
        with _failures():
            return [tuple(row) for row in await self._db.fetch(query, *(after or ()), limit)]

    async def origin(self) -> str:
        query = "SELECT id, link FROM entry JOIN tenant ON number = tenant WHERE position = 1 ORDER BY tenant LIMIT 1"
        with _failures():
            row = await self._db.fetchrow(query)
        return f"{row[0]} {row[1].hex()}" if row else ""


class PostgresShelf(_Tables):
    """See `team_ports.Shelf`; made by `open_shelf`."""

    def __init__(self, connection: Connection, beside: Connection, pulse: Pulse) -> None:
        super().__init__(connection)
        self._beside = beside
        self._pulse = pulse

    async def close(self) -> None:
        await super().close()
        self._beside.terminate()

    async def pulse(self, *, now: bool = False) -> Pulse:
        if not now:
            return self._pulse
        with _failures():
            return await _pulse(self._beside)


class FillingPostgresShelf(_Tables):
    """See `team_ports.FillingShelf`; made by `open_filling`."""

    async def pulse(self, *, now: bool = False) -> Pulse:
        del now  # nobody else writes to it
        with _failures():
            return await _pulse(self._db)

    async def begin(self, origin: str) -> None:
        with _failures():
            if not await self._db.fetchval("SELECT pg_try_advisory_lock($1)", _FILLING):
                raise Conflict("another copy is being written to this database")
            query = "SELECT name FROM node WHERE seen > clock_timestamp() - $1 * interval '1 second'"
            nodes = await self._db.fetch(query, SILENT_SECONDS)
            if nodes:
                named = ", ".join(sorted(row[0] for row in nodes))
                raise Conflict(f"a server is running on this database: {named}", hint="stop it first")
            known = {row[0]: row[1] for row in await self._db.fetch("SELECT name, value FROM about")}
            tenants = await self._db.fetchval("SELECT count(*) FROM tenant")
            used = await self._db.fetchval("SELECT count(*) FROM tenant WHERE revision > 0")
            came_from = known.get("copied_from")
            hint = "name an empty database"
            if came_from is None and tenants:
                raise Conflict("this database holds a store of its own", hint=hint)
            if came_from not in (None, origin):
                raise Conflict("this database holds the copy of another store", hint=hint)
            if used:
                raise Conflict("this database was in use since it was copied", hint=hint)
            await self._tell({"copied_from": origin, "state": schema.COPYING})

    async def put(self, table: Table, rows: Sequence[Row], gone: Sequence[Key]) -> None:
        with _failures():
            try:
                await self._put(table, rows, gone, ())
            except asyncpg.UniqueViolationError:
                if table.final:
                    raise
                # Something has what only one may have.
                await self._put(table, rows, gone, (table.key, *table.unique))

    async def _put(
        self, table: Table, rows: Sequence[Row], gone: Sequence[Key], unique: Iterable[tuple[str, ...]]
    ) -> None:
        async with self._db.transaction():
            if table.final:
                await self._append(table, rows)
                return
            await self._delete(table, table.key, gone)
            for columns in unique:
                await self._delete(table, columns, table.held(columns, rows))
            await self._insert(table, rows)

    async def _append(self, table: Table, rows: Sequence[Row]) -> None:
        there: set[int] = set()
        if table is AUDIT:  # a document that was let go of
            bare = [row[0] for row in rows if row[-1] == b""]
            if bare:
                query = "UPDATE audit SET document = '' WHERE place = ANY($1) RETURNING place"
                there = {row[0] for row in await self._db.fetch(query, bare)}
        await self._insert(table, [row for row in rows if row[0] not in there] if there else rows)

    async def _insert(self, table: Table, rows: Sequence[Row]) -> None:
        if not rows:
            return
        over = "OVERRIDING SYSTEM VALUE " if table is TENANT else ""
        statement = (
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) {over}SELECT * FROM {_unnest(table, table.columns)}"
        )
        columns = [list(column) for column in zip(*rows, strict=True)]
        if table is POST:  # a file keeps a number
            place = table.columns.index("answered")
            columns[place] = list(map(bool, columns[place]))
        await self._db.execute(statement, *columns)

    async def _delete(self, table: Table, columns: tuple[str, ...], keys: Sequence[Key]) -> None:
        if keys:
            which = " AND ".join(f"{table.name}.{one} = one.{one}" for one in columns)
            using = f"{_unnest(table, columns)} AS one ({', '.join(columns)})"
            values = [list(column) for column in zip(*keys, strict=True)]
            await self._db.execute(f"DELETE FROM {table.name} USING {using} WHERE {which}", *values)

    async def finish(self) -> None:
        """The next tenant and the next channel get numbers that nothing has; then all of it is made durable."""
        with _failures():
            await self._db.execute(
                "SELECT setval(pg_get_serial_sequence('tenant', 'number'),"
                " greatest(1, (SELECT max(number) FROM tenant))),"
                " setval(pg_get_serial_sequence('tally', 'number'),"
                " greatest(1, (SELECT max(number) FROM tally), (SELECT max(channel) FROM post)))"
            )
            await self._db.execute("ANALYZE")
            await self._tell({"state": _COPIED})

    async def _tell(self, about: dict[str, str]) -> None:
        """Durably, and with it everything that was written before."""
        async with self._db.transaction():
            await self._db.execute("SET LOCAL synchronous_commit = on")
            await self._db.executemany(
                "INSERT INTO about VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                list(about.items()),
            )


async def open_shelf(dsn: str) -> PostgresShelf:
    """A database as it is now, to be read."""
    with _failures():
        db = await _connect(dsn)
        try:
            beside = await _connect(dsn)
            try:
                await db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                await _check(db)
                return PostgresShelf(db, beside, await _pulse(db))
            except BaseException:
                beside.terminate()
                raise
        except BaseException:
            db.terminate()
            raise


async def open_filling(dsn: str) -> FillingPostgresShelf:
    """A database to be filled; its tables are made."""
    with _failures():
        db = await _connect(dsn)
        try:
            await schema.migrate(db)
            await db.execute("SET synchronous_commit = off")  # what is lost is copied again
            return FillingPostgresShelf(db)
        except BaseException:
            db.terminate()
            raise


async def _connect(dsn: str) -> Connection:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            db = await asyncpg.connect(dsn, timeout=_CONNECT_SECONDS, server_settings=_SETTINGS)
    except ValueError as error:  # the driver cannot read it
        raise Invalid(f"this is not the address of a database: {error}") from None
    await db.execute("SELECT set_config('parley.tenants', $1, false)", EVERYBODY)
    return db


async def _check(db: Connection) -> None:
    if await db.fetchval("SELECT to_regclass('about') IS NULL"):
        raise NotFound("there is no store in this database")
    version = await db.fetchval("SELECT value FROM about WHERE name = 'schema'")
    if version != str(schema.VERSION):
        hint = "start a server on it once with this Parley"
        raise Invalid(f"the database has schema {version}, this Parley copies {schema.VERSION}", hint=hint)
    if await db.fetchval("SELECT value FROM about WHERE name = 'state'") == schema.COPYING:
        raise Conflict("a copy into this database has not ended", hint="run that one again first")


async def _pulse(db: Connection) -> Pulse:
    row = await db.fetchrow(_PULSE)
    return Pulse(*row) if row is not None else Pulse(0, 0)


def _type(table: Table, column: str) -> str:
    if column in _WHOLE:
        return "bigint"
    if column in _BYTES and not (table is ENTRY and column == "document"):
        return "bytea"
    return {"answered": "boolean", "status": "integer"}.get(column, "text")


def _unnest(table: Table, columns: Iterable[str]) -> str:
    return f"unnest({', '.join(f'${n}::{_type(table, one)}[]' for n, one in enumerate(columns, 1))})"
