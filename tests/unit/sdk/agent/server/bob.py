"""An agent that notes what it is told."""

from __future__ import annotations

import asyncio
from typing import Any

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.wire.api.records.channels import ChannelMessage


@Agent("bob", concurrency=1, start="beginning")
class Bob(BaseAgent):
    """Notes what it is told; answers with how much that is."""

    def __init__(self, texts: list[str] | None = None) -> None:
        self.texts: list[str] = [] if texts is None else texts
        self.gate: asyncio.Event | None = None

    @on_message()
    async def handle(self, message: ChannelMessage) -> dict[str, Any]:
        self.texts.append(message.payload["text"])
        if self.gate is not None:
            await self.gate.wait()
        return {"count": len(self.texts)}


def has_more_than(texts: list[str], count: int) -> bool:
    return len(texts) > count
