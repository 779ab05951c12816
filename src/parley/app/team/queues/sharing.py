"""Shared mail: what is for an agent becomes jobs, so that several processes of the agent can take turns.

The agent's bookmark says how far that has been done. It moves in the commit that writes the jobs, so everything becomes
a job once, however many processes ask on however many nodes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.channels import bookmarks
from parley.app.team.channels.streams import Followed, is_visible
from parley.app.team.channels.visible import scope_of_agent
from parley.app.team.team import ATTEMPTS
from parley.domain.channel.bookmark import Bookmark, bookmark_id
from parley.domain.channel.event import AGENT_ASSIGNED
from parley.domain.channel.job import Job, job_of
from parley.domain.errors.errors import Stale
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.bookmark import Start
    from parley.domain.channel.feed import FeedItem
    from parley.domain.directory.callers import Caller

# The bookmark of the agent's own process, where it has one; and who holds it while the mail is shared.
LABEL = "default"
SHARED = "shared"
_PAGE = 100
# So much of the feed that is not for the agent may be behind the bookmark, before that is written down.
_UNSAVED_POSITIONS = 1_000


async def enqueue_mail(
    team: Team, caller: Caller, agent_id: str, start: Start, wanted: int, *, unread: bool = False
) -> None:
    """Make jobs of the next mail of an agent, unless enough of them wait already.

    `unread`: of everything that was said to it, as an inbox has it. Responses are part of that, because no process
    waits for them; what the agent has read or answered otherwise is not.
    """
    queues = team.queues.get(caller.tenant)
    if queues is not None and queues.ready_in(agent_id) >= wanted:
        return
    reader = caller._replace(agent=agent_id, saved=None)
    async with team.queues.lock:
        for _ in range(ATTEMPTS):
            try:
                await _enqueue_next(team, reader, start, unread=unread)
            except Stale:
                continue  # another node was faster
            return


async def _enqueue_next(team: Team, reader: Caller, start: Start, *, unread: bool) -> None:
    tenant, agent = reader.tenant, reader.agent
    bookmark = await team.store.get(Bookmark, tenant, bookmark_id(agent, LABEL))
    bookmark = bookmark or await bookmarks.new(team, tenant, agent, LABEL, start)
    # Rights that are read after the head are not older than what is there, as in a stream.
    position_here = team.sights.position(tenant)
    head = await team.store.head(tenant) if position_here is None else position_here
    # What a process left open that had the mail for itself is still to be done.
    left = bookmark.open if bookmark.holder != SHARED else ()
    scope = await scope_of_agent(team, reader, agent)
    positions, through = await team.store.find_positions(tenant, scope, bookmark.position, head, _PAGE)
    items, read = await team.store.read_positions(tenant, (*left, *positions)) if left or positions else ((), through)
    reached = max(bookmark.position, read if positions and read < positions[-1] else through)
    jobs = [
        job_of(tenant, item, agent, team.at()) for item in items if await _is_work(team, reader, item, unread=unread)
    ]
    if not jobs and bookmark.holder == SHARED and reached - bookmark.position < _UNSAVED_POSITIONS:
        return
    puts = [job for job in jobs if await team.store.get(Job, tenant, job.id) is None]
    # What became jobs was given to nobody yet: their leases say who has it.
    moved = replace(bookmark, position=reached, begin=reached, open=(), attempts=(), holder=SHARED, process="")
    await team.commit(reader, TeamChanges(tenant, puts=(replace(moved, saved_at=team.at()), *puts)))


async def _is_work(team: Team, reader: Caller, item: FeedItem, *, unread: bool) -> bool:
    """Whether readers get it: messages and assignments. Responses go to the process that asked, while it waits."""
    if not await is_visible(team, reader, Followed(agent=reader.agent), item):
        return False
    if item.post is not None:
        if not unread:
            return item.post.pattern is not Pattern.RESPONSE
        message = await team.store.with_receipt(reader.tenant, item.post, reader.agent)
        return not (item.post.answered or item.post.partial or message.read_at)
    if item.event is None or item.event.event_type != AGENT_ASSIGNED:
        return False
    return bool(json.loads(item.event.document)["payload"].get("agent_id") == reader.agent)
