"""Bookmarks: the read position of an agent in its stream, from which it continues after a restart.

Saving is one small commit: the record, the tenant's head and the key are cached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.unanswered import with_failures
from parley.app.team.directory.agents import check_changes
from parley.app.team.directory.permissions import assigned
from parley.app.team.retry import committed, put
from parley.domain.channel.bookmark import (
    MOST_OF_AN_AGENT,
    Bookmark,
    Start,
    bookmark_id,
    check_claim,
    closed,
    first_position,
    opened,
    saved,
    taken_over,
    without_dead,
)
from parley.domain.channel.event import AGENT_ASSIGNED
from parley.domain.channel.job import LOST_READERS_MAX, Job, buried, job_of, why_dead
from parley.domain.directory.access import Access
from parley.domain.directory.intent import RESOLVED, Intent
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import QuotaExceeded
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller


class BookmarkWithHead(NamedTuple):
    """A bookmark, and the tenant's last position at this moment."""

    bookmark: Bookmark
    head: int


async def open_(
    team: Team,
    caller: Caller,
    agent_id: str,
    name: str,
    start: Start,
    process: str = "",
    *,
    unless_active: float | None = None,
    replaces: str | None = None,
) -> BookmarkWithHead:
    """Claim a bookmark from its previous holder, who is told which `process` has it. A new one begins at `start`.

    `unless_active` and `replaces` say from whom it is not taken; see `check_claim`.
    """
    await check_changes(team, caller, agent_id)
    key = bookmark_id(agent_id, name)
    holder = team.new_id("hold")

    async def decide() -> TeamChanges:
        bookmark = await team.store.get(Bookmark, caller.tenant, key)
        ended: tuple[Bookmark, ...] = ()
        if bookmark is not None:
            check_claim(bookmark, team.at(), unless_active, replaces)
        else:
            ended = await _make_room(team, caller.tenant, agent_id)
            bookmark = await new(team, caller.tenant, agent_id, name, start)
        claimed = opened(bookmark, holder, process, team.at())
        return TeamChanges(caller.tenant, puts=(claimed,), drops=ended, created_id=holder)

    bookmark = await put(team, caller, decide, Bookmark, "bookmark")
    return BookmarkWithHead(bookmark, await team.store.head(caller.tenant))


async def get_as_holder(team: Team, caller: Caller, agent_id: str, name: str, holder: str) -> BookmarkWithHead:
    """The bookmark that a holder claimed; `BookmarkTaken` when another one has it by now."""
    placed = await get(team, caller, agent_id, name)
    if placed.bookmark.holder != holder:
        raise taken_over(placed.bookmark, team.at())
    return placed


async def _make_room(team: Team, tenant: str, agent_id: str) -> tuple[Bookmark, ...]:
    """The bookmarks to delete before a new one is made: none while there is room, else those of ended runs.

    A run of a workflow names its bookmarks after its intent, and deletes them itself unless it is killed.
    """
    if await team.store.count(Bookmark, tenant, agent_id) < MOST_OF_AN_AGENT:
        return ()
    ended = []
    for bookmark in await team.store.children(Bookmark, tenant, agent_id):
        intent = await team.store.get(Intent, tenant, bookmark.label)
        if intent is not None and intent.status in RESOLVED:
            ended.append(bookmark)
    if not ended:
        hint = "delete some, or abandon the intents of workflows that were killed: parley intent abandon INTENT"
        raise QuotaExceeded(f"{agent_id} has {MOST_OF_AN_AGENT} bookmarks, which is the most", hint=hint)
    return tuple(ended)


async def new(team: Team, tenant: str, agent_id: str, name: str, start: Start) -> Bookmark:
    """A bookmark that nobody has opened yet."""
    # Head first: a request that arrives in between is above it.
    head = await team.store.head(tenant)
    oldest = await _oldest(team, tenant, agent_id) if start is Start.UNANSWERED else None
    position = first_position(start, head, oldest)
    return Bookmark(
        id=bookmark_id(agent_id, name),
        tenant_id=tenant,
        agent=agent_id,
        label=name,
        position=position,
        # A process whose bookmark was deleted opens a new one at the beginning and goes on where it was.
        begin=head if start is Start.BEGINNING else position,
        holder="",
        saved_at="",
    )


async def _oldest(team: Team, tenant: str, agent_id: str) -> int | None:
    """The position of the oldest unanswered request or assignment of an agent."""
    request = await team.store.oldest_request(tenant, agent_id, team.at())
    waiting = [] if request is None else [request]
    after = ""
    while page := await team.store.every(Access, tenant, after=after):
        after = page[-1].id
        for access in page:
            present = assigned(access, agent_id)
            intent = await team.store.get(Intent, tenant, access.id) if present is not None else None
            if present is not None and intent is not None and intent.status not in RESOLVED:
                events = await team.store.events(
                    tenant, access.id, event_type=AGENT_ASSIGNED, since=present.assigned_at, limit=1
                )
                waiting += [event.position for event in events]
    return min(waiting, default=None)


class SavedPosition(NamedTuple):
    """How far a process is: everything up to `position` except `open` is done.

    `started` are open positions that it is about to hand out. With `closes` it stops.
    """

    position: int
    open: tuple[int, ...] = ()
    started: tuple[int, ...] = ()
    closes: bool = False


async def save(
    team: Team, caller: Caller, agent_id: str, name: str, holder: str, mark: SavedPosition
) -> BookmarkWithHead:
    """Save the position of the holder; repeating it is harmless. `BookmarkTaken` for a previous holder.

    What was started too often leaves the bookmark, and becomes a dead letter in the same commit.
    """
    await check_changes(team, caller, agent_id)
    placed: BookmarkWithHead

    async def decide() -> TeamChanges | None:
        nonlocal placed
        placed = await get(team, caller, agent_id, name)
        before, now = placed.bookmark, team.at()
        changed = saved(before, holder, mark.position, mark.open, placed.head, now, started=mark.started)
        changed, dead = without_dead(changed)
        changed = closed(changed) if mark.closes else changed
        if changed is before:
            return None
        letters = await _dead_letters(team, caller.tenant, agent_id, dead) if dead else ()
        return await with_failures(team, TeamChanges(caller.tenant, puts=(changed, *letters)), *letters)

    written = await committed(team, caller, decide, "bookmark")
    record = written.puts[0] if written else placed.bookmark
    assert isinstance(record, Bookmark)  # noqa: S101  # what was put
    return BookmarkWithHead(record, placed.head)


async def _dead_letters(team: Team, tenant: str, agent_id: str, positions: Iterable[int]) -> tuple[Job, ...]:
    """Dead letters of what has ended its reader too often."""
    items, _ = await team.store.read_positions(tenant, sorted(positions))
    letters = []
    for item in items:
        job = job_of(tenant, item, agent_id, team.at())
        before = await team.store.get(Job, tenant, job.id)
        version = before.version if before else 0
        lost = replace(job, version=version, attempts=LOST_READERS_MAX, lost_readers=LOST_READERS_MAX)
        letters.append(buried(lost, why_dead(lost), team.now()))
    return tuple(letters)


async def get(team: Team, caller: Caller, agent_id: str, name: str) -> BookmarkWithHead:
    """One bookmark."""
    await check_changes(team, caller, agent_id)
    return BookmarkWithHead(await _stored(team, caller, agent_id, name), await team.store.head(caller.tenant))


async def delete(team: Team, caller: Caller, agent_id: str, name: str) -> None:
    """Delete a bookmark; the next `open_` starts anew."""
    await check_changes(team, caller, agent_id)

    async def decide() -> TeamChanges:
        return TeamChanges(caller.tenant, drops=(await _stored(team, caller, agent_id, name),))

    await committed(team, caller, decide, "bookmark")


async def _stored(team: Team, caller: Caller, agent_id: str, name: str) -> Bookmark:
    bookmark = await team.store.get(Bookmark, caller.tenant, bookmark_id(agent_id, name))
    if bookmark is None:
        raise NotFound.no_such("bookmark", hint="open it first")
    return bookmark
