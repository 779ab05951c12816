"""How a server's file is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from parley.adapters.sqlite.team.nodes import SqliteNodes
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.domain.directory.callers import DEFAULT_TENANT, Role
from parley.domain.store.changes import TeamChanges
from parley.domain.store.node import Node
from tests.rigs.team import in_loop, kinds

A_ROLE = TeamChanges(DEFAULT_TENANT, puts=(Role(id="role_1", tenant_id=DEFAULT_TENANT),))


@asynccontextmanager
async def a_store(path: Path) -> AsyncIterator[SqliteTeamStore]:
    store = SqliteTeamStore(str(path), kinds(), durable=False)
    try:
        yield store
    finally:
        await store.close()


@in_loop
async def test_the_file_and_its_log_are_measured_and_nothing_is_said_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    async with a_store(path) as store:
        await store.commit(A_ROLE)

        report = await SqliteNodes(store).report()

        assert (report.kind, report.version, report.tenants) == ("sqlite", sqlite3.sqlite_version, 1)
        assert report.bytes == path.stat().st_size
        assert report.log_bytes == path.with_name("team.db-wal").stat().st_size > 0
        assert (report.most_connections, report.replicas, report.standbys) == (0, (), "")


@in_loop
async def test_what_is_not_durable_yet_is_queued(tmp_path: Path) -> None:
    async with a_store(tmp_path / "team.db") as store:
        condition = SqliteNodes(store)
        commits = [asyncio.ensure_future(store.commit(TeamChanges(DEFAULT_TENANT))) for _ in range(3)]
        await asyncio.sleep(0)

        before = condition.measured(Node("a")).queue
        await asyncio.gather(*commits)

        assert (before, condition.measured(Node("a")).queue) == (3, 0)
