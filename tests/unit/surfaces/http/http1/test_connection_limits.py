"""Limits that hold while bytes still come: bodies, heads, and clients that take their time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from parley.surfaces.http.http1.message import HttpLimits, Request, Response
from tests.unit.surfaces.http.http1.serving import (
    CHUNKED,
    GET,
    HASTY,
    LIMITS,
    POST,
    SMALL,
    Answer,
    Client,
    Endless,
    echo,
    get,
    on_both_loops,
    refused,
    serving,
)

# ---------------------------------------------------------------- bodies


@on_both_loops
async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    ask = b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n"

    async with serving() as server, server.client() as client:
        assert (await client.ask(ask + b"Content-Length: 3\r\n\r\n")).status == 100
        assert (await client.ask(b"abc")).body == b"abc"
        assert (await client.ask(ask + b"Transfer-Encoding: chunked\r\n\r\n")).status == 100
        assert (await client.ask(b"1\r\nd\r\n0\r\n\r\n")).body == b"d"


@on_both_loops
async def test_a_client_that_asks_first_for_too_much_is_told_so_at_once() -> None:
    async with serving(limits=SMALL) as server, server.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n")
        await refused(client, 413, "too_large")


@on_both_loops
async def test_a_body_of_n_bytes_is_taken_and_one_more_is_not() -> None:
    async with serving(limits=SMALL) as server:
        exact = await server.ask(POST % 1000 + b"x" * 1000)
        chunked = await server.ask(CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n")
        async with server.client() as client:
            client.send(POST % 1001)
            await refused(client, 413, "too_large")
        async with server.client() as client:
            client.send(CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n")
            await refused(client, 413, "too_large")

    assert len(exact.body) == len(chunked.body) == 1000


@on_both_loops
async def test_a_body_of_100_megabytes_is_refused_while_it_comes() -> None:
    async with serving() as server, server.client() as client:
        client.send(POST % (100 * 1024 * 1024))
        client.send(b"x" * (100 * 1024 * 1024))
        # Nobody reads it to the end, and still the answer is not lost to a reset.
        answer = await client.answer()
        client.writer.transport.abort()

    assert (answer.status, answer.body) == (413, b"too_large")


@on_both_loops
@pytest.mark.parametrize(
    "sent", [POST % 10_000_000, get("/", b"Connection: close") + b"more"], ids=["refused", "closed"]
)
async def test_who_still_sends_after_the_last_answer_is_not_reset(sent: bytes) -> None:
    async with serving() as server, server.client() as client:
        await client.ask(sent)
        assert await client.closed()
        for _ in range(20):
            client.send(b"x" * 50_000)
            await client.writer.drain()

        assert not client.writer.transport.is_closing()


@on_both_loops
async def test_chunks_without_end_are_refused_at_the_limit() -> None:
    sent = 0

    async with serving() as server, server.client() as client:
        client.send(CHUNKED)
        answer = asyncio.ensure_future(client.answer())
        while not answer.done():
            client.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            sent += 1
            await asyncio.wait([answer], timeout=0.001)
        client.writer.transport.abort()

    assert (answer.result().status, answer.result().body) == (413, b"too_large")
    assert sent > LIMITS.body_bytes // 4096


# ---------------------------------------------------------------- heads


@on_both_loops
@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\nHost: h\n\n", 400, "bad_request"),
        (get("/%ff"), 400, "bad_request"),
        (get("/", b"Content-Length: 1", b"Transfer-Encoding: chunked"), 400, "bad_request"),
        (get("/", b"Transfer-Encoding: gzip"), 501, "not_implemented"),
        (b"GET / HTTP/2.0\r\n\r\n", 505, "version_not_supported"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad_request"),
        (CHUNKED + b"x\r\n", 400, "bad_request"),
    ],
)
async def test_what_cannot_be_read_is_refused_and_nothing_after_it_is_read(sent: bytes, status: int, code: str) -> None:
    seen: list[str] = []

    def note(request: Request) -> Response:
        seen.append(request.path)
        return echo(request)

    async with serving(note) as server, server.client() as client:
        client.send(GET + sent + get("/smuggled"))
        await client.answer()
        await refused(client, status, code)

    assert seen == ["/"]


@on_both_loops
async def test_a_url_of_n_bytes_is_taken_and_one_more_is_not() -> None:
    async with serving(limits=SMALL) as server:
        exact = await server.ask(get("/" + "a" * 199))
        async with server.client() as client:
            client.send(get("/" + "a" * 200))
            await refused(client, 414, "uri_too_long")

    assert len(exact.body) == 200


@on_both_loops
async def test_a_url_without_end_is_refused_before_it_ends() -> None:
    async with serving() as server, server.client() as client:
        client.send(b"GET /" + b"a" * 100_000)
        await refused(client, 414, "uri_too_long")


@on_both_loops
async def test_fields_of_n_bytes_are_taken_and_one_more_is_not() -> None:
    room = SMALL.header_bytes - len(b"Host: h\r\nX: \r\n")

    async with serving(limits=SMALL) as server:
        exact = await server.ask(get("/", b"X: " + b"a" * room))
        async with server.client() as client:
            client.send(get("/", b"X: " + b"a" * (room + 1)))
            await refused(client, 431, "headers_too_large")

    assert exact.status == 200


@on_both_loops
@pytest.mark.parametrize("end", [b"", b"\r\n"], ids=["unfinished", "whole"])
async def test_ten_thousand_fields_are_refused(end: bytes) -> None:
    async with serving() as server, server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + end)
        await refused(client, 431, "headers_too_large")


@on_both_loops
async def test_a_hundred_fields_are_taken_and_one_more_is_not() -> None:
    async with serving() as server:
        exact = await server.ask(get("/", *[b"X: y"] * 99))
        more = await server.ask(get("/", *[b"X: y"] * 100))

    assert (exact.status, more.status) == (200, 431)


# ---------------------------------------------------------------- slow clients


async def drip(client: Client, data: bytes, until: "asyncio.Future[Answer]") -> None:
    """Send byte by byte, always in time for a server that counts from the last byte."""
    for byte in data:
        if until.done():
            return
        client.send(bytes([byte]))
        await asyncio.wait([until], timeout=0.02)


@pytest.mark.slow
@on_both_loops
@pytest.mark.parametrize(
    ("quick", "slow", "limits"),
    [
        # Within this time the first byte has to come, also from a busy machine: else it is a connection that is idle.
        (b"", get("/", b"X: " + b"a" * 500), LIMITS._replace(header_seconds=1.0)),
        (POST % 500, b"a" * 500, LIMITS._replace(header_seconds=60, body_seconds=0.1)),
        (CHUNKED, b"1\r\na\r\n" * 100, LIMITS._replace(header_seconds=60, body_seconds=0.1)),
    ],
    ids=["head", "body", "chunks"],
)
async def test_a_request_that_drips_in_is_given_up(quick: bytes, slow: bytes, limits: HttpLimits) -> None:
    async with serving(limits=limits) as server, server.client() as client:
        client.send(quick)
        answer = asyncio.ensure_future(client.answer())
        await drip(client, slow, answer)

        assert (answer.result().status, answer.result().body) == (408, b"request_timeout")
        assert await client.closed()


@on_both_loops
async def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    limits = HASTY._replace(idle_seconds=60, header_seconds=60)

    async with (
        serving(lambda _: Response(200, b"x" * 30_000_000), limits) as server,
        server.client(receive_buffer=4096) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)
        while not server.listener.connections:  # noqa: ASYNC110
            await asyncio.sleep(0)
        while server.listener.connections:  # noqa: ASYNC110  # there is no event but the absence
            await asyncio.sleep(0.01)
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]

        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.answer()


@on_both_loops
async def test_a_stream_that_nobody_takes_is_aborted_and_closed() -> None:
    endless = Endless()
    limits = HASTY._replace(idle_seconds=60)
    async with (
        serving(endless, limits) as server,
        server.client(receive_buffer=4096) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)

        await endless.closed.wait()


@pytest.mark.slow
@on_both_loops
async def test_a_stream_that_is_taken_slowly_goes_on() -> None:
    async def much() -> AsyncIterator[bytes]:
        for _ in range(400):
            yield b"x" * 100_000

    limits = LIMITS._replace(write_seconds=1.5)
    async with serving(lambda _: Response(200, stream=much()), limits) as server, server.client() as client:
        client.send(GET)
        await client.head()
        size = 0
        # Longer than `write_seconds` in all, never so long without taking anything.
        async for piece in client.pieces():
            size += len(piece)
            if size % 4_000_000 == 0:
                await asyncio.sleep(0.2)

    assert size == 40_000_000
