"""The event log over HTTP: append, list, get, verify, find by trace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from parley.app.team.intents import events
from parley.app.team.intents.events import EventFilter
from parley.domain.errors.errors import Invalid, Problem
from parley.surfaces.http.headers import TRACEPARENT, with_trace
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.listing import each, json_list
from parley.surfaces.http.route import READ_BY_AGENTS, Call, Param, Route, json
from parley.wire.api import intents as openintent
from parley.wire.api.events import EventIn, chain_check_of
from parley.wire.api.records.intents import ChainCheck, Event
from parley.wire.proofs.event_log import Chain, served

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.channel.event import Event as StoredEvent

_HEX = frozenset("0123456789abcdef")


async def _list(call: Call, stored: Iterable[StoredEvent], headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    names = call.team.sdk_event_names
    return await json_list(each([served(event, sdk_names=names) for event in stored]), headers=headers)


async def append(call: Call) -> Response:
    body: EventIn = call.body
    caller = with_trace(call, await call.speaker(body.actor))
    if body.trace_id:
        caller = caller._replace(trace_id=body.trace_id)
    event = await events.append(
        call.team,
        caller,
        call.params["intent_id"],
        body.event_type,
        msgspec.json.encode(body.payload or {}),
        parent_event_id=body.parent_event_id or "",
    )
    return Response(201, served(event, sdk_names=call.team.sdk_event_names))


async def _append_again(call: Call, event_id: str) -> Response:
    event = await events.get(call.team, call.caller, call.params["intent_id"], event_id)
    return Response(201, served(event, sdk_names=call.team.sdk_event_names))


async def list_page(call: Call) -> Response:
    query = call.query
    wanted = EventFilter(
        call.whole("after", 0, 0, 10**15) if "after" in query else None,
        openintent.moment(query.get("since", ""), "since"),
        query.get("event_type", ""),
        call.whole("limit", 100, 1, call.team.limits.page),
    )
    page = await events.list_page(call.team, call.caller, call.params["intent_id"], wanted)
    cursor = ((b"X-Next-Cursor", b"%d" % page[-1].sequence),) if page else ()
    return await _list(call, page, cursor)


async def get(call: Call) -> Response:
    event = await events.get(call.team, call.caller, call.params["intent_id"], call.params["event_id"])
    return Response(200, served(event, sdk_names=call.team.sdk_event_names))


async def traces(call: Call) -> Response:
    trace = call.query.get("trace_id", "")
    if len(trace) != 32 or not _HEX.issuperset(trace):
        raise Invalid.because([Problem("invalid", "trace_id", "has 32 lower-case hexadecimal digits")])
    limit = call.whole("limit", call.team.limits.page, 1, call.team.limits.page)
    return await _list(call, await events.list_traced(call.team, call.caller, trace, limit))


async def verify(call: Call) -> Response:
    intent_id = call.params["intent_id"]
    chain = Chain()
    async for piece in events.read_all(call.team, call.caller, intent_id):
        await asyncio.to_thread(chain.take_all, piece)
    return json(200, chain_check_of(intent_id, chain))


_TAG = "events"
_EVENTS = "/intents/{intent_id}/events"
_LIMIT = Param("limit", "The maximum number of results.", "integer", 1, 1000)
ROUTES = (
    Route(
        "POST",
        _EVENTS,
        append,
        "Append an event to an intent's log",
        _TAG,
        {201: Event},
        body=EventIn,
        headers=(TRACEPARENT,),
        again=_append_again,
    ),
    Route(
        "GET",
        _EVENTS,
        list_page,
        "List an intent's events in order; the newest, without after and since",
        _TAG,
        {200: list[Event]},
        query=(
            Param("event_type", "Only events of this type."),
            Param("since", "Only events from this time on."),
            Param("after", "Only events after this sequence number.", "integer", 0, 10**15),
            _LIMIT,
        ),
        scope=READ_BY_AGENTS,
    ),
    Route(
        "GET",
        _EVENTS + "/verify",
        verify,
        "Verify the hash chain of an intent's log",
        _TAG,
        {200: ChainCheck},
        scope=READ_BY_AGENTS,
    ),
    Route("GET", _EVENTS + "/{event_id}", get, "Get an event", _TAG, {200: Event}, scope=READ_BY_AGENTS),
    Route(
        "GET",
        "/events",
        traces,
        "List the events of a trace",
        _TAG,
        {200: list[Event]},
        query=(Param("trace_id", "32 lower-case hexadecimal digits."), _LIMIT),
    ),
)
