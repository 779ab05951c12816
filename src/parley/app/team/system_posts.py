"""What the server itself says in a channel: a word to everyone, or to one agent. Nobody judges it, and no exchange
counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.channel.channel import lifetime_end
from parley.domain.channel.event import CHANNEL_MESSAGE, EventDraft
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.callers import EVERYONE, SYSTEM
from parley.domain.message.message import Pattern

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.channel import Channel
    from parley.domain.channel.post import PostDraft


async def is_alive(team: Team, channel: Channel, now: str) -> bool:
    """Nothing is said in a channel that is closed, or whose time has run out before the sweep came by."""
    if not channel.is_open:
        return False
    end = lifetime_end(channel, await team.store.tally(channel.tenant_id, channel.id))
    return not end or end > now


def spoken(team: Team, channel: Channel, payload: bytes, now: str, *, to: str = EVERYONE) -> Post:
    """The message; `payload` is JSON. Said to one agent, it is seen by nobody else."""
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


def audited(team: Team, channel: Channel, said: Post, draft: PostDraft) -> EventDraft:
    """The copy of an audited message in its intent's log."""
    quoted = b'{"channel_id":"%b","channel_name":"%b","message_id":"%b","message_type":"%b","to":%b,"payload":%b}' % (
        channel.id.encode(),
        channel.label.encode(),
        said.id.encode(),
        said.pattern.value.encode(),
        b'"%b"' % said.to.encode() if said.to else b"null",
        said.payload,
    )
    return EventDraft(
        team.new_id("evt"),
        channel.intent_id,
        CHANNEL_MESSAGE,
        said.sender,
        quoted,
        said.created_at,
        draft.trace_id,
        draft.parent_event_id,
        draft.proof,
    )
