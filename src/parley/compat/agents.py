"""What takes the place of the methods of `openintent.agents` that do not work, built on Parley's own runtime."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from openintent.client import AsyncOpenIntentClient
from openintent.models import EventType, IntentStatus
from openintent.streaming import SSEEvent

from parley.compat.channels import as_theirs
from parley.compat.hooks import dispatch, insist, wants
from parley.compat.workplace import Occurrence, SdkStation, Wishes
from parley.domain.names import agent_name
from parley.sdk.agent.calling import in_thread
from parley.sdk.agent.decorators import ASSIGNMENT, MESSAGE, Handles
from parley.sdk.agent.handlers import Handler, Handlers, checked
from parley.sdk.agent.plan import Plan
from parley.sdk.agent.runtime import Runtime
from parley.sdk.agent.watchdog import watching
from parley.sdk.client.client import AsyncClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_BEAT_SECONDS = 30.0

_log = logging.getLogger("openintent.agents")

# mypy cannot know what is theirs: the SDK ships no type information.
Theirs = Any


# ---------------------------------------------------------------- what BaseAgent gets


def _run(agent: Theirs) -> None:
    """Work until `stop()`, SIGTERM or Ctrl-C; then finish what was begun."""
    _log.info("Starting agent: %s", agent._agent_id)
    agent._running = True
    _until_told(agent._run_async, agent.stop)


async def _run_async(agent: Theirs) -> None:
    agent._loop, agent._parley_stop = asyncio.get_running_loop(), asyncio.Event()
    try:
        await agent._resolve_mcp_tools()
        if not agent._running:
            return
        if agent._config.auto_subscribe:
            await _serve(agent)
        else:
            await agent._parley_stop.wait()
    finally:
        agent._running, agent._parley_station = False, None
        await agent._disconnect_mcp()
        if agent._async_client is not None:
            # Its connections belong to this loop; the next one gets another client.
            await agent._async_client.close()
            agent._async_client = None


async def _serve(agent: Theirs) -> None:
    config = agent._config
    plan = Plan(agent_name(agent._agent_id), capabilities=tuple(config.capabilities), drain=config.drain_timeout)
    beat = config.heartbeat_interval if config.auto_heartbeat else None

    async def drained() -> None:
        for handler in agent._handlers["drain"]:
            try:
                await agent._call_handler(handler)
            except Exception:  # noqa: BLE001  # the outermost frame around a user's code
                _log.exception("Drain handler error")

    async with AsyncClient(config.base_url, key=config.api_key) as client:
        station = SdkStation(client, plan, Wishes(partial(wants, agent), beat, drained))
        agent._parley_station = station
        with watching(agent._loop):
            await Runtime(plan, _handlers_of(agent), station).run(agent._parley_stop)


def _stop(agent: Theirs) -> None:
    """Finish what was begun, and end `run()`. Any thread may say so."""
    _log.info("Stopping agent: %s", agent.agent_id)
    agent._running = False
    stop = getattr(agent, "_parley_stop", None)
    if stop is None or agent._loop.is_closed():
        return
    agent._loop.call_soon_threadsafe(stop.set)


async def _call_handler(_agent: Theirs, handler: Callable[..., Any], *args: Theirs) -> Theirs:
    """Await a coroutine; run anything else in a thread, where it may block."""
    if inspect.iscoroutinefunction(handler):
        return await handler(*args)
    return await in_thread(partial(handler, *args))


async def _patch_state(agent: Theirs, intent_id: str, updates: dict[str, Any]) -> None:
    await _patched(agent.async_client, intent_id, updates)


async def _complete_intent(agent: Theirs, intent_id: str, final_state: dict[str, Any] | None = None) -> None:
    if final_state:
        await _patched(agent.async_client, intent_id, final_state)
    await _completed(agent.async_client, intent_id)


async def _delegate(agent: Theirs, intent_id: str, target_agent_id: str, payload: dict[str, Any] | None = None) -> None:
    """Assign somebody else. Who did it stands in the event that the server writes; what for, in one of ours before."""
    if payload:
        note = {"message": f"delegated to {target_agent_id}", "agent_id": target_agent_id, "payload": payload}
        await agent.async_client.log_event(intent_id, EventType.COMMENT, note)
    await agent.async_client.assign_agent(intent_id, target_agent_id)


AGENT: dict[str, Callable[..., Any]] = {
    "run": _run,
    "stop": _stop,
    "_run_async": _run_async,
    "_handle_event": dispatch,
    "_call_handler": _call_handler,
    "patch_state": _patch_state,
    "complete_intent": _complete_intent,
    "delegate": _delegate,
}


def _handlers_of(agent: Theirs) -> Handlers:
    """Their handlers of messages, in the order of the text; everything else goes through their own dispatch."""
    order = [name for kind in reversed(type(agent).__mro__) for name in vars(kind)]
    names = {name: place for place, name in enumerate(order)}
    methods = sorted(agent._handlers["message"], key=lambda one: names.get(one.__name__, len(names)))
    found = [Handler(one.__name__, _adapted(one), Handles(MESSAGE, one._openintent_channel or "")) for one in methods]

    async def events(occurrence: Occurrence) -> None:
        await agent._handle_event(SSEEvent(occurrence.name, occurrence.document, occurrence.position))

    return checked([*found, Handler("events", events, Handles(ASSIGNMENT))])


def _adapted(method: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of theirs that takes a message of ours."""
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def awaited(message: Theirs) -> Theirs:
            return await method(as_theirs(message))

        return awaited

    @wraps(method)
    def called(message: Theirs) -> Theirs:
        return method(as_theirs(message))

    return called


# ---------------------------------------------------------------- what Worker gets


def _run_worker(worker: Theirs) -> None:
    """Work until `stop()`, SIGTERM or Ctrl-C; then finish what was begun."""
    worker._running = True
    _until_told(worker._run_async, worker.stop)


async def _run_worker_async(worker: Theirs) -> None:
    worker._loop, worker._parley_stop, worker._running = asyncio.get_running_loop(), asyncio.Event(), True
    plan = Plan(agent_name(worker.agent_id))

    async def assigned(occurrence: Occurrence) -> None:
        intent = await insist(lambda: theirs.get_intent(occurrence.id))
        if intent is None:
            return
        result = await _call_handler(worker, worker.handler, intent)
        if result and isinstance(result, dict):
            await _patched(theirs, occurrence.id, result)
        await _completed(theirs, occurrence.id)

    async def drained() -> None:
        worker._running = False

    def mine(name: str, document: dict[str, Any]) -> bool:
        return name == "agent_assigned" and document.get("agent_id") == plan.name

    theirs = AsyncOpenIntentClient(worker.base_url, worker.api_key, worker.agent_id)
    async with theirs, AsyncClient(worker.base_url, key=worker.api_key) as client:
        station = SdkStation(client, plan, Wishes(mine, _BEAT_SECONDS, drained))
        handlers = Handlers([Handler("handler", assigned, Handles(ASSIGNMENT))])
        with watching(worker._loop):
            await Runtime(plan, handlers, station).run(worker._parley_stop)


WORKER: dict[str, Callable[..., Any]] = {"run": _run_worker, "_run_async": _run_worker_async, "stop": _stop}


# ---------------------------------------------------------------- what both use


async def _patched(client: Theirs, intent_id: str, updates: dict[str, Any]) -> None:
    """Set keys of an intent's state, whatever others change meanwhile."""

    async def once() -> None:
        intent = await client.get_intent(intent_id)
        await client.update_state(intent_id, intent.version, updates)

    await insist(once, conflicts=True)


async def _completed(client: Theirs, intent_id: str) -> None:
    """Say that an intent is done. One that nobody had started is started first: that is what the server wants."""

    async def once() -> None:
        intent = await client.get_intent(intent_id)
        if intent.status is IntentStatus.DRAFT:
            intent = await client.set_status(intent_id, intent.version, IntentStatus.ACTIVE)
        if intent.status is not IntentStatus.COMPLETED:
            await client.set_status(intent_id, intent.version, IntentStatus.COMPLETED)

    await insist(once, conflicts=True)


def _until_told(work: Callable[[], Awaitable[None]], stop: Callable[[], None]) -> None:
    """Run in a loop of its own. In the main thread a signal ends it in good order, and a second one at once."""

    async def working() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work())
        told: list[int] = []

        def signalled() -> None:
            if told:
                task.cancel()
            told.append(1)
            stop()

        numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        for number in numbers:
            loop.add_signal_handler(number, signalled)
        try:
            await task
        except asyncio.CancelledError:
            if not told:
                raise
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    asyncio.run(working())
