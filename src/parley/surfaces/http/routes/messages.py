"""Messages over HTTP: post, ask, reply, read, acknowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.channels import asking, channels, posting, reading
from parley.app.team.channels.posting import Held
from parley.app.team.channels.reading import MessageFilter
from parley.app.team.directory.keys import check_key
from parley.app.team.intents import intents
from parley.domain.channel.post import PostState, status_of
from parley.domain.directory.callers import NO_TENANT, ids_created
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.team import ImmutableField
from parley.domain.message.message import Pattern
from parley.domain.names import is_name
from parley.domain.store.limits import LONG_POLL_MAX_SECONDS
from parley.surfaces.entrance.proofs import check_named_proof, check_proof
from parley.surfaces.entrance.validation import converted
from parley.surfaces.http import responses
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.listing import json_list
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, Submit, json
from parley.wire.api import channels as rfc0021
from parley.wire.api.channels import AskIn, BatchIn, MessageIn, MessagePatch, ReplyIn
from parley.wire.api.records.channels import ChannelMessage, Conversation
from parley.wire.api.records.rules import HeldMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from parley.app.team.channels.reading import MessagePage
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.store.changes import TeamChanges

_FIELDS = frozenset(ChannelMessage.__struct_fields__) - {"status", *ChannelMessage.may_be_absent}


async def _batch_again(call: Call, message_ids: str) -> Response:
    posts = [await responses.posted_before(call, message_id) for message_id in ids_created(message_ids)]
    return Response(201, _batch_posted(call, posts))


async def _sent_again(call: Call, message_id: str) -> Response:
    body: MessageIn = call.body
    wait = call.number("wait", 0, 0, call.team.limits.ask_seconds)
    if wait and not message_id.startswith("appr_"):
        return await _answer_response(
            call,
            await asking.resume_ask(call.team, await call.speaker(body.sender), message_id, wait),
        )
    return await responses.created_again(call, message_id)


async def _asked_again(call: Call, message_id: str) -> Response:
    body: AskIn = call.body
    if message_id.startswith("appr_"):
        return await responses.created_again(call, message_id)
    answer = await asking.resume_ask(call.team, await call.speaker(body.sender), message_id, body.timeout)
    return await _answer_response(call, answer)


async def _answer_response(call: Call, answer: Post | Held) -> Response:
    """The answer to a request; the held message if the request waits for approval."""
    if isinstance(answer, Held):
        return await responses.created(call, answer)
    await check_key(call.team, call.caller)
    return Response(200, rfc0021.posted(answer, PostState.DELIVERED.value))


async def send(call: Call) -> Response:
    body: MessageIn = call.body
    caller = await call.speaker(body.sender)
    channel_id = call.params["channel_id"]
    draft = _draft_of(call)
    await check_proof(call.team, caller, channel_id, body, draft)
    draft = _with_patience(call, draft)
    wait = call.number("wait", 0, 0, call.team.limits.ask_seconds)
    if wait:
        return await _answer_response(call, await asking.ask(call.team, caller, channel_id, draft, wait))
    return await responses.created(call, await posting.post(call.team, caller, channel_id, draft))


def _remembered_changes(call: Call) -> TeamChanges | None:
    """What a message of a known sender writes, by what was decided about one like it before."""
    team, caller = call.team, call.caller
    sender = call.body.sender
    if call.query or not caller.agent or (sender and sender != caller.agent):
        return None
    draft = _draft_of(call)
    if draft.proof:
        return None
    # On a store that other nodes can write to, an answer asks first how far they are: its request may be evicted.
    if draft.in_reply_to and not team.store.is_current:
        return None
    changes = posting.remembered_changes(team, caller, call.params["channel_id"], draft)
    if changes is None or team.store.is_current:
        return changes
    # There the commit also compares whether the caller is still who it was.
    return changes._replace(keys_generation=team.store.generation(NO_TENANT))


def _draft_of(call: Call) -> PostDraft:
    """The draft of the message in the body, or of the answer to the request that the path names."""
    request_id = call.params.get("message_id")
    message = call.body if request_id is None else _message_of(call.body, request_id)
    return rfc0021.draft_of(message, call.team.limits, call.request.header(b"traceparent"))


def _message_of(body: ReplyIn, request_id: str) -> MessageIn:
    """The body of a reply as the body of a response to the request."""
    return MessageIn(
        body.payload,
        Pattern.RESPONSE,
        correlation_id=request_id,
        metadata=body.metadata,
        expires_at=body.expires_at,
        lease=body.lease,
    )


def _with_patience(call: Call, draft: PostDraft) -> PostDraft:
    """The draft with what the query says about waiting for somebody who could get it."""
    if "wait_for_responders" not in call.query:
        return draft
    return draft._replace(wait_for_responders=call.flag("wait_for_responders"))


async def send_by_name(call: Call) -> Response:
    body: MessageIn = call.body
    name = call.params["name"]
    if not is_name(name):
        raise Invalid.because([Problem("bad_name", "name", "is no channel name")])
    caller = await call.speaker(body.sender)
    draft = rfc0021.draft_of(body, call.team.limits, call.request.header(b"traceparent"))
    intent_id = await intents.find_id(call.team, caller, call.params["intent_id"])
    await check_named_proof(call.team, caller, intent_id, name, body, draft)
    draft = _with_patience(call, draft)
    return await responses.created(call, await channels.post_by_name(call.team, caller, intent_id, name, draft))


async def send_batch(call: Call) -> Response:
    body: BatchIn = call.body
    senders = {message.sender for message in body.messages}
    if len(senders) != 1:
        raise Invalid.because([Problem("invalid", "messages", "all messages of a batch have one sender")])
    caller = await call.speaker(senders.pop())
    channel_id = call.params["channel_id"]
    drafts = [
        rfc0021.draft_of(message, call.team.limits, call.request.header(b"traceparent")) for message in body.messages
    ]
    for message, draft in zip(body.messages, drafts, strict=True):
        await check_proof(call.team, caller, channel_id, message, draft)
    posts = await posting.post_all(call.team, caller, channel_id, [_with_patience(call, draft) for draft in drafts])
    return Response(201, _batch_posted(call, posts))


def _batch_posted(call: Call, posts: Sequence[Post]) -> bytes:
    """The body of the response to a batch, whose messages are the first of their commit."""
    body: BatchIn = call.body
    messages = posts[: len(body.messages)]
    return b"[" + b",".join([rfc0021.posted(post, post.state.value) for post in messages]) + b"]"


async def ask(call: Call) -> Response:
    body: AskIn = call.body
    caller = await call.speaker(body.sender)
    message = MessageIn(body.payload, Pattern.REQUEST, body.sender, body.to, metadata=body.metadata)
    draft = rfc0021.draft_of(message, call.team.limits, call.request.header(b"traceparent"))
    draft = draft._replace(wait_for_responders=body.wait_for_responders)
    channel_id = call.params["channel_id"]
    await check_proof(call.team, caller, channel_id, message, draft)
    return await _answer_response(call, await asking.ask(call.team, caller, channel_id, draft, body.timeout))


async def reply(call: Call) -> Response:
    body: ReplyIn = call.body
    caller = await call.speaker(body.sender)
    channel_id, request_id = call.params["channel_id"], call.params["message_id"]
    message = _message_of(body, request_id)
    draft = rfc0021.draft_of(message, call.team.limits, call.request.header(b"traceparent"))
    await check_proof(call.team, caller, channel_id, message, draft)
    return await responses.created(call, await posting.reply(call.team, caller, channel_id, request_id, draft))


async def list_page(call: Call) -> Response:
    query, limits = call.query, call.team.limits
    to = query.get("to", "")
    if to and not is_name(to):
        raise Invalid.because([Problem("bad_name", "to", "is no agent name")])
    wanted = MessageFilter(
        query.get("since", ""),
        to,
        call.whole("limit", 0, 1, limits.page),
        call.number("wait", 0, 0, LONG_POLL_MAX_SECONDS),
        call.choice("on_evicted", "continue", "error") == "error",
        newest=call.choice("order", "asc", "desc") == "desc" or bool(query.get("before")),
        before=query.get("before", ""),
    )
    if wanted.newest and (wanted.since or wanted.wait or query.get("order") == "asc"):
        detail = "goes with the order desc, and without since and wait"
        raise Invalid.because([Problem("invalid", "before" if wanted.before else "order", detail)])
    page = await reading.page(call.team, call.caller, call.params["channel_id"], wanted)
    await check_key(call.team, call.caller)  # the key may have been revoked during the wait
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if page.last:
        headers += ((b"X-Next-Cursor", page.last.encode()),)
    if page.oldest:
        headers += ((b"X-Cursor-Evicted", b"oldest=%d" % page.oldest),)
    if page.rest is None:
        return Response(200, rfc0021.messages(page.messages, call.team.at()), headers=headers)
    return await json_list(_rendered(call, page), headers=headers)


async def _rendered(call: Call, page: MessagePage) -> AsyncIterator[bytes]:
    """A long list, message by message. The key may be revoked while it is sent."""
    for message in page.messages:
        yield rfc0021.message(message, call.team.at())
    if page.rest is not None:
        async for messages in page.rest:
            await check_key(call.team, call.caller)
            for message in messages:
                yield rfc0021.message(message, call.team.at())


async def list_conversations(call: Call) -> Response:
    before = call.whole("before", 0, 0, 10**15 - 1)
    page = await reading.list_conversations(call.team, call.caller, before, call.whole("limit", 50, 1, 200))
    documents = [rfc0021.conversation_record(conversation.id, conversation.last) for conversation in page.conversations]
    return json(200, documents, ((b"X-Next-Cursor", b"%d" % page.before),) if page.before else ())


async def list_conversation(call: Call) -> Response:
    query, conversation_id = call.query, call.params["conversation_id"]
    newest = call.choice("order", "asc", "desc") == "desc" or bool(query.get("before"))
    if newest and (query.get("since") or query.get("order") == "asc"):
        detail = "goes with the order desc, and without since"
        raise Invalid.because([Problem("invalid", "before" if query.get("before") else "order", detail)])
    wanted = MessageFilter(
        query.get("since", ""),
        limit=call.whole("limit", 100, 1, call.team.limits.page),
        newest=newest,
        before=query.get("before", ""),
    )
    page = await reading.conversation_page(call.team, call.caller, conversation_id, wanted)
    now = call.team.at()
    rendered = [
        rfc0021.posted(message.post, status_of(message.post, message.read_at, now), message.read_at, conversation_id)
        for message in page.messages
    ]
    headers = ((b"X-Next-Cursor", page.last.encode()),) if page.last else ()
    return Response(200, b"[" + b",".join(rendered) + b"]", headers=headers)


async def get(call: Call) -> Response:
    message = await reading.get(call.team, call.caller, call.params["channel_id"], call.params["message_id"])
    return Response(200, rfc0021.message(message, call.team.at()))


async def mark(call: Call) -> Response:
    if isinstance(call.body, dict) and (fixed := _FIELDS & call.body.keys()):
        raise ImmutableField(f"{', '.join(sorted(fixed))}: a message never changes; only its status becomes read")
    converted(call.body, MessagePatch)
    message = await reading.mark_read(call.team, call.caller, call.params["channel_id"], call.params["message_id"])
    return Response(
        200, rfc0021.posted(message.post, status_of(message.post, message.read_at, call.team.at()), message.read_at)
    )


async def search(call: Call) -> Response:
    text = call.query.get("q", "")
    if not 1 <= len(text) <= 200:
        raise Invalid.because([Problem("required", "q", "a text of 1 to 200 characters to look for")])
    limit = call.whole("limit", 100, 1, call.team.limits.page)
    channel_id = call.params.get("channel_id", "")
    messages = reading.search(call.team, call.caller, text, channel_id=channel_id, limit=limit)
    return await json_list(rfc0021.message(message, call.team.at()) async for message in messages)


_TAG = "messages"
_SEARCH = (
    Param("q", "The text to search for, ignoring case."),
    Param("limit", "The maximum number of results.", "integer", 1, 1000),
)
MESSAGES = "/channels/{channel_id}/messages"
ASK = "/channels/{channel_id}/ask"
_WAIT = Param("wait", "Wait up to this many seconds for the first answer, and return it.", "number", 0, 3600)
_RESPONDERS = Param(
    "wait_for_responders",
    "false: refuse with no_responders what nobody could get now. true: accept it and wait. Without it, a message to an"
    " agent or role:ROLE may wait, and one to any:ROLE if the role was granted before.",
    "boolean",
)
ROUTES = (
    Route(
        "POST",
        MESSAGES,
        send,
        "Send a message",
        _TAG,
        {201: ChannelMessage, 200: ChannelMessage, 202: HeldMessage},
        body=MessageIn,
        keyed=True,
        again=_sent_again,
        posted=responses.posted,
        query=(_WAIT, _RESPONDERS),
        refusals=(504,),
        scope=EVERYBODY,
        while_suspended=True,
        submit=Submit(_remembered_changes, responses.committed),
    ),
    Route(
        "GET",
        MESSAGES,
        list_page,
        "List messages",
        _TAG,
        {200: list[ChannelMessage]},
        query=(
            Param("since", "A message id, a sequence number or a time: only messages after it."),
            Param("before", "A message id or a sequence number: only messages before it, newest first."),
            Param("order", "desc lists the newest messages first; the default is asc.", choices=("asc", "desc")),
            Param("to", "Only messages that this agent can see."),
            Param("limit", "The maximum number of results.", "integer", 1, 1000),
            Param("wait", "Wait up to this many seconds for a new message.", "number", 0, LONG_POLL_MAX_SECONDS),
            Param(
                "on_evicted", "What to do when messages after the cursor were evicted.", choices=("continue", "error")
            ),
        ),
        refusals=(410,),
        scope=EVERYBODY,
    ),
    Route("GET", MESSAGES + "/{message_id}", get, "Get a message", _TAG, {200: ChannelMessage}, scope=EVERYBODY),
    Route(
        "PATCH",
        MESSAGES + "/{message_id}",
        mark,
        "Mark a message as read",
        _TAG,
        {200: ChannelMessage},
        body=MessagePatch,
        body_raw=True,
        scope=EVERYBODY,
    ),
    Route(
        "POST",
        MESSAGES + "/{message_id}/reply",
        reply,
        "Answer a request",
        _TAG,
        {201: ChannelMessage, 202: HeldMessage},
        body=ReplyIn,
        keyed=True,
        again=responses.created_again,
        posted=responses.posted,
        scope=EVERYBODY,
        while_suspended=True,
        submit=Submit(_remembered_changes, responses.committed),
    ),
    Route(
        "POST",
        "/channels/{channel_id}/batch",
        send_batch,
        "Send several messages",
        _TAG,
        {201: list[ChannelMessage]},
        body=BatchIn,
        query=(_RESPONDERS,),
        documents=100,
        keyed=True,
        again=_batch_again,
        posted=_batch_posted,
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "POST",
        ASK,
        ask,
        "Send a request and wait for the answer",
        _TAG,
        {200: ChannelMessage, 202: HeldMessage},
        body=AskIn,
        keyed=True,
        again=_asked_again,
        refusals=(504,),
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "POST",
        "/intents/{intent_id}/channels/{name}/messages",
        send_by_name,
        "Send a message to a channel by name in an intent by id, title or `-` for the default one;"
        " the channel is created if it does not exist",
        _TAG,
        {201: ChannelMessage, 202: HeldMessage},
        body=MessageIn,
        query=(_RESPONDERS,),
        keyed=True,
        again=responses.created_again,
        posted=responses.posted,
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "GET",
        "/conversations",
        list_conversations,
        "List conversations, last active first. A page may be short or empty: go on while there is an X-Next-Cursor",
        _TAG,
        {200: list[Conversation]},
        query=(
            Param("before", "The X-Next-Cursor of the page before this one.", "integer", 0),
            Param("limit", "The maximum number of results; 50 by default.", "integer", 1, 200),
        ),
        scope=EVERYBODY,
    ),
    Route(
        "GET",
        "/conversations/{conversation_id}/messages",
        list_conversation,
        "List the messages of a conversation, in all channels",
        _TAG,
        {200: list[ChannelMessage]},
        query=(
            Param("since", "A message id: only messages after it."),
            Param("before", "A message id: only messages before it, newest first."),
            Param("order", "desc lists the newest messages first; the default is asc.", choices=("asc", "desc")),
            Param("limit", "The maximum number of results; 100 by default.", "integer", 1, 1000),
        ),
        scope=EVERYBODY,
    ),
    Route(
        "GET",
        "/messages/search",
        search,
        "Search all messages you can see",
        _TAG,
        {200: list[ChannelMessage]},
        query=_SEARCH,
        scope=EVERYBODY,
    ),
    Route(
        "GET",
        "/channels/{channel_id}/search",
        search,
        "Search one channel",
        _TAG,
        {200: list[ChannelMessage]},
        query=_SEARCH,
        scope=EVERYBODY,
    ),
)
