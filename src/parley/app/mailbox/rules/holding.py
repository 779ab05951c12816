"""Approvals in a mailbox's own ledger: what waits for a person, and that nobody waits for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parley.app.mailbox.rules import recording
from parley.domain.directory.callers import SYSTEM
from parley.domain.errors.errors import Stale
from parley.domain.errors.rules import ApprovalQueueFull, MessageHeld
from parley.domain.exchange.approval import Approval, ApprovalStatus, HeldDraft, content_digest, decided, deciders_of
from parley.domain.exchange.exchange import Exchange, Outcome, ended
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.mailbox.ledger import Changes
from parley.domain.rules.policy import Policy
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.record import Record
    from parley.domain.rules.judge import Hold
    from parley.domain.rules.ruling import Ruling

PENDING = "pending"


def waiting(  # noqa: PLR0913  # one parameter a fact
    approval_id: str,
    ruling: Ruling,
    hold: Hold,
    draft: HeldDraft,
    told: dict[str, Any] | None,
    *,
    sender: str,
    user: str,
    at: str,
    unique: str = "",
) -> Approval:
    """The approval of a message: `user` is the person who has to look at it."""
    level, version = ruling.level.value, ruling.policy.version
    ends = from_stamp(at) + timedelta(hours=ruling.policy.approval_hours)
    return Approval(
        id=approval_id,
        tenant_id=ruling.exchange.tenant_id,
        cause=hold.cause,
        reason=hold.reason,
        detected_keywords=ruling.keywords,
        escalation=told,
        exchange_id=ruling.exchange.id,
        conversation_id=ruling.exchange.conversation_id,
        agent=sender,
        user=user,
        to=draft.to,
        purpose=ruling.exchange.purpose,
        classification=level,
        draft=draft,
        digest=content_digest(draft, sender, level, version),
        policy_version=version,
        created_at=at,
        # Nobody decides about what is over anyway.
        expires_at=min(stamp(ends), ruling.exchange.expires_at),
        unique=unique,
    )


async def check_room(kernel: Kernel, policy: Policy) -> None:
    """Refuse one more when a person's patience is used up."""
    if len(await kernel.store.records(Approval, PENDING, limit=policy.open_approvals)) >= policy.open_approvals:
        raise ApprovalQueueFull(f"{kernel.agent} has as many messages waiting for a person as it may")


def deciders(kernel: Kernel, approval: Approval) -> tuple[str, ...]:
    """The people who may decide about it."""
    policy = own_policy(kernel)
    return deciders_of(approval, policy.approvers, self_approval=policy.self_approval)


def own_policy(kernel: Kernel) -> Policy:
    """The policy of this mailbox's agent, which says who decides here."""
    governance = kernel.governance.load()
    return governance.book.of(governance.party(kernel.agent).attributes) or Policy()


def held(kernel: Kernel, approval: Approval) -> MessageHeld:
    """What a sender is told of a message that waits."""
    facts: dict[str, object] = {
        "approval": approval.id,
        "reason": approval.reason,
        "cause": approval.cause.value,
        "user": approval.user,
        "detectedKeywords": list(approval.detected_keywords),
        "exchange_id": approval.exchange_id,
        "conversation_id": approval.conversation_id,
        "digest": approval.digest,
        "expires_at": approval.expires_at,
        "deciders": list(deciders(kernel, approval)),
    }
    if approval.escalation is not None:
        facts["escalation"] = approval.escalation
    hint = f"nobody has it until a person decides: parley approvals show {approval.id}"
    return MessageHeld(approval.reason, hint=hint, facts=facts)


async def refusing(
    kernel: Kernel, approval: Approval, status: ApprovalStatus, by: str, note: str = ""
) -> tuple[Changes, Approval]:
    """What is written when what was held never goes on: its exchange is denied with it."""
    at = recording.now(kernel)
    over = decided(approval, status, by, at, note)
    puts: list[Record] = [over]
    audits = [recording.decision(kernel, approval, status.value, by, note)]
    exchange = await kernel.store.record(Exchange, approval.exchange_id)
    if exchange is not None and not exchange.over:
        denied = ended(exchange, Outcome.DENIED, at, by, status.value)
        puts += [denied, *await closing(kernel, exchange, by, but=approval.id)]
        audits.append(recording.ending(kernel, denied, by))
    receipt = await receipt_of(kernel, approval)
    if receipt is not None:
        puts.append(_with(receipt, InboxVerdict.REFUSED, status.value, f"its approval was {status.value}"))
    return Changes(puts=tuple(puts), audits=tuple(audits), tenant=approval.tenant_id), over


async def closing(kernel: Kernel, exchange: Exchange, by: str, but: str = "") -> tuple[Record, ...]:
    """What waits in an exchange that ends: nobody has to decide about it any more."""
    closed: list[Record] = []
    for approval_id in dict.fromkeys((*exchange.holds, exchange.limit_approval)):
        known = await kernel.store.record(Approval, approval_id) if approval_id else None
        if known is None or not known.pending or known.id == but:
            continue
        closed.append(decided(known, ApprovalStatus.CLOSED, by, recording.now(kernel), "its exchange ended"))
        receipt = await receipt_of(kernel, known)
        if receipt is not None:
            closed.append(_with(receipt, InboxVerdict.REFUSED, "exchange_closed", "its exchange ended"))
    return tuple(closed)


async def receipt_of(kernel: Kernel, approval: Approval) -> InboxReceipt | None:
    """The receipt of the incoming message that an approval is about; None for one of my own."""
    kind, _, digest = approval.unique.partition("/")
    return await kernel.store.record(InboxReceipt, digest) if kind == "incoming" else None


def _with(receipt: InboxReceipt, status: InboxVerdict, code: str, reason: str) -> InboxReceipt:
    from dataclasses import replace

    return replace(receipt, status=status, code=code, reason=reason)


async def sweep(kernel: Kernel) -> None:
    """Deny what nobody decided about in time, and end the exchanges whose time has passed."""
    at = recording.now(kernel)
    for approval in await kernel.store.records(Approval, PENDING):
        if approval.expires_at <= at:
            changes, _ = await refusing(kernel, approval, ApprovalStatus.EXPIRED, SYSTEM)
            await _commit(kernel, changes)
    after = ""
    while page := await kernel.store.records(Exchange, after=after):
        after = page[-1].id
        for exchange in page:
            if exchange.over or exchange.expires_at > at:
                continue
            over = ended(exchange, Outcome.EXPIRED, at, SYSTEM, "its time has passed")
            puts = (over, *await closing(kernel, exchange, SYSTEM))
            audits = (recording.ending(kernel, over, SYSTEM),)
            await _commit(kernel, Changes(puts=puts, audits=audits, tenant=exchange.tenant_id))


async def _commit(kernel: Kernel, changes: Changes) -> None:
    try:
        await kernel.store.commit(changes)
    except Stale:
        return  # somebody was faster, and has decided
