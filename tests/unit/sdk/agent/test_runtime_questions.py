"""An agent that is assigned something, and that asks others itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from parley.domain.directory.callers import KeyKind
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_assignment, on_message
from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.intents import Intent
from tests.rigs.team import CHANNEL, INTENT, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, at_work


@with_server
async def test_an_assignment_is_told_with_its_intent(server: LiveServer) -> None:
    got: list[Intent] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_assignment
        async def begin(self, intent: Intent) -> None:
            got.append(intent)

    bob = Bob()
    async with at_work(server, bob) as alice:
        made = await alice.create_intent("to do", status="active")
        await alice.assign_agent(made.id, "carol")
        await alice.assign_agent(made.id, "bob")
        await soon(lambda: bool(got))

    assert [(one.id, one.title) for one in got] == [(made.id, "to do")]


@with_server
async def test_an_answer_to_a_question_of_its_own_goes_to_no_handler_but_a_late_one_does(server: LiveServer) -> None:
    seen: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(kind="notify")
        async def begin(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(message.channel)
            answers.append((await channel.ask("carol", {"n": message.payload["n"]}, timeout=10)).payload)

        @on_message(kind="response")
        async def late(self, message: ChannelMessage) -> None:
            seen.append(message.payload)

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message(kind="request")
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return message.payload

    bob = Bob()
    async with at_work(server, bob, Carol()) as alice:
        for number in range(3):
            await alice.send_message(CHANNEL, None, "bob", "notify", {"n": number})
        await soon(lambda: len(answers) == 3)
        old = await alice.send_message(CHANNEL, "bob", "dave", "request", {})  # nobody waits for its answer
        await alice.reply_to(CHANNEL, old.id, "dave", {"late": True})
        await soon(lambda: bob.counts["done"] == 7)

    assert sorted(one["n"] for one in answers) == [0, 1, 2]
    assert seen == [{"late": True}]


@with_server
async def test_answers_to_other_questions_do_not_wait_for_the_slowest(server: LiveServer) -> None:
    answers: list[int] = []

    @Agent("bob", concurrency=3)
    class Bob(BaseAgent):
        @on_message(kind="notify")
        async def begin(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(message.channel)
            answers.append((await channel.ask(message.payload["whom"], {}, timeout=20)).payload["n"])

    @Agent("carol")
    class Carol(BaseAgent):
        @on_message(kind="request")
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            return {"n": 1}

    bob = Bob()
    await server.rig.agent("dave")
    async with at_work(server, bob, Carol()) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {"whom": "dave"})  # who takes his time
        for _ in range(5):
            await alice.send_message(CHANNEL, None, "bob", "notify", {"whom": "carol"})
        await soon(lambda: len(answers) == 5)
        said = await bob.client.list_messages(CHANNEL, limit=1000)
        [question] = [one for one in said if one.to == "dave"]
        await alice.reply_to(CHANNEL, question.id, "dave", {"n": 2})
        await soon(lambda: len(answers) == 6)

    assert answers == [1, 1, 1, 1, 1, 2]


@with_server
async def test_everybody_who_was_asked_is_heard(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    await server.rig.role("reviewers", "carol", "dave")
    got: list[str] = []

    def reviewer(name: str) -> BaseAgent:
        @Agent(name)
        class Reviewer(BaseAgent):
            @on_message(kind="request")
            async def handle(self, message: ChannelMessage) -> dict[str, Any]:
                return {"by": name}

        return Reviewer()

    @Agent("bob")
    class Bob(BaseAgent):
        @on_message(kind="notify")
        async def begin(self, message: ChannelMessage) -> None:
            channel = await self.channels.open(message.channel)
            got.extend(one.payload["by"] for one in await channel.ask_all("role:reviewers", {}, timeout=10))

    async with at_work(server, Bob(), reviewer("carol"), reviewer("dave")) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bool(got))

    assert sorted(got) == ["carol", "dave"]


@with_server
async def test_an_answer_for_which_it_is_too_late_is_let_go(server: LiveServer, ear: Ear) -> None:
    @Agent("bob")
    class Bob(BaseAgent):
        @on_message()
        async def handle(self, message: ChannelMessage) -> dict[str, Any]:
            admin = await server.client(kind=KeyKind.ADMIN)
            assert (await admin.delete(f"/channels/{message.channel_id}")).status == 200
            return {"too": "late"}

    bob = Bob()
    async with at_work(server, bob) as alice:
        side = await alice.create_channel(INTENT, "side")
        await alice.send_message(side.id, None, "bob", "request", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert ear.actions.count("agent_answer_unwanted") == 1
    assert bob.counts["failed"] == 0
