"""The judgement: may this message pass from one party to another? One pure function, one fixed order.

directory flags ─> policy (enabled, type, cross-org) ─> classification ─> hops      a no ends it
   ─> cross-org by approval ─> round limit ─> reply policy ─> commitment            a person has to look
All that would deny is looked at before anything is held: nobody is asked about what may not be.
"""

# Annotations are evaluated here: from text, a NamedTuple would compile each of them at every start.

from typing import NamedTuple

from parley.domain.agents.party import Party
from parley.domain.content.classification import Classification, lowest
from parley.domain.content.commitment import HUMAN_ONLY, REQUIRES_COMMITMENT, reason_of
from parley.domain.content.envelope import Origin, Purpose, ReplyPolicy
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import ClassificationExceeded, LoopDetected, PolicyDenied, ReceiverRefuses
from parley.domain.exchange.approval import Cause
from parley.domain.rules.policy import Commitments, CrossOrg, MeetingApproval, Policy

CROSS_ORG_ACTION = "agent_exchange_cross_org"


class Case(NamedTuple):
    """Everything that a judgement depends on."""

    sender: Party
    receiver: Party
    purpose: Purpose
    reply_policy: ReplyPolicy
    requires_commitment: bool
    origin: Origin
    # What it is after everything that was found in it.
    level: Classification
    # The round that it would be, and how many there may be.
    round: int
    max_rounds: int
    # Whether the sender began the exchange.
    initiates: bool
    hops: int = 1
    # Whether data above the ceiling is still in it.
    over: bool = False
    keywords: tuple[str, ...] = ()
    # A person has approved exactly this message.
    approved: bool = False
    # What that data is: where it comes from, its level, and the ceiling; never what it says.
    over_told: str = ""


class Allow(NamedTuple):
    """It may pass."""


class Hold(NamedTuple):
    """A person has to look at it first."""

    cause: Cause
    reason: str


class Deny(NamedTuple):
    """It may not pass."""

    error: ParleyError
    # Whether the exchange ends with it.
    ends: bool = True


Verdict = Allow | Hold | Deny
ALLOW = Allow()


def ceiling_of(policy: Policy, sender: Party, receiver: Party, declared: Classification) -> Classification:
    """The most secret data item that may be in a message."""
    return lowest(
        declared,
        sender.attributes.max_classification,
        policy.max_classification,
        receiver.attributes.max_classification,
    )


def rounds_of(policy: Policy, sender: Party, receiver: Party, asked: int | None) -> int:
    """How many rounds an exchange gets when it begins: the least that anybody asks for."""
    wanted = (asked, sender.attributes.max_rounds_accepted, receiver.attributes.max_rounds_accepted)
    return min([policy.max_rounds, *[one for one in wanted if one is not None]])


def judge(case: Case, policy: Policy) -> Verdict:
    """What becomes of a message under the policy of both sides."""
    refusal = _refused(case, policy)
    if refusal is not None:
        return Deny(refusal)
    return _held(case, policy) or ALLOW


def _refused(case: Case, policy: Policy) -> ParleyError | None:
    sender, receiver = case.sender.attributes, case.receiver.attributes
    if case.initiates and not receiver.can_receive_queries:
        return ReceiverRefuses(f"{case.receiver.agent} takes no queries")
    if case.purpose not in receiver.supported_exchange_types or case.purpose not in sender.supported_exchange_types:
        side = case.receiver if case.purpose not in receiver.supported_exchange_types else case.sender
        return ReceiverRefuses(f"{side.agent} does not take part in a {case.purpose.value}")
    if not policy.enabled:
        return PolicyDenied("the policy allows no exchange between agents", facts={"policy": policy.version})
    if case.purpose not in policy.exchange_types:
        return PolicyDenied(f"the policy allows no {case.purpose.value}", facts={"policy": policy.version})
    if policy.cross_org is CrossOrg.DENY and crosses(case.sender, case.receiver):
        return PolicyDenied(
            f"the policy allows nothing from {sender.org_unit} to {receiver.org_unit}",
            facts={
                "policy": policy.version,
                "action": CROSS_ORG_ACTION,
                "sourceOrgUnit": sender.org_unit,
                "targetOrgUnit": receiver.org_unit,
            },
        )
    return _too_secret(case, policy) or _too_far(case, policy)


def _too_secret(case: Case, policy: Policy) -> ParleyError | None:
    level = case.level
    for whose, most in (
        (f"{case.sender.agent} may share", case.sender.attributes.max_classification),
        ("the policy allows", policy.max_classification),
        (f"{case.receiver.agent} may know", case.receiver.attributes.max_classification),
    ):
        if level.rank > most.rank:
            return ClassificationExceeded(
                f"the message is {level.value}; {whose} at most {most.value}",
                facts={"classification": level.value, "maximum": most.value, "policy": policy.version},
            )
    if case.over:
        return ClassificationExceeded(
            f"it holds data above what may be shared here{f': {case.over_told}' if case.over_told else ''}",
            facts={"classification": level.value},
        )
    return None


def _too_far(case: Case, policy: Policy) -> ParleyError | None:
    if case.hops > policy.hop_limit and case.origin is not Origin.HUMAN:
        return LoopDetected(f"more than {policy.hop_limit} messages follow from one another")
    return None


def _held(case: Case, policy: Policy) -> Hold | None:
    human = case.origin is Origin.HUMAN
    free = human or case.approved
    if not case.approved and policy.cross_org is CrossOrg.APPROVAL and crosses(case.sender, case.receiver):
        source, target = case.sender.attributes.org_unit, case.receiver.attributes.org_unit
        return Hold(Cause.CROSS_ORG, f"The policy asks for approval from {source} to {target}.")
    if case.round > case.max_rounds and not human:
        reason = f"Exchange reached maximum round limit ({case.max_rounds}). Human review required."
        return Hold(Cause.ROUND_LIMIT, reason)
    if free:
        return None
    if not case.initiates and case.reply_policy is ReplyPolicy.HUMAN_ONLY:
        return Hold(Cause.HUMAN_ONLY, HUMAN_ONLY)
    if not case.initiates and not case.sender.attributes.can_auto_respond:
        return Hold(Cause.HUMAN_ONLY, f"{case.sender.agent} does not respond by itself. Human approval required.")
    return _commits(case, policy)


def _commits(case: Case, policy: Policy) -> Hold | None:
    if policy.commitments is Commitments.REPORT:
        return None
    # Where only the responder's person decides about a meeting, the initiator's agent may ask for one.
    asks = (
        case.initiates
        and case.purpose is Purpose.MEETING_SCHEDULING
        and policy.meeting_approval is MeetingApproval.RESPONDER
    )
    if case.requires_commitment and not asks:
        return Hold(Cause.COMMITMENT, REQUIRES_COMMITMENT)
    if case.reply_policy is ReplyPolicy.HUMAN_ONLY and not asks:
        return Hold(Cause.COMMITMENT, HUMAN_ONLY)
    if case.keywords:
        return Hold(Cause.COMMITMENT, reason_of(case.keywords))
    return None


def crosses(sender: Party, receiver: Party) -> bool:
    """Whether a message leaves its org unit."""
    return sender.attributes.org_unit != receiver.attributes.org_unit
