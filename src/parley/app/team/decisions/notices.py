"""Notices for webhooks: approvals and ended exchanges, in the order of the audit log.

Entries are committed with the change they record, so a restart loses no notice. Each entry has two positions; notices
use the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parley.app.rules.recording import EXCHANGE_ENDED
from parley.app.team.decisions import approvals, exchanges
from parley.domain.channel.feed import FeedItem
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.exchange.notice import APPROVAL_TOLD, Notice, NoticeStage, NoticeType
from parley.domain.rules.reasons import APPROVAL_DECIDED
from parley.domain.store.changes import AuditQuery

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.directory.callers import Caller

_PLACES = 2


async def newest(team: Team, tenant: str) -> int:
    """The position after the newest notice."""
    return await team.store.audit_size(tenant) * _PLACES + 1


async def list_after(team: Team, tenant: str, after: int, limit: int) -> tuple[list[FeedItem], int]:
    """The notices of the next `limit` entries, and the position reached; 0 at the end."""
    entries = await team.store.audits(tenant, AuditQuery(after=(after - 1) // _PLACES, limit=limit))
    items: list[FeedItem] = []
    for entry in entries:
        notice, position = await _notice_of(team, tenant, entry), entry.number * _PLACES
        if notice is not None and position > after:
            items.append(FeedItem.of_notice(position, notice))
    return items, entries[-1].number * _PLACES + 1 if entries else 0


async def can_see(team: Team, caller: Caller, notice: Notice) -> bool:
    """Whether a caller may see a notice now."""
    if notice.approval is not None:
        return await approvals.sees(team, caller, notice.approval)
    exchange = notice.exchange
    if exchange is not None and not exchange.current_round:
        # No message has reached the other side.
        exchange = replace(exchange, responder=exchange.initiator)
    return exchange is not None and await exchanges.sees(team, caller, exchange)


async def _notice_of(team: Team, tenant: str, entry: AuditEntry) -> Notice | None:
    """The notice of an entry; None when its document was trimmed."""
    if not entry.document:
        return None
    facts = team.envelopes.body(entry.document)
    if facts["action"] == EXCHANGE_ENDED:
        exchange = await team.store.get(Exchange, tenant, entry.exchange_id)
        # Each side has an entry about the end; the initiator's makes the notice.
        if exchange is None or entry.side != exchange.initiator:
            return None
        return Notice(entry.id, NoticeType.ENDED, entry.at, exchange=exchange)
    kind = _about_approval(facts)
    approval = await team.store.get(Approval, tenant, str(facts.get("approval", ""))) if kind is not None else None
    if kind is None or approval is None:
        return None
    return Notice(entry.id, kind, entry.at, approval=approval, stage=str(facts.get("stage", "")))


def _about_approval(facts: dict[str, Any]) -> NoticeType | None:
    if facts["action"] == APPROVAL_TOLD:
        return NoticeType.PENDING if facts.get("stage") == NoticeStage.WAITS.value else NoticeType.REMINDER
    return NoticeType.DECIDED if facts["action"] == APPROVAL_DECIDED else None
