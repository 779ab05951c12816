"""The event log of an intent: append and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.permissions import intent_access, stands_on
from parley.app.team.retry import committed
from parley.domain.channel.event import RESERVED, SDK_TYPES, STREAM_WORDS, stored_type
from parley.domain.directory.access import Access, Permission
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.team import Team
    from parley.domain.channel.event import Event
    from parley.domain.directory.callers import Caller

_PAGE = 500


class EventFilter(NamedTuple):
    """Which events: after a number, or (None) the last ones there are; from a moment on; of one type."""

    after: int | None = None
    since: str = ""
    event_type: str = ""
    limit: int = 100


async def append(
    team: Team, caller: Caller, intent_id: str, event_type: str, payload: bytes, *, parent_event_id: str = ""
) -> Event:
    """Append an event. Event types of the server itself are reserved."""
    if event_type in RESERVED or event_type in STREAM_WORDS:
        raise Invalid.because([Problem("reserved", "event_type", "is written by the server alone")])
    if team.sdk_event_names and event_type not in SDK_TYPES:
        raise Invalid.because([Problem("unknown", "event_type", "is no type that the OpenIntent SDK can read")])

    draft = team.event(intent_id, event_type, caller.actor, payload)
    draft = draft._replace(trace_id=caller.trace_id, parent_event_id=parent_event_id)

    async def decide() -> TeamChanges:
        expects = (await intent_access(team, caller, intent_id, Permission.WRITE)).expects
        return TeamChanges(caller.tenant, expects=expects, events=(draft,), created_id=draft.id)

    done = await committed(team, caller, decide, "intent")
    assert done is not None  # noqa: S101  # there was something to write
    return done.events[0]


async def list_page(team: Team, caller: Caller, intent_id: str, wanted: EventFilter) -> tuple[Event, ...]:
    """Events of an intent, in the order of the log."""
    await intent_access(team, caller, intent_id, Permission.READ)
    return await team.store.events(
        caller.tenant,
        intent_id,
        after=wanted.after or 0,
        limit=wanted.limit,
        event_type=stored_type(wanted.event_type),
        since=wanted.since,
        newest=wanted.after is None and not wanted.since,
    )


async def get(team: Team, caller: Caller, intent_id: str, event_id: str) -> Event:
    """One event of an intent."""
    await intent_access(team, caller, intent_id, Permission.READ)
    event = await team.store.event(caller.tenant, event_id)
    if event is None or event.intent_id != intent_id:
        raise NotFound.no_such("event")
    return event


async def list_traced(team: Team, caller: Caller, trace_id: str, limit: int) -> list[Event]:
    """The events of one trace, of all intents that the caller may see."""
    events = []
    for event in await team.store.events_of_trace(caller.tenant, trace_id, limit):
        access = await team.store.get(Access, caller.tenant, event.intent_id)
        if access is not None and await stands_on(team, access, caller) is not None:
            events.append(event)
    return events


async def read_all(team: Team, caller: Caller, intent_id: str) -> AsyncIterator[tuple[Event, ...]]:
    """The whole log as it is now, in pieces: for a check."""
    await intent_access(team, caller, intent_id, Permission.READ)
    after = 0
    while piece := await team.store.events(caller.tenant, intent_id, after=after, limit=_PAGE):
        yield piece
        after = piece[-1].sequence
