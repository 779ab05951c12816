"""Decide about a message under the rules of an exchange, for a server and for a mailbox alike.

A message that passes takes a round. One that is held becomes an approval, and nothing is delivered. One that is denied
leaves only its entry in the audit log. In every case the result is one `RulesDecision`, written in one commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.rules import approvals, recording
from parley.app.rules.docket import M, RulesDecision
from parley.app.rules.exchanges import close_all
from parley.app.rules.holding import (
    QUEUE,
    Closing,
    approval_of,
    limit_approval_of,
    queue_budget_key,
    side_of,
    waiting_in,
)
from parley.domain.agents.party import pair_name
from parley.domain.content.classification import withheld_reasons
from parley.domain.content.envelope import Origin
from parley.domain.errors.errors import ParleyError, Stale
from parley.domain.errors.rules import ApprovalQueueFull, LoopDetected, Overspent, PairBudget, PolicyDenied
from parley.domain.exchange.approval import LIMITS, ApprovalStatus, Cause, decided, same_message_key
from parley.domain.exchange.exchange import (
    Outcome,
    conversation_of,
    ended,
    escalation,
    released,
    seen_by_side,
    with_data,
    with_denied_data,
    with_person,
)
from parley.domain.rules.judge import Deny, Hold
from parley.domain.rules.ruling import Fresh, rule
from parley.domain.store.changes import Spend

if TYPE_CHECKING:
    from parley.app.rules.docket import Docket, Submission
    from parley.domain.exchange.approval import Approval
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.rules.ruling import Proposal, Ruling

PAIR = "pair/"


def hour_of(at: str) -> str:
    """A time stamp up to its hour, such as 2026-03-13T14."""
    return at[:13]


def fresh_ids(docket: Docket) -> Fresh:
    """Ids that a ruling may need."""
    exchange_id = docket.new_id("exch")
    return Fresh(exchange_id, conversation_of(exchange_id), f"appr{exchange_id.removeprefix('exch')}")


async def decide(docket: Docket, submission: Submission[M], proposal: Proposal) -> RulesDecision[M]:
    """Decide about a message."""
    stale = approvals.request_new_review_if_stale(docket, submission) if submission.releases is not None else None
    if stale is not None:
        return stale
    try:
        if not submission.receivers:
            raise PolicyDenied("it has no receiver, so the policies cannot be applied")
        ruling = rule(proposal, docket.book)
        if not isinstance(ruling.verdict, Deny):
            # The organisation's own rules, which can only be stricter.
            ruling = await docket.tighten(proposal, ruling)
    except Stale:
        raise
    except ParleyError as refusal:
        return refuse(docket, submission, refusal, proposal.exchange)
    return await apply(docket, submission, proposal, ruling)


def refuse(
    docket: Docket, submission: Submission[M], refusal: ParleyError, exchange: Exchange | None = None
) -> RulesDecision[M]:
    """The decision about a message that is refused before it is judged."""
    return RulesDecision((recording.refused_entry(docket, submission, refusal, exchange),), refusal=refusal)


async def apply(docket: Docket, submission: Submission[M], proposal: Proposal, ruling: Ruling) -> RulesDecision[M]:
    """The decision that follows from a ruling."""
    if isinstance(ruling.verdict, Deny):
        return await _deny(docket, submission, proposal, ruling, ruling.verdict)
    if isinstance(ruling.verdict, Hold):
        return await _hold(docket, submission, proposal, ruling, ruling.verdict)
    return await _deliver(docket, submission, proposal.exchange, ruling)


async def _deny(
    docket: Docket, submission: Submission[M], proposal: Proposal, ruling: Ruling, denial: Deny
) -> RulesDecision[M]:
    """Deny a message: the attempt is recorded, and its exchange may end."""
    error, before = denial.error, proposal.exchange
    withheld = withheld_reasons(ruling.withheld, ruling.ceiling)
    after = with_denied_data(ruling.exchange, submission.sender.agent, withheld)
    entry = recording.held_or_denied_entry(docket, submission, ruling, "denied", error.message, code=error.code)
    opened: tuple[Approval, ...] = ()
    # `incoming`: judged at the receiver's mailbox, where the sender's approvals are not known.
    if isinstance(error, LoopDetected) and not submission.incoming:
        opened, error = await _escalate_loop(docket, submission, proposal, ruling, error)
    # An exchange whose first message the receiver refuses is not stored on its side. Version 0: not stored yet.
    if not (after.over and denial.ends) or (submission.incoming and not after.version):
        return RulesDecision((entry,), approvals=opened, ruling=ruling, refusal=error)
    closing = await close_all(docket, before, after, submission.actor)
    return RulesDecision((entry, *closing.audits), after, (*opened, *closing.approvals), ruling=ruling, refusal=error)


async def _escalate_loop(
    docket: Docket, submission: Submission[M], proposal: Proposal, ruling: Ruling, error: LoopDetected
) -> tuple[tuple[Approval, ...], LoopDetected]:
    """Open one approval about a loop of agents, identified by the conversation that goes round."""
    # `others`: the sender's other exchanges in the same chain.
    origin = max(proposal.others, key=lambda exchange: exchange.hops, default=ruling.exchange)
    dedup_key = f"loop/{origin.conversation_id}"
    before = await docket.approval_by_key(dedup_key)
    approval = before or limit_approval_of(docket, submission, Hold(Cause.LOOP, error.message), dedup_key, ruling)
    facts = {**error.facts, "approval": approval.id}
    return () if before is not None else (approval,), LoopDetected(error.message, facts=facts)


async def _hold(
    docket: Docket, submission: Submission[M], proposal: Proposal, ruling: Ruling, hold: Hold
) -> RulesDecision[M]:
    """Hold a message for approval, with everything that the person must see."""
    exchange = ruling.exchange
    limit = hold.cause is Cause.ROUND_LIMIT
    sender = submission.sender.agent
    # `limit_approval` is the approval about the round limit of an exchange, not about one message.
    if limit and exchange.limit_approval != proposal.fresh.approval_id:
        before = await docket.approval(exchange.limit_approval)
        if before is not None:
            # One approval per limit. A second sender gets the same approval, but sees only its own message in it.
            entry = recording.held_or_denied_entry(
                docket, submission, ruling, "held", hold.reason, approval_id=before.id
            )
            own_escalation = escalation(exchange, sender, ruling.summary)
            own = replace(before, escalation=own_escalation, detected_keywords=ruling.keywords)
            return RulesDecision((entry,), ruling=ruling, held=own)
    # Resending a pending message opens no second approval, even under another conversation id.
    dedup_key = "" if limit or submission.incoming else same_message_key(submission.as_held_draft(None), sender)
    same = await docket.approval_by_key(dedup_key) if dedup_key else None
    if same is not None and same.pending:
        ruling = ruling._replace(exchange=await docket.exchange(same.exchange_id) or exchange)
        entry = recording.held_or_denied_entry(docket, submission, ruling, "held", hold.reason, approval_id=same.id)
        return RulesDecision((entry,), ruling=ruling, held=same)
    shown_escalation = escalation(ruling.exchange_before, sender, ruling.summary) if limit else None
    approval = approval_of(docket, submission, hold, proposal.fresh.approval_id, ruling, shown_escalation, dedup_key)
    entry = recording.held_or_denied_entry(docket, submission, ruling, "held", hold.reason, approval_id=approval.id)
    spends = (Spend(queue_budget_key(approval.agent), ruling.policy.open_approvals),)
    return RulesDecision((entry,), exchange, (approval,), spends, ruling, held=approval)


async def _deliver(
    docket: Docket, submission: Submission[M], before: Exchange | None, ruling: Ruling
) -> RulesDecision[M]:
    """Deliver a message with its envelope filled in, to exactly the receivers that may have it."""
    # The approval that this message was held for (`releases`), or that a person answers in its place (`replaces`).
    approval = submission.releases or submission.replaces
    if submission.replaces is not None and not ruling.exchange.over:
        ruling = ruling._replace(
            exchange=_exchange_after_answer(docket, ruling.exchange, submission.replaces, submission)
        )
    if submission.releases is not None and submission.releases.draft is not None:
        reviewed, level = submission.releases.draft, ruling.level.value
        payload = submission.as_held_draft(ruling).payload
        if payload != reviewed.payload or level != submission.releases.classification:
            return approvals.request_new_review(docket, submission.releases, replace(reviewed, payload=payload), level)
    message, digest = submission.deliver(ruling)
    # The outcome of the exchange as each side may see it: nobody learns of messages held on the other side.
    outcomes: dict[str, Outcome] = {}
    if ruling.exchange.outcome is Outcome.ESCALATED:
        waiting = await waiting_in(docket, ruling.exchange)
        for party in (submission.sender, *ruling.receivers):
            own = [other.id for other in waiting if side_of(docket, other) == party.agent]
            outcomes[party.agent] = seen_by_side(ruling.exchange, own).outcome
    audits = recording.delivered_entries(docket, submission, ruling, digest, outcomes)
    changed: tuple[Approval, ...] = ()
    if approval is not None:
        status = ApprovalStatus.APPROVED if submission.releases is not None else ApprovalStatus.ANSWERED
        by, note = submission.approved_by, submission.note
        decided_approval = decided(approval, status, by, docket.at, note, submission.message_id)
        side = side_of(docket, decided_approval)
        entry = recording.decision_entry(docket, decided_approval, side, by, submission.key, submission.link)
        changed, audits = (decided_approval,), (entry, *audits)
    after = ruling.exchange
    if ruling.shared or ruling.withheld:
        after = with_data(after, ruling.shared, withheld_reasons(ruling.withheld, ruling.ceiling))
    sender, actor = submission.sender.agent, submission.actor
    if ruling.origin is Origin.HUMAN and actor != sender:
        after = with_person(after, ruling.envelope.exchange_round, sender, actor)
    closing = Closing()
    if after.over:
        # The exchange ended with this message: its other pending approvals are closed.
        parties = (submission.sender.agent, *[party.agent for party in ruling.receivers])
        except_id = approval.id if approval is not None else ""
        closing = await close_all(docket, before, after, submission.actor, except_id=except_id, sides=parties)
    return RulesDecision(
        (*audits, *closing.audits),
        after,
        (*changed, *closing.approvals),
        _pair_spends(docket, submission, ruling),
        ruling,
        message,
    )


def _exchange_after_answer(
    docket: Docket, exchange: Exchange, approval: Approval, submission: Submission[M]
) -> Exchange:
    """The exchange after a person's answer: it ends if it was at its limit, else it continues."""
    if approval.cause in LIMITS:
        return ended(exchange, Outcome.RESOLVED, docket.at, submission.approved_by, "answered by a person")
    return released(exchange, approval.id)


def _pair_spends(docket: Docket, submission: Submission[M], ruling: Ruling) -> tuple[Spend, ...]:
    """What a message uses of the hourly budget of each pair of agents, also when it is addressed to a role or everyone.

    A message of a person uses nothing, so a person can go on when the agents' budget is spent.
    """
    if ruling.origin is Origin.HUMAN:
        return ()
    sender, most, hour = submission.sender.agent, ruling.policy.pair_budget, hour_of(docket.at)
    return tuple([Spend(f"{PAIR}{pair_name(sender, party.agent)}", most, hour) for party in ruling.receivers])


async def refuse_overspent(docket: Docket, submission: Submission[M], error: Overspent) -> RulesDecision[M]:
    """The decision about a message when the pair's hourly budget is spent, or the approval queue is full."""
    budget = str(error.facts.get("key", ""))
    if budget.startswith(QUEUE):
        agent = submission.sender.agent
        full = f"{agent} has as many messages waiting for a person as it may"
        return refuse(docket, submission, ApprovalQueueFull(full, facts={"retry_after": 60}))
    at = docket.at
    pair = budget.removeprefix(PAIR)
    dedup_key = f"pair_budget/{pair}/{hour_of(at)}"
    rest = 3600 - int(at[14:16]) * 60 - int(at[17:19])
    reason = f"{' and '.join(pair.split(','))} have exchanged as many messages as they may in an hour"
    before = await docket.approval_by_key(dedup_key)
    approval = before or limit_approval_of(docket, submission, Hold(Cause.PAIR_BUDGET, reason), dedup_key)
    spent = PairBudget(reason, facts={"retry_after": max(1, rest), "approval": approval.id})
    decision = refuse(docket, submission, spent)
    return decision if before is not None else decision._replace(approvals=(approval,))
