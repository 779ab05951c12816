"""OCIP: a message is judged as its receiver would get it. Whatever a sender can write is looked at, wherever it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parley.wire.api.channels import AskIn, BatchIn, MessageIn, ReplyIn
from parley.wire.ocip import DATA, OCIP
from tests.conformance.ocip.governed import MESSAGES, Document, document, inbox, pair, person, reply, said, tell
from tests.rigs.team import CHANNEL, INTENT, Answer, Client, LiveServer, with_server

KEY = "AK" + "IAIOSFODNN7EXAMPLE"
PROMISE = "we-promise-ten-seats"
PLANTS = {KEY: (403, "classification_exceeded"), PROMISE: (202, "")}
ITEM = {"source": "crm", "fields": ["name"], "classification": "public", "description": "who"}
# A sender's place for any text, in what is governed because its sender asks for it.
POSITIONS: dict[str, Any] = {
    "payload": lambda text: {"payload": {"text": text}},
    "payload, a key": lambda text: {"payload": {text: 1}},
    "payload, deep": lambda text: {"payload": {"a": [{"b": [[text]]}]}},
    "payload beside a letter that is not ASCII": lambda text: {"payload": {"a": "\u00fc", "b": text}},
    "payload behind an escape": lambda text: {"payload": {"a": "\n", "b": text}},
    "metadata": lambda text: {"metadata": {"note": text}},
    "metadata, a key": lambda text: {"metadata": {text: True}},
    "metadata, deep": lambda text: {"metadata": {"a": {"b": [text]}}},
    "metadata.trace_id": lambda text: {"metadata": {"trace_id": text}},
    "metadata.parent_event_id": lambda text: {"metadata": {"parent_event_id": text}},
    "metadata.conversation_id": lambda text: {"metadata": {"conversation_id": text}},
    "data.source": lambda text: {"metadata": {DATA: [{**ITEM, "source": text}]}},
    "data.fields": lambda text: {"metadata": {DATA: [{**ITEM, "fields": ["name", text]}]}},
    "data.description": lambda text: {"metadata": {DATA: [{**ITEM, "description": text}]}},
}
# What every sender writes in the other fields of a call cannot say anything: it must name something that is there.
FIXED = {"sender", "to", "correlation_id", "message_type", "expires_at", "timeout", "wait_for_responders", "lease"}


def governed(position: str, text: str) -> Document:
    planted = POSITIONS[position](text)
    return {
        "payload": {"text": "hello"},
        **planted,
        "metadata": {"exchange_type": "information_query", **planted.get("metadata", {})},
    }


async def by_message(alice: Client, bob: Client, body: Document) -> Answer:
    del bob
    return await alice.post(MESSAGES, {**body, "to": "bob", "message_type": "request"})


async def by_waiting(alice: Client, bob: Client, body: Document) -> Answer:
    del bob
    return await alice.post(f"{MESSAGES}?wait=1", {**body, "to": "bob", "message_type": "request"})


async def by_name(alice: Client, bob: Client, body: Document) -> Answer:
    del bob
    return await alice.post(f"/intents/{INTENT}/channels/somewhere/messages", {**body, "to": "bob"})


async def by_ask(alice: Client, bob: Client, body: Document) -> Answer:
    del bob
    return await alice.post(f"/channels/{CHANNEL}/ask", {**body, "to": "bob", "timeout": 1})


async def by_reply(alice: Client, bob: Client, body: Document) -> Answer:
    asked = await said(bob, "alice")
    metadata = {name: value for name, value in body["metadata"].items() if name != "exchange_type"}
    return await alice.post(f"{MESSAGES}/{asked['id']}/reply", {**body, "metadata": metadata})


async def by_batch(alice: Client, bob: Client, body: Document) -> Answer:
    del bob
    return await alice.post(f"/channels/{CHANNEL}/batch", {"messages": [{**body, "to": "bob"}]})


ROUTES = {
    "message": by_message,
    "message and wait": by_waiting,
    "by name": by_name,
    "ask": by_ask,
    "reply": by_reply,
    "batch": by_batch,
}


@pytest.mark.requirement("GOV-JUDGED-WHOLE", "OCIP-1-CLASSIFICATION", "OCIP-1-COMMITMENT")
@pytest.mark.parametrize("route", ROUTES)
@with_server
async def test_nothing_that_a_sender_writes_passes_unseen(server: LiveServer, route: str) -> None:
    alice, bob = await pair(server)
    passed = []
    for position in POSITIONS:
        for text, (status, code) in PLANTS.items():
            answer = await ROUTES[route](alice, bob, governed(position, text))
            # A reply names no conversation of its own, and a batch holds nothing.
            refused = answer.status == 422 and (position == "metadata.conversation_id" or route == "batch")
            if not refused and (answer.status, answer.code if answer.status != 202 else "") != (status, code):
                passed.append((position, text, answer.status))

    assert passed == []
    assert not any(KEY in str(one) or PROMISE in str(one) for one in await inbox(bob))


@pytest.mark.requirement("GOV-JUDGED-WHOLE")
def test_a_field_that_is_added_to_a_call_must_be_planted_here() -> None:
    planted = {position.split(",")[0].split(".")[0].split(" ")[0] for position in POSITIONS} - {"data"}

    for call in (MessageIn, ReplyIn, AskIn):
        assert {field.name for field in msgspec.structs.fields(call)} <= planted | FIXED, call
    assert [field.name for field in msgspec.structs.fields(BatchIn)] == ["messages"]


@pytest.mark.requirement("GOV-JUDGED-WHOLE", "OCIP-2-CONVERSATION")
@pytest.mark.parametrize(("text", "status"), [(KEY, 403), (PROMISE, 202)])
@with_server
async def test_a_conversation_in_a_whole_envelope_is_looked_at(server: LiveServer, text: str, status: int) -> None:
    alice, bob = await pair(server)
    envelope = (await said(alice, "bob"))["metadata"][OCIP]

    answer = await tell(alice, "bob", ocip={**envelope, "conversation_id": text})

    assert answer.status == status
    assert len(await inbox(bob)) == 1


@pytest.mark.requirement("GOV-JUDGED-WHOLE")
@pytest.mark.parametrize("field", ["instance_id", "user_id", "org_unit", "tenant_id"])
@with_server
async def test_a_text_in_the_identity_of_an_envelope_is_refused(server: LiveServer, field: str) -> None:
    alice, bob = await pair(server)
    envelope = (await said(alice, "bob"))["metadata"][OCIP]
    source = {**envelope["source_agent"], field: PROMISE}

    answer = await tell(alice, "bob", ocip={**envelope, "conversation_id": "another", "source_agent": source})

    assert answer.status == 403
    assert len(await inbox(bob)) == 1


@pytest.mark.requirement("GOV-JUDGED-WHOLE")
@with_server
async def test_what_a_sender_writes_in_place_of_our_stamps_reaches_nobody(server: LiveServer) -> None:
    alice, bob = await pair(server)

    answer = await tell(alice, "bob", disclosure=PROMISE, ocip_ext={"exchange_id": PROMISE, "note": KEY})

    assert answer.status == 201
    (read,) = await inbox(bob)
    assert PROMISE not in str(read)
    assert KEY not in str(read)


@pytest.mark.requirement("GOV-JUDGED-WHOLE")
@with_server
async def test_the_name_of_a_channel_that_a_message_creates_is_looked_at(server: LiveServer) -> None:
    alice, _ = await pair(server)
    body = {"to": "bob", "payload": {"text": "hello"}, "metadata": {"exchange_type": "information_query"}}

    for name, status in ((KEY, 403), (PROMISE, 202), ("progress", 201), ("progress", 201)):
        assert (await alice.post(f"/intents/{INTENT}/channels/{name}/messages", body)).status == status, name


@pytest.mark.requirement("GOV-PARENT-SEEN")
@with_server
async def test_a_parent_is_a_message_that_its_sender_can_see(server: LiveServer) -> None:
    alice, bob = await pair(server)
    carol = await server.client("carol")
    asked = await said(alice, "bob")

    assert (await tell(bob, "alice", parent_message_id=asked["id"])).status == 201
    for client, parent in ((carol, asked["id"]), (bob, "msg_1"), (bob, KEY), (bob, PROMISE)):
        answer = await tell(client, "alice", parent_message_id=parent)
        assert (answer.status, answer.code) == (422, "envelope_invalid"), parent
        assert "parent_message_id" in answer.json["detail"]


@pytest.mark.requirement("GOV-PARENT-SEEN")
@with_server
async def test_where_the_rules_do_not_apply_a_parent_is_what_its_sender_means_by_it(server: LiveServer) -> None:
    alice, _ = await pair(server)

    answer = await alice.post(MESSAGES, {"to": "bob", "payload": {}, "metadata": {"parent_message_id": "mine-1"}})

    assert answer.status == 201


@pytest.mark.requirement("GOV-JUDGED-WHOLE")
@with_server
async def test_a_conversation_that_a_person_named_holds_no_reply(server: LiveServer) -> None:
    _, bob = await pair(server)
    ann = await person(server, "ann")
    metadata = {"exchange_type": "information_query", "conversation_id": "meeting-on-friday"}
    body = {"sender": "alice", "to": "bob", "message_type": "request", "payload": {"text": "hi"}, "metadata": metadata}

    asked = document(await ann.post(MESSAGES, body))

    assert (await reply(bob, asked, "fine")).status == 201
