"""What is particular to an event loop: cancelling, queueing, reading no more than somebody takes, loops that end."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from parley.sdk.transport.asynchronous import AsyncHttp
from parley.sdk.transport.port import Broken, ClosingAsyncIterator, Request
from tests.unit.sdk.peer import PATIENCE, STREAM_HEAD, Host, Script, Talk, a_host, answer, chunk, echoing, streamed
from tests.unit.sdk.transport.carriers import LOOPS, get, place_of

AsyncTest = Callable[..., Coroutine[Any, Any, None]]


def in_both_loops(test: AsyncTest) -> Callable[[str], None]:
    """The test runs in asyncio's loop and in uvloop's, and leaves nothing behind in either."""

    def run(loop: str) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(asyncio.wait_for(test(), PATIENCE))
        gc.collect()

    run.__name__, run.__module__ = test.__name__, test.__module__
    marked: Callable[[str], None] = pytest.mark.parametrize("loop", LOOPS)(run)
    return marked


@asynccontextmanager
async def served(*scripts: Script, connections: int = 64) -> AsyncIterator[tuple[Host, AsyncHttp]]:
    with a_host(*scripts) as host:
        transport = AsyncHttp(place_of(host), connections=connections)
        try:
            yield host, transport
        finally:
            await transport.close()


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def opened(transport: AsyncHttp, **options: Any) -> ClosingAsyncIterator:
    pieces = (await transport.send(get(streams=True, **options))).pieces
    assert pieces is not None
    return pieces


async def all_of(pieces: ClosingAsyncIterator) -> tuple[bytes, Broken | None]:
    """What came, and what it broke with."""
    came = b""
    try:
        async for piece in pieces:
            came += piece
    except Broken as error:
        return came, error
    return came, None


# ---------------------------------------------------------------- cancelling


@in_both_loops
async def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    asked, ended = threading.Event(), threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        asked.set()
        if talk.read() is None:
            ended.set()

    async with served(script, echoing) as (host, transport):
        task = asyncio.create_task(transport.send(get("/cancelled")))
        await until(asked)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(ended)

        assert (await transport.send(get("/next"))).body == b'"/next"'
        assert host.connections == 2


@in_both_loops
async def test_cancelled_requests_never_give_their_answer_to_another() -> None:
    async with served(echoing, connections=8) as (_, transport):
        for round_ in range(20):
            tasks = [asyncio.create_task(transport.send(get(f"/{round_}/{number}"))) for number in range(16)]
            await asyncio.sleep(0)
            for number, task in enumerate(tasks):
                if number % 3 == round_ % 3:
                    task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            for number, one in enumerate(answers):
                if isinstance(one, BaseException):
                    assert isinstance(one, asyncio.CancelledError)
                else:
                    assert json.loads(one.body) == f"/{round_}/{number}"


@in_both_loops
async def test_a_request_that_is_cancelled_while_it_waits_for_its_turn_gives_the_turn_away() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        asked.set()
        go_on.wait(PATIENCE)
        talk.say(answer(1))
        echoing(talk)

    async with served(script, connections=1) as (_, transport):
        first = asyncio.create_task(transport.send(get("/first")))
        await until(asked)
        queued = [asyncio.create_task(transport.send(get(f"/{number}"))) for number in range(3)]
        await asyncio.sleep(0)
        queued[0].cancel()
        go_on.set()

        assert (await first).body == b"1"
        assert [(await one).body for one in queued[1:]] == [b'"/1"', b'"/2"']


@in_both_loops
async def test_a_connection_on_which_something_came_that_nobody_asked_for_is_closed() -> None:
    go_on, ended = threading.Event(), threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(answer(1))
        go_on.wait(PATIENCE)
        talk.say(answer("a lie"))
        if talk.read() is None:
            ended.set()

    async with served(script, echoing) as (host, transport):
        assert (await transport.send(get())).body == b"1"
        go_on.set()
        await until(ended)

        assert (await transport.send(get())).body == b'"/x"'
        assert host.connections == 2


# ---------------------------------------------------------------- how many at once


@in_both_loops
async def test_short_requests_wait_for_their_turn() -> None:
    together, most, lock = [0], [0], threading.Lock()

    def script(talk: Talk) -> None:
        while talk.read() is not None:
            with lock:
                together[0] += 1
                most[0] = max(most[0], together[0])
            threading.Event().wait(0.002)
            with lock:
                together[0] -= 1
            talk.say(answer(1))

    async with served(script, connections=4) as (host, transport):
        answers = await asyncio.gather(*[transport.send(get()) for _ in range(40)])

        assert [one.status for one in answers] == [200] * 40
        assert host.connections == 4
        assert most[0] <= 4


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "request_",
    [
        Request("POST", "/api/v1/channels/c/ask", {}, b"{}"),
        Request("GET", "/api/v1/channels/c/messages?since=x&wait=15.000", {}),
        Request("GET", "/api/v1/channels/c/messages?wait=15.000", {}),
        Request("GET", "/slow", {}, timeout=61.0),
        Request("GET", "/api/v1/subscribe/agents/a", {}, streams=True),
    ],
)
def test_an_answer_does_not_wait_behind_the_questions_that_wait_for_it(loop: str, request_: Request) -> None:
    answered = threading.Event()

    def script(talk: Talk) -> None:
        while (got := talk.read()) is not None:
            if got.target == "/answer":
                answered.set()
            else:
                assert answered.wait(PATIENCE)
            talk.say(answer(got.target))

    async def test() -> None:
        async with served(script, connections=2) as (_, transport):
            questions = [asyncio.create_task(transport.send(request_)) for _ in range(5)]
            await asyncio.sleep(0)
            assert (await transport.send(get("/answer"))).status == 200
            for one in await asyncio.gather(*questions):
                if one.pieces is not None:
                    await one.pieces.aclose()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(asyncio.wait_for(test(), PATIENCE))


# ---------------------------------------------------------------- streams


@in_both_loops
async def test_a_stream_that_nobody_reads_is_not_read_ahead_without_end() -> None:
    piece, size = chunk("x" * 65_536), 65_536
    sent, stuck = [0], threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(STREAM_HEAD)
        talk._connection.settimeout(0.5)
        while sent[0] < 1000 * size and talk.say(piece):
            sent[0] += size
        stuck.set()

    async with served(script) as (_, transport):
        pieces = await opened(transport)
        await until(stuck)
        came, error = await all_of(pieces)
        await pieces.aclose()

        assert error is not None
        assert sent[0] < 1000 * size
        assert len(came) >= sent[0]


@in_both_loops
async def test_giving_up_on_the_next_piece_loses_none() -> None:
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(streamed("a"))
        go_on.wait(PATIENCE)
        talk.say(chunk("b"))
        talk.read()

    async with served(script) as (_, transport):
        pieces = await opened(transport)
        assert await anext(pieces.__aiter__()) == b"a"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pieces.__anext__(), 0.01)
        go_on.set()

        assert await pieces.__anext__() == b"b"
        await pieces.aclose()


@in_both_loops
async def test_a_stream_may_be_closed_while_another_task_waits_for_it() -> None:
    def script(talk: Talk) -> None:
        talk.read()
        talk.say(streamed("a"))
        talk.read()

    async with served(script) as (_, transport):
        pieces = await opened(transport)
        assert await pieces.__anext__() == b"a"
        waiting = asyncio.create_task(_next(pieces))
        await asyncio.sleep(0)
        await pieces.aclose()

        with pytest.raises(Broken, match="closed here"):
            await waiting


async def _next(pieces: ClosingAsyncIterator) -> bytes:
    return await pieces.__anext__()


@pytest.mark.slow
@in_both_loops
async def test_a_slow_reader_is_not_taken_for_a_silent_server() -> None:
    """What waits here for somebody to take it has come in time."""
    content, long_ago = streamed("x" * 8_000_000, "end", ends=True), threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        timer = threading.Timer(4.0, long_ago.set)
        timer.start()
        talk.say(content)
        timer.join()

    async with served(script) as (_, transport):
        pieces = await opened(transport, timeout=3.0)
        await until(long_ago)
        came, error = await all_of(pieces)
        await pieces.aclose()

        assert (len(came), came[-3:], error) == (8_000_003, b"end", None)


@pytest.mark.slow
@in_both_loops
async def test_an_answer_that_a_busy_loop_has_not_read_yet_is_in_time() -> None:
    asked, go_on, said = threading.Event(), threading.Event(), threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        asked.set()
        go_on.wait(PATIENCE)
        talk.say(answer(1))
        said.set()
        talk.read()

    async with served(script) as (_, transport):
        task = asyncio.create_task(transport.send(get(timeout=4.0)))
        await until(asked)
        # From here on the loop stands still, until the time is over.
        go_on.set()
        assert said.wait(PATIENCE)
        threading.Event().wait(4.1)

        assert (await task).status == 200


# ---------------------------------------------------------------- loops that end


@pytest.mark.parametrize("loop", LOOPS)
def test_a_transport_may_be_used_in_one_loop_after_the_other(loop: str) -> None:
    with a_host(echoing) as host:
        transport = AsyncHttp(place_of(host))
        for number in range(3):

            async def several(number: int = number) -> list[bytes]:
                return [one.body for one in await asyncio.gather(*[transport.send(get(f"/{number}"))] * 1)]

            with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
                assert runner.run(several()) == [f'"/{number}"'.encode()]
        gc.collect()  # a connection that was left open would be heard of here

        assert host.connections == 3


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_ends_closes_the_connections_that_nobody_closed(loop: str) -> None:
    ended = threading.Event()

    def script(talk: Talk) -> None:
        echoing(talk)
        ended.set()

    with a_host(script) as host:
        transport = AsyncHttp(place_of(host))

        async def once() -> None:
            await transport.send(get())

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(once())

        assert ended.wait(PATIENCE)


@in_both_loops
async def test_a_connection_in_use_while_the_transport_is_closed_is_not_kept() -> None:
    asked, closed, ended = threading.Event(), threading.Event(), threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        asked.set()
        closed.wait(PATIENCE)
        talk.say(answer(1))
        if talk.read() is None:
            ended.set()

    async with served(script) as (_, transport):
        task = asyncio.create_task(transport.send(get()))
        await until(asked)
        await transport.close()
        closed.set()

        assert (await task).body == b"1"
        await until(ended)


@in_both_loops
async def test_a_connection_whose_end_a_busy_loop_has_not_seen_is_not_used() -> None:
    closed = threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        talk.say(answer(1))
        talk.close()
        closed.set()

    async with served(script) as (host, transport):
        for _ in range(5):
            closed.clear()
            assert (await transport.send(Request("PATCH", "/x", {}, b"{}"))).status == 200
            # The loop stands still meanwhile.
            assert closed.wait(PATIENCE)
        assert host.connections == 5
