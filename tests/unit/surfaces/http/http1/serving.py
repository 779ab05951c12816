"""A listener on loopback and a client that says exactly the bytes it is told to."""

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import NamedTuple

import pytest
import uvloop

from parley.surfaces.http.http1.listener import Listener, listen
from parley.surfaces.http.http1.message import Handler, HttpLimits, Request, Response

LIMITS = HttpLimits()
# The moment in RFC 9110's example of a date.
MOMENT = 784111777.0
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL = LIMITS._replace(body_bytes=1000, header_bytes=500, url_bytes=200)
HASTY = LIMITS._replace(header_seconds=0.1, body_seconds=0.1, idle_seconds=0.1, write_seconds=0.1)
# For tests that wait until the request of a client that went away is given up.
IMPATIENT = LIMITS._replace(half_closed_seconds=0.1)
PATIENCE = 60.0


def on_both_loops(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """Run a coroutine as two tests: what holds must hold on asyncio's loop and on uvloop's."""

    def run(loop: Callable[[], asyncio.AbstractEventLoop], **given: object) -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(asyncio.wait_for(test(**given), PATIENCE))

    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature([*inspect.signature(test).parameters.values(), loop])  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
    loops = [asyncio.new_event_loop, uvloop.new_event_loop]
    return pytest.mark.parametrize("loop", loops, ids=["asyncio", "uvloop"])(run)


def echo(request: Request) -> Response:
    return Response(200, request.body or request.path.encode())


def problem(status: int, code: str, detail: str) -> Response:
    assert detail.endswith(".")
    return Response(status, code.encode(), b"application/problem+json")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, data: bytes) -> Answer:
        self.send(data)
        return await self.answer()

    async def answer(self, *, bare: bool = False) -> Answer:
        """The next answer; `bare` when it is to have no body whatever its head says."""
        status, headers = await self.head()
        if bare or status in (100, 204, 304):
            body = b""
        elif "transfer-encoding" in headers:
            body = b"".join([piece async for piece in self.pieces()])
        elif "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            body = await self.reader.read()
        return Answer(status, headers, body)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:-2])
        assert len(headers) == len(lines) - 3, "a header is there twice"
        return int(lines[0].split(" ")[1]), headers

    async def pieces(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        assert await self.reader.readexactly(2) == b"\r\n"

    async def closed(self) -> bool:
        """True when nothing but the end follows."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    async def leave(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, BrokenPipeError):
            return


class Server(NamedTuple):
    listener: Listener

    @asynccontextmanager
    async def client(self, ssl: SSLContext | None = None, receive_buffer: int = 0) -> AsyncIterator[Client]:
        plain = socket.socket()
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self.listener.port))
        except OSError:
            plain.close()
            raise
        name = "localhost" if ssl else None
        client = Client(*await asyncio.open_connection(sock=plain, ssl=ssl, server_hostname=name))
        try:
            yield client
        finally:
            await client.leave()

    async def ask(self, data: bytes) -> Answer:
        """The answer to the first request on a new connection."""
        async with self.client() as client:
            return await client.ask(data)


@asynccontextmanager
async def serving(
    handler: Handler = echo,
    limits: HttpLimits = LIMITS,
    *,
    now: Callable[[], float] = lambda: MOMENT,
    ssl: SSLContext | None = None,
) -> AsyncIterator[Server]:
    listener = await listen(handler, "127.0.0.1", 0, limits=limits, problem=problem, now=now, ssl=ssl)
    try:
        yield Server(listener)
    finally:
        await listener.drain(0.2)


def get(path: str, *fields: bytes) -> bytes:
    return b"GET " + path.encode() + b" HTTP/1.1\r\n" + b"".join(f + b"\r\n" for f in (b"Host: h", *fields)) + b"\r\n"


async def refused(client: Client, status: int, code: str) -> None:
    """The next answer is this problem, and the last."""
    answer = await client.answer()
    assert (answer.status, answer.body.decode()) == (status, code)
    assert answer.headers["connection"] == "close"
    assert answer.headers["content-type"] == "application/problem+json"
    assert await client.closed()


class Told:
    """A stream that is told what to send, and tells when it is closed."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            while (piece := await self.pieces.get()) is not None:
                yield piece
        finally:
            await asyncio.sleep(0)  # Cleaning up may take its time: it is not cancelled a second time.
            self.closed.set()

    def __call__(self, request: Request) -> Response:
        if request.path != "/":
            return echo(request)
        return Response(200, content_type=b"text/event-stream", stream=self.stream())


class Endless:
    """A stream that never ends by itself, and tells when it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 10_000
        finally:
            self.closed.set()

    def __call__(self, _: Request) -> Response:
        return Response(200, stream=self.stream())
