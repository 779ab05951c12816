"""The channels of an agent: open one by its name, then ask, notify and broadcast in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from parley.domain.errors.errors import Invalid
from parley.sdk.client.handle import AsyncChannelHandle
from parley.sdk.protocol.context import current_intent

if TYPE_CHECKING:
    from parley.sdk.client.client import AsyncClient


class AgentChannels(Protocol):
    """The channels of an agent."""

    async def open(self, name: str, intent_id: str = "", **options: Any) -> AsyncChannelHandle:  # noqa: ANN401
        """The channel of this name, which is created when it does not exist.

        `intent_id` may be left out in a handler: it is the intent of what the handler was called with. `options` are
        those of `Client.create_channel`: members, member_policy, options; they matter only when it is created.
        """

    async def open_direct(self, agent: str) -> AsyncChannelHandle:
        """The channel of this agent with another one, which nobody else sees."""


class ServerChannels:
    """The channels of a server."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def open(self, name: str, intent_id: str = "", **options: Any) -> AsyncChannelHandle:  # noqa: ANN401
        """The channel of this name on an intent, which is created when it does not exist."""
        intent = intent_id or current_intent.get()
        if not intent:
            raise Invalid(f"on which intent is the channel {name!r}?", hint="channels.open(name, intent_id=...)")
        channel = await self._client.open_channel(intent, name, **options)
        return AsyncChannelHandle(self._client, channel.id, channel.name, channel.intent_id)

    async def open_direct(self, agent: str) -> AsyncChannelHandle:
        """The direct channel with another agent; the first message creates it."""
        return await self._client.direct(agent).channel()
