"""Read a channel: pages after a cursor, long polling, one message, search, receipts."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.channels import find_channel
from parley.app.team.channels.visible import scope_of_all, scope_of_channels
from parley.app.team.directory.keys import check_key
from parley.app.team.directory.permissions import sees
from parley.app.team.state.tail import of_channel
from parley.domain.channel.channel import View, check_takes_part
from parley.domain.channel.post import Receipt
from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.domain.errors.team import BadCursor, CursorEvicted, MessageExpired, NotAddressee
from parley.domain.store.changes import Query, ReaderPost, TeamChanges
from parley.domain.times import from_stamp, parse_time, stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller

# How long the list is held for a caller whose request in the channel is unanswered: the SDK's ask() lists every 0.5 s.
HOLD_SECONDS = 2.0
# A page ends where it is this much text; each is held in memory until its reader has taken it.
PAGE_BYTES = 1024 * 1024
# Batch size when reading a page: few at first, because a message may be as long as a body.
_FIRST_BATCH = 16
_PIECE = 500
_BATCH_BYTES = 256 * 1024
# Batch size when searching.
_FOUND = 500
# A sender whose request is older than this no longer waits for the answer.
_ASKS_FOR = timedelta(seconds=60)
# As a server makes them: a ulid in Crockford's base 32, which has 128 bits.
_MESSAGE_ID = re.compile(r"msg_[0-7][0-9A-HJKMNP-TV-Z]{25}")


class MessageFilter(NamedTuple):
    """Which page to read."""

    since: str = ""
    to: str = ""
    limit: int = 0
    wait: float = 0.0
    strict: bool = False


class MessagePage(NamedTuple):
    """Messages in order. `oldest` is the first place still stored, when the cursor is before it.

    `rest` reads on where that is a lot of text, up to the message that was the `last` one at the beginning.
    """

    messages: tuple[ReaderPost, ...]
    oldest: int = 0
    rest: AsyncIterator[tuple[ReaderPost, ...]] | None = None
    last: str = ""


async def page(team: Team, caller: Caller, channel_id: str, wanted: MessageFilter) -> MessagePage:
    """Messages after a cursor that the caller may see."""
    channel, access = await find_channel(team, caller, channel_id)
    channel_view = check_takes_part(await sees(team, channel, access, caller))
    place = _Place(0)
    if wanted.since:
        place = await _cursor(team, caller, channel_id, channel_view, wanted.since)
        if place.oldest and wanted.strict:
            detail = f"the oldest message that is kept is number {place.oldest}"
            raise CursorEvicted(detail, facts={"oldest": place.oldest})
    limit = wanted.limit or team.limits.max_messages
    query = Query(channel_id, channel_view, team.at(), place.seq, place.time, wanted.to, limit)
    if wanted.wait:
        messages = await _waited(team, caller, query, wanted.wait)
    else:
        if _asks(team, caller, channel_id, wanted):
            await _wait_for_answer(team, caller, channel_id)
            query = query._replace(now=team.at())
        messages, more = await _bounded(team, caller.tenant, query)
        if more and not wanted.limit:
            return await _unbounded(team, caller.tenant, query, messages, place.oldest)
    return MessagePage(messages, place.oldest, last=messages[-1].post.id if messages else "")


async def _bounded(team: Team, tenant: str, query: Query) -> tuple[tuple[ReaderPost, ...], bool]:
    """A page that is not a lot of text, and whether it ends because it would have been. It is read in batches, so that
    other tasks run in between.
    """
    messages: list[ReaderPost] = []
    left, size, limit = query.limit, 0, _FIRST_BATCH
    while True:
        limit = min(left, limit)
        piece = await team.store.page(tenant, query._replace(limit=limit))
        if messages and messages[-1].post.seq < (await team.store.tally(tenant, query.channel_id)).floor:
            messages.clear()  # evicted meanwhile: what is left follows without a gap
            left, size = query.limit, 0
        messages += piece
        left -= len(piece)
        added = _size_of(piece)
        size += added
        if len(piece) < limit or not left:
            return tuple(messages), False
        if size >= PAGE_BYTES:
            return tuple(messages), True
        query = query._replace(after_seq=piece[-1].post.seq)
        limit = _next_batch(len(piece), added)


async def _unbounded(
    team: Team, tenant: str, query: Query, messages: tuple[ReaderPost, ...], oldest: int
) -> MessagePage:
    """All messages that there are now: a page, and what reads the rest of them."""
    newest = await team.store.page(tenant, query._replace(limit=1, newest=True))
    last = newest[0].post if newest else messages[-1].post

    async def rest() -> AsyncIterator[tuple[ReaderPost, ...]]:
        after, limit = messages[-1].post.seq, _FIRST_BATCH
        while after < last.seq:
            # Messages that are evicted while they are sent would leave a gap: then the list must not look complete.
            if after < (await team.store.tally(tenant, query.channel_id)).floor:
                raise Unavailable("messages were evicted while they were sent")
            piece = await team.store.page(tenant, query._replace(after_seq=after, limit=limit))
            piece = tuple([message for message in piece if message.post.seq <= last.seq])
            if not piece:
                return
            yield piece
            after, limit = piece[-1].post.seq, _next_batch(len(piece), _size_of(piece))

    return MessagePage(messages, oldest, rest(), last.id)


def _size_of(messages: Sequence[ReaderPost]) -> int:
    return sum([len(message.post.payload) + len(message.post.metadata) for message in messages])


def _next_batch(count: int, size: int) -> int:
    """How many messages to read next, so that they are about a batch of text."""
    return max(1, min(_PIECE, _BATCH_BYTES * count // max(size, 1)))


def _asks(team: Team, caller: Caller, channel_id: str, wanted: MessageFilter) -> bool:
    """Whether an agent that waits for an answer reads the whole list: then the list is held until the answer."""
    if wanted.since or wanted.to or wanted.limit or not caller.agent:
        return False
    request = team.requests.unanswered(caller.tenant, channel_id, caller.agent)
    return (
        request is not None and not request.over(team.at()) and team.now() - from_stamp(request.created_at) < _ASKS_FOR
    )


async def _wait_for_answer(team: Team, caller: Caller, channel_id: str) -> None:
    """Wait until the caller's last request is answered, at most `HOLD_SECONDS`."""
    listener = team.tail.listen(of_channel(caller.tenant, channel_id))
    try:
        async with asyncio.timeout(HOLD_SECONDS):
            while request := team.requests.unanswered(caller.tenant, channel_id, caller.agent):
                listener.take()
                await check_key(team, caller)
                # With several servers, the answer may have been committed before this one listened.
                if await team.store.answers(caller.tenant, request.id):
                    break
                await listener.event.wait()
    except TimeoutError:
        pass
    finally:
        team.tail.leave(listener)
    await check_key(team, caller)
    await find_channel(team, caller, channel_id)


async def _waited(team: Team, caller: Caller, query: Query, seconds: float) -> tuple[ReaderPost, ...]:
    """Wait until the page has messages, the timeout passes, or the server stops."""
    listener = team.tail.listen(of_channel(caller.tenant, query.channel_id))
    try:
        async with asyncio.timeout(seconds):
            while True:
                listener.take()
                messages = await _again(team, caller, query)
                if messages or team.tail.closing:
                    return messages
                await listener.event.wait()
    except TimeoutError:
        return await _again(team, caller, query)
    finally:
        team.tail.leave(listener)


async def _again(team: Team, caller: Caller, query: Query) -> tuple[ReaderPost, ...]:
    """The page, by the current rights, key and time."""
    await check_key(team, caller)
    channel, access = await find_channel(team, caller, query.channel_id)
    channel_view = check_takes_part(await sees(team, channel, access, caller))
    messages, _ = await _bounded(team, caller.tenant, query._replace(view=channel_view, now=team.at()))
    return messages


class _Place(NamedTuple):
    """A decoded cursor: a place or a time. `oldest` is the first place still stored, when the cursor is before it."""

    seq: int
    time: str = ""
    oldest: int = 0


async def _cursor(team: Team, caller: Caller, channel_id: str, channel_view: View, since: str) -> _Place:
    """Decode `since`: a message id, a number, or a time."""
    tenant = caller.tenant
    floor = (await team.store.tally(tenant, channel_id)).floor
    if since.isascii() and since.isdigit() and len(since) < 16:
        seq = int(since)
        return _Place(seq, oldest=floor + 1 if seq < floor else 0)
    if since.startswith("msg_"):
        post = await team.store.post(tenant, since)
        if post is not None and post.channel_id == channel_id and post.visible_to(channel_view):
            return _Place(post.seq)
        if post is not None and post.channel_id != channel_id and await _is_known(team, caller, post.channel_id):
            raise BadCursor("since is a message of another channel")
        # The ids of evicted messages are not stored, and the time in an id does not give its place: servers use their
        # own clocks, and a held message keeps its id. So any valid id may have been in this channel.
        if not floor or not _MESSAGE_ID.fullmatch(since):
            raise BadCursor("since is no message of this channel")
        return _Place(0, oldest=floor + 1)
    try:
        moment = stamp(parse_time(since.replace(" ", "+")))
    except Invalid:
        raise BadCursor("since is no message of this channel, no number and no time") from None
    oldest = await _oldest(team, tenant, channel_id) if floor else None
    return _Place(0, moment, floor + 1 if floor and (oldest is None or moment < oldest.created_at) else 0)


async def _is_known(team: Team, caller: Caller, channel_id: str) -> bool:
    """Whether the caller may know that a channel exists."""
    try:
        await find_channel(team, caller, channel_id)
    except NotFound:
        return False
    return True


async def _oldest(team: Team, tenant: str, channel_id: str) -> Post | None:
    """The oldest message that is still stored."""
    everything = Query(channel_id, View("", 0, takes_part=True, may_write=False), team.at(), limit=1)
    messages = await team.store.page(tenant, everything)
    return messages[0].post if messages else None


async def get(team: Team, caller: Caller, channel_id: str, message_id: str) -> ReaderPost:
    """One message. `NotFound` when the caller may not see it."""
    channel, access = await find_channel(team, caller, channel_id)
    channel_view = check_takes_part(await sees(team, channel, access, caller))
    post = await team.store.post(caller.tenant, message_id)
    if post is None or post.channel_id != channel_id or not post.visible_to(channel_view):
        raise NotFound.no_such("message")
    return await team.store.with_receipt(caller.tenant, post, channel_view.agent)


async def mark_read(team: Team, caller: Caller, channel_id: str, message_id: str) -> ReaderPost:
    """Acknowledge a message as one of its recipients. Idempotent."""
    message = await get(team, caller, channel_id, message_id)
    reader = await _reader(team, caller, message.post, channel_id)
    already = message if caller.agent == reader else await team.store.with_receipt(caller.tenant, message.post, reader)
    if already.read_at:
        return already
    now = team.at()
    if message.post.over(now):
        raise MessageExpired(f"{message_id} has expired")
    await team.commit(caller, TeamChanges(caller.tenant, receipts=(Receipt(message_id, reader, now),)))
    return await team.store.with_receipt(caller.tenant, message.post, reader)


async def _reader(team: Team, caller: Caller, post: Post, channel_id: str) -> str:
    """The agent of the receipt: the caller; for a key without an agent, the only recipient."""
    if caller.agent:
        channel, access = await find_channel(team, caller, channel_id)
        channel_view = await sees(team, channel, access, caller)
        addressed = post.position > channel_view.since if post.recipients is None else caller.agent in post.recipients
        if addressed:
            return caller.agent
        raise NotAddressee(f"{post.id} was not addressed to {caller.agent}")
    # A key for several agents that names none acknowledges for the only one that it could have named.
    if post.recipients is not None and len(post.recipients) == 1:
        return post.recipients[0]
    raise NotAddressee("name the agent that has read it, by X-Agent-ID")


async def search(
    team: Team, caller: Caller, text: str, *, channel_id: str = "", limit: int = 100
) -> AsyncIterator[ReaderPost]:
    """Messages that contain a text and that the caller may see, newest first."""
    if channel_id:
        channel, _ = await find_channel(team, caller, channel_id)
        scope = await scope_of_channels(team, caller, (channel,))
    else:
        scope = await scope_of_all(team, caller)
    # Payloads are stored as JSON: encode the text the same way.
    spelled = json.dumps(text, ensure_ascii=False)[1:-1]
    left = await team.store.search(caller.tenant, spelled, scope, team.at(), limit)
    while left:
        # One by one: each may be as long as a body, and it is taken as slowly as its reader likes.
        items, _ = await team.store.read_positions(caller.tenant, left[:1])
        left = left[1:]
        post = items[0].post if items else None
        message = await _visible_post(team, caller, post) if post is not None else None
        if message is not None:
            yield message


async def _visible_post(team: Team, caller: Caller, post: Post) -> ReaderPost | None:
    """The message as the caller sees it now, if it may."""
    try:
        channel, access = await find_channel(team, caller, post.channel_id)
        channel_view = await sees(team, channel, access, caller)
    except NotFound:
        return None
    if not channel_view.takes_part or not post.visible_to(channel_view) or post.over(team.at()):
        return None
    return await team.store.with_receipt(caller.tenant, post, channel_view.agent)
