"""Tickets for streams: a browser's `EventSource` sets no headers, and a key never belongs into an address.

A ticket stands for a key, and for the agent that it speaks for, on one path, once, for half a minute.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parley.app.team.directory.one_time import OneTimeSecrets
from parley.domain.errors.errors import Invalid, Problem

if TYPE_CHECKING:
    from parley.app.team.directory.one_time import IssuedSecret, SecretHolder
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

LIFETIME = timedelta(seconds=30)
_TICKETS = OneTimeSecrets("ticket", "pst_", LIFETIME)


async def issue(team: Team, caller: Caller, path: str) -> IssuedSecret:
    """A ticket of the caller for the stream at a path."""
    if not path.startswith("/"):
        raise Invalid.because(
            [Problem("invalid", "path", "is the path of a stream, like /api/v1/agents/bob/subscribe")]
        )
    return await _TICKETS.issue(team, caller, path)


async def redeem(team: Team, secret: str, path: str) -> SecretHolder:
    """Use a ticket. `Unauthorized` when it is for another path, too old, or was used before."""
    return await _TICKETS.redeem(team, secret, path)
