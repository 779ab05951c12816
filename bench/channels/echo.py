"""A bare ASGI application: JSON in, JSON out; and what is said at /say goes to who listens at /listen.

`python -m bench.channels.echo PORT` serves it by uvicorn on httptools and uvloop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_JSON = [(b"content-type", b"application/json")]
_EVENTS = [(b"content-type", b"text/event-stream")]
_listeners: set[asyncio.Queue[bytes]] = set()


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["method"] == "GET" and scope["path"] == "/listen":
        await _listen(send)
        return
    body = b""
    more = scope["method"] == "POST"
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    answer = msgspec.json.encode(msgspec.json.decode(body)) if body else b"{}"
    if scope["path"] == "/say":
        for queue in _listeners:
            queue.put_nowait(b"event: channel_message\ndata: %b\n\n" % answer)
    headers = [*_JSON, (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 201 if body else 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def _listen(send: Send) -> None:
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    _listeners.add(queue)
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        while True:
            await send({"type": "http.response.body", "body": await queue.get(), "more_body": True})
    finally:
        _listeners.discard(queue)


if __name__ == "__main__":
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="error",
        timeout_graceful_shutdown=1,
    )
