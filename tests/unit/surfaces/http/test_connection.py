"""One connection: answers in order, limits that hold while bytes still come, streams that end with their client."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from parley.surfaces.http.listener import listen
from parley.surfaces.http.message import HttpLimits, Request, Response
from tests.log_records import logged_by
from tests.unit.surfaces.http.serving import GET, LIMITS, Answer, Client, Server, echo, on_both_loops, serving

POST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL = LIMITS._replace(body_bytes=1000, header_bytes=500, url_bytes=200)
HASTY = LIMITS._replace(header_seconds=0.1, body_seconds=0.1, idle_seconds=0.1, write_seconds=0.1)


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
    limits = HASTY._replace(header_seconds=0.5, idle_seconds=0.5)  # more than it takes a busy machine to ask

    async with serving(limits=limits) as server, server.client() as client, server.client() as silent:
        await client.ask(GET)

        assert await client.closed()
        assert await silent.closed()


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
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 10_000
        finally:
            closed.set()

    limits = HASTY._replace(idle_seconds=60)
    async with (
        serving(lambda _: Response(200, stream=endless()), limits) as server,
        server.client(receive_buffer=4096) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)

        await closed.wait()


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


# ---------------------------------------------------------------- streams


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

    async with serving(stubborn) as server:
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

    (record,) = logged_by("parley.surfaces.http.connection", caplog)
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
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 10_000
        finally:
            closed.set()

    async with (
        serving(lambda _: Response(200, stream=endless()), LIMITS._replace(write_seconds=600)) as server,
        server.client(receive_buffer=4096) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)
        await asyncio.sleep(0.1)  # Until the kernel takes no more.
        client.writer.write_eof()

        # Long before `write_seconds` are over, although what was sent cannot be delivered.
        await closed.wait()
        client.writer.transport.abort()


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

    async with serving(poll) as server:
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

    async with serving(post) as server:
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
    (record,) = logged_by("parley.surfaces.http.connection", caplog)
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
    assert logged_by("parley.surfaces.http.connection", caplog)[0].__dict__["action"] == "http_problem_failed"


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
