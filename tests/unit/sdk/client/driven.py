"""Both clients, driven by the same test: `await alice.send_message(...)` calls the one or the other on a real server.

@TWINS
@with_server
async def test_...(server: LiveServer, twin: str) -> None:
    async with driven(server, twin, "alice") as alice: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from parley.sdk.client.client import AsyncClient, Client
from tests.team_rig import LiveServer

TWINS = pytest.mark.parametrize("twin", ["blocking", "asynchronous"])


class Driven:
    """A client of either kind. A blocking one works in a thread, so that the server can answer meanwhile."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)
        self.called.add(name)
        if name in ("follow", "export_audit"):
            return lambda *args, **fields: self._all(method(*args, **fields))

        async def call(*args: Any, **fields: Any) -> Any:
            if isinstance(self.client, AsyncClient):
                return await method(*args, **fields)
            return await asyncio.to_thread(method, *args, **fields)

        return call

    async def _all(self, items: Any) -> AsyncIterator[Any]:
        """An iterator of either kind, closed when the test has seen enough."""
        ended = object()
        try:
            if isinstance(self.client, AsyncClient):
                async for item in items:
                    yield item
                return
            while (item := await asyncio.to_thread(next, items, ended)) is not ended:
                yield item
        finally:
            if isinstance(self.client, AsyncClient):
                await items.aclose()
            else:
                items.close()

    def as_agent(self, name: str) -> Driven:
        return Driven(self.client.as_agent(name))


def public_methods(area: type) -> list[str]:
    """What an area offers, in its order."""
    return [name for name in vars(area) if not name.startswith("_")]


@asynccontextmanager
async def driven(
    server: LiveServer, twin: str, agent: str = "", kind: KeyKind = KeyKind.AGENT, *, key: str = "", speaks_as: str = ""
) -> AsyncIterator[Driven]:
    """A client with a key of its own: that of an agent, or of another kind."""
    secret = key or await server.rig.key(agent, kind)
    made = AsyncClient if twin == "asynchronous" else Client
    one = Driven(made(f"http://127.0.0.1:{server.listener.port}", key=secret, agent=speaks_as))
    try:
        yield one
    finally:
        await one.close()


@asynccontextmanager
async def admin(server: LiveServer, twin: str) -> AsyncIterator[Driven]:
    async with driven(server, twin, kind=KeyKind.ADMIN) as one:
        yield one
