"""Notices for programs: what the audit log says of approvals and exchanges, in its order.

The log is written with what it tells of, in one commit, so a restart loses no notice. An entry may make two of them: a
rejection decides an approval and ends an exchange. So each entry has two positions, and a cursor stands on one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parley.app.team.decisions import approvals, exchanges
from parley.app.team.rules import holding
from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.channel.feed import FeedItem
from parley.domain.exchange.approval import LIMITS, Approval, ApprovalStatus
from parley.domain.exchange.exchange import FINAL, Exchange
from parley.domain.exchange.notice import APPROVAL_TOLD, Notice, NoticeType, Stage
from parley.domain.store.changes import AuditQuery

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.directory.callers import Caller

_PLACES = 2
_OVER = frozenset([one.value for one in FINAL])
_REFUSED = frozenset({ApprovalStatus.REJECTED.value, ApprovalStatus.EXPIRED.value})
_LIMITS = frozenset([one.value for one in LIMITS])


async def newest(team: Team, tenant: str) -> int:
    """The position behind everything that there is to tell."""
    return await team.store.audit_size(tenant) * _PLACES + 1


async def coming(team: Team, tenant: str, after: int, limit: int) -> tuple[list[FeedItem], int]:
    """The notices of so many entries after a position, and up to where that goes; 0: there are no more."""
    entries = await team.store.audits(tenant, AuditQuery(after=(after - 1) // _PLACES, limit=limit))
    found: list[FeedItem] = []
    for entry in entries:
        for place, notice in enumerate(await _told_by(team, tenant, entry)):
            position = entry.number * _PLACES + place
            if position > after:
                found.append(FeedItem.of_notice(position, notice))
    return found, entries[-1].number * _PLACES + 1 if entries else 0


async def shows(team: Team, caller: Caller, notice: Notice) -> bool:
    """Whether a caller may be told this, by the rules of this moment."""
    if notice.approval is not None:
        return await approvals.sees(team, caller, notice.approval)
    exchange = notice.exchange
    if exchange is not None and not exchange.current_round:
        # Nothing of it ever reached the other side.
        exchange = replace(exchange, responder=exchange.initiator)
    return exchange is not None and await exchanges.sees(team, caller, exchange)


async def _told_by(team: Team, tenant: str, entry: AuditEntry) -> list[Notice]:
    """What one entry has to tell; nothing when its document was let go of."""
    if not entry.document:
        return []
    said = team.envelopes.body(entry.document)
    found: list[Notice] = []
    kind = _about_approval(said)
    if kind is not None:
        approval = await team.store.get(Approval, tenant, str(said.get("approval", "")))
        if approval is not None:
            found.append(Notice(entry.id, kind, entry.at, approval=approval, stage=str(said.get("stage", ""))))
    if entry.exchange_id and _may_end(said):
        exchange = await team.store.get(Exchange, tenant, entry.exchange_id)
        # Each side has an entry about the end; one of them tells it.
        told_here = said["action"] != f"{AGENT_EXCHANGE}_ended" or (exchange and entry.side == exchange.initiator)
        if exchange is not None and exchange.over and told_here:
            found.append(Notice(entry.id, NoticeType.ENDED, entry.at, exchange=exchange))
    return found


def _about_approval(said: dict[str, Any]) -> NoticeType | None:
    if said["action"] == APPROVAL_TOLD:
        return NoticeType.PENDING if said.get("stage") == Stage.WAITS.value else NoticeType.REMINDER
    return NoticeType.DECIDED if said["action"] == holding.DECIDED else None


def _may_end(said: dict[str, Any]) -> bool:
    """Whether this is an entry of the commit that ended its exchange."""
    action = said["action"]
    if action == AGENT_EXCHANGE:
        return said.get("role") == "sender" and said.get("exchange_outcome") in _OVER
    if action == holding.DECIDED:
        answered = said.get("decision") == ApprovalStatus.ANSWERED.value and said.get("cause") in _LIMITS
        return answered or said.get("decision") in _REFUSED
    return bool(action == f"{AGENT_EXCHANGE}_ended")
