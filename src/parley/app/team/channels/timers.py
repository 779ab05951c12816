"""Timers: messages that are posted later, exactly once, however often servers stop in between."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from parley.app.team.channels import posting
from parley.app.team.channels.venues import venue_of
from parley.app.team.directory.keys import check_key
from parley.app.team.retry import committed
from parley.app.team.rules import governing
from parley.app.team.system_posts import is_alive, spoken
from parley.app.team.team import ATTEMPTS
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import PostDraft
from parley.domain.channel.timer import Timer, check_moment, postponed, refused
from parley.domain.directory.callers import Caller
from parley.domain.errors.errors import Conflict, Invalid, NotFound, ParleyError, Problem, Stale, Unavailable
from parley.domain.errors.team import QuotaExceeded, RateLimited
from parley.domain.record import expecting
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from parley.app.team.channels.posting import PendingCommit
    from parley.app.team.team import Team

_log = logging.getLogger("parley.background")
# When a limit does not say how long it holds.
_LIMIT_RETRY_SECONDS = 60.0
# Records of a page: few, because each may be as long as a body.
_PAGE = 32


async def schedule(team: Team, caller: Caller, channel_id: str, draft: PostDraft, deliver_at: datetime) -> Timer:
    """Set a timer. The message is judged now, so that its sender learns early what would be refused, and again then."""
    posting.check_speaks(caller)
    limits = team.limits
    check_moment(draft, deliver_at, team.now(), timedelta(days=limits.timer_days), limits.longest_expiry)
    most = limits.timers_per_agent
    if await team.store.count(Timer, caller.tenant, caller.agent) >= most:
        raise QuotaExceeded(f"an agent has at most {most} timers", hint="cancel some")
    timer = Timer(
        id=team.new_id("timer"),
        tenant_id=caller.tenant,
        sender=caller.agent,
        channel_id=channel_id,
        message_id=team.new_id("msg"),
        deliver_at=stamp(deliver_at),
        created_at=team.at(),
        pattern=draft.pattern,
        to=draft.to,
        payload=draft.payload.decode(),
        metadata=draft.metadata.decode(),
        expires_at=stamp(draft.expires_at) if draft.expires_at else "",
        trace_id=draft.trace_id,
        parent_event_id=draft.parent_event_id,
        proof=draft.proof.decode(),
        key_id=caller.key_id,
        key_kind=caller.kind,
        user=caller.user,
    )
    await _check_allowed(team, caller, timer, draft._replace(expires_at=None))
    entry = team.entry(caller, "timer_set", timer.id, channel=channel_id, message=timer.message_id)
    changes = TeamChanges(caller.tenant, puts=(timer,), entries=(entry,), created_id=timer.id)
    stored = (await team.commit(caller, changes)).puts[0]
    assert isinstance(stored, Timer)  # noqa: S101  # what was put
    return stored


async def _check_allowed(team: Team, caller: Caller, timer: Timer, draft: PostDraft) -> None:
    """Refuse now what would be refused now; the refusal is recorded. What would be held is held at its moment."""
    for _ in range(ATTEMPTS):
        decided = await _decide(team, caller, timer, draft)
        if decided.refusal is None:
            return
        try:
            await team.store.commit(decided.changes)
        except Stale:
            continue
        raise decided.refusal
    raise Conflict("the channel changes too often at this moment", hint="try again")


async def _decide(team: Team, caller: Caller, timer: Timer, draft: PostDraft) -> PendingCommit:
    return await posting.decide(
        team, caller, lambda: venue_of(team, caller, timer.channel_id, draft.to), (draft,), (timer.message_id,)
    )


async def list_page(team: Team, caller: Caller) -> AsyncIterator[Timer]:
    """The timers of the caller's agent, the oldest first; for a key of the whole tenant, those of all agents."""
    if not caller.all_seeing and not caller.agent:
        raise Invalid.because([Problem("required", "sender", "name the agent whose timers you want, by X-Agent-ID")])
    after, tenant, page = "", caller.tenant, tuple[Timer, ...]()
    while True:
        if caller.all_seeing:
            page = await team.store.every(Timer, tenant, after=after, limit=_PAGE)
        else:
            page = await team.store.children(Timer, tenant, caller.agent, after=after, limit=_PAGE)
        if not page:
            return
        after = page[-1].id
        for timer in page:
            yield timer


async def get(team: Team, caller: Caller, timer_id: str) -> Timer:
    """A timer that is not over yet, of the caller's agent or, for a key of the whole tenant, of any."""
    timer = await team.store.get(Timer, caller.tenant, timer_id)
    if timer is None or (timer.sender != caller.agent and not caller.all_seeing):
        raise NotFound.no_such("timer", hint="it may have been posted")
    return timer


async def cancel(team: Team, caller: Caller, timer_id: str) -> None:
    """Cancel a timer. `NotFound` when its message was posted before: one of the two wins, never both."""

    async def decide() -> TeamChanges:
        timer = await get(team, caller, timer_id)
        entry = team.entry(caller, "timer_cancelled", timer.id, message=timer.message_id)
        return TeamChanges(caller.tenant, drops=(timer,), entries=(entry,))

    await committed(team, caller, decide, "timer")


async def settle(team: Team, record: Timer) -> None:
    """Post the message of a timer that is due, or forget one that was refused long ago."""
    timer = await team.store.get(Timer, record.tenant_id, record.id)
    if timer is None or timer.due > team.at():
        return
    if timer.code:
        await team.store.commit(TeamChanges(timer.tenant_id, drops=(timer,)))
        return
    caller = Caller(timer.tenant_id, timer.sender, timer.key_kind, timer.key_id, timer.user)
    try:
        await check_key(team, caller)
        await _post(team, caller, timer)
    except Stale:
        return  # cancelled, or posted by another node
    except ParleyError as error:
        if _is_temporary(error):
            _log.warning("a timer is late", extra={"action": "timer", "timer": timer.id, "code": error.code})
            if isinstance(error, RateLimited):
                await _postpone(team, timer, error)
            return  # otherwise the next sweep tries again
        await _refuse(team, timer, error)


def _is_temporary(error: ParleyError) -> bool:
    return isinstance(error, Unavailable | RateLimited) or type(error) in (Conflict, ParleyError)


async def _post(team: Team, caller: Caller, timer: Timer) -> None:
    """Post the message and drop the timer, in one commit: it is posted once, or the timer is still there.

    What the rules deny is recorded in one commit with the timer: it is audited once.
    """
    metadata = timer.metadata.encode()
    draft = PostDraft(
        timer.pattern,
        timer.payload.encode(),
        timer.to,
        "",
        metadata,
        from_stamp(timer.expires_at) if timer.expires_at else None,
        timer.trace_id,
        timer.parent_event_id,
        timer.proof.encode(),
        team.envelopes.wishes(metadata),
        partial=team.envelopes.is_partial(timer.pattern, metadata),
    )

    async def attempt() -> PendingCommit:
        if await team.store.get(Timer, timer.tenant_id, timer.id) != timer:
            raise Stale("the timer is over")
        decided = await _decide(team, caller, timer, draft)
        if decided.refusal is not None:
            return decided if _is_temporary(decided.refusal) else await _with_refusal(team, timer, decided)
        return decided._replace(changes=decided.changes._replace(drops=(*decided.changes.drops, timer)))

    async with governing.lock_conversation(team, caller, draft):
        await posting.decide_and_commit(team, caller, attempt)


async def _postpone(team: Team, timer: Timer, error: RateLimited) -> None:
    """Try again when the limit may allow it: each attempt is judged and audited."""
    after = error.facts.get("retry_after")
    seconds = after if isinstance(after, int | float) else _LIMIT_RETRY_SECONDS
    with suppress(Stale):  # cancelled meanwhile
        await team.store.commit(TeamChanges(timer.tenant_id, puts=(postponed(timer, team.now(), seconds),)))


async def _with_refusal(team: Team, timer: Timer, decided: PendingCommit) -> PendingCommit:
    """What the rules write about a message that they deny, and what is written about its timer."""
    assert decided.refusal is not None  # noqa: S101  # it is denied
    changes, refusal = decided.changes, await _refusal(team, timer, decided.refusal)
    together = changes._replace(
        puts=(*changes.puts, *refusal.puts),
        posts=(*changes.posts, *refusal.posts),
        expects=(*changes.expects, *refusal.expects),
    )
    return decided._replace(changes=together)


async def _refuse(team: Team, timer: Timer, error: ParleyError) -> None:
    """Keep why the message was not posted, unless that was written with the refusal."""
    if await team.store.get(Timer, timer.tenant_id, timer.id) != timer:
        return
    try:
        await team.store.commit(await _refusal(team, timer, error))
    except Stale:
        return  # cancelled meanwhile, or the channel has changed: the next sweep decides again


async def _refusal(team: Team, timer: Timer, error: ParleyError) -> TeamChanges:
    """Why the message was not posted, and a notice of that to its sender where the channel is still open."""
    now, reason = team.at(), str(error)[:500]
    payload = {"event": "timer_refused", "timer_id": timer.id, "message_id": timer.message_id}
    changes = TeamChanges(timer.tenant_id, puts=(refused(timer, error.code, reason, now),))
    channel = await team.store.get(Channel, timer.tenant_id, timer.channel_id)
    if channel is None or not await is_alive(team, channel, now):
        return changes
    notice = team.envelopes.payload({**payload, "code": error.code, "reason": reason})
    post = spoken(team, channel, notice, now, to=timer.sender)
    return changes._replace(posts=(post,), expects=(expecting(channel),))
