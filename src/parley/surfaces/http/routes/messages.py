"""Messages over HTTP: post, ask, reply, read, acknowledge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.channels import channels, posting, reading
from parley.app.team.channels.posting import Held
from parley.app.team.channels.reading import MessageFilter
from parley.app.team.decisions import approvals
from parley.app.team.directory.keys import check_key
from parley.domain.channel.post import PostState, status_of
from parley.domain.directory.callers import QUEUE_PREFIX, ids_created
from parley.domain.errors.errors import Invalid, NotFound, Problem, Stale
from parley.domain.errors.team import ImmutableField
from parley.domain.exchange.approval import Approval
from parley.domain.message.message import Pattern
from parley.domain.names import is_name
from parley.domain.store.limits import LONG_POLL_MAX_SECONDS
from parley.surfaces.entrance.proofs import check_named_proof, check_proof
from parley.surfaces.entrance.validation import converted
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.listing import json_list
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.wire.api import channels as rfc0021
from parley.wire.api.approvals import held_of
from parley.wire.api.channels import AskIn, BatchIn, MessageIn, MessagePatch, ReplyIn
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.rules import HeldMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from parley.app.team.channels.reading import MessagePage
    from parley.domain.channel.post import Post

_FIELDS = frozenset(ChannelMessage.__struct_fields__) - {"status", *ChannelMessage.may_be_absent}


async def created(call: Call, outcome: Post | Held) -> Response:
    """The response to a message that is posted, or held."""
    if isinstance(outcome, Held):
        return await _held(call, outcome.approval)
    return Response(201, rfc0021.posted(outcome, outcome.state.value))


async def _held(call: Call, approval: Approval) -> Response:
    return json(202, held_of(approval, await approvals.deciders(call.team, approval)))


async def created_again(call: Call, message_id: str) -> Response:
    """The response to a message that was posted or held before."""
    if message_id.startswith("appr_"):
        approval = await call.team.store.get(Approval, call.caller.tenant, message_id)
        if approval is None:
            raise NotFound.no_such("approval")
        if approval.agent != (getattr(call.body, "sender", None) or call.caller.agent):
            # Only a person may read what the other side wanted to send.
            approval = replace(approval, escalation=None, detected_keywords=())
        return await _held(call, approval)
    return await created(call, await _posted(call, message_id))


async def _posted(call: Call, message_id: str) -> Post:
    """A message as it was when it was posted."""
    post = await call.team.store.post(call.caller.tenant, message_id)
    if post is None:
        raise Stale("this was carried out, but its message is no longer stored")
    waits_for_holder = post.recipients == () and not post.to.startswith(QUEUE_PREFIX)
    return post._replace(state=PostState.PENDING if waits_for_holder else PostState.DELIVERED)


async def _batch_again(call: Call, message_ids: str) -> Response:
    return _batch_response([await _posted(call, message_id) for message_id in ids_created(message_ids)])


async def _sent_again(call: Call, message_id: str) -> Response:
    body: MessageIn = call.body
    wait = call.number("wait", 0, 0, call.team.limits.ask_seconds)
    if wait and not message_id.startswith("appr_"):
        return await _answer_response(
            call,
            await posting.resume_ask(call.team, await call.speaker(body.sender), message_id, wait),
        )
    return await created_again(call, message_id)


async def _asked_again(call: Call, message_id: str) -> Response:
    body: AskIn = call.body
    if message_id.startswith("appr_"):
        return await created_again(call, message_id)
    answer = await posting.resume_ask(call.team, await call.speaker(body.sender), message_id, body.timeout)
    return await _answer_response(call, answer)


async def _answer_response(call: Call, answer: Post | Held) -> Response:
    """The answer to a request; the held message if the request waits for approval."""
    if isinstance(answer, Held):
        return await created(call, answer)
    await check_key(call.team, call.caller)
    return Response(200, rfc0021.posted(answer, PostState.DELIVERED.value))


async def send(call: Call) -> Response:
    body: MessageIn = call.body
    caller = await call.speaker(body.sender)
    channel_id = call.params["channel_id"]
    draft = rfc0021.draft_of(body, call.team.limits, call.request.header(b"traceparent"))
    await check_proof(call.team, caller, channel_id, body, draft)
    if body.message_type is Pattern.REQUEST and call.flag("require_responders"):
        draft = draft._replace(needs_responders=True)
    wait = call.number("wait", 0, 0, call.team.limits.ask_seconds)
    if wait:
        return await _answer_response(call, await posting.ask(call.team, caller, channel_id, draft, wait))
    return await created(call, await posting.post(call.team, caller, channel_id, draft))


async def send_by_name(call: Call) -> Response:
    body: MessageIn = call.body
    name = call.params["name"]
    if not is_name(name):
        raise Invalid.because([Problem("bad_name", "name", "is no channel name")])
    caller = await call.speaker(body.sender)
    draft = rfc0021.draft_of(body, call.team.limits, call.request.header(b"traceparent"))
    await check_named_proof(call.team, caller, call.params["intent_id"], name, body, draft)
    return await created(call, await channels.post_by_name(call.team, caller, call.params["intent_id"], name, draft))


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
    posts = await posting.post_all(call.team, caller, channel_id, drafts)
    return _batch_response(posts)


def _batch_response(posts: Iterable[Post]) -> Response:
    return Response(201, b"[" + b",".join([rfc0021.posted(post, post.state.value) for post in posts]) + b"]")


async def ask(call: Call) -> Response:
    body: AskIn = call.body
    caller = await call.speaker(body.sender)
    message = MessageIn(body.payload, Pattern.REQUEST, body.sender, body.to, metadata=body.metadata)
    draft = rfc0021.draft_of(message, call.team.limits, call.request.header(b"traceparent"))
    draft = draft._replace(needs_responders=not body.wait_for_responders)
    channel_id = call.params["channel_id"]
    await check_proof(call.team, caller, channel_id, message, draft)
    return await _answer_response(call, await posting.ask(call.team, caller, channel_id, draft, body.timeout))


async def reply(call: Call) -> Response:
    body: ReplyIn = call.body
    caller = await call.speaker(body.sender)
    channel_id, request_id = call.params["channel_id"], call.params["message_id"]
    message = MessageIn(
        body.payload,
        Pattern.RESPONSE,
        correlation_id=request_id,
        metadata=body.metadata,
        expires_at=body.expires_at,
        lease=body.lease,
    )
    draft = rfc0021.draft_of(message, call.team.limits, call.request.header(b"traceparent"))
    await check_proof(call.team, caller, channel_id, message, draft)
    return await created(call, await posting.reply(call.team, caller, channel_id, request_id, draft))


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
    )
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
_MESSAGES = "/channels/{channel_id}/messages"
_WAIT = Param("wait", "Wait up to this many seconds for the first answer, and return it.", "number", 0, 3600)
_RESPONDERS = Param(
    "require_responders", "Refuse a request that nobody could answer now, with no_responders.", "boolean"
)
ROUTES = (
    Route(
        "POST",
        _MESSAGES,
        send,
        "Send a message",
        _TAG,
        {201: ChannelMessage, 200: ChannelMessage, 202: HeldMessage},
        body=MessageIn,
        keyed=True,
        again=_sent_again,
        query=(_WAIT, _RESPONDERS),
        refusals=(504,),
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "GET",
        _MESSAGES,
        list_page,
        "List messages",
        _TAG,
        {200: list[ChannelMessage]},
        query=(
            Param("since", "A message id, a sequence number or a time: only messages after it."),
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
    Route("GET", _MESSAGES + "/{message_id}", get, "Get a message", _TAG, {200: ChannelMessage}, scope=EVERYBODY),
    Route(
        "PATCH",
        _MESSAGES + "/{message_id}",
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
        _MESSAGES + "/{message_id}/reply",
        reply,
        "Answer a request",
        _TAG,
        {201: ChannelMessage, 202: HeldMessage},
        body=ReplyIn,
        keyed=True,
        again=created_again,
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "POST",
        "/channels/{channel_id}/batch",
        send_batch,
        "Send several messages",
        _TAG,
        {201: list[ChannelMessage]},
        body=BatchIn,
        documents=100,
        again=_batch_again,
        scope=EVERYBODY,
        while_suspended=True,
    ),
    Route(
        "POST",
        "/channels/{channel_id}/ask",
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
        "Send a message to a channel by name; the channel is created if it does not exist",
        _TAG,
        {201: ChannelMessage, 202: HeldMessage},
        body=MessageIn,
        keyed=True,
        again=created_again,
        scope=EVERYBODY,
        while_suspended=True,
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
