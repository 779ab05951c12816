"""An approval: what a person has to decide, bound to exactly what was held.

pending ──> approved     the message goes out once, as agent-assisted
   │   ├──> rejected     it never does, and its exchange is denied
   │   ├──> answered     the person speaks for itself
   │   └──> closed       its exchange ended otherwise
   └──────> expired      nobody decided in time: denied
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from parley.domain.content.envelope import NOBODY, Purpose
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.rules import (
    ApprovalDecided,
    ApprovalStale,
    Denied,
    HumanRequired,
    NotApprover,
    NotReleasable,
    SelfApproval,
)
from parley.domain.exchange.notice import next_notice
from parley.domain.hashes import digest
from parley.domain.record import Record

# The beginning of the deduplication key of a held message: by who says what to whom.
SAME = "same/"


class Cause(StrEnum):
    """Why something waits for a person, in the order of the checks."""

    CROSS_ORG = "cross_org"
    ROUND_LIMIT = "round_limit"
    HUMAN_ONLY = "human_only"
    COMMITMENT = "commitment"
    PAIR_BUDGET = "pair_budget"
    LOOP = "loop_detected"
    RULE = "rule"


# Nothing is released by deciding these: a person answers, or ends it.
LIMITS = frozenset({Cause.ROUND_LIMIT, Cause.PAIR_BUDGET, Cause.LOOP})


class ApprovalStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    ANSWERED = "answered"
    CLOSED = "closed"
    EXPIRED = "expired"


class Decision(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDraft:
    """What was held, as it would be sent: payload and metadata are JSON."""

    pattern: str
    to: str
    in_reply_to: str
    payload: str
    metadata: str
    expires_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Record):
    """One thing that a person has to decide."""

    kind: ClassVar[str] = "approval"

    cause: Cause
    reason: str
    detected_keywords: tuple[str, ...] = ()
    escalation: dict[str, Any] | None = None
    exchange_id: str = ""
    conversation_id: str = ""
    channel_id: str = ""
    # Whose message it is, for whom that one acts, and whom it was for.
    agent: str
    user: str
    # The person wrote the message, not the agent.
    human: bool = False
    to: str
    purpose: Purpose = Purpose.INFORMATION_QUERY
    classification: str
    draft: HeldDraft | None = None
    digest: str
    policy_version: str
    status: ApprovalStatus = ApprovalStatus.PENDING
    created_at: str
    expires_at: str
    # When its people were last told that it waits, and last reminded; when a mailbox is tried again.
    told_at: str = ""
    reminded_at: str = ""
    mail_again: str = ""
    decided_at: str = ""
    decided_by: str = ""
    note: str = ""
    # What came of it: the message that was sent, and other held messages that ended with it.
    message_id: str = ""
    closed_with: tuple[str, ...] = ()
    # Deduplication key: at most one approval has it. Empty for approvals that every message gets for itself.
    unique: str = ""

    @property
    def parent(self) -> str:
        return "pending" if self.pending else "decided"

    @property
    def name(self) -> str:
        # A message that is sent again after a decision is held again.
        return self.unique if self.pending or not self.unique.startswith(SAME) else ""

    @property
    def due(self) -> str:
        return min(self.expires_at, next_notice(self) or self.expires_at) if self.pending else ""

    @property
    def pending(self) -> bool:
        return self.status is ApprovalStatus.PENDING


def content_digest(draft: HeldDraft, agent: str, classification: str, policy_version: str) -> str:
    """What an approval is bound to: every byte that would be sent, by whom and to whom, under which policy."""
    parts = (
        agent,
        draft.to,
        draft.pattern,
        draft.in_reply_to,
        draft.expires_at,
        classification,
        policy_version,
        draft.metadata,
        draft.payload,
    )
    # Each part is preceded by its length, so that different lists of parts cannot encode to the same text.
    return digest("".join(f"{len(part)}:{part}" for part in parts).encode())


def same_message_key(draft: HeldDraft, agent: str) -> str:
    """The deduplication key of a message: the same for one that is sent again while the first is held."""
    parts = (agent, draft.to, draft.pattern, draft.in_reply_to, draft.metadata, draft.payload)
    return SAME + digest("".join(f"{len(part)}:{part}" for part in parts).encode())


def check_may_decide(approval: Approval, caller: Caller, approvers: tuple[str, ...], *, self_approval: bool) -> None:
    """Only a person decides: the one whom the agent acts for, or one whom the policy names."""
    if caller.kind is not KeyKind.HUMAN or caller.user in ("", NOBODY):
        raise HumanRequired("only a person decides this, with a key of its own")
    if caller.user in approvers and (caller.user != approval.user or self_approval):
        return
    if caller.user != approval.user:
        raise NotApprover("this key cannot decide this approval")
    if not self_approval:
        raise SelfApproval("a person other than the agent's own has to decide this")


class DecisionRight(NamedTuple):
    """Who may decide about what waits; and the code with which whoever asks would be refused, "" if it may."""

    deciders: tuple[str, ...] = ()
    barred: str = ""


NOT_WAITING = DecisionRight()


def standing_of(
    approval: Approval, caller: Caller, approvers: tuple[str, ...], *, self_approval: bool
) -> DecisionRight:
    """What is known beforehand of a caller who would decide."""
    barred = ""
    try:
        check_may_decide(approval, caller, approvers, self_approval=self_approval)
    except Denied as refusal:
        barred = refusal.code
    return DecisionRight(deciders_of(approval, approvers, self_approval=self_approval), barred)


def deciders_of(approval: Approval, approvers: tuple[str, ...], *, self_approval: bool) -> tuple[str, ...]:
    """The people whom `check_may_decide` lets decide; nobody when the policy leaves nobody."""
    own = (approval.user,) if self_approval else ()
    others = [approver for approver in approvers if approver != approval.user or self_approval]
    return tuple([user for user in dict.fromkeys((*own, *others)) if user not in ("", NOBODY)])


def decisions_of(approval: Approval) -> tuple[Decision, ...]:
    """The decisions that are possible now, whoever makes them. What is over a limit is not released."""
    if not approval.pending:
        return ()
    if approval.draft is None:
        return (Decision.REJECT,)
    return (Decision.REJECT, Decision.ANSWER) if approval.cause in LIMITS else tuple(Decision)


def handed_over(approval: Approval, user: str) -> Approval:
    """The approval for the person whom its agent acts for from now on, who has not been told of it yet."""
    return replace(approval, user=user, told_at="", reminded_at="", mail_again="")


def is_outdated(approval: Approval, label: str) -> bool:
    """Whether the message was held under other policies than those with this label: it has to be looked at again."""
    return approval.draft is not None and approval.policy_version != label


def check_waits(approval: Approval, now: str) -> None:
    """Refuse what was decided before, or has expired."""
    if not approval.pending:
        raise ApprovalDecided(f"it was {approval.status.value}", facts={"approval": approval.id})
    if approval.expires_at <= now:
        raise ApprovalDecided("it expired, which is a no", facts={"approval": approval.id})


def check_decidable(approval: Approval, decision: Decision, given_digest: str, now: str) -> None:
    """Refuse what was decided before, what nobody saw as it is now, and more rounds than there are."""
    check_waits(approval, now)
    if decision is Decision.APPROVE and approval.cause in LIMITS:
        raise NotReleasable(facts={"approval": approval.id})
    if given_digest != approval.digest:
        raise ApprovalStale(
            "this is not what waits for a decision now; look at it again",
            facts={"approval": approval.id, "digest": approval.digest},
        )


def decided(approval: Approval, status: ApprovalStatus, by: str, at: str, note: str, message_id: str = "") -> Approval:
    """The approval with its answer; there is only one."""
    if not approval.pending:
        raise ApprovalDecided(f"it was {approval.status.value}", facts={"approval": approval.id})
    return replace(approval, status=status, decided_by=by, decided_at=at, note=note, message_id=message_id)
