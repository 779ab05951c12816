"""Agents at real file mailboxes, in the event loop of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

from parley import Mailbox, wiring
from parley.sdk.agent.agent import BaseAgent
from parley.sdk.agent.mailbox.thread import MailboxProject, MailboxThread
from parley.sdk.agent.mailbox.workplace import MailboxWorkplace
from parley.sdk.agent.running import serve_agents
from parley.sdk.agent.workplace import Arrival


class Boxes:
    """A project with mailboxes."""

    def __init__(self, home: Path, *agents: str) -> None:
        wiring.create_project(str(home), "demo", agents)
        self.project = MailboxProject(str(home), "demo")
        self.address = str(home / "projects" / "demo")

    def folder(self, agent: str) -> Path:
        return Path(self.address) / "agents" / agent

    @contextmanager
    def mailbox(self, agent: str) -> Iterator[Mailbox]:
        with Mailbox("demo", agent=agent, home=self.project.home) as mailbox:
            yield mailbox

    @asynccontextmanager
    async def workplace(self, agent: str, *, reads: bool = True, watches: bool = True) -> AsyncIterator[Watched]:
        """A workplace that is left as by a process that dies. It watches its inbox, and takes what arrives."""
        watched = Watched(MailboxThread(self.project, agent))
        async with watched.open(reads=reads, watches=watches):
            yield watched

    @asynccontextmanager
    async def working(self, *agents: BaseAgent) -> AsyncIterator[None]:
        """Agents at work."""
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.ensure_future(serve_agents(agents, address=self.address, stop=stop, ready=ready.set))
        beginning = asyncio.ensure_future(ready.wait())
        await asyncio.wait({serving, beginning}, return_when=asyncio.FIRST_COMPLETED)
        beginning.cancel()
        try:
            yield
        finally:
            stop.set()
            await serving


class Watched:
    """A workplace, and what arrived at it."""

    def __init__(self, thread: MailboxThread) -> None:
        self.thread = thread
        self.workplace = MailboxWorkplace(thread)
        self.arrived: asyncio.Queue[Arrival] = asyncio.Queue()

    @asynccontextmanager
    async def open(self, *, reads: bool, watches: bool) -> AsyncIterator[None]:
        await self.workplace.open()
        works = [*([self.workplace.run_upkeep()] if watches else []), *([self._read()] if reads else [])]
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.thread.close()

    async def next(self) -> Arrival:
        """What arrives next."""
        return await self.arrived.get()

    async def _read(self) -> None:
        async with aclosing(self.workplace.arrivals()) as arrivals:
            async for arrival in arrivals:
                self.arrived.put_nowait(arrival)


async def received(mailbox: Mailbox, count: int = 1) -> list[str]:
    """The ids of what lies in an inbox, as soon as it is so many."""
    while len(found := mailbox.inbox()) < count:  # noqa: ASYNC110  # files ring no bell
        await asyncio.sleep(0.005)
    return [one.id for one in found]


async def emptied(mailbox: Mailbox) -> None:
    """Nothing lies in an inbox any more."""
    while mailbox.inbox():  # noqa: ASYNC110  # files ring no bell
        await asyncio.sleep(0.005)
