"""Which of an `openintent` agent's hooks an event is for, and calling them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import httpx
from openintent.exceptions import ConflictError, NotFoundError, OpenIntentError
from openintent.streaming import SSEEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_RETRY_SECONDS = 1.0
_CONFLICTS_LIMIT = 20
# States in which the server is away or wants to be left alone; everything else it has decided.
_AWAY_STATUSES = (429, 502, 503, 504)

_log = logging.getLogger("openintent.agents")

# mypy cannot know what is theirs: the SDK ships no type information.
Theirs = Any


class _Route(NamedTuple):
    """The method of theirs that deals with an event, and the handlers that it calls."""

    method: str
    kinds: tuple[str, ...]


_ROUTES = {
    "agent_assigned": _Route("_on_assignment", ("assignment", "handoff", "retry")),
    "status_changed": _Route("_on_status_change", ("complete",)),
    "intent_completed": _Route("_on_intent_complete", ("complete",)),
    "state_changed": _Route("_on_state_change", ("state_change",)),
    "lease_released": _Route("_on_lease_released", ("lease_available",)),
    "access_requested": _Route("_on_access_requested", ("access_requested",)),
    "intent.suspended": _Route("_on_generic_event", ("input_requested",)),
    "intent.resumed": _Route("_on_generic_event", ("input_received",)),
    "intent.suspension_expired": _Route("_on_generic_event", ("suspension_expired",)),
    "engagement.decision": _Route("_on_generic_event", ("engagement_decision",)),
}
# The log calls it otherwise than the stream.
_LOGGED_AS = {"state_changed": "state_patched"}


def has_hook_for(agent: Theirs, name: str, document: dict[str, Any]) -> bool:
    """Whether an event is for any hook of an agent."""
    return _is_routed(agent, name, document) or bool(
        _event_handlers(agent, name) or _task_handlers(agent, name, document)
    )


async def dispatch(agent: Theirs, event: Theirs) -> None:
    """Call the hooks that an event is for. What they raise is logged, as theirs does."""
    name, data = _text(event.type).lower(), event.data
    calls: list[Awaitable[None]] = []
    if _is_routed(agent, name, data):
        calls.append(_call_route(agent, name, data, event.id))
    calls += [_call_event_handler(agent, handler, data, event.id) for handler in _event_handlers(agent, name)]
    calls += [_call_task_handler(agent, handler, data) for handler in _task_handlers(agent, name, data)]
    for call in calls:
        try:
            await call
        except Exception:  # noqa: BLE001  # the outermost frame around a user's code
            _log.exception("Error handling event %s", name)


async def _call_route(agent: Theirs, name: str, data: dict[str, Any], position: str | None) -> None:
    """Their own method for an event. It calls hooks only after everything that can fail for want of a server."""
    if name == "access_requested":
        data = await _with_request(agent, data)
    if data.get("delegated_by") == agent._agent_id:
        data = {**data, "delegated_by": None}  # it took the intent by itself
    method, event = getattr(agent, _ROUTES[name].method), SSEEvent(name, data, position)
    await retry_while_away(lambda: method(event))


async def retry_while_away(action: Callable[[], Awaitable[T]], *, conflicts: bool = False) -> T | None:
    """Do something however long the server is away; None when what it is about is gone.

    With `conflicts` also after a version conflict, up to a limit.
    """
    conflict_count = 0
    while True:
        try:
            return await action()
        except NotFoundError as error:
            _log.warning("Gone, or not to be seen: %s", error)
            return None
        except ConflictError:
            conflict_count += 1
            if not conflicts or conflict_count == _CONFLICTS_LIMIT:
                raise
        except (httpx.TransportError, OpenIntentError) as error:
            if isinstance(error, OpenIntentError) and error.status_code not in _AWAY_STATUSES:
                raise
            _log.warning("The server is away: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)


def _is_routed(agent: Theirs, name: str, document: dict[str, Any]) -> bool:
    route = _ROUTES.get(name)
    if route is None or not any(agent._handlers[kind] for kind in route.kinds):
        return False
    # An agent also hears who else joins an intent; theirs takes that for an assignment of its own.
    return name != "agent_assigned" or document.get("agent_id") in (None, agent._agent_id)


def _event_handlers(agent: Theirs, name: str) -> list[Theirs]:
    """Their `@on_event` handlers for an event; its name may be written as in the stream or as in the log."""
    names = (name, _LOGGED_AS.get(name, name))
    return [handler for handler in agent._handlers["event"] if _text(handler._openintent_event_type).lower() in names]


def _text(name: Theirs) -> str:
    """A name that may be one of their enumerations."""
    return str(getattr(name, "value", name))


def _task_handlers(agent: Theirs, name: str, document: dict[str, Any]) -> list[Theirs]:
    """Their `@on_task` handlers for an event."""
    if not name.startswith("task."):
        return []
    payload = document.get("payload") or {}
    status = payload.get("status") or name.removeprefix("task.")
    return [handler for handler in agent._handlers["task"] if handler._openintent_task_status in (None, status)]


async def _call_event_handler(agent: Theirs, handler: Theirs, data: dict[str, Any], position: str | None) -> None:
    """Call an `@on_event` handler, with the event under the name that it asked for."""
    intent = await retry_while_away(lambda: agent.async_client.get_intent(data.get("intent_id")))
    if intent is not None:
        name = _text(handler._openintent_event_type)
        await agent._call_handler(handler, intent, SSEEvent(name, data, position))


async def _call_task_handler(agent: Theirs, handler: Theirs, data: dict[str, Any]) -> None:
    """Call an `@on_task` handler; what it returns goes into the intent's state, as with an assignment."""
    client = agent.async_client
    intent = await retry_while_away(lambda: client.get_intent(data.get("intent_id")))
    task = await retry_while_away(lambda: client.get_task(data["payload"]["task_id"]))
    if intent is None or task is None:
        return
    result = await agent._call_handler(handler, intent, task)
    if result and isinstance(result, dict) and agent._config.auto_complete:
        await agent.patch_state(intent.id, result)


async def _with_request(agent: Theirs, data: dict[str, Any]) -> dict[str, Any]:
    """The event, with the request that it only names."""
    request_id = (data.get("payload") or {}).get("request_id")
    requests = await retry_while_away(lambda: agent.async_client.list_access_requests(data["intent_id"]))
    request = next((request for request in requests or () if request.id == request_id), None)
    return data if request is None else {**data, "request": request.to_dict()}
