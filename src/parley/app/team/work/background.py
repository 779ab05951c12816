"""The jobs of a server beside answering: the sweep every second, webhooks, checkpoints, retention.

Of the servers that share a store one leads each job, as long as it renews its lease; any of them can take it over.
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
    from parley.ports.outside import Outbound

_log = logging.getLogger("parley.background")
SWEEP_SECONDS = 1.0
HEARTBEAT_SECONDS = 2.0
CLOCK_SECONDS = 1.0
SAMPLE_SECONDS = 1.0
# A leader renews its lease well before it ends; the others look whether it has ended.
RENEW_SECONDS = LEASE_SECONDS / 3
LOOK_SECONDS = 1.0


def jobs(team: Team, outbound: Outbound) -> tuple[Coroutine[None, None, None], ...]:
    """The jobs of a server; each runs until it is cancelled."""
    return (
        run_while_leader(team, "sweep", lambda: sweep_forever(team)),
        run_while_leader(team, "webhooks", lambda: webhooks.deliver_forever(team, outbound)),
        run_while_leader(team, "checkpoints", lambda: audit_checkpoints.keep_forever(team)),
        run_while_leader(team, "retention", lambda: retention.trim_forever(team)),
        policy_files.follow_forever(team),
        heartbeat_forever(team),
        watch_clock_forever(team),
        sample_forever(team),
    )


async def run_while_leader(team: Team, job: str, begin: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a job while this node leads it; without other nodes, always.

    A job that ends by itself has failed: that is logged, and it is started again.
    """
    running: asyncio.Task[None] | None = None
    try:
        while True:
            leads = await _leads(team, job)
            if running is not None and running.done():
                error = None if running.cancelled() else running.exception()
                _log.error("a work ended, and is begun again", exc_info=error, extra={"action": job})
                running = None
            if leads and running is None:
                if team.nodes.nodes is not None:
                    _log.info("this node takes over a work", extra={"action": job})
                running = asyncio.ensure_future(begin())
            elif not leads and running is not None:
                _log.info("this node gives up a work", extra={"action": job})
                await _cancel(running)
                running = None
            await asyncio.sleep(RENEW_SECONDS if leads else LOOK_SECONDS)
    finally:
        if running is not None:
            await _cancel(running)


async def _leads(team: Team, job: str) -> bool:
    try:
        return await team.nodes.leads(job)
    except ParleyError as error:
        # Without the store nobody can be sure of it, and others may be by now.
        team.nodes.leading.discard(job)
        _log.warning("who does a work is not known", extra={"action": job, "code": error.code})
        return False


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def heartbeat_forever(team: Team) -> None:
    """Send heartbeats, where there are other nodes."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while team.nodes.nodes is not None:
        await heartbeat(team, loop.time() - began)
        await asyncio.sleep(HEARTBEAT_SECONDS)


async def heartbeat(team: Team, uptime: float = 0.0) -> None:
    """Report how this node is, where there are others, and measure how far its clock is off the store's."""
    nodes = team.nodes.nodes
    if nodes is None:
        return
    try:
        sent_at = team.now()
        here = team.nodes.node(uptime, len(team.tail), team.clock.now().step)
        history, connected = team.nodes.history.samples(sent_at), team.connected.here()
        there = await nodes.heartbeat(here._replace(history=history, connected=connected))
    except ParleyError as error:
        _log.debug("this node could not say how it is", extra={"action": "beat", "code": error.code})
        return
    # Half-way between question and answer the store looked at its clock.
    halfway = sent_at.timestamp() + (team.now() - sent_at).total_seconds() / 2
    skew = halfway - there
    if abs(skew) > SKEW_SECONDS and abs(team.nodes.skew) <= SKEW_SECONDS:
        _log.warning("this node's clock is not the store's", extra={"action": "clock", "seconds": round(skew, 1)})
    team.nodes.skew = skew


async def watch_clock_forever(team: Team) -> None:
    """Report each step of the wall clock once, and its end."""
    stepped = False
    while True:
        stepped = report_clock(team, stepped=stepped)
        await asyncio.sleep(CLOCK_SECONDS)


def report_clock(team: Team, *, stepped: bool) -> bool:
    """Log it when the wall clock has begun or ceased to be where it is not expected; whether it is so now."""
    now = team.clock.now()
    if now.stepped and not stepped:
        extra = {"action": "clock_stepped", "seconds": round(now.step), "hint": "see to this machine's time service"}
        _log.warning("the wall clock is not where it was expected; nothing expires for five minutes", extra=extra)
    elif stepped and not now.stepped:
        _log.warning("the wall clock is believed again", extra={"action": "clock_believed"})
    return now.stepped


async def sample_forever(team: Team) -> None:
    """Note every second what this node has waiting, for its history."""
    while True:
        team.nodes.history.observe(team.now(), team.nodes.node(0.0, len(team.tail)))
        await asyncio.sleep(SAMPLE_SECONDS)


async def sweep_forever(team: Team) -> None:
    """Do what is due, again and again; a disk that is full is tried again in a second."""
    while True:
        try:
            await sweep.sweep(team)
        except ParleyError as error:
            _log.warning("the sweep was interrupted", extra={"action": "sweep", "code": error.code})
        await asyncio.sleep(SWEEP_SECONDS)
