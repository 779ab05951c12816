"""Read a channel: pages after a cursor, long polling, one message, search, receipts."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.channels import find_channel, view_of
from parley.app.team.channels.visible import scope_of_all, scope_of_channels
from parley.app.team.directory.keys import check_key
from parley.app.team.state.tail import of_channel
from parley.domain.channel.channel import View, check_takes_part
from parley.domain.channel.job import Job
from parley.domain.channel.post import Receipt
from parley.domain.directory.callers import QUEUE_PREFIX, KeyKind
from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.domain.errors.team import BadCursor, CursorEvicted, MessageExpired, NotAddressee
from parley.domain.store.changes import ConversationQuery, Query, ReaderPost, TeamChanges
from parley.domain.times import from_stamp, parse_time, stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import ConversationMark, FeedScope

# How long the list is held for a caller whose request in the channel is unanswered: the SDK's ask() lists every 0.5 s.
HOLD_SECONDS = 2.0
# A page ends where it is this much text; each is held in memory until its reader has taken it.
PAGE_BYTES = 1024 * 1024
# Batch size when reading a page: few at first, because a message may be as long as a body.
_FIRST_BATCH = 16
_PIECE = 500
_BATCH_BYTES = 256 * 1024
# Messages of a page that goes backwards, when no number is given.
BACKWARDS_DEFAULT = 100
# Positions that are looked through for conversations at once, and how often for one page.
_WINDOW = 2_000
_WINDOWS = 10
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
    # From the newest message on, or from the one before this; without `since` and `wait`.
    newest: bool = False
    before: str = ""


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
    channel_view = check_takes_part(await view_of(team, caller, channel_id))
    if wanted.newest:
        return await _backwards(team, caller, Query(channel_id, channel_view, team.at(), to=wanted.to), wanted)
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


async def _backwards(team: Team, caller: Caller, query: Query, wanted: MessageFilter) -> MessagePage:
    """The newest messages, or those before one, newest first: a page that is not a lot of text, read in batches."""
    before = 0
    if wanted.before:
        try:
            place = await _cursor(team, caller, query.channel_id, query.view, wanted.before)
        except BadCursor as error:
            raise BadCursor(error.message.replace("since", "before", 1)) from None
        if place.time:
            raise BadCursor("before is no message of this channel and no number")
        if place.oldest or not place.seq:
            return MessagePage(())  # everything before it was evicted
        before = place.seq
    messages: list[ReaderPost] = []
    left, size, limit = wanted.limit or BACKWARDS_DEFAULT, 0, _FIRST_BATCH
    while left and size < PAGE_BYTES:
        limit = min(left, limit)
        piece = await team.store.page(caller.tenant, query._replace(limit=limit, newest=True, before_seq=before))
        messages += piece
        if len(piece) < limit:
            break
        left, before, added = left - len(piece), piece[-1].post.seq, _size_of(piece)
        size += added
        limit = _next_batch(len(piece), added)
    return MessagePage(tuple(messages), last=messages[-1].post.id if messages else "")


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
    if wanted.since or wanted.to or wanted.limit or not caller.agent or caller.kind is KeyKind.HUMAN:
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
    channel_view = check_takes_part(await view_of(team, caller, query.channel_id))
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
    channel_view = check_takes_part(await view_of(team, caller, channel_id))
    post = await _find(team, caller.tenant, message_id)
    if post is None or post.channel_id != channel_id or not post.visible_to(channel_view):
        raise NotFound.no_such("message")
    return await team.store.with_receipt(caller.tenant, post, channel_view.agent)


async def _find(team: Team, tenant: str, message_id: str) -> Post | None:
    """A message that is kept. What has a job is, also where its channel shows only newer messages."""
    post = await team.store.post(tenant, message_id)
    if post is None and await team.store.get(Job, tenant, message_id) is not None:
        post = await team.store.post(tenant, message_id, evicted=True)
    if post is None or not post.to.startswith(QUEUE_PREFIX):
        return post
    return post._replace(recipients=await _takers(team, tenant, post))


async def _takers(team: Team, tenant: str, post: Post) -> tuple[str, ...]:
    """Whom a message in a queue counts as addressed to: the reader that has claimed it, or has answered it itself."""
    job = await team.store.get(Job, tenant, post.id)
    if job is not None:
        return (job.holder,) if job.holder else ()
    state = await team.requests.state(tenant, post)
    if state is not None and state.forwards:
        return ()  # who answered got another message
    return tuple([answer.sender for answer in await team.store.answers(tenant, post.id)])


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
        channel_view = await view_of(team, caller, channel_id)
        addressed = post.position > channel_view.since if post.recipients is None else caller.agent in post.recipients
        if addressed:
            return caller.agent
        raise NotAddressee(f"{post.id} was not addressed to {caller.agent}")
    # A key for several agents that names none acknowledges for the only one that it could have named.
    if post.recipients is not None and len(post.recipients) == 1:
        return post.recipients[0]
    raise NotAddressee("name the agent that has read it, by X-Agent-ID")


class ConversationEnd(NamedTuple):
    """A conversation, by its newest message that the caller may see."""

    id: str
    last: Post


class ConversationPage(NamedTuple):
    """Conversations, last active first. `before` reads on; 0 when there are no more."""

    conversations: tuple[ConversationEnd, ...]
    before: int = 0


async def list_conversations(team: Team, caller: Caller, before: int, limit: int) -> ConversationPage:
    """Conversations by their newest messages, in windows of positions: what is hidden takes as long as what is not."""
    scope = await scope_of_all(team, caller)
    first, end = before, await team.store.head(caller.tenant) + 1
    before = min(before, end) if before else end
    last_positions: dict[str, int] = {}
    for _ in range(_WINDOWS):
        after = max(0, before - _WINDOW - 1)
        for mark in await team.store.conversation_marks(caller.tenant, after, before):
            if _in_scope(scope, mark) and mark.conversation_id not in last_positions:
                if await _is_on_earlier_page(team, caller, mark.conversation_id, first):
                    continue
                if len(last_positions) == limit:
                    return await _conversations(team, caller, last_positions, mark.position + 1)
                last_positions[mark.conversation_id] = mark.position
        before = after + 1
        if not after:
            return await _conversations(team, caller, last_positions, 0)
    return await _conversations(team, caller, last_positions, before)


async def _is_on_earlier_page(team: Team, caller: Caller, conversation_id: str, before: int) -> bool:
    """Whether the caller sees a newer message of a conversation than those before a position."""
    if not before:
        return False
    query = await _conversation_query(team, caller, conversation_id)
    query = query._replace(after=before - 1, limit=_FIRST_BATCH)
    while posts := await team.store.conversation_posts(caller.tenant, query):
        for post in posts:
            if await _visible_post(team, caller, post) is not None:
                return True
        query = query._replace(after=posts[-1].position)
    return False


def _in_scope(scope: FeedScope, mark: ConversationMark) -> bool:
    if scope.channels is None:
        return True
    since = scope.channels.get(mark.channel_id)
    if since is None:
        return False
    return (
        mark.sender == scope.viewer
        or (mark.recipients is None and mark.position > since)
        or (mark.recipients is not None and scope.viewer in mark.recipients)
    )


async def _conversations(
    team: Team, caller: Caller, last_positions: Mapping[str, int], before: int
) -> ConversationPage:
    """The page with the messages at these positions. What has expired since is left out."""
    names = {position: name for name, position in last_positions.items()}
    positions, found = tuple(sorted(names)), []
    while positions:
        items, read = await team.store.read_positions(caller.tenant, positions)
        positions = tuple([position for position in positions if position > read])
        for item in items:
            message = await _visible_post(team, caller, item.post) if item.post is not None else None
            if message is not None:
                found.append(ConversationEnd(names[item.position], message.post))
    return ConversationPage(tuple(reversed(found)), before)


async def _conversation_query(team: Team, caller: Caller, conversation_id: str) -> ConversationQuery:
    exchanges = await team.governance.conversation(team.store, caller.tenant, conversation_id)
    return ConversationQuery(conversation_id, team.at(), exchanges)


async def conversation_page(team: Team, caller: Caller, conversation_id: str, wanted: MessageFilter) -> MessagePage:
    """Messages of a conversation that the caller may see, in all channels; `NotFound` when there are none at all."""
    query = (await _conversation_query(team, caller, conversation_id))._replace(newest=wanted.newest)
    cursor = wanted.before or wanted.since
    if cursor:
        post = await team.store.post(caller.tenant, cursor)
        if post is None or await _visible_post(team, caller, post) is None:
            raise BadCursor(f"{'before' if wanted.before else 'since'} is no message that is kept")
        query = query._replace(before=post.position) if wanted.before else query._replace(after=post.position)
    messages: list[ReaderPost] = []
    left, size, limit = wanted.limit or BACKWARDS_DEFAULT, 0, _FIRST_BATCH
    while left and size < PAGE_BYTES:
        piece = await team.store.conversation_posts(caller.tenant, query._replace(limit=limit))
        visible = [message for post in piece if (message := await _visible_post(team, caller, post)) is not None]
        messages += visible[:left]
        left -= len(visible[:left])
        if len(piece) < limit:
            break
        end = piece[-1].position
        query = query._replace(before=end) if query.newest else query._replace(after=end)
        added = sum([len(post.payload) + len(post.metadata) for post in piece])
        size, limit = size + added, _next_batch(len(piece), added)
    if not messages and not cursor:
        raise NotFound.no_such("conversation")
    return MessagePage(tuple(messages), last=messages[-1].post.id if messages else "")


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
        channel_view = await view_of(team, caller, post.channel_id)
    except NotFound:
        return None
    if not channel_view.takes_part or not post.visible_to(channel_view) or post.expired(team.at()):
        return None
    return await team.store.with_receipt(caller.tenant, post, channel_view.agent)
