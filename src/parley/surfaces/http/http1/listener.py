"""Listening sockets: begin, look after the deadlines, and end without cutting anyone off."""

import asyncio
from collections.abc import Callable
from ssl import SSLContext

from parley.surfaces.http.http1.connection import Connection
from parley.surfaces.http.http1.message import Admit, Handler, HttpLimits, Problem, admit_all, common_fields
from parley.surfaces.http.http1.shared import Shared

__all__ = ["HttpLimits", "Listener", "listen"]

_BACKLOG = 1024
_SWEEP_SECONDS = 0.5
# After the time to drain is over: for cancelled handlers to clean up.
_LAST_SECONDS = 1.0


async def listen(
    handler: Handler,
    host: str,
    port: int,
    *,
    limits: HttpLimits,
    problem: Problem,
    now: Callable[[], float],
    ssl: SSLContext | None = None,
    admit: Admit = admit_all,
) -> "Listener":
    """Serve `handler` at this address until drained. `now` tells the seconds since 1970, for the Date field.

    `admit` is asked before a body is read that did not come with its head.
    """
    loop = asyncio.get_running_loop()
    shared = Shared(handler, limits, problem, common_fields(now()), admit)
    handshake = limits.header_seconds if ssl else None
    server = await loop.create_server(
        lambda: Connection(shared),
        host,
        port,
        ssl=ssl,
        backlog=_BACKLOG,
        ssl_handshake_timeout=handshake,
        ssl_shutdown_timeout=handshake,
    )
    return Listener(server, shared, now)


class Listener:
    def __init__(self, server: asyncio.Server, shared: Shared, now: Callable[[], float]) -> None:
        self._server = server
        self._shared = shared
        self._now = now
        limits = shared.limits
        shortest = min(
            limits.header_seconds,
            limits.body_seconds,
            limits.idle_seconds,
            limits.stranger_idle_seconds,
            limits.write_seconds,
            limits.half_closed_seconds,
        )
        self._every = min(_SWEEP_SECONDS, shortest / 2)
        self._timer = shared.loop.call_later(self._every, self._sweep)
        self.port: int = server.sockets[0].getsockname()[1]

    @property
    def connections(self) -> int:
        return len(self._shared.connections)

    def leave(self) -> None:
        """Go on, but let every answer say that it is the last one of its connection: whoever comes back is welcome
        elsewhere. So nobody who talks to us is cut off in the middle of asking when it comes to `drain`.
        """
        self._shared.leaving = True

    async def drain(self, seconds: float) -> None:
        """Accept nobody, let running requests end for so long, end streams, then close everything."""
        self.leave()
        shared = self._shared
        shared.draining = True
        await self._stop_accepting()
        for connection in tuple(shared.connections):
            connection.drain()
        await self._emptied(seconds)
        for connection in tuple(shared.connections):
            connection.abort()
        await self._emptied(_LAST_SECONDS)
        if shared.tasks:
            await asyncio.wait(tuple(shared.tasks), timeout=_LAST_SECONDS)
        self._timer.cancel()
        await self._server.wait_closed()

    async def _stop_accepting(self) -> None:
        """asyncio forgets a connection that it has accepted but not yet made when its server is closed: nobody reads
        it, and nobody closes it. Those are made first. uvloop forgets none.
        """
        loop = self._shared.loop
        if isinstance(loop, asyncio.SelectorEventLoop):
            for listening in self._server.sockets:
                loop.remove_reader(listening)
            for _ in range(2):  # to make the transport, and to tell the connection
                await asyncio.sleep(0)
        self._server.close()

    async def _emptied(self, seconds: float) -> None:
        shared = self._shared
        if shared.connections:
            shared.empty.clear()
            try:
                await asyncio.wait_for(shared.empty.wait(), seconds)
            except TimeoutError:
                return

    def _sweep(self) -> None:
        shared = self._shared
        self._timer = shared.loop.call_later(self._every, self._sweep)
        shared.common = common_fields(self._now())
        now = shared.loop.time()
        for connection in tuple(shared.connections):
            connection.look(now)
