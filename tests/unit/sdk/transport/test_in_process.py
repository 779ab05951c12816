"""A server in the same process: what it answers, and how it goes away, is as over a connection."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from parley.sdk.transport.in_process import AsyncInProcess, InProcess, InProcessServer
from parley.sdk.transport.port import Broken
from parley.sdk.transport.port import Request as Asked
from parley.surfaces.http.http1.message import HttpLimits, Request, Response
from parley.surfaces.http.origins import Origins
from parley.surfaces.http.server import api_for, limits_for
from tests.rigs.team import Rig, in_loop, soon, with_rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

GET = Asked("GET", "/it", {}, timeout=5.0)
STREAM = GET._replace(streams=True)


def serving(handler: object) -> InProcessServer:
    """A server in the loop of the test."""
    server = InProcessServer(asyncio.get_running_loop())
    server.serve(handler, HttpLimits(body_bytes=100))  # type: ignore[arg-type]
    return server


class Slow:
    """A handler that answers when told to, and knows whether it was stopped."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.stopped = asyncio.Event()

    def __call__(self, request: Request) -> Awaitable[Response]:
        return self._answer()

    async def _answer(self) -> Response:
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return Response(200, b"late")


class Source:
    """A handler whose answers stream what it is given."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    def __call__(self, request: Request) -> Response:
        return Response(200, content_type=b"text/event-stream", stream=self)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if (piece := await self.queue.get()) is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        self.closed.set()


# ---------------------------------------------------------------- answers


@in_loop
async def test_the_handler_sees_the_request_as_it_was_sent() -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response(201, b"{}", headers=((b"ETag", b'"1"'),))

    asked = Asked("POST", "/a%20b?c=d", {"x-api-key": "k"}, b"[1]")
    answer = await AsyncInProcess(serving(handler)).send(asked)

    assert (answer.status, answer.body, answer.headers["etag"]) == (201, b"{}", '"1"')
    assert (seen[0].method, seen[0].path, seen[0].query, seen[0].body) == ("POST", "/a b", "c=d", b"[1]")
    assert seen[0].header(b"x-api-key") == "k"


@with_rig
async def test_the_real_api_answers_a_thread(rig: Rig) -> None:
    server = InProcessServer(asyncio.get_running_loop())
    api = api_for(rig.team, monotonic=lambda: 0.0, origins=Origins(frozenset()), limited=False)
    server.serve(api, limits_for(rig.team))
    asked = Asked("GET", "/api/v1/agents", {"x-api-key": await rig.key("alice")})

    answer = await asyncio.to_thread(InProcess(server).send, asked)

    assert (answer.status, json.loads(answer.body)) == (200, [])


@in_loop
async def test_a_body_over_the_limit_is_refused_before_the_handler_sees_it() -> None:
    asked = Asked("POST", "/it", {}, b"x" * 101)

    answer = await AsyncInProcess(serving(lambda request: Response(200, b"{}"))).send(asked)

    assert (answer.status, json.loads(answer.body)["code"]) == (413, "too_large")


@in_loop
async def test_an_answer_to_head_has_no_body() -> None:
    answer = await AsyncInProcess(serving(lambda request: Response(200, b"{}"))).send(GET._replace(method="HEAD"))

    assert (answer.status, answer.body) == (200, b"")


@in_loop
async def test_a_handler_that_fails_is_an_internal_error() -> None:
    def handler(request: Request) -> Response:
        raise KeyError("secret")

    answer = await AsyncInProcess(serving(handler)).send(GET)

    assert answer.status == 500
    assert b"secret" not in answer.body


# ---------------------------------------------------------------- streams


@in_loop
async def test_pieces_come_as_they_are_made() -> None:
    source = Source()
    answer = await AsyncInProcess(serving(source)).send(STREAM)
    pieces = answer.pieces
    assert pieces is not None

    source.queue.put_nowait(b"one")
    first = await anext(pieces)
    source.queue.put_nowait(b"two")
    source.queue.put_nowait(None)

    assert [first, *[piece async for piece in pieces]] == [b"one", b"two"]
    assert source.closed.is_set()


@in_loop
async def test_a_thread_reads_a_stream_to_its_end() -> None:
    source = Source()
    for piece in (b"one", b"two", None):
        source.queue.put_nowait(piece)

    def read(transport: InProcess) -> list[bytes]:
        return list(transport.send(STREAM).pieces or ())

    assert await asyncio.to_thread(read, InProcess(serving(source))) == [b"one", b"two"]


@in_loop
async def test_a_whole_answer_is_asked_for_and_a_stream_comes_as_one_body() -> None:
    source = Source()
    for piece in (b"one", b"two", None):
        source.queue.put_nowait(piece)

    answer = await AsyncInProcess(serving(source)).send(GET)

    assert (answer.body, answer.pieces) == (b"onetwo", None)


@in_loop
async def test_an_answer_that_does_not_stream_is_one_piece() -> None:
    answer = await AsyncInProcess(serving(lambda request: Response(200, b"all"))).send(STREAM)

    assert answer.pieces is not None
    assert [piece async for piece in answer.pieces] == [b"all"]


@in_loop
async def test_a_stream_that_is_closed_ends_on_the_server() -> None:
    source = Source()
    answer = await AsyncInProcess(serving(source)).send(STREAM)
    assert answer.pieces is not None
    source.queue.put_nowait(b"one")
    await anext(answer.pieces)

    await answer.pieces.aclose()

    await source.closed.wait()
    with pytest.raises(Broken):
        await anext(answer.pieces)


@in_loop
async def test_a_stream_can_be_closed_while_a_thread_waits_for_its_next_piece() -> None:
    source = Source()
    answer = await asyncio.to_thread(InProcess(serving(source)).send, STREAM)
    pieces = answer.pieces
    assert pieces is not None
    source.queue.put_nowait(b"one")
    assert await asyncio.to_thread(next, pieces) == b"one"
    waiting = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
    await soon(lambda: bool(source.queue._getters))  # type: ignore[attr-defined]  # it waits

    pieces.close()

    with pytest.raises(Broken):
        await waiting


# ---------------------------------------------------------------- time


@in_loop
async def test_an_answer_that_takes_too_long_is_not_waited_for_and_the_handler_stops() -> None:
    slow = Slow()

    with pytest.raises(Broken) as broken:
        await AsyncInProcess(serving(slow)).send(GET._replace(timeout=0.5))

    assert (broken.value.timed_out, broken.value.arrived) == (True, True)
    await slow.stopped.wait()


@in_loop
async def test_a_thread_does_not_wait_longer_either() -> None:
    slow = Slow()

    with pytest.raises(Broken) as broken:
        await asyncio.to_thread(InProcess(serving(slow)).send, GET._replace(timeout=0.5))

    assert broken.value.timed_out
    await slow.stopped.wait()


@in_loop
async def test_a_piece_that_takes_too_long_breaks_the_stream() -> None:
    source = Source()
    answer = await AsyncInProcess(serving(source)).send(STREAM._replace(timeout=0.5))
    assert answer.pieces is not None

    with pytest.raises(Broken) as broken:
        await anext(answer.pieces)

    assert broken.value.timed_out


@in_loop
async def test_a_task_that_is_cancelled_takes_its_request_with_it() -> None:
    slow = Slow()
    sending = asyncio.ensure_future(AsyncInProcess(serving(slow)).send(GET))
    await slow.begun.wait()

    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending
    await slow.stopped.wait()


# ---------------------------------------------------------------- a server that goes away


@in_loop
async def test_who_waits_when_the_server_vanishes_learns_that_the_request_may_have_arrived() -> None:
    slow = Slow()
    server = serving(slow)
    sending = asyncio.ensure_future(AsyncInProcess(server).send(GET))
    await slow.begun.wait()

    await server.vanish()

    with pytest.raises(Broken) as broken:
        await sending
    assert (broken.value.arrived, broken.value.timed_out) == (True, False)


@in_loop
async def test_a_stream_breaks_when_the_server_vanishes_and_does_not_look_complete() -> None:
    source = Source()
    server = serving(source)
    answer = await AsyncInProcess(server).send(STREAM)
    assert answer.pieces is not None

    await server.vanish()

    with pytest.raises(Broken):
        await anext(answer.pieces)


@in_loop
async def test_who_comes_when_no_server_is_there_knows_that_nothing_arrived_and_the_next_one_answers() -> None:
    server = serving(None)
    await server.vanish()
    transport = AsyncInProcess(server)

    with pytest.raises(Broken) as broken:
        await transport.send(GET)
    server.serve(lambda request: Response(200, b"back"), HttpLimits())

    assert not broken.value.arrived
    assert (await transport.send(GET)).body == b"back"


@in_loop
async def test_nobody_waits_for_a_server_that_has_ended() -> None:
    slow = Slow()
    server = serving(slow)
    sending = asyncio.ensure_future(AsyncInProcess(server).send(GET))
    await slow.begun.wait()

    await server.end()

    with pytest.raises(Broken):
        await sending
    with pytest.raises(Broken) as broken:
        await asyncio.to_thread(InProcess(server).send, GET)
    assert not broken.value.arrived
