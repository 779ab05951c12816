"""Audit entries: what each side's chain says about a message, an approval and the end of an exchange.

A place keeps the chains of all sides, or only its own: what is written for a side is the same in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.audit.entry import AGENT_EXCHANGE, AuditDraft
from parley.domain.audit.repeated import FactsTemplate, RepeatedFacts
from parley.domain.content.classification import withheld_reasons
from parley.domain.directory.callers import TENANT_MARK
from parley.domain.errors.rules import CrossEnterpriseBlocked, RoundMismatch
from parley.domain.hashes import digest
from parley.domain.rules.judge import Allow, crosses, evaluation_of
from parley.domain.rules.reasons import APPROVAL_DECIDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.app.rules.docket import Docket, Submission
    from parley.domain.agents.party import Party
    from parley.domain.content.envelope import Wishes
    from parley.domain.errors.errors import ParleyError
    from parley.domain.exchange.approval import Approval
    from parley.domain.exchange.exchange import Exchange, Outcome
    from parley.domain.mailbox.ledger import StoredMessage
    from parley.domain.rules.ruling import Ruling

EXCHANGE_ENDED = f"{AGENT_EXCHANGE}_ended"
REQUEST_WITHDRAWN = f"{AGENT_EXCHANGE}_withdrawn"
_SENDER = {"role": "sender", "direction": "outgoing"}
_RECEIVER = {"role": "receiver", "direction": "incoming"}


# What differs between two ordinary messages of an exchange; all else follows from `_repeats_with` and their terms.
_VARYING = ("exchange_id", "conversation_id", "round", "hops", "message_id", "content_digest")
_TEMPLATES_LIMIT = 64


def delivered_entries(
    docket: Docket, submission: Submission[Any], ruling: Ruling, content_digest: str, outcomes: Mapping[str, Outcome]
) -> tuple[AuditDraft, ...]:
    """The entries of a delivered message on both sides: same exchange, round, level and digest.

    `outcomes` is how each side knows the exchange: it is not told that a message of somebody else is held.
    """
    if not is_ordinary(ruling) or submission.approval_id or submission.creates_channel or outcomes:
        return tuple(_delivered_entries(docket, submission, ruling, content_digest, outcomes))
    exchange, terms = ruling.exchange, ruling.terms
    key = _repeats_with(submission, ruling)
    templates = terms.entry_templates.get(key)
    if templates is None:
        entries = _delivered_entries(docket, submission, ruling, content_digest, outcomes)
        if len(terms.entry_templates) >= _TEMPLATES_LIMIT:
            terms.entry_templates.clear()
        terms.entry_templates[key] = tuple([FactsTemplate(entry.facts, _VARYING) for entry in entries])
        return tuple(entries)
    facts: dict[str, str | int] = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "round": ruling.envelope.exchange_round,
        "hops": ruling.ext.hops,
        "message_id": submission.message_id,
        "content_digest": content_digest,
    }
    sides = [party.agent for party in (submission.sender, *ruling.receivers) if docket.keeps(party.agent)]
    return tuple(
        [
            _draft(docket, submission, side, RepeatedFacts(template, facts), exchange.id)
            for side, template in zip(sides, templates, strict=True)
        ]
    )


def is_ordinary(ruling: Ruling) -> bool:
    """Whether there is nothing to say about the content of a message, or about whom it did not reach."""
    return not (
        ruling.detections or ruling.keywords or ruling.shared or ruling.withheld or ruling.excluded or ruling.rules
    )


def _repeats_with(submission: Submission[Any], ruling: Ruling) -> tuple[object, ...]:
    """What the facts about an ordinary message depend on, beside its terms and what differs with every message."""
    exchange = ruling.exchange
    return (
        submission.to,
        submission.actor,
        submission.key,
        submission.channel_id,
        submission.annotated,
        ruling.origin,
        ruling.level,
        ruling.declared,
        exchange.initiator,
        exchange.max_rounds,
        exchange.outcome,
        exchange.purpose,
        exchange.reply_policy,
        exchange.requires_commitment,
    )


def _delivered_entries(
    docket: Docket, submission: Submission[Any], ruling: Ruling, content_digest: str, outcomes: Mapping[str, Outcome]
) -> list[AuditDraft]:
    facts = _facts(submission, ruling)
    facts |= {"outcome": "delivered", "content_digest": content_digest}
    facts["dataShared"] = [{"source": item.source, "fields": list(item.fields)} for item in ruling.shared]
    facts["dataWithheld"] = _withheld(ruling) if ruling.withheld else []
    if submission.approval_id:
        facts |= {"approval": submission.approval_id, "approved_by": submission.approved_by}
    entries = []
    if docket.keeps(submission.sender.agent):
        sent = {**facts, **_SENDER, "receivers": [party.agent for party in ruling.receivers]}
        sent["exchange_outcome"] = outcomes.get(submission.sender.agent, ruling.exchange.outcome).value
        if ruling.excluded:
            sent["excluded"] = [{"agent": agent, "reason": reason} for agent, reason in ruling.excluded]
        entries.append(_entry(docket, submission, submission.sender.agent, sent))
    for party in ruling.receivers:
        if docket.keeps(party.agent):
            received = {**facts, **_RECEIVER, "receivers": [party.agent], "target_org": party.attributes.org_unit}
            received["exchange_outcome"] = outcomes.get(party.agent, ruling.exchange.outcome).value
            received.pop("evaluations", None)
            received |= {**_evaluations(submission.sender, (party,)), **_rule(ruling, party)}
            entries.append(_entry(docket, submission, party.agent, received))
    return entries


def held_or_denied_entry(
    docket: Docket,
    submission: Submission[Any],
    ruling: Ruling,
    outcome: str,
    reason: str,
    *,
    approval_id: str = "",
    code: str = "",
) -> AuditDraft:
    """The entry of a held or denied message, only on the side that judged it."""
    side, role = _judging_side(submission)
    facts = _facts(submission, ruling)
    facts |= {**role, "outcome": outcome, "reason": reason, "content_digest": submission.digest}
    facts |= {"dataShared": [], "dataWithheld": _withheld(ruling)}
    facts["receivers"] = [party.agent for party in ruling.receivers] or [agent for agent, _ in ruling.excluded]
    if approval_id:
        facts["approval"] = approval_id
    if code:
        facts["code"] = code
    return _entry(docket, submission, side, facts)


def refused_entry(
    docket: Docket, submission: Submission[Any], refusal: ParleyError, exchange: Exchange | None
) -> AuditDraft:
    """The entry of a message refused before it was judged; no round is used."""
    side, role = _judging_side(submission)
    facts = {
        "exchange_id": exchange.id if exchange else "",
        "conversation_id": exchange.conversation_id if exchange else submission.conversation_id,
        "round": exchange.current_round if exchange else 0,
        **role,
        "classification": submission.declared.value,
        "policy": docket.book.label,
        "sender": submission.sender.agent,
        "to": submission.to,
        "source_org": submission.sender.attributes.org_unit,
        "target_org": submission.receivers[0].attributes.org_unit if submission.receivers else "",
        **_evaluations(submission.sender, submission.receivers),
        "receivers": [party.agent for party in submission.receivers],
        "dataShared": [],
        "dataWithheld": [],
        "content_digest": submission.digest,
        "message_id": submission.message_id,
        "outcome": "denied",
        "reason": refusal.message,
        "code": refusal.code,
    }
    return _entry(docket, submission, side, facts)


class BlockedMessage(NamedTuple):
    """A message to another tenant, as its sender wrote it. Nothing of that tenant is looked at."""

    sender: Party
    to: str
    actor: str
    key: str
    wishes: Wishes
    content_digest: str
    message_id: str = ""


def blocked_entry(docket: Docket, blocked: BlockedMessage) -> AuditDraft:
    """The entry of a message to another tenant, on the sender's side."""
    sender, wishes = blocked.sender, blocked.wishes
    facts: dict[str, Any] = {
        "exchange_id": "",
        "conversation_id": wishes.named_conversation,
        "round": 0,
        **_SENDER,
        "classification": wishes.declared.value,
        "policy": docket.book.label,
        "sender": sender.agent,
        "to": blocked.to,
        "source_org": sender.attributes.org_unit,
        # Which org unit that is, only the other tenant knows.
        "target_org": "",
        "target_tenant": next((name for name in _tenants_in(blocked.to) if name != docket.tenant), ""),
        "dataShared": [],
        "dataWithheld": [],
        "message_id": blocked.message_id,
        "content_digest": blocked.content_digest,
        "outcome": "denied",
        "code": CrossEnterpriseBlocked.code,
        "reason": "nothing crosses from one tenant to another",
        "key": blocked.key,
    }
    return AuditDraft(docket.new_id("aud"), sender.agent, docket.at, AGENT_EXCHANGE, blocked.actor, facts)


def _tenants_in(to: str) -> Iterable[str]:
    """The tenants that an address names; a mailbox message may have several recipients."""
    return [name.partition(TENANT_MARK)[2] for name in to.split(",") if TENANT_MARK in name]


def crossed_entry(docket: Docket, arrived: Submission[Any], exchange: Exchange, crossed: StoredMessage) -> AuditDraft:
    """The entry of a message of this side whose round went to another one that crossed with it."""
    message, receiver = crossed.message, arrived.sender
    facts: dict[str, Any] = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "round": exchange.current_round,
        **_SENDER,
        "classification": arrived.declared.value,
        "policy": docket.book.label,
        "sender": message.sender,
        "to": receiver.agent,
        "source_org": arrived.receivers[0].attributes.org_unit,
        "target_org": receiver.attributes.org_unit,
        "receivers": [receiver.agent],
        "dataShared": [],
        "dataWithheld": [],
        "message_id": message.id,
        "content_digest": crossed.digest,
        "outcome": "denied",
        "code": RoundMismatch.code,
        "reason": f"it crossed with {arrived.message_id}, which has the round",
        "key": "",
    }
    side = message.sender
    return AuditDraft(docket.new_id("aud"), side, docket.at, AGENT_EXCHANGE, side, facts, exchange.id)


def decision_entry(
    docket: Docket, approval: Approval, side: str, actor: str, key: str = "", link: str = ""
) -> AuditDraft:
    """The entry of a decided approval, on its side; the decision is its status. `link`: by which it was decided."""
    facts = {
        "approval": approval.id,
        "decision": approval.status.value,
        "cause": approval.cause.value,
        "digest": approval.digest,
        "exchange_id": approval.exchange_id,
        "conversation_id": approval.conversation_id,
        "policy": approval.policy_version,
        "note": approval.note,
        "key": key,
    }
    if link:
        facts |= {"via": "link", "link": link}
    if approval.draft is not None:
        facts["content_digest"] = digest(approval.draft.payload.encode())
    return AuditDraft(docket.new_id("aud"), side, docket.at, APPROVAL_DECIDED, actor, facts, approval.exchange_id)


def ended_entries(
    docket: Docket, exchange: Exchange, sides: Iterable[str], actor: str, noted: tuple[str, ...] = ()
) -> tuple[AuditDraft, ...]:
    """The entries of an ended exchange, on each side that knows of it; the note only on these sides."""
    facts = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "round": exchange.current_round,
        "outcome": exchange.outcome.value,
        "reason": exchange.reason,
        "policy": exchange.policy_version,
    }
    entries = []
    for side in dict.fromkeys(sides):
        if docket.keeps(side):
            own = {**facts, "reason": exchange.note} if exchange.note and side in noted else dict(facts)
            entries.append(AuditDraft(docket.new_id("aud"), side, docket.at, EXCHANGE_ENDED, actor, own, exchange.id))
    return tuple(entries)


def withdrawn_entries(
    docket: Docket, exchange: Exchange, message_id: str, sides: Iterable[str], actor: str
) -> tuple[AuditDraft, ...]:
    """The entries of a withdrawn request: on the side of who asked, and of each agent that was asked."""
    facts = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "message_id": message_id,
        "channel_id": exchange.channel_id,
        "policy": exchange.policy_version,
    }
    return tuple(
        [
            AuditDraft(docket.new_id("aud"), side, docket.at, REQUEST_WITHDRAWN, actor, dict(facts), exchange.id)
            for side in dict.fromkeys(sides)
            if docket.keeps(side)
        ]
    )


def _judging_side(submission: Submission[Any]) -> tuple[str, dict[str, str]]:
    if submission.incoming:
        return submission.receivers[0].agent, _RECEIVER
    return submission.sender.agent, _SENDER


def _facts(submission: Submission[Any], ruling: Ruling) -> dict[str, Any]:
    """What both sides say alike, and what a changed policy can be tried on again."""
    exchange, envelope = ruling.exchange, ruling.envelope
    first = (ruling.receivers or submission.receivers)[0]
    facts = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "round": envelope.exchange_round,
        "max_rounds": exchange.max_rounds,
        "exchange_outcome": exchange.outcome.value,
        "purpose": exchange.purpose.value,
        "reply_policy": exchange.reply_policy.value,
        "requires_commitment": exchange.requires_commitment,
        "initiator": exchange.initiator,
        "origin": ruling.origin.value,
        "classification": ruling.level.value,
        "policy": ruling.policy.version,
        "sender": submission.sender.agent,
        "to": submission.to,
        "source_user": envelope.source_agent.user_id,
        "source_org": envelope.source_agent.org_unit,
        "target_org": first.attributes.org_unit,
        "hops": ruling.ext.hops,
        "keywords": list(ruling.keywords),
        "findings": [finding.name for finding in ruling.detections],
        "over": [item.classification.value for item in ruling.withheld],
        "shared_levels": [item.classification.value for item in ruling.shared],
        # What names no field cannot be taken out.
        "fixed_levels": [item.classification.value for item in (*ruling.shared, *ruling.withheld) if not item.fields],
        "message_id": submission.message_id,
        "declared": ruling.declared.value,
        "annotated": submission.annotated,
    }
    facts |= _evaluations(submission.sender, ruling.receivers or submission.receivers)
    if submission.channel_id:
        facts["channel_id"] = submission.channel_id
    if submission.creates_channel:
        facts["creates_channel"] = True
    if ruling.rules:
        facts |= {"rules": ruling.rules, "tightened": ruling.tightened}
    facts |= _rule(ruling, first)
    return facts


def _rule(ruling: Ruling, receiver: Party) -> dict[str, Any]:
    """The rule that allowed, denied or held a message; not where the organisation's own rules did."""
    if isinstance(ruling.verdict, Allow):
        return {"rule": ruling.terms.allowing_rule(receiver)._asdict()}
    return {"rule": ruling.stopped_by._asdict()} if ruling.stopped_by is not None else {}


def _evaluations(sender: Party, receivers: Iterable[Party]) -> dict[str, Any]:
    """What the policies were asked about a message that leaves its org unit, for each unit that it goes to."""
    asked = {party.attributes.org_unit: evaluation_of(sender, party) for party in receivers if crosses(sender, party)}
    return {"evaluations": [asked[unit] for unit in sorted(asked)]} if asked else {}


def _withheld(ruling: Ruling) -> list[dict[str, str]]:
    return [item._asdict() for item in withheld_reasons(ruling.withheld, ruling.ceiling)]


def _entry(docket: Docket, submission: Submission[Any], side: str, facts: dict[str, Any]) -> AuditDraft:
    facts["key"] = submission.key
    return _draft(docket, submission, side, facts, str(facts["exchange_id"]))


def _draft(
    docket: Docket, submission: Submission[Any], side: str, facts: Mapping[str, Any], exchange_id: str
) -> AuditDraft:
    return AuditDraft(docket.new_id("aud"), side, docket.at, AGENT_EXCHANGE, submission.actor, facts, exchange_id)
