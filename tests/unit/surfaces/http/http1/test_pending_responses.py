"""Responses that are given later by a callback: in their order, dropped when the client is gone, and never lost."""

import asyncio

import pytest

from parley.surfaces.http.http1.message import PendingResponse, Request, Response
from tests.unit.surfaces.http.http1.serving import GET, IMPATIENT, Server, get, on_both_loops, serving


async def _gone(server: Server) -> None:
    """Every client is gone, as the server knows."""
    while server.listener.connections:  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(0)


class Desk:
    """A handler whose responses are given by the test."""

    def __init__(self) -> None:
        self.pending: list[tuple[str, PendingResponse]] = []
        self._came = asyncio.Event()

    def __call__(self, request: Request) -> PendingResponse:
        self.pending.append((request.path, PendingResponse()))
        self._came.set()
        return self.pending[-1][1]

    async def next(self) -> tuple[str, PendingResponse]:
        while not self.pending:
            self._came.clear()
            await self._came.wait()
        return self.pending.pop(0)


@on_both_loops
async def test_pipelined_requests_are_handled_one_after_the_other_and_answered_in_order() -> None:
    desk = Desk()
    async with serving(desk) as server, server.client() as client:
        client.send(b"".join([get(f"/{number}") for number in range(40)]))
        for number in range(40):
            path, pending = await desk.next()
            assert (path, desk.pending) == (f"/{number}", [])
            pending.give(Response(201, path.encode()))
            assert (await client.answer()).body == path.encode()


@on_both_loops
async def test_what_turns_out_to_need_a_task_gets_one() -> None:
    desk = Desk()

    async def later() -> Response:
        await asyncio.sleep(0)
        return Response(200, b"later")

    async with serving(desk) as server, server.client() as client:
        client.send(GET + GET)
        for _ in range(2):
            (await desk.next())[1].give(later())
            assert (await client.answer()).body == b"later"


@on_both_loops
async def test_an_error_is_logged_and_answered_with_500(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    async with serving(desk) as server, server.client() as client:
        client.send(GET)
        (await desk.next())[1].give(ValueError("what a client sent"))

        assert (await client.answer()).status == 500
    assert "what a client sent" not in caplog.text


@on_both_loops
async def test_a_response_for_a_client_that_is_gone_is_dropped() -> None:
    desk = Desk()
    ran = []

    async def late() -> Response:
        ran.append(1)
        return Response(200)

    async with serving(desk, IMPATIENT) as server:
        for result in (Response(201), ValueError(), late()):
            async with server.client() as client:
                client.send(GET)
                _, pending = await desk.next()
            await asyncio.wait_for(_gone(server), 10)
            pending.give(result)
            await asyncio.sleep(0)
        async with server.client() as client:
            client.send(GET)
            (await desk.next())[1].give(Response(200, b"still here"))
            assert (await client.answer()).body == b"still here"
    assert ran == []


@on_both_loops
async def test_a_draining_server_waits_for_what_is_pending() -> None:
    desk = Desk()
    async with serving(desk) as server, server.client() as client:
        client.send(GET)
        _, pending = await desk.next()
        draining = asyncio.ensure_future(server.listener.drain(10))
        await asyncio.sleep(0)
        pending.give(Response(201, b"done"))

        answer = await client.answer()
        await draining
    assert (answer.status, answer.headers["connection"]) == (201, "close")


@on_both_loops
async def test_a_client_that_half_closed_gets_its_response() -> None:
    desk = Desk()
    async with serving(desk) as server, server.client() as client:
        client.send(GET)
        client.writer.write_eof()
        _, pending = await desk.next()
        await asyncio.sleep(0.01)
        pending.give(Response(201, b"done"))

        assert (await client.answer()).status == 201
        assert await client.reader.read() == b""


@on_both_loops
async def test_a_pending_response_can_be_awaited() -> None:
    async def inner() -> Response:
        return Response(200)

    for result in (Response(200), inner()):
        pending = PendingResponse()
        pending.give(result)
        assert (await pending).status == 200
    failing = PendingResponse()
    asyncio.get_running_loop().call_soon(failing.give, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await failing
