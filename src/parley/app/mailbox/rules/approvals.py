"""Decisions of people about messages of a mailbox: release, reject, or answer in the agent's place.

Mine that waits goes out; another's that waits is handed to my agent. The decision, what comes of it and its entries are
one commit, so nothing is released twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox import sending
from parley.app.mailbox.rules import receiving
from parley.app.mailbox.rules.docket import MailboxDocket
from parley.app.mailbox.rules.exchanges import expire_due
from parley.app.mailbox.rules.proving import person
from parley.app.mailbox.rules.sending import HumanDecision
from parley.app.rules import approvals as rules
from parley.domain.directory.callers import Caller, KeyKind, key_digest
from parley.domain.errors.errors import Conflict, Invalid, Problem, Stale, UnknownMessage
from parley.domain.errors.rules import HumanRequired, MessageHeld, NotReleasable
from parley.domain.exchange import held as held_mail
from parley.domain.exchange.approval import NOT_WAITING, Approval, ApprovalStatus, Decision, DecisionRight, deciders_of
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.lookup import Candidate, Noun, pick
from parley.domain.message.message import Body, Draft, Kind

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.ledger import StoredMessage

_ATTEMPTS = 8
_KEY_CHARACTERS = 12
_APPROVAL = Noun("approval", "appr", "parley approvals list")


class MailboxDecision(NamedTuple):
    """A person's decision, with the key that identifies it. `answer` is sent in place of the held message."""

    decision: Decision
    key: str
    digest: str
    note: str = ""
    answer: Body = ""


async def list_all(kernel: Kernel, status: ApprovalStatus | None = None) -> list[Approval]:
    """All approvals of this mailbox, pending and decided; oldest first."""
    approvals = await (await expire_due(kernel)).every(Approval)
    return [approval for approval in approvals if status is None or approval.status is status]


async def get(kernel: Kernel, approval_id: str) -> Approval:
    """One approval, by its id or the end of it."""
    docket = await expire_due(kernel)
    approval = await docket.approval(approval_id)
    if approval is None:
        every = await docket.every(Approval) if approval_id else []
        candidates = [Candidate(other.id, note=other.status.value, is_over=not other.pending) for other in every]
        chosen = pick(_APPROVAL, approval_id, candidates, where=f" of {kernel.agent}")
        approval = next(other for other in every if other.id == chosen.id)
    return approval


async def standing(kernel: Kernel, approval: Approval, key: str = "") -> DecisionRight:
    """Who may decide about a pending approval, and whether this key may."""
    if not approval.pending:
        return NOT_WAITING
    docket = MailboxDocket(kernel)
    policy = docket.own_policy
    deciders = deciders_of(approval, policy.approvers, self_approval=policy.self_approval)
    if not key:
        return DecisionRight(deciders)
    try:
        return await rules.standing(docket, approval, _caller(docket, key))
    except HumanRequired as refusal:
        return DecisionRight(deciders, refusal.code)


async def closed_with(kernel: Kernel, approval: Approval) -> tuple[str, ...]:
    """The other held messages of its agent that a rejection closes, or closed."""
    return await rules.closed_with(MailboxDocket(kernel), approval)


def _caller(docket: MailboxDocket, key: str) -> Caller:
    user = person(docket.kernel, docket.governance.directory, key)
    return Caller(docket.tenant, "", KeyKind.HUMAN, key_digest(key)[:_KEY_CHARACTERS], user)


async def decide(kernel: Kernel, approval_id: str, deciding: MailboxDecision) -> Approval:
    """Decide about a pending approval, once. Raises `HumanRequired` for a key of no person."""
    caller = _caller(MailboxDocket(kernel), deciding.key)
    approval = await get(kernel, approval_id)
    docket = MailboxDocket(kernel)
    await rules.check(docket, approval, caller, deciding.decision, deciding.digest)
    if deciding.decision is Decision.REJECT:
        rejected = ApprovalStatus.REJECTED
        decision = await rules.refuse(docket, approval, rejected, caller.user, key=caller.key_id, note=deciding.note)
        await kernel.store.commit(await docket.changes(decision))
        return await get(kernel, approval.id)
    answers = deciding.decision is Decision.ANSWER
    if answers and not deciding.answer:
        raise Invalid.because([Problem("required", "answer", "what you say in its place")])
    human = HumanDecision(caller.user, approval, deciding.key, caller.key_id, deciding.note, answers)
    receipt = await docket.receipt_of(approval)
    try:
        if receipt is None:
            await _speak(kernel, human, deciding.answer)
        elif answers:
            await _answer(kernel, human, receipt, deciding.answer)
        else:
            await _admit(kernel, human, receipt)
    except MessageHeld as held:
        raise NotReleasable("it cannot be released now: " + held.message, facts=held.facts) from None
    return await get(kernel, approval.id)


async def _speak(kernel: Kernel, human: HumanDecision, answer: Body) -> None:
    """Send my agent's message: as held, or with the person's answer in its place."""
    if human.approval.draft is None:
        raise NotReleasable("it has no message to send", facts={"approval": human.approval.id})
    draft = held_mail.draft_of(human.approval.draft, kernel.agent)
    if human.answers:
        draft = draft._replace(body=answer, kind=Kind.NOTIFICATION, extras={}, wishes=None, priority=None)
    await sending.send(kernel, draft, decided=human)


async def _admit(kernel: Kernel, human: HumanDecision, receipt: InboxReceipt) -> StoredMessage:
    """Admit another agent's message to my agent, or mark it as answered by its person."""
    stored = await _stored_message(kernel, receipt)
    for _ in range(_ATTEMPTS):
        admission = await receiving.judge_incoming(kernel, stored, receipt.file, human)
        if admission is None:
            raise Conflict("the rules no longer concern it")
        if admission.waits and admission.refusal is not None:
            raise admission.refusal
        try:
            await kernel.store.commit(admission.changes)
        except Stale:
            continue
        if admission.refusal is not None:
            raise admission.refusal
        return stored
    raise Conflict("too much happens in this exchange at this moment", hint="try again")


async def _answer(kernel: Kernel, human: HumanDecision, receipt: InboxReceipt, answer: Body) -> None:
    """Send the person's answer to a message that its agent has not received."""
    # After an interruption the message is marked as answered, but the answer was not sent.
    interrupted = receipt.status is InboxVerdict.ANSWERED
    stored = await (_stored_message(kernel, receipt) if interrupted else _admit(kernel, human, receipt))
    blank = Draft(kernel.agent, (), Kind.NOTIFICATION, "", answer)
    draft = sending.answer(blank, stored.message, kernel.limits, kind_given=True)
    await sending.send(kernel, draft, decided=human)


async def _stored_message(kernel: Kernel, receipt: InboxReceipt) -> StoredMessage:
    for stored in await kernel.store.find(receipt.message_id):
        if stored.digest == receipt.id:
            return stored
    raise UnknownMessage(f"{receipt.message_id} is no longer there")
