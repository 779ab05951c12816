"""Ending a server of asyncio's without losing anybody."""

from __future__ import annotations

import asyncio


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server. asyncio forgets a connection that is accepted but not yet made at that moment, and its socket
    stays open: those are made first.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening)
    for _ in range(3):  # to make the transport, to tell who is to serve it, and to begin
        await asyncio.sleep(0)
    server.close()
