"""One connection of HTTP/1.1: requests in, one at a time, answers out in the same order.

    IDLE ──> HEAD ──> BODY | CHUNKS ──> BUSY ──> STREAM ──┐
      ^                                   │               │
      └───────────────────────────────────┴───────────────┘
    refused: LINGER (answered; further input is read and discarded, so that the answer is not lost to a reset)
    last answer given: CLOSING ──> GONE

No timer is ever set. Each phase has a deadline, a number; the listener calls `look` a few times a second. A handler
that runs has no deadline of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from math import inf
from typing import Any, cast

from parley.surfaces.http.http1.chunks import ChunkReader
from parley.surfaces.http.http1.message import (
    CLOSE,
    CONTINUE,
    NO_BODY,
    Framing,
    HeadReader,
    PendingResponse,
    Refused,
    Request,
    Response,
    after_empty_lines,
    check_partial_head,
    has_body,
    render,
)
from parley.surfaces.http.http1.shared import Shared, end_stream, log_failure
from parley.surfaces.http.http1.streaming import StreamedAnswer

# Bytes buffered of a client that pipelines requests, until it is their turn.
_AHEAD_BYTES = 64 * 1024
# A slow client must read at least this many bytes of its answer in `write_seconds`.
_LEAST_TAKEN = 16 * 1024
_LINGER_SECONDS = 2.0
# A client that pipelines yields to the event loop after this many.
_REQUESTS_IN_A_ROW = 32

_CR = 13

# The phases, in the order of a request's life: below _BUSY input is parsed, from _LINGER on it is discarded.
_IDLE, _HEAD, _BODY, _CHUNKS, _BUSY, _STREAM, _LINGER, _CLOSING, _GONE = range(9)


class Connection(asyncio.Protocol):
    _transport: asyncio.Transport
    _reader: HeadReader
    # The current request: being read from BODY or CHUNKS on, being answered from BUSY on.
    _request: Request
    _framing: Framing
    _body: bytearray
    _chunks: ChunkReader

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._phase = _IDLE
        # Input not parsed yet, or an incomplete head: no CRLFCRLF in its first `_seen` bytes.
        self._received = b""
        self._seen = 0
        # Input beyond the current request has been received.
        self._ahead = False
        self._paused = False
        # The handler, or the stream in STREAM, that would be cancelled if the client went away.
        self._task: asyncio.Future[Any] | None = None
        self._stream: StreamedAnswer | None = None
        self._choked = False
        self._written = 0
        # In the loop's time: when the phase has lasted too long; when the client has taken too little since `_taken`.
        self._until = inf
        self._stall = inf
        self._taken = 0
        self._address = ""
        # The client has half-closed (EOF): what it asked is answered, then the connection ends.
        self._ended = False
        # Whether any request on it came with a valid key.
        self._known = False

    # ------------------------------------------------------------ the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        shared = self._shared
        peer = address[0] if isinstance(address, tuple) else ""
        self._address = shared.limits.limit_address(peer)
        self._reader = HeadReader(shared.limits, peer)
        refused = shared.register(self, self._address)
        if shared.draining:
            self._close()
        elif refused is not None:
            self._refuse(refused)
            self._close()
        else:
            self._wait(shared.limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        """Handle what has been received as far as that goes now; without data, what was received ahead."""
        if self._phase >= _BUSY or self._choked:
            self._buffer(data)
            return
        if self._received:
            data = self._received + data
        start = handled = 0
        try:
            while start < len(data) and self._phase < _BUSY and not self._choked:
                if self._phase > _HEAD:
                    data, whole = self._read_body(data)
                else:
                    if data[start] == _CR:
                        start = after_empty_lines(data, start)
                    end = data.find(b"\r\n\r\n", start + self._seen) + 4
                    if end < 4:
                        self._await_head(data[start:])
                        break
                    self._seen = 0
                    request, framing = self._reader.read(data[start:end])
                    self._request, self._framing = request, framing
                    start = end + framing.length
                    if framing is NO_BODY:
                        whole = True
                    elif not framing.chunked and start <= len(data):
                        request.body, whole = data[end:start], True
                    else:
                        (data, whole), start = self._begin_body(data[end:]), 0
                if whole:
                    self._ahead = start < len(data)
                    self._handle(self._request)
                    handled += 1
                    if handled == _REQUESTS_IN_A_ROW and self._ahead and self._phase == _IDLE:
                        self._let_others()
            self._received = data[start:] if self._phase < _LINGER else b""
        except Refused as refused:
            self._refuse(refused)
        if (self._paused or self._ended) and self._phase < _BUSY and not self._choked:
            self._resume()

    def eof_received(self) -> bool:
        # Running requests are answered for a limited time only: a half-close cannot be told from a vanished client.
        # A stream without end is not continued, and TLS cannot be half-closed.
        if self._phase >= _CLOSING:
            return False
        self._ended = True
        waits = self._stream.ends if self._stream else self._phase < _BUSY and self._choked
        if self._phase == _BUSY:
            waits = not self._request.ends_with_client
        if waits and self._transport.get_extra_info("sslcontext") is None:
            self._wait(self._shared.limits.half_closed_seconds)
            return True
        self._phase = _CLOSING
        self._wait(self._shared.limits.write_seconds)
        self._cancel()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._phase = _GONE
        self._until = self._stall = inf
        self._received = b""
        self._reader.close()
        self._cancel()
        self._shared.unregister(self, self._address)

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        if self._stream is not None:
            self._stream.resume()
        elif self._phase < _BUSY:
            self.data_received(b"")

    # ------------------------------------------------------------ the listener calls

    def look(self, now: float) -> None:
        """Let no deadline pass."""
        left = self._transport.get_write_buffer_size()
        if not left:
            self._stall = inf
        elif self._stall == inf or self._stall <= now:
            taken = self._written - left
            if self._stall <= now and taken - self._taken < _LEAST_TAKEN:
                self._transport.abort()
                return
            self._taken = taken
            self._stall = now + self._shared.limits.write_seconds
        if self._until > now:
            return
        if self._phase == _IDLE or (self._phase == _LINGER and not left):
            self._close()
        elif self._phase < _BUSY:
            self._refuse(Refused(408, "request_timeout", "The request did not arrive in time."))
        else:
            self._transport.abort()

    def drain(self) -> None:
        """Nothing new begins here; what runs may end."""
        if self._phase == _IDLE:
            self._close()
        elif self._phase == _STREAM:
            self._cancel()

    def abort(self) -> None:
        self._transport.abort()

    # ------------------------------------------------------------ reading

    def _buffer(self, data: bytes) -> None:
        """Buffer what a client pipelines, and stop reading when that is too much."""
        if self._phase < _LINGER:
            self._received += data
            if len(self._received) > _AHEAD_BYTES:
                self._pause()

    def _let_others(self) -> None:
        """Yield to the event loop, so that a client that pipelines does not keep other connections waiting."""
        self._phase = _BUSY
        self._until = inf
        self._shared.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        if self._phase == _BUSY:
            self._finish(keep=True)
            self.data_received(b"")

    def _await_head(self, data: bytes) -> None:
        """`data` is an incomplete head, or nothing."""
        if data:
            limits = self._shared.limits
            if self._phase == _IDLE:
                self._phase = _HEAD
                self._wait(limits.header_seconds)
            check_partial_head(data, self._seen, limits)
            self._seen = max(len(data) - 3, 0)

    def _begin_body(self, data: bytes) -> tuple[bytes, bool]:
        """What is left of `data`, and whether the request is complete. A body is read only after `admit` accepts."""
        early_answer = self._shared.admit(self._request)
        if early_answer is None:
            return self._read_admitted(data)
        self._phase = _BUSY
        if isinstance(early_answer, Response):
            self._reject(early_answer)
            return b"", False
        self._until = inf
        task = self._task = self._shared.hold_task(asyncio.ensure_future(early_answer, loop=self._shared.loop))
        task.add_done_callback(self._admitted)
        return data, False

    def _admitted(self, task: asyncio.Future[Response | None]) -> None:
        self._task = None
        if self._phase != _BUSY:
            return
        response = task.result()
        if response is not None:
            self._reject(response)
            return
        data, self._received = self._received, b""
        try:
            self._received, whole = self._read_admitted(data)
            if whole:
                self._ahead = bool(self._received)
                self._handle(self._request)
        except Refused as refused:
            self._refuse(refused)
        if self._phase < _BUSY:
            self.data_received(b"")

    def _reject(self, response: Response) -> None:
        """Answer without having read the body: nothing after it can be read either."""
        self.write(render(response, self._shared.common, CLOSE, headers_only=self._request.method == "HEAD"))
        self._linger()

    def _read_admitted(self, data: bytes) -> tuple[bytes, bool]:
        framing, limits = self._framing, self._shared.limits
        self._wait(limits.body_seconds)
        if framing.chunked:
            self._phase = _CHUNKS
            self._chunks = ChunkReader(limits)
        else:
            self._phase = _BODY
            self._body = bytearray()
        if framing.expects and not data:
            self.write(CONTINUE)
        return self._read_body(data)

    def _read_body(self, data: bytes) -> tuple[bytes, bool]:
        if self._phase == _CHUNKS:
            body = self._chunks.take(data)
            if body is None:
                return b"", False
            self._request.body = body
            return self._chunks.rest(), True
        self._body += data
        length = self._framing.length
        if len(self._body) < length:
            return b"", False
        self._request.body = bytes(self._body[:length])
        return bytes(self._body[length:]), True

    # ------------------------------------------------------------ answering

    def _handle(self, request: Request) -> None:
        self._phase = _BUSY
        shared = self._shared
        try:
            result = shared.handler(request)
        except Exception as error:  # noqa: BLE001  # the outermost frame
            self._fail(error)
            return
        if isinstance(result, Response):
            self._answer(result)
            return
        self._until = inf
        if self._ended:
            self._wait(shared.limits.half_closed_seconds)
        if type(result) is PendingResponse:
            result.then(self._receive)
        else:
            self._begin_task(cast("Awaitable[object]", result))

    def _receive(self, result: Response | Awaitable[Response] | Exception) -> None:
        """What a `PendingResponse` gives. The client may be gone."""
        if isinstance(result, Response):
            self._answer(result)
        elif isinstance(result, Exception):
            self._fail(result)
        else:
            self._begin_task(result)
            return
        if self._phase < _BUSY and (self._received or self._paused or self._ended):
            self.data_received(b"")

    def _begin_task(self, result: Awaitable[object]) -> None:
        try:
            task = self._task = asyncio.ensure_future(result, loop=self._shared.loop)
        except TypeError as error:
            self._fail(error)
            return
        self._shared.hold_task(task)
        task.add_done_callback(self._handled)
        if self._phase != _BUSY:
            self._cancel()

    def _handled(self, task: asyncio.Future[object]) -> None:
        self._task = None
        if task.cancelled():
            if self._phase == _BUSY:
                self._fail(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self._fail(error)
        elif isinstance(response := task.result(), Response):
            self._answer(response)
        else:
            self._fail(TypeError())
        if self._phase < _BUSY:
            self.data_received(b"")

    def _answer(self, response: Response) -> None:
        stream = response.stream
        if self._phase != _BUSY:
            self._discard(stream)
            return
        shared, framing, headers_only = self._shared, self._framing, self._request.method == "HEAD"
        self._known = self._known or self._request.known
        streams = stream is not None and not headers_only and has_body(response)
        # HTTP/1.0 knows no chunks: there a stream ends with the connection.
        keep = framing.keep_alive and not shared.leaving and not (streams and framing.old)
        try:
            connection = b"" if keep and not framing.old else framing.connection(keep=keep)
            data = render(response, shared.common, connection, headers_only=headers_only, chunked=not framing.old)
        except Exception as error:  # noqa: BLE001  # the outermost frame; nothing has been sent yet
            self._discard(stream)
            self._fail(error)
            return
        self.write(data)
        if stream is not None:
            if streams:
                self._phase = _STREAM
                self._until = inf
                answer = self._stream = StreamedAnswer(
                    self, shared, stream, chunked=not framing.old, ends=response.ends
                )
                shared.hold_task(shared.loop.create_task(self._send_stream(answer, keep=keep)))
                return
            self._discard(stream)
        self._finish(keep=keep)

    def _fail(self, error: BaseException) -> None:
        """A handler ended in an error: that is ours, and the client learns no more than that."""
        log_failure("http_handler_failed", error)
        if self._phase != _BUSY:
            return
        keep = self._framing.keep_alive and not self._shared.leaving
        connection = self._framing.connection(keep=keep)
        failure = Refused(500, "internal", "The server failed; the failure has been logged.")
        self.write(self._shared.refusal(failure, connection, headers_only=self._request.method == "HEAD"))
        self._finish(keep=keep)

    def _finish(self, *, keep: bool) -> None:
        if keep:
            self._phase = _IDLE
            limits = self._shared.limits
            self._wait(limits.idle_seconds if self._known else limits.stranger_idle_seconds)
        elif self._ahead or self._received:
            self._linger()
        else:
            self._close()

    # ------------------------------------------------------------ streaming

    @property
    def is_streaming(self) -> bool:
        return self._phase == _STREAM

    @property
    def is_choked(self) -> bool:
        return self._choked

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def break_off(self, error: BaseException) -> None:
        """What has been sent must not look like the whole."""
        log_failure("http_stream_failed", error)
        self._phase = _CLOSING
        self._transport.abort()

    async def _send_stream(self, stream: StreamedAnswer, *, keep: bool) -> None:
        await stream.send(wanted=stream.ends or not self._ended)
        self._stream = None
        if self._phase == _STREAM:
            self._finish(keep=keep and not self._shared.leaving)
            if self._phase < _BUSY:
                self.data_received(b"")

    def _discard(self, stream: AsyncIterator[bytes] | None) -> None:
        if stream is not None:
            self._shared.hold_task(self._shared.loop.create_task(end_stream(stream)))

    # ------------------------------------------------------------ the socket, and ending

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Read on, or close when the client has half-closed."""
        self._paused = False
        if self._ended:
            self._close()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def _wait(self, seconds: float) -> None:
        self._until = self._shared.loop.time() + seconds

    def _refuse(self, refused: Refused) -> None:
        """Answer with an error, and read no further request."""
        self.write(self._shared.refusal(refused, CLOSE, headers_only=False))
        self._linger()

    def _linger(self) -> None:
        self._phase = _LINGER
        self._received = b""
        self._wait(_LINGER_SECONDS)
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._paused:
            self._resume()

    def _close(self) -> None:
        self._phase = _CLOSING
        self._wait(self._shared.limits.write_seconds)
        self._transport.close()

    def _cancel(self) -> None:
        """Cancel the handler or the stream. It cleans up by itself and must not be cancelled twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        elif self._stream is not None:
            self._stream.cancel()
