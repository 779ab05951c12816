"""What a server does besides answering: the sweep every second, webhooks, checkpoints.

Of the servers that share a store one does each of these works, as long as it is heard of; any of them can take it over.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from parley.app.team.audit import checkpoints as audit_checkpoints
from parley.app.team.audit import retention
from parley.app.team.decisions import policy_files
from parley.app.team.webhooks import delivering as webhooks
from parley.app.team.work import sweep
from parley.domain.errors.errors import ParleyError
from parley.domain.store.node import LEASE_SECONDS, SKEW_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from parley.app.team.team import Team
    from parley.ports.team import Outbound

_log = logging.getLogger("parley.background")
SWEEP_SECONDS = 1.0
BEAT_SECONDS = 2.0
# Whoever leads makes sure of it well before its time is over; the others look whether it is over.
RENEW_SECONDS = LEASE_SECONDS / 3
LOOK_SECONDS = 1.0


def works(team: Team, outbound: Outbound) -> tuple[Coroutine[None, None, None], ...]:
    """The works that go on beside the answers, until they are cancelled."""
    return (
        led(team, "sweep", lambda: sweep_forever(team)),
        led(team, "webhooks", lambda: webhooks.deliver_forever(team, outbound)),
        led(team, "checkpoints", lambda: audit_checkpoints.keep_forever(team)),
        led(team, "retention", lambda: retention.let_go_forever(team)),
        policy_files.follow_forever(team),
        beat_forever(team),
    )


async def led(team: Team, work: str, begin: Callable[[], Coroutine[None, None, None]]) -> None:
    """Do a work while this node is the one that does it; where there are no others, always.

    A work that ends by itself has failed: that is logged, and it is begun again.
    """
    running: asyncio.Task[None] | None = None
    try:
        while True:
            leads = await _leads(team, work)
            if running is not None and running.done():
                error = None if running.cancelled() else running.exception()
                _log.error("a work ended, and is begun again", exc_info=error, extra={"action": work})
                running = None
            if leads and running is None:
                if team.nodes.nodes is not None:
                    _log.info("this node takes over a work", extra={"action": work})
                running = asyncio.ensure_future(begin())
            elif not leads and running is not None:
                _log.info("this node gives up a work", extra={"action": work})
                await _ended(running)
                running = None
            await asyncio.sleep(RENEW_SECONDS if leads else LOOK_SECONDS)
    finally:
        if running is not None:
            await _ended(running)


async def _leads(team: Team, work: str) -> bool:
    try:
        return await team.nodes.leads(work)
    except ParleyError as error:
        # Without the store nobody can be sure of it, and others may be by now.
        team.nodes.led.discard(work)
        _log.warning("who does a work is not known", extra={"action": work, "code": error.code})
        return False


async def _ended(work: asyncio.Task[None]) -> None:
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def beat_forever(team: Team) -> None:
    """Say how this node is, again and again, where there are others."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while team.nodes.nodes is not None:
        await beat(team, loop.time() - began)
        await asyncio.sleep(BEAT_SECONDS)


async def beat(team: Team, uptime: float = 0.0) -> None:
    """Say how this node is, where there are others, and see how far its clock is off theirs."""
    nodes = team.nodes.nodes
    if nodes is None:
        return
    try:
        asked = team.now()
        there = await nodes.beat(team.nodes.node(uptime, len(team.tail)))
    except ParleyError as error:
        _log.debug("this node could not say how it is", extra={"action": "beat", "code": error.code})
        return
    # Half-way between question and answer the store looked at its clock.
    here = asked.timestamp() + (team.now() - asked).total_seconds() / 2
    skew = here - there
    if abs(skew) > SKEW_SECONDS and abs(team.nodes.skew) <= SKEW_SECONDS:
        _log.warning("this node's clock is not the store's", extra={"action": "clock", "seconds": round(skew, 1)})
    team.nodes.skew = skew


async def sweep_forever(team: Team) -> None:
    """Do what is due, again and again; a disk that is full is tried again in a second."""
    while True:
        try:
            await sweep.sweep(team)
        except ParleyError as error:
            _log.warning("the sweep was interrupted", extra={"action": "sweep", "code": error.code})
        await asyncio.sleep(SWEEP_SECONDS)
