"""Governed messages that are written like one before them, without being decided again.

    the first     by all records                             its terms are remembered (`governed_terms.remember`)
    the second    by these terms (`governed_terms.govern`)   its key is noted, if it is ordinary
    the third     by these terms                             what it writes is kept as a template
    the others    by the template, filled in (`changes_of`)

What is filled in is what differs: ids, times, content, and the next round of its exchange. The content of every message
is inspected. If the rules look for anything in it, the message is not ordinary, and is decided by its terms. The commit
compares the ground of the terms, and the version of an exchange that is continued.

On a store that other nodes can write to (`is_current` is false), messages that name their conversation and answers are
decided: what is in memory may be behind there, and the commit of a message that continues an exchange would not notice
a new exchange of the conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.rules.governed_terms import (
    expiry_of,
    find_terms,
    is_named,
    named_key,
    only_exchange,
    opening_key,
    turn_key,
    varying_facts,
)
from parley.app.team.rules.governing import content_text
from parley.domain.audit.entry import EntryTemplate, content_digest
from parley.domain.channel.request import expect_no_mark
from parley.domain.exchange.exchange import Exchange, Turn, summary_of
from parley.domain.record import changed
from parley.domain.rules.ruling import envelope_time, scan, without_parties
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.state.decision_cache import RememberedDecision
    from parley.app.team.state.openings import Opening, TemplateKey
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
    """The changes of a governed message like one before; None when it has to be decided."""
    if team.governance.extension is not None:
        return None
    match = find_terms(team, caller, channel_id, draft, team.round_stamp())
    if match is None:
        return None
    decision, request = match
    if request is not None:
        return _answer_changes(team, caller, draft, decision, request, message_id)
    if draft.wishes is not None and draft.wishes.conversation_id:
        return _named_changes(team, caller, draft, decision, draft.wishes, message_id)
    opening = decision.outcome.openings.find(opening_key(caller, draft))
    if opening is None:
        return None
    summary = _summary_if_ordinary(team, draft, opening.beside, decision.outcome.terms)
    if summary is None:
        return None
    return _opening_changes(team, opening, draft, summary, decision, message_id)


def _summary_if_ordinary(team: Team, draft: PostDraft, beside: tuple[str, ...], terms: Terms) -> str | None:
    """What the transcript says of a message; None when the rules look for anything in its content."""
    body = draft.body if draft.body is not None else team.envelopes.body(draft.payload)
    texts = (content_text(draft.payload, body), *beside)
    if scan(texts, terms.policy, team.governance.detectors) != ((), ()):
        return None
    return summary_of(body)


def _named_changes(
    team: Team,
    caller: Caller,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    wishes: Wishes,
    message_id: str,
) -> TeamChanges | None:
    """The changes of a message that opens or continues the exchange of the conversation that it names."""
    if not team.store.is_current:
        return None
    if team.governance.known_conversation(caller.tenant, wishes.conversation_id):
        return _continuation_changes(team, caller, draft, decision, wishes, message_id)
    # No exchange of the conversation is known: the commit looks for one.
    opening = decision.outcome.named_openings.find(named_key(team, caller, draft, wishes))
    if opening is None:
        return None
    # The name is new text: it is inspected with the content.
    terms = decision.outcome.terms
    beside = (*opening.beside, *without_parties((wishes.conversation_id,), terms.sender, terms.receivers))
    summary = _summary_if_ordinary(team, draft, beside, terms)
    if summary is None:
        return None
    return _opening_changes(team, opening, draft, summary, decision, message_id, wishes.conversation_id)


def _continuation_changes(
    team: Team,
    caller: Caller,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    wishes: Wishes,
    message_id: str,
) -> TeamChanges | None:
    """The changes of a message that continues the only exchange of the conversation that it names."""
    exchange = only_exchange(team, caller, draft.to, wishes.conversation_id)
    if exchange is None:
        return None
    key = named_key(team, caller, draft, wishes, exchange)
    return _next_turn(team, draft, decision, exchange, key, message_id)


def _answer_changes(
    team: Team,
    caller: Caller,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    request: Post,
    message_id: str,
) -> TeamChanges | None:
    """The changes of an answer that continues the exchange of its request, the only one of its conversation."""
    exchange = team.store.cached(Exchange, caller.tenant, request.exchange_id)
    if exchange is None or not team.store.is_current:
        return None
    if only_exchange(team, caller, request.sender, exchange.conversation_id) is not exchange:
        return None
    key = turn_key(caller, draft, exchange)
    changes = _next_turn(team, draft, decision, exchange, key, message_id)
    return changes._replace(expects=(expect_no_mark(request),)) if changes is not None else None


def _next_turn(
    team: Team,
    draft: PostDraft,
    decision: RememberedDecision[GovernedTerms],
    exchange: Exchange,
    key: TemplateKey,
    message_id: str,
) -> TeamChanges | None:
    """The changes of the next message of an exchange, if there is a template for it and it is ordinary."""
    now, at = team.round_time(), team.round_stamp()
    template = decision.outcome.continuations.find(key)
    if template is None or exchange.expires_at <= at:
        return None
    summary = _summary_if_ordinary(team, draft, template.beside, decision.outcome.terms)
    if summary is None:
        return None
    message_id = message_id or team.new_id("msg")
    conversation = exchange.conversation_id.encode()
    ends_at = envelope_time(exchange.expires_at).encode()
    stamps = (conversation, ends_at, exchange.id.encode())
    metadata = template.metadata % ((conversation, *stamps) if is_named(draft) else stamps)
    post = template.post.with_content(
        message_id,
        draft.in_reply_to,
        draft.payload,
        metadata,
        at,
        expiry_of(team, draft, now),
        exchange.id,
        partial=draft.partial,
    )
    turn = Turn(template.round, post.sender, summary)
    return TeamChanges(
        exchange.tenant_id,
        (post,),
        # The commit compares its version: where it has gone on meanwhile, the message is decided.
        puts=(changed(exchange, transcript=(*exchange.transcript, turn), **template.after),),
        audits=_entries(team, template.entries, post, exchange.conversation_id),
        spends=template.spends_at(at),
        created_id=message_id,
        ground=decision.ground,
    )


def _entries(
    team: Team, templates: tuple[EntryTemplate, ...], post: Post, conversation_id: str
) -> tuple[AuditDraft, ...]:
    """The audit entries of a message; the id of the first one has the random part of the message's id."""
    exchange_id = post.exchange_id
    values = varying_facts(exchange_id, conversation_id, post.id, content_digest(post.payload))
    entry_id = f"aud_{post.id.removeprefix('msg_')}"
    entries: list[AuditDraft] = []
    for template in templates:
        entries.append(template.draft(entry_id, post.created_at, values, exchange_id))
        if len(entries) < len(templates):
            entry_id = team.new_id("aud")
    return tuple(entries)


def _opening_changes(
    team: Team,
    opening: Opening,
    draft: PostDraft,
    summary: str,
    decision: RememberedDecision[GovernedTerms],
    message_id: str,
    name: str = "",
) -> TeamChanges:
    """The changes of a message that opens an exchange. `name`: of its conversation, if the sender gave one."""
    now, at, like = team.round_time(), team.round_stamp(), opening.post
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
    return TeamChanges(
        exchange.tenant_id,
        (post,),
        creates=(exchange,),
        audits=_entries(team, opening.entries, post, conversation_id),
        spends=moment.spends,
        new_conversations=(name,) if name else (),
        created_id=message_id,
        ground=decision.ground,
    )
