"""Tickets for streams: a browser's `EventSource` sets no headers, and a key never belongs into an address.

A ticket stands for a key, and for the agent that it speaks for, on one path, once, for half a minute. Only its SHA-256
is stored, where every node finds it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.directory.callers import NO_TENANT, Key, Saved, key_digest
from parley.domain.errors.errors import Invalid, Problem, Stale
from parley.domain.errors.team import Unauthorized
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

LIFETIME = timedelta(seconds=30)
_PREFIX = "pst_"


class IssuedTicket(NamedTuple):
    """A ticket, and when it expires."""

    secret: str
    expires_at: datetime


class TicketHolder(NamedTuple):
    """Whom a ticket stands for: a key, and the agent that it speaks for."""

    key: Key
    agent: str


async def issue(team: Team, caller: Caller, path: str) -> IssuedTicket:
    """A ticket of the caller for the stream at a path."""
    if not path.startswith("/"):
        raise Invalid.because(
            [Problem("invalid", "path", "is the path of a stream, like /api/v1/agents/bob/subscribe")]
        )
    secret = _PREFIX + team.ids.secret()
    issued = Saved(_scope(secret), path, caller.key_id, team.at(), status=201, answer=f"agent={caller.agent}".encode())
    await team.store.commit(TeamChanges(NO_TENANT, saved=issued))
    return IssuedTicket(secret, from_stamp(issued.at) + LIFETIME)


async def redeem(team: Team, secret: str, path: str) -> TicketHolder:
    """Use a ticket. `Unauthorized` when it is for another path, too old, or was used before."""
    issued = await team.store.saved(_scope(secret)) if secret.startswith(_PREFIX) else None
    if issued is None or issued.fingerprint != path or team.now() >= from_stamp(issued.at) + LIFETIME:
        raise Unauthorized
    # Of those that use it at the same moment, on whatever nodes, one is the first to commit.
    used = Saved(f"{_scope(secret)}\nused", path, team.new_id("use"), team.at())
    try:
        await team.store.commit(TeamChanges(NO_TENANT, saved=used))
    except Stale:
        raise Unauthorized from None
    await team.store.catch_up(NO_TENANT)
    key = await team.store.get(Key, NO_TENANT, issued.made)
    if key is None or not key.valid(team.at()):
        raise Unauthorized
    await team.store.catch_up(key.owner)
    return TicketHolder(key, issued.answer.decode().removeprefix("agent="))


def _scope(secret: str) -> str:
    return f"ticket\n{key_digest(secret)}"
