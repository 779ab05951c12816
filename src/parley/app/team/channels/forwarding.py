"""Handing a request on: what the next agent is asked, and what is noted of both requests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels.leases import AnswerEffects, answer_effects, answered_by
from parley.domain.channel.post import check_answerable
from parley.domain.channel.request import (
    Forwarding,
    RequestMark,
    RequestState,
    check_chain,
    check_open,
    mark_id,
    new_mark,
    new_state,
)
from parley.domain.content.classification import highest
from parley.domain.content.envelope import Wishes
from parley.domain.errors.errors import NotFound
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Pattern
from parley.domain.record import changed
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from parley.app.team.channels.leases import AnsweredRequest
    from parley.app.team.team import Team
    from parley.domain.channel.job import Job
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect, Record


class HandedOn(NamedTuple):
    """A request that an agent hands on, as it got it; what is known of it; and where it began."""

    request: Post
    state: RequestState | None
    root: Post
    job: Job | None

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents that had handed it on before."""
        return self.state.chain if self.state is not None else ()


async def handed_on(
    team: Team,
    caller: Caller,
    channel_id: str,
    draft: PostDraft,
    expects: list[Expect] | None = None,
    *,
    by_person: bool = False,
) -> HandedOn:
    """The request of this channel that a draft hands on. Only who could answer it may, and only while it is open."""
    as_answer = draft._replace(pattern=Pattern.RESPONSE, in_reply_to=draft.forwards)
    answered = await answered_by(team, caller, channel_id, as_answer, expects, by_person=by_person)
    if answered.request is None:
        raise NotFound.no_such("message")
    # What was claimed is kept, even where the channel shows only newer messages.
    now, stored = team.at(), await team.store.post(caller.tenant, draft.forwards, evicted=answered.job is not None)
    check_answerable(answered.request, caller.agent, now, answered.state)
    if stored is None:
        raise NotFound.no_such("message")
    check_open(stored, now)
    state = answered.received_state if answered.received is not None else answered.state
    return HandedOn(stored, state, answered.request, answered.job)


async def forward_draft(team: Team, caller: Caller, channel_id: str, draft: PostDraft) -> PostDraft:
    """The request that hands another on: it says what that said unless it says something else, and ends with it."""
    handed = await handed_on(team, caller, channel_id, draft)
    request, root = handed.request, handed.root
    wishes, metadata = draft.wishes, draft.metadata
    if request.partial:
        metadata = team.envelopes.with_parts(metadata)
    metadata = team.envelopes.with_forwarded(metadata, request.id, root.sender, (*handed.chain, caller.agent))
    if request.exchange_id:
        wishes = await _continued(team, caller.tenant, request, wishes or Wishes())
    return draft._replace(
        payload=draft.payload or request.payload,
        metadata=metadata,
        expires_at=from_stamp(request.expires_at) if request.expires_at else None,
        wishes=wishes,
        partial=request.partial,
        asker=root.sender,
    )


async def _continued(team: Team, tenant: str, request: Post, wishes: Wishes) -> Wishes:
    """The same conversation, at least as secret as what is handed on."""
    exchange = await team.store.get(Exchange, tenant, request.exchange_id)
    stamped = team.envelopes.wishes(request.metadata)
    level = stamped.declared if stamped is not None else wishes.declared
    return wishes._replace(
        conversation_id=wishes.named_conversation or (exchange.conversation_id if exchange is not None else ""),
        parent_message_id=wishes.parent_message_id or request.id,
        classification=highest(level, wishes.declared) if wishes.classification is not None else level,
    )


async def effects_of(
    team: Team, caller: Caller, answered: AnsweredRequest, placed: Post, expects: list[Expect], *, by_person: bool
) -> AnswerEffects:
    """What an answer changes beside its post, or a request that hands another on."""
    if answered.request is not None:
        return await answer_effects(team, caller.tenant, answered, placed)
    return await _forward_effects(team, caller, answered.draft, placed, expects, by_person=by_person)


async def _forward_effects(
    team: Team, caller: Caller, draft: PostDraft, placed: Post, expects: list[Expect], *, by_person: bool
) -> AnswerEffects:
    """What is noted of a request that is handed on, and of the one that stands for it."""
    handed = await handed_on(team, caller, placed.channel_id, draft, expects, by_person=by_person)
    request, root, tenant = handed.request, handed.root, caller.tenant
    chain = (*handed.chain, caller.agent)
    check_chain(root.sender, chain, placed.recipients or ())
    before = handed.state or new_state(tenant, request, team.limits.retention)
    forwarding = Forwarding(by=caller.agent, to=placed.to, request_id=placed.id, at=placed.created_at)
    after = replace(
        new_state(tenant, placed, team.limits.retention),
        root=root.id,
        path=(*before.path, request.id) if before.root else (),
        chain=chain,
        asked=placed.recipients or (),
    )
    puts: list[Record] = [replace(before, forwards=(*before.forwards, forwarding)), after]
    puts.append(await next_mark(team, tenant, request))
    if await team.store.get(RequestMark, tenant, mark_id(placed)) is None:
        puts.append(new_mark(tenant, placed))
    return AnswerEffects((handed.job,) if handed.job is not None else (), tuple(puts), open_requests=(request.id,))


async def next_mark(team: Team, tenant: str, request: Post) -> RequestMark:
    """The mark with which all answers to a request's sender in its channel are decided again."""
    mark = await team.store.get(RequestMark, tenant, mark_id(request))
    return changed(mark, request_id=request.id) if mark is not None else new_mark(tenant, request)
