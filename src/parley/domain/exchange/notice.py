"""Being told: what a person, or a program that asked for it, hears of approvals and exchanges.

    waits ──────────── half_way ──────────── last_hour ──── expiry: denied
    told at once       a reminder            a reminder

A notice has ids, reasons and times, never what was said: whoever may see that looks it up.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.times import format_time, from_stamp, stamp

if TYPE_CHECKING:
    from parley.domain.exchange.approval import Approval
    from parley.domain.exchange.exchange import Exchange

# What the audit log calls it that somebody was told.
APPROVAL_TOLD = "approval_told"
# How long after a mailbox could not be reached it is tried again.
TRY_AGAIN = timedelta(minutes=1)
_LAST = timedelta(hours=1)


class NoticeType(StrEnum):
    """What one may ask to be told of."""

    PENDING = "approval.pending"
    REMINDER = "approval.reminder"
    DECIDED = "approval.decided"
    ENDED = "exchange.ended"


class NoticeStage(StrEnum):
    """How long an approval has waited."""

    WAITS = "waits"
    HALF_WAY = "half_way"
    LAST_HOUR = "last_hour"


class Notice(NamedTuple):
    """One thing to be told, about an approval or an exchange; `id` is that of the entry in the audit log."""

    id: str
    type: NoticeType
    at: str
    approval: Approval | None = None
    exchange: Exchange | None = None
    stage: str = ""


class Letter(NamedTuple):
    """A notice as a person reads it in its mailbox."""

    subject: str
    body: str
    urgent: bool
    expires_at: str


def stages(created_at: str, expires_at: str) -> list[tuple[str, NoticeStage]]:
    """When each stage of an approval begins, in order; a short one has no last hour."""
    begin, end = from_stamp(created_at), from_stamp(expires_at)
    schedule = [(created_at, NoticeStage.WAITS), (stamp(begin + (end - begin) / 2), NoticeStage.HALF_WAY)]
    if end - _LAST > begin:
        schedule.append((stamp(end - _LAST), NoticeStage.LAST_HOUR))
    return sorted(schedule, key=lambda item: item[0])


def next_notice(approval: Approval) -> str:
    """When somebody has to be told next; empty when everybody was told all there is."""
    later = [at for at, _ in stages(approval.created_at, approval.expires_at) if at > approval.told_at]
    return min(filter(None, (*later[:1], approval.mail_again)), default="")


def stage_due(approval: Approval, now: str) -> NoticeStage | None:
    """What is to be told at this moment: only the last of what was missed."""
    past = [stage for at, stage in stages(approval.created_at, approval.expires_at) if approval.told_at < at <= now]
    return past[-1] if past else None


def stage_told(approval: Approval) -> NoticeStage:
    """What was told last."""
    past = [stage for at, stage in stages(approval.created_at, approval.expires_at) if at <= approval.told_at]
    return past[-1] if past else NoticeStage.WAITS


def letter(approval: Approval, stage: NoticeStage) -> Letter:
    """What a person finds in its mailbox: that something waits, why, until when, and what to do about it."""
    until = format_time(from_stamp(approval.expires_at))
    began = {
        NoticeStage.WAITS: "A message waits for your decision.",
        NoticeStage.HALF_WAY: "A message still waits for your decision; half of its time is over.",
        NoticeStage.LAST_HOUR: "A message still waits for your decision, and its time is nearly over.",
    }[stage]
    lines = [
        began,
        "",
        f"Approval:       {approval.id}",
        f"From:           {approval.agent}, who acts for {approval.user}",
        f"To:             {approval.to}",
        f"Why it waits:   {approval.reason} ({approval.cause.value})",
        f"Purpose, level: {approval.purpose.value}, {approval.classification}",
        f"Until:          {until}; without a decision it is denied",
        "",
        "See exactly what would be sent, and decide:",
        "",
        f"  parley approvals show {approval.id}",
        f"  parley approvals approve {approval.id}",
        f"  parley approvals reject {approval.id}",
        "",
    ]
    reminds = "" if stage is NoticeStage.WAITS else "Reminder: "
    subject = f"{reminds}{approval.agent} to {approval.to}: {approval.cause.value} waits for you until {until}"
    return Letter(subject, "\n".join(lines), stage is NoticeStage.LAST_HOUR, approval.expires_at)


def facts_of(notice: Notice) -> dict[str, Any]:
    """What a program is told."""
    if notice.approval is not None:
        return _of_approval(notice.approval, notice)
    assert notice.exchange is not None  # noqa: S101  # a notice is about one or the other
    return _of_exchange(notice.exchange)


def _of_approval(approval: Approval, notice: Notice) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "approval": approval.id,
        "status": approval.status.value,
        "cause": approval.cause.value,
        "reason": approval.reason,
        "agent": approval.agent,
        "user": approval.user,
        "to": approval.to,
        "exchange_type": approval.purpose.value,
        "classification": approval.classification,
        "exchange_id": approval.exchange_id or None,
        "conversation_id": approval.conversation_id or None,
        "channel_id": approval.channel_id or None,
        "created_at": approval.created_at,
        "expires_at": approval.expires_at,
    }
    if notice.type is NoticeType.DECIDED:
        facts |= {"decided_at": approval.decided_at, "decided_by": approval.decided_by}
        facts["message_id"] = approval.message_id or None
    elif notice.type is NoticeType.REMINDER:
        facts["stage"] = notice.stage
    return facts


def _of_exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "outcome": exchange.outcome.value,
        "exchange_type": exchange.purpose.value,
        "initiator": exchange.initiator,
        "responder": exchange.responder,
        "channel_id": exchange.channel_id or None,
        "currentRound": exchange.current_round,
        "maxRounds": exchange.max_rounds,
        "started_at": exchange.started_at,
        "ended_at": exchange.ended_at,
        "ended_by": exchange.ended_by,
        "reason": exchange.reason,
    }
