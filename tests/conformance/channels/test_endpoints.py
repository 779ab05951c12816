"""RFC-0021, its ten endpoints, its examples, and what the client methods send."""

from __future__ import annotations

import pytest

from tests.conformance.channels.talk import (
    CHANNELS,
    MESSAGES,
    channel,
    created,
    heard,
    later,
    listed,
    messages_of,
    reply,
    request,
    send,
    shown,
)
from tests.rigs.team import Client, LiveServer, with_server

V1 = "/v1"


@pytest.mark.requirement("RFC21-E-CREATE-CHANNEL")
@with_server
async def test_post_creates_a_channel_on_an_intent(server: LiveServer) -> None:
    alice = await server.client("alice")

    answer = await alice.post(f"{V1}{CHANNELS}", {"name": "room"})

    assert answer.status == 201
    assert await channel(alice, answer.json["id"]) == answer.json


@pytest.mark.requirement("RFC21-E-LIST-CHANNELS")
@with_server
async def test_get_lists_the_channels_of_an_intent(server: LiveServer) -> None:
    await server.rig.intent("intent_2")
    await server.rig.channel("chan_2", intent_id="intent_2")
    alice = await server.client("alice")
    room = await created(alice, "room")

    answer = await alice.get(f"{V1}{CHANNELS}")

    assert answer.status == 200
    assert sorted(answer.json, key=lambda one: one["name"]) == [await channel(alice), room]
    assert (await alice.get(f"{V1}/intents/intent_none/channels")).status == 404


@pytest.mark.requirement("RFC21-E-GET-CHANNEL")
@with_server
async def test_get_shows_one_channel(server: LiveServer) -> None:
    alice = await server.client("alice")

    answer = await alice.get(f"{V1}/channels/chan_1")

    assert (answer.status, answer.json["id"], answer.json["name"]) == (200, "chan_1", "chan_1")
    assert (await alice.get(f"{V1}/channels/chan_none")).status == 404


@pytest.mark.requirement("RFC21-E-PATCH-MEMBERS", "RFC21-E-PATCH-OPTIONS", "RFC21-E-PATCH-STATUS")
@with_server
async def test_patch_changes_members_options_and_status_and_nothing_it_does_not_name(server: LiveServer) -> None:
    alice = await server.client("alice")
    place = f"{V1}/channels/chan_1"
    before = await channel(alice)

    members = await alice.patch(place, {"members": ["bob"]})
    options = await alice.patch(place, {"options": {"max_messages": 5}})
    more = await alice.patch(place, {"options": {"audit": True, "ttl_seconds": 60}})
    endless = await alice.patch(place, {"options": {"ttl_seconds": None}})
    status = await alice.patch(place, {"status": "closed"})

    assert members.json == {**before, "members": ["alice", "bob"]}
    assert options.json["options"] == {"audit": False, "ttl_seconds": None, "max_messages": 5}
    assert more.json["options"] == {"audit": True, "ttl_seconds": 60, "max_messages": 5}
    assert endless.json["options"] == {"audit": True, "ttl_seconds": None, "max_messages": 5}
    assert (status.status, status.json["status"], status.json["members"]) == (200, "closed", ["alice", "bob"])


@pytest.mark.requirement("RFC21-E-PATCH-OPTIONS")
@pytest.mark.parametrize("field", ["id", "name", "created_by", "created_at", "message_count", "task_id", "tenant_id"])
@with_server
async def test_patch_changes_nothing_else(server: LiveServer, field: str) -> None:
    alice = await server.client("alice")
    before = await channel(alice)

    answer = await alice.patch(f"{V1}/channels/chan_1", {field: "x"})

    assert answer.status == 422
    assert await channel(alice) == before


@pytest.mark.requirement("RFC21-E-DELETE-CHANNEL")
@with_server
async def test_delete_closes_a_channel_and_removes_it(server: LiveServer) -> None:
    alice = await server.client("alice")
    said = await send(alice)

    answer = await alice.delete(f"{V1}/channels/chan_1")

    assert (answer.status, answer.json["status"]) == (200, "closed")
    gone = ("/channels/chan_1", MESSAGES, f"{MESSAGES}/{said['id']}")
    assert [(await alice.get(path)).status for path in gone] == [404] * 3
    assert (await alice.get(CHANNELS)).json == []
    assert (await alice.delete(f"{V1}/channels/chan_1")).status == 404


@pytest.mark.requirement("RFC21-E-SEND")
@with_server
async def test_post_sends_a_message(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    answer = await alice.post(f"{V1}{MESSAGES}", {"payload": {"text": "hello"}})

    assert answer.status == 201
    assert await heard(bob) == ["hello"]


@pytest.mark.requirement("RFC21-E-LIST")
@with_server
async def test_get_lists_messages_after_a_cursor_for_a_recipient(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    first = await send(alice, "one", to="bob")
    await send(bob, "two", to="alice")
    await send(alice, "three", to="bob")

    assert await heard(bob, V1 + MESSAGES) == ["one", "two", "three"]
    assert await heard(bob, V1 + MESSAGES, since=first["id"]) == ["two", "three"]
    assert await heard(bob, V1 + MESSAGES, to="bob") == ["one", "three"]
    assert await heard(bob, V1 + MESSAGES, to="bob", since=first["id"]) == ["three"]


@pytest.mark.requirement("RFC21-E-GET")
@with_server
async def test_get_shows_one_message(server: LiveServer) -> None:
    alice = await server.client("alice")
    said = await send(alice)

    answer = await alice.get(f"{V1}{MESSAGES}/{said['id']}")

    assert (answer.status, answer.json) == (200, said)
    assert (await alice.get(f"{V1}{MESSAGES}/msg_none")).status == 404


@pytest.mark.requirement("RFC21-E-REPLY")
@with_server
async def test_reply_sets_correlation_id_and_to(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")
    place = f"{V1}{MESSAGES}/{asked['id']}/reply"

    answer = await bob.post(place, {"payload": {"answer": 42}})
    chosen = await bob.post(place, {"payload": {}, "to": "carol"})

    assert answer.status == 201
    found = answer.json
    assert (found["message_type"], found["correlation_id"], found["to"]) == ("response", asked["id"], "alice")
    assert chosen.status == 422


@pytest.mark.requirement("RFC21-E-READ")
@with_server
async def test_patch_marks_a_message_as_read(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob")

    answer = await bob.patch(f"{V1}{MESSAGES}/{said['id']}", {"status": "read"})

    assert answer.status == 200
    assert answer.json == {**said, "status": "read", "read_at": server.rig.at()}


# ---------------------------------------------------------------- the examples of the text


async def example_channel(server: LiveServer) -> tuple[Client, Client, dict[str, object]]:
    await server.rig.intent("intent_01HABC", "research-agent-01")
    research = await server.client("research-agent-01")
    data = await server.client("data-agent-01")
    body = {
        "name": "data-clarification",
        "members": ["research-agent-01", "data-agent-01"],
        "member_policy": "explicit",
        "options": {"audit": True, "ttl_seconds": 3600},
    }
    answer = await research.post("/api/v1/intents/intent_01HABC/channels", body)
    assert answer.status == 201, answer
    return research, data, answer.json


@pytest.mark.requirement("RFC21-X-CREATE")
@with_server
async def test_the_example_of_creating_a_channel(server: LiveServer) -> None:
    _, _, made = await example_channel(server)

    expected = {
        "intent_id": "intent_01HABC",
        "name": "data-clarification",
        "created_by": "research-agent-01",
        "members": ["research-agent-01", "data-agent-01"],
        "member_policy": "explicit",
        "options": {"audit": True, "ttl_seconds": 3600, "max_messages": 1000},
        "status": "open",
        "created_at": server.rig.at(),
        "message_count": 0,
    }
    assert made == {**made, **expected}


@pytest.mark.requirement("RFC21-X-REQUEST")
@with_server
async def test_the_example_of_a_request(server: LiveServer) -> None:
    research, _, made = await example_channel(server)
    ends = later(server, minutes=5)
    body = {
        "sender": "research-agent-01",
        "to": "data-agent-01",
        "message_type": "request",
        "payload": {"question": "What schema version does the Q1 dataset use?"},
        "expires_at": ends.replace("+00:00", "Z"),
    }

    answer = await research.post(f"/api/v1/channels/{made['id']}/messages", body)

    assert answer.status == 201
    expected = {
        "channel_id": made["id"],
        "correlation_id": None,
        "status": "delivered",
        "created_at": server.rig.at(),
        "expires_at": ends,
    }
    assert answer.json == {**answer.json, **body, **expected}


@pytest.mark.requirement("RFC21-X-REPLY", "RFC21-X-LIST")
@with_server
async def test_the_example_of_a_reply_and_of_listing_it(server: LiveServer) -> None:
    research, data, made = await example_channel(server)
    path = messages_of(str(made["id"]))
    asked = await request(research, "data-agent-01", path=path)
    server.rig.clock.pass_by(seconds=5)
    payload = {
        "answer": "v2.3",
        "confidence": 0.95,
        "schema_url": "https://schemas.example.com/financials/v2.3",
    }

    answer = await data.post(f"{path}/{asked['id']}/reply", {"sender": "data-agent-01", "payload": payload})
    listing = await listed(research, path, since=asked["id"], to="research-agent-01")

    assert answer.status == 201
    expected = {
        "channel_id": made["id"],
        "sender": "data-agent-01",
        "to": "research-agent-01",
        "message_type": "response",
        "correlation_id": asked["id"],
        "payload": payload,
        "status": "delivered",
        "created_at": server.rig.at(),
    }
    assert answer.json == {**answer.json, **expected}
    assert listing == [answer.json]
    assert await listed(research, path, since=asked["id"], to="data-agent-01") == []


# ---------------------------------------------------------------- what the client methods send


@pytest.mark.requirement("RFC21-S-CREATE-CHANNEL")
@with_server
async def test_create_channel_with_its_defaults_and_with_everything(server: LiveServer) -> None:
    alice = await server.client("alice")

    plain = await alice.post(CHANNELS, {"name": "plain", "member_policy": "intent"})
    full = {"name": "full", "members": ["bob"], "member_policy": "explicit", "options": {"audit": True}}
    whole = await alice.post(CHANNELS, full)

    assert (plain.status, plain.json["members"], plain.json["member_policy"]) == (201, ["alice"], "intent")
    assert (whole.status, whole.json["member_policy"], whole.json["options"]["audit"]) == (201, "explicit", True)


@pytest.mark.requirement("RFC21-S-CHANNELS")
@with_server
async def test_list_get_and_close_a_channel_with_the_headers_of_the_client(server: LiveServer) -> None:
    alice = await server.client("alice")
    headers = {"Content-Type": "application/json", "X-Agent-ID": "alice"}

    found = await alice.get(CHANNELS, headers=headers)
    one = await alice.get(f"/channels/{found.json[0]['id']}", headers=headers)
    over = await alice.request("DELETE", f"/channels/{found.json[0]['id']}", headers=headers)

    assert (found.status, one.status, over.status) == (200, 200, 200)
    assert (one.json, over.json["channel_id"]) == (found.json[0], "chan_1")


@pytest.mark.requirement("RFC21-S-SEND")
@with_server
async def test_send_message_is_a_notify_to_everyone_with_an_empty_payload_unless_it_says_more(
    server: LiveServer,
) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"sender": "alice", "message_type": "notify", "payload": {}})
    left_out = await alice.post(MESSAGES, {"sender": "alice"})

    for one in (answer, left_out):
        assert one.status == 201
        said = one.json
        assert (said["message_type"], said["to"], said["payload"]) == ("notify", None, {})
        assert (said["expires_at"], said["correlation_id"]) == (None, None)


@pytest.mark.requirement("RFC21-S-REPLY")
@with_server
async def test_reply_to_with_an_empty_payload_is_an_answer(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")

    answer = await bob.post(f"{MESSAGES}/{asked['id']}/reply", {"sender": "bob", "payload": {}})

    assert (answer.status, answer.json["payload"], answer.json["correlation_id"]) == (201, {}, asked["id"])


@pytest.mark.requirement("RFC21-S-READING")
@with_server
async def test_list_get_and_mark_read_as_the_client_does(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")
    answer = await reply(bob, asked)

    everything = await bob.get(MESSAGES)
    one = await shown(alice, answer)
    marked = await alice.patch(f"{MESSAGES}/{answer['id']}", {"status": "read"})

    assert [item["id"] for item in everything.json] == [asked["id"], answer["id"]]
    assert one == answer
    assert (marked.status, marked.json["id"], marked.json["status"]) == (200, answer["id"], "read")
