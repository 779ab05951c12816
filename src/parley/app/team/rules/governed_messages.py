"""Governed messages: the terms between their parties are worked out once, and remembered with their ground.

    the first    all records are looked at                   its terms are remembered (`remember`)
    the second   by these terms (`govern`)                   what it writes is remembered, if it is ordinary
    the others   what one like it wrote, filled in (`changes_of`)

What is remembered follows from records alone: where the message goes, who its parties are, the policies between them.
Its content, its exchange, its rounds and its budgets are decided anew for every message, by the same functions. Where
its content has anything in it that the rules look for, the message is no ordinary one, and is decided by its terms.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from parley.app.rules.recording import is_ordinary
from parley.app.team.rules.docket import TeamDocket
from parley.app.team.rules.governing import ProposedPost, content_text, govern_by, texts_beside
from parley.app.team.state.decision_cache import DecisionKey, RememberedDecision
from parley.app.team.state.openings import Continuation, LikeMessages, Opening, OpeningKey
from parley.app.team.state.rules import GovernedTerms
from parley.domain.agents.party import pair_name
from parley.domain.audit.entry import EntryTemplate, content_digest
from parley.domain.channel.post import SENDER_KIND, expiry
from parley.domain.channel.request import is_without_mark, without_mark
from parley.domain.content.envelope import disclosure_of
from parley.domain.directory.callers import TENANT_MARK, KeyKind
from parley.domain.exchange.exchange import Exchange, Outcome, Turn, shape_of, summary_of
from parley.domain.message.message import Pattern
from parley.domain.record import changed
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import envelope_time, scan, without_parties
from parley.domain.rules.terms import Terms
from parley.domain.store.changes import TeamChanges
from parley.domain.store.ground import Ground
from parley.domain.times import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.app.rules.docket import RulesDecision
    from parley.app.team.rules.governing import GovernedPost
    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.content.envelope import Wishes
    from parley.domain.directory.callers import Caller


# What differs between two messages that are alike under the same terms, by the names of the facts about them.
_VARYING = ("exchange_id", "conversation_id", "message_id", "content_digest")


def changes_of(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = ""
) -> TeamChanges | None:
    """What a governed message writes that is like one before it; None when it has to be decided."""
    if not _is_simple(caller, draft) or team.governance.extension is not None:
        return None
    at = team.round_stamp()
    request = _answered_request(team, caller, channel_id, draft, at)
    if request is None and draft.in_reply_to:
        return None
    decision = team.governed_decisions.find(_key(caller, channel_id, draft, request), at)
    if decision is None:
        return None
    if request is not None:
        return _answered(team, caller, draft, decision, request, message_id)
    if draft.wishes is not None and draft.wishes.conversation_id:
        return _in_named_conversation(team, caller, draft, decision, draft.wishes, message_id)
    opening = decision.outcome.openings.find(_opening_key(caller, draft))
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
    opening = decision.outcome.named_openings.find(_named_key(team, caller, draft, wishes))
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
    exchange = _only_exchange(team, caller, draft.to, wishes.conversation_id)
    if exchange is None:
        return None
    key = _named_key(team, caller, draft, wishes, exchange)
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
    if _only_exchange(team, caller, request.sender, exchange.conversation_id) is not exchange:
        return None
    key = _opening_key(caller, draft)._replace(shape=shape_of(exchange))
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
    metadata = like.metadata % ((conversation, *stamps) if _is_named(draft) else stamps)
    post = like.like.with_content(
        message_id,
        draft.in_reply_to,
        draft.payload,
        metadata,
        at,
        _expiry(team, draft, now),
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


def _only_exchange(team: Team, caller: Caller, other: str, conversation_id: str) -> Exchange | None:
    """The exchange of these two in a conversation that has no other; None when that is not known in memory."""
    ids = team.governance.known_conversation(caller.tenant, conversation_id)
    if ids is None or len(ids) != 1:
        return None
    exchange = team.store.cached(Exchange, caller.tenant, ids[0])
    if exchange is None or exchange.name != pair_name(caller.agent, other):
        return None
    return exchange


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


def _expiry(team: Team, draft: PostDraft, now: datetime) -> str:
    return expiry(draft.expires_at, now, team.limits.longest_expiry) if draft.expires_at is not None else ""


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
    expires_at = _expiry(team, draft, now)
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


async def govern(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str
) -> tuple[TeamDocket, ProposedPost, GovernedPost] | None:
    """Decide about a message by the terms that one like it had; None if there are none, or the rules do not apply.

    The commit compares the generation of their ground.
    """
    if not _is_simple(caller, draft):
        return None
    now = team.now()
    request = _answered_request(team, caller, channel_id, draft, stamp(now))
    if request is None and draft.in_reply_to:
        return None
    decision = team.governed_decisions.find(_key(caller, channel_id, draft, request), stamp(now))
    if decision is None or not (decision.outcome.concerned or _is_annotated(draft) or request is not None):
        return None
    remembered = decision.outcome
    expects = [without_mark(request)] if request is not None else []
    docket = TeamDocket(team, caller.tenant, remembered.rules, expects, decision.ground, now)
    placed = remembered.like._replace(
        id=message_id,
        in_reply_to=draft.in_reply_to,
        payload=draft.payload,
        metadata=draft.metadata,
        created_at=docket.at,
        expires_at=_expiry(team, draft, now),
        partial=draft.partial,
    )
    message = ProposedPost(caller, remembered.channel, remembered.access, draft, placed, request, record=None)
    governed = await govern_by(docket, message, remembered.terms)
    if governed.decision is not None:
        _keep(docket, message, governed.decision, remembered)
    return docket, message, governed


def _key(caller: Caller, channel_id: str, draft: PostDraft, request: Post | None) -> DecisionKey:
    """Answers are like those to the same agent."""
    to = draft.to if request is None else request.sender
    return DecisionKey(caller.tenant, caller.agent, channel_id, to, draft.pattern)


def _answered_request(team: Team, caller: Caller, channel_id: str, draft: PostDraft, at: str) -> Post | None:
    """The governed request that an answer answers, if memory says that it may; None for what is no such answer."""
    if not draft.in_reply_to:
        return None
    request = team.requests.answerable(caller.tenant, caller.agent, channel_id, draft, at)
    return request if request is not None and request.exchange_id else None


def _opening_key(caller: Caller, draft: PostDraft) -> OpeningKey:
    return OpeningKey(draft.metadata, draft.wishes, caller.actor, caller.key_id)


def _named_key(
    team: Team, caller: Caller, draft: PostDraft, wishes: Wishes, exchange: Exchange | None = None
) -> OpeningKey:
    """The key of a message that names its conversation, and of the exchange that it goes on with."""
    metadata = team.envelopes.without_conversation(draft.metadata, wishes.conversation_id)
    unnamed = wishes._replace(conversation_id="")
    shape = shape_of(exchange) if exchange is not None else ()
    return OpeningKey(metadata, unnamed, caller.actor, caller.key_id, shape)


def _keep(docket: TeamDocket, message: ProposedPost, decision: RulesDecision[Post], remembered: GovernedTerms) -> None:
    """Keep what an ordinary message writes for the next one like it, if it is not the first of its kind."""
    team, caller, draft = docket.team, message.caller, message.draft
    ruling, post, exchange, wishes = decision.ruling, decision.message, decision.exchange, draft.wishes
    if (
        ruling is None
        or post is None
        or exchange is None
        or decision.approvals
        or not is_ordinary(ruling)
        or message.channel.options.audit
        # What is claimed is checked each time.
        or (wishes is not None and (wishes.expires_at or wishes.envelope is not None))
    ):
        return
    like = post._replace(id="", payload=b"", metadata=b"")
    label = disclosure_of(ruling.origin, ruling.policy.disclosure)
    beside = tuple(texts_beside(team, draft.metadata))
    entries = tuple(
        [
            EntryTemplate(docket.tenant, entry.side, entry.action, entry.actor, entry.facts, _VARYING)
            for entry in decision.audits
        ]
    )
    if not all(entry.is_written_as_it_is for entry in entries):
        return
    conversation = wishes.conversation_id if wishes is not None else ""
    if conversation and not team.store.is_current:
        return  # see `_in_named_conversation`
    stamps = (draft.metadata, ruling.envelope, ruling.ext, label, conversation)
    if not exchange.version:
        if wishes is None or not conversation:
            key, openings = _opening_key(caller, draft), remembered.openings
        elif conversation in docket.new_conversations:
            key, openings = _named_key(team, caller, draft, wishes), remembered.named_openings
        else:
            return
        metadata = team.envelopes.stamp_template(*stamps) if openings.is_repeated(key) else b""
        if metadata:
            # As it will be stored: nothing is there under its id, so this is its first version.
            created = changed(exchange, transcript=(), version=1)
            openings.keep(key, Opening(like, created, metadata, beside, entries, decision.spends))
        return
    before = ruling.exchange_before
    # A name that nobody has read yet is inspected with the message; and where something waits for a person, or ends
    # with the message, that depends on more than the exchange.
    waits = before.holds or before.limit_approval
    goes_on = Outcome.IN_PROGRESS is before.outcome is exchange.outcome and not waits
    if (conversation or message.request is not None) and before.version and before.current_round and goes_on:
        after = _changes_between(before, exchange)
        only = _only_exchange(team, caller, post.to, before.conversation_id)
        if wishes is not None and conversation:
            key = _named_key(team, caller, draft, wishes, before)
        else:
            key = _opening_key(caller, draft)._replace(shape=shape_of(before))
        if after is None or only is None or only.id != before.id or not remembered.continuations.is_repeated(key):
            return
        metadata = team.envelopes.stamp_template(*stamps)
        if metadata:
            like_before = Continuation(like, before, after, metadata, beside, entries, decision.spends)
            remembered.continuations.keep(key, like_before)


def _changes_between(before: Exchange, after: Exchange) -> dict[str, Any] | None:
    """What a message changes in its exchange beside adding its turn to it; None when it does not add one."""
    if after.transcript[:-1] != before.transcript or after.expires_at != before.expires_at:
        return None
    names = [field.name for field in fields(after) if field.name != "transcript"]
    return {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}


def remember(docket: TeamDocket, message: ProposedPost, governed: GovernedPost, generation: int) -> None:
    """Remember the terms of a message to one agent that the rules have decided about.

    `generation` was read before the records that the decision rests on.
    """
    submission, decision = governed.submission, governed.decision
    caller, draft, channel = message.caller, message.draft, message.channel
    if (
        submission is None
        or message.addressee is None
        # Refused before it was judged, for a suspension or for what it claims.
        or decision is None
        or decision.ruling is None
        or not _is_simple(caller, draft)
        # Of a request that was handed on, another one is answered.
        or message.placed.in_reply_to != draft.in_reply_to
        or not channel.version
        # Its life depends on the time of its last message.
        or channel.options.ttl_seconds is not None
    ):
        return
    (receiver,) = submission.receivers
    policy = docket.book.between(submission.sender.attributes, receiver.attributes)
    if policy is None:
        return
    # The exchange is looked up for every message, and for every answer whether nothing else happened to its request.
    lasting = [expect for expect in docket.expects if expect.kind != Exchange.kind and not is_without_mark(expect)]
    outcome = GovernedTerms(
        channel,
        message.access,
        docket.rules,
        Terms(docket.tenant, submission.sender, submission.receivers, docket.book),
        message.placed._replace(id="", in_reply_to="", payload=b"", metadata=b"", created_at="", expires_at=""),
        concerned=concerns(policy, submission.sender, receiver),
        openings=LikeMessages(),
        named_openings=LikeMessages(),
        continuations=LikeMessages(),
    )
    key = _key(caller, channel.id, draft, message.request)
    decision_before = RememberedDecision(Ground(generation, tuple(lasting)), message.access.due, outcome)
    docket.team.governed_decisions.remember(key, decision_before)


def _is_named(draft: PostDraft) -> bool:
    """Whether it names its conversation."""
    return draft.wishes is not None and draft.wishes.conversation_id != ""


def _is_annotated(draft: PostDraft) -> bool:
    return draft.wishes is not None and draft.wishes.annotated


def _is_simple(caller: Caller, draft: PostDraft) -> bool:
    """Whether it comes from an agent, hands nothing on and follows from no other message but a request that it answers.

    Terms are remembered for registered agents, so that somebody could get it.
    """
    return (
        caller.kind is not KeyKind.HUMAN
        # An answer that names a conversation, too, may mean another one.
        and (not _is_named(draft) if draft.in_reply_to else draft.pattern is not Pattern.RESPONSE)
        and not draft.forwards
        and (draft.wishes is None or not draft.wishes.parent_message_id)
        and TENANT_MARK not in draft.to
        # Who wrote a message is for the server to say.
        and SENDER_KIND not in draft.metadata
    )
