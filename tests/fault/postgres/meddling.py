"""What a database does to the nodes behind their backs, for exactly as long as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.postgres.cluster import Cluster

_BEGUN, _GOES_ON = 1, 2
_AGAIN = """DO $$ BEGIN
    PERFORM pg_advisory_xact_lock({begun});
    LOOP
        PERFORM pg_stat_clear_snapshot();
        {act};
        EXIT WHEN pg_try_advisory_xact_lock({goes_on});
        PERFORM pg_sleep(0.001);
    END LOOP;
END $$"""
_HAS_BEGUN = f"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = {_BEGUN}"
_LISTENERS = "pg_stat_activity WHERE application_name LIKE '%listens%' AND datname = $1"
END_LISTENERS = f"SELECT pg_terminate_backend(pid) FROM {_LISTENERS}"


@asynccontextmanager
async def again_and_again(cluster: Cluster, act: str) -> AsyncIterator[None]:
    """The database does this from before the block until after it, a thousand times a second."""
    holder = await asyncpg.connect(cluster.dsn(user="postgres"))
    doing: asyncio.Future[object] | None = None
    try:
        await holder.execute(f"SELECT pg_advisory_lock({_GOES_ON})")
        statement = _AGAIN.format(act=act, begun=_BEGUN, goes_on=_GOES_ON)
        doing = asyncio.get_running_loop().run_in_executor(None, cluster.ask, statement)
        while not doing.done() and not await holder.fetch(_HAS_BEGUN):  # noqa: ASYNC110  # the database says it
            await asyncio.sleep(0.01)
        yield
    finally:
        await holder.close()
        if doing is not None:
            await doing


@asynccontextmanager
async def nobody_listening(cluster: Cluster, database: str) -> AsyncIterator[None]:
    """No node hears of anything: who listened is ended, and nobody can connect anew to come back to it."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, cluster.ask, f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS false')
    try:
        # One that was about to connect may still have come in.
        while await loop.run_in_executor(None, cluster.ask, END_LISTENERS, database):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        yield
    finally:
        await loop.run_in_executor(None, cluster.ask, f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS true')
