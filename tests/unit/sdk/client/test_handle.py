"""A channel handle, on a real server: the same for programs, agents and tests, blocking and asynchronous."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import AgentFailed, AskTimeout, NoResponders
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message, on_request
from parley.sdk.blocking.handle import ChannelHandle
from parley.sdk.client.handle import AsyncChannelHandle
from parley.sdk.client.session import AsyncServerSession
from parley.testing import stage
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import INTENT, LiveServer, in_loop, with_server
from tests.unit.sdk.agent.at_work import at_work, client_of


@Agent("bob")
class Bob(BaseAgent):
    """Says what it was asked; fails on demand; answers twice over when asked for parts."""

    @on_request
    async def answer(self, message: ChannelMessage) -> object:
        if message.text == "fail":
            raise ValueError("no ink")
        return {"said": message.payload, "schema": "v2.3"}


@Agent("writer")
class Writer(BaseAgent):
    @on_request
    async def write(self, message: ChannelMessage) -> Any:
        for word in message["words"]:
            yield {"text": word}


@with_server
async def test_a_payload_is_sent_as_it_was_meant_and_read_by_its_items(server: LiveServer) -> None:
    async with at_work(server, Bob()) as alice:
        questions = await AsyncServerSession(alice).channel(INTENT, "questions")

        by_text = await questions.ask("bob", "Which schema?", timeout=10)
        by_mapping = await questions.ask("bob", {"question": "Which?"}, timeout=10)
        by_keywords = await questions.ask("bob", question="Which?", timeout=10)

    assert by_text["said"] == {"text": "Which schema?"}
    assert by_mapping["said"] == by_keywords["said"] == {"question": "Which?"}
    assert (by_text["schema"], by_text.text, "schema" in by_text, by_text.get("rows", 0)) == ("v2.3", "", True, 0)
    assert dict(by_keywords) == by_keywords.payload


@with_server
async def test_an_item_that_the_payload_has_not_is_a_key_error_that_names_those_that_it_has(server: LiveServer) -> None:
    async with at_work(server, Bob()) as alice:
        answer = await (await AsyncServerSession(alice).channel(INTENT, "questions")).ask("bob", "Which?", timeout=10)

    with pytest.raises(KeyError) as missing:
        answer["sender"]
    assert missing.value.args == (
        "no 'sender' in the payload, which has 'said', 'schema'; the field of the message is .sender",
    )


@with_server
async def test_a_failure_is_raised_unless_it_is_asked_for(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    async with at_work(server, Bob()) as alice:
        questions = await AsyncServerSession(alice).channel(INTENT, "questions")

        with pytest.raises(AgentFailed, match="bob: ValueError: no ink"):
            await questions.ask("bob", "fail", timeout=10)
        assert (await questions.ask("bob", "fail", timeout=10, check=False)).error == "ValueError: no ink"
        assert [answer.error for answer in await questions.ask_all("bob", "fail", timeout=10)] == ["ValueError: no ink"]
        with pytest.raises(NoResponders):
            await questions.ask("bobb", "Anybody?")
        with pytest.raises(AskTimeout):
            await questions.ask("carol", "Anybody?", timeout=0.05, wait_for_responders=True)


@with_server
async def test_partial_answers_come_one_by_one(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    async with at_work(server, Writer()) as alice:
        drafts = await AsyncServerSession(alice).channel(INTENT, "drafts")

        async with aclosing(drafts.ask_stream("writer", words=["one", "two"], timeout=10)) as answers:
            texts = [answer.text async for answer in answers]

    assert texts == ["one", "two"]


@with_server
async def test_what_is_told_is_heard_in_order_and_is_in_the_history(server: LiveServer) -> None:
    alice, bob = AsyncServerSession(await client_of(server)), AsyncServerSession(await client_of(server, "bob"))
    news = await alice.channel(INTENT, "news")
    first = await news.notify("bob", "Schema 2.4 is out")
    await news.broadcast(text="Freeze at noon")
    await news.notify("bob", ["a", "b"], metadata={"kind": "notification"})

    heard = await bob.channel(INTENT, "news")
    async with aclosing(heard.listen(from_start=True)) as messages:
        seen = [await anext(messages) for _ in range(3)]
    async with aclosing(heard.listen("broadcast", from_start=True)) as messages:
        told = await anext(messages)

    assert [message.payload for message in seen] == [
        {"text": "Schema 2.4 is out"}, {"text": "Freeze at noon"}, {"items": ["a", "b"]},
    ]  # fmt: skip
    assert (told.text, seen[2].kind) == ("Freeze at noon", "notification")
    assert [message.id for message in await heard.history()] == [message.id for message in seen]
    assert [message.id for message in await heard.history(1)] == [seen[2].id]
    assert [message.id for message in await heard.history(since=first.id)] == [message.id for message in seen[1:]]
    await alice.close()
    await bob.close()


@with_server
async def test_a_message_that_a_handle_gave_is_answered_by_reply(server: LiveServer) -> None:
    alice, bob = await client_of(server), AsyncServerSession(await client_of(server, "bob"))
    heard = await bob.channel(INTENT, "questions")
    request = await alice.send_message(heard.id, None, "bob", "request", {"text": "Which?"})
    [question] = await heard.history()

    await question.reply(schema="v2.3")

    [_, answer] = await alice.list_messages(heard.id)
    assert (answer.correlation_id, answer.payload) == (request.id, {"schema": "v2.3"})
    await alice.close()
    await bob.close()


@with_server
async def test_only_a_request_is_answered(server: LiveServer) -> None:
    alice = AsyncServerSession(await client_of(server))
    told = await (await alice.channel(INTENT, "news")).notify("bob", "Good morning", metadata={})

    with pytest.raises(Invalid) as refused:
        await told.reply("thanks")

    assert str(refused.value) == (
        "reply: only a request can be answered; this is a notify (use notify('alice', ...) of the channel)"
    )
    await alice.close()


@with_server
async def test_an_agent_may_reply_before_it_goes_on_and_is_heard_once(server: LiveServer) -> None:
    after: list[str] = []

    @Agent("early")
    class Early(BaseAgent):
        @on_message(kind="request")
        async def answer(self, message: Any) -> None:
            await message.reply("at once")
            after.append(message.id)

    async with at_work(server, Early()) as alice:
        channel = await AsyncServerSession(alice).channel(INTENT, "questions")
        answer = await channel.ask("early", "Quick?", timeout=10)
        said = await channel.history()

    assert (answer.text, [message.message_type for message in said]) == ("at once", ["request", "response"])
    assert after == [said[0].id]


@with_server
async def test_an_agents_channel_is_the_same_kind_of_handle(server: LiveServer) -> None:
    @Agent("planner")
    class Planner(BaseAgent):
        @on_request
        async def delegate(self, message: ChannelMessage) -> object:
            channel = await self.channels.open("questions")
            answer = await channel.ask("bob", question=message.text, timeout=10)
            direct = await self.direct("bob").ask("And you?", timeout=10)
            return {"kind": type(channel).__name__, "asked": answer["said"], "direct": direct["said"]}

    async with at_work(server, Bob(), Planner()) as alice:
        answer = await (await AsyncServerSession(alice).channel(INTENT, "goals")).ask("planner", "Which?", timeout=10)

    assert answer.payload == {
        "kind": "AsyncChannelHandle", "asked": {"question": "Which?"}, "direct": {"text": "And you?"},
    }  # fmt: skip


def test_a_test_uses_the_blocking_twin() -> None:
    with stage() as team:
        team.start(Bob())
        channel = team.channel("questions")
        answer = channel.ask("bob", question="Which?")
        again = team.ask("bob", question="Which?", channel="questions")

        assert isinstance(channel, ChannelHandle)
        assert answer["said"] == again["said"] == {"question": "Which?"}
        assert [message.message_type for message in channel.history()] == ["request", "response"] * 2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda channel: channel.ask("bob"), "ask: there is no payload (give a text, a mapping, or keywords)"),
        (
            lambda channel: channel.ask({"text": "hi"}, "bob"),
            "ask: to is an agent's name, 'role:ROLE', 'any:ROLE' or '*', not a dict",
        ),
        (
            lambda channel: channel.ask("bob", timeout="soon", text="hi"),
            "ask: timeout is a number of seconds above 0, not 'soon'",
        ),
        (
            lambda channel: channel.ask("bob", text="hi", check="it"),
            "ask: check is True or False, not 'it' (if check is part of the payload, give the payload as a mapping)",
        ),
        (lambda channel: channel.notify("bob"), "notify: there is no payload (give a text, a mapping, or keywords)"),
        (lambda channel: channel.broadcast(), "broadcast: there is no payload (give a text, a mapping, or keywords)"),
        (lambda channel: channel.history(0), "history: limit is a number of messages, not 0"),
        (
            lambda channel: channel.follow_up({"text": "hi"}, "Rome"),
            "follow_up: answer is a message that was received, not a dict",
        ),
        (lambda channel: channel.history("2"), "history: limit is a number of messages, not '2'"),
        (lambda channel: channel.history("response"), "history: limit is a number of messages, not 'response'"),
        (lambda channel: channel.history(2.5), "history: limit is a number of messages, not 2.5"),
        (lambda channel: channel.history(True), "history: limit is a number of messages, not True"),
        (
            lambda channel: anext(channel.listen("requests")),
            "listen: kind is one of request, response, notify, broadcast, not 'requests'",
        ),
    ],
)
@in_loop
async def test_a_wrong_call_is_one_sentence_and_nothing_is_sent(call: Any, sentence: str) -> None:
    channel = AsyncChannelHandle(None, "chan_1", "questions")  # it has no server to send anything to

    with pytest.raises(Invalid) as refused:
        await call(channel)

    assert str(refused.value) == sentence


@pytest.mark.parametrize("limit", ["2", "response", 2.5])
def test_a_blocking_history_refuses_what_is_no_number_of_messages(limit: Any) -> None:
    channel = ChannelHandle(None, "chan_1", "questions")

    with pytest.raises(Invalid) as refused:
        channel.history(limit)

    assert str(refused.value) == f"history: limit is a number of messages, not {limit!r}"
