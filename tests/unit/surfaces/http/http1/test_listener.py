"""The listener: how many may come, how it looks after them, how it ends."""

import asyncio
import gc
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from parley.surfaces.http.http1.listener import HttpLimits
from parley.surfaces.http.http1.message import Request, Response
from tests.unit.surfaces.http.http1.serving import GET, LIMITS, MOMENT, Endless, echo, on_both_loops, serving


def test_the_limits_are_those_promised() -> None:
    assert HttpLimits() == (16 * 1024, 8 * 1024, 100, 256 * 1024, 10, 20, 75, 15, 5, 5, 4096, 4096, str)


@on_both_loops
async def test_one_connection_too_many_is_turned_away_and_a_place_is_free_again_later() -> None:
    limits = LIMITS._replace(connections=2)

    async with serving(limits=limits) as server, server.client() as first:
        async with server.client() as second:
            await first.ask(GET)
            await second.ask(GET)
            async with server.client() as third:
                answer = await third.answer()
                assert await third.closed()
        while server.listener.connections > 1:  # noqa: ASYNC110  # there is no event but the absence
            await asyncio.sleep(0.001)
        later = await server.ask(GET)

    assert (answer.status, answer.body, answer.headers["connection"]) == (503, b"overloaded", "close")
    assert later.status == 200


@on_both_loops
async def test_the_date_goes_on() -> None:
    moment = MOMENT
    limits = LIMITS._replace(body_seconds=0.01)

    async with serving(limits=limits, now=lambda: moment) as server, server.client() as client:
        before = await client.ask(GET)
        moment += 1
        while (after := await client.ask(GET)).headers["date"] == before.headers["date"]:
            pass

    assert (before.headers["date"], after.headers["date"]) == (
        "sun, 06 nov 1994 08:49:37 gmt",
        "sun, 06 nov 1994 08:49:38 gmt",
    )


# ---------------------------------------------------------------- draining


@on_both_loops
async def test_before_it_drains_every_answer_is_the_last_of_its_connection_and_newcomers_are_welcome() -> None:
    async with serving() as server, server.client() as old:
        before = await old.ask(GET)

        server.listener.leave()
        last = await old.ask(GET)
        assert await old.closed()
        async with server.client() as new:
            newcomers = await new.ask(GET)
            assert await new.closed()

    assert [one.status for one in (before, last, newcomers)] == [200, 200, 200]
    assert "connection" not in before.headers
    assert (last.headers["connection"], newcomers.headers["connection"]) == ("close", "close")


@on_both_loops
async def test_a_stream_that_ends_before_it_drains_ends_its_connection() -> None:
    go = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await go.wait()
        yield b"two"

    async with serving(lambda _: Response(200, stream=pieces())) as server, server.client() as client:
        client.send(GET)
        server.listener.leave()
        go.set()
        answer = await client.answer()
        assert await client.closed()

    assert answer.body == b"onetwo"


@on_both_loops
async def test_draining_closes_who_is_idle_and_accepts_nobody() -> None:
    async with serving() as server, server.client() as client:
        await client.ask(GET)

        await server.listener.drain(5)

        assert await client.closed()
        with pytest.raises(OSError, match=r".*"):
            async with server.client():
                pass


@on_both_loops
@pytest.mark.parametrize("ticks", range(6))
async def test_who_comes_at_the_moment_of_draining_is_not_forgotten(ticks: int) -> None:
    async with serving() as server:
        with socket.create_connection(("127.0.0.1", server.listener.port)) as late:
            for _ in range(ticks):
                await asyncio.sleep(0)
            await server.listener.drain(5)
            gc.collect()  # what nobody closed would be heard of here

            late.setblocking(False)
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(late, 1) == b""
            assert server.listener.connections == 0


@on_both_loops
async def test_draining_lets_a_running_request_end() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        begun.set()
        await go.wait()
        return echo(request)

    async with serving(slow) as server, server.client() as client:
        client.send(GET)
        await begun.wait()
        draining = asyncio.ensure_future(server.listener.drain(5))
        await asyncio.sleep(0)
        go.set()
        answer = await client.answer()
        closed = await client.closed()
        await client.leave()
        await draining

    assert (answer.status, answer.headers["connection"], closed) == (200, "close", True)


@on_both_loops
async def test_draining_lets_a_request_that_has_begun_to_arrive_arrive() -> None:
    async with serving() as server, server.client() as client:
        await client.ask(GET)
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        await client.answer()
        draining = asyncio.ensure_future(server.listener.drain(5))
        await asyncio.sleep(0)
        answer = await client.ask(b"abc")
        await draining

    assert (answer.body, answer.headers["connection"]) == (b"abc", "close")


@on_both_loops
async def test_draining_ends_a_stream_well() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with serving(lambda _: Response(200, stream=endless())) as server, server.client() as client:
        client.send(GET)
        await client.head()
        pieces = client.pieces()
        await anext(pieces)
        draining = asyncio.ensure_future(server.listener.drain(5))

        assert [piece async for piece in pieces] == []
        assert await client.closed()
        await draining

    assert closed.is_set()


@on_both_loops
async def test_a_stream_may_say_goodbye_when_drained() -> None:
    async def polite() -> AsyncIterator[bytes]:
        yield b"one"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield b"bye"

    async with serving(lambda _: Response(200, stream=polite())) as server, server.client() as client:
        client.send(GET)
        await client.head()
        pieces = client.pieces()
        await anext(pieces)
        draining = asyncio.ensure_future(server.listener.drain(5))

        assert [piece async for piece in pieces] == [b"bye"]
        await draining


@on_both_loops
async def test_a_stream_that_would_begin_while_draining_ends_at_once() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def late(request: Request) -> Response:
        begun.set()
        await go.wait()
        return Response(200, stream=endless())

    async with serving(late) as server, server.client() as client:
        client.send(GET)
        await begun.wait()
        draining = asyncio.ensure_future(server.listener.drain(5))
        await asyncio.sleep(0)
        go.set()
        answer = await client.answer()
        await draining

    assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"", "close")


@on_both_loops
async def test_draining_waits_only_so_long() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def stuck(request: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return echo(request)

    async with serving(stuck) as server, server.client() as client, server.client() as slow:
        client.send(GET)
        slow.send(b"GET / HTTP")
        await begun.wait()

        await server.listener.drain(0.05)

        assert cancelled.is_set()
        assert server.listener.connections == 0
        assert await client.closed()


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server and for a client that trusts it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    folder: Path = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=str(folder / "cert.pem"))


@on_both_loops
async def test_the_same_is_served_over_tls(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def counting() -> AsyncIterator[bytes]:
        for number in range(100):
            yield b"%d" % number * 1000

    def choose(request: Request) -> Response:
        return Response(200, stream=counting()) if request.path == "/stream" else echo(request)

    async with serving(choose, ssl=contexts[0]) as server, server.client(ssl=contexts[1]) as client:
        first = await client.ask(GET)
        stream = await client.ask(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        refused = await client.ask(b"GET / HTTP/1.1\r\n\r\n")

    assert (first.status, refused.status, refused.headers["connection"]) == (200, 400, "close")
    assert stream.body == b"".join(b"%d" % number * 1000 for number in range(100))


@on_both_loops
async def test_a_stream_that_nobody_takes_is_aborted_over_tls_too(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    endless = Endless()
    limits = LIMITS._replace(write_seconds=0.1)
    async with (
        serving(endless, limits, ssl=contexts[0]) as server,
        server.client(ssl=contexts[1], receive_buffer=4096) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)

        await endless.closed.wait()
        client.writer.transport.abort()
