"""A door in front of a server: it can be shut, it cuts whoever is in it, and it turns some away.

async with Door(server.port) as door:
    client = AsyncClient(f"http://127.0.0.1:{door.port}", ...)
    door.cut()

Behind it the server may change its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from tests.rigs.asyncio_servers import stop_accepting

# What a proxy says for a server that has no time, and what a server says to who asks too often.
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"
TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-type: application/problem+json\r\n"
    b'content-length: 37\r\n\r\n{"code":"rate_limited","detail":"no"}'
)
NO_TIME = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
CUT = b"cut"
BROKEN = (ConnectionError, asyncio.IncompleteReadError, OSError)


class Door:
    """A TCP proxy that knows where a request ends. One request at a time on each connection."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        # What to answer instead of the server; empty lets the request through.
        self.refuse: Callable[[bytes], bytes] = lambda head: b""
        # What to answer although the server has carried the request out; empty lets its own answer through, and CUT
        # closes the connection instead.
        self.swallow: Callable[[bytes], bytes] = lambda head: b""
        self.cuts = self.refused = self.swallowed = self.streams = 0
        self._server: asyncio.Server | None = None
        self._inside: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        """Let them in, always at the same address."""
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def shut(self) -> None:
        """Let nobody in, and cut who is inside."""
        server, self._server = self._server, None
        if server is not None:
            await stop_accepting(server)
        self.cut()
        if self._inside:
            await asyncio.wait(self._inside)

    def cut(self) -> int:
        """Break every connection at this moment; how many."""
        for writer in self._writers:
            writer.transport.abort()
        self.cuts += 1
        return len(self._writers)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._inside.add(task)
        writers = {writer}
        self._writers.add(writer)
        try:
            behind = await asyncio.open_connection("127.0.0.1", self.target)
            writers.add(behind[1])
            self._writers.add(behind[1])
            back = asyncio.create_task(self._back(behind[0], writer))
            try:
                await self._forth(reader, writer, behind[1])
            finally:
                back.cancel()
                await asyncio.wait([back])
        except BROKEN:
            return
        finally:
            for one in writers:
                one.transport.abort()
            self._writers -= writers
            self._inside.discard(task)

    async def _forth(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        behind: asyncio.StreamWriter,
    ) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_length(head))
            self.streams += b"text/event-stream" in head
            answer = self.refuse(head)
            if answer:
                self.refused += 1
                writer.write(answer)
                await writer.drain()
                continue
            if instead := self.swallow(head):
                self.swallowed += 1
                await _carried_out(self.target, head + body)
                if instead == CUT:
                    return
                writer.write(instead)
                await writer.drain()
                continue
            behind.write(head + body)
            await behind.drain()

    async def _back(self, behind: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await behind.read(65_536):
                writer.write(content)
                await writer.drain()
        except BROKEN:
            return
        finally:
            writer.transport.abort()


async def _carried_out(port: int, request: bytes) -> None:
    """Let the server do what a request wants, and wait until it has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.transport.abort()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
