"""The workplace of an `openintent` agent: Parley's own, plus the events that openintent hooks handle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from parley.sdk.agent.server.workplace import ServerWorkplace
from parley.sdk.agent.workplace import Arrival

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from parley.sdk.agent.agent import Plan
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.protocol.event_stream import StreamEvent
    from parley.wire.api.records.intents import Intent

_DAY_SECONDS = 86_400.0


class IntentEvent(NamedTuple):
    """An event on an intent, passed in place of the intent of an assignment."""

    id: str
    name: str
    position: str
    document: dict[str, Any]


class WorkplaceOptions(NamedTuple):
    """Options of a workplace: the wanted events, the heartbeat interval, and a callback before the agent stops."""

    is_wanted: Callable[[str, dict[str, Any]], bool]
    heartbeat_seconds: float | None
    on_drain: Callable[[], Awaitable[None]]


class OpenIntentWorkplace(ServerWorkplace):
    """The workplace of an `openintent` agent."""

    def __init__(self, client: AsyncClient, plan: Plan, options: WorkplaceOptions) -> None:
        super().__init__(client, plan)
        self._options = options

    async def to_arrival(self, event: StreamEvent, position: int) -> Arrival | None:
        """Messages as every agent gets them; of other events whatever a hook is there for."""
        if event.name == "channel_message":
            return await super().to_arrival(event, position)
        document = json.loads(event.data)
        if not self._options.is_wanted(event.name, document):
            return None
        intent_event = IntentEvent(str(document.get("intent_id", "")), event.name, event.id, document)
        # Their runtime asks for the intent itself, each hook in its own way.
        return Arrival(position, intent=cast("Intent", intent_event))

    async def heartbeat(self, load: int) -> float | None:
        """As often as the agent's configuration says."""
        seconds = self._options.heartbeat_seconds
        if seconds is None:
            return _DAY_SECONDS
        pause = await super().heartbeat(load)
        return None if pause is None else min(pause, seconds)

    async def announce_stopping(self) -> None:
        """Tell the registry, and the agent."""
        await super().announce_stopping()
        await self._options.on_drain()
