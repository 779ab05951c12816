"""Running agents: in a loop of their own until a signal comes, or inside one that is there."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from parley.domain.errors.errors import Invalid, ParleyError
from parley.sdk.agent.agent import BaseAgent, runtime_parts
from parley.sdk.agent.runtime import Runtime
from parley.sdk.agent.watchdog import watching
from parley.wiring import find_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from parley.sdk.agent.handlers import Handlers
    from parley.sdk.agent.plan import Plan
    from parley.sdk.agent.workplace import Station
    from parley.sdk.client.client import AsyncClient

T = TypeVar("T")

_MAILBOX = "mailbox:"


class Crew(NamedTuple):
    """What it takes to run an agent: its plan, its handlers, and the object that they belong to, if there is one."""

    plan: Plan
    handlers: Handlers
    agent: BaseAgent | None = None


def run_agents(*agents: BaseAgent, address: str = "", key: str = "") -> None:
    """Run one agent or several in this process until SIGTERM or Ctrl-C; then let them finish what they began.

    See `BaseAgent.run` for `address` and `key`; with several agents the key is a service key. A second signal ends them
    at once; what they had not finished comes again at the next start.
    """
    if threading.current_thread() is not threading.main_thread():
        raise Invalid("run() wants the main thread", hint="elsewhere: await agent.serve() in a loop of your own")
    if _in_a_loop():
        raise Invalid("run() wants a thread without an event loop", hint="here, write: await agent.serve()")
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            runner.run(_until_signal(list(agents), address, key))
    except ParleyError as error:
        # What went wrong is said in one line; the way through our own code would only hide it.
        raise error.with_traceback(None) from None


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


async def _until_signal(agents: Sequence[BaseAgent], address: str, key: str) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def ready() -> None:
        if not logging.getLogger().handlers:  # else whoever set it up decides what is shown
            names = ", ".join(one.name for one in agents)
            sys.stderr.write(f"parley: {names} at work on {find_server(address)[0]}; stop with Ctrl-C\n")

    serving = asyncio.ensure_future(serve_agents(agents, address=address, key=key, stop=stop, ready=ready))

    def signalled() -> None:
        if stop.is_set():
            serving.cancel()
            deaf()  # the next one ends the process, whatever a handler makes of being cancelled
        stop.set()

    def deaf() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    try:
        await serving
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    finally:
        deaf()


async def serve_agents(
    agents: Iterable[BaseAgent],
    *,
    address: str = "",
    key: str = "",
    client: AsyncClient | None = None,
    stop: asyncio.Event | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Run agents inside an event loop that is there already, until `stop` is set.

    `ready` is called once all of them work. When one of them cannot go on, all stop, and its error is raised. `client`
    is used as it is given, and left open.
    """
    crew = [Crew(*runtime_parts(one), one) for one in agents]
    await serve_crew(crew, address=address, key=key, client=client, stop=stop, ready=ready)


async def serve_crew(
    crew: Sequence[Crew],
    *,
    address: str = "",
    key: str = "",
    client: AsyncClient | None = None,
    stop: asyncio.Event | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """`serve_agents` for handlers that may stand anywhere, not only in a class."""
    names = [one.plan.name for one in crew]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"two agents are called {twice[0]}")
    stop = stop or asyncio.Event()
    waiting = set(names)

    def one_ready(name: str) -> None:
        waiting.discard(name)
        if not waiting and ready is not None:
            ready()

    async with _stations(crew, address, key, client) as stations:
        runtimes = [Runtime(one.plan, one.handlers, station) for one, station in zip(crew, stations, strict=True)]
        for one, runtime in zip(crew, runtimes, strict=True):
            if one.agent is not None:
                one.agent._runtime = runtime  # it is made here and nowhere else
        with watching(asyncio.get_running_loop()):
            await _all(runtimes, stop, one_ready)


async def _all(runtimes: list[Runtime], stop: asyncio.Event, ready: Callable[[str], None]) -> None:
    """Run all; the first that fails stops the others, in good order."""
    tasks = [
        asyncio.ensure_future(one.run(stop, lambda name=one.plan.name: ready(name)))  # type: ignore[misc]
        for one in runtimes
    ]
    for task in tasks:
        task.add_done_callback(_seen)  # only the first error is raised
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
        if pending := [one for one in tasks if not one.done()]:
            if (current := asyncio.current_task()) is not None and current.cancelling():
                for one in pending:
                    one.cancel()
            await asyncio.wait(pending)
    for one in tasks:
        one.result()


def _seen(task: asyncio.Future[None]) -> None:
    """Keep the loop from reporting an error of a task as one that nobody looked at."""
    if not task.cancelled():
        task.exception()


@asynccontextmanager
async def _stations(
    crew: Sequence[Crew], address: str, key: str, client: AsyncClient | None
) -> AsyncIterator[list[Station]]:
    """Where each of them works."""
    if client is None:
        address = find_server(address)[0]
    if client is None and is_mailbox(address):
        from parley.sdk.agent.mailbox.workplace import open_stations

        with open_stations(address, [one.plan for one in crew]) as mailboxes:
            yield list(mailboxes)
        return
    from parley.sdk.agent.server.workplace import ServerStation
    from parley.sdk.client.client import AsyncClient

    own = client or AsyncClient(address, key=key)
    try:
        yield [ServerStation(own, one.plan) for one in crew]
    finally:
        if client is None:
            await own.close()


def is_mailbox(address: str) -> bool:
    """Whether an address names a file mailbox: `mailbox:PROJECT`, or a folder."""
    return address.startswith((_MAILBOX, "~", ".", os.sep))


def wait_in_thread(runtime: Runtime, awaitable: Awaitable[T]) -> T:
    """Block a handler's thread until something has happened in the loop."""
    loop = runtime.loop
    if loop is None or threading.get_ident() == runtime.thread:
        raise Invalid("wait() is for handlers that are no coroutines", hint="write: await ...")

    async def awaited() -> Any:  # noqa: ANN401
        return await awaitable

    result: T = asyncio.run_coroutine_threadsafe(awaited(), loop).result()
    return result
