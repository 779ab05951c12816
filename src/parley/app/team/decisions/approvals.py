"""Decisions of people about held messages: release, reject, or answer in their place.

The decision, what comes of it and both sides' entries are one commit, so nothing is released twice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from parley.app.rules import approvals as rules
from parley.app.team.channels import posting, venues
from parley.app.team.decisions import links
from parley.app.team.retry import committed
from parley.app.team.rules.docket import TeamDocket, commit
from parley.app.team.rules.governing import PersonDecision
from parley.app.team.state.suspended import check_not_suspended
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.errors.rules import HumanRequired, NotReleasable
from parley.domain.exchange.approval import Approval, ApprovalStatus, Decision, DecisionRight, deciders_of, is_outdated
from parley.domain.message.message import Pattern
from parley.domain.store.changes import RecordQuery
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.channels.posting import PendingCommit
    from parley.app.team.team import Team
    from parley.domain.store.changes import TeamChanges

# Records of a page: few, because each may be as long as a body.
_PAGE = 32


class ApprovalDecision(NamedTuple):
    """A person's decision. `answer` is JSON, sent in place of the held message."""

    decision: Decision
    digest: str
    note: str = ""
    answer: bytes = b""


class ListOrder(StrEnum):
    """The order of a list of approvals."""

    OLDEST = "oldest"
    NEWEST = "newest"
    # The one that expires first is the first.
    EXPIRING = "expiring"


class ApprovalFilter(NamedTuple):
    """Which approvals to list; an empty field matches all. `after` and `before` are ids."""

    status: ApprovalStatus | None = None
    # Every status but pending.
    decided: bool = False
    agent: str = ""
    user: str = ""
    to: str = ""
    cause: str = ""
    order: ListOrder = ListOrder.OLDEST
    after: str = ""
    before: str = ""
    limit: int = 100


_ALL = ApprovalFilter()


async def list_page(team: Team, caller: Caller, wanted: ApprovalFilter = _ALL) -> AsyncIterator[Approval]:
    """The approvals of a caller: of a person, of an agent, or of the tenant for admins."""
    docket = await TeamDocket.open(team, caller.tenant)
    query, is_exact = _query_of(docket, caller, wanted)
    cursor = wanted.before or wanted.after
    if cursor:
        last = await team.store.get(Approval, caller.tenant, cursor) if query.order else None
        query = query._replace(after=(last.expires_at if last is not None else "", cursor))
    passed = 0
    while True:
        page = await team.store.find(Approval, caller.tenant, query)
        for approval in page:
            if is_exact or await _sees(docket, caller, approval):
                passed += 1
                yield approval
                if passed == wanted.limit:
                    return
        if len(page) < query.limit:
            return
        query = query._replace(after=(page[-1].expires_at, page[-1].id))


async def count(team: Team, caller: Caller, wanted: ApprovalFilter = _ALL) -> int:
    """How many approvals a caller would be shown, up to the limit."""
    query, is_exact = _query_of(await TeamDocket.open(team, caller.tenant), caller, wanted)
    if is_exact:
        return await team.store.count_matching(Approval, caller.tenant, query._replace(limit=wanted.limit))
    return sum([1 async for _ in list_page(team, caller, wanted)])


def _query_of(docket: TeamDocket, caller: Caller, wanted: ApprovalFilter) -> tuple[RecordQuery, bool]:
    """The query of a store for a list, and whether the caller may see everything that it finds."""
    fields = {"agent": wanted.agent, "user": wanted.user, "to": wanted.to, "cause": wanted.cause}
    tests = [(name, value) for name, value in fields.items() if value]
    parent = None
    if wanted.status is not None or wanted.decided:
        parent = "pending" if wanted.status is ApprovalStatus.PENDING else "decided"
    if wanted.status is not None and parent == "decided":
        tests.append(("status", wanted.status.value))
    is_exact = True
    if caller.kind is KeyKind.HUMAN:
        is_exact = not docket.book.names_approver(caller.user)
        tests += [("user", caller.user)] if is_exact else []
    elif not caller.all_seeing:
        tests.append(("agent", caller.agent))
    order = "expires_at" if wanted.order is ListOrder.EXPIRING else ""
    newest = wanted.order is ListOrder.NEWEST or bool(wanted.before)
    return RecordQuery(parent, tuple(tests), order, newest=newest, limit=_PAGE), is_exact


async def get(team: Team, caller: Caller, approval_id: str) -> Approval:
    """One approval. `NotFound` when it does not concern the caller."""
    return await _get(await TeamDocket.open(team, caller.tenant), caller, approval_id)


async def _get(docket: TeamDocket, caller: Caller, approval_id: str) -> Approval:
    approval = await docket.approval(approval_id)
    if approval is None or not await _sees(docket, caller, approval):
        raise NotFound.no_such("approval")
    return approval


async def sees(team: Team, caller: Caller, approval: Approval) -> bool:
    """Whether a caller may see an approval: its sender, those who may decide, and admins."""
    return await _sees(await TeamDocket.open(team, approval.tenant_id), caller, approval)


async def _sees(docket: TeamDocket, caller: Caller, approval: Approval) -> bool:
    if caller.kind in (KeyKind.ADMIN, KeyKind.SERVICE) and not caller.agent:
        return True
    if caller.kind is not KeyKind.HUMAN:
        return caller.agent == approval.agent
    return await rules.is_seen_by(docket, approval, caller.user)


async def deciders(team: Team, approval: Approval) -> tuple[str, ...]:
    """The people who may decide about it."""
    policy = await (await TeamDocket.open(team, approval.tenant_id)).policy_for(approval)
    return deciders_of(approval, policy.approvers, self_approval=policy.self_approval)


async def is_stale(team: Team, approval: Approval) -> bool:
    """Whether the policies have changed since it was held, so that approving it asks for another look."""
    docket = await TeamDocket.open(team, approval.tenant_id)
    return approval.pending and is_outdated(approval, docket.book.label)


async def standing(team: Team, caller: Caller, approval: Approval) -> DecisionRight:
    """Who may decide about a pending approval, and whether this caller may."""
    return await rules.standing(await TeamDocket.open(team, approval.tenant_id), approval, caller)


async def closed_with(team: Team, approval: Approval) -> tuple[str, ...]:
    """The other held messages of its agent that a rejection closes, or closed."""
    return await rules.closed_with(await TeamDocket.open(team, approval.tenant_id), approval)


async def decide(team: Team, caller: Caller, approval_id: str, deciding: ApprovalDecision) -> Approval:
    """Decide about a pending approval, once."""
    if caller.kind is not KeyKind.HUMAN:
        raise HumanRequired("only a person decides this, with a key of their own")
    if deciding.decision is Decision.REJECT:
        return await _reject(team, caller, approval_id, deciding)
    approval = await team.store.get(Approval, caller.tenant, approval_id)
    if approval is None:
        raise NotFound.no_such("approval")
    async with team.governance.lock(caller.tenant, approval.conversation_id or approval.id):
        decided, _ = await posting.decide_and_commit(team, caller, lambda: _speak(team, caller, approval_id, deciding))
    if decided.held is not None:
        raise NotReleasable("the exchange has reached its limit meanwhile", facts={"approval": decided.held.id})
    assert decided.decision is not None  # noqa: S101  # what answers an approval is always judged
    return decided.decision.decided[0]


async def _checked(docket: TeamDocket, caller: Caller, approval_id: str, deciding: ApprovalDecision) -> Approval:
    """The current approval, if this person may see it and make this decision."""
    approval = await _get(docket, caller, approval_id)
    if caller.link:
        await links.check_decision(docket.team, caller, approval)
    await rules.check(docket, approval, caller, deciding.decision, deciding.digest)
    return approval


async def _speak(team: Team, caller: Caller, approval_id: str, deciding: ApprovalDecision) -> PendingCommit:
    """Post the held message, judged again, or the person's answer in its place."""
    docket = await TeamDocket.open(team, caller.tenant)
    await check_not_suspended(team.store, caller)  # the docket depends on the suspensions already
    approval = await _checked(docket, caller, approval_id, deciding)
    await _check_place(team, approval)
    draft, answers = held_draft(team, approval), deciding.decision is Decision.ANSWER
    if answers:
        if not deciding.answer:
            raise Invalid.because([Problem("required", "answer", "what you say in its place")])
        draft = draft._replace(payload=deciding.answer, metadata=b"{}", wishes=None)
    kind = KeyKind.HUMAN if answers or approval.human else KeyKind.AGENT
    return await posting.decide(
        team,
        Caller(caller.tenant, approval.agent, kind, caller.key_id, caller.user, saved=caller.saved),
        lambda: venues.venue_of(team, caller, approval.channel_id),
        (draft,),
        (team.new_id("msg"),),
        PersonDecision(
            docket, None if answers else approval, approval if answers else None, deciding.note, caller.link
        ),
    )


async def _check_place(team: Team, approval: Approval) -> None:
    """Refuse what a person wrote in place of an agent that acts for somebody else by now."""
    record = await team.store.get(AgentRecord, approval.tenant_id, approval.agent) if approval.human else None
    if record is not None and record.attributes.user_id != approval.user:
        detail = f"{approval.agent} no longer acts for {approval.user}"
        raise NotReleasable(detail, hint="reject it", facts={"approval": approval.id})


async def _reject(team: Team, caller: Caller, approval_id: str, deciding: ApprovalDecision) -> Approval:
    rejected: list[Approval] = []

    async def decide() -> TeamChanges:
        docket = await TeamDocket.open(team, caller.tenant)
        approval = await _checked(docket, caller, approval_id, deciding)
        decision = await rules.refuse(
            docket,
            approval,
            ApprovalStatus.REJECTED,
            caller.user,
            key=caller.key_id,
            note=deciding.note,
            link=caller.link,
        )
        rejected.append(decision.approvals[0])
        return await docket.changes(decision)

    await committed(team, caller, decide, "approval")
    return rejected[-1]


async def expire(team: Team, tenant: str, approval_id: str) -> None:
    """Deny an approval that has expired."""
    docket = await TeamDocket.open(team, tenant)
    approval = await docket.approval(approval_id)
    if approval is not None and approval.pending and approval.expires_at <= docket.at:
        await commit(docket, await rules.expire(docket, approval))


def held_draft(team: Team, approval: Approval) -> PostDraft:
    """The draft of a held message."""
    held = approval.draft
    if held is None:
        raise NotReleasable("it has no message to send", facts={"approval": approval.id})
    metadata = held.metadata.encode()
    forwards, asker = team.envelopes.forwarded(metadata) if held.pattern == Pattern.REQUEST.value else ("", "")
    return PostDraft(
        Pattern(held.pattern),
        held.payload.encode(),
        # A response goes to the one who asked; it names nobody itself.
        "" if held.pattern in (Pattern.RESPONSE.value, Pattern.BROADCAST.value) else held.to,
        held.in_reply_to,
        metadata,
        from_stamp(held.expires_at) if held.expires_at else None,
        wishes=team.envelopes.wishes(metadata),
        partial=team.envelopes.is_partial(Pattern(held.pattern), metadata),
        forwards=forwards,
        asker=asker,
    )
