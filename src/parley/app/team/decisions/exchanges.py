"""Exchanges: list, show, close, and end those whose time has passed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.agents import own_name
from parley.app.team.retry import put
from parley.app.team.rules import holding
from parley.domain.agents.agent import AgentRecord
from parley.domain.audit.entry import AGENT_EXCHANGE, AuditDraft
from parley.domain.directory.callers import SYSTEM, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import HumanRequired
from parley.domain.exchange.exchange import Exchange, Outcome, ended, heard_by
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

_PAGE = 500


class Wanted(NamedTuple):
    """Which exchanges somebody looks for; an empty field asks for nothing."""

    outcome: Outcome | None = None
    agent: str = ""
    conversation_id: str = ""
    after: str = ""
    limit: int = 100


async def listed(team: Team, caller: Caller, wanted: Wanted) -> list[Exchange]:
    """The exchanges that a caller takes part in, or rules over, oldest first."""
    found: list[Exchange] = []
    after = wanted.after
    while len(found) < wanted.limit:
        if wanted.conversation_id:
            page = await team.store.children(Exchange, caller.tenant, wanted.conversation_id, after=after, limit=_PAGE)
        else:
            page = await team.store.every(Exchange, caller.tenant, after=after, limit=_PAGE)
        for one in page:
            fits = wanted.outcome is None or one.outcome is wanted.outcome
            if fits and (not wanted.agent or one.includes(wanted.agent)):
                shown = await _shown(team, caller, one)
                found += [shown] if shown is not None else []
        if len(page) < _PAGE:
            break
        after = page[-1].id
    return found[: wanted.limit]


async def show(team: Team, caller: Caller, exchange_id: str) -> Exchange:
    """One exchange; whoever has nothing to do with it is told that there is none."""
    found = await team.store.get(Exchange, caller.tenant, exchange_id)
    shown = await _shown(team, caller, found) if found is not None else None
    if shown is None:
        raise NotFound("there is no such exchange")
    return shown


async def sees(team: Team, caller: Caller, exchange: Exchange) -> bool:
    """Its parties see an exchange, the people whom they act for, and who rules the tenant."""
    return await _shown(team, caller, exchange) is not None


async def _shown(team: Team, caller: Caller, exchange: Exchange) -> Exchange | None:
    """The exchange as a caller may know it; None when it may not.

    As long as nothing was said in it, only the side that wanted to: the name of a conversation is a text, too.
    """
    if caller.kind in (KeyKind.ADMIN, KeyKind.SERVICE) and not caller.agent:
        return with_note(exchange)
    spoke = [turn.sender for turn in exchange.transcript]
    parties = dict.fromkeys((exchange.initiator, exchange.responder, *spoke) if spoke else (exchange.initiator,))
    if caller.kind is KeyKind.HUMAN:
        mine = [one for one in parties if await acts_for(team, caller, (one,))]
    else:
        mine = [caller.agent] if caller.agent in parties else []
    if not mine:
        return None
    shown = heard_by(exchange, mine)
    return with_note(shown) if exchange.ended_by in (*mine, caller.actor) else shown


def with_note(exchange: Exchange) -> Exchange:
    """For the side that closed it: in its own words."""
    return replace(exchange, reason=exchange.note) if exchange.note else exchange


async def acts_for(team: Team, caller: Caller, agents: tuple[str, ...]) -> bool:
    """Whether one of these agents acts for the person who calls, or is that person."""
    own = await own_name(team, caller.tenant, caller.user)
    for agent in agents:
        if own and agent == own:
            return True
        record = await team.store.get(AgentRecord, caller.tenant, agent)
        if record is not None and record.attributes.user_id == caller.user:
            return True
    return False


async def close(team: Team, caller: Caller, exchange_id: str, reason: str) -> Exchange:
    """End an exchange as resolved. One that waits for a person only a person ends."""

    async def decide() -> TeamChanges:
        exchange = await team.store.get(Exchange, caller.tenant, exchange_id)
        if exchange is None or not await sees(team, caller, exchange):
            raise NotFound("there is no such exchange")
        if exchange.outcome is Outcome.ESCALATED and caller.kind is not KeyKind.HUMAN:
            raise HumanRequired("the exchange waits for a person: only a person ends it")
        sides = sides_of(exchange)
        own = [one for one in sides if one == caller.agent or await acts_for(team, caller, (one,))]
        noted = tuple(sides) if caller.all_seeing else tuple(own)
        return await _ending(team, caller.actor, exchange, Outcome.RESOLVED, "closed", (reason, noted))

    await put(team, caller, decide, Exchange, "exchange")
    return await show(team, caller, exchange_id)


async def expire(team: Team, tenant: str, exchange_id: str) -> None:
    """End an exchange whose time has passed."""
    exchange = await team.store.get(Exchange, tenant, exchange_id)
    if exchange is None or exchange.over or exchange.expires_at > team.at():
        return
    await team.store.commit(await _ending(team, SYSTEM, exchange, Outcome.EXPIRED, "its time has passed"))


async def _ending(
    team: Team,
    by: str,
    exchange: Exchange,
    outcome: Outcome,
    reason: str,
    note: tuple[str, tuple[str, ...]] = ("", ()),
) -> TeamChanges:
    """What is written when an exchange ends. `note` is what was said about it, and on whose sides that is kept."""
    over = replace(ended(exchange, outcome, team.at(), by, reason), note=note[0])
    closed = await holding.closing(team, exchange, by)
    changes = TeamChanges(
        exchange.tenant_id,
        puts=(over, *closed.approvals),
        audits=(*told_both(team, by, over, note[1]), *closed.audits),
        spends=closed.spends,
    )
    return await holding.told(team, changes, *closed.approvals)


def sides_of(exchange: Exchange) -> list[str]:
    """Each who spoke in it, and who began it."""
    return list(dict.fromkeys((exchange.initiator, *(turn.sender for turn in exchange.transcript))))


def told_both(team: Team, by: str, exchange: Exchange, noted: tuple[str, ...]) -> tuple[AuditDraft, ...]:
    """How an exchange ended, on every side of it; what was said about that, on these."""
    facts = {
        "exchange_id": exchange.id,
        "conversation_id": exchange.conversation_id,
        "round": exchange.current_round,
        "outcome": exchange.outcome.value,
        "reason": exchange.reason,
        "policy": exchange.policy_version,
    }
    told = []
    for side in sides_of(exchange):
        own = {**facts, "reason": exchange.note} if exchange.note and side in noted else dict(facts)
        told.append(AuditDraft(team.new_id("aud"), side, team.at(), f"{AGENT_EXCHANGE}_ended", by, own, exchange.id))
    return tuple(told)
