"""Talking to one agent directly, without naming an intent or a channel."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from parley.sdk.client.messages import AsyncMessages
    from parley.wire.api.records.channels import ChannelMessage, DirectChannel


class AsyncDirect:
    """The direct channel with one agent. Nobody else sees it; the first message creates it."""

    def __init__(self, client: AsyncMessages, agent: str) -> None:
        self.agent = agent
        self._client = client
        self._channel: DirectChannel | None = None

    async def channel_id(self) -> str:
        """The id of the channel, whether or not anything was said in it."""
        if self._channel is None:
            self._channel = await self._client.get_direct_channel(self.agent)
        return self._channel.channel_id

    async def ask(
        self,
        payload: object,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
    ) -> ChannelMessage:
        """Ask the agent, and wait for its answer. See `Client.ask`."""
        channel = await self.channel_id()
        return await self._client.ask(channel, None, self.agent, payload, timeout, metadata=metadata, check=check)

    async def ask_stream(
        self,
        payload: object,
        timeout: float = 30,
        *,
        metadata: Mapping[str, Any] | None = None,
        check: bool = True,
    ) -> AsyncGenerator[ChannelMessage]:
        """Ask the agent, and follow its partial answers; the last one is the answer. See `Client.ask_stream`."""
        channel = await self.channel_id()
        answers = self._client.ask_stream(channel, None, self.agent, payload, timeout, metadata=metadata, check=check)
        async with aclosing(answers):
            async for answer in answers:
                yield answer

    async def notify(self, payload: object, *, metadata: Mapping[str, Any] | None = None) -> ChannelMessage:
        """Tell the agent something, without waiting for anything."""
        channel = await self.channel_id()
        return await self._client.send_message(channel, None, self.agent, "notify", payload, metadata=metadata)
