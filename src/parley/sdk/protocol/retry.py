"""Retries: while a server is away, busy or failing, and after conflicting changes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from parley.domain.errors.errors import Conflict, ParleyError
from parley.sdk.protocol.refusal import is_temporary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_PAUSE_SECONDS = 0.5

_log = logging.getLogger("parley.workflow")


async def retry_while_unavailable(
    action: Callable[[], Awaitable[T]], on_retry: Callable[[ParleyError], None], pause: float
) -> T:
    """Run an idempotent action until the server answers; `on_retry` is called before each wait.

    What the server refuses is raised.
    """
    while True:
        try:
            return await action()
        except ParleyError as error:
            if not is_temporary(error):
                raise
            on_retry(error)
        await asyncio.sleep(pause)


async def retry_until_accepted(action: Callable[[], Awaitable[T]], pause: float = _PAUSE_SECONDS) -> T:
    """Run an idempotent action of a workflow until the server accepts or refuses it; the first wait is logged."""
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

    return await retry_while_unavailable(retry_conflicts, log_first_error, pause)
