"""What the script of a page is told: rows where milliseconds count, and once that something else changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from parley.surfaces.console.live import LiveRows, OpenStreams
from parley.surfaces.console.visit import Visit
from parley.surfaces.http.http1.message import Request, Response
from tests.rigs.team import in_loop

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)


async def run(request: Request) -> Response:
    return Response(200, b'{"count": 2}' if request.path.endswith("count") else b"[]")


async def told(*pieces: bytes) -> list[bytes]:
    async def source() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    visit = Visit(Request("GET", "/console/live", b"/console/live", "", {}, b"", ""), run, NOW)
    rows = LiveRows(visit, source(), OpenStreams(), "secret")
    return [piece async for piece in rows][1:]


@in_loop
async def test_of_what_the_page_loads_again_the_stream_says_only_that_it_changed() -> None:
    events = b'id: 1.1\nevent: agent\ndata: {"id": "a"}\n\nid: 2.1\nevent: exchange\ndata: {"id": "<b>"}\n\nid: 2.1\n\n'

    assert await told(events) == [b"event: changed\ndata: {}\nid: 2.1\n\nid: 2.1\n\n"]


@in_loop
async def test_comments_and_what_a_stream_says_of_itself_go_on_unchanged() -> None:
    pieces = [b": ping\n\n", b'event: revoked\ndata: {"reason":"gone"}\n\n']

    assert await told(*pieces) == pieces
