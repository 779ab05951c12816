"""The responses to messages that are posted or held, and to calls that are repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.channels.posting import Held
from parley.app.team.decisions import approvals
from parley.domain.channel.post import PostState
from parley.domain.directory.callers import QUEUE_PREFIX
from parley.domain.errors.errors import NotFound, Stale
from parley.domain.exchange.approval import Approval
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import Call, json
from parley.wire.api import channels as rfc0021
from parley.wire.api.approvals import held_of

if TYPE_CHECKING:
    from parley.domain.channel.post import Post
    from parley.domain.store.changes import Committed


async def created(call: Call, outcome: Post | Held) -> Response:
    """The response to a message that is posted, or held."""
    if isinstance(outcome, Held):
        return await _held(call, outcome.approval)
    return Response(201, rfc0021.posted(outcome, outcome.state.value))


def posted(_: Call, posts: tuple[Post, ...]) -> bytes:
    """The body of the same response, from the messages of its commit."""
    return rfc0021.posted(posts[0], posts[0].state.value)


def committed(result: Committed) -> Response:
    """The same response, from the result of the commit."""
    (post,) = result.posts
    return Response(201, rfc0021.posted(post, post.state._value_))


async def _held(call: Call, approval: Approval) -> Response:
    deciders = await approvals.deciders(call.team, approval)
    if not _is_own(call, approval):
        # Beyond the round limit both sides are referred to one approval. By the digest of what the other side wanted to
        # say one could try guesses.
        approval = replace(approval, digest="")
    return json(202, held_of(approval, deciders))


def _is_own(call: Call, approval: Approval) -> bool:
    """Whether the held message of an approval is the sender's own."""
    return approval.agent == (getattr(call.body, "sender", None) or call.caller.agent)


async def created_again(call: Call, message_id: str) -> Response:
    """The response to a message that was posted or held before."""
    if message_id.startswith("appr_"):
        approval = await call.team.store.get(Approval, call.caller.tenant, message_id)
        if approval is None:
            raise NotFound.no_such("approval")
        if not _is_own(call, approval):
            # Only a person may read what the other side wanted to send.
            approval = replace(approval, escalation=None, detected_keywords=())
        return await _held(call, approval)
    return await created(call, await posted_before(call, message_id))


async def posted_before(call: Call, message_id: str) -> Post:
    """A message as it was when it was posted."""
    post = await call.team.store.post(call.caller.tenant, message_id)
    if post is None:
        raise Stale("this was carried out, but its message is no longer stored")
    waits_for_holder = post.recipients == () and not post.to.startswith(QUEUE_PREFIX)
    return post._replace(state=PostState.PENDING if waits_for_holder else PostState.DELIVERED)
