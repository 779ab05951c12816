"""Judge a message in the inbox on this side, too: nothing is handed over because somebody else said that it may be.

tenant, identity, exchange and expiry, round, org unit, clearance, hops ──> admitted | held for my person | refused
What comes of it is written with my own entry, in one commit, before anybody has the message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from parley.app.mailbox.rules import holding, recording
from parley.app.mailbox.rules.proving import vouched
from parley.app.mailbox.rules.sending import fresh, spent
from parley.domain.agents.party import pair_name, source_of
from parley.domain.content.envelope import Carried, Origin, Wishes, purpose_of
from parley.domain.directory.callers import EVERYONE
from parley.domain.errors.errors import ParleyError, Problem, Stale, UnknownMessage
from parley.domain.errors.rules import (
    ApprovalQueueFull,
    CrossEnterpriseBlocked,
    EnvelopeInvalid,
    ExchangeExpired,
    IdentityMismatch,
    PolicyDenied,
    PolicyUnavailable,
    RoundMismatch,
    Suspended,
)
from parley.domain.exchange import held as held_mail
from parley.domain.exchange.approval import Approval, Cause
from parley.domain.exchange.exchange import Exchange, check_open, escalation
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.mailbox.ledger import Changes, StoredMessage
from parley.domain.message.message import Pattern
from parley.domain.rules.judge import Deny, Hold, rounds_of
from parley.domain.rules.rulebook import concerns
from parley.domain.rules.ruling import Proposal, Ruling, rule
from parley.domain.rules.stamping import check_claims, check_fixed
from parley.domain.rules.suspension import check_not_stopped
from parley.domain.times import from_stamp, parse_time, stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.app.mailbox.rules.proving import Proof
    from parley.domain.agents.party import Party
    from parley.domain.content.envelope import Envelope
    from parley.domain.message.message import Message
    from parley.domain.record import Record
    from parley.domain.rules.project import Governance

_ATTEMPTS = 8


class Admission(NamedTuple):
    """What became of a message in the inbox, and what has to be written for it."""

    status: InboxVerdict
    # Nothing, when all of it was written before.
    changes: Changes = Changes()
    refusal: ParleyError | None = None

    @property
    def admitted(self) -> bool:
        """It may be handed over."""
        return self.status is InboxVerdict.ADMITTED

    @property
    def waits(self) -> bool:
        """It stays where it is."""
        return self.status is InboxVerdict.HELD

    @property
    def answered(self) -> bool:
        """A person has answered it; nobody else needs to."""
        return self.status is InboxVerdict.ANSWERED


class _Seen(NamedTuple):
    """A message as this side sees it, before it is judged."""

    kept: StoredMessage
    file: str
    sender: Party
    me: Party
    carried: Carried | None
    # The exchange in my ledger, and as it is for this message: one round before it.
    mine: Exchange | None
    view: Exchange | None
    # What a person signed for it, and the approval that it goes by.
    proof: Proof | None
    approval: Approval | None


async def met(kernel: Kernel, kept: StoredMessage, file: str, approval: Approval | None = None) -> Admission | None:
    """What the rules make of a message in the inbox; None when they do not concern it.

    It is judged once; `approval` is that of my person, who has looked at what was held.
    """
    receipt = await kernel.store.record(InboxReceipt, kept.digest)
    if receipt is not None and approval is None:
        return await _again(kernel, receipt)
    governance = kernel.governance.load()
    sender, me = governance.party(kept.message.sender), governance.party(kernel.agent)
    mine: Exchange | None = None
    try:
        check_not_stopped(governance.directory.stopped, sender, me)
        carried = _carried(kernel, governance, kept)
        if kept.message.sender == kernel.agent:
            return await _from_myself(kernel, governance, kept, file, carried)
        mine = await _exchange(kernel, kept.message, carried, approval)
        if carried is None and mine is None and not _concerned(governance, sender, me):
            return None
        proof = await vouched(kernel, governance, sender, me.agent, carried, kept)
        view = _view(governance, sender, me, kept.message, carried, mine, at=recording.now(kernel))
        going_by = approval or (proof.approval if proof is not None else None)
        seen = _Seen(kept, file, sender, me, carried, mine, view, proof, going_by)
        ruling = _judged(kernel, governance, seen)
        if isinstance(ruling.verdict, Deny):
            return await _denied(kernel, seen, ruling, ruling.verdict.error)
        if isinstance(ruling.verdict, Hold):
            return await _held(kernel, seen, ruling, ruling.verdict)
        return await _passed(kernel, seen, ruling, approval)
    except Stale:
        raise
    except (Suspended, ApprovalQueueFull) as refusal:
        return Admission(InboxVerdict.HELD, refusal=refusal)  # it lies where it lies until that is over
    except ParleyError as refusal:
        label = governance.book.label
        entry = recording.refused(kernel, kept.message, sender, refusal, kept.digest, recording.RECEIVED, label, mine)
        return await _refused(kernel, kept, file, refusal, Changes(audits=(entry,), tenant=governance.tenant))


async def admitted(kernel: Kernel, message_id: str) -> None:
    """See to it that a message that is answered or finished without being claimed was judged, and may be had."""
    from parley.app.mailbox import find

    found = next((one for one in await find.by_id(kernel, message_id) if "ocip" in one.message.extras), None)
    if found is None:
        return
    for _ in range(_ATTEMPTS):
        kept = StoredMessage(found.message, found.content, found.digest)
        admission = await met(kernel, kept, found.file)
        if admission is None:
            return
        try:
            if admission.changes != Changes():
                await kernel.store.commit(admission.changes._replace(messages=(kept,)))
        except Stale:
            continue
        if admission.refusal is not None:
            raise admission.refusal
        return
    raise UnknownMessage(f"{message_id} changes faster than it can be read")


# ---------------------------------------------------------------- before it is judged


async def _again(kernel: Kernel, receipt: InboxReceipt) -> Admission:
    """What was judged before stays as it was decided."""
    if receipt.status is InboxVerdict.HELD:
        approval = await kernel.store.record(Approval, receipt.approval_id)
        if approval is not None and approval.pending and approval.expires_at <= recording.now(kernel):
            await holding.sweep(kernel)
            receipt = await kernel.store.record(InboxReceipt, receipt.id) or receipt
        elif approval is not None:
            return Admission(InboxVerdict.HELD, refusal=holding.held(kernel, approval))
    refusal = _Refused(receipt.code, receipt.reason) if receipt.status is InboxVerdict.REFUSED else None
    return Admission(receipt.status, refusal=refusal)


class _Refused(ParleyError):
    """What was refused before, with the code that it was refused with."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code  # type: ignore[misc]  # of this one


def _carried(kernel: Kernel, governance: Governance, kept: StoredMessage) -> Carried | None:
    """The envelope, read strictly; the wall between tenants comes before everything else about it."""
    if "ocip" not in kept.message.extras:
        return None
    carried = kernel.envelopes.read(kept.content)
    if carried.envelope.source_agent.tenant_id != governance.tenant:
        raise CrossEnterpriseBlocked("nothing crosses from one tenant to another")
    return carried


def _concerned(governance: Governance, sender: Party, me: Party) -> bool:
    policy = governance.book.between(sender.attributes, me.attributes)
    return governance.set_up and concerns(policy, sender, me)


async def _exchange(
    kernel: Kernel, message: Message, carried: Carried | None, approval: Approval | None
) -> Exchange | None:
    """The exchange that a message belongs to, as my ledger knows it."""
    if approval is not None:
        return await kernel.store.record(Exchange, approval.exchange_id)
    ext = carried.ext if carried is not None else None
    conversation = carried.envelope.conversation_id if carried is not None else message.conversation_id
    to = kernel.agent if len(message.to) == 1 else EVERYONE
    pair = pair_name(message.sender, to)
    known = await kernel.store.records(Exchange, conversation) if conversation else ()
    mine = next((one for one in known if one.name == pair), None)
    named = await kernel.store.record(Exchange, ext.exchange_id) if ext is not None else None
    if ext is not None and (mine or named) and (mine is None or mine.id != ext.exchange_id):
        _wrong("ocip_ext.exchange_id", "is not that of this conversation")
    return mine


async def _from_myself(
    kernel: Kernel, governance: Governance, kept: StoredMessage, file: str, carried: Carried | None
) -> Admission | None:
    """A note to myself was judged when I sent it; one that I never sent is none of mine."""
    if carried is None:
        return None
    if all(one.digest != kept.digest for one in await kernel.store.find(kept.message.id)):
        raise IdentityMismatch("it says that it is from me, and I never sent it")
    mine = await _exchange(kernel, kept.message, carried, None)
    if mine is None:
        return None
    facts = {
        **recording.RECEIVED,
        "exchange_id": mine.id,
        "conversation_id": mine.conversation_id,
        "round": carried.envelope.exchange_round,
        "classification": carried.envelope.classification.value,
        "sender": kernel.agent,
        "receivers": [kernel.agent],
        "content_digest": kept.digest,
        "message_id": kept.message.id,
        "outcome": "delivered",
        "policy": governance.book.label,
    }
    receipt = _receipt(kernel, kept, file, InboxVerdict.ADMITTED, governance.tenant, mine.id)
    entry = recording.entry(kernel, facts, mine.id)
    return Admission(InboxVerdict.ADMITTED, Changes(puts=(receipt,), audits=(entry,), tenant=governance.tenant))


def _view(
    governance: Governance,
    sender: Party,
    me: Party,
    message: Message,
    carried: Carried | None,
    mine: Exchange | None,
    *,
    at: str,
) -> Exchange | None:
    """The exchange one round before this message. Messages are taken in the order of their urgency, so an earlier one
    may still wait: any round fits that no other message has had.
    """
    if carried is None:
        return mine
    envelope = carried.envelope
    number = envelope.exchange_round
    most = mine.max_rounds if mine is not None else envelope.max_rounds
    had = mine is not None and any(turn.round == number for turn in mine.transcript)
    if had or (number > most and envelope.message_type is not Origin.HUMAN):
        expected = (mine.current_round if mine is not None else 0) + 1
        raise RoundMismatch(f"round {number} does not fit here", facts={"exchange_round": expected})
    hops = carried.ext.hops if carried.ext is not None else 1
    if mine is not None:
        return replace(mine, current_round=number - 1, hops=hops)
    return _begun(governance, sender, me, message, carried, hops, at=at)


def _begun(
    governance: Governance, sender: Party, me: Party, message: Message, carried: Carried, hops: int, *, at: str
) -> Exchange:
    """The exchange that this is the first message of, as far as I know. What it claims must fit my rules."""
    envelope: Envelope = carried.envelope
    policy = governance.book.between(sender.attributes, me.attributes)
    if policy is None:
        raise PolicyUnavailable("there is no enterprise policy: nothing is allowed")
    most = rounds_of(policy, sender, me, None)
    if envelope.max_rounds > most:
        raise PolicyDenied(f"the exchange wants {envelope.max_rounds} rounds, at most {most} are allowed")
    ends = stamp(parse_time(envelope.expires_at))
    if ends <= at:
        raise ExchangeExpired(f"the exchange expired at {ends}")
    if (from_stamp(ends) - from_stamp(at)).total_seconds() > policy.exchange_hours * 3600:
        raise PolicyDenied(f"the exchange wants to last longer than {policy.exchange_hours} hours")
    return Exchange(
        id=carried.ext.exchange_id if carried.ext is not None else f"exch_{message.id}"[:128],
        tenant_id=governance.tenant,
        conversation_id=envelope.conversation_id,
        # What I began, my ledger would know.
        initiator=sender.agent,
        responder=me.agent if len(message.to) == 1 else EVERYONE,
        purpose=purpose_of(envelope.reply_policy, requires_commitment=envelope.requires_commitment),
        reply_policy=envelope.reply_policy,
        requires_commitment=envelope.requires_commitment,
        max_rounds=envelope.max_rounds,
        current_round=envelope.exchange_round - 1,
        hops=hops,
        started_at=at,
        expires_at=ends,
        policy_version=policy.version,
    )


# ---------------------------------------------------------------- the judgement


def _judged(kernel: Kernel, governance: Governance, seen: _Seen) -> Ruling:
    message, carried, view = seen.kept.message, seen.carried, seen.view
    claims = carried.envelope if carried is not None else None
    origin = claims.message_type if claims is not None else Origin.AGENT
    if claims is not None and view is not None:
        check_claims(claims, source_of(seen.sender, governance.tenant), origin, seen.sender.attributes, view)
        if seen.mine is not None:
            check_open(seen.mine, seen.sender.agent, recording.now(kernel), human=origin is Origin.HUMAN)
            check_fixed(Wishes(envelope=claims), seen.mine)
    wishes = Wishes(
        classification=claims.classification if claims is not None else None,
        conversation_id=view.conversation_id if view is not None else message.conversation_id,
    )
    from parley.domain.message.bodies import KIND_SPECS

    proposal = Proposal(
        tenant=governance.tenant,
        sender=seen.sender._replace(human=origin is Origin.HUMAN),
        receivers=(seen.me,),
        to=seen.me.agent if len(message.to) == 1 else EVERYONE,
        asks=KIND_SPECS[message.kind].pattern in (Pattern.REQUEST, Pattern.RESPONSE),
        wishes=wishes,
        body=message.body,
        text=held_mail.text_of(message),
        exchange=view,
        others=(),
        approval=seen.approval if origin is not Origin.HUMAN else None,
        now=kernel.clock.now().at,
        fresh=fresh(kernel),
    )
    ruling = rule(proposal, governance.book)
    kept = claims if claims is not None else ruling.envelope
    return ruling._replace(origin=kept.message_type, envelope=kept)


async def _passed(kernel: Kernel, seen: _Seen, ruling: Ruling, approval: Approval | None) -> Admission:
    exchange = _merged(seen.mine, ruling.exchange)
    tenant = exchange.tenant_id
    receipt = await _known_receipt(kernel, seen.kept, seen.file, InboxVerdict.ADMITTED, tenant, exchange.id)
    pair = pair_name(seen.sender.agent, recording.addressee(seen.kept.message))
    puts: list[Record] = [exchange, receipt, await spent(kernel, tenant, pair), *_used(seen)]
    more: dict[str, object] = {**recording.RECEIVED, "outcome": "delivered", "receivers": [kernel.agent]}
    if approval is not None:
        more |= {"approval": approval.id}
    elif seen.proof is not None:
        more |= {"approval": seen.proof.approval.id, "approved_by": seen.proof.approval.decided_by}
    told = ruling._replace(exchange=exchange)
    entry = recording.judged(kernel, seen.kept.message, told, seen.kept.digest, more)
    return Admission(InboxVerdict.ADMITTED, Changes(puts=tuple(puts), audits=(entry,), tenant=tenant))


def _used(seen: _Seen) -> tuple[Record, ...]:
    """That the approval of this message is used up, where that is not known yet."""
    return (seen.proof.used,) if seen.proof is not None and not seen.proof.used.version else ()


def _merged(mine: Exchange | None, after: Exchange) -> Exchange:
    """The exchange with this round in its place among those that are known."""
    rounds = max(after.current_round, mine.current_round if mine is not None else 0)
    turns = tuple(sorted(after.transcript, key=lambda turn: turn.round))
    return replace(after, current_round=rounds, transcript=turns)


async def _held(kernel: Kernel, seen: _Seen, ruling: Ruling, hold: Hold) -> Admission:
    """The message waits for my person; my agent does not get it until then."""
    await holding.check_room(kernel, ruling.policy)
    message, digest = seen.kept.message, seen.kept.digest
    exchange = replace(ruling.exchange, current_round=seen.mine.current_round if seen.mine is not None else 0)
    limit = hold.cause is Cause.ROUND_LIMIT
    approval_id = exchange.limit_approval if limit else exchange.holds[-1]
    known = await kernel.store.record(Approval, approval_id) if limit else None
    told = escalation(seen.view, message.sender, ruling.summary) if limit and seen.view is not None else None
    approval = known or holding.waiting(
        approval_id,
        ruling,
        hold,
        held_mail.incoming(message, kernel.agent, digest),
        told,
        sender=message.sender,
        user=seen.me.user,
        at=recording.now(kernel),
        unique=f"incoming/{digest}",
    )
    tenant = exchange.tenant_id
    receipt = await _known_receipt(kernel, seen.kept, seen.file, InboxVerdict.HELD, tenant, exchange.id)
    receipt = replace(receipt, approval_id=approval.id)
    more = {**recording.RECEIVED, "outcome": "held", "reason": hold.reason, "approval": approval.id}
    entry = recording.judged(kernel, message, ruling._replace(exchange=exchange), digest, more)
    waits = (approval,) if known is None else ()
    puts: tuple[Record, ...] = (exchange, receipt, *waits, *_used(seen))
    changes = Changes(puts=puts, audits=(entry,), tenant=tenant)
    return Admission(InboxVerdict.HELD, changes, holding.held(kernel, approval))


async def _denied(kernel: Kernel, seen: _Seen, ruling: Ruling, error: ParleyError) -> Admission:
    more = {**recording.RECEIVED, "outcome": "denied", "reason": error.message, "code": error.code}
    more["receivers"] = [kernel.agent]  # type: ignore[assignment]  # a list, as everywhere
    entry = recording.judged(kernel, seen.kept.message, ruling, seen.kept.digest, more)
    puts: tuple[Record, ...] = ()
    if seen.mine is not None and ruling.exchange.over and not seen.mine.over:
        puts = (replace(ruling.exchange, current_round=seen.mine.current_round),)
    changes = Changes(puts=puts, audits=(entry,), tenant=ruling.exchange.tenant_id)
    return await _refused(kernel, seen.kept, seen.file, error, changes)


async def _refused(kernel: Kernel, kept: StoredMessage, file: str, refusal: ParleyError, changes: Changes) -> Admission:
    receipt = await _known_receipt(kernel, kept, file, InboxVerdict.REFUSED, changes.tenant, "")
    receipt = replace(receipt, code=refusal.code, reason=refusal.message)
    return Admission(InboxVerdict.REFUSED, changes._replace(puts=(*changes.puts, receipt)), refusal)


async def _known_receipt(
    kernel: Kernel, kept: StoredMessage, file: str, status: InboxVerdict, tenant: str, exchange: str
) -> InboxReceipt:
    known = await kernel.store.record(InboxReceipt, kept.digest)
    if known is not None:
        return replace(known, status=status, exchange_id=exchange or known.exchange_id)
    return _receipt(kernel, kept, file, status, tenant, exchange)


def _receipt(
    kernel: Kernel, kept: StoredMessage, file: str, status: InboxVerdict, tenant: str, exchange: str
) -> InboxReceipt:
    at = recording.now(kernel)
    message_id = kept.message.id
    return InboxReceipt(
        id=kept.digest, tenant_id=tenant, message_id=message_id, file=file, status=status, at=at, exchange_id=exchange
    )


def _wrong(field: str, detail: str) -> NoReturn:
    raise EnvelopeInvalid.because([Problem("invalid", field, detail)])
