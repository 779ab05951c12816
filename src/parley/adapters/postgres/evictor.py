"""Removes evicted messages outside the commits: they are invisible already, and the head rows need not be locked.

Where a node dies before it has done it, the next eviction of the channel removes it, too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.adapters.postgres.sessions import Sessions
    from parley.domain.store.writes import EvictPosts

_log = logging.getLogger("parley.postgres")
REMOVE = (
    "WITH gone AS (DELETE FROM post WHERE channel = $1 AND seq <= $2 AND ($3 OR NOT EXISTS (SELECT 1 FROM record"
    " WHERE record.tenant = $4 AND record.kind = 'job' AND record.id = post.id)) RETURNING id)"
    " DELETE FROM receipt WHERE post_id IN (SELECT id FROM gone)"
)
# Batch size: removing all at once could exceed the timeout.
FORGET = (
    "WITH gone AS (DELETE FROM saved WHERE scope IN (SELECT scope FROM saved WHERE at < $1 LIMIT 10000) RETURNING 1)"
    " SELECT 1 FROM gone LIMIT 1"
)


class Evictor:
    """Removes evicted messages in the background, one channel after the other."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._due: dict[int, EvictPosts] = {}
        self._keys_before = ""
        self._task: asyncio.Task[None] | None = None

    def enqueue(self, evicted: Iterable[EvictPosts]) -> None:
        """Remove these, soon."""
        self._due.update({eviction.channel: eviction for eviction in evicted})
        if (self._due or self._keys_before) and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._run())

    def remove_keys_before(self, before: str) -> None:
        """Remove what is left of idempotency keys from before a moment."""
        self._keys_before = before
        self.enqueue(())

    async def _run(self) -> None:
        while self._keys_before:
            try:
                removed = await self._sessions.fetch("", FORGET, self._keys_before)
            except ParleyError as error:
                _log.debug("idempotency keys were not removed", extra={"action": "forget", "code": error.code})
                removed = []
            if not removed:
                self._keys_before = ""
        while self._due:
            _, eviction = self._due.popitem()
            try:
                tenant, *which = eviction
                await self._sessions.fetch(str(tenant), REMOVE, *which, tenant)
            except ParleyError as error:
                # The next eviction of the channel removes it, so no retry is needed.
                _log.debug("evicted messages were not removed", extra={"action": "evict", "code": error.code})
                self._due.clear()

    async def close(self) -> None:
        """Finish what is due."""
        if self._task is not None:
            await self._task
