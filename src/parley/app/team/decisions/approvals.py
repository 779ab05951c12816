"""What a person decides: release what was held, refuse it, or answer in its place. Only a person does.

The decision, what comes of it and both sides' entries are one commit, so nothing is released twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from parley.app.team.channels import posting
from parley.app.team.channels.posting import Held
from parley.app.team.retry import put
from parley.app.team.rules import holding
from parley.app.team.rules import in_force as rules
from parley.domain.channel.post import PostDraft
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.errors.rules import ApprovalStale, HumanRequired, NotReleasable
from parley.domain.exchange.approval import (
    LIMITS,
    NOT_WAITING,
    Approval,
    ApprovalStatus,
    Decision,
    DecisionRight,
    check_decidable,
    check_may_decide,
    content_digest,
    decided,
    deciders_of,
    standing_of,
)
from parley.domain.exchange.exchange import Exchange, Outcome, ended, released
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import Policy
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from parley.app.team.channels.posting import Decided
    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.record import Expect, Record

_PAGE = 500


class Deciding(NamedTuple):
    """What a person says about an approval. `answer` is JSON: what it says itself instead."""

    decision: Decision
    digest: str
    note: str = ""
    answer: bytes = b""


async def listed(
    team: Team, caller: Caller, *, status: ApprovalStatus | None = None, after: str = "", limit: int = 100
) -> list[Approval]:
    """The approvals that concern a caller, oldest first: a person's own, an agent's own, an admin's whole tenant."""
    parents = ["pending"] if status is ApprovalStatus.PENDING else ["decided"]
    if status is None:
        parents.insert(0, "pending")
    found: list[Approval] = []
    for parent in parents:
        place, enough = after, len(found) + limit
        while len(found) < enough:
            page = await team.store.children(Approval, caller.tenant, parent, after=place, limit=_PAGE)
            for one in page:
                if (status is None or one.status is status) and await sees(team, caller, one):
                    found.append(one)
            if len(page) < _PAGE:
                break
            place = page[-1].id
    return sorted(found, key=lambda one: one.id)[:limit]


async def show(team: Team, caller: Caller, approval_id: str) -> Approval:
    """One approval; whomever it does not concern is told that there is none."""
    found = await team.store.get(Approval, caller.tenant, approval_id)
    if found is None or not await sees(team, caller, found):
        raise NotFound("there is no such approval")
    return found


async def sees(team: Team, caller: Caller, approval: Approval) -> bool:
    """Whose message waits, who may decide about it, and who rules the tenant."""
    if caller.kind in (KeyKind.ADMIN, KeyKind.SERVICE) and not caller.agent:
        return True
    if caller.kind is not KeyKind.HUMAN:
        return caller.agent == approval.agent
    return caller.user == approval.user or caller.user in (await _policy(team, approval)).approvers


async def deciders(team: Team, approval: Approval) -> tuple[str, ...]:
    """The people who may decide about it."""
    policy = await _policy(team, approval)
    return deciders_of(approval, policy.approvers, self_approval=policy.self_approval)


async def standing(team: Team, caller: Caller, approval: Approval) -> DecisionRight:
    """Who may still decide about it, and whether this caller may; nobody when it is decided."""
    if not approval.pending:
        return NOT_WAITING
    policy = await _policy(team, approval)
    return standing_of(approval, caller, policy.approvers, self_approval=policy.self_approval)


async def decide(team: Team, caller: Caller, approval_id: str, deciding: Deciding) -> Approval:
    """Decide about what waits, once."""
    if caller.kind is not KeyKind.HUMAN:
        raise HumanRequired("only a person decides this, with a key of its own")
    approval = await show(team, caller, approval_id)
    await _check(team, caller, approval, deciding)
    if deciding.decision is Decision.REJECT:
        return await _reject(team, caller, approval_id, deciding)
    async with team.governance.queue(caller.tenant, approval.conversation_id or approval.id):
        answers = deciding.decision is Decision.ANSWER
        said = await posting.settled(
            team, caller, lambda: (_answering if answers else _releasing)(team, caller, approval_id, deciding)
        )
    if isinstance(said, Held):
        raise NotReleasable("the exchange has reached its limit meanwhile", facts={"approval": said.approval.id})
    return await show(team, caller, approval_id)


async def _check(team: Team, caller: Caller, approval: Approval, deciding: Deciding) -> Policy:
    """That this person may decide this, now, and has seen what there is to decide."""
    policy = await _policy(team, approval)
    check_may_decide(approval, caller, policy.approvers, self_approval=policy.self_approval)
    check_decidable(approval, deciding.decision, deciding.digest, team.at())
    return policy


async def _policy(team: Team, approval: Approval) -> Policy:
    """The policy of the side that wants to speak; without one nobody but its own person decides."""
    in_force = await rules.in_force(team, approval.tenant_id, [])
    party = await rules.party(team, approval.tenant_id, approval.agent)
    return in_force.book.of(party.attributes) or Policy()


async def _releasing(team: Team, caller: Caller, approval_id: str, deciding: Deciding) -> Decided:
    """The held message, decided about as if it came now; only that a person has looked at it."""
    approval = await show(team, caller, approval_id)
    await _check(team, caller, approval, deciding)
    expects: list[Expect] = []
    await _refresh(team, approval, expects)
    kind = KeyKind.HUMAN if approval.human else KeyKind.AGENT
    speaker = Caller(caller.tenant, approval.agent, kind, caller.key_id, caller.user, saved=caller.saved)
    noted = replace(approval, note=deciding.note)
    draft = held_draft(team, approval)
    released = await posting.decide(team, speaker, approval.channel_id, (draft,), (team.new_id("msg"),), approval=noted)
    if released.held is not None or released.refusal is not None:
        return released
    changes = released.changes
    payload, level = changes.posts[0].payload, str(changes.audits[0].facts["classification"])
    if payload != draft.payload or level != approval.classification:
        await _look_again(team, replace(approval, classification=level), approval.policy_version, payload.decode())
    first = _entry(team, caller, approval, ApprovalStatus.APPROVED.value, deciding.note)
    # Under the policy that was just seen, and no other.
    changes = changes._replace(expects=(*changes.expects, *expects), audits=(first, *changes.audits))
    return released._replace(changes=changes)


async def _refresh(team: Team, approval: Approval, expects: list[Expect]) -> None:
    """An approval belongs to a policy. Under another one the person has to look again, at a new digest."""
    label = (await rules.in_force(team, approval.tenant_id, expects)).book.label
    if approval.draft is not None and approval.policy_version != label:
        await _look_again(team, approval, label, approval.draft.payload)


async def _look_again(team: Team, approval: Approval, label: str, payload: str) -> NoReturn:
    """Nothing goes out that nobody has seen: the person has to look at what would be sent now."""
    assert approval.draft is not None  # noqa: S101  # there is something to be sent
    draft = replace(approval.draft, payload=payload)
    digest = content_digest(draft, approval.agent, approval.classification, label)
    again = replace(approval, policy_version=label, draft=draft, digest=digest)
    await team.store.commit(TeamChanges(approval.tenant_id, puts=(again,)))
    raise ApprovalStale(
        "what would be sent, or the policy, has changed since it was held; look at it again",
        facts={"approval": approval.id, "digest": digest},
    )


async def _answering(team: Team, caller: Caller, approval_id: str, deciding: Deciding) -> Decided:
    """The person speaks for itself, in its agent's place."""
    approval = await show(team, caller, approval_id)
    await _check(team, caller, approval, deciding)
    if not deciding.answer:
        raise Invalid.because([Problem("required", "answer", "what you say in its place")])
    speaker = Caller(caller.tenant, approval.agent, KeyKind.HUMAN, caller.key_id, caller.user, saved=caller.saved)
    held = held_draft(team, approval)
    draft = held._replace(payload=deciding.answer, metadata=b"{}", wishes=None)
    spoken = await posting.decide(
        team, speaker, approval.channel_id, (draft,), (team.new_id("msg"),), instead_of=approval
    )
    if spoken.held is not None or spoken.refusal is not None:
        return spoken
    post = spoken.changes.posts[0]
    over = decided(approval, ApprovalStatus.ANSWERED, caller.user, team.at(), deciding.note, post.id)
    puts: list[Record] = [over]
    closed = holding.Closing()
    for one in spoken.changes.puts:
        if isinstance(one, Exchange):
            after = _answered(team, one, approval, caller)
            if after.over and not one.over:
                closed = await holding.closing(team, one, caller.user, but=approval.id)
            puts.append(after)
        else:
            puts.append(one)
    first = _entry(team, caller, approval, ApprovalStatus.ANSWERED.value, deciding.note)
    changes = spoken.changes._replace(
        puts=(*puts, *closed.approvals),
        audits=(first, *spoken.changes.audits, *closed.audits),
        spends=(*spoken.changes.spends, *holding.left_queue(approval), *closed.spends),
    )
    return spoken._replace(changes=await holding.told(team, changes, over, *closed.approvals))


def _answered(team: Team, exchange: Exchange, approval: Approval, caller: Caller) -> Exchange:
    """A limit is over when a person has answered; anything else goes on."""
    if exchange.over:
        return exchange
    if approval.cause in LIMITS:
        return ended(exchange, Outcome.RESOLVED, team.at(), caller.user, "answered by a person")
    return released(exchange, approval.id)


async def _reject(team: Team, caller: Caller, approval_id: str, deciding: Deciding) -> Approval:
    async def decide() -> TeamChanges:
        approval = await show(team, caller, approval_id)
        await _check(team, caller, approval, deciding)
        return await refusing(team, caller, approval, ApprovalStatus.REJECTED, deciding.note)

    return await put(team, caller, decide, Approval, "approval")


async def refusing(team: Team, caller: Caller, approval: Approval, status: ApprovalStatus, note: str) -> TeamChanges:
    """What is written when what was held never goes out: its exchange is denied with it."""
    by = caller.user or caller.actor
    over = decided(approval, status, by, team.at(), note)
    puts: list[Record] = [over]
    spends = [*holding.left_queue(approval)]
    audits: tuple[AuditDraft, ...] = (_entry(team, caller, approval, status.value, note),)
    exchange = await team.store.get(Exchange, approval.tenant_id, approval.exchange_id)
    if exchange is not None and not exchange.over:
        # Where both times have passed, it is the exchange's that counts.
        past = status is ApprovalStatus.EXPIRED and exchange.expires_at <= team.at()
        puts.append(ended(exchange, Outcome.EXPIRED if past else Outcome.DENIED, team.at(), by, status.value))
        closed = await holding.closing(team, exchange, by, but=approval.id)
        puts += closed.approvals
        spends += closed.spends
        audits += closed.audits
    changes = TeamChanges(approval.tenant_id, puts=tuple(puts), audits=audits, spends=tuple(spends))
    return await holding.told(team, changes, *holding.decided_of(puts))


async def expire(team: Team, tenant: str, approval_id: str) -> None:
    """Nobody decided in time, which is a no."""
    approval = await team.store.get(Approval, tenant, approval_id)
    if approval is None or not approval.pending or approval.expires_at > team.at():
        return
    nobody = Caller.system(tenant)
    await team.store.commit(await refusing(team, nobody, approval, ApprovalStatus.EXPIRED, ""))


def held_draft(team: Team, approval: Approval) -> PostDraft:
    """What was held, as a draft again."""
    held = approval.draft
    if held is None:
        raise NotReleasable("there is nothing to send in it", facts={"approval": approval.id})
    metadata = held.metadata.encode()
    return PostDraft(
        Pattern(held.pattern),
        held.payload.encode(),
        # A response goes to the one who asked; it names nobody itself.
        "" if held.pattern in (Pattern.RESPONSE.value, Pattern.BROADCAST.value) else held.to,
        held.in_reply_to,
        metadata,
        from_stamp(held.expires_at) if held.expires_at else None,
        wishes=team.envelopes.wishes(metadata),
    )


def _entry(team: Team, caller: Caller, approval: Approval, decision: str, note: str) -> AuditDraft:
    return holding.decision_entry(team, caller.user or caller.actor, caller.key_id, approval, decision, note)
