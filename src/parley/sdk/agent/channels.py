"""Channels as an agent uses them: open one by its name, then ask, notify and broadcast in it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.channels import ChannelMessage

# The intent on which the handler that runs now was called.
current_intent: ContextVar[str] = ContextVar("current_intent", default="")

_ROLE = "role:"
# So many answers are remembered; the stream shows each of them soon after it was taken.
_TAKEN_KEPT = 10_000


class ChannelHandle(Protocol):
    """An open channel."""

    name: str

    async def ask(self, to: str, payload: Mapping[str, Any], *, timeout: float = 30, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Ask an agent or `role:ROLE` and wait for the first answer. `MessageTimeoutError` when none comes in time."""

    async def ask_all(
        self,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time."""

    async def notify(self, to: str, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell one agent, or the holders of a role, without waiting for anything."""

    async def broadcast(self, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell everyone in the channel."""


class Channels(Protocol):
    """The channels of an agent."""

    async def open(self, name: str, intent_id: str = "", **options: Any) -> ChannelHandle:  # noqa: ANN401
        """The channel of this name, which is created when it does not exist.

        `intent_id` may be left out in a handler: it is the intent of what the handler was called with. `options` are
        those of `Client.create_channel`: members, member_policy, options; they matter only when it is created.
        """


class Asks:
    """The questions that an agent waits for, so that their answers go to whoever asked, and not to a handler too."""

    def __init__(self) -> None:
        # By the channel; to whom each went, if that is known.
        self._waiting: dict[str, dict[asyncio.Future[None], str]] = {}
        self._taken: dict[str, None] = {}

    async def asked(self, channel_id: str, asking: Any, to: str = "") -> Any:  # noqa: ANN401  # whatever is awaited
        """Await a question in a channel and remember what answered it."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(channel_id, {})[ended] = "" if to.startswith(_ROLE) else to
        try:
            said = await asking
            for one in said if isinstance(said, list) else [said]:
                self._taken[one.id] = None
            while len(self._taken) > _TAKEN_KEPT:
                del self._taken[next(iter(self._taken))]
            return said
        finally:
            ended.set_result(None)
            waiting = self._waiting[channel_id]
            del waiting[ended]
            if not waiting:
                del self._waiting[channel_id]

    async def took(self, answer: ChannelMessage) -> bool:
        """Whether an answer went to a question; known at the latest when those that it can be for have ended."""
        asked = self._waiting.get(answer.channel_id, {})
        waiting = {one for one, to in asked.items() if to in ("", answer.sender)}
        while answer.id not in self._taken and waiting:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return answer.id in self._taken


class ServerChannel:
    """A channel on a server."""

    def __init__(self, client: AsyncClient, asks: Asks, channel_id: str, name: str, intent_id: str) -> None:
        self.id = channel_id
        self.name = name
        self.intent_id = intent_id
        self._client = client
        self._asks = asks

    async def ask(self, to: str, payload: Mapping[str, Any], *, timeout: float = 30, **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Ask an agent or `role:ROLE` and wait for the first answer."""
        asking = self._client.ask(self.id, None, to, payload, timeout, metadata=metadata or None)
        said: ChannelMessage = await self._asks.asked(self.id, asking, to)
        return said

    async def ask_all(
        self,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30,
        **metadata: Any,  # noqa: ANN401
    ) -> list[ChannelMessage]:
        """Ask, and collect every answer that comes within the time."""
        asking = self._client.ask_all(self.id, None, to, payload, timeout, metadata=metadata or None)
        said: list[ChannelMessage] = await self._asks.asked(self.id, asking, to)
        return said

    async def notify(self, to: str, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell one agent, or the holders of a role, without waiting for anything."""
        return await self._client.send_message(self.id, None, to, "notify", payload, metadata=metadata or None)

    async def broadcast(self, payload: Mapping[str, Any], **metadata: Any) -> ChannelMessage:  # noqa: ANN401
        """Tell everyone in the channel."""
        return await self._client.send_message(self.id, None, "*", "broadcast", payload, metadata=metadata or None)


class ServerChannels:
    """The channels of a server."""

    def __init__(self, client: AsyncClient, asks: Asks) -> None:
        self._client = client
        self._asks = asks

    async def open(self, name: str, intent_id: str = "", **options: Any) -> ServerChannel:  # noqa: ANN401
        """The channel of this name on an intent, which is created when it does not exist."""
        intent = intent_id or current_intent.get()
        if not intent:
            raise Invalid(f"on which intent is the channel {name!r}?", hint="channels.open(name, intent_id=...)")
        found = await self._client.open_channel(intent, name, **options)
        return ServerChannel(self._client, self._asks, found.id, found.name, intent)
