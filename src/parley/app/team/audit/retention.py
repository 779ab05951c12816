"""Retention: trim old audit documents and erase message content. Hashes stay, so all other proofs stay valid.

entry:   hash ── document          the document of an old entry is removed; its hash stays a leaf of the tree
message: place ── content          the content is erased; the audit log only ever had its digest
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.rules.docket import RulesDecision
from parley.app.rules.recording import decision_entry
from parley.app.team.audit.checkpoints import mark_of
from parley.app.team.retry import committed
from parley.app.team.rules.docket import TeamDocket
from parley.domain.audit.checkpoint import ERASED, LET_GO
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.channel.timer import Timer
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, SYSTEM, Tenant
from parley.domain.errors.errors import Invalid, NotFound, ParleyError, Problem, Stale
from parley.domain.exchange.approval import Approval, ApprovalStatus, decided
from parley.domain.exchange.exchange import Exchange, released
from parley.domain.store.changes import AuditQuery, ErasureQuery, TeamChanges
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import ErasableMessage

_log = logging.getLogger("parley.audit")
_LOOK_SECONDS = 60.0
# Documents trimmed in one commit; other commits run in between.
_MOST = 10_000
_PAGE = 500
# Messages erased in one commit.
_PIECE = 1_000
GONE = "[erased]"


# ---------------------------------------------------------------- old documents


async def trim_forever(team: Team) -> None:
    """Trim the audit logs, one batch a minute, until cancelled."""
    while True:
        try:
            await trim_due(team)
        except ParleyError as error:
            _log.warning("nothing was let go of", extra={"action": LET_GO, "code": error.code})
        await asyncio.sleep(_LOOK_SECONDS)


async def trim_due(team: Team) -> int:
    """Remove audit documents past their retention in all tenants; return how many."""
    if not team.limits.audit_retention_days or team.clock.now().stepped:
        return 0
    tenants = {tenant.id for tenant in await team.store.children(Tenant, NO_TENANT, "")} | {DEFAULT_TENANT}
    return sum([await _trim(team, tenant) for tenant in sorted(tenants)])


async def _trim(team: Team, tenant: str) -> int:
    """Trim the oldest documents of a tenant that a signed checkpoint covers."""
    mark = await mark_of(team, tenant)
    end = stamp(team.now() - timedelta(days=team.limits.audit_retention_days))
    through = min(mark.size, mark.let_go + _MOST)
    if through <= mark.let_go:
        return 0
    query = AuditQuery(after=mark.let_go, through=through, limit=1, since=end, bare=True)
    recent = await team.store.audits(tenant, query)
    through = recent[0].number - 1 if recent else through
    if through <= mark.let_go:
        return 0
    facts = {"through": through, "checkpoint": mark.size, "older_than": end}
    draft = _draft(team, LET_GO, SYSTEM, facts)
    changes = TeamChanges(tenant, puts=(replace(mark, let_go=through),), audits=(draft,), trim_audit=through)
    try:
        await team.store.commit(changes)
    except Stale:
        return 0  # a checkpoint was committed meanwhile: retried next time
    return through - mark.let_go


# ---------------------------------------------------------------- what was said


class Erasure(NamedTuple):
    """What was erased, and the audit entry that records it: the last one, if there are several."""

    messages: int
    exchanges: int
    approvals: int
    entry_id: str


async def erase(team: Team, caller: Caller, *, conversation_id: str = "", agent_id: str = "") -> Erasure:
    """Erase the content of a conversation, or of an agent's or person's messages. The audit entries stay.

    Large erasures run in batches, so that others can write in between. Each batch is one commit with an audit entry
    about what it erases and the count so far. After an interruption the next call erases the rest.
    `NotFound` when there is nothing to erase.
    """
    if bool(conversation_id) == bool(agent_id):
        raise Invalid.because([Problem("required", "conversation_id", "name a conversation or an agent, not both")])
    exchanges = await (
        _of_conversation(team, caller.tenant, conversation_id)
        if conversation_id
        else _of_agent(team, caller.tenant, agent_id)
    )
    approvals = [
        approval async for approval in _approvals(team, caller.tenant) if _asks(approval, conversation_id, agent_id)
    ]
    timer_count = await _drop_timers(team, caller.tenant, agent_id) if agent_id else 0
    approval_count = sum([await _erase_approval(team, caller, approval.id) for approval in approvals])
    exchange_count = sum([await _erase_exchange(team, caller, exchange_id, agent_id) for exchange_id in exchanges])
    which = {"conversation_id": conversation_id} if conversation_id else {"agent_id": agent_id}
    done = Erasure(0, exchange_count, approval_count, "")
    last: tuple[ErasableMessage, ...] = ()
    async for piece in _pieces(team, caller.tenant, ErasureQuery(exchanges if conversation_id else (), agent_id)):
        if last:
            done = await _erase_piece(team, caller._replace(saved=None), which, last, done)
        last = piece
    # The last batch carries the idempotency key: a repeated call before that erases the rest.
    if last:
        done = await _erase_piece(team, caller, which, last, done)
    if not done.entry_id and (approval_count or exchange_count or timer_count):
        done = await _erase_piece(team, caller, which, (), done)
    if not done.entry_id:  # nothing to erase, so nothing is recorded
        raise NotFound("nothing was found to erase: it was never said, or erased before")
    return done


async def _pieces(team: Team, tenant: str, words: ErasureQuery) -> AsyncIterator[tuple[ErasableMessage, ...]]:
    """The messages to erase, in batches small enough for a short commit."""
    messages: list[ErasableMessage] = []
    after = 0
    while True:
        more, after = await team.store.words(tenant, words, after)
        messages += more
        while len(messages) >= _PIECE or (messages and not after):
            yield tuple(messages[:_PIECE])
            del messages[:_PIECE]
        if not after:
            return


async def _erase_piece(
    team: Team, caller: Caller, which: dict[str, str], piece: tuple[ErasableMessage, ...], done: Erasure
) -> Erasure:
    """Erase one batch and record it, in one commit."""
    facts: dict[str, Any] = {**which, **done._asdict(), "key": caller.key_id}
    before = facts.pop("entry_id")
    if before:
        facts["continues"] = before
    draft = _draft(team, ERASED, caller.actor, facts)
    try:
        changes = TeamChanges(caller.tenant, audits=(draft,), erase=piece, created_id=draft.id)
        written = await team.commit(caller, changes)
    except NotFound:
        return done  # erased concurrently
    # What is remembered about governed messages has the metadata of those that are alike.
    team.governed_decisions.clear()
    return done._replace(messages=done.messages + written.erased, entry_id=draft.id)


def _asks(approval: Approval, conversation_id: str, agent_id: str) -> bool:
    if conversation_id:
        return approval.conversation_id == conversation_id
    return approval.agent == agent_id


async def _erase_exchange(team: Team, caller: Caller, exchange_id: str, agent_id: str) -> bool:
    """Erase what an agent, or everyone, said in an exchange; whether there was anything."""

    async def decide() -> TeamChanges | None:
        exchange = await team.store.get(Exchange, caller.tenant, exchange_id)
        if exchange is None:
            return None
        turns = tuple(
            replace(turn, summary=GONE, shared=(), withheld=()) if not agent_id or turn.sender == agent_id else turn
            for turn in exchange.transcript
        )
        blanked = replace(exchange, transcript=turns, note="")
        if not agent_id or exchange.denied_by == agent_id:
            blanked = replace(blanked, denied_by="", denied_data=())
        return TeamChanges(caller.tenant, puts=(blanked,)) if blanked != exchange else None

    return await committed(team, caller._replace(saved=None), decide, "exchange") is not None


async def _erase_approval(team: Team, caller: Caller, approval_id: str) -> bool:
    """Erase a held message and close its approval if it is pending; whether there was anything."""

    async def decide() -> TeamChanges | None:
        docket = await TeamDocket.open(team, caller.tenant)
        approval = await docket.approval(approval_id)
        if approval is None:
            return None
        before, exchange = approval, await docket.exchange(approval.exchange_id)
        audits: tuple[AuditDraft, ...] = ()
        if approval.pending:
            approval = decided(approval, ApprovalStatus.CLOSED, caller.actor, docket.at, "erased")
            audits = (decision_entry(docket, approval, approval.agent, caller.actor, caller.key_id),)
        draft = replace(approval.draft, payload="{}", metadata="{}") if approval.draft else None
        escalation = {**approval.escalation, "conversationSummary": GONE} if approval.escalation else None
        note = GONE if approval.note else ""
        blanked = replace(approval, draft=draft, escalation=escalation, note=note)
        if blanked == before:
            return None
        if not before.pending:
            return TeamChanges(caller.tenant, puts=(blanked,))
        going_on = released(exchange, approval.id) if exchange is not None else None
        return await docket.changes(RulesDecision(audits, going_on, (blanked,)))

    return await committed(team, caller._replace(saved=None), decide, "approval") is not None


async def _of_conversation(team: Team, tenant: str, conversation_id: str) -> tuple[str, ...]:
    exchange_ids: list[str] = []
    while page := await team.store.children(
        Exchange, tenant, conversation_id, after=exchange_ids[-1] if exchange_ids else "", limit=_PAGE
    ):
        exchange_ids += [exchange.id for exchange in page]
    return tuple(exchange_ids)


async def _of_agent(team: Team, tenant: str, agent_id: str) -> tuple[str, ...]:
    """The exchanges of an agent, from its side of the audit log."""
    exchange_ids: dict[str, None] = {}
    after = 0
    while page := await team.store.audits(tenant, AuditQuery(after, 0, _MOST, (agent_id,), bare=True)):
        exchange_ids.update(dict.fromkeys(entry.exchange_id for entry in page if entry.exchange_id))
        after = page[-1].number
    return tuple(exchange_ids)


async def _drop_timers(team: Team, tenant: str, agent: str) -> int:
    """Drop the messages that an agent has scheduled; how many there were."""
    count = 0
    while timers := await team.store.children(Timer, tenant, agent, limit=_PAGE):
        for timer in timers:
            try:
                await team.store.commit(TeamChanges(tenant, drops=(timer,)))
            except Stale:
                continue  # it was posted meanwhile
            count += 1
    return count


async def _approvals(team: Team, tenant: str) -> AsyncIterator[Approval]:
    after = ""
    while page := await team.store.every(Approval, tenant, after=after, limit=_PAGE):
        for approval in page:
            yield approval
        after = page[-1].id


def _draft(team: Team, action: str, actor: str, facts: dict[str, Any]) -> AuditDraft:
    return AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), action, actor, facts)
