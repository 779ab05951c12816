"""The terms of governed messages: worked out once for their parties, and remembered with their ground.

What is remembered follows from records alone: where a message goes, who its parties are, the policies between them.
The content, the exchange, the rounds and the budgets of a message are decided anew, by the same functions. What an
ordinary message writes is kept for the next one like it: `governed_messages` fills it in.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.rules.recording import is_ordinary
from parley.app.team.rules.docket import TeamDocket
from parley.app.team.rules.governing import ProposedPost, govern_by, texts_beside
from parley.app.team.state.decision_cache import DecisionKey, RememberedDecision
from parley.app.team.state.openings import Continuation, LikeMessages, Opening, OpeningKey
from parley.app.team.state.rules import GovernedTerms
from parley.domain.agents.party import pair_name
from parley.domain.audit.entry import EntryTemplate
from parley.domain.channel.post import SENDER_KIND, expiry
from parley.domain.channel.request import is_without_mark, without_mark
from parley.domain.content.envelope import disclosure_of
from parley.domain.directory.callers import TENANT_MARK, KeyKind
from parley.domain.exchange.exchange import Exchange, Outcome, shape_of
from parley.domain.message.message import Pattern
from parley.domain.record import changed
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.terms import Terms
from parley.domain.store.ground import Ground
from parley.domain.times import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.app.rules.docket import RulesDecision
    from parley.app.team.rules.governing import GovernedPost
    from parley.app.team.team import Team
    from parley.domain.channel.post import Post, PostDraft
    from parley.domain.content.envelope import Envelope, Ext, Wishes
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import Spend

# What differs between two messages that are alike under the same terms, by the names of the facts about them.
_VARYING = ("exchange_id", "conversation_id", "message_id", "content_digest")


async def govern(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str
) -> tuple[TeamDocket, ProposedPost, GovernedPost] | None:
    """Decide about a message by the terms that one like it had; None if there are none, or the rules do not apply.

    The commit compares the generation of their ground.
    """
    if not is_simple(caller, draft):
        return None
    now = team.now()
    request = answered_request(team, caller, channel_id, draft, stamp(now))
    if request is None and draft.in_reply_to:
        return None
    decision = team.governed_decisions.find(terms_key(caller, channel_id, draft, request), stamp(now))
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
        expires_at=expiry_of(team, draft, now),
        partial=draft.partial,
    )
    message = ProposedPost(caller, remembered.channel, remembered.access, draft, placed, request, record=None)
    governed = await govern_by(docket, message, remembered.terms)
    if governed.decision is not None:
        _keep(docket, message, governed.decision, remembered)
    return docket, message, governed


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
        or not is_simple(caller, draft)
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
    key = terms_key(caller, channel.id, draft, message.request)
    decision_before = RememberedDecision(Ground(generation, tuple(lasting)), message.access.due, outcome)
    docket.team.governed_decisions.remember(key, decision_before)


class _Ordinary(NamedTuple):
    """What an ordinary message leaves for the next one like it."""

    like: Post
    # What its stamps are made from, with the name of the conversation if its sender named it.
    stamps: tuple[bytes, Envelope, Ext, str, str]
    beside: tuple[str, ...]
    entries: tuple[EntryTemplate, ...]


def _keep(docket: TeamDocket, message: ProposedPost, decision: RulesDecision[Post], remembered: GovernedTerms) -> None:
    """Keep what an ordinary message writes for the next one like it, if it is not the first of its kind."""
    ruling, post, exchange = decision.ruling, decision.message, decision.exchange
    if ruling is None or post is None or exchange is None or decision.approvals or not is_ordinary(ruling):
        return
    wishes = message.draft.wishes
    # What is claimed is checked each time.
    claims = wishes is not None and (wishes.expires_at or wishes.envelope is not None)
    named = is_named(message.draft)
    # Where other nodes write, too, messages that name their conversation are decided: see `governed_messages`.
    if claims or message.channel.options.audit or (named and not docket.team.store.is_current):
        return
    entries = tuple(
        [
            EntryTemplate(docket.tenant, entry.side, entry.action, entry.actor, entry.facts, _VARYING)
            for entry in decision.audits
        ]
    )
    if not all(entry.is_written_as_it_is for entry in entries):
        return
    metadata = message.draft.metadata
    label = disclosure_of(ruling.origin, ruling.policy.disclosure)
    stamps = (metadata, ruling.envelope, ruling.ext, label, wishes.conversation_id if wishes is not None else "")
    like = post._replace(id="", payload=b"", metadata=b"")
    ordinary = _Ordinary(like, stamps, tuple(texts_beside(docket.team, metadata)), entries)
    if not exchange.version:
        _keep_opening(docket, message, exchange, ordinary, decision.spends, remembered)
    elif named or message.request is not None:
        _keep_turn(docket.team, message, (ruling.exchange_before, exchange), ordinary, decision.spends, remembered)


def _keep_opening(
    docket: TeamDocket,
    message: ProposedPost,
    exchange: Exchange,
    ordinary: _Ordinary,
    spends: tuple[Spend, ...],
    remembered: GovernedTerms,
) -> None:
    """Keep what a message writes that opens an exchange."""
    team, caller, draft = docket.team, message.caller, message.draft
    if draft.wishes is None or not is_named(draft):
        key, openings = opening_key(caller, draft), remembered.openings
    elif draft.wishes.conversation_id in docket.new_conversations:
        key, openings = named_key(team, caller, draft, draft.wishes), remembered.named_openings
    else:
        return
    metadata = team.envelopes.stamp_template(*ordinary.stamps) if openings.is_repeated(key) else b""
    if metadata:
        # As it will be stored: nothing is there under its id, so this is its first version.
        created = changed(exchange, transcript=(), version=1)
        openings.keep(key, Opening(ordinary.like, created, metadata, ordinary.beside, ordinary.entries, spends))


def _keep_turn(
    team: Team,
    message: ProposedPost,
    exchanges: tuple[Exchange, Exchange],
    ordinary: _Ordinary,
    spends: tuple[Spend, ...],
    remembered: GovernedTerms,
) -> None:
    """Keep what a message writes that goes on with an exchange: with these, as it was before and as it is after it."""
    before, exchange = exchanges
    # A name that nobody has read yet is inspected with the message; and where something waits for a person, or ends
    # with the message, that depends on more than the exchange.
    waits = before.holds or before.limit_approval
    goes_on = Outcome.IN_PROGRESS is before.outcome is exchange.outcome and not waits
    if not (before.version and before.current_round and goes_on):
        return
    caller, draft, wishes = message.caller, message.draft, message.draft.wishes
    after = _changes_between(before, exchange)
    only = only_exchange(team, caller, ordinary.like.to, before.conversation_id)
    if wishes is not None and is_named(draft):
        key = named_key(team, caller, draft, wishes, before)
    else:
        key = turn_key(caller, draft, before)
    if after is None or only is None or only.id != before.id or not remembered.continuations.is_repeated(key):
        return
    metadata = team.envelopes.stamp_template(*ordinary.stamps)
    if metadata:
        next_turn = Continuation(ordinary.like, before, after, metadata, ordinary.beside, ordinary.entries, spends)
        remembered.continuations.keep(key, next_turn)


def _changes_between(before: Exchange, after: Exchange) -> dict[str, Any] | None:
    """What a message changes in its exchange beside adding its turn to it; None when it does not add one."""
    if after.transcript[:-1] != before.transcript or after.expires_at != before.expires_at:
        return None
    names = [field.name for field in fields(after) if field.name != "transcript"]
    return {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}


def is_simple(caller: Caller, draft: PostDraft) -> bool:
    """Whether it comes from an agent, hands nothing on and follows from no other message but a request that it answers.

    Terms are remembered for registered agents, so that somebody could get it.
    """
    return (
        caller.kind is not KeyKind.HUMAN
        and (draft.pattern is Pattern.RESPONSE) == (draft.in_reply_to != "")
        # An answer that names a conversation, too, may mean another one.
        and not (draft.in_reply_to and is_named(draft))
        and not draft.forwards
        and (draft.wishes is None or not draft.wishes.parent_message_id)
        and TENANT_MARK not in draft.to
        # Who wrote a message is for the server to say.
        and SENDER_KIND not in draft.metadata
    )


def is_named(draft: PostDraft) -> bool:
    """Whether it names its conversation."""
    return draft.wishes is not None and draft.wishes.conversation_id != ""


def _is_annotated(draft: PostDraft) -> bool:
    return draft.wishes is not None and draft.wishes.annotated


def answered_request(team: Team, caller: Caller, channel_id: str, draft: PostDraft, at: str) -> Post | None:
    """The governed request that an answer answers, if memory says that it may; None for what is no such answer."""
    if not draft.in_reply_to:
        return None
    request = team.requests.answerable(caller.tenant, caller.agent, channel_id, draft, at)
    return request if request is not None and request.exchange_id else None


def terms_key(caller: Caller, channel_id: str, draft: PostDraft, request: Post | None) -> DecisionKey:
    """Which messages have the same terms. An answer goes to whoever sent its request."""
    to = draft.to if request is None else request.sender
    return DecisionKey(caller.tenant, caller.agent, channel_id, to, draft.pattern)


def opening_key(caller: Caller, draft: PostDraft) -> OpeningKey:
    """The key of a message that opens an exchange without a name."""
    return OpeningKey(draft.metadata, draft.wishes, caller.actor, caller.key_id)


def named_key(
    team: Team, caller: Caller, draft: PostDraft, wishes: Wishes, exchange: Exchange | None = None
) -> OpeningKey:
    """The key of a message that names its conversation, and of the exchange that it goes on with."""
    metadata = team.envelopes.without_conversation(draft.metadata, wishes.conversation_id)
    unnamed = wishes._replace(conversation_id="")
    shape = shape_of(exchange) if exchange is not None else ()
    return OpeningKey(metadata, unnamed, caller.actor, caller.key_id, shape)


def turn_key(caller: Caller, draft: PostDraft, exchange: Exchange) -> OpeningKey:
    """The key of an answer, and of the exchange that it goes on with."""
    return opening_key(caller, draft)._replace(shape=shape_of(exchange))


def only_exchange(team: Team, caller: Caller, other: str, conversation_id: str) -> Exchange | None:
    """The exchange of these two in a conversation that has no other; None when that is not known in memory."""
    ids = team.governance.known_conversation(caller.tenant, conversation_id)
    if ids is None or len(ids) != 1:
        return None
    exchange = team.store.cached(Exchange, caller.tenant, ids[0])
    if exchange is None or exchange.name != pair_name(caller.agent, other):
        return None
    return exchange


def expiry_of(team: Team, draft: PostDraft, now: datetime) -> str:
    """The stamp of the end of a message, if it asks for one."""
    return expiry(draft.expires_at, now, team.limits.longest_expiry) if draft.expires_at is not None else ""
