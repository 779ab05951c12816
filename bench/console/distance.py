"""The console from far away: a proxy on this machine that delays what passes, as a network of 150 ms does."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bench.channels.processes import AGENT
from bench.console.measures import PAINT, ConsoleStage, Values, request_json

ROUND_TRIP_SECONDS = 0.15
_CHUNK = 65_536


class DelayingProxy:
    """Passes bytes on after half a round trip, each way. The first ones of a connection also wait for a whole one: so
    long the handshake of TCP takes, which on this machine takes nothing. It knows no bandwidth and no slow start: the
    first ten segments of a connection, some 14 kB, are as much as a cold page of the console has.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None] | None] = set()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the browser."""
        connected_at = asyncio.get_running_loop().time() + ROUND_TRIP_SECONDS
        upstream, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, to_server}
        self._serving.add(asyncio.current_task())
        try:
            await asyncio.gather(_pass_on(reader, to_server, connected_at), _pass_on(upstream, writer, 0.0))
        finally:
            self._writers -= {writer, to_server}
            self._serving.discard(asyncio.current_task())

    def drop(self) -> None:
        """Close every connection, so that the next page begins with a handshake."""
        for writer in self._writers:
            writer.close()

    async def end(self) -> None:
        """Close every connection, and wait until each has ended."""
        self.drop()
        await asyncio.gather(*[task for task in self._serving if task is not None])


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, not_before: float) -> None:
    """Write each chunk half a round trip after it came; chunks do not wait for each other."""
    loop = asyncio.get_running_loop()
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def write() -> None:
        while True:
            at, chunk = await due.get()
            await asyncio.sleep(at - loop.time())
            if not chunk:
                break
            writer.write(chunk)
        writer.close()

    writing = asyncio.ensure_future(write())
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            due.put_nowait((max(loop.time(), not_before) + ROUND_TRIP_SECONDS / 2, chunk))
    due.put_nowait((loop.time(), b""))
    with suppress(ConnectionError):
        await writing


@asynccontextmanager
async def far_away(port: int) -> AsyncIterator[DelayingProxy]:
    """A server of this machine as from far away."""
    proxy = DelayingProxy(port)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        await proxy.end()


async def measure_far(stage: ConsoleStage, runs: int) -> Values:
    """First paint of the approvals through the proxy: no file cached, and no connection open."""
    page, paints = stage.page, list[float]()
    for number in range(10):
        stage.hold(f"mark-{number}")
    person = stage.server.call("POST", "/keys", {"kind": "human", "user_id": f"{AGENT}@example.com"})["key"]
    connection = http.client.HTTPConnection("127.0.0.1", stage.server.port, timeout=60)
    once = request_json(connection, "/api/v1/sessions/once", {}, person)["once"]
    connection.close()
    async with far_away(stage.server.port) as proxy:
        address = f"http://127.0.0.1:{proxy.port}/console"
        await page.open(f"{address}/login#once={once}")
        await page.until("location.pathname === '/console/approvals' && document.readyState === 'complete'")
        for _ in range(runs):
            await page.go("about:blank")
            proxy.drop()
            await page.forget()
            await page.go(f"{address}/approvals")
            await page.until(f"{PAINT}.length")
            paints.append(await page.run(f"{PAINT}[0].startTime"))
        await page.go("about:blank")
    return {"far paint": paints}
