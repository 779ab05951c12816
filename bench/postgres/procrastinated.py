"""Jobs deferred and worked off by procrastinate, the task queue on PostgreSQL.

`python bench/postgres/procrastinated.py DSN JOBS READERS`

A program of its own, so that it can run under another Python than Parley's: procrastinate is no part of our tools.
Prints the jobs a second. The jobs are deferred before the time is taken; one worker runs as many at a time as there are
readers, and ends when none is left.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import procrastinate  # type: ignore[import-not-found]  # no part of our tools


async def main(dsn: str, jobs: int, readers: int) -> None:
    logging.disable(logging.CRITICAL)  # it logs each job
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, max_size=readers))
    done = 0

    @app.task(name="work")  # type: ignore[untyped-decorator]
    async def work(text: str) -> None:
        nonlocal done
        del text
        done += 1

    async with app.open_async():
        if await app.connector.execute_query_one_async("SELECT to_regclass('procrastinate_jobs') IS NULL AS new") == {
            "new": True
        }:
            await app.schema_manager.apply_schema_async()
        await work.batch_defer_async(*[{"text": "work"}] * jobs)
        began = time.perf_counter()
        await app.run_worker_async(concurrency=readers, wait=False, install_signal_handlers=False)
        seconds = time.perf_counter() - began
    if done != jobs:
        raise SystemExit(f"{done} of {jobs} jobs were done")
    print(jobs / seconds)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
