"""Receipts of a message: how far it has come at each recipient, for whoever sent it.

Nothing is written for them. They are read from what the acts themselves leave behind: marks of readers, jobs, bookmarks
and answers; `domain.channel.receipts` says what each of them proves.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.channels import find_channel
from parley.app.team.directory.agents import as_agent_of
from parley.app.team.directory.keys import check_key
from parley.app.team.directory.participants import participation
from parley.app.team.directory.permissions import sees
from parley.app.team.state.tail import of_tenant
from parley.domain.channel.bookmark import Bookmark, bookmark_id
from parley.domain.channel.channel import Channel
from parley.domain.channel.job import Job, JobState, job_id
from parley.domain.channel.participation import heard_since
from parley.domain.channel.post import DONE_MARK, HANDED_MARK
from parley.domain.channel.receipts import NO_HOLDER, DeliveryFacts, receipt_of
from parley.domain.directory.access import AGENT, Access
from parley.domain.directory.callers import QUEUE_PREFIX, SYSTEM, Caller, KeyKind
from parley.domain.errors.errors import BadAgentName, NotFound
from parley.domain.errors.team import WrongSender
from parley.domain.message.message import Pattern
from parley.domain.names import is_name
from parley.domain.receipts import MessageStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.channel.request import RequestState
    from parley.domain.receipts import ReceiptState

# The bookmark of an agent's own process. A workflow's run has one that is named after its intent.
_DEFAULT_BOOKMARK = "default"
# Of a message to everyone, so many recipients are listed.
_RECIPIENTS_MAX = 1_000
# Commits in a row are looked at together.
_LOOK_SECONDS = 0.02
# What no commit of this server says: marks of readers at other servers, and the end of a lease.
_LOOK_AGAIN_SECONDS = 1.0


class _MessageFacts(NamedTuple):
    """What is known of a message, whoever it is for."""

    tenant: str
    post: Post
    # By the name of an agent, or by that and a mark.
    marks: Mapping[str, str]
    answers: tuple[Post, ...]
    state: RequestState | None


async def get(team: Team, caller: Caller, message_id: str) -> MessageStatus:
    """How far a message has come; `NotFound` unless the caller sent it, its sender acts for it, or it sees everything.

    A message that its channel has evicted has no receipts any more, unless a reader still has it.
    """
    return await _status(team, caller.tenant, await _find(team, caller, message_id))


async def wait_until(team: Team, caller: Caller, message_id: str, state: ReceiptState, seconds: float) -> MessageStatus:
    """The same once every recipient is as far as a state, or nothing more is to be expected, or time is up."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    listener = team.tail.listen(of_tenant(caller.tenant))
    try:
        while True:
            listener.take()
            status = await get(team, caller, message_id)
            left = until - loop.time()
            if status.has_reached(state) or status.has_ended or left <= 0 or team.tail.closing:
                return status
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK_AGAIN_SECONDS)):
                    await listener.event.wait()
                    await asyncio.sleep(_LOOK_SECONDS)
            await team.store.catch_up(caller.tenant)
            await check_key(team, caller)  # it may have been revoked during the wait
    finally:
        team.tail.leave(listener)


async def _find(team: Team, caller: Caller, message_id: str) -> Post:
    post = await team.store.post(caller.tenant, message_id)
    if post is None and await team.store.get(Job, caller.tenant, message_id) is not None:
        post = await team.store.post(caller.tenant, message_id, evicted=True)
    if post is None or post.sender == SYSTEM:
        raise NotFound.no_such("message")
    try:
        await find_channel(team, await _as_sender(team, caller, post.sender), post.channel_id)
    except (NotFound, WrongSender, BadAgentName):
        raise NotFound.no_such("message") from None
    return post


async def _as_sender(team: Team, caller: Caller, sender: str) -> Caller:
    if caller.all_seeing or caller.agent == sender:
        return caller
    if caller.kind is KeyKind.HUMAN and caller.agent in ("", caller.user):
        return await as_agent_of(team, caller, sender)
    raise WrongSender(f"{sender} sent it")


async def _status(team: Team, tenant: str, post: Post) -> MessageStatus:
    answers: tuple[Post, ...] = ()
    state: RequestState | None = None
    if post.pattern is Pattern.REQUEST:
        state = await team.requests.state(tenant, post)
        # The answer to a request that stands for another one names that one.
        answers = await team.store.answers(tenant, state.root if state is not None and state.root else post.id)
    marks = {receipt.agent: receipt.read_at for receipt in await team.store.receipts(tenant, post.id)}
    message = _MessageFacts(tenant, post, marks, answers, state)
    withdrawn_at = state.withdrawn_at if state is not None else ""
    deliveries = await _deliveries(team, message)
    return MessageStatus(post.id, tuple([receipt_of(post, facts, team.at(), withdrawn_at) for facts in deliveries]))


async def _deliveries(team: Team, message: _MessageFacts) -> list[DeliveryFacts]:
    """What is known of each recipient. One of a role is known when it has shown that it has the message."""
    post = message.post
    if post.to.startswith(QUEUE_PREFIX):
        return await _deliveries_of_queue(team, message)
    if post.recipients == ():
        return [DeliveryFacts(post.to, note=NO_HOLDER)]
    names = await _audience(team, message) if post.recipients is None else post.recipients
    return [
        await _delivery(team, message, name, await team.store.get(Job, message.tenant, job_id(post.id, name)))
        for name in names
    ]


async def _deliveries_of_queue(team: Team, message: _MessageFacts) -> list[DeliveryFacts]:
    post = message.post
    job = await team.store.get(Job, message.tenant, job_id(post.id, post.to))
    is_held = job is not None and job.state is JobState.CLAIMED and job.received
    takers = [name.removesuffix(DONE_MARK) for name in message.marks if name.endswith(DONE_MARK)]
    takers += [answer.sender for answer in message.answers if answer.sender != SYSTEM]
    takers += [forwarding.by for forwarding in message.state.forwards] if message.state is not None else []
    takers += [job.holder] if job is not None and is_held else []
    if not takers:
        return [DeliveryFacts(post.to, job=job)]
    return [await _delivery(team, message, name, job if is_held else None) for name in dict.fromkeys(takers)]


async def _delivery(team: Team, message: _MessageFacts, agent: str, job: Job | None) -> DeliveryFacts:
    marks = message.marks
    done_at = marks.get(agent + DONE_MARK, "")
    read_at = "" if agent + HANDED_MARK in marks else marks.get(agent, "")
    return DeliveryFacts(
        agent,
        read_at if read_at != done_at else "",  # the end of a job marks its message as read
        done_at,
        job,
        await _bookmarks(team, message, agent),
        tuple([answer for answer in message.answers if answer.sender == agent]),
        message.state.forwarded_by(agent) if message.state is not None else None,
    )


async def _bookmarks(team: Team, message: _MessageFacts, agent: str) -> tuple[Bookmark, ...]:
    """The bookmarks of an agent that may prove something: its stream has shown the message.

    It sees the channel since before the message was posted. One that lost access for a time has lost that, too.
    """
    post, tenant = message.post, message.tenant
    if not await _has_access(team, message, agent):
        return ()
    labels = (_DEFAULT_BOOKMARK, *[post.intent_id] * is_name(post.intent_id))
    bookmarks = [await team.store.get(Bookmark, tenant, bookmark_id(agent, label)) for label in labels]
    return tuple([bookmark for bookmark in bookmarks if bookmark is not None])


async def _has_access(team: Team, message: _MessageFacts, agent: str) -> bool:
    """Whether an agent was allowed to read the channel of a message from before it until now."""
    post = message.post
    channel = await team.store.get(Channel, message.tenant, post.channel_id)
    access = await team.store.get(Access, message.tenant, post.intent_id)
    if channel is None or access is None:
        return False
    try:
        channel_view = await sees(team, channel, access, Caller(message.tenant, agent, KeyKind.AGENT, ""))
    except NotFound:
        return False
    if post.recipients is not None:
        return channel_view.takes_part and post.position > channel_view.since
    participant = await participation(team, access, agent)
    since = heard_since(channel, access, participant, channel_view, team.at()) if channel_view.takes_part else None
    return since is not None and post.position > since


async def _audience(team: Team, message: _MessageFacts) -> list[str]:
    """Who got a message to everyone: those who are named by the channel or its intent, and those who said so."""
    post = message.post
    channel = await team.store.get(Channel, message.tenant, post.channel_id)
    access = await team.store.get(Access, message.tenant, post.intent_id)
    names = {name for name in message.marks if is_name(name)}
    if channel is not None and access is not None:
        named = {member.agent for member in channel.members} | {access.created_by}
        named |= {assignment.agent_id for assignment in access.assignments}
        named |= {grant.principal_id for grant in access.grants if grant.principal_type == AGENT}
        named -= {post.sender, *names}
        names |= {name for name in named if is_name(name) and await _has_access(team, message, name)}
    return sorted(names)[:_RECIPIENTS_MAX]
