"""Requests to a server in the same process, without sockets: its own API answers them, in an event loop of its own.

A request is written and read as on a connection, so what a server refuses there is refused here too. Threads and other
event loops hand their requests over; a server that goes away breaks what it was in the middle of, as a machine does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from parley.sdk.transport.http_codec import encoder
from parley.sdk.transport.port import Broken, Place, Response
from parley.surfaces.http.http1.message import HeadReader, HttpLimits, Refused
from parley.surfaces.http.http1.message import Response as Answer
from parley.surfaces.http.http1.shared import log_failure
from parley.surfaces.http.problem import problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
    from concurrent.futures import Future

    from parley.sdk.transport.port import ClosingAsyncIterator, ClosingIterator, Request
    from parley.surfaces.http.http1.message import Handler

T = TypeVar("T")

URL = "http://parley.in-process"
PLACE = Place(secure=False, host="parley.in-process", port=80, prefix="")

_encode = encoder(PLACE)


class InProcessServer:
    """A server that is reached through transports in the same process. It is made for one event loop.

    `serve` and `vanish` belong to that loop; transports may be used from everywhere.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.limits = HttpLimits()
        self.handler: Handler | None = None
        self._loop = loop
        self._exchanges: set[_Exchange] = set()
        self._handing_over = Lock()
        self._ended = False

    def serve(self, handler: Handler, limits: HttpLimits) -> None:
        """Set the handler of requests."""
        self.handler, self.limits = handler, limits

    async def vanish(self) -> None:
        """Remove the handler and break all running exchanges."""
        self.handler = None
        for exchange in tuple(self._exchanges):
            await exchange.end()

    async def end(self) -> None:
        """`vanish` for good: the loop may be closed after this."""
        with self._handing_over:
            self._ended = True
        await asyncio.sleep(0)  # coroutines handed over so far start
        await self.vanish()

    def begin(self, request: Request) -> _Exchange:
        """Create an exchange; it does not start yet."""
        return _Exchange(self, _encode(request), request)

    def hand_over(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the server's loop."""
        with self._handing_over:
            if not self._ended:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise Broken("no server any more", arrived=False)

    def abandon(self, exchange: _Exchange) -> None:
        """End an exchange without waiting for it."""
        with suppress(Broken):
            self.hand_over(exchange.end())

    def keep(self, exchange: _Exchange, *, active: bool) -> None:
        """Add an exchange to those that `vanish` breaks, or remove it."""
        if active:
            self._exchanges.add(exchange)
        else:
            self._exchanges.discard(exchange)


class _Exchange:
    """One request and its answer, on the server's side: everything here happens in the server's loop."""

    def __init__(self, server: InProcessServer, content: bytes, request: Request) -> None:
        self.server = server
        self._content = content
        self._streams = request.streams
        self._work: asyncio.Future[Any] | None = None
        self._stream: AsyncIterator[bytes] | None = None
        self._ended = False

    async def answer(self) -> tuple[Answer, bool]:
        """The answer, and whether its body is still to come, by `piece`."""
        handler = self.server.handler
        if handler is None:
            raise Broken("Connection refused", arrived=False)
        self.server.keep(self, active=True)
        answer = await self._answered(handler)
        if answer.stream is not None and not self._streams:
            pieces = []
            self._stream = answer.stream
            while piece := await self.piece():
                pieces.append(piece)
            answer.body, answer.stream = b"".join(pieces), None
        if not (self._streams and answer.status == 200):
            await self.end()
            return answer, False
        self._stream = answer.stream or _once(answer.body)
        if self._ended:
            await self.end()
            raise Broken("it was closed here", arrived=True)
        return answer, True

    async def _answered(self, handler: Handler) -> Answer:
        limits = self.server.limits
        head, _, body = self._content.partition(b"\r\n\r\n")
        try:
            request, framing = HeadReader(limits, "in-process").read(head + b"\r\n\r\n")
        except Refused as refused:
            return problem(refused.status, refused.code, refused.detail)
        request.body = body[: framing.length]
        try:
            answer = handler(request)
            if isinstance(answer, Answer):
                return answer
            return await self._awaited(answer)
        except (Broken, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # the outermost frame, as a connection is
            log_failure("http_handler_failed", error)
            return problem(500, "internal", "The server failed; the failure has been logged.")

    async def piece(self) -> bytes:
        """The next piece of the body; empty at its end."""
        while self._stream is not None:
            try:
                if piece := await self._awaited(anext(self._stream)):
                    return piece
            except StopAsyncIteration:
                await self.end()
                return b""
        raise Broken("it was closed here", arrived=True)

    async def _awaited(self, something: Awaitable[T]) -> T:
        """Wait for something; `Broken` when the exchange ends meanwhile."""
        if self._ended:
            raise Broken("the server closed the connection", arrived=True)
        work: asyncio.Future[T] = asyncio.ensure_future(something)
        self._work = work
        await asyncio.wait({work})
        self._work = None
        if work.cancelled():
            raise Broken("the server closed the connection", arrived=True)
        return work.result()

    async def end(self) -> None:
        """Stop what runs, and close the stream."""
        self._ended = True
        self.server.keep(self, active=False)
        if (work := self._work) is not None:
            work.cancel()
            await asyncio.wait({work})
        stream, self._stream = self._stream, None
        if (close := getattr(stream, "aclose", None)) is not None:
            await close()


class InProcess:
    """Carries requests of any number of threads to a server in this process."""

    def __init__(self, server: InProcessServer) -> None:
        self._server = server

    def send(self, request: Request) -> Response[ClosingIterator]:
        """The answer, whatever its status; see `Transport`."""
        exchange = self._server.begin(request)
        answer, streams = _result(exchange, exchange.answer(), request.timeout)
        return _response(request, answer, _Pieces(exchange, request.timeout) if streams else None)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


class AsyncInProcess:
    """Carries requests of the tasks of any event loop to a server in this process."""

    def __init__(self, server: InProcessServer) -> None:
        self._server = server

    async def send(self, request: Request) -> Response[ClosingAsyncIterator]:
        """The answer, whatever its status; see `AsyncTransport`."""
        exchange = self._server.begin(request)
        answer, streams = await _async_result(exchange, exchange.answer(), request.timeout)
        return _response(request, answer, _AsyncPieces(exchange, request.timeout) if streams else None)

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""


class _Pieces:
    """The body of an answer as it comes, in a thread."""

    def __init__(self, exchange: _Exchange, timeout: float) -> None:
        self._exchange = exchange
        self._timeout = timeout
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._ended and (piece := _result(self._exchange, self._exchange.piece(), self._timeout)):
            return piece
        self._ended = True
        raise StopIteration

    def close(self) -> None:
        # Not awaited: the garbage collector may call this, even in the server's own thread.
        self._exchange.server.abandon(self._exchange)


class _AsyncPieces:
    """The body of an answer as it comes, in a task."""

    def __init__(self, exchange: _Exchange, timeout: float) -> None:
        self._exchange = exchange
        self._timeout = timeout
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._ended and (piece := await _async_result(self._exchange, self._exchange.piece(), self._timeout)):
            return piece
        self._ended = True
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._exchange.server.abandon(self._exchange)


def _result(exchange: _Exchange, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run a part of an exchange in the server's loop; the thread waits for the result."""
    future = exchange.server.hand_over(work)
    done = False
    try:
        result = future.result(seconds)
        done = True
        return result
    except TimeoutError:
        raise _late() from None
    finally:
        if not done:
            exchange.server.abandon(exchange)


async def _async_result(exchange: _Exchange, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run a part of an exchange in the server's loop; the task waits for the result."""
    future = asyncio.wrap_future(exchange.server.hand_over(work))
    done = False
    try:
        async with asyncio.timeout(seconds):
            result = await asyncio.shield(future)
        done = True
        return result
    except TimeoutError:
        raise _late() from None
    finally:
        if not done:
            future.add_done_callback(_unheard)
            exchange.server.abandon(exchange)


def _unheard(future: asyncio.Future[Any]) -> None:
    """Retrieve the error of an abandoned task, so that it is not logged."""
    if not future.cancelled():
        future.exception()


def _late() -> Broken:
    return Broken("it did not answer in time", arrived=True, timed_out=True)


def _response(request: Request, answer: Answer, pieces: Any) -> Response[Any]:  # noqa: ANN401  # of either kind
    fields = [(b"content-type", answer.content_type), *answer.headers]
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in fields}
    body = b"" if request.method == "HEAD" or pieces is not None else answer.body
    return Response(answer.status, headers, body, pieces)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    """A body that is there already, as a stream."""
    yield body
