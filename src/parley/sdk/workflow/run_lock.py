"""The lock of a run: one process at a time runs a workflow's intent, and others are told which.

It is a bookmark of the workflow's own name, called like the intent. Its holder saves it every few seconds. A process
that wants to resume the run gets it when the holder has not been seen for half a minute, or at once when the holder ran
on the same host and has ended.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.domain.errors.errors import NotFound, ParleyError
from parley.domain.errors.team import BookmarkTaken
from parley.domain.errors.workflow import WorkflowRunning
from parley.sdk.agent.process import has_ended, process_name
from parley.sdk.protocol.retry import retry_until_accepted

if TYPE_CHECKING:
    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.directory import Bookmark

_ACTIVE_SECONDS = 30.0
_RENEW_SECONDS = 5.0
# Locks of this process: its number alone does not say that an earlier holder with the same one has ended.
_held_here: set[str] = set()


class RunLock:
    """The right to run one intent's workflow."""

    def __init__(self, client: AsyncClient, runner: str, intent_id: str) -> None:
        self._client = client.as_agent(runner)
        self._runner = runner
        self._intent_id = intent_id
        self._holder = ""
        self._position = 0

    async def acquire(self) -> None:
        """Get the lock; `WorkflowRunning` says which process has it."""
        try:
            self._note(await self._open(unless_active=_ACTIVE_SECONDS))
        except BookmarkTaken as taken:
            holder = str(taken.facts.get("holder"))
            if holder in _held_here or not has_ended(str(taken.facts.get("process"))):
                raise self._refusal(taken) from None
            try:
                self._note(await self._open(replaces=holder))
            except BookmarkTaken as later:
                raise self._refusal(later) from None

    async def keep(self) -> None:
        """Renew the lock until cancelled. `WorkflowRunning` when another process has it."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await retry_until_accepted(self._renew)
            except BookmarkTaken as taken:
                raise self._refusal(taken) from None

    async def release(self) -> None:
        """Give the lock back; if that cannot be said now, it ends by itself."""
        _held_here.discard(self._holder)
        with suppress(ParleyError):
            await self._client.delete_bookmark(self._runner, self._intent_id)

    def forget(self) -> None:
        """Leave the lock to another process."""
        _held_here.discard(self._holder)

    async def _renew(self) -> None:
        try:
            await self._client.save_bookmark(self._runner, self._intent_id, self._holder, self._position)
        except NotFound:  # deregistering the workflow's agent has deleted it
            self._note(await self._open(unless_active=_ACTIVE_SECONDS))

    async def _open(self, *, unless_active: float | None = None, replaces: str | None = None) -> Bookmark:
        return await self._client.open_bookmark(
            self._runner,
            self._intent_id,
            start="now",
            process=process_name(),
            unless_active=unless_active,
            replaces=replaces,
        )

    def _note(self, bookmark: Bookmark) -> None:
        self._holder, self._position = bookmark.holder, bookmark.position
        _held_here.add(self._holder)

    def _refusal(self, taken: BookmarkTaken) -> WorkflowRunning:
        by = taken.message.partition(" by ")[2]
        hint = f"it can be resumed {_ACTIVE_SECONDS:g} seconds after that process was last seen"
        return WorkflowRunning(f"{self._intent_id} is run by {by}", hint=hint, facts=taken.facts)
