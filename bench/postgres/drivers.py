"""asyncpg beside psycopg 3, as a store would use them: groups of rows behind a locked counter, and single reads by key.

Both speak binary, prepare what they repeat, and run on uvloop, so many connections at a time. "In pipelines" is
psycopg's pipeline mode: the rest of a transaction, or a row of reads, without waiting for each answer. The server
writes to disk at every commit.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import asyncpg
import psycopg
import uvloop

from bench.channels.posts import TEXT
from bench.figures import Figure
from bench.measure import Sample
from bench.workspace import Bench
from tests.postgres.cluster import Cluster

_GROUP = 64
_CONNECTIONS = 4
_TABLES = """
CREATE TABLE head (tenant bigint PRIMARY KEY, head bigint NOT NULL);
CREATE TABLE post (number bigint PRIMARY KEY, id text COLLATE "C" NOT NULL, sender text COLLATE "C" NOT NULL,
    payload bytea NOT NULL, created_at text COLLATE "C" NOT NULL);
"""
_LOCK = "SELECT head FROM head WHERE tenant = {} FOR UPDATE"
_INSERT = "INSERT INTO post SELECT * FROM unnest({}::bigint[], {}::text[], {}::text[], {}::bytea[], {}::text[])"
_MOVE = "UPDATE head SET head = {} WHERE tenant = {}"
_READ = "SELECT id, sender, payload, created_at FROM post WHERE number = {}"
_TENANT = 1 << 40
R = TypeVar("R")
Act = Callable[[], Awaitable[None]]
Columns = tuple[list[int], list[str], list[str], list[bytes], list[str]]


class Driver(Protocol):
    """One connection."""

    async def write(self, tenant: int) -> None:
        """One transaction: lock the counter, write a group of rows behind it, move it."""

    async def read(self, numbers: list[int]) -> None:
        """Each of these rows, with a question of its own."""


class Asyncpg:
    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection
        self._lock, self._insert = _LOCK.format("$1"), _INSERT.format("$1", "$2", "$3", "$4", "$5")
        self._move, self._read = _MOVE.format("$1", "$2"), _READ.format("$1")

    async def write(self, tenant: int) -> None:
        async with self._connection.transaction():
            head = await self._connection.fetchval(self._lock, tenant)
            await self._connection.execute(self._insert, *rows(tenant, head))
            await self._connection.execute(self._move, head + _GROUP, tenant)

    async def read(self, numbers: list[int]) -> None:
        for number in numbers:
            required(await self._connection.fetchrow(self._read, number))


class Psycopg:
    _lock, _insert = _LOCK.format("%b"), _INSERT.format(*["%b"] * 5)
    _move, _read = _MOVE.format("%b", "%b"), _READ.format("%b")

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)

    async def write(self, tenant: int) -> None:
        async with self._connection.transaction():
            head = await self._locked(tenant)
            await self._cursor.execute(self._insert, rows(tenant, head), prepare=True)
            await self._cursor.execute(self._move, (head + _GROUP, tenant), prepare=True)

    async def read(self, numbers: list[int]) -> None:
        for number in numbers:
            await self._cursor.execute(self._read, (number,), prepare=True)
            required(await self._cursor.fetchone())

    async def _locked(self, tenant: int) -> int:
        await self._cursor.execute(self._lock, (tenant,), prepare=True)
        row = await self._cursor.fetchone()
        return int(required(row)[0])


class PsycopgInPipelines(Psycopg):
    async def write(self, tenant: int) -> None:
        # BEGIN and COMMIT travel with their neighbours; only the counter has to be waited for.
        async with self._connection.pipeline(), self._connection.transaction():
            head = await self._locked(tenant)
            await self._cursor.execute(self._insert, rows(tenant, head), prepare=True)
            await self._cursor.execute(self._move, (head + _GROUP, tenant), prepare=True)

    async def read(self, numbers: list[int]) -> None:
        async with self._connection.pipeline():
            cursors = [
                await self._connection.execute(self._read, (number,), prepare=True, binary=True) for number in numbers
            ]
        for cursor in cursors:
            required(await cursor.fetchone())


class Cost(NamedTuple):
    """Of one row: how many in a second, and the client's seconds of CPU."""

    rate: float
    cpu: float


def run(bench: Bench) -> list[Figure]:
    os.chmod(bench.folder, 0o711)  # the server's account goes through it
    cluster = Cluster(Path(bench.folder) / "postgres", {"shared_buffers": "256MB", "max_wal_size": "4GB"})
    try:
        cluster.make()
        cluster.start()
        dsn = cluster.create_database("drivers")
        return uvloop.run(_compare(dsn, turns=bench.repeat(10), seconds=1.0 if bench.quick else 2.0))
    finally:
        cluster.end()


async def _compare(dsn: str, turns: int, seconds: float) -> list[Figure]:
    async with AsyncExitStack() as stack:
        sides = [await _asyncpgs(dsn, stack), await _psycopgs(dsn, stack), await _psycopgs(dsn, stack, Psycopg)]
        writes: list[list[Cost]] = [[] for _ in sides]
        reads: list[list[Cost]] = [[] for _ in sides]
        for turn in range(turns + 1):  # the first is to get warm
            for number in range(len(sides)) if turn % 2 else reversed(range(len(sides))):
                writes[number].append(await _spent(_writers(sides[number]), seconds, _GROUP))
                reads[number].append(await _spent(_readers(sides[number]), seconds, _GROUP))
    return [
        figure
        for what, costs in ((f"rows written, {_GROUP} in a transaction", writes), ("rows read, one by one", reads))
        for other, theirs in (("psycopg in pipelines", costs[1]), ("psycopg", costs[2]))
        for figure in _figures(f"{what}: asyncpg, {other}", costs[0][1:], theirs[1:])
    ]


def _figures(what: str, ours: list[Cost], theirs: list[Cost]) -> list[Figure]:
    rates = [Sample(tuple(cost.rate for cost in side)) for side in (ours, theirs)]
    cpus = [Sample(tuple(cost.cpu for cost in side)) for side in (ours, theirs)]
    return [
        Figure("drivers", what, "/s", rates[0], rates[1]),
        Figure("drivers", f"{what}: CPU a row", "us", cpus[0], cpus[1]),
    ]


async def _asyncpgs(dsn: str, stack: AsyncExitStack) -> list[Driver]:
    connections = [await asyncpg.connect(dsn) for _ in range(_CONNECTIONS)]
    for connection in connections:
        stack.push_async_callback(connection.close)
    await connections[0].execute(_TABLES)
    for tenant in range(_CONNECTIONS):
        await connections[0].execute("INSERT INTO head VALUES ($1, 0)", tenant)
    return [Asyncpg(connection) for connection in connections]


async def _psycopgs(dsn: str, stack: AsyncExitStack, kind: type[Psycopg] = PsycopgInPipelines) -> list[Driver]:
    drivers: list[Driver] = []
    for _ in range(_CONNECTIONS):
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        stack.push_async_callback(connection.close)
        drivers.append(kind(connection))
    return drivers


def _writers(side: list[Driver]) -> list[Act]:
    return [partial(driver.write, tenant) for tenant, driver in enumerate(side)]


def _readers(side: list[Driver]) -> list[Act]:
    return [_reader(driver, tenant) for tenant, driver in enumerate(side)]


def _reader(driver: Driver, tenant: int) -> Act:
    positions = itertools.count(0)

    def read() -> Awaitable[None]:
        return driver.read([tenant * _TENANT + next(positions) * 7 % _GROUP + 1 for _ in range(_GROUP)])

    return read


async def _spent(acts: list[Act], seconds: float, each: int) -> Cost:
    """Every act again and again, side by side, until the time is over."""
    began, worked = time.perf_counter(), time.process_time()
    end = began + seconds

    async def again(act: Act) -> int:
        times = 0
        while time.perf_counter() < end:
            await act()
            times += 1
        return times

    done = each * sum(await asyncio.gather(*map(again, acts)))
    return Cost(done / (time.perf_counter() - began), (time.process_time() - worked) / done)


def rows(tenant: int, head: int) -> Columns:
    numbers = [tenant * _TENANT + head + offset for offset in range(1, _GROUP + 1)]
    return (
        numbers,
        [f"msg_{number:026d}" for number in numbers],
        ["bench-agent"] * _GROUP,
        [TEXT.encode()] * _GROUP,
        ["2026-03-13T08:00:00.000000+00:00"] * _GROUP,
    )


def required(row: R | None) -> R:
    if row is None:
        raise RuntimeError("a row is missing")
    return row
