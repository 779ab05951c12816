"""Stopping a server that runs in this process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError, Unavailable

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.surfaces.http.http1.listener import Listener

DRAIN_SECONDS = 10.0
# Open long polls are answered with "stopping" this long before the end.
_ANSWER_BEFORE_END_SECONDS = 2.0


async def shut_down(
    team: Team, listener: Listener, jobs: list[asyncio.Task[None]], *, linger: int = 0, drain: float = DRAIN_SECONDS
) -> None:
    """Stop gracefully: hand leases to other nodes, report not ready, answer open requests."""
    team.nodes.leaving = True
    if team.nodes.nodes is not None:
        await _cancel_jobs(jobs)
        with suppress(ParleyError):  # then the other nodes notice it by the missing heartbeat
            await team.nodes.leave()
    if linger:
        listener.leave()
        await asyncio.sleep(linger)
    team.tail.close()
    last = asyncio.get_running_loop().call_later(
        max(0.0, drain - _ANSWER_BEFORE_END_SECONDS), team.waits.fail, _stopping_error()
    )
    await listener.drain(drain)
    last.cancel()
    await _cancel_jobs(jobs)


async def _cancel_jobs(jobs: list[asyncio.Task[None]]) -> None:
    for job in jobs:
        job.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)


def _stopping_error() -> Unavailable:
    return Unavailable("this server is stopping", hint="retry with the same idempotency key")
