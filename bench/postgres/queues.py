"""Jobs claimed and finished by many readers: Parley over HTTP, beside procrastinate and a table with `SKIP LOCKED`.

All write a job durably twice, when it is claimed and when it is done, in one PostgreSQL; a reader of Parley ends a job
with the claim of the next one, in one commit. The table is what queues like procrastinate do at their core, without
their events and without a server in between. procrastinate is measured when PARLEY_BENCH_PROCRASTINATE names a Python
that has it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path

import asyncpg

from bench.channels.processes import KEY
from bench.figures import Figure
from bench.postgres.nodes import MACHINE, Result, database, in_turns, nodes, of, shown
from bench.workspace import Bench
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.queues import ClaimedJob

_READERS = 16
_BATCH = 100
_TABLE = """
CREATE TABLE IF NOT EXISTS job (
    id bigserial PRIMARY KEY, payload jsonb NOT NULL, status text NOT NULL, attempts integer NOT NULL
);
CREATE INDEX IF NOT EXISTS job_todo ON job (id) WHERE status = 'todo';
"""
_TAKE = """
UPDATE job SET status = 'doing', attempts = attempts + 1 WHERE id = (
    SELECT id FROM job WHERE status = 'todo' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id
"""
_PARLEY, _SKIP_LOCKED, _PROCRASTINATE = "any:ROLE, one node", "SKIP LOCKED", "procrastinate"
_PYTHON = "PARLEY_BENCH_PROCRASTINATE"


def _procrastinate_python() -> str:
    """The interpreter that has procrastinate; empty when none is named."""
    python = os.environ.get(_PYTHON, "")
    if python and not os.access(python, os.X_OK):
        raise SystemExit(f"error: {_PYTHON} names no program: {python}")
    return python


def run(bench: Bench) -> list[Figure]:
    jobs = 400 if bench.quick else 2_000
    with ExitStack() as stack:
        cluster = stack.enter_context(database(bench, "queues"))
        (server,) = nodes(stack, f"{bench.folder}/queues", cluster.create_database("parley"), 1)
        plain, tasks = cluster.create_database("plain"), cluster.create_database("tasks")
        sides = {
            _PARLEY: lambda: asyncio.run(_parley(server.port, jobs)),
            _SKIP_LOCKED: lambda: asyncio.run(_skip_locked(plain, jobs)),
        }
        if python := _procrastinate_python():
            sides[_PROCRASTINATE] = lambda: _procrastinate(python, tasks, jobs)
        else:
            print(f"procrastinate is skipped: install it in a venv of its own, and name its python in {_PYTHON}.")
        results = in_turns(2 if bench.quick else 5, sides)
    rows = [(name, f"{of(taken, 'rate').middle:.0f}") for name, taken in results.items()]
    print(shown((f"jobs by {_READERS} readers", "a second"), rows), flush=True)
    print(MACHINE)
    ours = of(results.pop(_PARLEY), "rate")
    what = f"jobs claimed and done by {_READERS} readers, beside"
    return [Figure("queues", f"{what} {name}", "/s", ours, of(taken, "rate")) for name, taken in results.items()]


async def _parley(port: int, jobs: int) -> Result:
    client = AsyncClient(f"http://127.0.0.1:{port}", key=KEY, agent="boss")
    readers = [client.as_agent(f"reader-{number}") for number in range(_READERS)]
    try:
        intent = await client.create_intent("jobs", status="active")
        channel = await client.create_channel(intent.id, "jobs", options={"max_messages": 10**6})
        for reader in readers:
            await client.register_agent(reader.agent, role_id="reader")
            await client.assign_agent(intent.id, reader.agent)
        message = {"to": "any:reader", "message_type": "notify", "sender": "boss", "payload": {"text": "work"}}
        for _ in range(jobs // _BATCH):
            await client.connection.send("POST", "channels", channel.id, "batch", body={"messages": [message] * _BATCH})

        async def work(reader: AsyncClient) -> int:
            done = 0
            claimed: list[ClaimedJob] = []
            while claimed := await reader.claim_jobs(reader.agent, done=claimed):
                done += len(claimed)
            return done

        return await _timed(jobs, [work(reader) for reader in readers])
    finally:
        await client.close()


async def _skip_locked(dsn: str, jobs: int) -> Result:
    connections = [await asyncpg.connect(dsn) for _ in range(_READERS)]
    try:
        await connections[0].execute(_TABLE)
        await connections[0].execute("DELETE FROM job")
        rows = [('{"text":"work"}',)] * jobs
        await connections[0].executemany("INSERT INTO job (payload, status, attempts) VALUES ($1, 'todo', 0)", rows)

        async def work(connection: asyncpg.Connection[asyncpg.Record]) -> int:
            done = 0
            while (taken := await connection.fetchval(_TAKE)) is not None:
                await connection.execute("UPDATE job SET status = 'done' WHERE id = $1", taken)
                done += 1
            return done

        return await _timed(jobs, [work(connection) for connection in connections])
    finally:
        for connection in connections:
            await connection.close()


def _procrastinate(python: str, dsn: str, jobs: int) -> Result:
    command = [python, str(Path(__file__).with_name("procrastinated.py")), dsn, str(jobs), str(_READERS)]
    return {"rate": float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)}


async def _timed(jobs: int, works: list[Coroutine[None, None, int]]) -> Result:
    began = time.perf_counter()
    done = sum(await asyncio.gather(*works))
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} jobs were done")
    return {"rate": jobs / (time.perf_counter() - began)}
