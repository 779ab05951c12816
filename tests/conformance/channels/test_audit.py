"""RFC-0021, section 6 and the security considerations: the copy in the event log, its hash chain and its trace."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.channel.channel import Options
from parley.wire.proofs.event_log import event_hash
from tests.conformance.channels.talk import (
    CHANNELS,
    Document,
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
from tests.rigs.team import INTENT, Client, LiveServer, with_server

pytestmark = pytest.mark.both_stores

EVENTS = f"/intents/{INTENT}/events"
ROOM = messages_of("chan_audited")
TRACE = "0af7651916cd43dd8448eb211c80319c"


async def audited_room(server: LiveServer) -> None:
    await server.rig.channel("chan_audited", label="data-clarification", options=Options(audit=True))


async def copies(client: Client) -> list[Document]:
    """The channel messages in the log."""
    answer = await client.get(EVENTS, event_type="channel_message")
    assert answer.status == 200, answer
    return list(answer.json)


@pytest.mark.requirement("RFC21-6-EVERY", "RFC21-1.2-AUDIT", "RFC21-0-PROMOTED")
@with_server
async def test_every_message_of_an_audited_channel_is_in_the_log(server: LiveServer) -> None:
    await audited_room(server)
    alice, bob = await server.client("alice"), await server.client("bob")

    asked = await request(alice, "bob", path=ROOM)
    said = [
        asked,
        await reply(bob, asked),
        await send(bob, "news", ROOM),
        await send(alice, "all", ROOM, message_type="broadcast"),
        await send(alice, "for nobody yet", ROOM, to="role:data"),
    ]

    found = await copies(alice)
    assert [one["payload"]["message_id"] for one in found] == [one["id"] for one in said]
    assert [one["actor"] for one in found] == ["alice", "bob", "bob", "alice", "alice"]


@pytest.mark.requirement("RFC21-6-SHAPE")
@with_server
async def test_the_copy_looks_as_in_the_text(server: LiveServer) -> None:
    await audited_room(server)
    alice = await server.client("alice")
    payload = {"question": 'What schema version? "v2" \\ or\nolder', "n": [1, 0.5, None]}

    body = {"message_type": "request", "to": "data-agent-01", "payload": payload}
    said = (await alice.post(ROOM, body)).json
    to_all = await send(alice, "all", ROOM)

    first, second = await copies(alice)
    assert (first["event_type"], first["actor"], first["intent_id"]) == ("channel_message", "alice", INTENT)
    assert first["payload"] == {
        "channel_id": "chan_audited",
        "channel_name": "data-clarification",
        "message_id": said["id"],
        "message_type": "request",
        "to": "data-agent-01",
        "payload": payload,
    }
    assert (second["payload"]["to"], second["payload"]["message_id"]) == (None, to_all["id"])


@pytest.mark.requirement("RFC21-6-NONE")
@with_server
async def test_without_audit_nothing_is_logged(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    before = (await alice.get(EVENTS)).json

    asked = await request(alice, "bob")
    await reply(bob, asked)
    await send(alice, "by name", f"{CHANNELS}/new-room/messages")

    assert (await alice.get(EVENTS)).json == before


@pytest.mark.requirement("RFC21-6-NONE", "RFC21-6-EVERY")
@with_server
async def test_audit_holds_for_what_is_said_while_it_is_on(server: LiveServer) -> None:
    alice = await server.client("alice")
    await send(alice, "before")
    await alice.patch("/channels/chan_1", {"options": {"audit": True}})
    during = await send(alice, "during")
    await alice.patch("/channels/chan_1", {"options": {"audit": False}})
    await send(alice, "after")

    assert [one["payload"]["message_id"] for one in await copies(alice)] == [during["id"]]


@pytest.mark.requirement("RFC21-6-EVERY")
@with_server
async def test_what_was_refused_is_not_logged(server: LiveServer) -> None:
    await audited_room(server)
    alice = await server.client("alice")

    await alice.post(ROOM, {"message_type": "request", "payload": {}})
    await alice.post(ROOM, {"sender": "bob", "payload": {}})

    assert await copies(alice) == []


@pytest.mark.requirement("RFC21-6-CHAIN", "RFC21-R-0019", "CHAN-LOG-LINK", "CHAN-LOG-HASH")
@with_server
async def test_copies_and_other_events_are_links_of_one_chain(server: LiveServer) -> None:
    await audited_room(server)
    alice = await server.client("alice")
    await send(alice, "one", ROOM)
    await alice.post(EVENTS, {"event_type": "comment", "payload": {"text": "between"}})
    await send(alice, "two", ROOM)

    log = (await alice.get(EVENTS, after=0)).json

    assert [one["event_type"] for one in log] == ["channel_message", "comment", "channel_message"]
    assert [one["sequence"] for one in log] == [1, 2, 3]
    assert [one["previous_event_hash"] for one in log] == [None, log[0]["event_hash"], log[1]["event_hash"]]
    assert [one["event_hash"] for one in log] == [event_hash(one) for one in log]
    verified = (await alice.get(f"{EVENTS}/verify")).json
    assert (verified["chain_valid"], verified["event_count"]) == (True, 3)


@pytest.mark.requirement("RFC21-6-TRACE", "RFC21-R-0020", "CHAN-TRACE-EVENT")
@with_server
async def test_the_trace_of_a_message_goes_to_its_copy(server: LiveServer) -> None:
    await audited_room(server)
    alice = await server.client("alice")
    metadata = {"trace_id": TRACE, "parent_event_id": "evt_before"}

    said = await send(alice, "traced", ROOM, metadata=metadata)
    await send(alice, "untraced", ROOM)

    traced, untraced = await copies(alice)
    assert (traced["trace_id"], traced["parent_event_id"]) == (TRACE, "evt_before")
    assert not {"trace_id", "parent_event_id"} & set(untraced)
    assert (await shown(alice, said))["metadata"] == metadata


@pytest.mark.requirement("RFC21-6-TRACE", "CHAN-TRACE-EVENT")
@pytest.mark.parametrize("trace", [TRACE.upper(), TRACE[:-1], "xyz", 7, None, {"id": TRACE}])
@with_server
async def test_what_is_no_trace_stays_in_the_metadata(server: LiveServer, trace: Any) -> None:  # noqa: ANN401  # any JSON
    await audited_room(server)
    alice = await server.client("alice")

    said = await send(alice, "odd", ROOM, metadata={"trace_id": trace})

    (copy,) = await copies(alice)
    assert "trace_id" not in copy
    assert said["metadata"] == {"trace_id": trace}


@pytest.mark.requirement("RFC21-SEC-5-TRAIL")
@with_server
async def test_the_trail_is_immutable_and_outlives_its_messages(server: LiveServer) -> None:
    await audited_room(server)
    alice = await server.client("alice")
    await send(alice, "for the record", ROOM, expires_at=later(server, seconds=5))
    (copy,) = await copies(alice)
    place = f"{EVENTS}/{copy['id']}"

    changed = [await alice.request(method, place, {"payload": {}}) for method in ("PATCH", "PUT", "DELETE")]
    forged = await alice.post(EVENTS, {"event_type": "channel_message", "payload": copy["payload"]})
    server.rig.clock.pass_by(days=30)
    await alice.delete("/channels/chan_audited")

    assert [one.status for one in changed] == [405] * 3
    assert forged.status == 422
    assert await copies(alice) == [copy]
    assert (await alice.get(place)).json == copy


@pytest.mark.requirement("RFC21-SEC-4-EXPIRATION")
@with_server
async def test_stale_messages_are_neither_delivered_nor_kept_for_ever(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    room = await created(alice, "room", options={"ttl_seconds": 60})
    path = messages_of(room["id"])
    await send(alice, "stale", path, expires_at=later(server, seconds=5))
    await send(alice, "fresh", path)

    server.rig.clock.pass_by(seconds=10)
    async with bob.events(f"/subscribe/channels/{room['id']}", last_event_id="0") as events:
        pushed = await events.next()
        silent = await events.silence()

    assert await heard(bob, path) == ["fresh"]
    assert (pushed.json["payload"], silent) == ({"text": "fresh"}, True)


@pytest.mark.requirement("RFC21-SEC-1-CREDENTIALS")
@with_server
async def test_no_answer_and_no_event_shows_a_key(server: LiveServer) -> None:
    await audited_room(server)
    alice, bob = await server.client("alice"), await server.client("bob")
    secrets = {client.headers["X-API-Key"] for client in (alice, bob)}

    async with bob.events("/subscribe/intents/intent_1") as events:
        said = await request(alice, "bob", path=ROOM)
        pushed = (await events.next()).data.encode()
    answers = [
        await reply(bob, said),
        await listed(alice, ROOM),
        (await alice.get(CHANNELS)).json,
        (await alice.get(EVENTS)).json,
        (await alice.post(ROOM, {"sender": "bob", "payload": {}})).json,
        (await alice.get("/channels/none")).json,
    ]

    seen = repr(answers).encode() + pushed
    assert said["id"].encode() in seen
    assert [secret for secret in secrets if secret.encode() in seen] == []


@pytest.mark.requirement("RFC21-SEC-6-DATA")
@pytest.mark.parametrize(
    "payload",
    [
        {"code": "__import__('os').system('true')", "!!python/object": "x", "$ref": "file:" + "///etc/passwd"},
        {"html": "<script>alert(1)</script>", "template": "{{7*7}} ${7*7} %s"},
        {"sql": "'; DROP TABLE post; --", "nul-free": "\u200b\u202e"},
        {"deep": {"a": [{"b": [[]]}]}, "": "", "number": 1e-7, "big": 2**53 - 1},
    ],
)
@with_server
async def test_a_payload_is_data_and_comes_back_as_it_was(server: LiveServer, payload: dict[str, object]) -> None:
    await audited_room(server)
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events("/subscribe/channels/chan_audited") as events:
        answer = await alice.post(ROOM, {"payload": payload})
        pushed = await events.next()

    assert answer.status == 201
    assert [one["payload"] for one in await listed(bob, ROOM)] == [payload]
    assert pushed.json["payload"] == payload
    assert [one["payload"]["payload"] for one in await copies(bob)] == [payload]
