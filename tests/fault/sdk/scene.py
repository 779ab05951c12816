"""A server and agents as processes of their own, and a crowd in this one that asks and tells them things."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from parley.domain.errors.errors import ParleyError, Unavailable
from parley.sdk.client.client import AsyncClient
from tests.fault.sdk.account import Account, Asked
from tests.fault.sdk.crew import AgentProcess
from tests.fault.sdk.door import Door
from tests.fault.sdk.worker import CONCURRENCY
from tests.rigs.process import ADMIN_KEY, ServerProcess

# Longer than this nothing may take, on a machine that does other things too.
PATIENCE = 120.0


@dataclass
class Scene:
    """One channel, those who answer in it, and one who asks."""

    server: ServerProcess
    door: Door
    agents: list[AgentProcess]
    journal: Path
    client: AsyncClient
    channel_id: str
    account: Account
    chance: random.Random

    async def ask(self, n: int, do: str, to: str, seconds: float, **more: object) -> None:
        """One question; how it ended goes into the account."""
        one = Asked(n, do, to)
        self.account.asked.append(one)
        try:
            one.answer = await self.client.ask(
                self.channel_id, None, to, {"n": n, "do": do, **more}, seconds, check=False
            )
        except ParleyError as error:
            one.error = error

    async def tell(self, n: int, to: str, **more: object) -> None:
        """One notice. Whoever gets no receipt does not know; here they find out by asking again for long enough."""
        try:
            said = await self.client.send_message(self.channel_id, None, to, "notify", {"n": n, **more})
        except Unavailable:
            return
        self.account.told.append(said)

    async def each(self, work: Iterable[Awaitable[None]], at_once: int) -> None:
        """Do all of it, so many at a time."""
        turns = asyncio.Semaphore(at_once)

        async def one(what: Awaitable[None]) -> None:
            async with turns:
                await what

        await asyncio.gather(*map(one, work))

    async def dealt_with(self) -> Account:
        """Wait until the agents have nothing left to do, and close the account."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await Account(self.account.asked, self.account.told).close(
                    self.client, self.channel_id, self.journal
                )
                if not any(line.startswith("dealt with") for line in found.problems()):
                    return found
                await asyncio.sleep(0.05)

    async def closed(self) -> Account:
        """The account as it is now."""
        return await self.account.close(self.client, self.channel_id, self.journal)


@asynccontextmanager
async def scene(
    folder: Path,
    agents: int = 1,
    *,
    mutant: str = "",
    server_mutant: str = "",
    concurrency: int = CONCURRENCY,
    seed: int = 1,
) -> AsyncIterator[Scene]:
    """All of it, ready. The agents go through a door, the crowd does not."""
    loop = asyncio.get_running_loop()
    await off_loop(lambda: folder.mkdir(parents=True, exist_ok=True))
    server = ServerProcess(folder / "data", mutant=server_mutant)
    journal = folder / "journal"
    with ExitStack() as stack:
        await loop.run_in_executor(None, server.start)
        stack.callback(_ended, server)
        async with Door(server.port) as door, AsyncClient(server.url, key=ADMIN_KEY, agent="asker") as client:
            intent = await client.create_intent("a scene", status="active", access="open")
            channel = await client.create_channel(intent.id, "hall", options={"max_messages": 100_000})
            url = f"http://127.0.0.1:{door.port}"
            crew = [
                AgentProcess(f"agent-{number}", url, journal, mutant=mutant, concurrency=concurrency)
                for number in range(agents)
            ]
            try:
                for one in crew:
                    await loop.run_in_executor(None, one.start)
                yield Scene(server, door, crew, journal, client, channel.id, Account(), random.Random(seed))
            finally:
                for one in crew:
                    if one.process is not None:
                        await loop.run_in_executor(None, one.kill)


def _ended(server: ServerProcess) -> None:
    if server.process is not None:
        server.kill()


async def disturbed(work: Awaitable[None], disturb: Callable[[], Awaitable[None]]) -> int:
    """Do something, and disturb it again and again meanwhile; how often it was disturbed."""
    working, times = asyncio.ensure_future(work), 0
    while not working.done():
        await disturb()
        times += 1
    await working
    return times


async def off_loop(call: Callable[[], object]) -> None:
    """Something that blocks."""
    await asyncio.get_running_loop().run_in_executor(None, call)
