"""Agents at work on a real server, in the test's own event loop.

@with_server
async def test_...(server: LiveServer) -> None:
    async with at_work(server, Echo()) as alice:
        answer = await alice.ask(CHANNEL, None, "echo", {"text": "hello"})
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from parley.domain.directory.callers import KeyKind
from parley.sdk.agent.agent import BaseAgent
from parley.sdk.agent.running import serve_agents
from parley.sdk.client.client import AsyncClient
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, LiveServer, soon


async def client_of(server: LiveServer, agent: str = "alice", port: int = 0) -> AsyncClient:
    """Somebody with a key that speaks for several agents."""
    key = await server.rig.key(kind=KeyKind.SERVICE)
    return AsyncClient(f"http://127.0.0.1:{port or server.listener.port}", key=key, agent=agent)


class Shift:
    """Agents that serve until they are told to stop, or fail."""

    def __init__(self, client: AsyncClient, *agents: BaseAgent) -> None:
        self.stop = asyncio.Event()
        self._ready = asyncio.Event()
        self.serving = asyncio.ensure_future(serve_agents(agents, client=client, stop=self.stop, ready=self._ready.set))
        self._looked_at = False

    async def begun(self) -> None:
        """Return when all of them work; raise what one of them cannot begin with."""
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait((ready, self.serving), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self.serving.done():
            self.serving.result()

    async def ended(self) -> BaseException | None:
        """Wait until they have stopped; what they failed with, if they did."""
        self._looked_at = True
        async with asyncio.timeout(30):
            await asyncio.wait([self.serving])
        return self.serving.exception()

    async def end(self) -> None:
        """Tell them to stop, wait until they have, and raise what they failed with, unless the test has seen it."""
        self.stop.set()
        await asyncio.wait([self.serving])
        if not self._looked_at:
            self.serving.result()


@asynccontextmanager
async def shift(server: LiveServer, *agents: BaseAgent, port: int = 0) -> AsyncIterator[Shift]:
    """Agents at work, for a test that looks at how they begin and end."""
    client = await client_of(server, "", port)
    one = Shift(client, *agents)
    try:
        await one.begun()
        yield one
        await one.end()
    finally:
        one.stop.set()
        await asyncio.wait([one.serving])
        await client.close()


@asynccontextmanager
async def at_work(server: LiveServer, *agents: BaseAgent) -> AsyncIterator[AsyncClient]:
    """Agents at work, and alice, who talks to them."""
    async with shift(server, *agents):
        alice = await client_of(server)
        try:
            yield alice
        finally:
            await alice.close()


async def answered(server: LiveServer, request_id: str) -> list[dict[str, Any]]:
    """What was answered to a request: whole messages, as the server keeps them."""
    everybody = await server.client(kind=KeyKind.ADMIN)
    said = (await everybody.get(f"/channels/{CHANNEL}/messages", limit=1000)).json
    return [one for one in said if one["correlation_id"] == request_id]


async def told(server: LiveServer, to: str, *numbers: int) -> None:
    """alice tells an agent some numbers."""
    for number in numbers:
        await server.rig.say("alice", str(number), to=to)


class Ear(logging.Handler):
    """What was logged, as far as it has an action."""

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[str] = []
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.actions.append(str(vars(record).get("action", "")))

    async def hears(self, action: str, times: int = 1) -> None:
        """Wait until something was logged."""
        await soon(lambda: self.actions.count(action) >= times)


async def asked(alice: AsyncClient, payload: dict[str, Any] | None = None, *, to: str = "bob") -> ChannelMessage:
    """Ask an agent, and wait for what it says, also when that is an error."""
    return await alice.ask(CHANNEL, None, to, payload or {}, 10, check=False)
