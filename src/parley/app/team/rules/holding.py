"""Approvals as they are made: what waits for a person, bound to exactly what would be sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.team import system_posts
from parley.domain.audit.entry import AuditDraft
from parley.domain.channel.channel import Channel
from parley.domain.content.classification import DEFAULT_LEVEL
from parley.domain.content.envelope import Origin
from parley.domain.directory.callers import EVERYONE
from parley.domain.exchange.approval import Approval, ApprovalStatus, Cause, HeldDraft, content_digest, decided
from parley.domain.hashes import digest
from parley.domain.record import expecting
from parley.domain.rules.policy import Policy
from parley.domain.store.changes import Spend
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.app.team.rules.proposed import Message
    from parley.app.team.team import Team
    from parley.domain.agents.party import Party
    from parley.domain.channel.post import Post
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.record import Record
    from parley.domain.rules.judge import Hold
    from parley.domain.rules.ruling import Ruling
    from parley.domain.store.changes import TeamChanges

QUEUE = "approvals/"
# What the audit log, and the word to the agent, call it that something was decided.
DECIDED = "approval_decided"
_BY_A_PERSON = frozenset({ApprovalStatus.APPROVED, ApprovalStatus.REJECTED, ApprovalStatus.ANSWERED})


def queue_of(agent: str) -> str:
    """The budget of an agent's messages that may wait at once."""
    return QUEUE + agent


def left_queue(approval: Approval) -> tuple[Spend, ...]:
    """That one of them was decided about. What is only one of its kind never took a place there."""
    return () if approval.unique else (Spend(queue_of(approval.agent), 0, amount=-1),)


class Closing(NamedTuple):
    """What is written about approvals that nobody has to decide any more."""

    approvals: tuple[Approval, ...] = ()
    spends: tuple[Spend, ...] = ()
    audits: tuple[AuditDraft, ...] = ()


async def closing(team: Team, exchange: Exchange, by: str, but: str = "") -> Closing:
    """What waits in an exchange that ends, whatever it ends by."""
    found = Closing()
    for approval_id in dict.fromkeys((*exchange.holds, exchange.limit_approval)):
        known = await team.store.get(Approval, exchange.tenant_id, approval_id) if approval_id else None
        if known is not None and known.pending and known.id != but:
            closed = decided(known, ApprovalStatus.CLOSED, by, team.at(), "its exchange ended")
            entry = decision_entry(team, by, "", closed, closed.status.value, closed.note)
            found = Closing((*found.approvals, closed), (*found.spends, *left_queue(closed)), (*found.audits, entry))
    return found


async def told(team: Team, changes: TeamChanges, *approvals: Approval) -> TeamChanges:
    """The changes, and in the same commit a word to each agent about what became of what it wanted to say.

    Nobody else sees it. Where the channel is closed or gone, nothing is said.
    """
    now = team.at()
    posts, expects = list(changes.posts), list(changes.expects)
    for approval in approvals:
        channel = await team.store.get(Channel, approval.tenant_id, approval.channel_id)
        if channel is None or not await system_posts.is_alive(team, channel, now):
            continue
        posts.append(_word(team, channel, approval, now))
        if (still := expecting(channel)) not in expects:
            expects.append(still)
    return changes._replace(posts=tuple(posts), expects=tuple(expects))


def _word(team: Team, channel: Channel, approval: Approval, now: str) -> Post:
    # What is over by itself has a reason, but nobody wrote it.
    note = approval.note if approval.status in _BY_A_PERSON else ""
    payload = {
        "event": DECIDED,
        "approval_id": approval.id,
        "status": approval.status.value,
        "message_id": approval.message_id or None,
        "note": note or None,
    }
    post = system_posts.spoken(team, channel, team.envelopes.payload(payload), now, to=approval.agent)
    # It counts as nothing there; but what a person wrote is erased together with the conversation that it is about.
    return post._replace(exchange_id=approval.exchange_id) if note else post


def decided_of(puts: Iterable[Record]) -> tuple[Approval, ...]:
    """Those about which a commit decides."""
    return tuple([one for one in puts if isinstance(one, Approval) and not one.pending])


def decision_entry(team: Team, actor: str, key: str, approval: Approval, decision: str, note: str) -> AuditDraft:
    """That somebody decided, on the side of whose message it is."""
    facts = {
        "approval": approval.id,
        "decision": decision,
        "cause": approval.cause.value,
        "digest": approval.digest,
        "exchange_id": approval.exchange_id,
        "conversation_id": approval.conversation_id,
        "policy": approval.policy_version,
        "note": note,
        "key": key,
    }
    if approval.draft is not None:
        facts["content_digest"] = payload_digest(approval.draft)
    return AuditDraft(team.new_id("aud"), approval.agent, team.at(), DECIDED, actor, facts, approval.exchange_id)


def waiting(
    message: Message, ruling: Ruling, hold: Hold, payload: bytes, approval_id: str, told: dict[str, Any] | None
) -> Approval:
    """The approval that a held message waits for. `payload` is what would be sent."""
    placed = message.placed
    draft = replace(_held(placed, payload), expires_at=placed.expires_at)
    level = ruling.level.value
    version = ruling.policy.version
    ends = from_stamp(placed.created_at) + timedelta(hours=ruling.policy.approval_hours)
    return Approval(
        id=approval_id,
        tenant_id=message.caller.tenant,
        cause=hold.cause,
        reason=hold.reason,
        detected_keywords=ruling.keywords,
        escalation=told,
        exchange_id=ruling.exchange.id,
        conversation_id=ruling.exchange.conversation_id,
        channel_id=message.channel.id,
        agent=placed.sender,
        user=ruling.envelope.source_agent.user_id,
        human=ruling.origin is Origin.HUMAN,
        to=placed.to or EVERYONE,
        purpose=ruling.exchange.purpose,
        classification=level,
        draft=draft,
        digest=content_digest(draft, placed.sender, level, version),
        policy_version=version,
        created_at=placed.created_at,
        # Nobody decides about what is over anyway.
        expires_at=min(stamp(ends), ruling.exchange.expires_at, placed.expires_at or ruling.exchange.expires_at),
    )


def about_a_limit(
    team: Team,
    message: Message,
    sender: Party,
    cause: Cause,
    reason: str,
    *,
    unique: str,
    ruling: Ruling | None = None,
) -> Approval:
    """Something for a person to look at that releases nothing."""
    placed = message.placed
    policy = ruling.policy if ruling else Policy()
    draft = _held(placed, placed.payload)
    level = ruling.level.value if ruling else DEFAULT_LEVEL.value
    return Approval(
        id=team.new_id("appr"),
        tenant_id=message.caller.tenant,
        cause=cause,
        reason=reason,
        exchange_id=ruling.exchange.id if ruling else "",
        conversation_id=ruling.exchange.conversation_id if ruling else "",
        channel_id=message.channel.id,
        agent=placed.sender,
        user=sender.user,
        to=placed.to or EVERYONE,
        classification=level,
        draft=draft,
        digest=content_digest(draft, placed.sender, level, policy.version),
        policy_version=policy.version,
        created_at=placed.created_at,
        expires_at=stamp(from_stamp(placed.created_at) + timedelta(hours=policy.approval_hours)),
        unique=unique,
    )


def _held(placed: Post, payload: bytes) -> HeldDraft:
    """A message as it is kept for a person."""
    return HeldDraft(
        pattern=placed.pattern.value,
        to=placed.to,
        in_reply_to=placed.in_reply_to,
        payload=payload.decode(),
        metadata=placed.metadata.decode(),
    )


def payload_digest(draft: HeldDraft) -> str:
    """The digest of what would be said, as the entry of its delivery has it."""
    return digest(draft.payload.encode())


async def only_one(team: Team, tenant: str, unique: str) -> Approval | None:
    """The approval of which there is only one, decided or not."""
    for parent in ("pending", "decided"):
        known = await team.store.named(Approval, tenant, parent, unique)
        if known is not None:
            return known
    return None
