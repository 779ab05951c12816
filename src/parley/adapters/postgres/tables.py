"""A database of the team's store as plain tables: read as of one moment while nodes write, or filled from another.

While it is filled, the database itself says so (`schema.COPYING`): no node starts on it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import asyncpg

from parley.adapters.postgres import pooler as pooling
from parley.adapters.postgres import schema
from parley.adapters.postgres.connect import FAILURES, connect, to_parley_error
from parley.adapters.postgres.sessions import ALL_TENANTS
from parley.domain.errors.errors import BadConfig, Conflict, Invalid, NotFound
from parley.domain.store.node import SILENT_SECONDS
from parley.domain.store.tables import AUDIT, ENTRY, PAGE_BYTES, POST, TABLES, TENANT, Servers, StoreMark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from types import TracebackType

    from parley.domain.store.tables import Key, Row, Table

    Connection = asyncpg.Connection[asyncpg.Record]

_CONNECT_SECONDS = 10.0
# What our own connections are called, after "parley".
_NAME = "store copy"
_COPIED = "copied"
# Held by who fills a database, for as long as it is connected. "copy" in ASCII.
_COPY_LOCK = 0x636F7079
_UNLOCK_SECONDS = 2
# A snapshot is held for as long as a copy takes, and waits while the other side writes. Not every version knows all.
_NO_TIMEOUTS = (
    "SELECT set_config(name, '0', false) FROM pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')"
)
# Whole tables are read here: unlike a node, this one leaves it to the database how.
_SETTINGS = (
    "SELECT set_config('lock_timeout', '10000', false), set_config('enable_seqscan', 'on', false),"
    " set_config('enable_bitmapscan', 'on', false), set_config('plan_cache_mode', 'auto', false),"
    " set_config('parley.tenants', $1, false)"
)
_BIGINT_COLUMNS = frozenset(
    {
        *("number", "tenant", "head", "entry_position", "audit_number", "version", "count", "seq", "floor"),
        *("channel", "sequence", "position", "place", "spent", "low", "high"),
    }
)
_BYTEA_COLUMNS = frozenset({"entry_link", "document", "link", "payload", "metadata", "answer"})
# A node that stops takes its leave first, and goes on answering for a while; one that is frozen does not beat. Both
# are connected.
_CONNECTED = (
    "SELECT DISTINCT regexp_replace(application_name, '^parley (.*?)( writes| listens)?$', '\\1') FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'parley %' AND application_name NOT LIKE $1"
)
_LIVE_NODES = (
    "SELECT name, seen > clock_timestamp() - $1 * interval '1 second' FROM node"
    " WHERE seen > clock_timestamp() - $2 * interval '1 second' ORDER BY name"
)
# One that fell silent longer ago is forgotten.
_GONE_SECONDS = 3_600.0
# The database needs a moment to notice that a process has ended.
_FAREWELL_SECONDS = 3.0
_RETRY_SECONDS = 0.05
# Tables that go by our names, where the one is not ours that all begins with.
_FOREIGN_TABLES = (
    "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY ($1) AND NOT EXISTS"
    " (SELECT FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND table_name = 'about' AND column_name = 'value') ORDER BY tablename"
)
_PULSE = "SELECT coalesce(sum(head), 0)::bigint, coalesce(sum(revision), 0)::bigint FROM tenant"


# What it says of a value that it has no way to keep: the database, and the driver before it is asked.
_VALUE_ERRORS = (asyncpg.DataError, ValueError)


class postgres_errors:  # noqa: N801  # reads like the function it would be
    """Raise the database's errors as Parley errors."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FAILURES):
            raise to_parley_error(error) from None


class _TableReader:
    """The tables of a database, read."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    async def close(self) -> None:
        """Close the connection."""
        self._db.terminate()

    async def count(self, table: Table) -> int:
        with postgres_errors():
            return int(await self._db.fetchval(f"SELECT count(*) FROM {table.name}"))

    async def page(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        key = ", ".join(table.key)
        behind, size = "", 0
        if after is not None:
            size = len(after)
            marks = ", ".join(f"${n}::{_type(table, column)}" for n, column in enumerate(table.key, 1))
            behind = f"WHERE ({key}) > ({marks})"
        columns = ", ".join(table.columns)
        query = f"SELECT {columns} FROM {table.name} {behind} ORDER BY {key} LIMIT ${size + 1}"
        if table.long:
            # How long they are is known without reading them.
            length = " + ".join(f"octet_length({column})" for column in table.long)
            before = f"sum({length}) OVER (ORDER BY {key} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
            query = f"SELECT {columns} FROM (SELECT *, {before} FROM ({query}) AS found) AS page"
            query += f" WHERE before IS NULL OR before < {PAGE_BYTES} ORDER BY {key}"
        with postgres_errors():
            return [tuple(row) for row in await self._db.fetch(query, *(after or ()), limit)]

    async def origin(self) -> str:
        query = "SELECT id, link FROM entry JOIN tenant ON number = tenant WHERE position = 1 ORDER BY tenant LIMIT 1"
        with postgres_errors():
            row = await self._db.fetchrow(query)
        return f"{row[0]} {row[1].hex()}" if row else ""


async def _find_servers(db: Connection) -> Servers:
    """Which nodes there are. One without a beat may be on its way out, and is waited for a little."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _FAREWELL_SECONDS
    with postgres_errors():
        while True:
            node_rows = await db.fetch(_LIVE_NODES, SILENT_SECONDS, _GONE_SECONDS)
            beating = {row[0] for row in node_rows if row[1]}
            connected = {row[0] for row in await db.fetch(_CONNECTED, f"parley {_NAME}%")}
            if beating or not connected or loop.time() > end:
                silent = {row[0] for row in node_rows} - beating - connected
                return Servers(tuple(sorted(beating | connected)), tuple(sorted(silent)))
            await asyncio.sleep(_RETRY_SECONDS)


class PostgresTables(_TableReader):
    """See `ports.team.StoreTables` and `StoreUse`; opened by `open_tables`."""

    def __init__(self, connection: Connection, beside: Connection, pulse: StoreMark) -> None:
        super().__init__(connection)
        self._beside = beside
        self._pulse = pulse

    async def close(self) -> None:
        await super().close()
        self._beside.terminate()

    async def mark(self, *, now: bool = False) -> StoreMark:
        if not now:
            return self._pulse
        with postgres_errors():
            return await _pulse(self._beside)

    async def servers(self) -> Servers:
        return await _find_servers(self._beside)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        # A node migrates before it looks whether it may start, and waits for this lock.
        with postgres_errors():
            await self._beside.execute(f"SELECT pg_advisory_lock({schema.MIGRATION_LOCK})")
        try:
            yield
        finally:
            with postgres_errors():
                await self._beside.execute(f"SELECT pg_advisory_unlock({schema.MIGRATION_LOCK})")

    async def moved_to(self) -> str:
        with postgres_errors():
            return str(await self._beside.fetchval("SELECT value FROM about WHERE name = $1", schema.MOVED_TO) or "")

    async def mark_moved(self, place: str) -> None:
        with postgres_errors():
            await _write_about(self._beside, {schema.MOVED_TO: place})


class PostgresTarget(_TableReader):
    """See `ports.team.StoreTarget`; opened by `open_target`."""

    async def close(self) -> None:
        # A terminated connection keeps its locks until the database notices, and the next copy would be refused.
        with suppress(*FAILURES):
            await self._db.execute("SELECT pg_advisory_unlock_all()", timeout=_UNLOCK_SECONDS)
        await super().close()

    async def mark(self, *, now: bool = False) -> StoreMark:
        del now  # there is no other writer
        with postgres_errors():
            return await _pulse(self._db)

    async def begin(self, origin: str) -> None:
        with postgres_errors():
            if not await self._db.fetchval("SELECT pg_try_advisory_lock($1)", _COPY_LOCK):
                raise Conflict("another copy is being written to this database")
            await self._check_no_servers()
            about = {row[0]: row[1] for row in await self._db.fetch("SELECT name, value FROM about")}
            tenants = await self._db.fetchval("SELECT count(*) FROM tenant")
            used = await self._db.fetchval("SELECT count(*) FROM tenant WHERE revision > 0")
            schema.check_not_moved(about.get(schema.MOVED_TO, ""))
            came_from = about.get("copied_from") or None
            hint = "name an empty database"
            if came_from is None and tenants:
                raise Conflict("this database holds a store of its own", hint=hint)
            if came_from not in (None, origin):
                raise Conflict("this database holds the copy of another store", hint=hint)
            if used:
                raise Conflict("this database was in use since it was copied", hint=hint)
            await _write_about(self._db, {"copied_from": origin, "state": schema.COPYING})
            try:
                await self._check_no_servers()  # one that begins at this moment: it sees what we said, or we see it
            except Conflict:
                await _write_about(self._db, {name: about.get(name, "") for name in ("copied_from", "state")})
                raise

    async def _check_no_servers(self) -> None:
        running = (await _find_servers(self._db)).running
        if running:
            raise Conflict(f"a server is running on this database: {', '.join(running)}", hint="stop it first")

    async def put(self, table: Table, rows: Sequence[Row], gone: Sequence[Key]) -> None:
        with postgres_errors():
            try:
                await self._put(table, rows, gone, ())
            except asyncpg.UniqueViolationError:
                if table.final:
                    raise
                # Something has what only one may have.
                await self._put(table, rows, gone, (table.key, *table.unique))
            except _VALUE_ERRORS as error:
                raise Invalid(
                    _describe_unstorable(table, rows) or f"PostgreSQL cannot keep the source's {table.name}: {error}"
                ) from None

    async def _put(
        self, table: Table, rows: Sequence[Row], gone: Sequence[Key], unique: Iterable[tuple[str, ...]]
    ) -> None:
        async with self._db.transaction():
            if table.final:
                await self._append(table, rows)
                return
            await self._delete(table, table.key, gone)
            for columns in unique:
                await self._delete(table, columns, table.values_in(columns, rows))
            await self._insert(table, rows)

    async def _append(self, table: Table, rows: Sequence[Row]) -> None:
        existing: set[int] = set()
        if table is AUDIT:  # a trimmed document
            trimmed = [row[0] for row in rows if row[-1] == b""]
            if trimmed:
                query = "UPDATE audit SET document = '' WHERE place = ANY($1) RETURNING place"
                existing = {row[0] for row in await self._db.fetch(query, trimmed)}
        await self._insert(table, [row for row in rows if row[0] not in existing] if existing else rows)

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
            condition = " AND ".join(f"{table.name}.{column} = one.{column}" for column in columns)
            using = f"{_unnest(table, columns)} AS one ({', '.join(columns)})"
            values = [list(column) for column in zip(*keys, strict=True)]
            await self._db.execute(f"DELETE FROM {table.name} USING {using} WHERE {condition}", *values)

    async def finish(self) -> None:
        """The next tenant and the next channel get numbers that nothing has; then all of it is made durable."""
        with postgres_errors():
            await self._db.execute(
                "SELECT setval(pg_get_serial_sequence('tenant', 'number'),"
                " greatest(1, (SELECT max(number) FROM tenant))),"
                " setval(pg_get_serial_sequence('tally', 'number'),"
                " greatest(1, (SELECT max(number) FROM tally), (SELECT max(channel) FROM post)))"
            )
            await self._db.execute("ANALYZE")
            await _write_about(self._db, {"state": _COPIED})


async def _write_about(db: Connection, about: dict[str, str]) -> None:
    """Durably, and with it everything that was written before."""
    async with db.transaction():
        await db.execute("SET LOCAL synchronous_commit = on")
        await db.executemany(
            "INSERT INTO about VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            list(about.items()),
        )


async def open_tables(dsn: str) -> PostgresTables:
    """A database as it is now, to be read."""
    with postgres_errors():
        db = await _connect(dsn)
        try:
            beside = await _connect(dsn)
            try:
                await db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                await _check_source(db)
                return PostgresTables(db, beside, await _pulse(db))
            except BaseException:
                beside.terminate()
                raise
        except BaseException:
            db.terminate()
            raise


async def open_target(dsn: str) -> PostgresTarget:
    """A database to be filled; its tables are made. `BadConfig` for one on which no server would start afterwards."""
    with postgres_errors():
        db = await _connect(dsn)
        try:
            await schema.check_settings(db, durable=True)
            await _check_free(db)
            await schema.migrate(db)
            await db.execute("SET synchronous_commit = off")  # what is lost is copied again
            return PostgresTarget(db)
        except BaseException:
            db.terminate()
            raise


async def _connect(dsn: str) -> Connection:
    db = await connect(dsn, _NAME, _CONNECT_SECONDS)
    try:
        await pooling.check(db, partial(connect, dsn, _NAME))
        await db.execute(_NO_TIMEOUTS)
        await db.execute(_SETTINGS, ALL_TENANTS)
    except BaseException:
        db.terminate()
        raise
    return db


async def _check_source(db: Connection) -> None:
    if await db.fetchval("SELECT pg_is_in_recovery()"):
        hint = "name the primary, or add target_session_attrs=read-write to an address with several hosts"
        raise BadConfig("this database is a replica: it may lack what was acknowledged already", hint=hint)
    if await db.fetchval("SELECT to_regclass('about') IS NULL"):
        raise NotFound("no store in this database")
    version = await db.fetchval("SELECT value FROM about WHERE name = 'schema'")
    if version != str(schema.VERSION):
        hint = "start a server on it once with this Parley"
        raise Invalid(f"the database has schema {version}, this Parley copies {schema.VERSION}", hint=hint)
    if await db.fetchval("SELECT value FROM about WHERE name = 'state'") == schema.COPYING:
        raise Conflict("a copy into this database has not ended", hint="run that one again first")


async def _check_free(db: Connection) -> None:
    """Refuse a database in which another program has tables of our names."""
    names = [row[0] for row in await db.fetch(_FOREIGN_TABLES, ["about", *(table.name for table in TABLES)])]
    if names:
        problem = f"another program has tables in this database: {', '.join(names)}"
        raise Conflict(problem, hint="make a database for Parley alone")


async def _pulse(db: Connection) -> StoreMark:
    row = await db.fetchrow(_PULSE)
    return StoreMark(*row) if row is not None else StoreMark(0, 0)


def _type(table: Table, column: str) -> str:
    if column in _BIGINT_COLUMNS:
        return "bigint"
    if column in _BYTEA_COLUMNS and not (table is ENTRY and column == "document"):
        return "bytea"
    return {"answered": "boolean", "status": "integer"}.get(column, "text")


def _describe_unstorable(table: Table, rows: Iterable[Row]) -> str:
    """Which value of which row it is that cannot be kept here; a file keeps anything anywhere."""
    for row in rows:
        for column, value in zip(table.columns, row, strict=True):
            if not _is_storable(_type(table, column), value):
                where = f"the {column} of the {table.name} with {table.key_text(table.key_of(row))}"
                return f"PostgreSQL cannot keep {where}: {str(value)[:40]!a}"
    return ""


def _is_storable(kind: str, value: object) -> bool:
    if kind == "text":
        return value is None or (isinstance(value, str) and "\x00" not in value)
    if kind == "bytea":
        return isinstance(value, bytes)
    return isinstance(value, int)


def _unnest(table: Table, columns: Iterable[str]) -> str:
    return f"unnest({', '.join(f'${n}::{_type(table, column)}[]' for n, column in enumerate(columns, 1))})"
