"""A small pooler before a PostgreSQL, as far as a node can tell it from a real one.

It greets by itself, and with a number that it made up. By session, a client keeps the connection that it got; by
transaction, it gives it back whenever none is under way, and the next one to ask gets the one that was used last.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

from tests.rigs.asyncio_servers import stop_accepting

_NUMBER = 77
_READY = b"Z" + struct.pack("!ic", 5, b"I")


class Pooler:
    """By session, or by transaction. Start it in the event loop that uses it."""

    def __init__(self, port: int, database: str, *, by_session: bool) -> None:
        self._behind = port
        self._database = database
        self._by_session = by_session
        self._idle: list[_Lent] = []
        self._lent: list[_Lent] = []
        self._clients: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        await stop_accepting(self._server)
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for one in self._lent:
            await one.close()

    def dsn(self) -> str:
        return f"postgresql://parley@127.0.0.1:{self.port}/{self._database}?sslmode=disable"

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await self._serve(reader, writer)
        self._clients.discard(task)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = struct.unpack("!i", await reader.readexactly(4))[0]
        await reader.readexactly(size - 4)
        greeting = struct.pack("!cii", b"R", 8, 0) + struct.pack("!ciii", b"K", 12, _NUMBER, 0)
        writer.write(greeting + b"".join(map(_told, _STATUS)) + _READY)
        lent: _Lent | None = None
        while (asked := await _message(reader))[:1] != b"X":
            if lent is None:
                lent = self._idle.pop() if self._idle else await self._opened()
                lent.answers(writer)
            lent.writer.write(asked)
            if asked[:1] in b"QS":
                free = await lent.ready()
                if free and not self._by_session:
                    self._idle.append(lent)
                    lent = None
                else:
                    lent.answers(writer)

    async def _opened(self) -> _Lent:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._behind)
        said = b"user\0parley\0database\0" + self._database.encode() + b"\0\0"
        writer.write(struct.pack("!ii", len(said) + 8, 3 << 16) + said)
        lent = _Lent(reader, writer)
        self._lent.append(lent)
        lent.answers(None)
        await lent.ready()
        return lent


_STATUS = {"server_version": "15.0", "client_encoding": "UTF8", "integer_datetimes": "on", "TimeZone": "UTC"}


def _told(name: str) -> bytes:
    said = f"{name}\0{_STATUS[name]}\0".encode()
    return b"S" + struct.pack("!i", len(said) + 4) + said


class _Lent:
    """A connection to the database."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def answers(self, client: asyncio.StreamWriter | None) -> None:
        """Pass on what it says, until it is ready for more."""
        self._answer = asyncio.create_task(self._pass_on(client))

    async def ready(self) -> bool:
        """Wait for that; whether no transaction is under way then."""
        return await self._answer

    async def _pass_on(self, client: asyncio.StreamWriter | None) -> bool:
        while True:
            said = await _message(self.reader)
            if client is not None:
                client.write(said)
            if said[:1] == b"Z":
                return said[5:] == b"I"

    async def close(self) -> None:
        self._answer.cancel()
        await asyncio.gather(self._answer, return_exceptions=True)
        self.writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
