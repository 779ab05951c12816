"""A ruling: the complete result of applying the rules to a message. Pure, and the same for files and HTTP.

proposal ──> is the envelope true? ──> is the exchange open? ──> what is in the content?
                                            │
         exchange as it is then  <──  judge, for each receiver  ──>  pass (stamped) | hold | deny
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from parley.domain.agents.party import Party, source_of
from parley.domain.content.classification import Classification, DataItem, OnOver, sort_data
from parley.domain.content.commitment import detect, keywords_in
from parley.domain.content.detectors import Detection, findings, level_with
from parley.domain.content.envelope import (
    SEMANTICS,
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
from parley.domain.errors.rules import EnvelopeInvalid, PolicyDenied
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
from parley.domain.rules.deciding import DecidingRule, stopping_rule
from parley.domain.rules.judge import ALLOW, Allow, Case, Deny, Hold, Verdict, judge
from parley.domain.rules.policy import Policy
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.stamping import check_claims, check_fixed
from parley.domain.rules.terms import Terms
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
    # The same moment as a stamp, where it is known already.
    at: str = ""
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
    # The terms between its parties, where they are known already.
    terms: Terms | None = None


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
    terms: Terms
    # Which rules of the organisation's own were asked as well, and whether they made it stricter.
    rules: str = ""
    tightened: bool = False
    # The rule that denied it or has it held; None when it passes, or when the organisation's own rules decided.
    stopped_by: DecidingRule | None = None


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
    at = proposal.at or stamp(proposal.now)
    if exchange is not None:
        check_open(exchange, sender.agent, at, human=sender.human)
        if proposal.approval is None:
            check_fixed(wishes, exchange)
    terms = proposal.terms or Terms(proposal.tenant, sender, proposal.receivers, book)
    begun = caught_up(exchange or _begin(proposal, terms, at), proposal.others)
    return _ruled(proposal, origin, begun, terms, at)


def _begin(proposal: Proposal, terms: Terms, at: str) -> Exchange:
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
        max_rounds=terms.rounds if wished_rounds is None else min(terms.rounds, wished_rounds),
        started_at=at,
        expires_at=_expiry(proposal, terms),
        policy_version=terms.policy.version,
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


def _expiry(proposal: Proposal, terms: Terms) -> str:
    """The expiry: as requested, at most the policy's, in milliseconds as in envelopes."""
    claims = proposal.wishes.envelope
    wished_end = proposal.wishes.expires_at or (stamp(parse_time(claims.expires_at)) if claims else "")
    if not wished_end:
        return latest_expiry(proposal.now, terms)
    end = min(proposal.now + terms.longest, from_stamp(wished_end))
    if end <= proposal.now:
        raise EnvelopeInvalid.because([Problem("invalid", "expires_at", "is in the past")])
    return _in_milliseconds(stamp(end))


def latest_expiry(now: datetime, terms: Terms) -> str:
    """The expiry of an exchange that begins now and asks for none."""
    return _in_milliseconds(stamp(now + terms.longest))


def _in_milliseconds(exact: str) -> str:
    return f"{exact[:_MILLISECONDS]}000{exact[_MICROSECONDS:]}"


# A stamp up to its milliseconds, and up to its microseconds.
_MILLISECONDS = 23
_MICROSECONDS = 26


class _Judged(NamedTuple):
    """The verdict for all receivers together: those for whom it is denied are excluded."""

    verdict: Verdict
    passing: tuple[Party, ...]
    excluded: tuple[tuple[str, str], ...]
    stopped_by: DecidingRule | None = None


def _ruled(proposal: Proposal, origin: Origin, begun: Exchange, terms: Terms, at: str) -> Ruling:
    policy = terms.policy
    hops = chain_length(proposal.exchange, proposal.others, proposal.sender.agent)
    declared = proposal.wishes.declared
    envelope = _envelope(terms, origin, begun, declared)
    approval_id = proposal.approval.id if proposal.approval else ""
    ext = Ext(begun.id, begun.purpose, hops, policy.version, approval_id)
    content = _inspect(proposal, terms, declared, _stamped_text(proposal, terms, begun, envelope, ext))
    judged = _judged(proposal, terms, origin, begun, content, hops)
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
        envelope if content.level is declared else envelope._replace(classification=content.level),
        ext,
        summary,
        declared,
        begun,
        terms,
        stopped_by=judged.stopped_by,
    )


def with_verdict(proposal: Proposal, ruling: Ruling, verdict: Verdict) -> Ruling:
    """The ruling with a stricter verdict, and all that follows from it; one that is not stricter changes nothing."""
    if _STRICTNESS[type(verdict)] <= _STRICTNESS[type(ruling.verdict)]:
        return ruling
    exchange = _after(proposal, ruling.exchange_before, verdict, ruling.summary, ruling.ext.hops, stamp(proposal.now))
    return ruling._replace(verdict=verdict, exchange=exchange, stopped_by=None)


_MOST_TOLD = 3
_LONGEST_TOLD = 60


def _over_told(content: _Content) -> str:
    """The source and level of data above the ceiling, without its content."""
    items = [f"{item.source[:_LONGEST_TOLD]} is {item.classification.value}" for item in content.over[:_MOST_TOLD]]
    more = len(content.over) - len(items)
    rest = [f"{more} more"] if more else []
    return f"{', '.join([*items, *rest])}; at most {content.ceiling.value} may be shared"


_STRICTNESS: dict[type, int] = {Allow: 0, Hold: 1, Deny: 2}


def _judged(proposal: Proposal, terms: Terms, origin: Origin, begun: Exchange, content: _Content, hops: int) -> _Judged:
    case = Case(
        sender=proposal.sender,
        receiver=terms.receivers[0],
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
        over_told=_over_told(content) if content.over else "",
        detections=content.detections,
    )
    # What a judgement depends on beside the two parties and their policies.
    facts = case[2:]
    if terms.is_allowed(facts):
        return _Judged(ALLOW, terms.receivers, ())
    judged = _judged_anew(case, terms)
    if judged.verdict is ALLOW and not judged.excluded:
        terms.note_allowed(facts)
    return judged


def _judged_anew(case: Case, terms: Terms) -> _Judged:
    verdict: Verdict = ALLOW
    denial: Deny | None = None
    denied_by: DecidingRule | None = None
    stopped_by: DecidingRule | None = None
    passing: list[Party] = []
    excluded: list[tuple[str, str]] = []
    for receiver, policy in terms.pairs:
        pair_case = case if receiver is case.receiver else case._replace(receiver=receiver)
        pair_verdict = judge(pair_case, policy)
        if isinstance(pair_verdict, Deny):
            if denial is None:
                denial, denied_by = pair_verdict, stopping_rule(pair_case, policy, terms.book)
                denial.error.facts = {**denial.error.facts, **_stopping_facts(pair_case, denied_by)}
            excluded.append((receiver.agent, pair_verdict.error.code))
            continue
        passing.append(receiver)
        if isinstance(pair_verdict, Hold) and not isinstance(verdict, Hold):
            verdict, stopped_by = pair_verdict, stopping_rule(pair_case, policy, terms.book)
    if not passing:
        verdict = denial or Deny(PolicyDenied("nobody receives this"), ends=False)
        stopped_by = denied_by
    return _Judged(verdict, tuple(passing), tuple(excluded), stopped_by)


def _stopping_facts(case: Case, stopped_by: DecidingRule | None) -> dict[str, object]:
    """What a program needs to ask why: between whom, and by which rule."""
    rule_facts = {"rule": stopped_by._asdict()} if stopped_by is not None else {}
    return {"sender": case.sender.agent, "receiver": case.receiver.agent, **rule_facts}


def _envelope(terms: Terms, origin: Origin, begun: Exchange, level: Classification) -> Envelope:
    """The envelope of the message: nothing in it is taken from the sender."""
    return Envelope(
        message_type=origin,
        source_agent=terms.source,
        classification=level,
        conversation_id=begun.conversation_id,
        exchange_round=begun.current_round + 1,
        max_rounds=begun.max_rounds,
        can_commit=origin is Origin.ASSISTED,
        can_share=terms.can_share,
        reply_policy=begun.reply_policy,
        requires_commitment=begun.requires_commitment,
        expires_at=envelope_time(begun.expires_at),
    )


def _stamped_text(proposal: Proposal, terms: Terms, begun: Exchange, envelope: Envelope, ext: Ext) -> str:
    """What the stamps of a message repeat of its sender's words: everything in them that is not known to be ours.

    The name of a conversation is chosen by who begins it, and everyone in it reads it. It counts until a message was
    delivered under it: one that was held has shown it to nobody. A mailbox makes one of the name of its agent.
    """
    ours: set[object] = {*terms.stamps, envelope_time(begun.expires_at), begun.id}
    if proposal.approval is not None:
        ours.add(proposal.approval.id)
    delivered = proposal.exchange is not None and proposal.exchange.current_round > 0
    if delivered or begun.conversation_id == proposal.fresh.conversation_id:
        ours.add(begun.conversation_id)
    texts = _texts_beside((*envelope, *ext), ours)
    if not texts:
        return ""
    return "\n".join(without_parties(texts, proposal.sender, proposal.receivers))


def without_parties(texts: Iterable[str], sender: Party, receivers: Iterable[Party]) -> list[str]:
    """Texts among the stamps as they are inspected: without the names of the parties, which no sender chose."""
    return without_names(texts, (sender.agent, *[receiver.agent for receiver in receivers]))


def _texts_beside(stamps: tuple[Any, ...], ours: set[object]) -> list[str]:
    """All texts in stamps but for ours. A choice from a list of ours is no text: it can say nothing else."""
    texts: list[str] = []
    for part in [part for part in stamps if type(part) not in _NO_TEXTS and part not in ours]:
        if type(part) is str:
            texts.append(part)
        elif isinstance(part, tuple):
            texts += _texts_beside(part, ours)
    return texts


# Numbers, and choices from a list of ours.
_NO_TEXTS = frozenset({bool, int, Classification, Origin, Purpose, ReplyPolicy})


def _inspect(proposal: Proposal, terms: Terms, declared: Classification, stamps: str) -> _Content:
    """Remove data that may not pass and inspect the rest: detectors only raise the level and add keywords."""
    policy, ceiling = terms.policy, terms.ceiling(declared)
    items = sort_data(proposal.wishes.data, ceiling)
    body: Body | None = None
    # What names no fields cannot be taken out, and a text has none.
    if items.over and policy.on_over_classified is not OnOver.BLOCK:
        removable = not proposal.arrived and all(item.fields for item in items.over)
        if removable and isinstance(proposal.body, dict):
            body = without(proposal.body, items.over, redact=policy.on_over_classified is OnOver.REDACT)
    shown = proposal.body if body is None else body
    # What is said about data is told to the receiver even where the data is not.
    about = (text_of(proposal.wishes.data),) if proposal.wishes.data else ()
    texts = (*proposal.texts(shown), *about, *((stamps,) if stamps else ()))
    detections, keywords = scan(texts, policy, proposal.detectors, by_person=proposal.sender.human)
    level = level_with(declared, detections) if detections else declared
    return _Content(body, items.shared, items.over, ceiling, level, detections, keywords)


def scan(
    texts: tuple[str, ...], policy: Policy, detectors: tuple[Detector, ...], *, by_person: bool = False
) -> tuple[tuple[Detection, ...], tuple[str, ...]]:
    """What the texts of a message hold: content that raises its level, and words that commit its sender.

    A person may commit to what an agent may not.
    """
    detections = findings(texts, policy.patterns)
    if by_person:
        return detections, ()
    return detections, commitment_keywords(texts, policy, detectors)


def commitment_keywords(texts: tuple[str, ...], policy: Policy, detectors: tuple[Detector, ...]) -> tuple[str, ...]:
    """The words of a message that commit its sender, under a policy."""
    if not detectors:
        return keywords_in(texts, policy.commitment_words, policy.match)
    return detect(
        texts,
        requires_commitment=False,
        human_only=False,
        extra=policy.commitment_words,
        match=policy.match,
        further=detectors,
    ).detected_keywords


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
