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

from parley.compat.channels import to_openintent_message
from parley.compat.hooks import dispatch, has_hook_for, retry_while_away
from parley.compat.workplace import IntentEvent, OpenIntentWorkplace, WorkplaceOptions
from parley.domain.names import agent_name
from parley.sdk.agent.agent import Plan
from parley.sdk.agent.calling import run_in_thread
from parley.sdk.agent.decorators import ASSIGNMENT, MESSAGE, HandlerSpec
from parley.sdk.agent.handlers import Handler, Handlers, check_handlers
from parley.sdk.agent.runtime import Runtime
from parley.sdk.agent.watchdog import watch_loop
from parley.sdk.client.client import AsyncClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_HEARTBEAT_SECONDS = 30.0

_log = logging.getLogger("openintent.agents")

# mypy cannot know what is theirs: the SDK ships no type information.
Theirs = Any


# ---------------------------------------------------------------- what BaseAgent gets


def _run(agent: Theirs) -> None:
    """Work until `stop()`, SIGTERM or Ctrl-C; then finish what was begun."""
    _log.info("Starting agent: %s", agent._agent_id)
    agent._running = True
    _run_until_signal(agent._run_async, agent.stop)


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
        agent._running, agent._parley_workplace = False, None
        await agent._disconnect_mcp()
        if agent._async_client is not None:
            # Its connections belong to this loop; the next one gets another client.
            await agent._async_client.close()
            agent._async_client = None


async def _serve(agent: Theirs) -> None:
    config = agent._config
    plan = Plan(agent_name(agent._agent_id), capabilities=tuple(config.capabilities), drain=config.drain_timeout)
    heartbeat_seconds = config.heartbeat_interval if config.auto_heartbeat else None

    async def on_drain() -> None:
        for handler in agent._handlers["drain"]:
            try:
                await agent._call_handler(handler)
            except Exception:  # noqa: BLE001  # the outermost frame around a user's code
                _log.exception("Drain handler error")

    async with AsyncClient(config.base_url, key=config.api_key) as client:
        workplace = OpenIntentWorkplace(
            client, plan, WorkplaceOptions(partial(has_hook_for, agent), heartbeat_seconds, on_drain)
        )
        agent._parley_workplace = workplace
        with watch_loop(agent._loop):
            await Runtime(plan, _handlers_of(agent), workplace).run(agent._parley_stop)


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
    return await run_in_thread(partial(handler, *args))


async def _patch_state(agent: Theirs, intent_id: str, updates: dict[str, Any]) -> None:
    await _patch_intent_state(agent.async_client, intent_id, updates)


async def _complete_intent(agent: Theirs, intent_id: str, final_state: dict[str, Any] | None = None) -> None:
    if final_state:
        await _patch_intent_state(agent.async_client, intent_id, final_state)
    await _set_completed(agent.async_client, intent_id)


async def _delegate(agent: Theirs, intent_id: str, target_agent_id: str, payload: dict[str, Any] | None = None) -> None:
    """Assign another agent. The server's event names who delegated; the payload goes into a comment before it."""
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
    methods = sorted(agent._handlers["message"], key=lambda method: names.get(method.__name__, len(names)))
    handlers = [
        Handler(method.__name__, _adapt_handler(method), HandlerSpec(MESSAGE, method._openintent_channel or ""))
        for method in methods
    ]

    async def events(intent_event: IntentEvent) -> None:
        await agent._handle_event(SSEEvent(intent_event.name, intent_event.document, intent_event.position))

    return check_handlers([*handlers, Handler("events", events, HandlerSpec(ASSIGNMENT))])


def _adapt_handler(method: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of theirs that takes a message of ours."""
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def call_async(message: Theirs) -> Theirs:
            return await method(to_openintent_message(message))

        return call_async

    @wraps(method)
    def call_sync(message: Theirs) -> Theirs:
        return method(to_openintent_message(message))

    return call_sync


# ---------------------------------------------------------------- what Worker gets


def _run_worker(worker: Theirs) -> None:
    """Work until `stop()`, SIGTERM or Ctrl-C; then finish what was begun."""
    worker._running = True
    _run_until_signal(worker._run_async, worker.stop)


async def _run_worker_async(worker: Theirs) -> None:
    worker._loop, worker._parley_stop, worker._running = asyncio.get_running_loop(), asyncio.Event(), True
    plan = Plan(agent_name(worker.agent_id))

    async def on_assigned(intent_event: IntentEvent) -> None:
        intent = await retry_while_away(lambda: theirs.get_intent(intent_event.id))
        if intent is None:
            return
        result = await _call_handler(worker, worker.handler, intent)
        if result and isinstance(result, dict):
            await _patch_intent_state(theirs, intent_event.id, result)
        await _set_completed(theirs, intent_event.id)

    async def on_drain() -> None:
        worker._running = False

    def is_own_assignment(name: str, document: dict[str, Any]) -> bool:
        return name == "agent_assigned" and document.get("agent_id") == plan.name

    theirs = AsyncOpenIntentClient(worker.base_url, worker.api_key, worker.agent_id)
    async with theirs, AsyncClient(worker.base_url, key=worker.api_key) as client:
        workplace = OpenIntentWorkplace(client, plan, WorkplaceOptions(is_own_assignment, _HEARTBEAT_SECONDS, on_drain))
        handlers = Handlers([Handler("handler", on_assigned, HandlerSpec(ASSIGNMENT))])
        with watch_loop(worker._loop):
            await Runtime(plan, handlers, workplace).run(worker._parley_stop)


WORKER: dict[str, Callable[..., Any]] = {"run": _run_worker, "_run_async": _run_worker_async, "stop": _stop}


# ---------------------------------------------------------------- what both use


async def _patch_intent_state(client: Theirs, intent_id: str, updates: dict[str, Any]) -> None:
    """Set keys of an intent's state, whatever others change meanwhile."""

    async def once() -> None:
        intent = await client.get_intent(intent_id)
        await client.update_state(intent_id, intent.version, updates)

    await retry_while_away(once, conflicts=True)


async def _set_completed(client: Theirs, intent_id: str) -> None:
    """Complete an intent. A draft is activated first, as the server requires."""

    async def once() -> None:
        intent = await client.get_intent(intent_id)
        if intent.status is IntentStatus.DRAFT:
            intent = await client.set_status(intent_id, intent.version, IntentStatus.ACTIVE)
        if intent.status is not IntentStatus.COMPLETED:
            await client.set_status(intent_id, intent.version, IntentStatus.COMPLETED)

    await retry_while_away(once, conflicts=True)


def _run_until_signal(work: Callable[[], Awaitable[None]], stop: Callable[[], None]) -> None:
    """Run in a loop of its own. In the main thread a signal ends it in good order, and a second one at once."""

    async def run_work() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work())
        signals: list[int] = []

        def on_signal() -> None:
            if signals:
                task.cancel()
            signals.append(1)
            stop()

        numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            await task
        except asyncio.CancelledError:
            if not signals:
                raise
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    asyncio.run(run_work())
