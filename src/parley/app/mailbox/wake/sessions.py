"""The sessions of a coding agent, as records in its agent's ledger."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Stale
from parley.domain.mailbox.attention import AgentSession, after_event
from parley.domain.mailbox.hook_events import HookEvent, Moment
from parley.domain.mailbox.ledger import MailboxChanges
from parley.domain.times import format_time, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from parley.app.mailbox.kernel import Kernel

MOST_SESSIONS = 1_000
_ATTEMPTS = 8
_NAME_CHARS = 200


async def load(kernel: Kernel, event: HookEvent) -> tuple[AgentSession, Sequence[AgentSession]]:
    """The session of an event, new if it is unknown, and the other sessions of this agent."""
    others = [session for session in await load_recent(kernel) if session.id != event.session_id]
    stored = await kernel.store.record(AgentSession, event.session_id)
    return stored or _new_session(kernel, event), others


async def load_recent(kernel: Kernel) -> list[AgentSession]:
    """The sessions with an event today or yesterday: a ledger keeps those of years."""
    now = kernel.clock.now().at
    days = [format_time(now - timedelta(days=days))[:10] for days in (0, 1)]
    return [session for day in days for session in await kernel.store.records(AgentSession, day, limit=MOST_SESSIONS)]


def _new_session(kernel: Kernel, event: HookEvent) -> AgentSession:
    return AgentSession(
        id=event.session_id,
        tenant_id="",
        harness=event.harness,
        session=event.session[:_NAME_CHARS],
        process=kernel.holder(),
    )


async def record_event(kernel: Kernel, event: HookEvent) -> None:
    """Record an event of a session, at which nothing has to be said. The end of an unknown session is no news."""
    for _ in range(_ATTEMPTS):
        stored = await kernel.store.record(AgentSession, event.session_id)
        if stored is None and event.moment is Moment.END:
            return
        session = after_event(stored or _new_session(kernel, event), event, kernel.clock.now().at)
        # A session that starts again runs in another process, if that can be told.
        holder = kernel.holder()
        session = replace(session, process=holder if event.moment is Moment.START else holder or session.process)
        with suppress(Stale):  # another event of this session was faster
            await kernel.store.commit(MailboxChanges(puts=(session,), durable=False))
            return


async def record_use(kernel: Kernel, harness: str, name: str, at: datetime) -> None:
    """Record that a session of that name used a tool of this process, which lives as long as the session.

    It is recorded some time after the use, and the end of the turn may have been recorded in between: that stays.
    """
    event = HookEvent(harness, Moment.TOOL, name)
    for _ in range(_ATTEMPTS):
        stored = await kernel.store.record(AgentSession, event.session_id)
        session = stored or _new_session(kernel, event)
        if session.at < stamp(at):
            session = after_event(session, event._replace(attended=session.attended), at)
        session = replace(session, process=kernel.holder() or session.process)
        if session == stored:
            return
        with suppress(Stale):  # an event of this session was faster
            await kernel.store.commit(MailboxChanges(puts=(session,), durable=False))
            return
