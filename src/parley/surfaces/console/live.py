"""What changes on an open page: the live stream of the API.

Where milliseconds count, an event comes with the row that the function of the page renders (`_ROWS`). Of everything
else the stream only says that it changed, and the script loads the page again: filters, order and counts stay its own.

A browser opens six connections to a server at most. So a sign-in has four streams; one more is sent what is new and
ends, and the browser asks again after some seconds by itself.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING

from parley.surfaces.console.menu import AUDITOR
from parley.surfaces.console.pages import approvals
from parley.surfaces.console.timeline import message_row, receiver_of
from parley.surfaces.console.visit import ApiRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from parley.surfaces.console.visit import Document, Visit

STREAMS_MAX = 4
# Every page shows how many approvals wait.
_TOPICS = "approvals"
_MESSAGE = "channel_message"
# Messages that are read at once when a stream begins, and how often.
_MISSED = 500
_MISSED_PAGES = 20
_CHANGED = b"event: changed\ndata: {}"
_RETRY = b"retry: 5000\n\n"
# How long a stream that ends at once waits for what there is.
_BACKLOG_SECONDS = 0.25


class OpenStreams:
    """How many streams each sign-in has open, by its secret."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def enter(self, secret: str) -> bool:
        """Count one more; False when there are enough, and it ends at once."""
        if self._counts.get(secret, 0) >= STREAMS_MAX:
            return False
        self._counts[secret] = self._counts.get(secret, 0) + 1
        return True

    def leave(self, secret: str) -> None:
        """Count one less."""
        left = self._counts[secret] - 1
        if left:
            self._counts[secret] = left
        else:
            del self._counts[secret]


class LiveRows:
    """The stream of one open page."""

    def __init__(self, visit: Visit, source: AsyncIterator[bytes], streams: OpenStreams, secret: str) -> None:
        self._visit = visit
        self._source = source
        self._streams = streams
        self._secret = secret
        self._is_counted = streams.enter(secret)
        self._begun = False
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        if not self._begun:
            # The page was rendered before the stream began: what came between is in the queue of now.
            self._begun = True
            return await self._queue() + await self._missed()
        if self._is_counted:
            return await self._rendered(await anext(self._source))
        self._ended = True
        pieces: list[bytes] = []
        with suppress(TimeoutError, StopAsyncIteration):
            async with asyncio.timeout(_BACKLOG_SECONDS):
                while True:
                    pieces.append(await self._rendered(await anext(self._source)))
        return b"".join([*pieces, _RETRY])

    async def _rendered(self, piece: bytes) -> bytes:
        """A piece of the API's stream, with rows in place of documents. Its ids stay, so it can be resumed."""
        frames = [frame for frame in piece.split(b"\n\n") if frame]
        count = await self._count() if any(_name_of(frame) == "approval" for frame in frames) else 0
        pieces: list[bytes] = []
        for is_message, group in groupby(_without_repeats(frames), _is_message):
            if is_message:
                pieces.append(_messages(self._visit, list(group)))
            else:
                pieces += [_frame(self._visit, frame, count) for frame in group]
        return b"".join([piece + b"\n\n" for piece in pieces])

    async def _queue(self) -> bytes:
        try:
            summaries = await approvals.waiting(self._visit)
        except ApiRefused:
            return b": refused\n\n"
        rows = [_document(self._visit, summary) for summary in summaries]
        document = {"count": await self._count(), "rows": rows, "whole": len(rows) < approvals.PAGE}
        return b"event: queue\ndata: " + json.dumps(document).encode() + b"\n\n"

    async def _missed(self) -> bytes:
        """What was said in the channel of a page between rendering it and following it. The stream has begun already,
        so a message may come twice: the script knows them by their numbers.
        """
        query = self._visit.query
        channels = [topic for topic in query.get("topics", "").split(",") if topic.startswith("channel:")]
        since = query.get("since", "")
        if not since or len(channels) != 1 or _cursor_of(self._visit):
            return b""
        pieces: list[bytes] = []
        steps = ("channels", channels[0].removeprefix("channel:"), "messages")
        for _ in range(_MISSED_PAGES):
            try:
                messages = await self._visit.get(*steps, since=since, limit=_MISSED, seat=query.get("seat"))
            except ApiRefused:
                break
            if messages:
                since = str(messages[-1]["seq"])
                pieces.append(_message_rows(self._visit, messages) + b"\n\n")
            if len(messages) < _MISSED:
                break
        return b"".join(pieces)

    async def _count(self) -> int:
        try:
            counted: Document = await self._visit.get("approvals", "count", status="pending")
        except ApiRefused:
            return 0
        return int(counted["count"])

    async def aclose(self) -> None:
        """Close the API's stream, too."""
        if self._is_counted:
            self._is_counted, self._ended = False, True
            self._streams.leave(self._secret)
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()


async def open_stream(visit: Visit) -> AsyncIterator[bytes]:
    """The live stream of the API, from where this page was rendered or the last event that it got."""
    who: Document = await visit.get("whoami")
    # An auditor reads no approvals.
    own = "" if who["kind"] == AUDITOR else _TOPICS
    topics = ",".join([topic for topic in (own, visit.query.get("topics", "")) if topic])
    return await visit.follow("live", topics=topics, last_event_id=_cursor_of(visit), seat=visit.query.get("seat", ""))


def _cursor_of(visit: Visit) -> str:
    return visit.request.header(b"last-event-id") or visit.query.get("after", "")


def _name_of(frame: bytes) -> str:
    """The name of an event; empty for a frame that is none."""
    for line in frame.split(b"\n"):
        if line.startswith(b"event: "):
            return line.removeprefix(b"event: ").decode()
    return ""


def _is_plain(frame: bytes) -> bool:
    """Whether the script is only told that something changed."""
    name = _name_of(frame)
    return bool(name) and name not in _ROWS and name not in _PASSED_ON


def _without_repeats(frames: list[bytes]) -> list[bytes]:
    """Of neighbours of which is only said that something changed, the last: its id leads behind all of them."""
    pairs = zip(frames, [*frames[1:], b""], strict=True)
    return [frame for frame, following in pairs if not (_is_plain(frame) and following and _is_plain(following))]


def _frame(visit: Visit, frame: bytes, count: int) -> bytes:
    name = _name_of(frame)
    if name in _ROWS:
        return b"\n".join([_line(visit, name, line, count) for line in frame.split(b"\n")])
    if not _is_plain(frame):
        return frame
    id_lines = [line for line in frame.split(b"\n") if line.startswith(b"id: ")]
    return b"\n".join([_CHANGED, *id_lines])


def _line(visit: Visit, name: str, line: bytes, count: int) -> bytes:
    if not line.startswith(b"data: "):
        return line
    document = _ROWS[name](visit, json.loads(line.removeprefix(b"data: ")))
    if name == "approval":
        document["count"] = count
    return b"data: " + json.dumps(document).encode()


def _is_message(frame: bytes) -> bool:
    return _name_of(frame) == _MESSAGE


def _messages(visit: Visit, frames: list[bytes]) -> bytes:
    """Messages that came together, as one event: the script puts them into the page together."""
    lines = [line for frame in frames for line in frame.split(b"\n")]
    messages = [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]
    last_id = [line for line in lines if line.startswith(b"id: ")][-1]
    return last_id + b"\n" + _message_rows(visit, messages)


def _message_rows(visit: Visit, messages: list[Document]) -> bytes:
    rows = [message_row(visit, message, visit.query.get("seat", ""), waits_for=_asked(message)) for message in messages]
    document = {
        "rows": "".join(rows),
        "count": len(rows),
        "last": messages[-1]["seq"],
        "asks": any(message["message_type"] != "notify" for message in messages),
    }
    return b"event: messages\ndata: " + json.dumps(document).encode()


def _asked(message: Document) -> str:
    """Who has not answered a message that was just sent."""
    return receiver_of(message) if message["message_type"] == "request" else ""


def _document(visit: Visit, summary: Document) -> Document:
    return {"id": summary["id"], "status": summary["status"], "row": approvals.queue_row(visit, summary)}


# By the name of an event: what the script gets in place of its document.
_ROWS: dict[str, Callable[[Visit, Document], Document]] = {"approval": _document}
# What the stream says of itself.
_PASSED_ON = ("revoked", _MESSAGE)
