"""The state of a server that has its store in a file."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from parley.domain.store.node import StoreReport

if TYPE_CHECKING:
    from parley.adapters.sqlite.team.store import SqliteTeamStore
    from parley.domain.store.node import Node


class SqliteNodes:
    """See `ports.team.Condition`."""

    def __init__(self, store: SqliteTeamStore) -> None:
        self._store = store

    def measured(self, node: Node) -> Node:
        return node._replace(queue=self._store.queued)

    async def report(self) -> StoreReport:
        path = self._store.path
        return StoreReport(
            "sqlite",
            sqlite3.sqlite_version,
            tenants=await self._store.tenants(),
            bytes=_file_bytes(path),
            log_bytes=_file_bytes(f"{path}-wal"),
        )


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
