"""Messages, on a real server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import AskTimeout, CursorEvicted, NoResponders, WrongSender
from parley.sdk.client.messages import AsyncMessages
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.governed import put_policy, two_agents
from tests.rigs.team import CHANNEL, INTENT, LiveServer, live_server, open_rig, with_server
from tests.unit.sdk.client.recorded import Recorded, public_methods, recorded


async def answering(agent: Recorded, since: int, payload: dict[str, Any]) -> ChannelMessage:
    """Answer the first request that comes after so many messages."""
    while True:
        for one in await agent.list_messages(CHANNEL, since, wait=5):
            if one.message_type == "request":
                answer: ChannelMessage = await agent.reply_to(CHANNEL, one.id, None, payload)
                return answer


async def in_a_conversation(client: Recorded) -> list[ChannelMessage]:
    """Three messages of a conversation, read in every way."""
    thread = {"conversation_id": "schemas"}
    threaded = [await client.send_message(CHANNEL, payload={"n": n}, metadata=thread) for n in range(3)]
    assert [one.payload["n"] for one in await client.list_conversation("schemas")] == [0, 1, 2]
    assert [one.payload["n"] for one in await client.list_conversation("schemas", before=threaded[2].id)] == [1, 0]
    assert await client.list_conversation("schemas", since=threaded[1].id) == [threaded[2]]
    [conversation] = await client.list_conversations()
    assert (conversation.id, conversation.last_message.id) == ("schemas", threaded[2].id)
    return threaded


@with_server
async def test_messages_are_sent_read_answered_and_found(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    async with recorded(server, "alice") as alice, recorded(server, "bob") as bob:
        later = server.rig.clock.at + timedelta(hours=1)
        sent = await alice.send_message(CHANNEL, "alice", "bob", "request", {"text": "Which schema?"}, later)
        assert (sent.sender, sent.to, sent.message_type, sent.payload) == (
            "alice", "bob", "request", {"text": "Which schema?"},
        )  # fmt: skip
        assert sent.expires_at == later

        answer = await bob.reply_to(CHANNEL, sent.id, "bob", {"text": "v2.3"}, metadata={"kind": "answer"})
        assert answer.correlation_id == sent.id
        assert answer.kind == "answer"

        [seen] = await alice.list_messages(CHANNEL, since=sent.id)
        assert seen == await alice.get_message(CHANNEL, answer.id)
        assert await alice.list_messages(CHANNEL, sent.seq) == [seen]
        assert await alice.list_messages(CHANNEL, order="desc", limit=1) == [seen]
        assert await alice.list_messages(CHANNEL, before=seen.seq + 1, limit=1) == [seen]
        assert await alice.list_messages(CHANNEL, since=later) == []
        assert len(await alice.list_messages(CHANNEL, None, "bob", limit=1)) == 1
        assert (await alice.mark_read(CHANNEL, answer.id)).read_at is not None

        named = await alice.send_to_name(INTENT, "implicit", payload={"text": "first word"})
        assert (await alice.get_channel(named.channel_id)).name == "implicit"

        batch = [{"payload": {"n": 1}}, {"payload": {"n": 2}, "to": "bob", "expires_at": later}]
        posted = await alice.send_batch(CHANNEL, batch)
        assert [one.payload["n"] for one in posted] == [1, 2]
        assert await alice.search("schema", CHANNEL) == [await alice.get_message(CHANNEL, sent.id)]
        assert [one.id for one in await alice.search("first word")] == [named.id]

        posted = await in_a_conversation(alice)

        asked, answered = await asyncio.gather(
            alice.ask(CHANNEL, None, "bob", {"text": "Sure?"}, 10), answering(bob, posted[-1].seq, {"text": "yes"})
        )
        assert asked.id == answered.id

        [one], _ = await asyncio.gather(
            alice.ask_all(CHANNEL, "alice", "bob", {"text": "All?"}, 10, metadata={"kind": "question"}),
            answering(bob, answered.seq, {"text": "all"}),
        )
        assert one.payload == {"text": "all"}

        parts = alice.ask_stream(CHANNEL, None, "bob", {"text": "In parts?"}, 10)
        streamed, last = await asyncio.gather(anext(parts), answering(bob, one.seq, {"text": "whole"}))
        assert streamed.id == last.id
        await parts.aclose()

        further, _ = await asyncio.gather(
            alice.follow_up(last, {"text": "And then?"}, 10), answering(bob, last.seq, {"text": "then"})
        )
        assert (further.payload, further.sender) == ({"text": "then"}, "bob")

        handed = await alice.send_message(CHANNEL, "alice", "bob", "request", {"text": "Who knows?"})
        with pytest.raises(NoResponders):
            await bob.forward_request(CHANNEL, handed.id, "carol")
        assert (await bob.forward_request(CHANNEL, handed.id, "carol", wait_for_responders=True)).to == "carol"

        for to in ("any:nobody", "role:nobody", "nobody"):
            with pytest.raises(NoResponders):
                await alice.send_message(CHANNEL, "alice", to, payload={}, wait_for_responders=False)
        assert (
            await alice.send_message(CHANNEL, "alice", "any:nobody", payload={}, wait_for_responders=True)
        ).to == "any:nobody"

        assert handed.id in [ask.message_id for ask in await bob.list_asks(agent="bob", channel_id=CHANNEL)]
        assert (await bob.count_asks(channel_id=CHANNEL)).waiting == len(await bob.list_asks())
        dropped = await alice.send_message(CHANNEL, "alice", "bob", "request", {"text": "Never mind"})
        assert (await alice.withdraw_request(CHANNEL, dropped.id)).state == "withdrawn"
        assert (await bob.get_request(CHANNEL, dropped.id)).state == "withdrawn"

        told = await alice.direct("bob").notify({"text": "between us"})
        assert (await bob.get_direct_channel("alice")).channel_id == told.channel_id
        assert alice.called | bob.called >= public_methods(AsyncMessages) - {"sign"}  # it sends nothing


@with_server
async def test_an_answer_under_the_same_key_is_sent_once(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice, recorded(server, "bob") as bob:
        request = await alice.send_message(CHANNEL, None, "bob", "request", {"text": "Sure?"})

        first = await bob.reply_to(CHANNEL, request.id, None, {"text": "yes"}, idempotency_key="answer-1")
        again = await bob.reply_to(CHANNEL, request.id, None, {"text": "yes"}, idempotency_key="answer-1")

        assert again == first
        with pytest.raises(Invalid, match="idempotency-key"):
            await bob.reply_to(CHANNEL, request.id, None, {"text": "yes"}, idempotency_key="a\r\nx-evil: 1")


@with_server
async def test_a_question_that_nobody_answers_times_out(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        with pytest.raises(AskTimeout):
            await alice.ask(CHANNEL, None, "bob", {"text": "Anybody?"}, timeout=0.05, wait_for_responders=True)


@with_server
async def test_a_question_to_all_that_nobody_answers_has_no_answers(server: LiveServer) -> None:
    server.rig.clock.at = datetime.now(UTC)
    async with recorded(server, "alice") as alice:
        asking = alice.ask_all(CHANNEL, None, "bob", {"text": "Anybody?"}, timeout=0.2, wait_for_responders=True)
        assert await asking == []


@with_server
async def test_a_cursor_whose_messages_are_gone_can_be_an_error(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        small = await alice.create_channel(INTENT, "small", options={"max_messages": 1})
        first, *_ = [await alice.send_message(small.id, payload={"n": n}) for n in range(3)]

        assert len(await alice.list_messages(small.id, first.id)) == 1
        with pytest.raises(CursorEvicted):
            await alice.list_messages(small.id, first.id, on_evicted="error")


@with_server
async def test_nobody_speaks_for_somebody_else(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        with pytest.raises(WrongSender):
            await alice.send_message(CHANNEL, "bob", payload={"text": "I am bob"})


@with_server
async def test_a_time_without_a_zone_is_refused_before_it_is_sent(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        with pytest.raises(Invalid, match="has no time zone"):
            await alice.send_message(CHANNEL, payload={}, expires_at=datetime(2030, 1, 1))  # noqa: DTZ001


def test_a_message_that_waits_for_a_person_is_an_error_that_names_the_approval(tmp_path: Any) -> None:
    async def sent() -> None:
        async with open_rig(tmp_path) as rig, live_server(rig) as server:
            await two_agents(rig)
            rig.clock.at = datetime.now(UTC)
            await put_policy(rig)
            metadata = {"exchange_type": "information_query"}
            promise = {"text": "We promise it."}
            async with recorded(server, "alice") as alice:
                with pytest.raises(MessageHeld) as held:
                    await alice.send_message(CHANNEL, None, "bob", "request", promise, metadata=metadata)
                assert str(held.value.facts["approval"]).startswith("appr_")
                with pytest.raises(MessageHeld):
                    await alice.ask(CHANNEL, None, "bob", promise, 1, metadata=metadata)
                with pytest.raises(MessageHeld):
                    await alice.ask_all(CHANNEL, None, "bob", promise, 1, metadata=metadata)

    asyncio.run(sent())


# ---------------------------------------------------------------- calls that cannot be meant

ORDER = "(the order is channel_id, sender, to, payload; by name: to=..., payload=...)"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda bob: bob.send_message(CHANNEL), "send_message: there is no payload (write payload=...)"),
        (
            lambda bob: bob.send_message(CHANNEL, "hello"),
            "send_message: there is no payload ('hello' was taken for the sender: write payload=...)",
        ),
        (
            lambda bob: bob.send_message(CHANNEL, None, "planner", {"x": 1}),
            (
                "send_message: message_type is a text such as 'notify', not a dict "
                "(the payload comes after it: write payload=...)"
            ),
        ),
        (
            lambda bob: bob.send_message(CHANNEL, {"x": 1}, "planner", payload="hello"),
            f"send_message: sender is an agent's name or None, not a dict {ORDER}",
        ),
        (
            lambda bob: bob.send_message(CHANNEL, None, ["planner"], payload="hello"),
            "send_message: to is an agent's name, 'role:ROLE', 'any:ROLE' or '*', not a list",
        ),
        (
            lambda bob: bob.send_message({"id": CHANNEL}, payload="hello"),
            "send_message: channel_id is a text, or what has an id, not a dict",
        ),
        (
            lambda bob: bob.send_to_name(INTENT, "news", "hello"),
            "send_to_name: there is no payload ('hello' was taken for the sender: write payload=...)",
        ),
        (lambda bob: bob.ask(CHANNEL, "planner", {"x": 1}), f"ask: to is an agent's name, not a dict {ORDER}"),
        (lambda bob: bob.ask(CHANNEL, "planner"), f"ask: to is missing {ORDER}"),
        (lambda bob: bob.ask(CHANNEL, None, "planner"), f"ask: there is no payload {ORDER}"),
        (
            lambda bob: bob.ask(CHANNEL, to="planner", payload={}, timeout="soon"),
            "timeout is a number of seconds above 0, not 'soon'",
        ),
        (lambda bob: bob.ask_all(CHANNEL, "planner", {"x": 1}), f"ask_all: to is an agent's name, not a dict {ORDER}"),
        (
            lambda bob: anext(bob.ask_stream(CHANNEL, "planner", {"x": 1})),
            f"ask_stream: to is an agent's name, not a dict {ORDER}",
        ),
        (
            lambda bob: bob.answer(CHANNEL, "hello"),
            (
                f"answer: this decides about an approval, not about '{CHANNEL}' "
                "(to answer a message: reply_to(channel_id, message_id, payload=...))"
            ),
        ),
    ],
)
@with_server
async def test_a_wrong_call_is_one_sentence_and_nothing_is_sent(server: LiveServer, call: Any, sentence: str) -> None:
    async with recorded(server, "bob") as bob:
        with pytest.raises(Invalid) as refused:
            await call(bob)

        assert str(refused.value) == sentence
        assert await bob.list_messages(CHANNEL) == []


@with_server
async def test_a_channel_is_taken_for_its_id_and_the_sender_may_be_left_out(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice, recorded(server, "bob") as bob:
        channel = await alice.get_channel(CHANNEL)

        asked, answered = await asyncio.gather(
            alice.ask(channel, to="bob", payload="Which?", timeout=10), answering(bob, 0, {"text": "v2.3"})
        )
        told = await alice.send_message(channel, to="bob", payload="Good morning")

    assert (asked.id, asked.text) == (answered.id, "v2.3")
    assert (told.text, told.sender) == ("Good morning", "alice")
