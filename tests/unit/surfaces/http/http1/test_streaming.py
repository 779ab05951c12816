"""Answers that go on: sent as they are made, and closed with their client."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from parley.surfaces.http.http1.message import Request, Response
from tests.rigs.log_records import logged_by
from tests.unit.surfaces.http.http1.serving import (
    GET,
    IMPATIENT,
    LIMITS,
    Endless,
    Told,
    echo,
    get,
    on_both_loops,
    serving,
)


@on_both_loops
async def test_a_stream_is_sent_piece_by_piece_and_the_connection_goes_on() -> None:
    told = Told()

    async with serving(told) as server, server.client() as client:
        client.send(GET)
        status, headers = await client.head()
        pieces = client.pieces()
        received = []
        for piece in (b"one", b"", b"two"):  # An empty piece does not end the stream.
            told.pieces.put_nowait(piece)
            if piece:
                received.append(await anext(pieces))
        told.pieces.put_nowait(None)
        received += [piece async for piece in pieces]
        after = await client.ask(get("/after"))

    assert (status, headers["transfer-encoding"], headers["content-type"]) == (200, "chunked", "text/event-stream")
    assert "content-length" not in headers
    assert received == [b"one", b"two"]
    assert after.body == b"/after"
    assert told.closed.is_set()


@on_both_loops
async def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    told = Told()
    for piece in (b"one", b"two", None):
        told.pieces.put_nowait(piece)

    async with serving(told) as server:
        answer = await server.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")

    assert "transfer-encoding" not in answer.headers
    assert (answer.headers["connection"], answer.body) == ("close", b"onetwo")


@on_both_loops
async def test_a_stream_is_closed_when_its_client_goes_away() -> None:
    told = Told()

    async with serving(told) as server:
        async with server.client() as client:
            client.send(GET)
            await client.head()
            told.pieces.put_nowait(b"one")
            await anext(client.pieces())

        await told.closed.wait()


class Subscribed:
    """A stream that holds something from the moment it is made."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await asyncio.Event().wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed.set()


@on_both_loops
async def test_a_stream_is_closed_even_if_its_client_went_before_it_began() -> None:
    stream = Subscribed()
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def stubborn(request: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
        return Response(200, stream=stream)

    async with serving(stubborn, IMPATIENT) as server:
        async with server.client() as client:
            client.send(GET)
            await begun.wait()

        await cancelled.wait()
        await stream.closed.wait()


@on_both_loops
async def test_a_stream_is_closed_when_the_client_leaves_with_its_request() -> None:
    stream = Subscribed()

    async with serving(lambda _: Response(200, stream=stream)) as server:
        async with server.client() as client:
            client.send(GET)
            client.writer.write_eof()

        await stream.closed.wait()


@on_both_loops
@pytest.mark.parametrize(
    ("method", "status", "kind", "answered"),
    [(b"HEAD", 200, b"text/plain", 200), (b"GET", 204, b"text/plain", 204), (b"GET", 200, b"a\nb", 500)],
    ids=["HEAD", "no content", "unfit"],
)
async def test_a_stream_that_may_not_be_sent_is_closed(method: bytes, status: int, kind: bytes, answered: int) -> None:
    stream = Subscribed()

    def answer_with_it(_: Request) -> Response:
        return Response(status, content_type=kind, stream=stream)

    async with serving(answer_with_it) as server, server.client() as client:
        client.send(method + b" / HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await client.answer(bare=True)
        await stream.closed.wait()

    assert answer.status == answered


@on_both_loops
@pytest.mark.parametrize("error", [ValueError("secret"), asyncio.CancelledError("secret")], ids=["error", "cancelled"])
async def test_a_stream_that_fails_does_not_look_whole(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise error

    async with serving(lambda _: Response(200, stream=broken())) as server, server.client() as client:
        client.send(GET)
        await client.head()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            [piece async for piece in client.pieces()]

    (record,) = logged_by("parley.surfaces.http.http1.shared", caplog)
    assert record.__dict__["action"] == "http_stream_failed"
    assert "secret" not in str(record.__dict__)


@on_both_loops
async def test_a_stream_that_never_waits_lets_others_run() -> None:
    done = asyncio.Event()

    async def busy() -> AsyncIterator[bytes]:
        for _ in range(200_000):
            yield b""
        done.set()

    def choose(request: Request) -> Response:
        return Response(200, stream=busy()) if request.path == "/busy" else echo(request)

    async with serving(choose) as server, server.client() as greedy:
        greedy.send(get("/busy"))
        await greedy.head()
        await server.ask(GET)

        assert not done.is_set()


@on_both_loops
async def test_a_stream_is_not_made_faster_than_it_is_taken() -> None:
    made = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 10_000

    async with (
        serving(lambda _: Response(200, stream=endless())) as server,
        server.client(receive_buffer=4096) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)
        # As much as the kernel takes, and then nothing.
        before = -1
        while not 0 < before == made:
            before = made
            await asyncio.sleep(0.2)
        client.writer.transport.abort()


@on_both_loops
async def test_a_stream_is_closed_when_a_client_that_takes_nothing_goes_away() -> None:
    endless = Endless()
    async with (
        serving(endless, LIMITS._replace(write_seconds=600)) as server,
        server.client(receive_buffer=4096) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)
        await asyncio.sleep(0.1)  # Until the kernel takes no more.
        client.writer.write_eof()

        # Long before `write_seconds` are over, although what was sent cannot be delivered.
        await endless.closed.wait()
        client.writer.transport.abort()
