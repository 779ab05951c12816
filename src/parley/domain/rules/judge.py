"""Judge whether a message may pass from one party to another: one pure function, one fixed order of checks.

agent's settings ─> policy (enabled, type, cross-org) ─> classification ─> hops      a no ends it
   ─> cross-org by approval ─> round limit ─> reply policy ─> commitment            a person has to look
A denial wins over a hold, wherever it stands: people are never asked about a message that is denied anyway.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from typing import NamedTuple

from parley.domain.agents.party import Party
from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.content.classification import Classification, lowest
from parley.domain.content.commitment import HUMAN_ONLY, REQUIRES_COMMITMENT, reason_of
from parley.domain.content.detectors import Detection, describe_detections
from parley.domain.content.envelope import Origin, Purpose, ReplyPolicy
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import ClassificationExceeded, LoopDetected, PolicyDenied, ReceiverRefuses
from parley.domain.exchange.approval import Cause
from parley.domain.rules.policy import Commitments, CrossOrg, MeetingApproval, Policy

CROSS_ORG_ACTION = f"{AGENT_EXCHANGE}_cross_org"


class Case(NamedTuple):
    """The facts that a judgement depends on."""

    sender: Party
    receiver: Party
    purpose: Purpose
    reply_policy: ReplyPolicy
    # Whether its purpose asks for a promise, which a person has to approve.
    requires_commitment: bool
    origin: Origin
    # With the levels of what was detected in it.
    level: Classification
    # The number that this message would have in its exchange, and the highest number allowed.
    round: int
    max_rounds: int
    # Whether the sender began the exchange.
    initiates: bool
    hops: int = 1
    # Whether data above the ceiling, the highest level allowed, is still in it.
    over: bool = False
    keywords: tuple[str, ...] = ()
    # A person has approved exactly this message.
    approved: bool = False
    # What that data is: where it comes from, its level, and the ceiling; never what it says.
    over_told: str = ""
    # What was detected in its content.
    detections: tuple[Detection, ...] = ()


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


def rounds_of(policy: Policy, sender: Party, receiver: Party, requested: int | None) -> int:
    """The round limit of a new exchange: the lowest of policy, directory and message."""
    wanted = (requested, sender.attributes.max_rounds_accepted, receiver.attributes.max_rounds_accepted)
    return min([policy.max_rounds, *[limit for limit in wanted if limit is not None]])


# Where the value of a check comes from; POLICY: from the policy key of the same name.
POLICY = "policy"
DIRECTORY = "directory"
PURPOSE = "purpose"
# Name, source, value, what it is compared with, and the verdict if the check does not let the message pass. A plain
# tuple of unrendered values: a judgement makes sixteen of them, and only `parley policy explain` shows them.
Check = tuple[str, str, object, object, Hold | Deny | None]


def judge(case: Case, policy: Policy) -> Verdict:
    """The verdict on a message under the merged policy of both sides: first denials, then holds, else allow."""
    hold: Hold | None = None
    for check in checks(case, policy):
        verdict = check[4]
        if verdict is None:
            continue
        if isinstance(verdict, Deny):
            return verdict
        hold = hold or verdict
    return hold or ALLOW


def checks(case: Case, policy: Policy) -> list[Check]:
    """Every check of a judgement, in its order."""
    return [*_participation_checks(case, policy), *_content_checks(case, policy), *_human_checks(case, policy)]


def _participation_checks(case: Case, policy: Policy) -> tuple[Check, ...]:
    sender, receiver, purpose = case.sender.attributes, case.receiver.attributes, case.purpose
    receives, sends = receiver.supported_exchange_types, sender.supported_exchange_types
    route = route_of(case.sender, case.receiver)
    queried: Deny | None = None
    if case.initiates and not receiver.can_receive_queries:
        queried = Deny(ReceiverRefuses(f"{case.receiver.agent} takes no queries"))
    enabled: Deny | None = None
    if not policy.enabled:
        enabled = Deny(PolicyDenied("the policy allows no exchange between agents", facts={"policy": policy.version}))
    typed: Deny | None = None
    if purpose not in policy.exchange_types:
        typed = Deny(PolicyDenied(f"the policy allows no {purpose.value}", facts={"policy": policy.version}))
    receiver_verdict = None if purpose in receives else _unsupported(purpose, case.receiver)
    sender_verdict = None if purpose in sends else _unsupported(purpose, case.sender)
    crossing = None if route == SAME_ORG_UNIT else _cross_org(case, policy, route)
    return (
        ("can_receive_queries", DIRECTORY, receiver.can_receive_queries, case.receiver.agent, queried),
        ("supported_exchange_types (receiver)", DIRECTORY, receives, purpose, receiver_verdict),
        ("supported_exchange_types (sender)", DIRECTORY, sends, purpose, sender_verdict),
        ("enabled", POLICY, policy.enabled, "", enabled),
        ("exchange_types", POLICY, policy.exchange_types, purpose, typed),
        ("cross_org", POLICY, policy.cross_org, route, crossing),
    )


def _unsupported(purpose: Purpose, party: Party) -> Deny:
    return Deny(ReceiverRefuses(f"{party.agent} does not take part in a {purpose.value}"))


def _cross_org(case: Case, policy: Policy, route: str) -> Hold | Deny | None:
    if policy.cross_org is CrossOrg.DENY:
        facts = {"policy": policy.version, **evaluation_of(case.sender, case.receiver)}
        return Deny(PolicyDenied(f"the policy allows nothing from {route}", facts=facts))
    if policy.cross_org is CrossOrg.APPROVAL and not case.approved:
        return Hold(Cause.CROSS_ORG, f"The policy asks for approval from {route}.")
    return None


def _content_checks(case: Case, policy: Policy) -> list[Check]:
    sender, receiver, level = case.sender, case.receiver, case.level
    sends, receives, rank = sender.attributes.max_classification, receiver.attributes.max_classification, level.rank
    content: list[Check] = []
    for name, source, maximum, who, may in (
        ("max_classification (sender)", DIRECTORY, sends, sender.agent, "may share"),
        ("max_classification", POLICY, policy.max_classification, "the policy", "allows"),
        ("max_classification (receiver)", DIRECTORY, receives, receiver.agent, "may know"),
    ):
        verdict = None
        if rank > maximum.rank:
            above = [detection for detection in case.detections if detection.level.rank > maximum.rank]
            because = f" ({describe_detections(above)})" if above else ""
            detail = f"the message is {level.value}{because}; {who} {may} at most {maximum.value}"
            facts = {"classification": level.value, "maximum": maximum.value, "policy": policy.version}
            verdict = Deny(ClassificationExceeded(detail, facts=facts))
        content.append((name, source, maximum, level, verdict))
    amount, verdict = "no data above the ceiling", None
    if case.over:
        detail = f"it holds data above what may be shared here{f': {case.over_told}' if case.over_told else ''}"
        verdict = Deny(ClassificationExceeded(detail, facts={"classification": level.value}))
        amount = "data above the ceiling"
    content.append(("on_over_classified", POLICY, policy.on_over_classified, amount, verdict))
    verdict = None
    if case.hops > policy.hop_limit and case.origin is not Origin.HUMAN:
        verdict = Deny(LoopDetected(f"more than {policy.hop_limit} messages follow from one another"))
    content.append(("hop_limit", POLICY, policy.hop_limit, f"hop {case.hops}", verdict))
    return content


def _human_checks(case: Case, policy: Policy) -> tuple[Check, ...]:
    human = case.origin is Origin.HUMAN
    replies_alone = not (case.initiates or human or case.approved)
    responds = case.sender.attributes.can_auto_respond
    rounds: Hold | None = None
    if case.round > case.max_rounds and not human:
        reason = f"Exchange reached maximum round limit ({case.max_rounds}). Human review required."
        rounds = Hold(Cause.ROUND_LIMIT, reason)
    reply: Hold | None = None
    if replies_alone and case.reply_policy is ReplyPolicy.HUMAN_ONLY:
        reply = Hold(Cause.HUMAN_ONLY, HUMAN_ONLY)
    silent: Hold | None = None
    if replies_alone and not responds:
        reason = f"{case.sender.agent} does not respond by itself. Human approval required."
        silent = Hold(Cause.HUMAN_ONLY, reason)
    commitment = None if human or case.approved else _commitment_hold(case, policy)
    return (
        ("max_rounds", POLICY, case.max_rounds, f"round {case.round}", rounds),
        ("reply_policy", PURPOSE, case.reply_policy, "asks" if case.initiates else "replies", reply),
        ("can_auto_respond", DIRECTORY, responds, case.sender.agent, silent),
        ("commitments", POLICY, policy.commitments, case.keywords or "no commitment words", commitment),
        ("requires_commitment", PURPOSE, case.requires_commitment, case.purpose, None),
    )


def _commitment_hold(case: Case, policy: Policy) -> Hold | None:
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


def evaluation_of(sender: Party, receiver: Party) -> dict[str, str]:
    """What a policy is asked about two agents: the action, and between which org units."""
    return {
        "action": CROSS_ORG_ACTION if crosses(sender, receiver) else AGENT_EXCHANGE,
        "sourceOrgUnit": sender.attributes.org_unit,
        "targetOrgUnit": receiver.attributes.org_unit,
    }


SAME_ORG_UNIT = "same org unit"


def route_of(sender: Party, receiver: Party) -> str:
    """From which org unit to which, or `SAME_ORG_UNIT`."""
    if not crosses(sender, receiver):
        return SAME_ORG_UNIT
    return f"{sender.attributes.org_unit} to {receiver.attributes.org_unit}"
