"""What a server does besides answering: the sweep every second, and webhooks."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from parley.app.team import audit_checkpoints, policy_files, retention, sweep, webhooks
from parley.domain.errors import ParleyError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from parley.app.team.hub import Team
    from parley.team_ports import Outbound

_log = logging.getLogger("parley.background")
SWEEP_SECONDS = 1.0


def works(team: Team, outbound: Outbound) -> tuple[Coroutine[None, None, None], ...]:
    """The works that go on beside the answers, until they are cancelled."""
    return (
        sweep_forever(team),
        webhooks.deliver_forever(team, outbound),
        audit_checkpoints.keep_forever(team),
        retention.let_go_forever(team),
        policy_files.follow_forever(team),
    )


async def sweep_forever(team: Team) -> None:
    """Do what is due, again and again; a disk that is full is tried again in a second."""
    while True:
        try:
            await sweep.sweep(team)
        except ParleyError as error:
            _log.warning("the sweep was interrupted", extra={"action": "sweep", "code": error.code})
        await asyncio.sleep(SWEEP_SECONDS)
