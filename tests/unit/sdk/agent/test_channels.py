"""Channels as an agent uses them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import AskTimeout, NoResponders
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.channels import ServerChannels
from parley.sdk.agent.decorators import on_assignment, on_message
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.intents import Intent
from tests.rigs.team import CHANNEL, INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import at_work, client_of

# ---------------------------------------------------------------- opening


@with_server
async def test_in_a_handler_a_channel_is_opened_on_the_intent_of_its_message(server: LiveServer) -> None:
    opened: list[tuple[str, str]] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(kind="notify")
        async def in_the_loop(self, message: ChannelMessage) -> None:
            channel = await self.channels.open("new")
            opened.append((channel.name, message.intent_id))
            await channel.broadcast({"text": "here I am"})

        @on_message(kind="broadcast")
        def in_a_thread(self, message: ChannelMessage) -> None:
            channel = self.wait(self.channels.open("newer"))
            opened.append((channel.name, message.intent_id))

        @on_assignment
        async def assigned(self, intent: Intent) -> None:
            channel = await self.channels.open("newest")
            opened.append((channel.name, intent.id))

    async with at_work(server, Bob()) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await alice.send_message(CHANNEL, None, "*", "broadcast", {})
        other = await alice.create_intent("other", status="active")
        await alice.assign_agent(other.id, "bob")
        await soon(lambda: len(opened) == 3)
        names = {one.name for one in await alice.list_channels(INTENT)}
        elsewhere = {one.name for one in await alice.list_channels(other.id)}

    assert sorted(opened) == [("new", INTENT), ("newer", INTENT), ("newest", other.id)]
    assert names >= {"new", "newer"}
    assert elsewhere == {"newest"}


@with_server
async def test_a_channel_that_exists_is_not_made_again(server: LiveServer) -> None:
    client = await client_of(server, "bob")
    channels = ServerChannels(client)
    first = await channels.open("new", INTENT, member_policy="explicit", members=["carol"])
    second = await channels.open("new", INTENT)
    made = await client.get_channel(first.id)
    await client.close()

    assert first.id == second.id
    assert (first.name, first.intent_id) == ("new", INTENT)
    assert (made.member_policy, "carol" in made.members) == ("explicit", True)


@with_server
async def test_outside_of_a_handler_the_intent_has_to_be_said(server: LiveServer) -> None:
    client = await client_of(server, "bob")
    with pytest.raises(Invalid, match="on which intent is the channel 'new'"):
        await ServerChannels(client).open("new")
    await client.close()


# ---------------------------------------------------------------- the four verbs


@with_server
async def test_what_is_said_in_a_channel_arrives_as_it_was_meant(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    heard: list[tuple[str, str | None, dict[str, Any], str]] = []

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            heard.append((message.message_type, message.to, message.payload, message.kind))
            return {"n": len(heard)}

    async with at_work(server, Carol()):
        client = await client_of(server, "bob")
        channel = await ServerChannels(client).open(CHANNEL, INTENT)
        asked = await channel.ask("carol", {"q": 1}, timeout=10, metadata={"kind": "question"})
        [all_asked] = await channel.ask_all("carol", {"q": 2}, timeout=10)
        notice = await channel.notify("carol", {"q": 3}, metadata={"kind": "notification"})
        loud = await channel.broadcast({"q": 4})
        await soon(lambda: len(heard) == 4)
        await client.close()

    assert (asked.payload, all_asked.payload) == ({"n": 1}, {"n": 2})
    assert (notice.message_type, loud.message_type) == ("notify", "broadcast")
    assert [one[0] for one in heard] == ["request", "request", "notify", "broadcast"]
    assert [one[3] for one in heard] == ["question", "", "notification", ""]


@with_server
async def test_a_question_that_nobody_answers_times_out(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    client = await client_of(server, "bob")
    channel = await ServerChannels(client).open(CHANNEL, INTENT)
    with pytest.raises(AskTimeout):
        await channel.ask("nobody", {}, timeout=0.05, wait_for_responders=True)
    for asking in (channel.ask, channel.ask_all):
        with pytest.raises(NoResponders):
            await asking("nobody", {}, timeout=30)
    assert await channel.ask_all("nobody", {}, timeout=0.05, wait_for_responders=True) == []
    await client.close()


# ---------------------------------------------------------------- traces

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@with_server
async def test_what_a_handler_says_belongs_to_the_trace_of_what_it_was_called_with(server: LiveServer) -> None:
    @Agent("worker", start="beginning")
    class Worker(BaseAgent):
        @on_message()
        async def work(self, message: ChannelMessage) -> dict[str, Any]:
            return {"trace": message.metadata.get("trace_id")}

    @Agent("planner", start="beginning")
    class Planner(BaseAgent):
        @on_message()
        async def delegate(self, message: ChannelMessage) -> dict[str, Any]:
            channel = await self.channels.open(message.channel)
            asked = await channel.ask("worker", {"step": 1}, timeout=10)
            own = await channel.notify("worker", {}, metadata={"trace_id": "0" * 31 + "1"})
            return {"asked": asked.payload["trace"], "answered": asked.metadata["trace_id"], "own": own.metadata}

    async with at_work(server, Worker(), Planner()) as alice:
        answer = await alice.ask(CHANNEL, None, "planner", {}, 10, metadata={"trace_id": TRACE})
        untraced = await alice.ask(CHANNEL, None, "worker", {}, 10)

    assert (answer.payload["asked"], answer.payload["answered"]) == (TRACE, TRACE)
    assert answer.payload["own"]["trace_id"] == "0" * 31 + "1"
    assert answer.metadata["trace_id"] == TRACE
    assert "trace_id" not in untraced.metadata
