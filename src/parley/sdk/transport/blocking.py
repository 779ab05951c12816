"""HTTP over blocking sockets, for any number of threads."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from select import POLLIN, poll
from threading import Lock
from typing import TYPE_CHECKING

from parley.sdk.transport.http_codec import ResponseReader, broken_by, encoder
from parley.sdk.transport.port import Broken, Response
from parley.wiring import monotonic

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from parley.sdk.transport.port import ClosingIterator, Place, Request

_IDLE_CONNECTIONS = 32
# A server closes an idle connection after 75 seconds; one that is about to be closed is not used.
_IDLE_SECONDS = 60.0
_CHUNK = 65_536


class BlockingHttp:
    """Carries requests to one server over connections that it keeps.

    `tls` says whom to trust, instead of whom the system trusts.
    """

    def __init__(self, place: Place, *, connect_timeout: float = 5.0, tls: ssl.SSLContext | None = None) -> None:
        self._idle: list[_Line] = []
        self._place = place
        self._connect_timeout = connect_timeout
        self._tls = tls
        self._encode = encoder(place)
        self._lock = Lock()
        self._process = os.getpid()
        # Counts the calls of `close`: a connection from before is not kept.
        self._era = 0

    def send(self, request: Request) -> Response[ClosingIterator]:
        """The answer, whatever its status; see `Transport`."""
        content = self._encode(request)
        line = self._taken() or self._opened(min(self._connect_timeout, request.timeout))
        done = False
        try:
            reader = line.exchange(content, request)
            if reader.streaming:
                done = True
                return Response(reader.status, reader.headers, pieces=_Pieces(line))
            response: Response[ClosingIterator] = Response(reader.status, reader.headers, reader.take())
            if reader.reusable:
                done = True
                self._kept(line)
            return response
        finally:
            if not done:
                line.close()

    def close(self) -> None:
        """Let go of all connections that wait; one that is in use is closed when it has served."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._era += 1
        for line in idle:
            line.close()

    def __del__(self) -> None:
        # Whoever never closed it is done with it: an idle connection is nothing to warn about.
        for line in self._idle:
            line.close()

    def _taken(self) -> _Line | None:
        """A connection that waits and still stands."""
        if self._process != os.getpid():
            # A fork: the connections belong to the process that opened them.
            self._process = os.getpid()
            self._lock = Lock()
            self.close()
        now = monotonic()
        while True:
            with self._lock:
                if not self._idle:
                    return None
                line = self._idle.pop()
            if line.stands(now):
                return line
            line.close()

    def _kept(self, line: _Line) -> None:
        now = line.since = monotonic()
        over = line
        with self._lock:
            idle = self._idle
            if line.era == self._era:
                idle.append(line)
                # The one that has waited longest is the first, and goes first.
                if len(idle) <= _IDLE_CONNECTIONS and now - idle[0].since < _IDLE_SECONDS:
                    return
                over = idle.pop(0)
        over.close()

    def _opened(self, timeout: float) -> _Line:
        era, place = self._era, self._place
        try:
            opened = socket.create_connection((place.host, place.port), timeout)
        except (OSError, UnicodeError) as error:
            raise broken_by(error, arrived=False) from None
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if place.secure:
                opened = self._encrypted(opened)
        except (OSError, ValueError) as error:
            opened.close()
            raise broken_by(error, arrived=False) from None
        return _Line(opened, era)

    def _encrypted(self, opened: socket.socket) -> socket.socket:
        if self._tls is None:
            from ssl import create_default_context

            self._tls = create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        # An end that nobody announced may be somebody else's doing: it counts as a break.
        return self._tls.wrap_socket(opened, server_hostname=self._place.host, suppress_ragged_eofs=False)


class _Line:
    """One connection; one request at a time."""

    def __init__(self, opened: socket.socket, era: int) -> None:
        self.era = era
        # Since when it waits.
        self.since = 0.0
        self.reader = ResponseReader()
        self._socket = opened
        self._poll = poll()
        self._poll.register(opened, POLLIN)

    def exchange(self, content: bytes, request: Request) -> ResponseReader:
        """Send a request, and read the answer: whole, or up to where its body streams."""
        reader, opened, timeout = self.reader, self._socket, request.timeout
        reader.begin(bodiless=request.method == "HEAD", streams=request.streams)
        opened.settimeout(timeout)
        until = monotonic() + timeout
        refused: OSError | None = None
        try:
            opened.sendall(content)
        except TimeoutError as error:
            raise broken_by(error, arrived=True) from None
        except OSError as error:
            refused = error  # perhaps the server has said why, before it closed
        try:
            self.receive()
            while not reader.head:
                left = until - monotonic()
                if left <= 0:
                    raise broken_by(TimeoutError(), arrived=True)
                opened.settimeout(left)
                self.receive()
        except Broken:
            if refused is not None:
                raise broken_by(refused, arrived=True) from None
            raise
        opened.settimeout(timeout)
        while not (reader.complete or reader.streaming):
            self.receive()
        return reader

    def receive(self) -> None:
        """Wait for something of the answer, and read it."""
        try:
            data = self._socket.recv(_CHUNK)
        except (OSError, ValueError) as error:
            raise broken_by(error, arrived=True) from None
        if data:
            self.reader.feed(data)
        else:
            self.reader.end()

    def stands(self, now: float) -> bool:
        """Whether it can be used: the server has not closed it, and nothing has come that nobody asked for."""
        return now - self.since < _IDLE_SECONDS and not self._poll.poll(0)

    def cut(self) -> None:
        """End it, also for a thread that waits for its bytes; that thread closes it."""
        with suppress(OSError):  # it may have ended by itself
            # Not the method of an encrypted socket, which another thread may be in the middle of.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class _Pieces:
    """The body of an answer as it comes. Has the connection for itself, and closes it."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._reading = Lock()
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            with self._reading:
                content = self._next()
        finally:
            if self._closed:
                self._line.close()
        if content:
            return content
        self.close()
        raise StopIteration

    def _next(self) -> bytes:
        reader = self._line.reader
        while True:
            if reader.complete and not reader.held:
                return b""
            if self._closed:
                raise Broken("it was closed here", arrived=True)
            if reader.held:
                return reader.take()
            try:
                self._line.receive()
            except Broken:
                if not self._closed:
                    raise

    def close(self) -> None:
        """Let go of the connection, also while another thread waits for the next piece."""
        self._closed = True
        self._line.cut()
        # While a thread reads, the number of the socket must not become another's.
        if self._reading.acquire(blocking=False):
            self._line.close()
            self._reading.release()
