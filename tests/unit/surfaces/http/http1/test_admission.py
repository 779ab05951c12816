"""Whom a connection takes: bodies only of those who may send them, a share for each address, idle times."""

import asyncio
import contextlib

import pytest

from parley.surfaces.http.http1.listener import listen
from parley.surfaces.http.http1.message import Request, Response
from tests.unit.surfaces.http.http1.serving import (
    CHUNKED,
    GET,
    LIMITS,
    POST,
    Client,
    Server,
    echo,
    on_both_loops,
    problem,
)


async def looked_up(request: Request) -> Response | None:
    await asyncio.sleep(0)
    if request.path == "/broken":
        raise ValueError
    return None if b"x-key" in request.headers else Response(401, b"who?")


def at_once(request: Request) -> Response | None:
    return None if b"x-key" in request.headers else Response(401, b"who?")


async def served(admit: object) -> Server:
    return Server(
        await listen(
            echo,
            "127.0.0.1",
            0,
            limits=LIMITS,
            problem=problem,
            now=lambda: 0.0,
            admit=admit,  # type: ignore[arg-type]
        )
    )


HEADS = {
    "length": POST % 100_000,
    "chunks": CHUNKED,
    "expects": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
}


@pytest.mark.parametrize("admit", [looked_up, at_once])
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@on_both_loops
async def test_who_may_not_is_answered_at_the_head_before_any_body(head: bytes, admit: object) -> None:
    server = await served(admit)
    async with server.client() as client:
        answer = await client.ask(head)

        assert (answer.status, answer.body, answer.headers["connection"]) == (401, b"who?", "close")
        assert await client.closed()
    await server.listener.drain(0.2)


@pytest.mark.parametrize("admit", [looked_up, at_once])
@on_both_loops
async def test_who_may_is_read_and_answered_and_goes_on(admit: object) -> None:
    server = await served(admit)
    async with server.client() as client:
        for pieces in ([b"hel", b"lo"], [b"hello"]):
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nX-Key: k\r\nContent-Length: 5\r\n\r\n")
            for piece in pieces:
                await asyncio.sleep(0.01)
                client.send(piece)
            assert (await client.answer()).body == b"hello"
        client.send(
            b"POST / HTTP/1.1\r\nHost: h\r\nX-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + GET
        )
        assert (await client.answer()).body == b"hello"
        assert (await client.answer()).body == b"/"
    await server.listener.drain(0.2)


@on_both_loops
async def test_a_check_that_fails_is_our_failure(caplog: pytest.LogCaptureFixture) -> None:
    server = await served(looked_up)
    async with server.client() as client:
        answer = await client.ask(b"POST /broken HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
    await server.listener.drain(0.2)

    assert answer.status == 500
    assert "http_handler_failed" in [getattr(record, "action", "") for record in caplog.records]


def known(request: Request) -> Response:
    request.known = request.path == "/known"
    return Response(200)


async def limited(**limits: object) -> Server:
    return Server(
        await listen(
            known,
            "127.0.0.1",
            0,
            limits=LIMITS._replace(**limits),  # type: ignore[arg-type]
            problem=problem,
            now=lambda: 0.0,
        )
    )


@on_both_loops
async def test_one_address_has_its_share_of_connections_and_no_more() -> None:
    server = await limited(connections_per_address=2)
    async with server.client() as first, server.client() as second:
        assert (await first.ask(GET)).status == (await second.ask(GET)).status == 200
        async with server.client() as third:
            answer = await third.answer()
            assert (answer.status, answer.headers["connection"]) == (429, "close")
            assert await third.closed()
        await second.leave()
        while server.listener.connections > 1:  # noqa: ASYNC110  # there is no event but the absence
            await asyncio.sleep(0.001)
        assert (await server.ask(GET)).status == 200
    await server.listener.drain(0.2)


@on_both_loops
async def test_an_address_that_many_share_is_not_counted() -> None:
    server = await limited(connections_per_address=1, limit_address=lambda _: "")
    async with server.client() as first, server.client() as second:
        assert (await first.ask(GET)).status == (await second.ask(GET)).status == 200
    await server.listener.drain(0.2)


@on_both_loops
async def test_who_never_showed_a_key_may_not_be_idle_for_long() -> None:
    server = await limited(stranger_idle_seconds=0.05, idle_seconds=600)
    async with server.client() as stranger, server.client() as friend:
        await stranger.ask(GET)
        await friend.ask(b"GET /known HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await stranger.closed()
        # What was known once stays known.
        assert (await friend.ask(GET)).status == 200
        assert server.listener.connections == 1
    await server.listener.drain(0.2)


# ---------------------------------------------------------------- clients that have said all


async def slowly(request: Request) -> Response:
    await asyncio.sleep(0.02)
    return echo(request)


@pytest.mark.parametrize("handler", [echo, slowly])
@on_both_loops
async def test_a_client_that_stops_sending_gets_every_answer(handler: object) -> None:
    server = Server(
        await listen(handler, "127.0.0.1", 0, limits=LIMITS, problem=problem, now=lambda: 0.0)  # type: ignore[arg-type]
    )
    async with server.client() as client:
        client.send(POST % 5 + b"hello" + GET + b"GET /last HTTP/1.1\r\nHost: h\r\n\r\n")
        client.writer.write_eof()
        answers = [await client.answer() for _ in range(3)]

        assert [answer.body for answer in answers] == [b"hello", b"/", b"/last"]
        assert await client.closed()
    await server.listener.drain(0.2)


@on_both_loops
async def test_half_a_request_is_not_carried_out() -> None:
    server = Server(await listen(echo, "127.0.0.1", 0, limits=LIMITS, problem=problem, now=lambda: 0.0))
    async with server.client() as client:
        client.send(GET + b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf")
        client.writer.write_eof()
        assert (await client.answer()).body == b"/"
        assert await client.closed()
    await server.listener.drain(0.2)


@on_both_loops
async def test_a_list_is_sent_to_its_end_and_a_stream_without_end_is_not() -> None:
    async def pieces() -> object:
        for piece in (b"a", b"b", b"c"):
            await asyncio.sleep(0.01)
            yield piece

    async def endless() -> object:
        while True:
            await asyncio.sleep(0.01)
            yield b"x"

    def handler(request: Request) -> Response:
        if request.path == "/list":
            return Response(200, stream=pieces(), ends=True)  # type: ignore[arg-type]
        return Response(200, stream=endless())  # type: ignore[arg-type]

    server = Server(await listen(handler, "127.0.0.1", 0, limits=LIMITS, problem=problem, now=lambda: 0.0))
    async with server.client() as client:
        client.send(b"GET /list HTTP/1.1\r\nHost: h\r\n\r\n")
        client.writer.write_eof()
        assert (await client.answer()).body == b"abc"
        assert await client.closed()
    async with server.client() as client:
        client.send(GET)
        await client.head()
        client.writer.write_eof()
        assert await _ends(client)
    await server.listener.drain(0.2)


async def _ends(client: Client) -> bool:
    with contextlib.suppress(ConnectionError):
        await client.reader.read()
    return True


@on_both_loops
async def test_a_request_whose_client_may_have_gone_ends_after_a_while() -> None:
    cancelled = asyncio.Event()

    async def for_ever(_: Request) -> Response:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    server = Server(
        await listen(
            for_ever,
            "127.0.0.1",
            0,
            limits=LIMITS._replace(half_closed_seconds=0.05),
            problem=problem,
            now=lambda: 0.0,
        )
    )
    async with server.client() as client:
        client.send(GET)
        client.writer.write_eof()
        await cancelled.wait()
    await server.listener.drain(0.2)
