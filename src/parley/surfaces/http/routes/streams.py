"""Server-sent events: an intent, a channel, or everything for one agent."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from parley.app.team.channels import streams
from parley.app.team.channels.streams import Followed
from parley.app.team.directory import tickets
from parley.domain.channel.post import PostState
from parley.domain.errors.errors import Invalid, NotFound, Problem, Unavailable
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import NotMember, RateLimited, Unauthorized
from parley.domain.names import is_name
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, encode, json
from parley.wire.api import channels as rfc0021
from parley.wire.api.channels import TicketIn
from parley.wire.api.records.channels import EvictedMessages, StreamTicket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from parley.domain.channel.event import Event
    from parley.domain.channel.feed import FeedItem

K = TypeVar("K")

# The id lets a client without any event continue from here after a reconnect.
_HELLO = b": parley\nretry: 1000\nid: %d\n\n"
_PING = b": ping\n\n"
# An id without data is no event for a client, but it continues from there after a reconnect.
_PROGRESS = b"id: %d\n\n"
REVOKED = b'event: revoked\ndata: {"reason":"you may no longer follow this"}\n\n'
# Not an event: the client reconnects with the last id that it has seen.
LOST = b": the store cannot be reached, come back\n\n"
_AGENTS_OF_A_KEY = 10
_REMEMBERED = 4_096
_REMEMBERED_BYTES = 16 * 1024 * 1024
# Size of the pieces in which a long batch is sent.
_PIECE_BYTES = 256 * 1024


class Openings:
    """The number of open streams, by key and in total, and rendered frames that streams share.

    A key for several agents is counted for each of them, with a higher total.
    """

    def __init__(self) -> None:
        self._by_key: Counter[str] = Counter()
        self._by_agent: Counter[tuple[str, str]] = Counter()
        self._all = 0
        self.frames: dict[tuple[str, int, bool, bool], bytes] = {}
        self._frame_bytes = 0

    def enter(self, key_id: str, agent: str, per_key: int, most: int) -> None:
        """Count an opened stream, or refuse it."""
        full = self._by_agent[key_id, agent] >= per_key or self._by_key[key_id] >= per_key * _AGENTS_OF_A_KEY
        if full or self._all >= most:
            raise RateLimited("too many streams are open", facts={"retry_after": 5})
        self._by_agent[key_id, agent] += 1
        self._by_key[key_id] += 1
        self._all += 1

    def leave(self, key_id: str, agent: str) -> None:
        """Count a closed stream."""
        self._all -= 1
        _less(self._by_agent, (key_id, agent))
        _less(self._by_key, key_id)

    def pieces(self, tenant: str, batch: Iterable[FeedItem], *, upper: bool) -> Iterator[bytes]:
        """The bytes of a batch in pieces of limited size; each event is rendered once for all streams."""
        piece: list[bytes] = []
        size = 0
        for item in batch:
            # Erased content must not be served from this cache.
            key = (tenant, item.position, upper, item.post is not None and item.post.erased)
            frame = self.frames.get(key)
            if frame is None:
                if len(self.frames) >= _REMEMBERED or self._frame_bytes >= _REMEMBERED_BYTES:
                    self.frames.clear()
                    self._frame_bytes = 0
                frame = self.frames[key] = _frame(item, upper=upper)
                self._frame_bytes += len(frame)
            piece.append(frame)
            size += len(frame)
            if size >= _PIECE_BYTES:
                yield b"".join(piece)
                piece, size = [], 0
        if piece:
            yield b"".join(piece)


def _less(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _frame(item: FeedItem, *, upper: bool) -> bytes:
    name, data = name_and_data(item)
    name = line_name(name)
    return event_frame(b"%d" % item.position, name.upper() if upper else name, data)


def name_and_data(item: FeedItem) -> tuple[str, bytes]:
    """An item as an event of a stream: its name, and its JSON."""
    if item.post is None:
        assert item.event is not None  # noqa: S101  # an item is one or the other
        return _type_and_data(item.event)
    data = rfc0021.posted(item.post, PostState.DELIVERED.value)
    # The SDK's readers ask every event for its intent.
    return "channel_message", data[:-1] + f',"intent_id":"{item.post.intent_id}"}}'.encode()


def line_name(name: str) -> str:
    """The name of an event, which stays on its line whatever an agent calls it."""
    return name if is_name(name) else "event"


def event_frame(event_id: bytes, name: str, data: bytes) -> bytes:
    """The bytes of one event. What some readers take for the end of a line is escaped."""
    data = (
        data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029").replace(b"\xc2\x85", b"\\u0085")
    )
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id, name.encode(), data)


def _type_and_data(event: Event) -> tuple[str, bytes]:
    """An event under the name that the SDK's runtime knows it by, with the fields that it reads."""
    if event.event_type not in ("state_patched", "status_changed", "agent_assigned"):
        return event.event_type, event.document
    document: dict[str, Any] = msgspec.json.decode(event.document)
    payload = document["payload"]
    if event.event_type == "status_changed":
        document["new_status"] = payload.get("status")
    if event.event_type == "state_patched":
        document["old_state"], document["new_state"] = payload.get("old_state", {}), payload.get("state", {})
    if event.event_type == "agent_assigned":
        document["agent_id"], document["delegated_by"] = payload.get("agent_id"), event.actor
    name = "state_changed" if event.event_type == "state_patched" else event.event_type
    return name, msgspec.json.encode(document)


def _cursor(call: Call) -> int | None:
    text = call.request.header(b"last-event-id") or call.query.get("last_event_id", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Invalid.because([Problem("bad_cursor", "Last-Event-ID", "is no cursor of ours")])
    return int(text)


def _opened(openings: Openings, kind: str, *, upper: bool) -> Any:  # noqa: ANN401  # an answer
    async def opened(call: Call) -> Response:
        followed = Followed(**{kind: next(iter(call.params.values()))})
        cursor = _cursor(call)
        call.caller = await streams.follower_of(call.team, call.caller, followed)
        await streams.check_follows(call.team, call.caller, followed)
        cursor = await call.team.store.head(call.caller.tenant) if cursor is None else cursor
        limits = call.team.limits
        openings.enter(call.caller.key_id, call.caller.agent, limits.streams_per_key, limits.streams)
        stream = EventStream(openings, call, followed, cursor, upper=upper)
        return Response(200, content_type=b"text/event-stream", stream=stream)

    return opened


class EventStream:
    """The bytes of a stream, which is counted until it is closed, whether or not it ever began."""

    def __init__(self, openings: Openings, call: Call, followed: Followed, cursor: int, *, upper: bool) -> None:
        self._openings = openings
        self._caller = call.caller
        self._upper = upper
        self._batches = streams.follow(call.team, call.caller, followed, cursor)
        self._pieces: Iterator[bytes] = iter(())
        self._cursor = cursor
        self._open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = next(self._pieces, None)
        if piece is not None:
            return piece
        try:
            batch = await anext(self._batches)
        except (NotFound, NotMember, Suspended, Unauthorized):
            return REVOKED  # the last piece: the batches have ended
        except Unavailable:
            return LOST
        if batch is None:
            return _HELLO % self._cursor
        self._pieces = chain(
            self._evicted(batch.evicted, self._cursor),
            self._openings.pieces(self._caller.tenant, batch.items, upper=self._upper),
        )
        self._cursor, before = max(self._cursor, batch.position), self._cursor
        return next(self._pieces, _PROGRESS % self._cursor if self._cursor > before else _PING)

    def _evicted(self, evicted: tuple[tuple[str, int], ...], cursor: int) -> Iterator[bytes]:
        name = b"EVICTED" if self._upper else b"evicted"
        for channel_id, place in evicted:
            data = encode(EvictedMessages(channel_id=channel_id, through=place, oldest=place + 1))
            # Its id is where the client is already: whoever comes back there is told again.
            yield b"id: %d\nevent: %b\ndata: %b\n\n" % (cursor, name, data)

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            self._openings.leave(self._caller.key_id, self._caller.agent)
        await self._batches.aclose()


_TAG = "streams"
CURSOR = (Param("Last-Event-ID", "Continue after this event."),)
QUERY = (
    Param("last_event_id", "Continue after this event, for clients that cannot set headers."),
    Param("ticket", "A ticket for this path instead of a key, for clients that cannot set headers."),
)


async def create_ticket(call: Call) -> Response:
    body: TicketIn = call.body
    ticket = await tickets.issue(call.team, call.caller, body.path)
    return json(201, StreamTicket(ticket=ticket.secret, path=body.path, expires_at=ticket.expires_at))


def routes(openings: Openings) -> tuple[Route, ...]:
    """The routes of streams, which share one count of open streams."""
    stream_routes = [
        Route(
            "POST",
            "/streams/tickets",
            create_ticket,
            "Create a ticket, with which a browser can follow a stream once",
            _TAG,
            {201: StreamTicket},
            scope=EVERYBODY,
            body=TicketIn,
            confidential=True,
        )
    ]
    for word, kind, name in (
        ("intents", "intent_id", "intent_id"),
        ("agents", "agent", "agent_id"),
        ("channels", "channel_id", "channel_id"),
    ):
        for path, upper in (
            (f"/{word}/{{{name}}}/subscribe", word != "channels"),
            (f"/subscribe/{word}/{{{name}}}", False),
        ):
            stream_routes.append(
                Route(
                    "GET",
                    path,
                    _opened(openings, kind, upper=upper),
                    f"Follow one of the {word}",
                    _TAG,
                    {200: str},
                    scope=EVERYBODY,
                    query=QUERY,
                    headers=CURSOR,
                    streams=True,
                    content_type="text/event-stream",
                    refusals=(429,),
                )
            )
    return tuple(stream_routes)
