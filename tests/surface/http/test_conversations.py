"""Conversations over HTTP: their messages across channels, and a list of them, for every reader what it may see."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.channel.channel import MemberPolicy
from tests.conformance.ocip.governed import MESSAGES, pair, said
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

Document = dict[str, Any]


async def tell(client: Client, text: str, conversation: str, channel: str = CHANNEL, **more: Any) -> Document:  # noqa: ANN401
    body = {"payload": {"text": text}, "metadata": {"conversation_id": conversation}, **more}
    answer = await client.post(f"/channels/{channel}/messages", body)
    assert answer.status == 201
    message: Document = answer.json
    return message


def texts(messages: list[Document]) -> list[str]:
    return [message["payload"]["text"] for message in messages]


@pytest.mark.both_stores
@with_server
async def test_a_conversation_is_read_across_channels_forwards_and_backwards(server: LiveServer) -> None:
    await server.rig.channel("chan_2", label="other")
    alice, bob = await server.client("alice"), await server.client("bob")
    first = await tell(alice, "one", "conv/1")
    await tell(bob, "elsewhere", "conv/2")
    await tell(bob, "two", "conv/1", "chan_2")
    last = await tell(alice, "three", "conv/1")
    path = "/conversations/conv%2F1/messages"

    whole = await alice.get(path)
    assert texts(whole.json) == ["one", "two", "three"]
    assert {message["conversation_id"] for message in whole.json} == {"conv/1"}
    assert whole.headers["x-next-cursor"] == last["id"]
    assert texts((await alice.get(path, order="desc", limit=2)).json) == ["three", "two"]
    assert texts((await alice.get(path, before=last["id"])).json) == ["two", "one"]
    assert texts((await alice.get(path, since=first["id"])).json) == ["two", "three"]
    assert (await alice.get(path, since=last["id"])).json == []
    assert (await alice.get(path, since="msg_unknown")).json["code"] == "bad_cursor"
    assert (await alice.get(path, since=first["id"], order="desc")).status == 422
    assert (await alice.get("/conversations/conv9/messages")).status == 404


@pytest.mark.both_stores
@with_server
async def test_an_answer_is_part_of_the_conversation_of_its_request(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    request = await tell(alice, "how?", "c1", message_type="request", to="bob")
    await bob.post(f"/channels/{CHANNEL}/messages/{request['id']}/reply", {"payload": {"text": "so"}})

    messages = (await alice.get("/conversations/c1/messages")).json

    assert texts(messages) == ["how?", "so"]
    assert [message["conversation_id"] for message in messages] == ["c1", "c1"]


@pytest.mark.both_stores
@with_server
async def test_governed_messages_are_in_the_conversation_of_their_exchange(server: LiveServer) -> None:
    alice, bob = await pair(server)
    decoy = {"note": {"conversation_id": "elsewhere"}}
    asked = await said(alice, "bob", "hello", classification="public", metadata=decoy)
    conversation = asked["metadata"]["ocip"]["conversation_id"]

    assert asked["conversation_id"] == conversation
    for reader in (alice, bob):
        (message,) = (await reader.get(f"/conversations/{conversation}/messages")).json
        assert message["id"] == asked["id"]
        assert [listed["id"] for listed in (await reader.get("/conversations")).json] == [conversation]
    assert (await alice.get("/conversations/elsewhere/messages")).status == 404


@with_server
async def test_a_message_without_a_conversation_says_so(server: LiveServer) -> None:
    alice = await server.client("alice")

    plain = await alice.post(MESSAGES, {"payload": {}})
    odd = await alice.post(MESSAGES, {"payload": {}, "metadata": {"conversation_id": "two words"}})

    assert (plain.json["conversation_id"], odd.json["conversation_id"]) == (None, None)
    assert (await alice.get("/conversations")).json == []


@pytest.mark.both_stores
@with_server
async def test_nobody_sees_what_was_said_to_others(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", label="secret", policy=MemberPolicy.EXPLICIT)
    alice, carol = await server.client("alice"), await server.client("carol")
    await tell(alice, "for all", "c1")
    await tell(alice, "for bob", "c1", to="bob")
    hidden = await tell(alice, "for two", "c2", "chan_2")

    assert texts((await carol.get("/conversations/c1/messages")).json) == ["for all"]
    assert (await carol.get("/conversations/c2/messages")).status == 404
    (listed,) = (await carol.get("/conversations")).json
    assert (listed["id"], listed["last_message"]["summary"]) == ("c1", "for all")
    assert (await carol.get("/conversations/c1/messages", before=hidden["id"])).status == 400


@with_server
async def test_conversations_come_last_active_first_and_each_on_one_page(server: LiveServer) -> None:
    alice = await server.client("alice")
    for conversation in ("c1", "c2", "c3", "c1", "c4", "c2"):
        await tell(alice, conversation, conversation)
    seen: list[str] = []
    before = ""

    while True:
        page = await alice.get("/conversations", limit=2, before=before)
        seen += [conversation["id"] for conversation in page.json]
        before = page.headers.get("x-next-cursor", "")
        if not before:
            break

    assert seen == ["c2", "c4", "c1", "c3"]
