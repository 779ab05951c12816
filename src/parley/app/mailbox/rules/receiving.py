"""Judge incoming messages on the receiving side, whatever the sending side has decided.

tenant, identity, exchange and expiry, round, org unit, clearance, hops ──> admitted | held for my person | refused
What comes of it is written with my own entry, in one commit, before anybody has the message.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from parley.app.mailbox.rules.docket import MailboxDocket, addressee
from parley.app.mailbox.rules.exchanges import expire_due
from parley.app.mailbox.rules.proving import vouched
from parley.app.rules import approvals, messages
from parley.app.rules.docket import Delivered, Submission
from parley.app.rules.holding import INCOMING
from parley.domain.agents.party import pair_name, source_of
from parley.domain.content.envelope import Origin, Wishes, purpose_of
from parley.domain.directory.callers import EVERYONE
from parley.domain.errors.errors import ParleyError, Problem, Stale, UnknownMessage
from parley.domain.errors.rules import (
    ApprovalQueueFull,
    CrossEnterpriseBlocked,
    EnvelopeInvalid,
    ExchangeExpired,
    IdentityMismatch,
    Overspent,
    PolicyUnavailable,
    RoundMismatch,
    Suspended,
)
from parley.domain.exchange import held as held_mail
from parley.domain.exchange.exchange import Exchange, Outcome, check_open, ended
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.mailbox.ledger import Changes, StoredMessage
from parley.domain.message.bodies import KIND_SPECS
from parley.domain.message.message import Pattern
from parley.domain.rules.judge import Allow, rounds_of
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import Proposal, Ruling, envelope_time, rule
from parley.domain.rules.stamping import check_claims, check_fixed
from parley.domain.rules.suspension import check_not_stopped
from parley.domain.times import parse_time, stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.app.mailbox.rules.proving import Proof
    from parley.app.mailbox.rules.sending import HumanDecision
    from parley.app.rules.docket import RulesDecision
    from parley.domain.agents.party import Party
    from parley.domain.content.envelope import Carried, Envelope
    from parley.domain.message.message import Message
    from parley.domain.record import Record

_ATTEMPTS = 8


class Admission(NamedTuple):
    """The verdict on a message in the inbox, and the changes to commit."""

    status: InboxVerdict
    # Nothing, when all of it was written before.
    changes: Changes = Changes()
    refusal: ParleyError | None = None

    @property
    def admitted(self) -> bool:
        """Whether the agent may receive it."""
        return self.status is InboxVerdict.ADMITTED

    @property
    def waits(self) -> bool:
        """Whether it is held."""
        return self.status is InboxVerdict.HELD

    @property
    def answered(self) -> bool:
        """Whether a person has answered it."""
        return self.status is InboxVerdict.ANSWERED


class _Arrival(NamedTuple):
    """A message as this side sees it, before it is judged."""

    stored: StoredMessage
    file: str
    sender: Party
    # What it carries because of the rules; limits above mine are lowered.
    carried: Carried | None = None
    # The exchange in my ledger, and as it is for this message: one round before it.
    mine: Exchange | None = None
    view: Exchange | None = None
    # What a person signed for it; and my person, who has looked at what was held.
    proof: Proof | None = None
    human: HumanDecision | None = None

    @property
    def origin(self) -> Origin:
        return self.carried.envelope.message_type if self.carried is not None else Origin.AGENT


async def judge_incoming(
    kernel: Kernel, stored: StoredMessage, file: str, human: HumanDecision | None = None
) -> Admission | None:
    """Judge a message in the inbox; None when the rules do not apply to it.

    It is judged once; `human` is my person, who has looked at what was held.
    """
    receipt = await kernel.store.record(InboxReceipt, stored.digest)
    if receipt is not None and human is None:
        return await _judged_before(kernel, receipt)
    docket = MailboxDocket(kernel)
    arrival = _Arrival(stored, file, docket.governance.party(stored.message.sender), human=human)
    try:
        _check_tenant(docket, stored.message)
        check_not_stopped(docket.governance.directory.stopped, arrival.sender, docket.me)
        carried = kernel.envelopes.read(stored.content) if "ocip" in stored.message.extras else None
        if stored.message.sender == kernel.agent:
            return await _from_myself(docket, arrival, carried)
        arrival = arrival._replace(mine=await _exchange(docket, stored.message, carried, human))
        if carried is None and arrival.mine is None and not _concerned(docket, arrival.sender):
            return None
        proof = await vouched(kernel, docket.governance, arrival.sender, kernel.agent, carried, stored)
        arrival = _with_view(docket, arrival._replace(carried=carried, proof=proof))
        submission = _submission(docket, arrival)
        decision = approvals.request_new_review_if_stale(docket, submission)
        if decision is not None:
            return await _admission(docket, arrival, decision)
        proposal, ruling = _ruled(docket, arrival)
    except Stale:
        raise
    except Suspended as refusal:
        return Admission(InboxVerdict.HELD, refusal=refusal)  # it lies where it lies until that is over
    except ParleyError as refusal:
        decision = messages.refuse(docket, _submission(docket, arrival), refusal, arrival.mine)
        return await _admission(docket, arrival, decision)
    decision = await messages.apply(docket, submission, proposal, ruling)
    try:
        if decision.held is not None:
            await docket.check_budgets(decision.spends)
    except Overspent:
        full = ApprovalQueueFull(f"{kernel.agent} has as many messages waiting for a person as it may")
        return Admission(InboxVerdict.HELD, refusal=full)
    return await _admission(docket, arrival, decision)


async def admitted(kernel: Kernel, message_id: str) -> None:
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
            if admission.changes != Changes():
                await kernel.store.commit(admission.changes._replace(messages=(stored,)))
        except Stale:
            continue
        if admission.refusal is not None:
            raise admission.refusal
        return
    raise UnknownMessage(f"{message_id} changes faster than it can be read")


# ---------------------------------------------------------------- before it is judged


async def _judged_before(kernel: Kernel, receipt: InboxReceipt) -> Admission:
    """The earlier verdict on a message."""
    if receipt.status is InboxVerdict.HELD:
        docket = MailboxDocket(kernel)
        approval = await docket.approval(receipt.approval_id)
        if approval is not None and approval.pending and approval.expires_at <= docket.at:
            await expire_due(kernel)
            receipt = await kernel.store.record(InboxReceipt, receipt.id) or receipt
        elif approval is not None:
            return Admission(InboxVerdict.HELD, refusal=docket.held(approval))
    refusal = _Refused(receipt.code, receipt.reason) if receipt.status is InboxVerdict.REFUSED else None
    return Admission(receipt.status, refusal=refusal)


class _Refused(ParleyError):
    """An earlier refusal, with its code."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code  # type: ignore[misc]  # of this one


def _check_tenant(docket: MailboxDocket, message: Message) -> None:
    """Refuse another tenant's message, before its envelope is read."""
    envelope = message.extras.get("ocip")
    source = envelope.get("source_agent") if isinstance(envelope, dict) else None
    tenant = source.get("tenant_id") if isinstance(source, dict) else None
    if tenant is not None and tenant != docket.tenant:
        raise CrossEnterpriseBlocked("nothing crosses from one tenant to another")


def _concerned(docket: MailboxDocket, sender: Party) -> bool:
    policy = docket.book.between(sender.attributes, docket.me.attributes)
    return docket.governance.set_up and concerns(policy, sender, docket.me)


async def _exchange(
    docket: MailboxDocket, message: Message, carried: Carried | None, human: HumanDecision | None
) -> Exchange | None:
    """The exchange of a message in this agent's ledger."""
    if human is not None:
        return await docket.exchange(human.approval.exchange_id)
    ext = carried.ext if carried is not None else None
    conversation = carried.envelope.conversation_id if carried is not None else message.conversation_id
    pair = pair_name(message.sender, docket.kernel.agent if len(message.to) == 1 else EVERYONE)
    exchanges = await docket.kernel.store.records(Exchange, conversation) if conversation else ()
    mine = next((exchange for exchange in exchanges if exchange.name == pair), None)
    named = await docket.exchange(ext.exchange_id) if ext is not None else None
    if ext is not None and (mine or named) and (mine is None or mine.id != ext.exchange_id):
        _wrong("ocip_ext.exchange_id", "is not that of this conversation")
    return mine


async def _from_myself(docket: MailboxDocket, arrival: _Arrival, carried: Carried | None) -> Admission | None:
    """Admit a note to oneself, which was judged when it was sent; refuse one that was never sent."""
    if carried is None:
        return None
    stored = arrival.stored
    if all(sent.digest != stored.digest for sent in await docket.kernel.store.find(stored.message.id)):
        raise IdentityMismatch("it says that it is from me, and I never sent it")
    exchange = await _exchange(docket, stored.message, carried, None)
    if exchange is None:
        return None
    receipt = await _receipt(docket, arrival, InboxVerdict.ADMITTED, exchange.id)
    return Admission(InboxVerdict.ADMITTED, Changes(puts=(receipt,), tenant=docket.tenant))


def _with_view(docket: MailboxDocket, arrival: _Arrival) -> _Arrival:
    """The exchange one round before this message, with limits above the maximum lowered to it.

    Messages are taken in the order of their urgency, so an earlier one may still wait: any round fits that no other
    message has had.
    """
    carried, mine = arrival.carried, arrival.mine
    if carried is None:
        return arrival._replace(view=mine)
    envelope = carried.envelope
    number = envelope.exchange_round
    exchange = mine or _begun(docket, arrival, carried)
    most = min(envelope.max_rounds, exchange.max_rounds)
    ends = min(stamp(parse_time(envelope.expires_at)), exchange.expires_at)
    if ends <= docket.at and not exchange.over:
        raise ExchangeExpired(f"the exchange expired at {ends}")
    had = any(turn.round == number for turn in exchange.transcript)
    if had or (number > most and envelope.message_type is not Origin.HUMAN):
        expected = (mine.current_round if mine is not None else 0) + 1
        raise RoundMismatch(f"round {number} does not fit here", facts={"exchange_round": expected})
    hops = carried.ext.hops if carried.ext is not None else 1
    view = replace(exchange, current_round=number - 1, hops=hops, max_rounds=most, expires_at=ends)
    lowered = envelope._replace(max_rounds=most, expires_at=envelope_time(ends))
    return arrival._replace(view=view, carried=carried._replace(envelope=lowered))


def _begun(docket: MailboxDocket, arrival: _Arrival, carried: Carried) -> Exchange:
    """The exchange that this message starts."""
    envelope: Envelope = carried.envelope
    sender, message = arrival.sender, arrival.stored.message
    policy = docket.book.between(sender.attributes, docket.me.attributes)
    if policy is None:
        raise PolicyUnavailable("no enterprise policy: nothing is allowed")
    latest = docket.now + timedelta(hours=policy.exchange_hours)
    return Exchange(
        id=carried.ext.exchange_id if carried.ext is not None else f"exch_{message.id}"[:128],
        tenant_id=docket.tenant,
        conversation_id=envelope.conversation_id,
        # What I began, my ledger would know.
        initiator=sender.agent,
        responder=docket.kernel.agent if len(message.to) == 1 else EVERYONE,
        purpose=purpose_of(envelope.reply_policy, requires_commitment=envelope.requires_commitment),
        reply_policy=envelope.reply_policy,
        requires_commitment=envelope.requires_commitment,
        max_rounds=rounds_of(policy, sender, docket.me, None),
        started_at=docket.at,
        expires_at=stamp(latest),
        policy_version=policy.version,
    )


# ---------------------------------------------------------------- the judgement


def _ruled(docket: MailboxDocket, arrival: _Arrival) -> tuple[Proposal, Ruling]:
    """Rule on the message, for the exchange in this agent's ledger."""
    message, carried, view, mine = arrival.stored.message, arrival.carried, arrival.view, arrival.mine
    claims = carried.envelope if carried is not None else None
    ext = carried.ext if carried is not None else None
    human = arrival.origin is Origin.HUMAN
    sender = arrival.sender._replace(human=human)
    if claims is not None and view is not None:
        check_claims(claims, source_of(sender, docket.tenant), arrival.origin, sender.attributes, view)
        if mine is not None:
            check_open(mine, sender.agent, docket.at, human=human)
            check_fixed(Wishes(envelope=claims), view)
    withheld = ext.withheld if ext is not None else ()
    approved = arrival.human.approval if arrival.human is not None else None
    if approved is None and arrival.proof is not None:
        approved = arrival.proof.approval
    proposal = Proposal(
        tenant=docket.tenant,
        sender=sender,
        receivers=(docket.me,),
        to=addressee(message),
        asks=KIND_SPECS[message.kind].pattern in (Pattern.REQUEST, Pattern.RESPONSE),
        wishes=Wishes(
            classification=claims.classification if claims is not None else None,
            conversation_id=view.conversation_id if view is not None else message.conversation_id,
            data=ext.shared if ext is not None else (),
            beside=tuple([text for item in withheld for text in (item.source, *item.fields, item.description) if text]),
        ),
        body=message.body,
        text=held_mail.text_of(message),
        exchange=view,
        others=(),
        approval=approved if not human else None,
        now=docket.now,
        fresh=messages.fresh_ids(docket),
        arrived=True,
    )
    ruling = rule(proposal, docket.book)
    if claims is not None:
        ruling = ruling._replace(origin=claims.message_type, envelope=claims)
    if isinstance(ruling.verdict, Allow) and withheld:
        ruling = ruling._replace(withheld=withheld)
    return proposal._replace(exchange=mine), ruling._replace(exchange=_merged(docket, arrival, ruling))


def _merged(docket: MailboxDocket, arrival: _Arrival, ruling: Ruling) -> Exchange:
    """The exchange after this message, with its round in order."""
    mine, after = arrival.mine, ruling.exchange
    rounds = mine.current_round if mine is not None else 0
    if not isinstance(ruling.verdict, Allow):
        return replace(after, current_round=rounds)
    turns = tuple(sorted(after.transcript, key=lambda turn: turn.round))
    after = replace(after, current_round=max(after.current_round, rounds), transcript=turns)
    ext = arrival.carried.ext if arrival.carried is not None else None
    proof = arrival.proof
    if ext is not None and proof is not None and ext.outcome == Outcome.RESOLVED.value and not after.over:
        # A person answered where there were no more rounds: their side has ended it, and so does mine.
        return ended(after, Outcome.RESOLVED, docket.at, proof.approval.decided_by, "answered by a person")
    return after


def _submission(docket: MailboxDocket, arrival: _Arrival) -> Submission[StoredMessage]:
    stored, human, proof = arrival.stored, arrival.human, arrival.proof
    carries = human.approval.id if human is not None else proof.approval.id if proof is not None else ""
    signer = proof.approval.decided_by if proof is not None else ""
    return Submission(
        message_id=stored.message.id,
        sender=arrival.sender,
        receivers=(docket.me,),
        to=addressee(stored.message),
        actor=signer if arrival.origin is Origin.HUMAN and signer else arrival.sender.agent,
        key=human.key_id if human is not None else "",
        user=docket.me.user,
        annotated=arrival.carried is not None,
        digest=stored.digest,
        hold=lambda _: held_mail.incoming(stored.message, docket.kernel.agent, stored.digest),
        deliver=lambda _: Delivered(stored, stored.digest),
        incoming=True,
        dedup_key=f"{INCOMING}{stored.digest}",
        releases=human.approval if human is not None and not human.answers else None,
        approval_id=carries,
        approved_by=human.user if human is not None else signer,
        note=human.note if human is not None else "",
    )


async def _admission(docket: MailboxDocket, arrival: _Arrival, decision: RulesDecision[StoredMessage]) -> Admission:
    """The admission that follows from a decision, with the receipt of the file."""
    human, refusal = arrival.human, decision.refusal
    exchange_id = decision.exchange.id if decision.exchange is not None else ""
    used: tuple[Record, ...] = ()
    if arrival.proof is not None and not arrival.proof.used.version:
        used = (arrival.proof.used,)
    if decision.held is not None:
        receipt = await _receipt(docket, arrival, InboxVerdict.HELD, exchange_id)
        waits = replace(receipt, approval_id=decision.held.id)
        return Admission(InboxVerdict.HELD, await docket.changes(decision, waits, *used), docket.held(decision.held))
    if refusal is None:
        status = InboxVerdict.ANSWERED if human is not None and human.answers else InboxVerdict.ADMITTED
        receipt = await _receipt(docket, arrival, status, exchange_id)
        return Admission(status, await docket.changes(decision, receipt, *used))
    if human is not None:
        # It still waits, unless this ended its exchange.
        return Admission(InboxVerdict.REFUSED, await docket.changes(decision), refusal)
    receipt = await _receipt(docket, arrival, InboxVerdict.REFUSED, "")
    refused = replace(receipt, code=refusal.code, reason=refusal.message)
    return Admission(InboxVerdict.REFUSED, await docket.changes(decision, refused), refusal)


async def _receipt(docket: MailboxDocket, arrival: _Arrival, status: InboxVerdict, exchange_id: str) -> InboxReceipt:
    stored = arrival.stored
    before = await docket.kernel.store.record(InboxReceipt, stored.digest)
    if before is not None:
        return replace(before, status=status, exchange_id=exchange_id or before.exchange_id)
    return InboxReceipt(
        id=stored.digest,
        tenant_id=docket.tenant,
        message_id=stored.message.id,
        file=arrival.file,
        status=status,
        at=docket.at,
        exchange_id=exchange_id,
    )


def _wrong(field: str, detail: str) -> NoReturn:
    raise EnvelopeInvalid.because([Problem("invalid", field, detail)])
