"""A ruling: the complete result of applying the rules to a message. Pure, and the same for files and HTTP.

proposal ──> is the envelope true? ──> is the exchange open? ──> what is in the content?
                                            │
         exchange as it is then  <──  judge, for each receiver  ──>  pass (stamped) | hold | deny
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from parley.domain.agents.party import Party, source_of
from parley.domain.content.classification import (
    Classification,
    DataItem,
    OnOver,
    can_share,
    lowest,
    sort_data,
)
from parley.domain.content.commitment import detect
from parley.domain.content.detectors import Detection, findings, level_with
from parley.domain.content.envelope import (
    SEMANTICS,
    VERSION,
    Envelope,
    Ext,
    Origin,
    Purpose,
    ReplyPolicy,
    Wishes,
    purpose_of,
)
from parley.domain.content.redaction import text_of, without, without_names
from parley.domain.errors.errors import Problem
from parley.domain.errors.rules import EnvelopeInvalid, PolicyDenied, PolicyUnavailable
from parley.domain.exchange.approval import Approval, Cause
from parley.domain.exchange.exchange import (
    Exchange,
    Outcome,
    accepted,
    accepted_part,
    caught_up,
    chain_length,
    check_open,
    ended,
    escalated,
    released,
    summary_of,
)
from parley.domain.rules.judge import ALLOW, Allow, Case, Deny, Hold, Verdict, ceiling_of, judge, rounds_of
from parley.domain.rules.meet import both
from parley.domain.rules.policy import Policy
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.stamping import check_claims, check_fixed
from parley.domain.times import from_stamp, parse_time, stamp

Body = str | dict[str, Any]
# A further detector of commitments: what it names is held. It can only add.
Detector = Callable[[Iterable[str]], Iterable[str]]


class Fresh(NamedTuple):
    """Ids that a ruling may need."""

    exchange_id: str
    conversation_id: str
    approval_id: str


class Proposal(NamedTuple):
    """A message to be sent, before it is judged."""

    tenant: str
    sender: Party
    receivers: tuple[Party, ...]
    # Whom it is addressed to: an agent, a role, or everyone.
    to: str
    # Whether an answer is expected when nothing else says so.
    asks: bool
    wishes: Wishes
    body: Body
    exchange: Exchange | None
    # The other exchanges of the same conversation in which the sender takes part.
    others: tuple[Exchange, ...]
    approval: Approval | None
    now: datetime
    fresh: Fresh
    channel_id: str = ""
    detectors: tuple[Detector, ...] = ()
    # Somebody who may decide about what waits says this instead.
    instead: bool = False
    # All texts of the message that its receivers would get with this body, but for data items and what the rules stamp.
    texts: Callable[[Body], tuple[str, ...]] = lambda body: (text_of(body),)
    # It was sent already: nothing can be taken out of it.
    arrived: bool = False
    # A partial answer: it is judged as the answer would be, and takes no round.
    partial: bool = False


class Ruling(NamedTuple):
    """The result for a proposal."""

    verdict: Verdict
    policy: Policy
    # As it is now; a denied one that was never begun is not kept.
    exchange: Exchange
    receivers: tuple[Party, ...]
    # Who does not get it, and why.
    excluded: tuple[tuple[str, str], ...]
    origin: Origin
    level: Classification
    # Detections in the content, which raised its level.
    detections: tuple[Detection, ...]
    keywords: tuple[str, ...]
    # The part of the body that may pass; None for all of it.
    body: Body | None
    shared: tuple[DataItem, ...]
    withheld: tuple[DataItem, ...]
    ceiling: Classification
    envelope: Envelope
    ext: Ext
    summary: str
    # The level that the sender declared, before detection.
    declared: Classification
    # The exchange as it was before.
    exchange_before: Exchange
    # Which rules of the organisation's own were asked as well, and whether they made it stricter.
    rules: str = ""
    tightened: bool = False


class _Content(NamedTuple):
    """The body as it would be sent, and the detections in it."""

    body: Body | None
    shared: tuple[DataItem, ...]
    over: tuple[DataItem, ...]
    ceiling: Classification
    level: Classification
    detections: tuple[Detection, ...]
    keywords: tuple[str, ...]


def origin_of(proposal: Proposal) -> Origin:
    """The origin of a message: by its credential, and whether a person approved it."""
    if proposal.sender.human:
        return Origin.HUMAN
    return Origin.ASSISTED if proposal.approval is not None else Origin.AGENT


def rule(proposal: Proposal, book: Rulebook) -> Ruling:
    """Apply the rules to a proposal; raises when it is invalid before it is judged."""
    wishes, sender = proposal.wishes, proposal.sender
    if wishes.problem is not None:
        raise wishes.problem
    origin = origin_of(proposal)
    exchange = proposal.exchange
    claims = wishes.envelope
    # What was held was checked when it was held; the round that it claimed then has passed.
    if claims is not None and proposal.approval is None:
        check_claims(claims, source_of(sender, proposal.tenant), origin, sender.attributes, exchange)
    at = stamp(proposal.now)
    if exchange is not None:
        check_open(exchange, sender.agent, at, human=sender.human)
        if proposal.approval is None:
            check_fixed(wishes, exchange)
    pairs: list[tuple[Party, Policy]] = []
    for receiver in proposal.receivers:
        shared = book.between(sender.attributes, receiver.attributes)
        if shared is None:
            raise PolicyUnavailable(
                "no enterprise policy: nothing is allowed",
                hint="an admin puts one into force: parley policy put enterprise/default FILE",
            )
        pairs.append((receiver, shared))
    policy = pairs[0][1]
    for _, other in pairs[1:]:
        policy = both(policy, other)
    begun = caught_up(exchange or _begin(proposal, policy, pairs, at), proposal.others)
    return _ruled(proposal, origin, begun, policy, pairs, at)


def _begin(proposal: Proposal, policy: Policy, pairs: list[tuple[Party, Policy]], at: str) -> Exchange:
    """The exchange that this message would start."""
    wishes, claims = proposal.wishes, proposal.wishes.envelope
    purpose, reply_policy, commits = _semantics(proposal)
    wished_rounds = wishes.max_rounds if wishes.max_rounds is not None else claims.max_rounds if claims else None
    return Exchange(
        id=proposal.fresh.exchange_id,
        tenant_id=proposal.tenant,
        conversation_id=wishes.named_conversation or proposal.fresh.conversation_id,
        initiator=proposal.sender.agent,
        responder=proposal.to,
        channel_id=proposal.channel_id,
        purpose=purpose,
        reply_policy=reply_policy,
        requires_commitment=commits,
        max_rounds=min(
            [rounds_of(pair_policy, proposal.sender, receiver, wished_rounds) for receiver, pair_policy in pairs]
        ),
        started_at=at,
        expires_at=_expiry(proposal, policy),
        policy_version=policy.version,
    )


def _semantics(proposal: Proposal) -> tuple[Purpose, ReplyPolicy, bool]:
    claims = proposal.wishes.envelope
    if claims is not None:
        purpose = purpose_of(claims.reply_policy, requires_commitment=claims.requires_commitment)
        return purpose, claims.reply_policy, claims.requires_commitment
    if proposal.wishes.purpose is None and not proposal.asks:
        return Purpose.INFORMATION_QUERY, ReplyPolicy.NO_REPLY, False
    purpose = proposal.wishes.purpose or Purpose.INFORMATION_QUERY
    return purpose, *SEMANTICS[purpose]


def _expiry(proposal: Proposal, policy: Policy) -> str:
    """The expiry: as requested, at most the policy's, in milliseconds as in envelopes."""
    latest = proposal.now + timedelta(hours=policy.exchange_hours)
    claims = proposal.wishes.envelope
    wished_end = proposal.wishes.expires_at or (stamp(parse_time(claims.expires_at)) if claims else "")
    end = min(latest, from_stamp(wished_end)) if wished_end else latest
    if end <= proposal.now:
        raise EnvelopeInvalid.because([Problem("invalid", "expires_at", "is in the past")])
    return stamp(end.replace(microsecond=end.microsecond // 1000 * 1000))


class _Judged(NamedTuple):
    """The verdict for all receivers together: those for whom it is denied are excluded."""

    verdict: Verdict
    passing: tuple[Party, ...]
    excluded: tuple[tuple[str, str], ...]


def _ruled(
    proposal: Proposal, origin: Origin, begun: Exchange, policy: Policy, pairs: list[tuple[Party, Policy]], at: str
) -> Ruling:
    hops = chain_length(proposal.exchange, proposal.others, proposal.sender.agent)
    declared = proposal.wishes.declared
    envelope = _envelope(proposal, origin, begun, declared)
    approval_id = proposal.approval.id if proposal.approval else ""
    ext = Ext(begun.id, begun.purpose, hops, policy.version, approval_id)
    stamps = _stamped_text(proposal, begun, policy.version, envelope, ext)
    content = _inspect(proposal, policy, declared, pairs, stamps)
    judged = _judged(proposal, origin, begun, content, pairs, hops)
    summary = summary_of(content.body if content.body is not None else proposal.body)
    return Ruling(
        judged.verdict,
        policy,
        _after(proposal, begun, judged.verdict, summary, hops, at),
        judged.passing,
        judged.excluded,
        origin,
        content.level,
        content.detections,
        content.keywords,
        content.body,
        content.shared,
        content.over,
        content.ceiling,
        envelope._replace(classification=content.level),
        ext,
        summary,
        declared,
        begun,
    )


def with_verdict(proposal: Proposal, ruling: Ruling, verdict: Verdict) -> Ruling:
    """The ruling with a stricter verdict, and all that follows from it; one that is not stricter changes nothing."""
    if _STRICTNESS[type(verdict)] <= _STRICTNESS[type(ruling.verdict)]:
        return ruling
    exchange = _after(proposal, ruling.exchange_before, verdict, ruling.summary, ruling.ext.hops, stamp(proposal.now))
    return ruling._replace(verdict=verdict, exchange=exchange)


_MOST_TOLD = 3
_LONGEST_TOLD = 60


def _over_told(content: _Content) -> str:
    """The source and level of data above the ceiling, without its content."""
    if not content.over:
        return ""
    items = [f"{item.source[:_LONGEST_TOLD]} is {item.classification.value}" for item in content.over[:_MOST_TOLD]]
    more = len(content.over) - len(items)
    rest = [f"{more} more"] if more else []
    return f"{', '.join([*items, *rest])}; at most {content.ceiling.value} may be shared"


_STRICTNESS: dict[type, int] = {Allow: 0, Hold: 1, Deny: 2}


def _judged(
    proposal: Proposal,
    origin: Origin,
    begun: Exchange,
    content: _Content,
    pairs: list[tuple[Party, Policy]],
    hops: int,
) -> _Judged:
    verdict: Verdict = ALLOW
    denial: Deny | None = None
    passing: list[Party] = []
    excluded: list[tuple[str, str]] = []
    case = Case(
        sender=proposal.sender,
        receiver=pairs[0][0],
        purpose=begun.purpose,
        reply_policy=begun.reply_policy,
        requires_commitment=begun.requires_commitment,
        origin=origin,
        level=content.level,
        round=begun.current_round + 1,
        max_rounds=begun.max_rounds,
        initiates=proposal.sender.agent == begun.initiator,
        hops=hops,
        # A text has no fields that could be taken out of it.
        over=bool(content.over) and content.body is None,
        keywords=content.keywords,
        approved=proposal.approval is not None or proposal.instead,
        over_told=_over_told(content),
    )
    for receiver, policy in pairs:
        pair_verdict = judge(case if receiver is case.receiver else case._replace(receiver=receiver), policy)
        if isinstance(pair_verdict, Deny):
            denial = denial or pair_verdict
            excluded.append((receiver.agent, pair_verdict.error.code))
            continue
        passing.append(receiver)
        if isinstance(pair_verdict, Hold) and not isinstance(verdict, Hold):
            verdict = pair_verdict
    if not passing:
        verdict = denial or Deny(PolicyDenied("nobody receives this"), ends=False)
    return _Judged(verdict, tuple(passing), tuple(excluded))


def _envelope(proposal: Proposal, origin: Origin, begun: Exchange, level: Classification) -> Envelope:
    """The envelope of the message: nothing in it is taken from the sender."""
    return Envelope(
        message_type=origin,
        source_agent=source_of(proposal.sender, proposal.tenant),
        classification=level,
        conversation_id=begun.conversation_id,
        exchange_round=begun.current_round + 1,
        max_rounds=begun.max_rounds,
        can_commit=origin is Origin.ASSISTED,
        can_share=can_share(proposal.sender.attributes.max_classification),
        reply_policy=begun.reply_policy,
        requires_commitment=begun.requires_commitment,
        expires_at=envelope_time(begun.expires_at),
    )


def _stamped_text(proposal: Proposal, begun: Exchange, policy_version: str, envelope: Envelope, ext: Ext) -> str:
    """What the stamps of a message repeat of its sender's words: everything in them that is not known to be ours.

    The name of a conversation is chosen by who begins it, and everyone in it reads it. It counts until a message was
    delivered under it: one that was held has shown it to nobody. A mailbox makes one of the name of its agent.
    """
    ours = {
        *source_of(proposal.sender, proposal.tenant),
        VERSION,
        envelope_time(begun.expires_at),
        begun.id,
        policy_version,
    }
    if proposal.approval is not None:
        ours.add(proposal.approval.id)
    delivered = proposal.exchange is not None and proposal.exchange.current_round > 0
    if delivered or begun.conversation_id == proposal.fresh.conversation_id:
        ours.add(begun.conversation_id)
    texts = [text for text in (*_strings(envelope), *_strings(ext)) if text and text not in ours]
    if not texts:
        return ""
    parties = (proposal.sender.agent, *[receiver.agent for receiver in proposal.receivers])
    return "\n".join(without_names(texts, parties))


def _strings(stamps: tuple[Any, ...]) -> list[str]:
    """All texts in stamps. A choice from a list of ours is no text: it can say nothing else."""
    texts = []
    for part in stamps:
        if type(part) is str:
            texts.append(part)
        elif isinstance(part, tuple):
            texts += _strings(part)
    return texts


def _inspect(
    proposal: Proposal, policy: Policy, declared: Classification, pairs: list[tuple[Party, Policy]], stamps: str
) -> _Content:
    """Remove data that may not pass and inspect the rest: detectors only raise the level and add keywords."""
    ceiling = lowest(*[ceiling_of(pair_policy, proposal.sender, receiver, declared) for receiver, pair_policy in pairs])
    items = sort_data(proposal.wishes.data, ceiling)
    body: Body | None = None
    # What names no fields cannot be taken out, and a text has none.
    removable = isinstance(proposal.body, dict) and not proposal.arrived and all(item.fields for item in items.over)
    if items.over and policy.on_over_classified is not OnOver.BLOCK and removable:
        assert isinstance(proposal.body, dict)  # noqa: S101  # as was just seen
        body = without(proposal.body, items.over, redact=policy.on_over_classified is OnOver.REDACT)
    shown = proposal.body if body is None else body
    # What is said about data is told to the receiver even where the data is not.
    about = (text_of(proposal.wishes.data),) if proposal.wishes.data else ()
    texts = (*proposal.texts(shown), *about, *((stamps,) if stamps else ()))
    detections = findings(texts, policy.patterns)
    keywords: tuple[str, ...] = ()
    if not proposal.sender.human:
        keywords = detect(
            texts,
            requires_commitment=False,
            human_only=False,
            extra=policy.commitment_words,
            match=policy.match,
            further=proposal.detectors,
        ).detected_keywords
    return _Content(body, items.shared, items.over, ceiling, level_with(declared, detections), detections, keywords)


def _after(proposal: Proposal, begun: Exchange, verdict: Verdict, summary: str, hops: int, at: str) -> Exchange:
    """The exchange after the verdict."""
    sender = proposal.sender.agent
    if isinstance(verdict, Deny):
        if not verdict.ends or begun.over:
            return begun
        denied = ended(begun, Outcome.DENIED, at, sender, verdict.error.code)
        # Its conversation is not reserved, as no message was sent.
        return denied if proposal.exchange is not None else replace(denied, reserved=False)
    if isinstance(verdict, Hold):
        if verdict.cause is Cause.ROUND_LIMIT:
            return begun if begun.limit_approval else escalated(begun, proposal.fresh.approval_id, limit=True)
        return escalated(begun, proposal.fresh.approval_id)
    if proposal.approval is not None:
        begun = released(begun, proposal.approval.id)
    if proposal.partial:
        return accepted_part(begun, sender, summary, hops)
    return accepted(begun, sender, summary, at, hops)


def envelope_time(moment: str) -> str:
    """A stamp as envelopes have it: UTC, to the millisecond."""
    return f"{moment[:23]}Z" if moment[19:20] == "." else f"{moment[:19]}.000Z"
