"""The same for a program in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import assert_type

import parley


async def clarified(client: parley.AsyncClient, intent_id: str) -> str:
    channel = await client.open_channel(intent_id, "data-clarification")
    assert_type(channel, parley.Channel)
    answer = await client.ask(channel.id, None, "data-agent", {"question": "Which schema?"}, timeout=30)
    assert_type(answer, parley.ChannelMessage)
    return str(answer.payload["answer"])


async def asked_at_once(client: parley.AsyncClient, channel: parley.Channel) -> list[parley.ChannelMessage]:
    questions = [client.ask(channel.id, None, name, {"question": "?"}) for name in ("alice", "bob")]
    answers = await asyncio.gather(*questions)
    assert_type(answers, list[parley.ChannelMessage])
    return answers


async def first_message(client: parley.AsyncClient, agent: str) -> parley.ChannelMessage | None:
    stream = client.follow(agent=agent, after="0")
    assert_type(stream, AsyncGenerator[parley.StreamItem, None])
    async with aclosing(stream) as items:
        async for item in items:
            if item.message is not None:
                return item.message
    return None


async def decided(client: parley.AsyncClient) -> None:
    for approval in await client.list_approvals("pending"):
        assert_type(await client.reject(approval, "not now"), parley.Approval)
    async for line in client.export_audit("alice"):
        assert_type(line, bytes)
    beat = await client.heartbeat("alice", current_load=1)
    assert_type(beat, parley.Heartbeat)


async def main() -> None:
    async with parley.AsyncClient(agent="alice") as client:
        assert_type(client, parley.AsyncClient)
        assert_type(client.as_agent("bob"), parley.AsyncClient)
        intent = await client.create_intent("Research")
        assert_type(intent, parley.Intent)
        await clarified(client, intent.id)
        await decided(client)


asyncio.run(main())
