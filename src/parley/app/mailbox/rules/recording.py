"""What a mailbox writes into its own audit chain: its side of what it sent, received, held and refused.

The other side has a chain of its own, in its own ledger: laid beside each other, both must tell the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.audit.entry import AGENT_EXCHANGE, AuditDraft
from parley.domain.content.classification import told_shared, told_withheld
from parley.domain.directory.callers import EVERYONE
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.agents.party import Party
    from parley.domain.errors.errors import ParleyError
    from parley.domain.exchange.approval import Approval
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.message.message import Message
    from parley.domain.rules.ruling import Ruling

SENT = {"role": "sender", "direction": "outgoing"}
RECEIVED = {"role": "receiver", "direction": "incoming"}


def now(kernel: Kernel) -> str:
    """This moment as a stamp."""
    return stamp(kernel.clock.now().at)


def entry(
    kernel: Kernel, facts: dict[str, Any], exchange_id: str, *, action: str = AGENT_EXCHANGE, actor: str = ""
) -> AuditDraft:
    """An entry for this agent's chain."""
    new_id = f"aud_{kernel.ids.ulid()}"
    return AuditDraft(new_id, kernel.agent, now(kernel), action, actor or kernel.agent, facts, exchange_id)


def judged(kernel: Kernel, message: Message, ruling: Ruling, digest: str, more: dict[str, Any]) -> AuditDraft:
    """What became of a message that was judged; `more` says on which side, and what."""
    exchange, envelope = ruling.exchange, ruling.envelope
    passing = [one.agent for one in ruling.receivers] or [agent for agent, _ in ruling.excluded]
    delivered = more["outcome"] == "delivered"
    shared = [{"source": one.source, "fields": list(one.fields)} for one in told_shared(ruling.shared)]
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
        "sender": message.sender,
        "to": addressee(message),
        "receivers": passing,
        "source_user": envelope.source_agent.user_id,
        "source_org": envelope.source_agent.org_unit,
        "target_org": ruling.receivers[0].attributes.org_unit if ruling.receivers else "",
        "hops": ruling.ext.hops,
        "keywords": list(ruling.keywords),
        "findings": [one.name for one in ruling.found],
        "over": [one.classification.value for one in ruling.withheld],
        "dataShared": shared if delivered else [],
        "dataWithheld": [one._asdict() for one in told_withheld(ruling.withheld, ruling.ceiling)],
        "content_digest": digest,
        "message_id": message.id,
        **more,
    }
    if ruling.excluded and ruling.receivers:
        facts["excluded"] = [{"agent": agent, "reason": reason} for agent, reason in ruling.excluded]
    return entry(kernel, facts, exchange.id)


def refused(
    kernel: Kernel,
    message: Message,
    sender: Party,
    refusal: ParleyError,
    digest: str,
    side: dict[str, str],
    policy: str,
    exchange: Exchange | None = None,
) -> AuditDraft:
    """A message that was refused before anybody judged it; no round is used."""
    facts = {
        "exchange_id": exchange.id if exchange else "",
        "conversation_id": exchange.conversation_id if exchange else message.conversation_id,
        "round": exchange.current_round if exchange else 0,
        "classification": "",
        "policy": policy,
        "sender": message.sender,
        "to": addressee(message),
        "source_org": sender.attributes.org_unit,
        "receivers": list(message.to),
        "dataShared": [],
        "dataWithheld": [],
        "content_digest": digest,
        "message_id": message.id,
        "outcome": "denied",
        "reason": refusal.message,
        "code": refusal.code,
        **side,
    }
    return entry(kernel, facts, exchange.id if exchange else "")


def decision(kernel: Kernel, approval: Approval, decided: str, by: str, note: str) -> AuditDraft:
    """What a person decided."""
    facts = {
        "approval": approval.id,
        "decision": decided,
        "cause": approval.cause.value,
        "digest": approval.digest,
        "exchange_id": approval.exchange_id,
        "conversation_id": approval.conversation_id,
        "policy": approval.policy_version,
        "note": note,
    }
    return entry(kernel, facts, approval.exchange_id, action="approval_decided", actor=by)


def ending(kernel: Kernel, exchange: Exchange, by: str) -> AuditDraft:
    """How an exchange ended."""
    facts = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "round": exchange.current_round,
        "outcome": exchange.outcome.value,
        "reason": exchange.reason,
        "policy": exchange.policy_version,
    }
    return entry(kernel, facts, exchange.id, action=f"{AGENT_EXCHANGE}_ended", actor=by)


def addressee(message: Message) -> str:
    """Whom a message is for, as an exchange calls it."""
    return message.to[0] if len(message.to) == 1 else EVERYONE
