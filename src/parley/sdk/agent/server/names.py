"""The names of channels and the titles of intents, which messages name by their ids."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from parley.domain.errors.errors import Forbidden, NotFound
from parley.domain.errors.team import Gone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.channels import ChannelMessage

_CACHE_SIZE = 1_000
# The thing is gone, or no longer visible to this agent.
HIDDEN = (NotFound, Forbidden, Gone)


class RecordNames:
    """Looks names up, each once. With `titles` messages get the titles of their intents, too."""

    def __init__(self, client: AsyncClient, *, titles: bool) -> None:
        self._client = client
        self._titles = titles
        # Of channels and intents, by their ids.
        self._names: OrderedDict[str, str] = OrderedDict()

    async def added_to(self, message: ChannelMessage) -> ChannelMessage:
        """The message with the name of its channel, and the title of its intent where a handler asks for it."""
        channel_id, intent_id = message.channel_id, message.intent_id
        channel = await self._name_of(channel_id, lambda: self._fetch_name(channel_id))
        intent = await self._name_of(intent_id, lambda: self._fetch_title(intent_id)) if self._titles else ""
        return msgspec.structs.replace(message, channel=channel, intent=intent)

    async def _fetch_name(self, channel_id: str) -> str:
        return (await self._client.get_channel(channel_id)).name

    async def _fetch_title(self, intent_id: str) -> str:
        return (await self._client.get_intent(intent_id)).title

    async def _name_of(self, record_id: str, fetch: Callable[[], Awaitable[str]]) -> str:
        """The name of a channel or intent, looked up once; empty when it is gone."""
        if record_id not in self._names:
            try:
                self._names[record_id] = await fetch()
            except HIDDEN:
                return ""
            if len(self._names) > _CACHE_SIZE:
                self._names.popitem(last=False)
        return self._names[record_id]
