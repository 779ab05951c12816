"""Retries for workflows: while the server is away, and after conflicting changes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from parley.domain.errors.errors import Conflict, ParleyError
from parley.sdk.protocol import retry as patience

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_PAUSE_SECONDS = 0.5

_log = logging.getLogger("parley.workflow")


async def retry_until_accepted(action: Callable[[], Awaitable[T]], pause: float = _PAUSE_SECONDS) -> T:
    """Run an idempotent action until the server answers; its refusal is raised."""
    errors: list[ParleyError] = []

    def log_first_error(error: ParleyError) -> None:
        if not errors:
            extra = {"action": "workflow_waits", "why": str(error)}
            _log.warning("the workflow waits for its server", extra=extra)
        errors.append(error)

    async def retry_conflicts() -> T:
        while True:
            try:
                return await action()
            except ParleyError as error:
                if error.code != Conflict.code:
                    raise
                await asyncio.sleep(0)  # another client changed the same record first

    return await patience.retry_while_unavailable(retry_conflicts, log_first_error, pause)
