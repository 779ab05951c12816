"""What a sender learns from agents that work on a real server."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import AskTimeout
from parley.domain.receipts import ReceiptState
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message, on_request
from parley.sdk.client.session import AsyncServerSession
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import INTENT, LiveServer, with_server
from tests.unit.sdk.agent.at_work import at_work

pytestmark = pytest.mark.both_stores


@Agent("bob")
class Bob(BaseAgent):
    """Hears what it is told when it is let go on."""

    may_go_on = asyncio.Event()

    @on_message
    async def hear(self, message: ChannelMessage) -> None:
        await self.may_go_on.wait()

    @on_request
    async def answer(self, message: ChannelMessage) -> object:
        return {"said": message.text}


@with_server
async def test_a_message_is_acknowledged_when_its_handler_has_ended_and_a_request_acted_on(server: LiveServer) -> None:
    Bob.may_go_on = asyncio.Event()
    async with at_work(server, Bob()) as alice:
        channel = await AsyncServerSession(alice).channel(INTENT, "questions")
        sent = await channel.notify("bob", "Build is green")
        with pytest.raises(AskTimeout, match=f"{sent.id} is queued, not acknowledged"):
            await sent.wait_until("acknowledged", wait=timedelta(seconds=0.3))
        waits = asyncio.ensure_future(sent.wait_until(ReceiptState.ACKNOWLEDGED, wait="50s"))
        Bob.may_go_on.set()
        reached = await waits
        answer = await channel.ask("bob", "Ready?", timeout=20)
        asked = await alice.wait_until(answer.correlation_id or "", "acted")

        assert [(one.recipient, one.steps[0].evidence) for one in reached.receipts] == [("bob", "bookmark")]
        assert (await sent.receipt).state is ReceiptState.ACKNOWLEDGED
        assert asked.receipts[0].steps[-1].evidence == f"answered by {answer.id}"
        with pytest.raises(Invalid, match="acknowledged or acted"):
            await sent.wait_until("injected")
