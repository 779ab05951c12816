"""Judge incoming messages on the receiving side, whatever the sending side has decided.

tenant, identity, exchange and expiry, round, org unit, clearance, hops ──> admitted | held for my person | refused
What comes of it is written with my own entry, in one commit, before anybody has the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox.rules.admissions import Admission, admission_of, earlier_admission, receipt_of
from parley.app.mailbox.rules.docket import MailboxDocket, addressee
from parley.app.mailbox.rules.incoming import (
    IncomingMessage,
    check_tenant,
    crossed_message,
    exchange_after,
    exchange_of,
    judged_text,
    with_view,
)
from parley.app.mailbox.rules.proving import vouched
from parley.app.rules import approvals, messages
from parley.app.rules.docket import Delivered, Submission
from parley.app.rules.holding import INCOMING
from parley.app.rules.recording import crossed_entry
from parley.domain.agents.party import source_of
from parley.domain.content.envelope import Origin, Wishes
from parley.domain.errors.errors import ParleyError, Stale, UnknownMessage
from parley.domain.errors.rules import ApprovalQueueFull, IdentityMismatch, Overspent, Suspended
from parley.domain.exchange import held as held_mail
from parley.domain.exchange.exchange import check_open
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.mailbox.ledger import MailboxChanges, StoredMessage
from parley.domain.message.message import Pattern
from parley.domain.rules.judge import Allow
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import Proposal, Ruling, rule
from parley.domain.rules.stamping import check_claims, check_fixed
from parley.domain.rules.suspension import check_not_stopped

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.app.mailbox.rules.sending import HumanDecision
    from parley.domain.agents.party import Party
    from parley.domain.content.envelope import Carried

_ATTEMPTS = 8


async def judge_incoming(
    kernel: Kernel, stored: StoredMessage, file: str, human: HumanDecision | None = None
) -> Admission | None:
    """Judge a message in the inbox; None when the rules do not apply to it.

    It is judged once; `human` is my person, who has looked at what was held.
    """
    receipt = await kernel.store.record(InboxReceipt, stored.digest)
    if receipt is not None and human is None:
        return await earlier_admission(kernel, receipt)
    docket = MailboxDocket(kernel)
    incoming = IncomingMessage(stored, file, docket.governance.party(stored.message.sender), human=human)
    try:
        check_tenant(docket, stored.message)
        check_not_stopped(docket.governance.directory.stopped, incoming.sender, docket.me)
        carried = kernel.envelopes.read(stored.content) if "ocip" in stored.message.extras else None
        if stored.message.sender == kernel.agent:
            return await _from_myself(docket, incoming, carried)
        incoming = incoming._replace(mine=await exchange_of(docket, stored.message, carried, human))
        if carried is None and incoming.mine is None and not _concerned(docket, incoming.sender):
            return None
        proof = await vouched(kernel, docket.governance, incoming.sender, kernel.agent, carried, stored)
        incoming = incoming._replace(carried=carried, proof=proof)
        incoming = with_view(docket, incoming._replace(crossed=await crossed_message(docket, incoming)))
        submission = _submission(docket, incoming)
        decision = approvals.request_new_review_if_stale(docket, submission)
        if decision is not None:
            return await admission_of(docket, incoming, decision)
        proposal, ruling = _ruled(docket, incoming)
    except Stale:
        raise
    except Suspended as refusal:
        return Admission(InboxVerdict.HELD, refusal=refusal)  # it lies where it lies until that is over
    except ParleyError as refusal:
        decision = messages.refuse(docket, _submission(docket, incoming), refusal, incoming.mine)
        return await admission_of(docket, incoming, decision)
    decision = await messages.apply(docket, submission, proposal, ruling)
    if incoming.crossed is not None and incoming.mine is not None and incoming.human is None:
        lost = crossed_entry(docket, submission, incoming.mine, incoming.crossed)
        decision = decision._replace(audits=(lost, *decision.audits))
    try:
        if decision.held is not None:
            await docket.check_budgets(decision.spends)
    except Overspent:
        full = ApprovalQueueFull(f"{kernel.agent} has as many messages waiting for a person as it may")
        return Admission(InboxVerdict.HELD, refusal=full)
    return await admission_of(docket, incoming, decision)


async def check_admitted(kernel: Kernel, message_id: str) -> None:
    """Judge a message that is answered or finished without a claim, and refuse it if it is not admitted."""
    from parley.app.mailbox import find

    fitting = [match for match in await find.by_id(kernel, message_id) if "ocip" in match.message.extras]
    if not fitting:
        return
    stored = StoredMessage(fitting[0].message, fitting[0].content, fitting[0].digest)
    for _ in range(_ATTEMPTS):
        admission = await judge_incoming(kernel, stored, fitting[0].file)
        if admission is None:
            return
        try:
            if admission.changes != MailboxChanges():
                await kernel.store.commit(admission.changes._replace(messages=(stored,)))
        except Stale:
            continue
        if admission.refusal is not None:
            raise admission.refusal
        return
    raise UnknownMessage(f"{message_id} changes faster than it can be read")


def _concerned(docket: MailboxDocket, sender: Party) -> bool:
    policy = docket.book.between(sender.attributes, docket.me.attributes)
    return docket.governance.set_up and concerns(policy, sender, docket.me)


async def _from_myself(docket: MailboxDocket, incoming: IncomingMessage, carried: Carried | None) -> Admission | None:
    """Admit a note to oneself, which was judged when it was sent; refuse one that was never sent."""
    if carried is None:
        return None
    stored = incoming.stored
    if all(sent.digest != stored.digest for sent in await docket.kernel.store.find(stored.message.id)):
        raise IdentityMismatch("it says that it is from me, and I never sent it")
    exchange = await exchange_of(docket, stored.message, carried, None)
    if exchange is None:
        return None
    receipt = await receipt_of(docket, incoming, InboxVerdict.ADMITTED, exchange.id)
    return Admission(InboxVerdict.ADMITTED, MailboxChanges(puts=(receipt,), tenant=docket.tenant))


def _ruled(docket: MailboxDocket, incoming: IncomingMessage) -> tuple[Proposal, Ruling]:
    """Rule on the message, for the exchange in this agent's ledger."""
    message, carried, view, mine = incoming.stored.message, incoming.carried, incoming.view, incoming.mine
    claims = carried.envelope if carried is not None else None
    ext = carried.ext if carried is not None else None
    human = incoming.origin is Origin.HUMAN
    sender = incoming.sender._replace(human=human)
    if claims is not None and view is not None:
        check_claims(claims, source_of(sender, docket.tenant), incoming.origin, sender.attributes, view)
        if mine is not None:
            check_open(mine, sender.agent, docket.at, human=human)
            check_fixed(Wishes(envelope=claims), view)
    withheld = ext.withheld if ext is not None else ()
    approved = incoming.human.approval if incoming.human is not None else None
    if approved is None and incoming.proof is not None:
        approved = incoming.proof.approval
    proposal = Proposal(
        tenant=docket.tenant,
        sender=sender,
        receivers=(docket.me,),
        to=addressee(message),
        asks=message.kind.spec.pattern in (Pattern.REQUEST, Pattern.RESPONSE),
        wishes=Wishes(
            classification=claims.classification if claims is not None else None,
            conversation_id=view.conversation_id if view is not None else message.conversation_id,
            data=ext.shared if ext is not None else (),
        ),
        body=message.body,
        exchange=view,
        others=(),
        approval=approved if not human else None,
        now=docket.now,
        fresh=messages.fresh_ids(docket),
        arrived=True,
        texts=lambda _: (judged_text(docket, incoming),),
    )
    ruling = rule(proposal, docket.book)
    if claims is not None:
        ruling = ruling._replace(origin=claims.message_type, envelope=claims)
    if isinstance(ruling.verdict, Allow) and withheld:
        ruling = ruling._replace(withheld=withheld)
    return proposal._replace(exchange=mine), ruling._replace(exchange=exchange_after(docket, incoming, ruling))


def _submission(docket: MailboxDocket, incoming: IncomingMessage) -> Submission[StoredMessage]:
    stored, human, proof = incoming.stored, incoming.human, incoming.proof
    carries = human.approval.id if human is not None else proof.approval.id if proof is not None else ""
    signer = proof.approval.decided_by if proof is not None else ""
    return Submission(
        message_id=stored.message.id,
        sender=incoming.sender,
        receivers=(docket.me,),
        to=addressee(stored.message),
        actor=signer if incoming.origin is Origin.HUMAN and signer else incoming.sender.agent,
        key=human.key_id if human is not None else "",
        user=docket.me.user,
        annotated=incoming.carried is not None,
        digest=stored.digest,
        declared=incoming.declared,
        conversation_id=stored.message.conversation_id,
        as_held_draft=lambda _: held_mail.incoming(stored.message, docket.kernel.agent, stored.digest),
        deliver=lambda _: Delivered(stored, stored.digest),
        incoming=True,
        dedup_key=f"{INCOMING}{stored.digest}",
        releases=human.approval if human is not None and not human.answers else None,
        approval_id=carries,
        approved_by=human.user if human is not None else signer,
        note=human.note if human is not None else "",
    )
