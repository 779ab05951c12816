"""One connection: answers in their order, how it ends, and what becomes of a handler that fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from parley.surfaces.http.http1.listener import listen
from parley.surfaces.http.http1.message import HttpLimits, Request, Response
from tests.rigs.log_records import logged_by
from tests.unit.surfaces.http.http1.serving import (
    CHUNKED,
    GET,
    HASTY,
    IMPATIENT,
    POST,
    Server,
    Told,
    echo,
    get,
    on_both_loops,
    serving,
)

# ---------------------------------------------------------------- one answer after the other


@on_both_loops
async def test_every_answer_carries_the_common_fields_and_its_length() -> None:
    async with serving() as server:
        answer = await server.ask(GET)

    assert (answer.status, answer.body) == (200, b"/")
    assert answer.headers == {
        "date": "sun, 06 nov 1994 08:49:37 gmt",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "content-type": "application/json",
        "content-length": "1",
    }


@on_both_loops
async def test_the_peer_of_a_request_is_its_address() -> None:
    async with serving(lambda request: Response(200, request.peer.encode())) as server:
        answer = await server.ask(GET)

    assert answer.body == b"127.0.0.1"


@on_both_loops
async def test_a_connection_serves_many_requests() -> None:
    async with serving() as server, server.client() as client:
        bodies = [(await client.ask(get(f"/{number}"))).body for number in range(100)]

    assert bodies == [b"/%d" % number for number in range(100)]


@on_both_loops
async def test_a_request_may_come_in_any_pieces() -> None:
    async with serving() as server, server.client() as client:
        for byte in POST % 5 + b"hello" + CHUNKED + b"3\r\nabc\r\n0\r\n\r\n":
            client.send(bytes([byte]))
            await asyncio.sleep(0)

        assert (await client.answer()).body == b"hello"
        assert (await client.answer()).body == b"abc"


@on_both_loops
async def test_empty_lines_before_a_request_are_read_over() -> None:
    async with serving() as server, server.client() as client:
        assert (await client.ask(b"\r\n\r\n\r\n" + GET + b"\r\n")).body == b"/"
        assert (await client.ask(GET)).body == b"/"


@on_both_loops
async def test_requests_sent_ahead_are_answered_in_order_one_at_a_time() -> None:
    running = 0

    async def slow(request: Request) -> Response:
        nonlocal running
        running += 1
        assert running == 1
        # The earlier, the longer: order is not left to chance.
        for _ in range(20 - int(request.path[1:])):
            await asyncio.sleep(0)
        running -= 1
        return echo(request)

    async with serving(slow) as server, server.client() as client:
        client.send(b"".join(get(f"/{number}") for number in range(20)))
        bodies = [(await client.answer()).body for _ in range(20)]

    assert bodies == [b"/%d" % number for number in range(20)]


@on_both_loops
async def test_thousands_of_requests_sent_ahead_do_not_keep_others_waiting() -> None:
    answered = 0

    def count(request: Request) -> Response:
        nonlocal answered
        answered += 1
        return echo(request)

    async with serving(count) as server, server.client() as greedy, server.client() as modest:
        greedy.send(get("/greedy") * 5000)
        await greedy.answer()
        await modest.ask(GET)
        before = answered
        bodies = [(await greedy.answer()).body for _ in range(4999)]

    assert before < 4000
    assert bodies == [b"/greedy"] * 4999


@on_both_loops
async def test_bodies_of_all_kinds_may_be_sent_ahead() -> None:
    sent = POST % 2 + b"ab" + CHUNKED + b"1\r\nc\r\n0\r\n\r\n" + GET + CHUNKED + b"0\r\n\r\n" + POST % 1 + b"d"

    async with serving() as server, server.client() as client:
        client.send(sent)
        bodies = [(await client.answer()).body for _ in range(5)]

    assert bodies == [b"ab", b"c", b"/", b"/", b"d"]


@on_both_loops
async def test_a_client_that_sends_ahead_without_end_is_read_no_further() -> None:
    gate = asyncio.Event()

    async def wait(request: Request) -> Response:
        await gate.wait()
        return echo(request)

    async with serving(wait) as server, server.client() as client:
        client.send(get("/", b"X: " + b"a" * 10_000) * 5000)
        with pytest.raises(TimeoutError):
            # The kernel's buffers fill up, and then nothing moves.
            await asyncio.wait_for(client.writer.drain(), 0.3)
        gate.set()
        assert [(await client.answer()).status for _ in range(1000)] == [200] * 1000  # 10 MB
        client.writer.transport.abort()


@on_both_loops
async def test_a_client_that_takes_no_answers_gets_no_more_made() -> None:
    made = 0

    def large(request: Request) -> Response:
        nonlocal made
        made += 1
        return Response(200, b"x" * 100_000)

    async with serving(large) as server, server.client(receive_buffer=4096) as client:
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET * 300)
        await asyncio.sleep(0.1)
        before = made
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        answers = [len((await client.answer()).body) for _ in range(300)]

    assert before < 200
    assert answers == [100_000] * 300


@on_both_loops
async def test_an_answer_to_head_has_no_body() -> None:
    async with serving() as server, server.client() as client:
        client.send(b"HEAD /abc HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await client.answer(bare=True)
        again = await client.ask(GET)

    assert (answer.status, answer.headers["content-length"]) == (200, "4")
    assert again.body == b"/"


@on_both_loops
@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_body_is_followed_by_the_next_answer(status: int) -> None:
    async with serving(lambda _: Response(status, b"never sent")) as server, server.client() as client:
        first = await client.ask(GET)
        second = await client.ask(GET)

    assert first.status == second.status == status
    assert "content-length" not in first.headers


# ---------------------------------------------------------------- when a connection ends


@on_both_loops
@pytest.mark.parametrize(
    "request_", [b"GET / HTTP/1.0\r\n\r\n", get("/", b"Connection: close")], ids=["HTTP/1.0", "close"]
)
async def test_a_last_answer_says_so_and_closes(request_: bytes) -> None:
    async with serving() as server, server.client() as client:
        # What is sent behind it is not answered, and does not cost the answer.
        answer = await client.ask(request_ + GET)
        closed = await client.closed()

    assert (answer.status, answer.headers["connection"], closed) == (200, "close", True)


@on_both_loops
async def test_http_1_0_may_ask_to_go_on() -> None:
    async with serving() as server, server.client() as client:
        first = await client.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        second = await client.ask(b"GET / HTTP/1.0\r\n\r\n")

    assert (first.headers["connection"], second.headers["connection"]) == ("keep-alive", "close")


@on_both_loops
async def test_an_idle_connection_is_closed_without_a_word() -> None:
    # More than it takes a busy machine to ask.
    limits = HASTY._replace(header_seconds=0.5, idle_seconds=0.5, stranger_idle_seconds=0.5)

    async with serving(limits=limits) as server, server.client() as client, server.client() as silent:
        await client.ask(GET)

        assert await client.closed()
        assert await silent.closed()


# ---------------------------------------------------------------- handlers


@on_both_loops
async def test_a_handler_that_waits_is_cancelled_when_its_client_goes_away() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def poll(request: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return echo(request)

    async with serving(poll, IMPATIENT) as server:
        async with server.client() as client:
            client.send(GET)
            await begun.wait()

        await cancelled.wait()


@on_both_loops
async def test_what_a_cancelled_handler_shields_is_finished() -> None:
    begun, done, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def commit() -> None:
        begun.set()
        await go.wait()
        done.set()

    async def post(request: Request) -> Response:
        task = asyncio.ensure_future(commit())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            go.set()
            raise
        return echo(request)

    async with serving(post, IMPATIENT) as server:
        async with server.client() as client:
            client.send(GET)
            await begun.wait()

        await done.wait()


def raising(_: Request) -> Response:
    raise ValueError("secret")


async def raising_later(_: Request) -> Response:
    await asyncio.sleep(0)
    raise ValueError("secret")


def injecting(_: Request) -> Response:
    return Response(200, headers=((b"Location", b"/\r\nSet-Cookie: secret"),))


async def injecting_a_stream(_: Request) -> Response:
    return Response(200, content_type=b"a\nb: secret", stream=Told().stream())


async def cancelling(_: Request) -> Response:
    raise asyncio.CancelledError


def forgetting(_: Request) -> Response:
    return None  # type: ignore[return-value]


async def forgetting_later(_: Request) -> Response:
    return None  # type: ignore[return-value]


@on_both_loops
@pytest.mark.parametrize(
    "handler",
    [raising, raising_later, injecting, injecting_a_stream, cancelling, forgetting, forgetting_later],
    ids=lambda handler: str(handler.__name__),
)
async def test_a_handler_that_fails_is_answered_for_and_logged(
    handler: Callable[[Request], Response | Awaitable[Response]], caplog: pytest.LogCaptureFixture
) -> None:
    def choose(request: Request) -> Response | Awaitable[Response]:
        return handler(request) if request.path == "/" else echo(request)

    async with serving(choose) as server, server.client() as client:
        answer = await client.ask(b"POST / HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\nContent-Length: 4\r\n\r\nbody")
        after = await client.ask(get("/after"))

    assert (answer.status, answer.body) == (500, b"internal")
    assert after.body == b"/after"
    (record,) = logged_by("parley.surfaces.http.http1.shared", caplog)
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "a request failed")
    assert (record.__dict__["action"], record.exc_info) == ("http_handler_failed", None)
    assert "secret" not in str(record.__dict__)


@on_both_loops
async def test_even_a_problem_that_cannot_be_built_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    def broken(status: int, code: str, detail: str) -> Response:
        raise ValueError

    listener = await listen(echo, "127.0.0.1", 0, limits=HttpLimits(), problem=broken, now=lambda: 0.0)
    answer = await Server(listener).ask(b"GET / HTTP/1.1\r\n\r\n")
    await listener.drain(0)

    assert (answer.status, answer.body) == (400, b"")
    assert logged_by("parley.surfaces.http.http1.shared", caplog)[0].__dict__["action"] == "http_problem_failed"


@on_both_loops
async def test_an_answer_at_once_makes_no_task() -> None:
    async with serving() as server, server.client() as client:
        await client.ask(GET)
        before = len(asyncio.all_tasks())
        tasks = []

        def count(request: Request) -> Response:
            tasks.append(len(asyncio.all_tasks()))
            return echo(request)

        server.listener._shared.handler = count
        await client.ask(POST % 3 + b"abc")

    assert tasks == [before]
