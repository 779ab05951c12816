"""What a person decides about the messages of its agent's mailbox: release, refuse, or answer in the agent's place.

Mine that waits goes out; another's that waits is handed to my agent. The decision, what comes of it and its entries are
one commit, so nothing is released twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox import sending as post
from parley.app.mailbox.rules import holding, recording
from parley.app.mailbox.rules import receiving as mail_receiving
from parley.app.mailbox.rules.proving import person
from parley.app.mailbox.rules.sending import Spoken
from parley.domain.directory.callers import Caller, KeyKind, key_digest
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Problem, Stale, UnknownMessage
from parley.domain.errors.rules import ApprovalStale, HumanRequired, MessageHeld, NotReleasable
from parley.domain.exchange import held as held_mail
from parley.domain.exchange.approval import (
    NOT_WAITING,
    Approval,
    ApprovalStatus,
    Decision,
    DecisionRight,
    check_decidable,
    check_may_decide,
    content_digest,
    decided,
    standing_of,
)
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.mailbox.ledger import Changes
from parley.domain.message.message import Body, Draft, Kind

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.ledger import StoredMessage

_ATTEMPTS = 8
_PAGE = 500
_KEY_CHARACTERS = 12


class Deciding(NamedTuple):
    """What a person says about an approval, with the key that says who it is. `answer` is what it says instead."""

    decision: Decision
    key: str
    digest: str
    note: str = ""
    answer: Body = ""


async def listed(kernel: Kernel, status: ApprovalStatus | None = None) -> list[Approval]:
    """Everything in this mailbox that waits, or waited, for a person; oldest first."""
    await holding.sweep(kernel)
    found: list[Approval] = []
    after = ""
    while page := await kernel.store.records(Approval, after=after, limit=_PAGE):
        found += [one for one in page if status is None or one.status is status]
        after = page[-1].id
    return found


async def show(kernel: Kernel, approval_id: str) -> Approval:
    """One approval, by its id or the end of it."""
    await holding.sweep(kernel)
    found = await kernel.store.record(Approval, approval_id)
    if found is None:
        fitting = [one for one in await listed(kernel) if one.id.endswith(approval_id)] if approval_id else []
        if len(fitting) != 1:
            raise NotFound(f"{kernel.agent} has no approval {approval_id!r}", hint="look with: parley approvals list")
        found = fitting[0]
    return found


async def standing(kernel: Kernel, approval: Approval, key: str = "") -> DecisionRight:
    """Who may still decide about it, and whether this key may; without one, nobody is refused yet."""
    if not approval.pending:
        return NOT_WAITING
    if not key:
        return DecisionRight(holding.deciders(kernel, approval))
    governance = kernel.governance.load()
    policy = holding.own_policy(kernel)
    try:
        user = person(kernel, governance.directory, key)
    except HumanRequired as refusal:
        return DecisionRight(holding.deciders(kernel, approval), refusal.code)
    caller = _caller(governance.tenant, key, user)
    return standing_of(approval, caller, policy.approvers, self_approval=policy.self_approval)


def _caller(tenant: str, key: str, user: str) -> Caller:
    return Caller(tenant, "", KeyKind.HUMAN, key_digest(key)[:_KEY_CHARACTERS], user)


async def decide(kernel: Kernel, approval_id: str, deciding: Deciding) -> Approval:
    """Decide about what waits, once. Raises `HumanRequired` for a key that is no person's."""
    governance = kernel.governance.load()
    user = person(kernel, governance.directory, deciding.key)
    approval = await show(kernel, approval_id)
    policy = holding.own_policy(kernel)
    caller = _caller(governance.tenant, deciding.key, user)
    check_may_decide(approval, caller, policy.approvers, self_approval=policy.self_approval)
    check_decidable(approval, deciding.decision, deciding.digest, recording.now(kernel))
    if deciding.decision is Decision.REJECT:
        return await _reject(kernel, approval, user, deciding.note)
    if deciding.decision is Decision.APPROVE:
        await _refresh(kernel, approval, governance.book.label)
    incoming = await holding.receipt_of(kernel, approval)
    try:
        if incoming is not None:
            return await _admit(kernel, approval, incoming, user, deciding)
        await _speak(kernel, approval, user, deciding)
    except MessageHeld as held:
        raise NotReleasable("it cannot be released now: " + held.message, facts=held.facts) from None
    return await show(kernel, approval.id)


async def _refresh(kernel: Kernel, approval: Approval, label: str) -> None:
    """An approval belongs to a policy. Under another one the person has to look again, at a new digest."""
    if approval.draft is None or approval.policy_version == label:
        return
    seen = content_digest(approval.draft, approval.agent, approval.classification, label)
    again = replace(approval, policy_version=label, digest=seen)
    await kernel.store.commit(Changes(puts=(again,), tenant=approval.tenant_id))
    raise ApprovalStale(
        "the policy has changed since it was held; look at it again",
        facts={"approval": approval.id, "digest": again.digest},
    )


async def _reject(kernel: Kernel, approval: Approval, user: str, note: str) -> Approval:
    changes, over = await holding.refusing(kernel, approval, ApprovalStatus.REJECTED, user, note)
    await kernel.store.commit(changes)
    return over


async def _speak(kernel: Kernel, approval: Approval, user: str, deciding: Deciding) -> None:
    """My agent's message goes out: as it was held, or with the person's own words in its place."""
    if approval.draft is None:
        raise NotReleasable("there is nothing to send in it", facts={"approval": approval.id})
    answers = deciding.decision is Decision.ANSWER
    draft = held_mail.draft_of(approval.draft, kernel.agent)
    if answers:
        draft = draft._replace(body=_said(deciding), kind=Kind.NOTIFICATION, extras={}, wishes=None, priority=None)
    await post.send(kernel, draft, spoken=Spoken(user, approval, deciding.key, deciding.note, answers))


async def _admit(kernel: Kernel, approval: Approval, receipt: InboxReceipt, user: str, deciding: Deciding) -> Approval:
    """Another's message is handed to my agent from now on; or the person answers it, and my agent need not."""
    kept = await _kept(kernel, receipt)
    answers = deciding.decision is Decision.ANSWER
    if answers:
        _said(deciding)
    for _ in range(_ATTEMPTS):
        if receipt.status is InboxVerdict.ANSWERED:  # of an answer that was interrupted
            break
        admission = await mail_receiving.met(kernel, kept, receipt.file, approval)
        if admission is None or admission.status is not InboxVerdict.ADMITTED:
            raise (admission.refusal if admission else None) or Conflict("the rules no longer concern it")
        puts, audits = admission.changes.puts, admission.changes.audits
        if answers:
            puts = tuple(
                [replace(one, status=InboxVerdict.ANSWERED) if isinstance(one, InboxReceipt) else one for one in puts]
            )
        else:
            over = decided(
                approval, ApprovalStatus.APPROVED, user, recording.now(kernel), deciding.note, receipt.message_id
            )
            entry = recording.decision(kernel, approval, deciding.decision.value, user, deciding.note)
            puts, audits = (over, *puts), (entry, *audits)
        try:
            await kernel.store.commit(admission.changes._replace(puts=puts, audits=audits))
        except Stale:
            continue
        break
    else:
        raise Conflict("too much happens in this exchange at this moment", hint="try again")
    if answers:
        await _answer(kernel, approval, kept, user, deciding)
    return await show(kernel, approval.id)


async def _answer(kernel: Kernel, approval: Approval, kept: StoredMessage, user: str, deciding: Deciding) -> None:
    """The person's answer to a message that never reached its agent."""
    blank = Draft(kernel.agent, (), Kind.NOTIFICATION, "", _said(deciding))
    draft = post.answer(blank, kept.message, kernel.limits, kind_given=True)
    await post.send(kernel, draft, spoken=Spoken(user, approval, deciding.key, deciding.note, answers=True))


async def _kept(kernel: Kernel, receipt: InboxReceipt) -> StoredMessage:
    for one in await kernel.store.find(receipt.message_id):
        if one.digest == receipt.id:
            return one
    raise UnknownMessage(f"{receipt.message_id} is no longer there")


def _said(deciding: Deciding) -> Body:
    if not deciding.answer:
        raise Invalid.because([Problem("required", "answer", "what you say in its place")])
    return deciding.answer
