"""Jobs claimed and finished by many readers: Parley over HTTP, beside a table with `SKIP LOCKED` in one PostgreSQL.

Both write a job durably twice, when it is claimed and when it is done. The table is what queues like procrastinate do
at their core, without their events and without a server in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import ExitStack

import asyncpg

from bench.channels.processes import KEY
from bench.figures import Figure
from bench.postgres.nodes import MACHINE, Result, database, in_turns, nodes, of, shown
from bench.workspace import Bench
from parley.sdk.client.client import AsyncClient

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
_PARLEY, _SKIP_LOCKED = "any:ROLE, one node", "SKIP LOCKED"


def run(bench: Bench) -> list[Figure]:
    jobs = 400 if bench.quick else 2_000
    with ExitStack() as stack:
        cluster = stack.enter_context(database(bench, "queues"))
        (server,) = nodes(stack, f"{bench.folder}/queues", cluster.create_database("parley"), 1)
        plain = cluster.create_database("plain")
        results = in_turns(
            2 if bench.quick else 5,
            {
                _PARLEY: lambda: asyncio.run(_parley(server.port, jobs)),
                _SKIP_LOCKED: lambda: asyncio.run(_skip_locked(plain, jobs)),
            },
        )
    rows = [(name, f"{of(taken, 'rate').middle:.0f}") for name, taken in results.items()]
    print(shown((f"jobs by {_READERS} readers", "a second"), rows), flush=True)
    print(MACHINE)
    ours, theirs = (of(results[name], "rate") for name in (_PARLEY, _SKIP_LOCKED))
    return [Figure("queues", f"jobs claimed and done by {_READERS} readers, beside SKIP LOCKED", "/s", ours, theirs)]


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
            while claimed := await reader.claim_jobs(reader.agent):
                for job in claimed:
                    await reader.finish_job(reader.agent, job.id, job.lease)
                    done += 1
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


async def _timed(jobs: int, works: list[Coroutine[None, None, int]]) -> Result:
    began = time.perf_counter()
    done = sum(await asyncio.gather(*works))
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} jobs were done")
    return {"rate": jobs / (time.perf_counter() - began)}
