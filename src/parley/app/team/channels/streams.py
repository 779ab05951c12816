"""Streams of one intent, one channel, or everything one agent may see, after a cursor, without gaps or repeats.

from the store: after the cursor ──> until the head that was there when we began to listen
from the tail:  what was committed since; a queue that overflowed sends us back to the store
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.channels import find_channel
from parley.app.team.channels.visible import scope_of_agent, scope_of_channels, scope_of_intent
from parley.app.team.directory.keys import check_key
from parley.app.team.directory.participants import participation
from parley.app.team.directory.permissions import assigned, sees, stands_on
from parley.app.team.state.suspended import check_speaks_for
from parley.app.team.state.tail import of_agent, of_channel, of_intent
from parley.domain.channel.channel import Channel, check_takes_part
from parley.domain.channel.event import CHANNEL_MESSAGE
from parley.domain.channel.participation import heard_since
from parley.domain.channel.post import PostState
from parley.domain.directory.access import Access, Permission
from parley.domain.directory.callers import EVERYONE
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import NotMember
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from parley.app.team.state.tail import Listener, Topic
    from parley.app.team.team import Team
    from parley.domain.channel.channel import View
    from parley.domain.channel.feed import FeedItem
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller, Key
    from parley.domain.store.changes import FeedScope

_PAGE = 500
# How many positions are found at once: they are read page by page.
_POSITIONS = 5_000
# How often an idle stream checks its rights and pings its client.
PING_SECONDS = 15.0


class Followed(NamedTuple):
    """What a stream follows: exactly one of the three."""

    intent_id: str = ""
    channel_id: str = ""
    agent: str = ""

    def topic(self, tenant: str) -> Topic:
        """Where it listens."""
        if self.channel_id:
            return of_channel(tenant, self.channel_id)
        return of_intent(tenant, self.intent_id) if self.intent_id else of_agent(tenant, self.agent)


async def check_follows(team: Team, caller: Caller, followed: Followed) -> None:
    """Refuse callers that may not follow this: with `NotFound` where they may not know that it exists."""
    if followed.channel_id:
        channel, access = await find_channel(team, caller, followed.channel_id)
        check_takes_part(await sees(team, channel, access, caller))
    elif followed.intent_id:
        access_list = await team.store.get(Access, caller.tenant, followed.intent_id)
        stands = await stands_on(team, access_list, caller) if access_list is not None else None
        if stands is None or not stands.allows(Permission.READ):
            raise NotFound.no_such("intent")
    elif caller.agent != followed.agent and not caller.all_seeing:
        raise NotFound.no_such("agent")
    else:
        await check_speaks_for(team.store, caller, followed.agent)


class FeedBatch(NamedTuple):
    """Items of a stream in order, none when there is nothing to show, and the position up to which it was read.

    `evicted` has the channels of which messages after the cursor may be gone, each with the last place that is.
    """

    items: list[FeedItem]
    position: int
    evicted: tuple[tuple[str, int], ...] = ()


async def follow(team: Team, caller: Caller, followed: Followed, after: int | None) -> AsyncGenerator[FeedBatch | None]:
    """Batches of new items in order; None when listening starts. After each idle interval an empty one says how far the
    stream has come.

    Raises when the right is revoked. Without a cursor it starts at the head.
    """
    listener = team.tail.listen(followed.topic(caller.tenant))
    try:
        head = await team.store.head(caller.tenant)
        # A cursor from the future belongs to another store: from there on nothing would ever come.
        cursor = head if after is None else min(after, head)
        listener.behind = after is not None
        yield None
        spoke = _time()
        while True:
            if listener.behind:
                async for batch in _catch_up(team, caller, followed, listener, cursor):
                    cursor = batch.position
                    shown = [item for item in batch.items if await is_visible(team, caller, followed, item)]
                    yield batch._replace(items=shown)
                    spoke = _time()
                continue
            queued = [item for item in listener.take() if item.position > cursor]
            key = await check_key(team, caller)
            await check_follows(team, caller, followed)
            if queued:
                cursor = queued[-1].position
                shown = [item for item in queued if await is_visible(team, caller, followed, item)]
                if shown:
                    yield FeedBatch(shown, cursor)
                    spoke = _time()
                    continue
            # What is hidden from it wakes a stream, too: it still says in time that it is there.
            patience = min(spoke + PING_SECONDS - _time(), _patience(team, key))
            if patience <= 0 or (not queued and not await _woken(listener, patience)):
                yield FeedBatch([], cursor)
                spoke = _time()
    finally:
        team.tail.leave(listener)


def _time() -> float:
    return asyncio.get_running_loop().time()


def _patience(team: Team, key: Key) -> float:
    """Seconds until the next check, or until the key expires."""
    if not key.expires_at:
        return PING_SECONDS
    return min(PING_SECONDS, max(0.0, (from_stamp(key.expires_at) - team.now()).total_seconds()))


async def _woken(listener: Listener, patience: float) -> bool:
    try:
        async with asyncio.timeout(patience):
            return await listener.event.wait()
    except TimeoutError:
        return False


async def _catch_up(
    team: Team, caller: Caller, followed: Followed, listener: Listener, cursor: int
) -> AsyncIterator[FeedBatch]:
    """Read the store up to its head; from there the queue continues without a gap.

    Only what the reader may see is read, so most of a tenant may be passed over at once; where that brought the cursor
    on, an empty batch says so.
    """
    began = cursor
    while True:
        await check_key(team, caller)
        await check_follows(team, caller, followed)
        # Cleared before the read: what is committed during it is queued again, and told apart by its position.
        listener.take()
        listener.behind = False
        # What was committed later is queued. Rights that are read after this position are not older than what is there:
        # an assignment is not passed over because the list of intents was read before it.
        known = team.sights.position(caller.tenant)
        head = await team.store.head(caller.tenant) if known is None else known
        scope = await _scope_of(team, caller, followed)
        evicted = await team.store.find_evicted(caller.tenant, scope, cursor) if cursor == began else ()
        left, through = await team.store.find_positions(caller.tenant, scope, cursor, head, _POSITIONS)
        more = len(left) == _POSITIONS
        while left or evicted:
            items, position = await team.store.read_positions(caller.tenant, left[:_PAGE]) if left else ((), cursor)
            left = left[bisect_right(left, position) :]
            cursor = position if left else through
            yield FeedBatch(list(items), cursor, evicted)
            evicted = ()
            await check_key(team, caller)
            await check_follows(team, caller, followed)
        if through > cursor:
            cursor = through
            yield FeedBatch([], cursor)
        if not more and not listener.behind:
            return


async def _scope_of(team: Team, caller: Caller, followed: Followed) -> FeedScope:
    if followed.agent:
        return await scope_of_agent(team, caller, followed.agent)
    if followed.intent_id:
        return await scope_of_intent(team, caller, followed.intent_id)
    channel, _ = await find_channel(team, caller, followed.channel_id)
    return await scope_of_channels(team, caller, (channel,))


async def is_visible(team: Team, caller: Caller, followed: Followed, item: FeedItem) -> bool:
    """Whether whoever follows this may see the item, by the rights and the clock of this moment."""
    if item.event is not None:
        return await _shows_event(team, caller, followed, item)
    post = item.post
    if post is None or post.over(team.at()) or post.state is PostState.PENDING:
        return False
    if followed.channel_id and post.channel_id != followed.channel_id:
        return False
    if followed.intent_id and post.intent_id != followed.intent_id:
        return False
    # An agent's own stream shows what was said to it; of what it said itself only mail to itself.
    if followed.agent:
        if post.recipients is not None and followed.agent not in post.recipients:
            return False
        if post.sender == followed.agent and post.to != followed.agent:
            return False
    channel = await team.store.get(Channel, caller.tenant, post.channel_id)
    access = await team.store.get(Access, caller.tenant, post.intent_id)
    if channel is None or access is None:
        return False
    speaker = caller._replace(agent=followed.agent) if followed.agent else caller
    try:
        channel_view = check_takes_part(await sees(team, channel, access, speaker))
    except (NotFound, NotMember):
        return False
    if followed.agent and post.to in ("", EVERYONE) and not await _hears(team, channel, access, channel_view, post):
        return False
    return post.visible_to(channel_view)


async def _hears(team: Team, channel: Channel, access: Access, channel_view: View, post: Post) -> bool:
    """Whether what was said to everyone is delivered to the agent of this view: it took part when that was said."""
    participant = await participation(team, access, channel_view.agent)
    since = heard_since(channel, access, participant, channel_view, team.at())
    return since is not None and post.position > since


async def _shows_event(team: Team, caller: Caller, followed: Followed, item: FeedItem) -> bool:
    event = item.event
    # The message itself is shown; its copy in the log would be the second one.
    if event is None or event.event_type == CHANNEL_MESSAGE or followed.channel_id:
        return False
    if followed.intent_id and event.intent_id != followed.intent_id:
        return False
    access = await team.store.get(Access, caller.tenant, event.intent_id)
    if access is None:
        return False
    # An agent hears of the intents it works on, and of its own coming and going.
    if followed.agent and assigned(access, followed.agent) is None:
        return False
    reader = caller._replace(agent=followed.agent) if followed.agent else caller
    return await stands_on(team, access, reader) is not None
