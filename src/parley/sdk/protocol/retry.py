"""A server that is away, busy or failing for a while is waited for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from parley.domain.errors.errors import ParleyError
from parley.sdk.protocol.refusal import passes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


async def retry_while_unavailable(
    action: Callable[[], Awaitable[T]], on_retry: Callable[[ParleyError], None], pause: float
) -> T:
    """Do what may be done twice until a server answers; `late` is told each time that it has to wait.

    What the server refuses is raised.
    """
    while True:
        try:
            return await action()
        except ParleyError as error:
            if not passes(error):
                raise
            on_retry(error)
        await asyncio.sleep(pause)
