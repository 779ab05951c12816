"""Governed messages that are written like one before them, without being decided again.

    the first    all records are looked at                   its terms are remembered (`governed_terms.remember`)
    the second   by these terms (`governed_terms.govern`)    what it writes is remembered, if it is ordinary
    the others   what one like it wrote, filled in (`changes_of`)

What is filled in is what differs: ids, times, content, and the next round of its exchange. Where its content has
anything in it that the rules look for, a message is no ordinary one, and is decided by its terms. The commit compares
the ground of the terms, and the version of an exchange that goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.rules.governed_terms import (
    answered_request,
    expiry_of,
    is_named,
    is_simple,
    named_key,
    only_exchange,
    opening_key,
    terms_key,
    turn_key,
)
from parley.app.team.rules.governing import content_text
from parley.domain.audit.entry import EntryTemplate, content_digest
from parley.domain.channel.request import without_mark
from parley.domain.exchange.exchange import Exchange, Turn, summary_of
from parley.domain.record import changed
from parley.domain.rules.ruling import envelope_time, scan, without_parties
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.state.decision_cache import RememberedDecision
    from parley.app.team.state.openings import Opening, OpeningKey
    from parley.app.team.state.rules import GovernedTerms
    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.content.envelope import Wishes
    from parley.domain.directory.callers import Caller
    from parley.domain.rules.terms import Terms


def changes_of(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = ""
) -> TeamChanges | None:
    """What a governed message writes that is like one before it; None when it has to be decided."""
    if not is_simple(caller, draft) or team.governance.extension is not None:
        return None
    at = team.round_stamp()
    request = answered_request(team, caller, channel_id, draft, at)
    if request is None and draft.in_reply_to:
        return None
    decision = team.governed_decisions.find(terms_key(caller, channel_id, draft, request), at)
    if decision is None:
        return None
    if request is not None:
        return _answered(team, caller, draft, decision, request, message_id)
    if draft.wishes is not None and draft.wishes.conversation_id:
        return _in_named_conversation(team, caller, draft, decision, draft.wishes, message_id)
    opening = decision.outcome.openings.find(opening_key(caller, draft))
    if opening is None:
        return None
    summary = _summary_if_ordinary(team, draft, opening.beside, decision.outcome.terms)
    if summary is None:
        return None
    return _opened(team, opening, draft, summary, decision, message_id)


def _summary_if_ordinary(team: Team, draft: PostDraft, beside: tuple[str, ...], terms: Terms) -> str | None:
    """What the transcript says of a message; None when it has anything in it that the rules look for."""
    body = draft.body if draft.body is not None else team.envelopes.body(draft.payload)
    texts = (content_text(draft.payload, body), *beside)
    if scan(texts, terms.policy, team.governance.detectors) != ((), ()):
        return None
    return summary_of(body)


def _in_named_conversation(
    team: Team,
    caller: Caller,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    wishes: Wishes,
    message_id: str,
) -> TeamChanges | None:
    """What a message writes that opens or goes on with the conversation that it names, as one like it did before.

    Where other nodes write, too, it is decided: what is in memory may be behind there, and the commit of a message that
    goes on would not notice a new exchange of the conversation.
    """
    if not team.store.is_current:
        return None
    if team.governance.known_conversation(caller.tenant, wishes.conversation_id):
        return _continued(team, caller, draft, decision, wishes, message_id)
    # No exchange of the conversation is known: the commit looks for one.
    opening = decision.outcome.named_openings.find(named_key(team, caller, draft, wishes))
    if opening is None:
        return None
    # Nobody has read the name yet: it is inspected with the message.
    terms = decision.outcome.terms
    beside = (*opening.beside, *without_parties((wishes.conversation_id,), terms.sender, terms.receivers))
    summary = _summary_if_ordinary(team, draft, beside, terms)
    if summary is None:
        return None
    return _opened(team, opening, draft, summary, decision, message_id, wishes.conversation_id)


def _continued(
    team: Team,
    caller: Caller,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    wishes: Wishes,
    message_id: str,
) -> TeamChanges | None:
    """What a message writes that goes on with the only exchange of its conversation, as one like it did before."""
    exchange = only_exchange(team, caller, draft.to, wishes.conversation_id)
    if exchange is None:
        return None
    key = named_key(team, caller, draft, wishes, exchange)
    return _next_turn(team, draft, decision, exchange, key, message_id)


def _answered(
    team: Team,
    caller: Caller,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    request: Post,
    message_id: str,
) -> TeamChanges | None:
    """What an answer writes that goes on with the exchange of its request, the only one of its conversation.

    Where other nodes write, too, it is decided, as what names its conversation is.
    """
    exchange = team.store.cached(Exchange, caller.tenant, request.exchange_id)
    if exchange is None or not team.store.is_current:
        return None
    if only_exchange(team, caller, request.sender, exchange.conversation_id) is not exchange:
        return None
    key = turn_key(caller, draft, exchange)
    changes = _next_turn(team, draft, decision, exchange, key, message_id)
    return changes._replace(expects=(without_mark(request),)) if changes is not None else None


def _next_turn(
    team: Team,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    exchange: Exchange,
    key: OpeningKey,
    message_id: str,
) -> TeamChanges | None:
    """What the next message of an exchange writes, if one like it is kept and the rules look for nothing in it."""
    now, at = team.round_time(), team.round_stamp()
    like = decision.outcome.continuations.find(key)
    if like is None or exchange.expires_at <= at:
        return None
    summary = _summary_if_ordinary(team, draft, like.beside, decision.outcome.terms)
    if summary is None:
        return None
    message_id = message_id or team.new_id("msg")
    conversation = exchange.conversation_id.encode()
    ends_at = envelope_time(exchange.expires_at).encode()
    stamps = (conversation, ends_at, exchange.id.encode())
    metadata = like.metadata % ((conversation, *stamps) if is_named(draft) else stamps)
    post = like.like.with_content(
        message_id,
        draft.in_reply_to,
        draft.payload,
        metadata,
        at,
        expiry_of(team, draft, now),
        exchange.id,
        partial=draft.partial,
    )
    turn = Turn(like.round, post.sender, summary)
    values = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "message_id": message_id,
        "content_digest": content_digest(draft.payload),
    }
    return TeamChanges(
        exchange.tenant_id,
        (post,),
        # The commit compares its version: where it has gone on meanwhile, the message is decided.
        puts=(changed(exchange, transcript=(*exchange.transcript, turn), **like.after),),
        audits=_entries(team, like.entries, at, values),
        spends=like.spends_at(at),
        created_id=message_id,
        ground=decision.ground,
    )


def _entries(
    team: Team, templates: tuple[EntryTemplate, ...], at: str, values: dict[str, str]
) -> tuple[AuditDraft, ...]:
    """The audit entries of a message; the first of them has the random part of its id."""
    entry_id = f"aud_{values['message_id'].removeprefix('msg_')}"
    entries: list[AuditDraft] = []
    for template in templates:
        entries.append(template.draft(entry_id, at, values, values["exchange_id"]))
        if len(entries) < len(templates):
            entry_id = team.new_id("aud")
    return tuple(entries)


def _opened(
    team: Team,
    opening: Opening,
    draft: PostDraft,
    summary: str,
    decision: RememberedDecision[GovernedTerms],
    message_id: str,
    name: str = "",
) -> TeamChanges:
    """What a message writes: the opening with its ids, its times and its content. `name`: of its conversation."""
    now, at, like = team.round_time(), team.round_stamp(), opening.like
    moment = opening.moment(now, at, decision.outcome.terms)
    message_id = message_id or team.new_id("msg")
    # One id for what begins together.
    own_id = message_id.removeprefix("msg_")
    exchange_id, conversation_id = f"exch_{own_id}", name or f"conv_{own_id}"
    payload = draft.payload
    conversation = conversation_id.encode()
    stamps = (conversation, moment.envelope_expires_at, exchange_id.encode())
    metadata = opening.metadata % ((conversation, *stamps) if name else stamps)
    expires_at = expiry_of(team, draft, now)
    post = like.with_content(message_id, "", payload, metadata, at, expires_at, exchange_id, partial=draft.partial)
    exchange = opening.exchange.fill(
        exchange_id,
        conversation_id,
        (Turn(1, like.sender, summary),),
        at,
        moment.expires_at,
        at if opening.ends else "",
    )
    values = {
        "exchange_id": exchange_id,
        "conversation_id": conversation_id,
        "message_id": message_id,
        "content_digest": content_digest(payload),
    }
    return TeamChanges(
        exchange.tenant_id,
        (post,),
        creates=(exchange,),
        audits=_entries(team, opening.entries, at, values),
        spends=moment.spends,
        new_conversations=(name,) if name else (),
        created_id=message_id,
        ground=decision.ground,
    )
