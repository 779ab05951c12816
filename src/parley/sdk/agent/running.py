"""Running agents: in a loop of their own until a signal comes, or inside one that is there."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from parley.domain.errors.errors import Invalid, ParleyError
from parley.domain.errors.team import BookmarkTaken
from parley.sdk.agent.agent import BaseAgent, plan_of, runtime_parts
from parley.sdk.agent.logs import print_log_if_unconfigured
from parley.sdk.agent.runtime import Runtime
from parley.sdk.agent.uncaught import print_if_uncaught
from parley.sdk.agent.watchdog import watch_loop
from parley.wiring import find_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence

    from parley.sdk.agent.agent import Plan
    from parley.sdk.agent.handlers import Handlers
    from parley.sdk.agent.workplace import IntentScope, Workplace
    from parley.sdk.client.client import AsyncClient

T = TypeVar("T")

_MAILBOX = "mailbox:"


class CrewMember(NamedTuple):
    """An agent to run: its plan, its handlers, and the object that they belong to, if any.

    With a `scope` it works on one intent only, beside other processes of the same agent.
    """

    plan: Plan
    handlers: Handlers
    agent: BaseAgent | None = None
    scope: IntentScope | None = None


def run_agents(*agents: BaseAgent, address: str = "", key: str = "") -> None:
    """Run one agent or several in this process until SIGTERM or Ctrl-C; then let them finish what they began.

    See `BaseAgent.run` for `address` and `key`; with several agents the key is a service key. A second signal ends them
    at once; what they had not finished comes again at the next start. What they cannot go on with is raised as a
    `ParleyError`; a program that does not catch it ends with one line and the exit code of that error.
    """
    if threading.current_thread() is not threading.main_thread():
        raise Invalid("run() wants the main thread", hint="elsewhere: await agent.serve() in a loop of your own")
    if _is_in_event_loop():
        raise Invalid("run() wants a thread without an event loop", hint="here, write: await agent.serve()")
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_serve_until_signal(list(agents), address, key))
    except ParleyError as error:
        # The error is one line; a traceback would only hide it.
        print_if_uncaught(error)
        raise error.with_traceback(None) from None


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


async def _serve_until_signal(agents: Sequence[BaseAgent], address: str, key: str) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    prints_log = print_log_if_unconfigured()

    def report_ready() -> None:
        if prints_log:  # with logging configured, the log says it
            names = ", ".join(plan_of(agent).name for agent in agents)
            sys.stderr.write(f"parley: {names} at work on {find_server(address)[0]}; stop with Ctrl-C\n")

    serve_task = asyncio.ensure_future(serve_agents(agents, address=address, key=key, stop=stop, ready=report_ready))

    def on_signal() -> None:
        if stop.is_set():
            serve_task.cancel()
            remove_signal_handlers()  # the next one ends the process, whatever a handler makes of being cancelled
        stop.set()

    def remove_signal_handlers() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        await serve_task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    finally:
        remove_signal_handlers()


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

    They wait for a server that is away. `ready` is called once all of them work. When one of them cannot go on, all
    stop, and its error is raised; but an agent that another process takes over stops alone, and `BookmarkTaken` is
    raised when no agent is left. `client` is used as it is given, and left open.
    """
    crew = [CrewMember(*runtime_parts(agent), agent) for agent in agents]
    await serve_crew(crew, address=address, key=key, client=client, stop=stop, ready=ready)


async def serve_crew(
    crew: Sequence[CrewMember],
    *,
    address: str = "",
    key: str = "",
    client: AsyncClient | None = None,
    stop: asyncio.Event | None = None,
    ready: Callable[[], None] | None = None,
    registered: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """`serve_agents` for handlers that need not be methods of a class.

    `registered` is awaited when all keys are checked, before the first agent claims its bookmark.
    """
    names = [member.plan.name for member in crew]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"two agents are called {duplicates[0]}")
    stop = stop or asyncio.Event()
    waiting = set(names)

    def mark_ready(name: str) -> None:
        waiting.discard(name)
        if not waiting and ready is not None:
            ready()

    async with _open_workplaces(crew, address, key, client, stop) as workplaces:
        runtimes = [
            Runtime(member.plan, member.handlers, workplace) for member, workplace in zip(crew, workplaces, strict=True)
        ]
        for member, runtime in zip(crew, runtimes, strict=True):
            if member.agent is not None:
                member.agent._runtime = runtime  # it is made here and nowhere else
        with watch_loop(asyncio.get_running_loop()):
            # All keys are checked before the first agent takes another process's place.
            await _run_all([runtime.register(stop) for runtime in runtimes], stop)
            if registered is not None and not stop.is_set():
                await registered()
            if not runtimes:
                mark_ready("")
                await stop.wait()
                return
            await _run_crew(runtimes, stop, mark_ready)


async def _run_crew(runtimes: list[Runtime], stop: asyncio.Event, ready: Callable[[str], None]) -> None:
    """Run all until `stop`; one that is taken over ends alone."""
    taken: list[BookmarkTaken] = []

    async def run(runtime: Runtime) -> None:
        name = runtime.plan.name
        try:
            await runtime.run(stop, lambda: ready(name))
        except BookmarkTaken as error:
            taken.append(error)

    await _run_all([run(runtime) for runtime in runtimes], stop)
    if len(taken) == len(runtimes):
        facts = taken[0].facts if len(taken) == 1 else {}
        raise BookmarkTaken("; ".join(sorted(error.message for error in taken)), facts=facts)


async def _run_all(works: list[Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Run all; the first that fails stops the others, in good order."""
    if not works:
        return
    tasks = [asyncio.ensure_future(work) for work in works]
    for task in tasks:
        task.add_done_callback(_retrieve_error)  # only the first error is raised
    failed = True
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = any(task.cancelled() or task.exception() for task in tasks if task.done())
    finally:
        if failed:
            stop.set()
        if pending := [task for task in tasks if not task.done()]:
            if (current := asyncio.current_task()) is not None and current.cancelling():
                for pending_task in pending:
                    pending_task.cancel()
            await asyncio.wait(pending)
    for pending_task in tasks:
        pending_task.result()


def _retrieve_error(task: asyncio.Future[None]) -> None:
    """Retrieve the error of a task, so that the loop does not report it as unhandled."""
    if not task.cancelled():
        task.exception()


@asynccontextmanager
async def _open_workplaces(
    crew: Sequence[CrewMember], address: str, key: str, client: AsyncClient | None, stop: asyncio.Event
) -> AsyncIterator[list[Workplace]]:
    """Open a workplace for each agent."""
    if client is None:
        address = find_server(address)[0]
    if client is None and is_mailbox(address):
        from parley.sdk.agent.mailbox.workplace import open_workplaces

        with open_workplaces(address, [member.plan for member in crew]) as mailboxes:
            yield list(mailboxes)
        return
    from parley.sdk.agent.server.first_login import open_client
    from parley.sdk.agent.server.workplace import ServerWorkplace

    own = client or await open_client(address, key, [member.plan.name for member in crew], stop)
    try:
        yield [ServerWorkplace(own, member.plan, member.scope, titles=member.handlers.need_titles) for member in crew]
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

    async def as_coroutine() -> Any:  # noqa: ANN401
        return await awaitable

    result: T = asyncio.run_coroutine_threadsafe(as_coroutine(), loop).result()
    return result
