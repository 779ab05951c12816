"""Optimistic concurrency: load, decide, commit, and retry on a conflict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from parley.app.team.team import ATTEMPTS
from parley.domain.errors.errors import Conflict, Stale
from parley.domain.record import Record
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import Committed

Attempt = Callable[[], Awaitable[TeamChanges | None]]
R = TypeVar("R", bound=Record)


async def committed(team: Team, caller: Caller, decide: Attempt, what: str) -> Committed | None:
    """Commit the changes of `decide`, which reloads its records on each attempt; None without changes."""
    for _ in range(ATTEMPTS):
        changes = await decide()
        if changes is None:
            return None
        try:
            return await team.commit(caller, changes)
        except Stale as stale:
            if "kind" not in stale.facts:
                raise  # the idempotency key, not a record
    raise Conflict(f"the {what} changes too often at this moment", hint="try again")


async def put(team: Team, caller: Caller, decide: Callable[[], Awaitable[TeamChanges]], kind: type[R], what: str) -> R:
    """Commit the changes of `decide` and return the first stored record."""
    done = await committed(team, caller, decide, what)
    record = done.puts[0] if done else None
    assert isinstance(record, kind)  # noqa: S101  # what was put
    return record
