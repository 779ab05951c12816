"""What is written into the audit log about a message: on the sender's side, and on the side of each who gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.app.team.rules.proposed import Governed
from parley.domain.audit.entry import AGENT_EXCHANGE, AuditDraft
from parley.domain.content.classification import told_withheld
from parley.domain.directory.callers import EVERYONE, KeyKind
from parley.domain.hashes import digest

if TYPE_CHECKING:
    from parley.app.team.rules.proposed import Message
    from parley.app.team.team import Team
    from parley.domain.agents.party import Party
    from parley.domain.channel.post import Post
    from parley.domain.errors.errors import ParleyError
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.rules.ruling import Ruling


def delivered(team: Team, message: Message, post: Post, ruling: Ruling) -> tuple[AuditDraft, ...]:
    """Both sides of a message that passed: the same exchange, round, level and digest on each."""
    facts = _facts(message, ruling)
    facts["outcome"] = "delivered"
    facts["content_digest"] = digest(post.payload)
    if message.approval is not None:
        facts["approval"] = message.approval.id
        facts["approved_by"] = message.caller.user
    shared = [{"source": one.source, "fields": list(one.fields)} for one in ruling.shared]
    withheld = _withheld(ruling) if ruling.withheld else []
    one_side = {**facts, "role": "sender", "direction": "outgoing", "dataShared": shared, "dataWithheld": withheld}
    one_side["receivers"] = [one.agent for one in ruling.receivers]
    if ruling.excluded:
        one_side["excluded"] = [{"agent": agent, "reason": reason} for agent, reason in ruling.excluded]
    sides = [_draft(team, message, post.sender, one_side, ruling.exchange.id)]
    for one in ruling.receivers:
        other = {**facts, "role": "receiver", "direction": "incoming", "dataShared": shared, "dataWithheld": withheld}
        other["receivers"] = [one.agent]
        other["target_org"] = one.attributes.org_unit
        sides.append(_draft(team, message, one.agent, other, ruling.exchange.id))
    return tuple(sides)


def kept_back(
    team: Team, message: Message, ruling: Ruling, outcome: str, reason: str, *, approval: str = "", code: str = ""
) -> tuple[AuditDraft, ...]:
    """The sender's side of a message that was held or denied. Nobody else has seen anything of it."""
    facts = _facts(message, ruling)
    facts |= {"role": "sender", "direction": "outgoing", "outcome": outcome, "reason": reason}
    facts["content_digest"] = digest(message.placed.payload)
    facts["dataShared"] = []
    facts["dataWithheld"] = _withheld(ruling)
    facts["receivers"] = [one.agent for one in ruling.receivers] or [agent for agent, _ in ruling.excluded]
    if approval:
        facts["approval"] = approval
    if code:
        facts["code"] = code
    return (_draft(team, message, message.placed.sender, facts, ruling.exchange.id),)


def refused(
    team: Team, message: Message, sender: Party, refusal: ParleyError, policy: str, exchange: Exchange | None = None
) -> Governed:
    """A message that was refused before anybody judged it; no round is used."""
    placed = message.placed
    facts = {
        "exchange_id": exchange.id if exchange else "",
        "conversation_id": exchange.conversation_id if exchange else "",
        "round": exchange.current_round if exchange else 0,
        "role": "sender",
        "direction": "outgoing",
        "classification": "",
        "policy": policy,
        "sender": placed.sender,
        "to": placed.to or EVERYONE,
        "source_org": sender.attributes.org_unit,
        "receivers": list(placed.recipients or ()),
        "dataShared": [],
        "dataWithheld": [],
        "content_digest": digest(placed.payload),
        "message_id": placed.id,
        "outcome": "denied",
        "reason": refusal.message,
        "code": refusal.code,
    }
    side = _draft(team, message, placed.sender, facts, exchange.id if exchange else "")
    return Governed(None, audits=(side,), refusal=refusal)


def _facts(message: Message, ruling: Ruling) -> dict[str, Any]:
    """What both sides say alike, and what a changed policy can be tried on again."""
    exchange, envelope, placed = ruling.exchange, ruling.envelope, message.placed
    first = ruling.receivers[0] if ruling.receivers else None
    return {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "round": envelope.exchange_round,
        "max_rounds": exchange.max_rounds,
        "exchange_outcome": exchange.outcome,
        "purpose": exchange.purpose,
        "reply_policy": exchange.reply_policy,
        "requires_commitment": exchange.requires_commitment,
        "initiator": exchange.initiator,
        "origin": ruling.origin,
        "classification": ruling.level,
        "policy": ruling.policy.version,
        "sender": placed.sender,
        "to": placed.to or EVERYONE,
        "source_user": envelope.source_agent.user_id,
        "source_org": envelope.source_agent.org_unit,
        "target_org": first.attributes.org_unit if first else "",
        "hops": ruling.ext.hops,
        "keywords": list(ruling.keywords),
        "findings": [one.name for one in ruling.found],
        "over": [one.classification.value for one in ruling.withheld],
        "shared_levels": [one.classification.value for one in ruling.shared],
        # What names no field cannot be taken out.
        "fixed_levels": [one.classification.value for one in (*ruling.shared, *ruling.withheld) if not one.fields],
        "message_id": placed.id,
        "channel_id": placed.channel_id,
        "declared": ruling.declared.value,
        "annotated": message.draft.wishes is not None and message.draft.wishes.annotated,
        **({"rules": ruling.rules, "tightened": ruling.tightened} if ruling.rules else {}),
    }


def _withheld(ruling: Ruling) -> list[dict[str, str]]:
    return [one._asdict() for one in told_withheld(ruling.withheld, ruling.ceiling)]


def _draft(team: Team, message: Message, side: str, facts: dict[str, Any], exchange_id: str) -> AuditDraft:
    caller = message.caller
    facts["key"] = caller.key_id
    actor = caller.actor
    if caller.kind is KeyKind.HUMAN and caller.user:
        # A person in its agent's place did it itself; what was held is still of whom it was.
        actor = message.approval.user if message.approval is not None else caller.user
    return AuditDraft(team.new_id("aud"), side, message.placed.created_at, AGENT_EXCHANGE, actor, facts, exchange_id)
