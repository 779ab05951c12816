"""Messages of the server itself. They are not judged, and count in no exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.channel.channel import Channel, lifetime_end
from parley.domain.channel.event import CHANNEL_MESSAGE, EventDraft
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.callers import EVERYONE, SYSTEM
from parley.domain.exchange.approval import ApprovalStatus
from parley.domain.message.message import Pattern
from parley.domain.record import expecting

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.post import PostDraft
    from parley.domain.exchange.approval import Approval
    from parley.domain.store.changes import TeamChanges

_BY_A_PERSON = frozenset({ApprovalStatus.APPROVED, ApprovalStatus.REJECTED, ApprovalStatus.ANSWERED})


async def is_alive(team: Team, channel: Channel, now: str) -> bool:
    """Whether the server may post: the channel is open and has not expired."""
    if not channel.is_open:
        return False
    end = lifetime_end(channel, await team.store.tally(channel.tenant_id, channel.id))
    return not end or end > now


def spoken(team: Team, channel: Channel, payload: bytes, now: str, *, to: str = EVERYONE) -> Post:
    """A message of the server; `payload` is JSON. With `to`, only that agent sees it."""
    return Post(
        id=team.new_id("msg"),
        channel_id=channel.id,
        sender=SYSTEM,
        to=to,
        pattern=Pattern.NOTIFY,
        in_reply_to="",
        payload=payload,
        metadata=b"{}",
        created_at=now,
        expires_at="",
        state=PostState.DELIVERED,
        recipients=None if to == EVERYONE else (to,),
        intent_id=channel.intent_id,
    )


async def with_decisions(team: Team, changes: TeamChanges, approvals: tuple[Approval, ...], now: str) -> TeamChanges:
    """The changes, and in the same commit a message to each agent about what was decided of what it wanted to say.

    Nobody else sees it. Where the channel is closed or gone, nothing is said.
    """
    posts, expects = list(changes.posts), list(changes.expects)
    for approval in approvals:
        channel = await team.store.get(Channel, approval.tenant_id, approval.channel_id)
        if channel is None or not await is_alive(team, channel, now):
            continue
        posts.append(_decision_post(team, channel, approval, now))
        if (still := expecting(channel)) not in expects:
            expects.append(still)
    return changes._replace(posts=tuple(posts), expects=tuple(expects)) if approvals else changes


def _decision_post(team: Team, channel: Channel, approval: Approval, now: str) -> Post:
    # What is over by itself has a reason, but nobody wrote it.
    note = approval.note if approval.status in _BY_A_PERSON else ""
    payload = {
        "event": "approval_decided",
        "approval_id": approval.id,
        "status": approval.status.value,
        "message_id": approval.message_id or None,
        "note": note or None,
    }
    post = spoken(team, channel, team.envelopes.payload(payload), now, to=approval.agent)
    # It counts as nothing there; but what a person wrote is erased together with the conversation that it is about.
    return post._replace(exchange_id=approval.exchange_id) if note else post


def audited(team: Team, channel: Channel, post: Post, draft: PostDraft) -> EventDraft:
    """The copy of an audited message in its intent's log."""
    quoted = b'{"channel_id":"%b","channel_name":"%b","message_id":"%b","message_type":"%b","to":%b,"payload":%b}' % (
        channel.id.encode(),
        channel.label.encode(),
        post.id.encode(),
        post.pattern.value.encode(),
        b'"%b"' % post.to.encode() if post.to else b"null",
        post.payload,
    )
    return EventDraft(
        team.new_id("evt"),
        channel.intent_id,
        CHANNEL_MESSAGE,
        post.sender,
        quoted,
        post.created_at,
        draft.trace_id,
        draft.parent_event_id,
        draft.proof,
    )
