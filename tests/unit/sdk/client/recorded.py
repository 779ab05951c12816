"""A client of a real server that records which of its methods a test has called.

@with_server
async def test_...(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice: ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from parley.domain.directory.callers import KeyKind
from parley.sdk.client.client import AsyncClient
from tests.rigs.team import LiveServer


class Recorded:
    """A client, and the names of the methods that were called."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self.client, name)


def public_methods(area: type) -> set[str]:
    """What an area offers."""
    return {name for name in vars(area) if not name.startswith("_")}


@asynccontextmanager
async def recorded(
    server: LiveServer, agent: str = "", kind: KeyKind = KeyKind.AGENT, *, key: str = ""
) -> AsyncIterator[Recorded]:
    """A client with a key of its own: that of an agent, or of another kind."""
    secret = key or await server.rig.key(agent, kind)
    async with AsyncClient(f"http://127.0.0.1:{server.listener.port}", key=secret) as client:
        yield Recorded(client)


@asynccontextmanager
async def admin(server: LiveServer) -> AsyncIterator[Recorded]:
    async with recorded(server, kind=KeyKind.ADMIN) as client:
        yield client
