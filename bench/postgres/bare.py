"""The same rows without Parley: one INSERT a transaction by pgbench, and groups behind a locked counter by asyncpg.

`python -m bench.postgres.bare DSN` takes jobs as lines of JSON, like the load: `grouped` keeps so many rows under way;
what has queued up is written in one transaction, as the store does it.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import asyncpg
import msgspec
import uvloop

from bench.channels.load import Job, Result, summary
from bench.channels.posts import TEXT
from parley.adapters.postgres import schema
from tests.postgres.programs import environment, programs

_PAYLOAD = msgspec.json.encode({"text": TEXT})
_AT = "2026-03-13T08:00:00.000000+00:00"
_POST = [*["bigint"] * 3, *["text"] * 9, "boolean", "bytea", "bytea", "text"]
_INSERT = f"INSERT INTO post SELECT * FROM unnest({', '.join(f'${n}::{kind}[]' for n, kind in enumerate(_POST, 1))})"
# As pgbench has it: numbers from a sequence, which is what a queue in a table does, and what skips at cursors.
_ONE = f"""
WITH one AS (SELECT nextval('bench') AS n)
INSERT INTO post SELECT n, 1, n, 'msg_' || lpad(n::text, 26, '0'), 'asker', '', 'notify', '', '{_AT}', '', 'delivered',
NULL, false, '\\x{_PAYLOAD.hex()}'::bytea, '\\x7b7d'::bytea, '' FROM one;
"""


def prepare(dsn: str) -> None:
    """The tables of the store with all their indexes, and no row security: what a bare program would have."""

    async def create_tables() -> None:
        db = await asyncpg.connect(dsn)
        await schema.migrate(db)
        await db.execute("ALTER TABLE post DISABLE ROW LEVEL SECURITY; CREATE SEQUENCE bench CACHE 1")
        await db.execute("INSERT INTO tenant (id) VALUES ('default')")
        await db.close()

    asyncio.run(create_tables())


def pgbench(dsn: str, connections: int, seconds: int) -> Result:
    """Rate and times of one INSERT a transaction, durable, over so many connections."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "insert.sql"
        script.write_text(" ".join(_ONE.split("\n")).strip() + "\n")
        options = ["-n", "-M", "prepared", "-c", str(connections), "-j", "2", "-T", str(seconds), "-l"]
        command = [_program(), *options, "--log-prefix", f"{folder}/log", "-f", str(script), dsn]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment())
        if done.returncode:
            raise RuntimeError(done.stderr)
        times = [
            int(line.split(" ", 3)[2]) / 1e6
            for file in Path(folder).glob("log*")
            for line in file.read_text().splitlines()
        ]
    rate_lines = [line for line in done.stdout.splitlines() if line.startswith("tps")]
    if not rate_lines or not times:  # its connections were not even made in that time
        return pgbench(dsn, connections, 2 * seconds)
    return summary(times) | {"rate": float(rate_lines[0].split()[2]), "all": len(times)}


def _program() -> str:
    path = programs() / "pgbench"
    program = str(path) if os.access(path, os.X_OK) else shutil.which("pgbench")
    if program is None:
        raise RuntimeError("no pgbench beside the programs of PostgreSQL")
    return program


class Grouped:
    """One connection that writes what has queued up, while the next queue gathers."""

    def __init__(self, db: asyncpg.Connection[asyncpg.Record]) -> None:
        self._db = db
        self._queue: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self.transactions = 0
        self.rows = 0

    def write(self) -> asyncio.Future[None]:
        """One row; done when it is durable."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(future)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        return future

    async def _run(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            async with self._db.transaction():
                head = await self._db.fetchval("SELECT head FROM tenant WHERE number = 1 FOR UPDATE")
                await self._db.execute(_INSERT, *_columns(head, len(batch)))
                await self._db.execute("UPDATE tenant SET head = $1 WHERE number = 1", head + len(batch))
            self.transactions += 1
            self.rows += len(batch)
            for future in batch:
                future.set_result(None)


def _columns(head: int, size: int) -> list[list[object]]:
    numbers = [(1 << 40) + head + offset for offset in range(1, size + 1)]
    rows = [
        (n, 2, n, f"msg_{n:026d}", "asker", "", "notify", "", _AT, "", "delivered", None, False, _PAYLOAD, b"{}", "")
        for n in numbers
    ]
    return [list(column) for column in zip(*rows, strict=True)]


async def grouped(writers: list[Grouped], job: Job) -> Result:
    """So many rows always under way."""
    begin = time.perf_counter() + job["warm"]
    end, times, within = begin + job["seconds"], list[float](), list[bool]()
    before = sum(writer.transactions for writer in writers), sum(writer.rows for writer in writers)

    async def keep_writing(writer: Grouped) -> None:
        for _ in count():
            sent = time.perf_counter()
            if sent >= end:
                return
            await writer.write()
            now = time.perf_counter()
            within.append(begin <= now <= end)
            if sent >= begin:
                times.append(now - sent)

    await asyncio.gather(*[keep_writing(writers[n % len(writers)]) for n in range(job["connections"])])
    transactions = sum(writer.transactions for writer in writers) - before[0]
    rows = sum(writer.rows for writer in writers) - before[1]
    return summary(times) | {"rate": sum(within) / job["seconds"], "group": rows / transactions}


async def main(dsn: str) -> None:
    writers = [Grouped(await asyncpg.connect(dsn))]
    while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        print(msgspec.json.encode(await grouped(writers, msgspec.json.decode(line))).decode(), flush=True)


def whole(seconds: float) -> int:
    """pgbench counts whole seconds."""
    return math.ceil(seconds)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
