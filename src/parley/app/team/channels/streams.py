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
from parley.app.team.directory.agents import as_agent_of
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
from parley.domain.directory.callers import EVERYONE, NO_TENANT, KeyKind
from parley.domain.errors.errors import BadAgentName, NotFound
from parley.domain.errors.team import NotMember, WrongSender
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable

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


async def follower_of(team: Team, caller: Caller, followed: Followed) -> Caller:
    """Who follows: a person that follows its agent's stream does so in the place of that agent."""
    if caller.kind is not KeyKind.HUMAN or not followed.agent or followed.agent == caller.agent:
        return caller
    try:
        return await as_agent_of(team, caller, followed.agent)
    except (WrongSender, BadAgentName):
        raise NotFound.no_such("agent") from None


async def check_follows(team: Team, caller: Caller, followed: Followed) -> Access | None:
    """Refuse callers that may not follow this: with `NotFound` where they may not know that it exists.

    The access list that allows it; None for an agent's own stream.
    """
    if followed.channel_id:
        channel, access = await find_channel(team, caller, followed.channel_id)
        check_takes_part(await sees(team, channel, access, caller))
        return access
    if followed.intent_id:
        access_list = await team.store.get(Access, caller.tenant, followed.intent_id)
        stands = await stands_on(team, access_list, caller) if access_list is not None else None
        if stands is None or not stands.allows(Permission.READ):
            raise NotFound.no_such("intent")
        return access_list
    if caller.agent != followed.agent and not caller.all_seeing:
        raise NotFound.no_such("agent")
    await check_speaks_for(team.store, caller, followed.agent)
    return None


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
    loop = asyncio.get_running_loop()
    rights, alarm = _Rights(team, caller, followed), _Alarm(loop, listener)
    team.connected.enter(caller)
    try:
        head = await team.store.head(caller.tenant)
        # A cursor from the future belongs to another store: from there on nothing would ever come.
        cursor = head if after is None else min(after, head)
        listener.behind = after is not None
        yield None
        spoke = loop.time()
        # They may have changed before it listened.
        key = await rights.check()
        while True:
            if listener.behind:
                async for batch in _catch_up(team, rights, listener, cursor):
                    cursor = batch.position
                    yield batch._replace(items=await rights.visible(batch.items))
                    spoke = loop.time()
                continue
            if not listener.event.is_set():
                alarm.set(min(spoke + PING_SECONDS, loop.time() + _patience(team, key)))
                await listener.event.wait()
            queued = [item for item in listener.take() if item.position > cursor]
            key = rights.known_key() or await rights.check()
            shown = rights.known_visible(queued)
            if shown is None:
                shown = await rights.visible(queued)
            cursor = queued[-1].position if queued else cursor
            # What is hidden from it wakes a stream, too: it still says in time that it is there.
            if shown or loop.time() >= spoke + PING_SECONDS:
                yield FeedBatch(shown, cursor)
                spoke = loop.time()
    finally:
        alarm.cancel()
        team.connected.leave(caller)
        team.tail.leave(listener)


def _patience(team: Team, key: Key) -> float:
    """Seconds until the next check, or until the key expires."""
    if not key.expires_at:
        return PING_SECONDS
    return min(PING_SECONDS, max(0.0, (from_stamp(key.expires_at) - team.now()).total_seconds()))


class _Alarm:
    """Wakes a listener in time. It is set anew when it has gone off or is late, not for every message."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: Listener) -> None:
        self._loop = loop
        self._event = listener.event
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        """Wake the listener at this time of the loop at the latest."""
        if self._timer is None or not self._loop.time() < self._timer.when() <= when:
            self.cancel()
            self._timer = self._loop.call_at(when, self._event.set)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def _catch_up(team: Team, rights: _Rights, listener: Listener, cursor: int) -> AsyncIterator[FeedBatch]:
    """Read the store up to its head; from there the queue continues without a gap.

    Only what the reader may see is read, so most of a tenant may be passed over at once; where that brought the cursor
    on, an empty batch says so.
    """
    began = cursor
    caller = rights.caller
    while True:
        await rights.check()
        # Cleared before the read: what is committed during it is queued again, and told apart by its position.
        listener.take()
        listener.behind = False
        # What was committed later is queued. Rights that are read after this position are not older than what is there:
        # an assignment is not passed over because the list of intents was read before it.
        position_here = team.sights.position(caller.tenant)
        head = await team.store.head(caller.tenant) if position_here is None else position_here
        scope = await scope_of(team, caller, rights.followed)
        evicted = await team.store.find_evicted(caller.tenant, scope, cursor) if cursor == began else ()
        left, through = await team.store.find_positions(caller.tenant, scope, cursor, head, _POSITIONS)
        more = len(left) == _POSITIONS
        while left or evicted:
            items, position = await team.store.read_positions(caller.tenant, left[:_PAGE]) if left else ((), cursor)
            left = left[bisect_right(left, position) :]
            cursor = position if left else through
            yield FeedBatch(list(items), cursor, evicted)
            evicted = ()
            await rights.check()
        if through > cursor:
            cursor = through
            yield FeedBatch([], cursor)
        if not more and not listener.behind:
            return


async def scope_of(team: Team, caller: Caller, followed: Followed) -> FeedScope:
    """The part of a tenant's feed that a follower may see."""
    if followed.agent:
        return await scope_of_agent(team, caller, followed.agent)
    if followed.intent_id:
        return await scope_of_intent(team, caller, followed.intent_id)
    channel, _ = await find_channel(team, caller, followed.channel_id)
    return await scope_of_channels(team, caller, (channel,))


class _Rights:
    """What a follower may see, remembered until a record of its tenant or a key changes, or what allows it expires."""

    def __init__(self, team: Team, caller: Caller, followed: Followed) -> None:
        self.caller = caller
        self.followed = followed
        self._team = team
        self._key: Key | None = None
        # The generations of the records that were read after them; 0: not known.
        self._generations = (0, 0)
        # When the first of what it rests on expires; empty: nothing does.
        self._until = ""
        self._sights: dict[str, _ChannelSight] = {}

    def known_key(self) -> Key | None:
        """The follower's key while nothing has changed that its right rests on; None when it has to be checked."""
        store, caller = self._team.store, self.caller
        generations = (store.generation(caller.tenant), store.generation(NO_TENANT))
        if generations == self._generations and 0 not in generations and not self._is_over():
            return self._key
        return None

    async def check(self) -> Key:
        """The follower's key. Refused when it may no longer follow."""
        known = self.known_key()
        if known is not None:
            return known
        store = self._team.store
        # Read before the records that are looked at below.
        generations = (store.generation(self.caller.tenant), store.generation(NO_TENANT))
        self._sights.clear()
        key = await check_key(self._team, self.caller)
        access = await check_follows(self._team, self.caller, self.followed)
        self._key, self._generations, self._until = key, generations, key.expires_at
        if access is not None:
            self._ends(access.due)
        return key

    def known_visible(self, items: list[FeedItem]) -> list[FeedItem] | None:
        """Those of some messages that the follower may see, by what `check` has just confirmed; None: look them up.

        Most messages of a stream come from channels that it has shown before. Nothing waits here, so a message to
        many followers takes no coroutine for each of them.
        """
        now = self._team.round_stamp()
        shown: list[FeedItem] = []
        for item in items:
            post = item.post
            sight = self._sights.get(post.channel_id) if post is not None else None
            if post is None or sight is None:
                return None
            if _concerns(self.followed, post, now) and sight.includes(self.followed, post):
                shown.append(item)
        return shown

    async def visible(self, items: Iterable[FeedItem]) -> list[FeedItem]:
        """Those items that the follower may see now. Refused when it may no longer follow."""
        await self.check()
        now = self._team.at()
        return [item for item in items if await self._is_visible(item, now)]

    async def _is_visible(self, item: FeedItem, now: str) -> bool:
        post = item.post
        if post is None:
            return await _shows_event(self._team, self.caller, self.followed, item)
        if not _concerns(self.followed, post, now):
            return False
        sight = self._sights.get(post.channel_id)
        if sight is None:
            sight = self._sights[post.channel_id] = await _sight_of(self._team, self.caller, self.followed, post)
            self._ends(sight.until)
        return sight.includes(self.followed, post)

    def _ends(self, until: str) -> None:
        if until and not (self._until and self._until < until):
            self._until = until

    def _is_over(self) -> bool:
        return self._until != "" and self._until <= self._team.at()


async def is_visible(team: Team, caller: Caller, followed: Followed, item: FeedItem) -> bool:
    """Whether whoever follows this may see the item, by the rights and the clock of this moment."""
    if item.post is None:
        return await _shows_event(team, caller, followed, item)
    if not _concerns(followed, item.post, team.at()):
        return False
    return (await _sight_of(team, caller, followed, item.post)).includes(followed, item.post)


def _concerns(followed: Followed, post: Post, now: str) -> bool:
    """Whether a message belongs to what is followed, whoever may see it."""
    if post.over(now) or post.state is PostState.PENDING:
        return False
    if followed.channel_id:
        return post.channel_id == followed.channel_id
    if followed.intent_id:
        return post.intent_id == followed.intent_id
    # An agent's own stream shows what was said to it; of what it said itself only mail to itself.
    if post.recipients is not None and followed.agent not in post.recipients:
        return False
    return post.sender != followed.agent or post.to == followed.agent


class _ChannelSight(NamedTuple):
    """How far a follower sees into a channel: not at all without a view.

    What is said to everyone is delivered to an agent from `heard_since` on, None: never.
    """

    view: View | None = None
    heard_since: int | None = None
    # When the access may end.
    until: str = ""

    def includes(self, followed: Followed, post: Post) -> bool:
        """Whether the follower may see a message of this channel."""
        if self.view is None:
            return False
        if followed.agent and post.to in ("", EVERYONE):
            # It took part when that was said.
            return self.heard_since is not None and post.position > self.heard_since and post.visible_to(self.view)
        return post.visible_to(self.view)


async def _sight_of(team: Team, caller: Caller, followed: Followed, post: Post) -> _ChannelSight:
    """What a follower may see of the channel of a message."""
    channel = await team.store.get(Channel, caller.tenant, post.channel_id)
    access = await team.store.get(Access, caller.tenant, post.intent_id)
    if channel is None or access is None:
        return _ChannelSight()
    speaker = caller._replace(agent=followed.agent) if followed.agent else caller
    try:
        channel_view = check_takes_part(await sees(team, channel, access, speaker))
    except (NotFound, NotMember):
        return _ChannelSight(until=access.due)
    if not followed.agent:
        return _ChannelSight(channel_view, until=access.due)
    participant = await participation(team, access, channel_view.agent)
    return _ChannelSight(channel_view, heard_since(channel, access, participant, channel_view, team.at()), access.due)


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
