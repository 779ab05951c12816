"""The messages of an exchange, also those that were held or denied, as the audit log has them.

    entries of the exchange that the caller may see ──> every message once ──> what it says, where that is still there

The transcript of an exchange has only what was delivered. Of a message that was denied nothing but its digest was kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.team.audit.reading import sight
from parley.app.team.decisions import approvals
from parley.domain.channel.post import NO_PAYLOAD
from parley.domain.content.classification import highest, level_of
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import summary_of
from parley.domain.rules.reasons import recorded_messages
from parley.domain.store.changes import AuditQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.app.team.audit.reading import Sight
    from parley.app.team.team import Team
    from parley.domain.content.classification import Classification
    from parley.domain.directory.callers import Caller
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.rules.reasons import RecordedMessage

# Entries of one exchange that are read.
_ENTRIES_MAX = 1_000


class ExchangeMessage(NamedTuple):
    """One message of an exchange: who sent it, what became of it, and the audit entries about it."""

    round: int
    sender: str
    to: str
    person: str
    summary: str
    at: str
    outcome: str
    classification: str
    message_id: str
    approval: str
    decision: str
    decided_by: str
    code: str
    reason: str
    policy_version: str
    audit: tuple[int, ...]


async def messages_of(team: Team, caller: Caller, exchange: Exchange) -> list[ExchangeMessage]:
    """The messages of an exchange that the caller may see, in order; `exchange` is as the caller sees it."""
    recorded = await _recorded(team, exchange, await sight(team, caller))
    summaries = {(turn.round, turn.sender): turn.summary for turn in exchange.transcript}
    return [await _message(team, caller, message, summaries) for message in recorded]


async def level_of_exchange(team: Team, exchange: Exchange, visible: Sight) -> Classification | None:
    """The highest classification of its messages, as far as they may be seen; None without any."""
    levels = [level_of(message.facts["classification"]) for message in await _recorded(team, exchange, visible)]
    return highest(*levels) if levels else None


async def _recorded(team: Team, exchange: Exchange, visible: Sight) -> list[RecordedMessage]:
    query = AuditQuery(limit=_ENTRIES_MAX, sides=visible.sides, or_actor=visible.actor, exchange_id=exchange.id)
    entries = await team.store.audits(exchange.tenant_id, query) if visible.sides != () else ()
    return recorded_messages([(entry.number, json.loads(entry.document)) for entry in entries if entry.document])


async def _message(
    team: Team, caller: Caller, recorded: RecordedMessage, summaries: Mapping[tuple[int, str], str]
) -> ExchangeMessage:
    facts, decision = recorded.facts, recorded.decision or {}
    outcome, sender = str(facts["outcome"]), str(facts["sender"])
    is_delivered = outcome == "delivered"
    summary = summaries.get((facts["round"], sender), "") if is_delivered else await _held_text(team, caller, facts)
    actor = str(facts["actor"])
    return ExchangeMessage(
        round=facts["round"],
        sender=sender,
        to=str(facts["to"]),
        person=actor if actor != sender else "",
        summary=summary,
        at=str(facts["at"]),
        outcome=outcome,
        classification=str(facts["classification"]),
        message_id=str(facts.get("message_id", "")),
        approval=str(facts.get("approval", "")),
        decision=str(decision.get("decision", "")),
        decided_by=str(facts.get("approved_by") or decision.get("actor", "")),
        code=str(facts.get("code", "")),
        reason=str(facts.get("reason", "")),
        policy_version=str(facts["policy"]),
        audit=recorded.numbers,
    )


async def _held_text(team: Team, caller: Caller, facts: Mapping[str, Any]) -> str:
    """What a held message says, in one line, for those who may see its approval."""
    approval = await team.store.get(Approval, caller.tenant, str(facts.get("approval", "")))
    if approval is None or approval.draft is None or not await approvals.sees(team, caller, approval):
        return ""
    payload = approval.draft.payload.encode()
    return summary_of(json.loads(payload)) if payload != NO_PAYLOAD else ""
