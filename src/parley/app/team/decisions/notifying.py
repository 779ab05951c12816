"""Notify people of pending approvals: at the start, half-way to the expiry, and an hour before it.

The approval records what was sent, so a restarted server continues. A letter is sent before it is recorded: after a
crash in between it is sent twice, but never lost.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.decisions import approvals
from parley.domain.audit.entry import AuditDraft
from parley.domain.directory.callers import SYSTEM
from parley.domain.errors.errors import Invalid, ParleyError
from parley.domain.errors.rules import Denied, MessageHeld
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.notice import APPROVAL_TOLD, TRY_AGAIN, NoticeStage, letter, stage_due, stage_told
from parley.domain.store.changes import TeamChanges
from parley.domain.times import stamp

if TYPE_CHECKING:
    from parley.app.team.team import Team

_log = logging.getLogger("parley.notices")
# Refused by the rules of the mailboxes: a retry would be refused or held again.
_FINAL = (Denied, MessageHeld, Invalid)


async def tell(team: Team, tenant: str, approval_id: str) -> None:
    """Send the notification that is due for a pending approval, and record it."""
    approval = await team.store.get(Approval, tenant, approval_id)
    now = team.at()
    if approval is None or not approval.pending or approval.expires_at <= now:
        return
    stage = stage_due(approval, now)
    if stage is None and not (approval.mail_again and approval.mail_again <= now):
        return
    reached = await _mailed(team, approval, stage or stage_told(approval))
    notified = replace(approval, mail_again="" if reached else stamp(team.now() + TRY_AGAIN))
    audits: tuple[AuditDraft, ...] = ()
    if stage is not None:
        reminded_at = approval.reminded_at if stage is NoticeStage.WAITS else now
        notified = replace(notified, told_at=now, reminded_at=reminded_at)
        audits = (_entry(team, approval, stage),)
    await team.store.commit(TeamChanges(tenant, puts=(notified,), audits=audits))


async def _mailed(team: Team, approval: Approval, stage: NoticeStage) -> bool:
    """Send a letter to the mailbox of each person who may decide; whether all were reached."""
    keeping = team.notices
    if keeping.notifier is None:
        return True
    reached = True
    for user in await approvals.deciders(team, approval):
        if keeping.was_notified(approval.id, stage.value, user):
            continue
        try:
            await keeping.notifier.notify(user, letter(approval, stage))
        except ParleyError as error:
            facts = {"action": "notify", "approval": approval.id, "code": error.code, "reason": error.message}
            _log.warning("a person could not be told", extra=facts)
            if not isinstance(error, _FINAL):
                reached = False
                continue
        keeping.mark_notified(approval.id, stage.value, user)
    return reached


def _entry(team: Team, approval: Approval, stage: NoticeStage) -> AuditDraft:
    facts = {
        "approval": approval.id,
        "stage": stage.value,
        "user": approval.user,
        "cause": approval.cause.value,
        "exchange_id": approval.exchange_id,
        "conversation_id": approval.conversation_id,
        "policy": approval.policy_version,
    }
    return AuditDraft(team.new_id("aud"), approval.agent, team.at(), APPROVAL_TOLD, SYSTEM, facts, approval.exchange_id)
