"""Opening and closing approvals, each bound to exactly what would be sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.rules.recording import decision_entry
from parley.domain.content.classification import DEFAULT_LEVEL
from parley.domain.content.envelope import Origin
from parley.domain.exchange.approval import SAME, Approval, ApprovalStatus, content_digest, decided
from parley.domain.rules.policy import Policy
from parley.domain.store.changes import Spend
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.rules.docket import Docket, Submission
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.exchange.approval import HeldDraft
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.rules.judge import Hold
    from parley.domain.rules.ruling import Ruling

QUEUE = "approvals/"
INCOMING = "incoming/"


def queue_budget_key(agent: str) -> str:
    """The budget of an agent's messages that may wait at once."""
    return QUEUE + agent


def queue_freed(approvals: tuple[Approval, ...]) -> tuple[Spend, ...]:
    """The queue places that these approvals free. Limits and incoming messages never use one."""
    return tuple(
        [
            Spend(queue_budget_key(approval.agent), 0, amount=-1)
            for approval in approvals
            if not approval.unique or approval.unique.startswith(SAME)
        ]
    )


def side_of(docket: Docket, approval: Approval) -> str:
    """The side of an approval: the sender's, or the receiver's for an incoming message in a mailbox."""
    return approval.to if approval.unique.startswith(INCOMING) and docket.keeps(approval.to) else approval.agent


class Closing(NamedTuple):
    """Close approvals that need no decision any more, with their entries."""

    approvals: tuple[Approval, ...] = ()
    audits: tuple[AuditDraft, ...] = ()


async def waiting_in(docket: Docket, exchange: Exchange, agent: str = "") -> list[Approval]:
    """The pending approvals of an exchange: of one agent, or of all."""
    approvals = [
        await docket.approval(approval_id)
        for approval_id in dict.fromkeys((*exchange.holds, exchange.limit_approval))
        if approval_id
    ]
    return [
        approval
        for approval in approvals
        if approval is not None and approval.pending and (not agent or approval.agent == agent)
    ]


async def close_waiting(
    docket: Docket, exchange: Exchange, actor: str, *, except_id: str = "", key: str = "", link: str = ""
) -> Closing:
    """Close the pending approvals of an exchange that ends; `key` and `link`: by which a person ended it."""
    approvals: list[Approval] = []
    for approval in await waiting_in(docket, exchange):
        if approval.id != except_id:
            late = approval.expires_at <= docket.at
            status, note = (ApprovalStatus.EXPIRED, "") if late else (ApprovalStatus.CLOSED, "its exchange ended")
            approvals.append(decided(approval, status, actor, docket.at, note))
    audits = [decision_entry(docket, approval, side_of(docket, approval), actor, key, link) for approval in approvals]
    return Closing(tuple(approvals), tuple(audits))


def approval_of(
    docket: Docket,
    submission: Submission[Any],
    hold: Hold,
    approval_id: str,
    ruling: Ruling,
    escalation: dict[str, Any] | None = None,
    dedup_key: str = "",
) -> Approval:
    """Open the approval of a held message; `dedup_key` counts where the submission has none."""
    exchange = ruling.exchange
    waiting = _approval(docket, submission, hold, approval_id, ruling, submission.as_held_draft(ruling))
    return replace(
        waiting,
        detected_keywords=ruling.keywords,
        escalation=escalation,
        human=ruling.origin is Origin.HUMAN,
        purpose=exchange.purpose,
        # It must not outlast what it is about.
        expires_at=min(waiting.expires_at, exchange.expires_at, submission.expires_at or exchange.expires_at),
        unique=submission.dedup_key or dedup_key,
    )


def limit_approval_of(
    docket: Docket, submission: Submission[Any], hold: Hold, dedup_key: str, ruling: Ruling | None = None
) -> Approval:
    """Open an approval that releases nothing: a person answers or ends the exchange."""
    approval_id = docket.new_id("appr")
    return replace(
        _approval(docket, submission, hold, approval_id, ruling, submission.as_held_draft(None)), unique=dedup_key
    )


def _approval(
    docket: Docket,
    submission: Submission[Any],
    hold: Hold,
    approval_id: str,
    ruling: Ruling | None,
    draft: HeldDraft,
) -> Approval:
    agent, policy = submission.sender.agent, ruling.policy if ruling else Policy()
    level = ruling.level.value if ruling else DEFAULT_LEVEL.value
    return Approval(
        id=approval_id,
        tenant_id=docket.tenant,
        cause=hold.cause,
        reason=hold.reason,
        exchange_id=ruling.exchange.id if ruling else "",
        conversation_id=ruling.exchange.conversation_id if ruling else "",
        channel_id=submission.channel_id,
        agent=agent,
        user=submission.user,
        to=draft.to if submission.incoming else submission.to,
        classification=level,
        draft=draft,
        digest=content_digest(draft, agent, level, policy.version),
        policy_version=policy.version,
        created_at=docket.at,
        expires_at=stamp(docket.now + timedelta(hours=policy.approval_hours)),
    )
