"""A door before the database, which does not always let through what comes."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

from tests.postgres.cluster import shared_cluster
from tests.rigs.asyncio_servers import stop_accepting


class Front:
    """So many are told that the database is starting up; then so many questions with a text in them get no answer."""

    def __init__(self, refusals: int = 0, *, deaf_to: bytes = b"", times: int = 0) -> None:
        self.refusals = refusals
        self.port = 0
        self.deaf = times
        self._deaf_to = deaf_to
        self._meeting: list[asyncio.Task[None]] = []
        self._passing: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._come, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def dsn(self, dsn: str) -> str:
        """The address of a database of the shared cluster, through this door."""
        return f"postgresql://parley@127.0.0.1:{self.port}/{dsn.rpartition('/')[2]}?sslmode=disable"

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._meeting.append(asyncio.create_task(self._meet(reader, writer)))

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
            await reader.read(1)
            writer.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", shared_cluster().port)
        for source, target in ((reader, back), (there, writer)):
            self._passing.append(asyncio.create_task(self._pass_on(source, target)))

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while said := await source.read(65_536):
                if self.deaf and self._deaf_to in said:
                    self.deaf -= 1
                else:
                    target.write(said)
        target.close()

    async def close(self) -> None:
        await stop_accepting(self._server)
        await asyncio.gather(*self._meeting)  # who came at the last moment
        await asyncio.gather(*self._passing)
