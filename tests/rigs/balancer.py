"""A small load balancer: connections go in turn to servers that say that they are ready, byte for byte.

    with balanced([8421, 8422]) as port: ...

It asks each server for /readyz ten times a second, as a real one would do less often. Who is connected stays so: a
server that wants to go has to tell its clients.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.rigs.asyncio_servers import stop_accepting

_LOOK_SECONDS = 0.1
_PATIENCE = 30.0
_QUESTION = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class Balancer:
    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turns = itertools.count()
        self._changed = asyncio.Event()
        self.ready: set[int] = set()
        # How many connections each server got.
        self.given: dict[int, int] = dict.fromkeys(ports, 0)
        self._tasks: set[asyncio.Task[None]] = set()

    async def look_forever(self, port: int) -> None:
        while True:
            (self.ready.add if await self._is_ready(port) else self.ready.discard)(port)
            self._changed.set()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _is_ready(self, port: int) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(_QUESTION)
                    return (await reader.readline()).split()[1:2] == [b"200"]
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_PATIENCE):
                back_reader, back_writer = await self._connected()
            try:
                await asyncio.gather(_pipe(reader, back_writer), _pipe(back_reader, writer))
            finally:
                back_writer.transport.abort()  # what was said has arrived, or nobody wants it any more
        except (OSError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            for port in self._in_turn():
                try:
                    found = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    self.ready.discard(port)  # nothing was said yet: the next one will do
                    continue
                self.given[port] += 1
                return found
            self._changed.clear()
            await self._changed.wait()

    def _in_turn(self) -> list[int]:
        ready = [port for port in self._ports if port in self.ready]
        first = next(self._turns) % len(ready) if ready else 0
        return ready[first:] + ready[:first]

    async def run(self, started: threading.Event, over: asyncio.Event, port: list[int]) -> None:
        looking = [asyncio.ensure_future(self.look_forever(one)) for one in self._ports]
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port.append(server.sockets[0].getsockname()[1])
        started.set()
        await over.wait()
        await stop_accepting(server)
        works = [*looking, *self._tasks]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What one says to the other, until its end; the end is told, too. Who breaks off breaks off both."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


@contextmanager
def balanced(ports: Sequence[int]) -> Iterator[tuple[int, Balancer]]:
    """Balance in a thread of its own; where, and by whom."""
    started = threading.Event()
    port: list[int] = []
    made: list[tuple[Balancer, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        balancer, over = Balancer(ports), asyncio.Event()
        made.append((balancer, asyncio.get_running_loop(), over))
        await balancer.run(started, over, port)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    started.wait()
    balancer, loop, over = made[0]
    try:
        yield port[0], balancer
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
