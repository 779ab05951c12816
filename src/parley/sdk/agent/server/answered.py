"""Which requests an agent had answered before its process started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Forbidden, Invalid, NotFound
from parley.domain.errors.team import Gone

if TYPE_CHECKING:
    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records.channels import ChannelMessage

_PAGE = 1_000
# The channel is gone, or no longer visible to this agent.
_HIDDEN = (NotFound, Forbidden, Gone)


class AnsweredRequests:
    """By channel: the requests that were answered before the start."""

    def __init__(self, client: AsyncClient, agent: str) -> None:
        self._client = client
        self._agent = agent
        self._by_channel: dict[str, set[str]] = {}

    async def has(self, request: ChannelMessage) -> bool:
        """Whether this agent answered a request before its restart.

        Requests arrive in order, so the answers since the first one of a channel cover all later ones.
        """
        if request.channel_id not in self._by_channel:
            try:
                self._by_channel[request.channel_id] = await self._answers_since(request)
            except (*_HIDDEN, Invalid):
                return False
        return request.id in self._by_channel[request.channel_id]

    async def _answers_since(self, request: ChannelMessage) -> set[str]:
        answered: set[str] = set()
        since: str | None = request.id
        while since:
            page = await self._client.list_messages(request.channel_id, since=since, limit=_PAGE)
            for message in page:
                if message.correlation_id and message.sender == self._agent and not message.partial:
                    # The answer to a request that was handed on names the first one.
                    forwarded = message.metadata.get("forwarded")
                    answered.add(str(forwarded["request_id"]) if forwarded else message.correlation_id)
            since = page[-1].id if len(page) == _PAGE else None
        return answered
