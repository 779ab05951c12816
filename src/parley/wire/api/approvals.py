"""Exchanges, approvals and suspensions as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from parley.domain.content.invisible_characters import hidden_in, made_visible
from parley.domain.exchange.approval import NOT_WAITING, ApprovalStatus, Decision
from parley.domain.exchange.exchange import Outcome, state
from parley.domain.rules.suspension import Stopped

if TYPE_CHECKING:
    from parley.domain.exchange.approval import Approval, Standing
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.rules.suspension import Suspension

Note = Annotated[str, Meta(max_length=2000)]


# ---------------------------------------------------------------- what comes in


class CloseIn(Struct, forbid_unknown_fields=True):
    """Why an exchange is closed."""

    reason: Note = ""


class DecisionIn(Struct, forbid_unknown_fields=True):
    """What a person decides. `digest` is that of what was shown; `answer` is what the person says instead."""

    decision: Decision
    digest: Annotated[str, Meta(max_length=128)] = ""
    note: Note = ""
    answer: dict[str, Any] | Annotated[str, Meta(max_length=64 * 1024)] | None = None


class SuspensionIn(Struct, forbid_unknown_fields=True):
    """What is to be stopped: an agent, a pair (two names with a comma), an org unit, or the tenant."""

    what: Stopped
    name: Annotated[str, Meta(max_length=160)] = ""
    reason: Note = ""


# ---------------------------------------------------------------- what goes out (for the published schemas)


class TurnOut(Struct):
    round: int
    sender: str
    summary: str


class ExchangeOut(Struct, rename="camel"):
    """An exchange: its state in the words of the specification, and what else is known of it."""

    exchange_id: str
    conversation_id: str
    current_round: int
    max_rounds: int
    transcript: list[TurnOut]
    outcome: Outcome
    exchange_type: str = msgspec.field(name="exchange_type")
    initiator: str = msgspec.field(name="initiator")
    responder: str = msgspec.field(name="responder")
    channel_id: str | None = msgspec.field(name="channel_id")
    reply_policy: str = msgspec.field(name="reply_policy")
    requires_commitment: bool = msgspec.field(name="requires_commitment")
    pending_approvals: list[str] = msgspec.field(name="pending_approvals")
    started_at: str = msgspec.field(name="started_at")
    expires_at: str = msgspec.field(name="expires_at")
    ended_at: str | None = msgspec.field(name="ended_at")
    ended_by: str | None = msgspec.field(name="ended_by")
    reason: str | None = msgspec.field(name="reason")
    policy_version: str = msgspec.field(name="policy_version")


class HiddenOut(Struct):
    """A character that a reader cannot see, or that changes how others are read."""

    where: str
    position: int
    code_point: str
    name: str


class ApprovalOut(Struct):
    """What a person has to decide, with exactly what would be sent."""

    id: str
    status: ApprovalStatus
    cause: str
    reason: str
    detectedKeywords: list[str]  # noqa: N815  # as the specification spells it
    escalation: dict[str, Any] | None
    exchange_id: str | None
    conversation_id: str | None
    channel_id: str | None
    agent: str
    user: str
    # Who may decide it now, and the code with which a decision by whoever asks would be refused.
    deciders: list[str]
    barred: str | None
    to: str
    exchange_type: str
    classification: str
    payload: dict[str, Any] | None
    metadata: dict[str, Any] | None
    message_type: str | None
    correlation_id: str | None
    visible_text: str
    hidden_characters: list[HiddenOut]
    digest: str
    policy_version: str
    created_at: str
    expires_at: str
    decided_at: str | None
    decided_by: str | None
    note: str | None
    message_id: str | None


class SuspensionOut(Struct):
    """Something that is stopped."""

    what: Stopped
    name: str
    reason: str
    by: str
    at: str


# ---------------------------------------------------------------- from domain


def exchange(shown: Exchange) -> dict[str, Any]:
    waiting = [*shown.holds, *([shown.limit_approval] if shown.limit_approval and not shown.over else [])]
    return {
        **state(shown),
        "outcome": shown.outcome.value,
        "exchange_type": shown.purpose.value,
        "initiator": shown.initiator,
        "responder": shown.responder,
        "channel_id": shown.channel_id or None,
        "reply_policy": shown.reply_policy.value,
        "requires_commitment": shown.requires_commitment,
        "pending_approvals": waiting,
        "started_at": shown.started_at,
        "expires_at": shown.expires_at,
        "ended_at": shown.ended_at or None,
        "ended_by": shown.ended_by or None,
        "reason": shown.reason or None,
        "policy_version": shown.policy_version,
    }


def approval(shown: Approval, standing: Standing = NOT_WAITING) -> dict[str, Any]:
    """An approval as its approver sees it: nothing that would be sent is hidden from a reader."""
    held = shown.draft
    payload = held.payload if held is not None else ""
    return {
        "id": shown.id,
        "status": shown.status.value,
        "cause": shown.cause.value,
        "reason": shown.reason,
        "detectedKeywords": list(shown.detected_keywords),
        "escalation": shown.escalation,
        "exchange_id": shown.exchange_id or None,
        "conversation_id": shown.conversation_id or None,
        "channel_id": shown.channel_id or None,
        "agent": shown.agent,
        "user": shown.user,
        "deciders": list(standing.deciders),
        "barred": standing.barred or None,
        "to": shown.to,
        "exchange_type": shown.purpose.value,
        "classification": shown.classification,
        "payload": msgspec.json.decode(payload) if held is not None else None,
        "metadata": msgspec.json.decode(held.metadata) if held is not None else None,
        "message_type": held.pattern if held is not None else None,
        "correlation_id": (held.in_reply_to or None) if held is not None else None,
        "visible_text": made_visible(payload),
        "hidden_characters": [
            {"where": where, "position": one.position, "code_point": one.code_point, "name": one.name}
            for where, text in (("payload", payload), ("metadata", held.metadata if held is not None else ""))
            for one in hidden_in(text)
        ],
        "digest": shown.digest,
        "policy_version": shown.policy_version,
        "created_at": shown.created_at,
        "expires_at": shown.expires_at,
        "decided_at": shown.decided_at or None,
        "decided_by": shown.decided_by or None,
        "note": shown.note or None,
        "message_id": shown.message_id or None,
    }


def suspension(shown: Suspension) -> dict[str, Any]:
    return {"what": shown.what.value, "name": shown.name, "reason": shown.reason, "by": shown.by, "at": shown.at}


def answer_payload(given: dict[str, Any] | str | None) -> bytes:
    """What a person says, as a payload; empty when it says nothing."""
    if not given:
        return b""
    return msgspec.json.encode({"text": given} if isinstance(given, str) else given)
