"""Exchanges, approvals and suspensions as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct

from parley.domain.content.invisible_characters import hidden_in, made_visible
from parley.domain.exchange.approval import NOT_WAITING, Decision
from parley.domain.rules.suspension import Stopped
from parley.wire.api.records.record import time_of, time_or_none
from parley.wire.api.records.rules import Approval, Exchange, HeldMessage, HiddenCharacter, Suspension, Turn

if TYPE_CHECKING:
    from parley.domain.exchange.approval import Approval as StoredApproval
    from parley.domain.exchange.approval import DecisionRight
    from parley.domain.exchange.exchange import Exchange as StoredExchange
    from parley.domain.rules.suspension import Suspension as StoredSuspension

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


# ---------------------------------------------------------------- what goes out


# ---------------------------------------------------------------- from domain


def exchange_of(stored: StoredExchange) -> Exchange:
    waits_for_limit = bool(stored.limit_approval) and not stored.over
    return Exchange(
        exchange_id=stored.id,
        conversation_id=stored.conversation_id,
        current_round=stored.current_round,
        max_rounds=stored.max_rounds,
        transcript=[Turn(round=turn.round, sender=turn.sender, summary=turn.summary) for turn in stored.transcript],
        outcome=stored.outcome.value,
        exchange_type=stored.purpose.value,
        initiator=stored.initiator,
        responder=stored.responder,
        channel_id=stored.channel_id or None,
        reply_policy=stored.reply_policy.value,
        requires_commitment=stored.requires_commitment,
        pending_approvals=[*stored.holds, *([stored.limit_approval] if waits_for_limit else [])],
        started_at=time_of(stored.started_at),
        expires_at=time_of(stored.expires_at),
        ended_at=time_or_none(stored.ended_at),
        ended_by=stored.ended_by or None,
        reason=stored.reason or None,
        policy_version=stored.policy_version,
    )


def approval_of(stored: StoredApproval, standing: DecisionRight = NOT_WAITING) -> Approval:
    """An approval as its approver sees it: nothing that would be sent is hidden from a reader."""
    held = stored.draft
    payload, metadata = (held.payload, held.metadata) if held is not None else ("", "")
    return Approval(
        id=stored.id,
        status=stored.status.value,
        cause=stored.cause.value,
        reason=stored.reason,
        detected_keywords=list(stored.detected_keywords),
        escalation=stored.escalation,
        exchange_id=stored.exchange_id or None,
        conversation_id=stored.conversation_id or None,
        channel_id=stored.channel_id or None,
        agent=stored.agent,
        user=stored.user,
        deciders=list(standing.deciders),
        barred=standing.barred or None,
        to=stored.to,
        exchange_type=stored.purpose.value,
        classification=stored.classification,
        payload=msgspec.json.decode(payload) if held is not None else None,
        metadata=msgspec.json.decode(metadata) if held is not None else None,
        message_type=held.pattern if held is not None else None,
        correlation_id=(held.in_reply_to or None) if held is not None else None,
        visible_text=made_visible(payload),
        hidden_characters=[*_hidden("payload", payload), *_hidden("metadata", metadata)],
        digest=stored.digest,
        policy_version=stored.policy_version,
        created_at=time_of(stored.created_at),
        expires_at=time_of(stored.expires_at),
        decided_at=time_or_none(stored.decided_at),
        decided_by=stored.decided_by or None,
        note=stored.note or None,
        message_id=stored.message_id or None,
    )


def _hidden(where: str, text: str) -> list[HiddenCharacter]:
    return [
        HiddenCharacter(where=where, position=hidden.position, code_point=hidden.code_point, name=hidden.name)
        for hidden in hidden_in(text)
    ]


def held_of(approval: StoredApproval, deciders: tuple[str, ...]) -> HeldMessage:
    """The answer to a message that is held, with who may decide about it."""
    return HeldMessage(
        status="held",
        approval=approval.id,
        reason=approval.reason,
        cause=approval.cause.value,
        requires_human=True,
        detected_keywords=list(approval.detected_keywords),
        exchange_id=approval.exchange_id,
        conversation_id=approval.conversation_id,
        digest=approval.digest,
        expires_at=time_of(approval.expires_at),
        deciders=list(deciders),
        escalation=UNSET if approval.escalation is None else approval.escalation,
    )


def suspension_of(stored: StoredSuspension) -> Suspension:
    at = time_of(stored.at)
    return Suspension(what=stored.what.value, name=stored.name, reason=stored.reason, by=stored.by, at=at)


def answer_payload(answer: dict[str, Any] | str | None) -> bytes:
    """What a person says, as a payload; empty when it says nothing."""
    if not answer:
        return b""
    return msgspec.json.encode({"text": answer} if isinstance(answer, str) else answer)
