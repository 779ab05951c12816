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
from parley.app.team.state.openings import Continuation, MessageTemplates, Opening, TemplateKey
from parley.app.team.state.rules import GovernedTerms
from parley.domain.agents.party import pair_name
from parley.domain.audit.entry import EntryTemplate
from parley.domain.channel.post import SENDER_KIND, expiry
from parley.domain.channel.request import expect_no_mark, expects_no_mark
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


async def govern(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str
) -> tuple[TeamDocket, ProposedPost, GovernedPost] | None:
    """Decide about a message by the terms that one like it had; None if there are none, or the rules do not apply.

    The commit compares the generation of their ground.
    """
    now = team.now()
    match = find_terms(team, caller, channel_id, draft, stamp(now))
    if match is None:
        return None
    decision, request = match
    if not (decision.outcome.concerned or _is_annotated(draft) or request is not None):
        return None
    remembered = decision.outcome
    expects = [expect_no_mark(request)] if request is not None else []
    docket = TeamDocket(team, caller.tenant, remembered.rules, expects, decision.ground, now)
    placed = remembered.post._replace(
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
        or not _may_use_terms(caller, draft)
        # The request was handed on: this answers the original one.
        or message.placed.in_reply_to != draft.in_reply_to
        or not channel.version
        # The channel ends some time after its last message.
        or channel.options.ttl_seconds is not None
    ):
        return
    (receiver,) = submission.receivers
    policy = docket.book.between(submission.sender.attributes, receiver.attributes)
    if policy is None:
        return
    # Each message expects by itself the version of its exchange, and each answer that its request has no mark.
    lasting = [expect for expect in docket.expects if expect.kind != Exchange.kind and not expects_no_mark(expect)]
    outcome = GovernedTerms(
        channel,
        message.access,
        docket.rules,
        Terms(docket.tenant, submission.sender, submission.receivers, docket.book),
        message.placed._replace(id="", in_reply_to="", payload=b"", metadata=b"", created_at="", expires_at=""),
        concerned=concerns(policy, submission.sender, receiver),
        openings=MessageTemplates(),
        named_openings=MessageTemplates(),
        continuations=MessageTemplates(),
    )
    key = _terms_key(caller, channel.id, draft, message.request)
    remembered = RememberedDecision(Ground(generation, tuple(lasting)), message.access.due, outcome)
    docket.team.governed_decisions.remember(key, remembered)


class _TemplateParts(NamedTuple):
    """The parts of a template that an ordinary message leaves, whether it opens an exchange or continues one."""

    post: Post
    # The arguments of `envelopes.stamp_template`.
    stamped: tuple[bytes, Envelope, Ext, str, str]
    beside: tuple[str, ...]
    entries: tuple[EntryTemplate, ...]


def _keep(docket: TeamDocket, message: ProposedPost, decision: RulesDecision[Post], remembered: GovernedTerms) -> None:
    """Keep what an ordinary message writes as a template, if one with the same key was decided before it."""
    ruling, post, exchange = decision.ruling, decision.message, decision.exchange
    if ruling is None or post is None or exchange is None or decision.approvals or not is_ordinary(ruling):
        return
    wishes = message.draft.wishes
    # What is claimed is checked each time.
    claims = wishes is not None and (wishes.expires_at or wishes.envelope is not None)
    named = is_named(message.draft)
    # On a store that other nodes can write to, these are decided: see `governed_messages`.
    if claims or message.channel.options.audit or (named and not docket.team.store.is_current):
        return
    varying = tuple(varying_facts("", "", "", ""))
    entries = tuple(
        [
            EntryTemplate(docket.tenant, entry.side, entry.action, entry.actor, entry.facts, varying)
            for entry in decision.audits
        ]
    )
    if not all(entry.is_written_as_it_is for entry in entries):
        return
    metadata = message.draft.metadata
    label = disclosure_of(ruling.origin, ruling.policy.disclosure)
    stamped = (metadata, ruling.envelope, ruling.ext, label, wishes.conversation_id if wishes is not None else "")
    like = post._replace(id="", payload=b"", metadata=b"")
    parts = _TemplateParts(like, stamped, tuple(texts_beside(docket.team, metadata)), entries)
    if not exchange.version:
        _keep_opening(docket, message, exchange, parts, decision.spends, remembered)
    elif named or message.request is not None:
        _keep_turn(docket.team, message, (ruling.exchange_before, exchange), parts, decision.spends, remembered)


def _keep_opening(
    docket: TeamDocket,
    message: ProposedPost,
    exchange: Exchange,
    parts: _TemplateParts,
    spends: tuple[Spend, ...],
    remembered: GovernedTerms,
) -> None:
    """Keep what is written by a message that opens an exchange."""
    team, caller, draft = docket.team, message.caller, message.draft
    if draft.wishes is None or not is_named(draft):
        key, openings = opening_key(caller, draft), remembered.openings
    elif draft.wishes.conversation_id in docket.new_conversations:
        key, openings = named_key(team, caller, draft, draft.wishes), remembered.named_openings
    else:
        return
    metadata = team.envelopes.stamp_template(*parts.stamped) if openings.is_repeated(key) else b""
    if metadata:
        # As it will be stored under a new id: in its first version.
        created = changed(exchange, transcript=(), version=1)
        openings.keep(key, Opening(parts.post, created, metadata, parts.beside, parts.entries, spends))


def _keep_turn(
    team: Team,
    message: ProposedPost,
    exchanges: tuple[Exchange, Exchange],
    parts: _TemplateParts,
    spends: tuple[Spend, ...],
    remembered: GovernedTerms,
) -> None:
    """Keep what is written by a message that continues an exchange. `exchanges`: before and after the message."""
    before, exchange = exchanges
    if not before.version or not before.current_round:
        return  # its name was inspected with the message, as that of an opening is
    in_progress = before.outcome is Outcome.IN_PROGRESS and exchange.outcome is Outcome.IN_PROGRESS
    if not in_progress or before.holds or before.limit_approval:
        return  # what the message ends, or what waits for a person, depends on more than the exchange
    caller, draft, wishes = message.caller, message.draft, message.draft.wishes
    after = _changes_between(before, exchange)
    only = only_exchange(team, caller, parts.post.to, before.conversation_id)
    if wishes is not None and is_named(draft):
        key = named_key(team, caller, draft, wishes, before)
    else:
        key = turn_key(caller, draft, before)
    if after is None or only is None or only.id != before.id or not remembered.continuations.is_repeated(key):
        return
    metadata = team.envelopes.stamp_template(*parts.stamped)
    if metadata:
        next_turn = Continuation(parts.post, before, after, metadata, parts.beside, parts.entries, spends)
        remembered.continuations.keep(key, next_turn)


def _changes_between(before: Exchange, after: Exchange) -> dict[str, Any] | None:
    """The fields of its exchange that a message changes beside adding its turn; None when it does not add one."""
    if after.transcript[:-1] != before.transcript or after.expires_at != before.expires_at:
        return None
    names = [field.name for field in fields(after) if field.name != "transcript"]
    return {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}


def find_terms(
    team: Team, caller: Caller, channel_id: str, draft: PostDraft, at: str
) -> tuple[RememberedDecision[GovernedTerms], Post | None] | None:
    """The terms that a message like this one had, and the governed request that this one answers, if any."""
    if not _may_use_terms(caller, draft):
        return None
    request = _answered_request(team, caller, channel_id, draft, at)
    if request is None and draft.in_reply_to:
        return None
    decision = team.governed_decisions.find(_terms_key(caller, channel_id, draft, request), at)
    return (decision, request) if decision is not None else None


def _may_use_terms(caller: Caller, draft: PostDraft) -> bool:
    """Whether it comes from an agent, hands nothing on and follows from no other message but a request that it answers.

    `wait_for_responders` is not compared: terms are remembered for registered addressees only, who can get it.
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


def _answered_request(team: Team, caller: Caller, channel_id: str, draft: PostDraft, at: str) -> Post | None:
    """The governed request that a draft answers, if memory shows that it may be answered; else None."""
    if not draft.in_reply_to:
        return None
    request = team.requests.answerable(caller.tenant, caller.agent, channel_id, draft, at)
    return request if request is not None and request.exchange_id else None


def _terms_key(caller: Caller, channel_id: str, draft: PostDraft, request: Post | None) -> DecisionKey:
    """Which messages have the same terms. An answer goes to whoever sent its request."""
    to = draft.to if request is None else request.sender
    return DecisionKey(caller.tenant, caller.agent, channel_id, to, draft.pattern)


def opening_key(caller: Caller, draft: PostDraft) -> TemplateKey:
    """The key of a message that opens an exchange without a name."""
    return TemplateKey(draft.metadata, draft.wishes, caller.actor, caller.key_id)


def named_key(
    team: Team, caller: Caller, draft: PostDraft, wishes: Wishes, exchange: Exchange | None = None
) -> TemplateKey:
    """The key of a message that names its conversation, and of the exchange that it continues."""
    metadata = team.envelopes.without_conversation(draft.metadata, wishes.conversation_id)
    unnamed = wishes._replace(conversation_id="")
    shape = shape_of(exchange) if exchange is not None else ()
    return TemplateKey(metadata, unnamed, caller.actor, caller.key_id, shape)


def turn_key(caller: Caller, draft: PostDraft, exchange: Exchange) -> TemplateKey:
    """The key of an answer, and of the exchange that it continues."""
    return opening_key(caller, draft)._replace(shape=shape_of(exchange))


def only_exchange(team: Team, caller: Caller, other: str, conversation_id: str) -> Exchange | None:
    """The exchange of these two in a conversation that has no other; None when that is not remembered in memory."""
    ids = team.governance.known_conversation(caller.tenant, conversation_id)
    if ids is None or len(ids) != 1:
        return None
    exchange = team.store.cached(Exchange, caller.tenant, ids[0])
    if exchange is None or exchange.name != pair_name(caller.agent, other):
        return None
    return exchange


def varying_facts(exchange_id: str, conversation_id: str, message_id: str, content_digest: str) -> dict[str, str]:
    """The facts of a message's audit entries that differ from the next one with the same template."""
    return {
        "exchange_id": exchange_id,
        "conversation_id": conversation_id,
        "message_id": message_id,
        "content_digest": content_digest,
    }


def expiry_of(team: Team, draft: PostDraft, now: datetime) -> str:
    """The stamp of the end of a message, if it asks for one."""
    return expiry(draft.expires_at, now, team.limits.longest_expiry) if draft.expires_at is not None else ""
