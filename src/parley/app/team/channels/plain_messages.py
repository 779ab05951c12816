"""Plain messages: what follows for them from records alone is decided once, and remembered with its ground.

A plain message hands nothing on, asks nothing of the rules and comes from an agent. An answer is plain if it is whole,
and its request is in memory, was addressed to the answering agent by name, and nothing but answers happened to it.
Everything else, and the first plain message of its kind, is decided by `posting.decide`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.state.decision_cache import DecisionKey, RememberedDecision
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.post import SENDER_KIND, Post, expiry
from parley.domain.channel.request import expect_no_mark, expects_no_mark
from parley.domain.directory.callers import TENANT_MARK, KeyKind
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from parley.domain.store.ground import Ground

if TYPE_CHECKING:
    from parley.app.team.channels.venues import Venue
    from parley.app.team.team import Team
    from parley.domain.channel.post import PostDraft
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect


def changes_of(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = ""
) -> TeamChanges | None:
    """What a plain message writes by the decision about the one before it; None when none is remembered."""
    if not _is_plain(caller, draft):
        return None
    at = team.round_stamp()
    to = draft.to
    expects: tuple[Expect, ...] = ()
    if draft.in_reply_to:
        request = team.requests.answerable(caller.tenant, caller.agent, channel_id, draft, at)
        if request is None or request.exchange_id:
            return None
        # A withdrawal and the like move no generation, but leave a mark: the commit looks for it.
        to, expects = request.sender, (expect_no_mark(request),)
    decision = team.plain_decisions.find(_key(caller, channel_id, draft, to), at)
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
        draft.in_reply_to,
        draft.payload,
        draft.metadata,
        at,
        expiry(draft.expires_at, team.now(), team.limits.longest_expiry) if draft.expires_at is not None else "",
        like.state,
        like.recipients,
        like.intent_id,
        partial=draft.partial,
    )
    return TeamChanges(caller.tenant, (post,), expects, created_id=message_id, ground=decision.ground)


def remember(team: Team, caller: Caller, venue: Venue, draft: PostDraft, changes: TeamChanges, generation: int) -> None:
    """Remember what was decided about a plain message, if that is all that its commit writes.

    `generation` was read before the records that the decision rests on.
    """
    if (
        not _is_plain(caller, draft)
        or changes.puts
        or changes.has_rare_fields
        # The request was handed on: this answers the original one.
        or changes.posts[0].in_reply_to != draft.in_reply_to
        # The channel ends some time after its last message.
        or venue.channel.options.ttl_seconds is not None
        # An addressee without a record can lose its key, and no expected version would tell.
        or (draft.wait_for_responders is False and not _is_registered(draft.to, changes))
    ):
        return
    (post,) = changes.posts
    # Each answer expects by itself that its request has no mark.
    expects = tuple([expect for expect in changes.expects if not expects_no_mark(expect)])
    like = post._replace(id="", in_reply_to="", payload=b"", metadata=b"", created_at="", expires_at="")
    key = _key(caller, venue.channel.id, draft, post.to if draft.in_reply_to else draft.to)
    decision = RememberedDecision(Ground(generation, expects), venue.access.due, like)
    team.plain_decisions.remember(key, decision)


def _key(caller: Caller, channel_id: str, draft: PostDraft, to: str) -> DecisionKey:
    needs_responder = draft.wait_for_responders is False
    return DecisionKey(caller.tenant, caller.agent, channel_id, to, draft.pattern, needs_responder)


def _is_registered(agent: str, changes: TeamChanges) -> bool:
    """Whether what was decided rests on the record of this agent."""
    return any(expect.kind == AgentRecord.kind and expect.id == agent and expect.version for expect in changes.expects)


def _is_plain(caller: Caller, draft: PostDraft) -> bool:
    return (
        draft.wishes is None
        and caller.kind is not KeyKind.HUMAN
        and (draft.pattern is Pattern.RESPONSE) == (draft.in_reply_to != "")
        and not draft.forwards
        and TENANT_MARK not in draft.to
        # Who wrote a message is for the server to say.
        and SENDER_KIND not in draft.metadata
    )
