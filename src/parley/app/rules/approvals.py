"""Decisions about approvals: reject, expire, ask again. Releasing and answering is decided with the message."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parley.app.rules import exchanges
from parley.app.rules.docket import RulesDecision
from parley.app.rules.holding import side_of, waiting_in
from parley.app.rules.recording import decision_entry
from parley.domain.directory.callers import SYSTEM
from parley.domain.errors.rules import ApprovalStale
from parley.domain.exchange.approval import (
    NOT_WAITING,
    Approval,
    ApprovalStatus,
    check_decidable,
    check_may_decide,
    content_digest,
    decided,
    standing_of,
)
from parley.domain.exchange.exchange import Outcome, ended

if TYPE_CHECKING:
    from parley.app.rules.docket import Docket, M, Submission
    from parley.domain.directory.callers import Caller
    from parley.domain.exchange import approval as domain
    from parley.domain.exchange.approval import DecisionRight, HeldDraft


async def check(docket: Docket, approval: Approval, caller: Caller, decision: domain.Decision, digest: str) -> None:
    """Refuse unless this person may decide now, and has seen the current content."""
    await check_right(docket, approval, caller)
    check_decidable(approval, decision, digest, docket.at)


async def is_seen_by(docket: Docket, approval: Approval, user: str) -> bool:
    """Whether a person may see it: the one whom its agent acts for, or one whom the policy names."""
    return user == approval.user or user in (await docket.policy_for(approval)).approvers


async def check_right(docket: Docket, approval: Approval, caller: Caller) -> None:
    """Refuse unless this person is one of those who decide about it."""
    policy = await docket.policy_for(approval)
    check_may_decide(approval, caller, policy.approvers, self_approval=policy.self_approval)


async def standing(docket: Docket, approval: Approval, caller: Caller) -> DecisionRight:
    """Who may decide about a pending approval, and whether this caller may."""
    if not approval.pending:
        return NOT_WAITING
    policy = await docket.policy_for(approval)
    return standing_of(approval, caller, policy.approvers, self_approval=policy.self_approval)


async def closed_with(docket: Docket, approval: Approval) -> tuple[str, ...]:
    """The other held messages of this agent that a rejection closes: those that wait in the same exchange."""
    if not approval.pending:
        return approval.closed_with
    exchange = await docket.exchange(approval.exchange_id)
    if exchange is None or exchange.over:
        return ()
    return tuple([other.id for other in await waiting_in(docket, exchange, approval.agent) if other.id != approval.id])


async def refuse(
    docket: Docket,
    approval: Approval,
    status: ApprovalStatus,
    actor: str,
    *,
    key: str = "",
    note: str = "",
    link: str = "",
) -> RulesDecision[Any]:
    """Reject a held message: it is never sent, and its exchange is denied."""
    over = decided(approval, status, actor, docket.at, note)
    first = decision_entry(docket, over, side_of(docket, over), actor, key, link)
    exchange = await docket.exchange(approval.exchange_id)
    if exchange is None or exchange.over:
        return RulesDecision((first,), approvals=(over,))
    denied = ended(exchange, Outcome.DENIED, docket.at, actor, status.value)
    closing = await exchanges.close_all(docket, exchange, denied, actor, except_id=approval.id, key=key, link=link)
    closed = tuple([other.id for other in closing.approvals if other.agent == approval.agent])
    over = replace(over, closed_with=closed)
    return RulesDecision((first, *closing.audits), denied, (over, *closing.approvals))


async def expire(docket: Docket, approval: Approval) -> RulesDecision[Any]:
    """Expire an approval, which denies it. If the exchange has expired too, that counts."""
    exchange = await docket.exchange(approval.exchange_id)
    if exchange is not None and not exchange.over and exchange.expires_at <= docket.at:
        return await exchanges.expire(docket, exchange)
    return await refuse(docket, approval, ApprovalStatus.EXPIRED, SYSTEM)


def request_new_review_if_stale(docket: Docket, submission: Submission[M]) -> RulesDecision[M] | None:
    """An approval belongs to a policy. Under another one the person has to look again."""
    approval = submission.releases
    if approval is None or approval.draft is None or approval.policy_version == docket.book.label:
        return None
    return request_new_review(docket, approval, approval.draft, approval.classification)


def request_new_review(docket: Docket, approval: Approval, draft: HeldDraft, level: str) -> RulesDecision[Any]:
    """Nothing goes out that nobody has seen: the person has to look at what would be sent now."""
    label = docket.book.label
    digest = content_digest(draft, approval.agent, level, label)
    again = replace(approval, policy_version=label, classification=level, draft=draft, digest=digest)
    stale = ApprovalStale(
        "what would be sent, or the policy, has changed since it was held; look at it again",
        facts={"approval": approval.id, "digest": digest},
    )
    return RulesDecision(approvals=(again,), refusal=stale)
