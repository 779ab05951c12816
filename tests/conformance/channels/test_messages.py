"""RFC-0021, sections 2.1 to 2.3: the message, field by field, and its four types."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.conformance.channels.talk import (
    MESSAGE_FIELDS,
    MESSAGES,
    channel,
    heard,
    later,
    listed,
    read,
    reply,
    request,
    send,
    shown,
)
from tests.rigs.team import LiveServer, with_server


@pytest.mark.requirement("RFC21-2.1-OBJECT")
@with_server
async def test_a_message_has_the_fields_of_the_text(server: LiveServer) -> None:
    alice = await server.client("alice")

    said = await send(alice)

    # Ours are its place in the channel (a number that also serves as a cursor), the label of its author, and its
    # conversation.
    assert set(said) == MESSAGE_FIELDS | {"seq", "disclosure", "conversation_id"}
    assert await listed(alice) == [said]
    assert await shown(alice, said) == said


@pytest.mark.requirement("RFC21-2-TYPED")
@with_server
async def test_a_message_is_what_was_said_on_its_channel(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    payload = {"question": "which schema?", "context": {"task_id": "task_1", "rows": [1, 2.5, None, True, "ü"]}}

    said = await bob.post(MESSAGES, {"message_type": "notify", "payload": payload})

    (found,) = await listed(alice)
    assert (found["message_type"], found["payload"], found["sender"]) == ("notify", payload, "bob")
    assert found["id"] == said.json["id"]


@pytest.mark.requirement("RFC21-0-TYPED", "RFC21-2.2-PAYLOAD")
@pytest.mark.parametrize("payload", ["hello there", ["hello"], 7, True, None])
@with_server
async def test_a_payload_is_an_object_and_no_chat_text(server: LiveServer, payload: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"payload": payload})

    assert answer.status == 422
    assert "payload" in answer.json["detail"]
    assert await listed(alice) == []


@pytest.mark.requirement("RFC21-2.2-ID")
@with_server
async def test_message_ids_are_unique_even_across_channels(server: LiveServer) -> None:
    await server.rig.channel("chan_2")
    alice = await server.client("alice")

    ids = [(await send(alice, path=f"/channels/{place}/messages"))["id"] for place in ("chan_1", "chan_2") * 3]

    assert len(set(ids)) == 6
    assert all(one.startswith("msg_") for one in ids)


@pytest.mark.requirement("RFC21-2.2-ID-GENERATED")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "msg_mine"),
        ("channel_id", "chan_2"),
        ("status", "read"),
        ("created_at", "2026-02-13T10:00:00Z"),
        ("read_at", "2026-02-13T10:00:00Z"),
        ("seq", 1),
    ],
)
@with_server
async def test_what_the_server_sets_cannot_be_sent(server: LiveServer, field: str, value: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"payload": {}, field: value})

    assert answer.status == 422
    assert field in answer.json["detail"]
    assert await listed(alice) == []


@pytest.mark.requirement("RFC21-2.2-CHANNEL-ID")
@with_server
async def test_a_message_belongs_to_one_channel(server: LiveServer) -> None:
    await server.rig.channel("chan_2")
    alice = await server.client("alice")

    said = await send(alice)

    assert said["channel_id"] == "chan_1"
    assert await listed(alice, "/channels/chan_2/messages") == []
    assert (await alice.get(f"/channels/chan_2/messages/{said['id']}")).status == 404


@pytest.mark.requirement("RFC21-2.2-SENDER")
@with_server
async def test_a_message_names_who_sent_it(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    await send(bob, sender="bob")
    await send(alice)

    assert [one["sender"] for one in await listed(alice)] == ["bob", "alice"]


@pytest.mark.requirement("RFC21-2.2-TO-AGENT")
@with_server
async def test_a_message_may_be_for_one_agent(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    said = await send(alice, to="bob")

    assert (said["to"], said["status"]) == ("bob", "delivered")
    assert [one["to"] for one in await listed(bob)] == ["bob"]


@pytest.mark.requirement("RFC21-2.2-TO-ROLE")
@with_server
async def test_a_message_may_be_for_a_role(server: LiveServer) -> None:
    await server.rig.role("billing-processor", "bob")
    alice, bob = await server.client("alice"), await server.client("bob")

    said = await send(alice, to="role:billing-processor")

    assert (said["to"], said["status"]) == ("role:billing-processor", "delivered")
    assert [one["to"] for one in await listed(bob)] == ["role:billing-processor"]


@pytest.mark.requirement("RFC21-2.2-TO-STAR", "RFC21-2.2-TO-NULL")
@pytest.mark.parametrize("given", [{"to": "*"}, {"to": None}, {}])
@with_server
async def test_a_message_to_all_or_to_nobody_in_particular_is_for_everyone(
    server: LiveServer, given: dict[str, Any]
) -> None:
    alice = await server.client("alice")
    others = [await server.client(name) for name in ("bob", "carol")]

    said = await send(alice, "all of you", **given)

    assert said["to"] == given.get("to")
    assert [await heard(one) for one in others] == [["all of you"]] * 2


@pytest.mark.requirement("RFC21-2.2-TO-AGENT")
@pytest.mark.parametrize("to", ["role:", "role:a b", "../bob", "a b", "b\nob", "b\x00b", "x" * 65, 7, ["bob"]])
@with_server
async def test_what_is_no_address_is_refused(server: LiveServer, to: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"payload": {}, "to": to})

    assert answer.status == 422
    assert await listed(alice) == []


@pytest.mark.requirement("RFC21-2.2-TYPE")
@with_server
async def test_there_are_four_types(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    asked = await request(alice, "bob")
    await reply(bob, asked)
    await send(alice, message_type="notify")
    await send(alice, message_type="broadcast")

    found = [one["message_type"] for one in await listed(alice)]
    assert found == ["request", "response", "notify", "broadcast"]


@pytest.mark.requirement("RFC21-2.2-TYPE")
@pytest.mark.parametrize("kind", ["chat", "Request", "", None, 3])
@with_server
async def test_there_is_no_fifth_type(server: LiveServer, kind: object) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"payload": {}, "message_type": kind, "to": "bob"})

    assert answer.status == 422
    assert "message_type" in answer.json["detail"]


@pytest.mark.requirement("RFC21-2.2-CORRELATION", "RFC21-2.3-RESPONSE-LINKED")
@with_server
async def test_a_response_names_the_request_it_answers(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    first, second = await request(alice, "bob", "one?"), await request(alice, "bob", "two?")

    answer = await reply(bob, second)

    assert answer["correlation_id"] == second["id"] != first["id"]
    assert (await listed(alice))[-1]["correlation_id"] == second["id"]


@pytest.mark.requirement("RFC21-2.2-METADATA")
@with_server
async def test_metadata_is_an_object_that_comes_back_as_it_was(server: LiveServer) -> None:
    alice = await server.client("alice")
    metadata = {"priority": "high", "routing": ["a", {"b": None}], "n": 0.5}

    said = await send(alice, metadata=metadata)
    bare = await send(alice)
    nothing = await send(alice, metadata=None)
    refused = await alice.post(MESSAGES, {"payload": {}, "metadata": "high"})

    assert (await shown(alice, said))["metadata"] == metadata
    assert (bare["metadata"], nothing["metadata"]) == ({}, {})
    assert refused.status == 422


@pytest.mark.requirement("RFC21-2.2-STATUS")
@with_server
async def test_a_message_is_pending_delivered_read_or_expired(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    pending = await send(alice, to="role:nobody-has-it")
    delivered = await send(alice, to="bob")
    seen = await send(alice, to="bob")
    expired = await send(alice, to="bob", expires_at=later(server, seconds=5))

    await read(bob, seen)
    server.rig.clock.pass_by(seconds=5)

    found = [(await shown(alice, one))["status"] for one in (pending, delivered, seen, expired)]
    assert found == ["pending", "delivered", "read", "expired"]


@pytest.mark.requirement("RFC21-2.2-CREATED-AT")
@with_server
async def test_a_message_knows_when_it_was_created(server: LiveServer) -> None:
    alice = await server.client("alice")
    server.rig.clock.pass_by(seconds=7)

    said = await send(alice)

    assert datetime.fromisoformat(said["created_at"]) == server.rig.clock.at
    assert (await channel(alice))["last_message_at"] == said["created_at"]


@pytest.mark.both_stores
@pytest.mark.requirement("RFC21-2.2-EXPIRES-AT")
@with_server
async def test_a_message_expires_at_its_moment(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob", expires_at=later(server, seconds=300))

    server.rig.clock.pass_by(seconds=299)
    before = await shown(bob, said)
    server.rig.clock.pass_by(seconds=1)
    after = await shown(bob, said)

    assert datetime.fromisoformat(said["expires_at"]) == server.rig.clock.at
    assert (before["status"], after["status"]) == ("delivered", "expired")


@pytest.mark.requirement("RFC21-2.2-EXPIRES-AT")
@pytest.mark.parametrize("moment", ["tomorrow", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59Z", 1e400, 17, ""])
@with_server
async def test_what_is_no_moment_to_come_is_refused(server: LiveServer, moment: object) -> None:
    alice = await server.client("alice")
    body = b'{"payload": {}, "expires_at": %b}' % (b"1e400" if moment == 1e400 else b'"%b"' % str(moment).encode())

    answer = await alice.request("POST", MESSAGES, body)

    assert answer.status == 422
    assert await listed(alice) == []


@pytest.mark.both_stores
@pytest.mark.requirement("RFC21-2.2-EXPIRED-UNDELIVERED")
@with_server
async def test_an_expired_message_is_not_delivered(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await send(alice, "short", to="bob", expires_at=later(server, seconds=5))
    await send(alice, "long", to="bob", expires_at=later(server, seconds=50))

    server.rig.clock.pass_by(seconds=5)

    assert await heard(bob) == ["long"]


@pytest.mark.requirement("RFC21-2.2-READ-AT")
@with_server
async def test_read_at_is_the_moment_the_target_acknowledged(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob")
    server.rig.clock.pass_by(seconds=9)

    acknowledged = await read(bob, said)
    at = server.rig.at()
    server.rig.clock.pass_by(seconds=9)
    again = await read(bob, said)

    assert said["read_at"] is None
    assert [(one.status, one.json["status"], one.json["read_at"]) for one in (acknowledged, again)] == [
        (200, "read", at)
    ] * 2
    # Who sent it to one agent sees that it was read.
    assert (await shown(alice, said))["read_at"] == at


@pytest.mark.requirement("RFC21-2.3-REQUEST-PENDING")
@with_server
async def test_a_request_is_something_its_target_can_answer(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    asked = await request(alice, "bob", "which schema?")
    answer = await reply(bob, asked, "v2.3")

    assert asked["message_type"] == "request"
    assert (answer["message_type"], answer["sender"], answer["payload"]) == ("response", "bob", {"text": "v2.3"})


@pytest.mark.requirement("RFC21-2.3-REQUEST-CORRELATION", "RFC21-2.3-NOTIFY-CORRELATION")
@pytest.mark.requirement("RFC21-2.3-BROADCAST-CORRELATION")
@pytest.mark.parametrize("kind", ["request", "notify", "broadcast"])
@with_server
async def test_only_a_response_has_a_correlation_id(server: LiveServer, kind: str) -> None:
    alice = await server.client("alice")
    asked = await request(alice, "bob")
    to = {} if kind == "broadcast" else {"to": "bob"}

    plain = await send(alice, message_type=kind, **to)
    refused = await alice.post(MESSAGES, {"payload": {}, "message_type": kind, "correlation_id": asked["id"], **to})

    assert plain["correlation_id"] is None
    assert refused.status == 422
    assert refused.json["errors"][0]["field"] == "correlation_id"


@pytest.mark.requirement("RFC21-2.3-REQUEST-TO")
@with_server
async def test_a_request_names_an_agent_or_a_role(server: LiveServer) -> None:
    alice = await server.client("alice")
    body = {"message_type": "request", "payload": {}}

    to_nobody = await alice.post(MESSAGES, body)
    to_bob = await alice.post(MESSAGES, {**body, "to": "bob"})
    to_role = await alice.post(MESSAGES, {**body, "to": "role:data"})

    assert (to_nobody.status, to_bob.status, to_role.status) == (422, 201, 201)
    assert to_nobody.json["errors"][0]["field"] == "to"


@pytest.mark.requirement("RFC21-2.3-RESPONSE-CORRELATION")
@pytest.mark.parametrize("correlation", [{}, {"correlation_id": None}, {"correlation_id": "msg_none"}])
@with_server
async def test_a_response_without_a_request_is_refused(server: LiveServer, correlation: dict[str, object]) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"payload": {}, "message_type": "response", **correlation})

    assert answer.status == 422
    assert "correlation_id" in answer.json["detail"]


@pytest.mark.requirement("RFC21-2.3-RESPONSE-CORRELATION")
@pytest.mark.parametrize("kind", ["notify", "broadcast"])
@with_server
async def test_a_response_to_something_else_than_a_request_is_refused(server: LiveServer, kind: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, message_type=kind)

    answer = await bob.post(MESSAGES, {"payload": {}, "message_type": "response", "correlation_id": said["id"]})

    assert (answer.status, answer.code) == (422, "bad_correlation")


@pytest.mark.requirement("RFC21-2.3-RESPONSE-TO")
@with_server
async def test_a_response_goes_to_who_asked(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")
    body = {"payload": {}, "message_type": "response", "correlation_id": asked["id"]}

    left_out = await bob.post(MESSAGES, body)
    said_so = await bob.post(MESSAGES, {**body, "to": "alice"})
    to_another = await bob.post(MESSAGES, {**body, "to": "carol"})

    assert (left_out.json["to"], said_so.json["to"]) == ("alice", "alice")
    assert to_another.status == 422


@pytest.mark.requirement("RFC21-2.3-NOTIFY")
@with_server
async def test_a_notify_expects_no_response(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob", message_type="notify")

    answer = await bob.post(f"{MESSAGES}/{said['id']}/reply", {"payload": {}})

    assert (answer.status, answer.code) == (409, "not_a_request")


@pytest.mark.requirement("RFC21-2.3-NOTIFY-TO")
@pytest.mark.parametrize("to", ["bob", "role:data", "*", None])
@with_server
async def test_a_notify_goes_to_an_agent_a_role_or_everyone(server: LiveServer, to: str | None) -> None:
    await server.rig.role("data", "bob")
    alice, bob = await server.client("alice"), await server.client("bob")

    said = await send(alice, "news", message_type="notify", to=to)

    assert (said["to"], said["status"]) == (to, "delivered")
    assert await heard(bob) == ["news"]


@pytest.mark.requirement("RFC21-2.3-BROADCAST", "RFC21-2.3-BROADCAST-TO")
@with_server
async def test_a_broadcast_reaches_every_member_and_says_so(server: LiveServer) -> None:
    alice = await server.client("alice")
    others = [await server.client(name) for name in ("bob", "carol", "dave")]

    said = await send(alice, "to all", message_type="broadcast")
    starred = await send(alice, "to all", message_type="broadcast", to="*")

    assert (said["to"], starred["to"]) == ("*", "*")
    assert [await heard(one) for one in others] == [["to all", "to all"]] * 3
