"""A connection reads the same requests whether bytes come at once or in pieces, and the same as h11."""

from __future__ import annotations

import asyncio
import re

import h11

from parley.surfaces.http.http1.connection import Connection
from parley.surfaces.http.http1.message import HttpLimits, Request, Response, admit_all
from parley.surfaces.http.http1.shared import Shared

LIMITS = HttpLimits(header_bytes=2048, url_bytes=512, header_count=20, body_bytes=2048)
# Method, target, body.
Parsed = tuple[bytes, bytes, bytes]
# The requests, and whether something was refused.
Served = tuple[list[Parsed], bool]


class Wire(asyncio.Transport):
    """The other end of a connection that takes every answer at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def check(data: bytes) -> None:
    if not data:
        return
    size, sent = data[0] % 16 + 1, data[1:]
    (whole, refused), by_pieces = asyncio.run(_serve_twice(sent, size))

    assert by_pieces == (whole, refused), "pieces are read otherwise than the whole"
    for ours, theirs in zip(whole, _h11(sent), strict=False):
        assert ours == theirs, "h11 reads another request"


async def _serve_twice(sent: bytes, size: int) -> tuple[Served, Served]:
    return await _serve([sent]), await _serve([sent[start : start + size] for start in range(0, len(sent), size)])


async def _serve(pieces: list[bytes]) -> Served:
    """Why something is refused is not part of it: which reason is given first depends on how much has come."""
    requests: list[Parsed] = []
    refused = False

    def handle(request: Request) -> Response:
        target = request.raw_path + (b"?" + request.query.encode("latin-1") if request.query else b"")
        requests.append((request.method.encode(), target, request.body))
        return Response(200, b"{}")

    def problem(status: int, code: str, detail: str) -> Response:
        nonlocal refused
        refused = True
        return Response(status, f"{code}: {detail}".encode())

    connection, wire = Connection(Shared(handle, LIMITS, problem, b"", admit_all)), Wire()
    connection.connection_made(wire)
    for piece in pieces:
        if wire.closed:
            break
        connection.data_received(piece)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    connection.connection_lost(None)
    assert wire.sent or not (refused or requests), "a request without an answer"
    return requests, refused


def _h11(content: bytes) -> list[Parsed]:
    """The requests that h11 reads before it finds something wrong, or needs more."""
    peer = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 16)
    peer.receive_data(content)
    requests: list[Parsed] = []
    head, body = h11.Request(method="GET", target="/", headers=[("host", "x")]), b""
    try:
        while True:
            event = peer.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                requests.append((bytes(head.method), _origin_form(bytes(head.target)), body))
                peer.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                peer.send(h11.EndOfMessage())
                if peer.our_state is not h11.DONE or peer.their_state is not h11.DONE:
                    return requests
                peer.start_next_cycle()
            else:
                return requests
    except (h11.RemoteProtocolError, h11.LocalProtocolError):
        return requests


def _origin_form(target: bytes) -> bytes:
    """The target without scheme, host and an empty query, as ours gives it."""
    if not target.startswith(b"/") and b"://" in target:
        rest = target.split(b"://", 1)[1]
        # The host ends where the path begins, or the query, or, where both are empty, the target.
        host = re.match(rb"[^/?#]*", rest)
        assert host is not None
        target = b"/" + rest[host.end() :].removeprefix(b"/")
    path, _, query = target.partition(b"?")
    return target if query else path
