"""One stream of several topics: approvals, exchanges, agents, the audit log, suspensions, channels and intents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parley.app.team.decisions import approvals, live
from parley.app.team.decisions.live import LiveCursor, LiveTopics
from parley.domain.errors.errors import Invalid, NotFound, Problem, Unavailable
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import NotMember, ScopeRequired, Unauthorized
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import READ_BY_ALL, Call, Param, Route, encode
from parley.surfaces.http.routes.agents import document_of
from parley.surfaces.http.routes.streams import CURSOR, LOST, QUERY, REVOKED, event_frame, line_name, name_and_data
from parley.wire.api.approvals import approval_summary, exchange_of, suspension_of
from parley.wire.api.audit import entry_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from parley.app.team.decisions.live import LiveBatch
    from parley.domain.channel.feed import FeedItem
    from parley.surfaces.http.routes.streams import Openings

_PLAIN = ("approvals", "exchanges", "agents", "audit", "suspensions")
_TOPICS_MAX = 20
_CURSOR = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})", re.ASCII)


def topics_of(text: str) -> LiveTopics:
    """The topics that a query names."""
    names = [name for name in dict.fromkeys(text.split(",")) if name]
    if not names:
        raise _invalid(f"names one or more of {', '.join(_PLAIN)}, channel:ID and intent:ID")
    if len(names) > _TOPICS_MAX:
        raise _invalid(f"names at most {_TOPICS_MAX} topics")
    plain: dict[str, Any] = {}
    ids: dict[str, list[str]] = {"channel": [], "intent": []}
    for name in names:
        kind, colon, place_id = name.partition(":")
        if name in _PLAIN:
            plain[name] = True
        elif colon and kind in ids and place_id:
            ids[kind].append(place_id)
        else:
            raise _invalid(f"{name[:64]!r} is none of {', '.join(_PLAIN)}, channel:ID and intent:ID")
    return LiveTopics(**plain, channels=tuple(ids["channel"]), intents=tuple(ids["intent"]))


def _invalid(detail: str) -> Invalid:
    return Invalid.because([Problem("invalid", "topics", detail)])


def cursor_of(text: str) -> LiveCursor | None:
    """The cursor that a client sends back; None without one."""
    if not text:
        return None
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Invalid.because([Problem("bad_cursor", "Last-Event-ID", "is no cursor of ours")])
    return LiveCursor(int(match[1]), int(match[2]))


class LiveStream:
    """The bytes of a live stream, which is counted until it is closed, whether or not it ever began."""

    def __init__(self, openings: Openings, call: Call, topics: LiveTopics, cursor: LiveCursor) -> None:
        self._openings = openings
        self._call = call
        self._batches = live.follow(call.team, call.caller, topics, cursor)
        self._cursor = cursor
        self._open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            batch = await anext(self._batches)
        except (NotFound, NotMember, ScopeRequired, Suspended, Unauthorized):
            return REVOKED  # the last piece: the batches have ended
        except Unavailable:
            return LOST
        if batch is None:
            return b": parley\nretry: 1000\nid: %d.%d\n\n" % self._cursor
        frames = await self._frames(batch)
        self._cursor = batch.cursor
        return b"".join([*frames, b"id: %d.%d\n\n" % self._cursor]) if frames else b": ping\n\n"

    async def _frames(self, batch: LiveBatch) -> list[bytes]:
        """The events of a batch. Until the last one of the audit log is sent, their ids lead back to before it."""
        call, before = self._call, self._cursor
        here = b"%d.%d" % (batch.cursor.position, before.audit)
        frames = [_feed_frame(item, before.audit) for item in batch.items]
        for approval in batch.approvals:
            standing = await approvals.standing(call.team, call.caller, approval)
            stale = await approvals.is_stale(call.team, approval)
            frames.append(event_frame(here, "approval", encode(approval_summary(approval, standing, stale=stale))))
        frames += [event_frame(here, "exchange", encode(exchange_of(exchange))) for exchange in batch.exchanges]
        for agent in batch.agents:
            frames.append(event_frame(here, "agent", encode(await document_of(call, agent))))
        if batch.suspensions is not None:
            frames.append(
                event_frame(
                    here, "suspensions", encode([suspension_of(suspension) for suspension in batch.suspensions])
                )
            )
        frames += [
            event_frame(b"%d.%d" % (batch.cursor.position, entry.number), "audit", encode(entry_of(entry)))
            for entry in batch.entries
        ]
        return frames

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            self._openings.leave(self._call.caller.key_id, self._call.caller.agent)
        await self._batches.aclose()


def _feed_frame(item: FeedItem, audit: int) -> bytes:
    name, data = name_and_data(item)
    return event_frame(b"%d.%d" % (item.position, audit), line_name(name), data)


def _opened(openings: Openings) -> Callable[[Call], Awaitable[Response]]:
    async def opened(call: Call) -> Response:
        topics = topics_of(call.query.get("topics", ""))
        cursor = cursor_of(call.request.header(b"last-event-id") or call.query.get("last_event_id", ""))
        await live.check_topics(call.team, call.caller, topics)
        if cursor is None:
            cursor = await live.current_cursor(call.team, call.caller)
        limits = call.team.limits
        openings.enter(call.caller.key_id, call.caller.agent, limits.streams_per_key, limits.streams)
        return Response(200, content_type=b"text/event-stream", stream=LiveStream(openings, call, topics, cursor))

    return opened


def routes(openings: Openings) -> tuple[Route, ...]:
    """The route of the live stream, which is counted with the others."""
    about = f"What to follow, separated by commas: {', '.join(_PLAIN)}, channel:ID, intent:ID."
    route = Route(
        "GET",
        "/live",
        _opened(openings),
        "Follow several topics on one stream; each id is POSITION.AUDIT, the places in both logs",
        "streams",
        {200: str},
        scope=READ_BY_ALL,
        query=(Param("topics", about), *QUERY),
        headers=CURSOR,
        streams=True,
        content_type="text/event-stream",
        refusals=(429,),
    )
    return (route,)
