"""The sweep: one pass over what is due. Everything it does follows from the clock, and readers see it so already.

A pass is bounded, and safe beside everything else: what changes under its hands is left for the next pass. While the
wall clock is far away and it is not known yet whether somebody meant that, nothing is ended because of the time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from parley.app.team.channels import channels, timers
from parley.app.team.decisions import approvals, exchanges, notifying
from parley.app.team.directory import access as access_lists
from parley.app.team.directory import departure, roles
from parley.app.team.intents import checkpoints
from parley.app.team.queues import claims
from parley.app.team.rules import suspensions
from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.identity import Challenge
from parley.domain.channel.channel import Channel, closed, lifetime_end
from parley.domain.channel.job import Job
from parley.domain.channel.post import PostState
from parley.domain.channel.request import RequestState
from parley.domain.channel.timer import Timer
from parley.domain.directory.access import Access
from parley.domain.directory.callers import NO_TENANT, SYSTEM
from parley.domain.directory.session import LoginSession
from parley.domain.errors.errors import Stale
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.exchange.link import ApprovalLink
from parley.domain.mailbox.ledger import Entry
from parley.domain.rules.suspension import Suspensions
from parley.domain.store.changes import Moved, TeamChanges
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.record import Record

_MOST = 500
_SWEPT = (
    Channel.kind,
    AgentRecord.kind,
    Challenge.kind,
    LoginSession.kind,
    ApprovalLink.kind,
    Access.kind,
    Exchange.kind,
    Approval.kind,
    Job.kind,
    RequestState.kind,
    Timer.kind,
    Suspensions.kind,
)
# Idempotency keys may be remembered a little longer than they have to.
_FORGET_EVERY = timedelta(minutes=10)
_DELIVER_EVERY = timedelta(seconds=5)


async def sweep(team: Team) -> int:
    """One pass; how many things were due. When that is a lot, there may be more."""
    count = 0
    if not team.clock.now().stepped:
        count += await _expire(team)
        due = await team.store.due(team.at(), _MOST, kinds=_SWEPT)
        # What is due was read from the store; what is decided about it must not be older.
        await team.store.catch_up(*{record.tenant_id for record in due})
        for record in due:
            count += 1
            await _settle(team, record)
        await _deliver(team)
        count += await claims.drop_ended(team)
    await checkpoints.make_due(team)
    await team.store.checkpoint()
    # Last, because it is the largest: what cannot be done in time must not keep the others from being done.
    if not team.clock.now().stepped:
        await _forget(team)
    return count


async def _expire(team: Team) -> int:
    """Messages whose time has passed without an answer."""
    overdue = sorted(await team.store.overdue(team.at(), _MOST))
    for tenant, pairs in groupby(overdue, key=lambda pair: pair[0]):
        moved = tuple(Moved(message_id, PostState.EXPIRED) for _, message_id in pairs)
        await team.store.commit(TeamChanges(tenant, moved=moved))
    return len(overdue)


async def _deliver(team: Team) -> None:
    """What waits for a role, and need not; now and then, because it hardly ever happens."""
    now = team.now()
    if team.stranded_at and now < from_stamp(team.stranded_at) + _DELIVER_EVERY:
        return
    await roles.deliver_stranded(team)
    team.stranded_at = stamp(now)


async def _settle(team: Team, record: Record) -> None:
    try:
        if isinstance(record, Channel):
            await (_run_out(team, record) if record.is_open else _purge(team, record))
        elif isinstance(record, Access):
            await access_lists.expire(team, record.tenant_id, record.id)
        elif isinstance(record, Exchange):
            await exchanges.expire(team, record.tenant_id, record.id)
        elif isinstance(record, Approval):
            await approvals.expire(team, record.tenant_id, record.id)
            await notifying.tell(team, record.tenant_id, record.id)
        elif isinstance(record, AgentRecord):
            await departure.settle(team, record.tenant_id, record.id)
        elif isinstance(record, Suspensions):
            await suspensions.lift_ended(team, record.tenant_id)
        elif isinstance(record, Timer):
            await timers.settle(team, record)
        elif isinstance(record, Job):
            await claims.drop_over(team, record.tenant_id, (record,))
        else:
            await team.store.commit(TeamChanges(record.tenant_id, drops=(record,)))
    except Stale:
        return


async def _run_out(team: Team, channel: Channel) -> None:
    """Close a channel at the moment its time ran out; or note when that will be, if somebody spoke meanwhile."""
    end = lifetime_end(channel, await team.store.tally(channel.tenant_id, channel.id))
    if not end or end > team.at():
        await team.store.commit(TeamChanges(channel.tenant_id, puts=(replace(channel, expires=end),)))
        return
    entry = _entry(team, "channel_closed", channel)
    over = closed(channel, end, team.limits.retention)
    await team.store.commit(TeamChanges(channel.tenant_id, puts=(over,), ended=(channel.id,), entries=(entry,)))


async def _purge(team: Team, channel: Channel) -> None:
    """Let go of a channel that was closed long ago; its name is free again, its audit events stay."""
    entry = _entry(team, "channel_purged", channel)
    drops = (channel, *await channels.request_records(team, channel))
    changes = TeamChanges(channel.tenant_id, drops=drops, purges=(channel.id,), entries=(entry,))
    await team.store.commit(changes)


def _entry(team: Team, action: str, channel: Channel) -> Entry:
    return Entry(action, team.at(), SYSTEM, channel.id, "", {"intent": channel.intent_id, "name": channel.label})


async def _forget(team: Team) -> None:
    """Idempotency keys whose window is over; now and then, because each time is a write."""
    now = team.now()
    if team.forgot_at and now < from_stamp(team.forgot_at) + _FORGET_EVERY:
        return
    window = timedelta(hours=team.limits.idempotency_hours)
    await team.store.commit(TeamChanges(NO_TENANT, forget_before=stamp(now - window)))
    team.forgot_at = stamp(now)
