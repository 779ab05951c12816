"""Plain messages: what follows for them from records alone is decided once, and remembered with its ground.

A plain message answers nothing, hands nothing on, asks nothing of the rules and comes from an agent. Everything else,
and the first plain message of its kind, takes the way of `posting.decide`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.state.decision_cache import DecisionKey, RememberedDecision
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.post import SENDER_KIND, Post, expiry
from parley.domain.directory.callers import TENANT_MARK, KeyKind
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from parley.domain.store.ground import Ground

if TYPE_CHECKING:
    from parley.app.team.channels.venues import Venue
    from parley.app.team.team import Team
    from parley.domain.channel.post import PostDraft
    from parley.domain.directory.callers import Caller


def changes_of(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = ""
) -> TeamChanges | None:
    """What a plain message writes by the decision about the one before it; None when none is remembered."""
    if not _is_plain(caller, draft):
        return None
    at = team.round_stamp()
    key = _key(caller, channel_id, draft)
    decision = team.plain_decisions.find(key, at)
    if decision is None:
        return None
    like = decision.outcome
    message_id = message_id or team.new_id("msg")
    post = Post(
        message_id,
        channel_id,
        like.sender,
        like.to,
        like.pattern,
        "",
        draft.payload,
        draft.metadata,
        at,
        expiry(draft.expires_at, team.now(), team.limits.longest_expiry) if draft.expires_at is not None else "",
        like.state,
        like.recipients,
        like.intent_id,
        partial=draft.partial,
    )
    return TeamChanges(caller.tenant, (post,), created_id=message_id, ground=decision.ground)


def remember(team: Team, caller: Caller, venue: Venue, draft: PostDraft, changes: TeamChanges, generation: int) -> None:
    """Remember what was decided about a plain message, if that is all that its commit writes.

    `generation` was read before the records that the decision rests on.
    """
    if (
        not _is_plain(caller, draft)
        or changes.puts
        or changes.drops
        or changes.events
        or changes.entries
        # Its life depends on the time of its last message.
        or venue.channel.options.ttl_seconds is not None
        # Somebody who is known by a key only may no longer be.
        or (draft.wait_for_responders is False and not _is_registered(draft.to, changes))
    ):
        return
    (post,) = changes.posts
    key = _key(caller, venue.channel.id, draft)
    ground = Ground(generation, changes.expects)
    like = post._replace(id="", payload=b"", metadata=b"", created_at="", expires_at="")
    team.plain_decisions.remember(key, RememberedDecision(ground, venue.access.due, like))


def _key(caller: Caller, channel_id: str, draft: PostDraft) -> DecisionKey:
    needs_responder = draft.wait_for_responders is False
    return DecisionKey(caller.tenant, caller.agent, channel_id, draft.to, draft.pattern, needs_responder)


def _is_registered(agent: str, changes: TeamChanges) -> bool:
    """Whether what was decided rests on the record of this agent."""
    return any(expect.kind == AgentRecord.kind and expect.id == agent and expect.version for expect in changes.expects)


def _is_plain(caller: Caller, draft: PostDraft) -> bool:
    return (
        draft.wishes is None
        and draft.pattern is not Pattern.RESPONSE
        and caller.kind is not KeyKind.HUMAN
        and not draft.in_reply_to
        and not draft.forwards
        and TENANT_MARK not in draft.to
        # Who wrote a message is for the server to say.
        and SENDER_KIND not in draft.metadata
    )
