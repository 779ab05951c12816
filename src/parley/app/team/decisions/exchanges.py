"""Exchanges: list, get, close, and expire."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.rules import exchanges as rules
from parley.app.team.audit import reading as audits
from parley.app.team.decisions.transcripts import level_of_exchange
from parley.app.team.directory.names import agents_of_person, name_of_person
from parley.app.team.retry import put
from parley.app.team.rules.docket import TeamDocket, commit
from parley.domain.agents.agent import AgentRecord
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import HumanRequired
from parley.domain.exchange.approval import LIMITS, Approval
from parley.domain.exchange.exchange import Exchange, Outcome, heard_by, seen_by_side, with_note
from parley.domain.store.changes import AuditQuery, RecordQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.team import Team
    from parley.domain.content.classification import Classification
    from parley.domain.content.envelope import Purpose
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import TeamChanges

# Records of a page: few, because each may be as long as a body.
_PAGE = 32


class ExchangeQuery(NamedTuple):
    """Which exchanges to list; an empty field matches all. `after` and `before` are ids."""

    outcome: Outcome | None = None
    agent: str = ""
    conversation_id: str = ""
    # Of an agent that acts for this person, or of one in this org unit, by the directory of now.
    user: str = ""
    org_unit: str = ""
    pair: tuple[str, str] | None = None
    purpose: Purpose | None = None
    # The highest of its messages.
    classification: Classification | None = None
    # When it began.
    since: str = ""
    until: str = ""
    after: str = ""
    before: str = ""
    # Newest first; also with `before`.
    newest: bool = False
    limit: int = 100


async def list_page(team: Team, caller: Caller, query: ExchangeQuery) -> AsyncIterator[Exchange]:
    """The exchanges that a caller may see, oldest or newest first."""
    members = await _members(team, caller.tenant, query)
    levels = await audits.sight(team, caller) if query.classification is not None else None
    fields = (("purpose", query.purpose.value),) if query.purpose is not None else ()
    is_newest = query.newest or bool(query.before)
    cursor = query.before or query.after
    parent = query.conversation_id or None
    passed = 0
    while True:
        records = RecordQuery(parent, fields, after=("", cursor), newest=is_newest, limit=_PAGE)
        page = await team.store.find(Exchange, caller.tenant, records)
        for exchange in page:
            if _is_past(exchange, query, is_newest=is_newest):
                return
            if not _matches(exchange, query, members):
                continue
            visible = await _visible(team, caller, exchange)
            if visible is None or query.outcome not in (None, visible.outcome):
                continue
            if levels is not None and await level_of_exchange(team, exchange, levels) is not query.classification:
                continue
            passed += 1
            yield visible
            if passed == query.limit:
                return
        if len(page) < _PAGE:
            return
        cursor = page[-1].id


async def _members(team: Team, tenant: str, query: ExchangeQuery) -> list[frozenset[str]]:
    """The names of which an exchange must have one, for each filter on people and org units."""
    groups = []
    if query.user:
        own = await name_of_person(team, tenant, query.user)
        groups.append(frozenset([own, *[record.id for record in await agents_of_person(team, tenant, query.user)]]))
    if query.org_unit:
        limit = team.limits.agents_per_tenant + 1
        units = RecordQuery("", (("attributes.org_unit", query.org_unit),), limit=limit)
        groups.append(frozenset([record.id for record in await team.store.find(AgentRecord, tenant, units)]))
    return groups


def _is_past(exchange: Exchange, query: ExchangeQuery, *, is_newest: bool) -> bool:
    """Whether no exchange from here on can be of the period: ids are in the order of time, or a little off."""
    if is_newest:
        return bool(query.since) and exchange.started_at < query.since
    return bool(query.until) and exchange.started_at >= query.until


def _matches(exchange: Exchange, query: ExchangeQuery, members: list[frozenset[str]]) -> bool:
    started = exchange.started_at
    if started < query.since or (query.until and started >= query.until):
        return False
    if query.agent and not exchange.includes(query.agent):
        return False
    parties = {exchange.initiator, exchange.responder, *[turn.sender for turn in exchange.transcript]}
    if query.pair is not None and not parties.issuperset(query.pair):
        return False
    return all(parties & group for group in members)


async def get(team: Team, caller: Caller, exchange_id: str) -> Exchange:
    """One exchange. `NotFound` when the caller may not see it."""
    exchange = await team.store.get(Exchange, caller.tenant, exchange_id)
    visible = await _visible(team, caller, exchange) if exchange is not None else None
    if visible is None:
        raise NotFound.no_such("exchange")
    return visible


async def sees(team: Team, caller: Caller, exchange: Exchange) -> bool:
    """Whether a caller may see an exchange: its parties, the people they act for, and admins."""
    return await _visible(team, caller, exchange) is not None


async def _visible(team: Team, caller: Caller, exchange: Exchange) -> Exchange | None:
    """The exchange as the caller may see it; None when it may not.

    Before its first message only the initiator's side sees it: the name of a conversation is content, too.
    """
    if caller.all_seeing:
        return with_note(exchange)
    spoke = [turn.sender for turn in exchange.transcript]
    parties = dict.fromkeys((exchange.initiator, exchange.responder, *spoke) if spoke else (exchange.initiator,))
    if caller.kind is KeyKind.HUMAN:
        mine = [party for party in parties if await acts_for(team, caller, (party,))]
    else:
        mine = [caller.agent] if caller.agent in parties else []
    if not mine:
        return None
    visible = heard_by(seen_by_side(exchange, await _own_holds(team, exchange, mine)), mine)
    return with_note(visible) if exchange.ended_by in (*mine, caller.actor, caller.user) else visible


async def _own_holds(team: Team, exchange: Exchange, mine: list[str]) -> list[str]:
    """The approvals of an exchange that wait for messages of these agents; of those of others nobody is told."""
    own = []
    for approval_id in (*exchange.holds, exchange.limit_approval):
        approval = await team.store.get(Approval, exchange.tenant_id, approval_id) if approval_id else None
        if approval is not None and (approval.agent in mine or await _has_tried(team, approval, mine)):
            own.append(approval_id)
    return own


async def _has_tried(team: Team, approval: Approval, mine: list[str]) -> bool:
    """Whether one of these agents reached a limit, too, and was told of its one approval."""
    if approval.cause not in LIMITS:
        return False
    query = AuditQuery(limit=_PAGE, sides=tuple(mine), exchange_id=approval.exchange_id)
    entries = await team.store.audits(approval.tenant_id, query)
    return any(approval.id.encode() in entry.document for entry in entries)


async def acts_for(team: Team, caller: Caller, agents: tuple[str, ...]) -> bool:
    """Whether one of these agents acts for the person who calls, or is that person."""
    own = await name_of_person(team, caller.tenant, caller.user)
    for agent in agents:
        if own and agent == own:
            return True
        record = await team.store.get(AgentRecord, caller.tenant, agent)
        if record is not None and record.attributes.user_id == caller.user:
            return True
    return False


async def close(team: Team, caller: Caller, exchange_id: str, reason: str) -> Exchange:
    """Close an exchange as resolved. Only a person closes one that waits for a person."""

    async def decide() -> TeamChanges:
        docket = await TeamDocket.open(team, caller.tenant)
        exchange = await docket.exchange(exchange_id)
        if exchange is None or not await sees(team, caller, exchange):
            raise NotFound.no_such("exchange")
        visible = await _visible(team, caller, exchange)
        # Who does not know that a message of the other side is held may end the exchange; a limit is for people.
        waits = exchange.limit_approval or (visible is not None and visible.outcome is Outcome.ESCALATED)
        if exchange.outcome is Outcome.ESCALATED and waits and caller.kind is not KeyKind.HUMAN:
            raise HumanRequired("the exchange waits for a person: only a person ends it")
        sides = (exchange.initiator, *await docket.sides(exchange))
        own = [side for side in sides if side == caller.agent or await acts_for(team, caller, (side,))]
        noted = sides if caller.all_seeing else tuple(own)
        actor = caller.user if caller.kind is KeyKind.HUMAN and caller.user else caller.actor
        decision = await rules.end(docket, exchange, Outcome.RESOLVED, actor, "closed", note=reason, noted=noted)
        return await docket.changes(decision)

    await put(team, caller, decide, Exchange, "exchange")
    return await get(team, caller, exchange_id)


async def expire(team: Team, tenant: str, exchange_id: str) -> None:
    """Expire an exchange."""
    docket = await TeamDocket.open(team, tenant)
    exchange = await docket.exchange(exchange_id)
    if exchange is not None and not exchange.over and exchange.expires_at <= docket.at:
        await commit(docket, await rules.expire(docket, exchange))
