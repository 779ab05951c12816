"""HTTP for the tasks of an event loop, asyncio's or uvloop's."""

from __future__ import annotations

import asyncio
from math import inf
from select import POLLIN, poll
from typing import TYPE_CHECKING, cast

from parley.sdk.transport.http_codec import ResponseReader, broken_by, encoder
from parley.sdk.transport.port import Broken, Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator

    from parley.sdk.transport.port import ClosingAsyncIterator, Place, Request

# A server closes an idle connection after 75 seconds; one that is about to be closed is not used.
_IDLE_SECONDS = 60.0
# A request that may take longer than this may wait for other requests.
_LONG_SECONDS = 60.0
# What a stream may have received that nobody has taken, before it reads no further.
_AHEAD_BYTES = 256 * 1024


class AsyncHttp:
    """Carries requests to one server over connections that it keeps; at most `connections` short ones at once.

    What may wait long - streams, questions, pages that wait for news - is not counted: an answer never waits behind
    the questions that wait for it. In another event loop it begins anew. `tls` says whom to trust, instead of whom the
    system trusts.
    """

    def __init__(
        self,
        place: Place,
        *,
        connect_timeout: float = 5.0,
        connections: int = 64,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._place = place
        self._connect_timeout = connect_timeout
        self._connections = connections
        self._tls = tls
        self._encode = encoder(place)
        self._pool: _Pool | None = None

    async def send(self, request: Request) -> Response[ClosingAsyncIterator]:
        """The answer, whatever its status; see `AsyncTransport`."""
        content = self._encode(request)
        pool = self._pool
        if pool is None or pool.loop is not asyncio.get_running_loop():
            pool = self._pool = _Pool(self._connections)
            await pool.begin()
        if _may_wait(request):
            return await self._exchanged(pool, content, request)
        async with pool.turns:
            return await self._exchanged(pool, content, request)

    async def close(self) -> None:
        """Let go of all connections that wait; one that is in use is closed when it has served."""
        pool, self._pool = self._pool, None
        if pool is not None and pool.loop is asyncio.get_running_loop():
            await pool.close()

    async def _exchanged(self, pool: _Pool, content: bytes, request: Request) -> Response[ClosingAsyncIterator]:
        line = pool.taken() or await self._opened(pool, min(self._connect_timeout, request.timeout))
        done = False
        try:
            reader = await line.exchange(content, request)
            if reader.streaming:
                done = True
                return Response(reader.status, reader.headers, pieces=_Pieces(line))
            response: Response[ClosingAsyncIterator] = Response(reader.status, reader.headers, reader.take())
            if reader.reusable:
                done = True
                pool.keep(line)
            return response
        finally:
            # Also when the task was cancelled: what would still come is nobody's answer.
            if not done:
                line.abort()

    async def _opened(self, pool: _Pool, timeout: float) -> _Line:
        place = self._place
        name = place.host if place.secure else None
        if place.secure and self._tls is None:
            from ssl import create_default_context

            self._tls = create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        try:
            async with asyncio.timeout(timeout):
                _, line = await pool.loop.create_connection(
                    lambda: _Line(pool),
                    place.host,
                    place.port,
                    ssl=self._tls if place.secure else None,
                    server_hostname=name,
                )
        except (OSError, ValueError) as error:
            raise broken_by(error, arrived=False) from None
        return line


def _may_wait(request: Request) -> bool:
    """Whether the answer may come only after other requests of the same client."""
    if request.streams or request.timeout > _LONG_SECONDS:
        return True
    path, _, query = request.target.partition("?")
    return path.endswith("/ask") or query.startswith("wait=") or "&wait=" in query


class _Pool:
    """The connections of one event loop."""

    def __init__(self, connections: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.turns = asyncio.Semaphore(connections)
        self._most = connections
        self._idle: list[_Line] = []
        self._closed = False
        self._end = self._until_the_loop_ends()

    async def begin(self) -> None:
        await anext(self._end)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """A loop that ends finishes the generators that began in it; so it closes what nobody else has closed."""
        try:
            yield
        finally:
            await self._close()

    def taken(self) -> _Line | None:
        """A connection that waits and still stands."""
        now = self.loop.time()
        while self._idle:
            line = self._idle.pop()
            if line.stands(now):
                return line
            line.abort()
        return None

    def keep(self, line: _Line) -> None:
        if self._closed or len(self._idle) >= self._most:
            line.abort()
        else:
            line.rest()
            self._idle.append(line)

    def drop(self, line: _Line) -> None:
        """A connection that has ended."""
        if line.resting:
            self._idle.remove(line)

    async def close(self) -> None:
        await self._end.aclose()
        await self._close()

    async def _close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for line in idle:
            line.abort()
        await asyncio.gather(*[line.lost for line in idle])


class _Line(asyncio.Protocol):
    """One connection; one request at a time."""

    _transport: asyncio.Transport

    def __init__(self, pool: _Pool) -> None:
        self.reader = ResponseReader()
        self.resting = False
        # Done when the connection is no more.
        self.lost: asyncio.Future[None] = pool.loop.create_future()
        self._pool = pool
        self._loop = pool.loop
        self._since = 0.0
        self._poll = poll()
        # What the connection broke with, and who waits for something to come.
        self._error: Broken | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timeout = 0.0
        self._paused = False
        # A moment in the loop's time; the timer goes off at it or before, and then looks again.
        self._deadline = inf
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ the pool and the requests call

    async def exchange(self, content: bytes, request: Request) -> ResponseReader:
        """Send a request, and read the answer: whole, or up to where its body streams."""
        reader = self.reader
        reader.begin(bodiless=request.method == "HEAD", streams=request.streams)
        self.resting = False
        self._timeout = request.timeout
        self._expect(request.timeout)
        self._transport.write(content)
        while not (reader.complete or reader.streaming):
            await self.news()
        return reader

    async def news(self) -> None:
        """Wait for what comes next; raises what the connection broke with."""
        if self._error is not None:
            raise self._error
        if self._paused:
            self._paused = False
            self._expect(self._timeout)
            self._transport.resume_reading()
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def rest(self) -> None:
        """Wait for the next request."""
        self.resting = True
        self._since = self._loop.time()

    def stands(self, now: float) -> bool:
        """Whether it can be used: the server has not closed it, and nothing has come that nobody asked for."""
        if self._error is not None or now - self._since >= _IDLE_SECONDS:
            return False
        # A loop that was busy may not have seen yet what the operating system knows.
        return not self._poll.poll(0)

    def abort(self) -> None:
        self.resting = False
        self._fail(Broken("it was closed here", arrived=True))

    # ------------------------------------------------------------ the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        if self.resting:
            self._pool.drop(self)
            self.abort()
            return
        reader = self.reader
        try:
            reader.feed(data)
        except Broken as broken:
            self._fail(broken)
            return
        if reader.complete or reader.streaming:
            if reader.held > _AHEAD_BYTES and not reader.complete:
                self._paused = True
                self._transport.pause_reading()
            self._wake()
        if reader.head:
            self._deadline = inf if reader.complete or self._paused else self._loop.time() + self._timeout

    def connection_lost(self, exc: Exception | None) -> None:
        error = broken_by(exc, arrived=True) if exc is not None else None
        if error is None and self._error is None and not self.resting:
            try:
                # The loop does not say whether an encrypted connection announced its end: then it counts as cut.
                self.reader.end(announced=self._transport.get_extra_info("ssl_object") is None)
            except Broken as broken:
                error = broken
        self._pool.drop(self)
        self.resting = False
        self._fail(error or Broken("it closed the connection", arrived=True))
        if not self.lost.done():
            self.lost.set_result(None)

    # ------------------------------------------------------------ waking and giving up

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Broken) -> None:
        """The connection is of no further use."""
        if self._error is None:
            self._error = error
        self._deadline = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.abort()
        self._wake()

    def _expect(self, seconds: float) -> None:
        """Something must come within this time. Most requests are answered long before; so timers are not cancelled."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._deadline == inf:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._fail(Broken("it did not answer in time", arrived=True, timed_out=True))


class _Pieces:
    """The body of an answer as it comes. Has the connection for itself, and closes it."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        line, reader = self._line, self._line.reader
        while True:
            if reader.held:
                return reader.take()
            if reader.complete:
                line.abort()
                raise StopAsyncIteration
            await line.news()

    async def aclose(self) -> None:
        """Let go of the connection."""
        self._line.abort()
        await asyncio.shield(self._line.lost)
