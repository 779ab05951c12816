"""RFC-0021, sections 2.4 and 2.5: how a message is delivered, and which states it goes through."""

from __future__ import annotations

import pytest

from parley.domain.directory.callers import KeyKind
from tests.conformance.channels.talk import (
    MESSAGE_FIELDS,
    MESSAGES,
    heard,
    later,
    listed,
    messages_of,
    read,
    request,
    send,
    shown,
)
from tests.rigs.team import LiveServer, with_server

pytestmark = pytest.mark.both_stores


@pytest.mark.requirement("RFC21-2.4-PERSISTED")
@with_server
async def test_what_was_accepted_is_there_after_a_restart(server: LiveServer) -> None:
    alice = await server.client("alice")
    said = [await send(alice, text) for text in ("one", "two")]

    await server.restart()

    bob = await server.client("bob")
    assert await listed(bob) == said
    assert await shown(bob, said[0]) == said[0]


@pytest.mark.requirement("RFC21-0-ASYNC")
@with_server
async def test_a_message_waits_for_a_target_that_is_not_there(server: LiveServer) -> None:
    alice = await server.client("alice")

    said = await send(alice, "when you are back", to="bob")
    server.rig.clock.pass_by(days=3)
    bob = await server.client("bob")

    assert said["status"] == "delivered"
    assert await heard(bob) == ["when you are back"]


@pytest.mark.requirement("RFC21-2.4-PULL", "RFC21-2.4-CURSOR-ID")
@with_server
async def test_polling_after_a_message_gives_what_came_after_it(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = [await send(alice, text) for text in ("one", "two", "three")]

    assert await heard(bob, since=said[0]["id"]) == ["two", "three"]
    assert await heard(bob, since=said[2]["id"]) == []
    await send(alice, "four")
    assert await heard(bob, since=said[2]["id"]) == ["four"]


@pytest.mark.requirement("RFC21-2.4-CURSOR-TIME")
@pytest.mark.parametrize("spelled", ["{}", "zulu"])
@with_server
async def test_polling_after_a_moment_gives_what_came_after_it(server: LiveServer, spelled: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    for text in ("one", "two", "three"):
        server.rig.clock.pass_by(seconds=1)
        await send(alice, text)
    moment = (await listed(bob))[1]["created_at"]

    since = moment.replace("+00:00", "Z") if spelled == "zulu" else moment

    assert await heard(bob, since=since) == ["three"]
    assert await heard(bob, since="2020-01-01T00:00:00Z") == ["one", "two", "three"]


@pytest.mark.requirement("RFC21-2.4-SSE", "RFC21-R-0006")
@pytest.mark.parametrize("path", ["/intents/intent_1/subscribe", "/subscribe/intents/intent_1"])
@with_server
async def test_who_follows_the_intent_hears_the_messages_of_its_channels(server: LiveServer, path: str) -> None:
    await server.rig.channel("chan_2")
    await server.rig.intent("intent_2")
    await server.rig.channel("chan_3", intent_id="intent_2")
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events(path) as events:
        await send(alice, "elsewhere", messages_of("chan_3"))
        for place in ("chan_1", "chan_2"):
            await send(alice, place, messages_of(place))
        heard_of = [await events.next(), await events.next()]

    assert {one.event.lower() for one in heard_of} == {"channel_message"}
    assert [one.json["channel_id"] for one in heard_of] == ["chan_1", "chan_2"]


@pytest.mark.requirement("RFC21-2.4-SSE-FULL")
@with_server
async def test_a_pushed_message_is_the_whole_message(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events("/subscribe/intents/intent_1") as events:
        said = await request(alice, "bob", metadata={"trace": 1}, expires_at=later(server, minutes=5))
        pushed = (await events.next()).json

    assert set(pushed) >= MESSAGE_FIELDS
    assert {name: pushed[name] for name in said} == said
    assert pushed["intent_id"] == "intent_1"


@pytest.mark.requirement("RFC21-2.4-SSE-FULL")
@with_server
async def test_no_text_breaks_out_of_its_event(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    text = "a\n\nevent: forged\ndata: {}\r\r\u2028\u2029\u0085 z"

    async with bob.events("/subscribe/channels/chan_1") as events:
        await send(alice, text)
        await send(alice, "next")
        first, second = await events.next(), await events.next()

    assert first.json["payload"] == {"text": text}
    # Clients split lines at these as well.
    assert not {"\u2028", "\u2029", "\u0085", "\r"} & set(first.data)
    assert second.json["payload"] == {"text": "next"}


@pytest.mark.requirement("RFC21-2.5-PENDING-DELIVERED")
@with_server
async def test_a_persisted_message_with_a_recipient_is_delivered(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    said = await send(alice, to="bob")

    assert said["status"] == "delivered"
    assert [one["status"] for one in await listed(bob)] == ["delivered"]


@pytest.mark.requirement("RFC21-2.5-PENDING-EXPIRED")
@with_server
async def test_what_nobody_could_get_in_time_is_expired(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="role:data", expires_at=later(server, seconds=5))

    server.rig.clock.pass_by(seconds=5)
    await server.rig.role("data", "bob")

    assert said["status"] == "pending"
    assert (await shown(alice, said))["status"] == "expired"
    assert await listed(bob) == []


@pytest.mark.requirement("RFC21-2.5-DELIVERED-READ")
@with_server
async def test_a_message_is_read_when_its_target_says_so_and_not_by_being_listed(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob")

    listing = [one["status"] for one in await listed(bob)]
    acknowledged = await read(bob, said)

    assert listing == ["delivered"]
    assert (acknowledged.status, acknowledged.json["status"]) == (200, "read")
    assert [one["status"] for one in await listed(bob)] == ["read"]


@pytest.mark.requirement("RFC21-2.5-DELIVERED-READ")
@pytest.mark.parametrize(("reader", "status"), [("alice", 403), ("carol", 404)])
@with_server
async def test_nobody_but_the_target_reads_it(server: LiveServer, reader: str, status: int) -> None:
    alice, other = await server.client("alice"), await server.client(reader)
    said = await send(alice, to="bob")

    answer = await read(other, said)

    assert answer.status == status
    assert (await shown(alice, said))["status"] == "delivered"


@pytest.mark.requirement("RFC21-2.5-DELIVERED-READ")
@pytest.mark.parametrize("kind", [KeyKind.SERVICE, KeyKind.ADMIN])
@with_server
async def test_a_key_of_the_tenant_reads_it_for_the_target_but_not_in_the_name_of_the_sender(
    server: LiveServer, kind: KeyKind
) -> None:
    alice, tenant = await server.client("alice"), await server.client("", kind)
    said = await send(alice, to="bob")
    path = f"/channels/{said['channel_id']}/messages/{said['id']}"

    answer = await tenant.request("PATCH", path, {"status": "read"}, {"X-Agent-ID": "alice"})

    assert (answer.status, answer.code) == (403, "not_addressee")
    assert (await shown(alice, said))["status"] == "delivered"
    assert (await tenant.request("PATCH", path, {"status": "read"})).status == 200
    assert (await shown(alice, said))["status"] == "read"


@pytest.mark.requirement("RFC21-2.5-DELIVERED-EXPIRED")
@with_server
async def test_what_was_delivered_and_not_read_expires(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob", expires_at=later(server, seconds=5))
    assert (await shown(bob, said))["status"] == "delivered"

    server.rig.clock.pass_by(seconds=5)

    assert [(await shown(one, said))["status"] for one in (alice, bob)] == ["expired"] * 2


@pytest.mark.requirement("RFC21-2.5-NO-OTHER")
@with_server
async def test_what_is_expired_is_never_read(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob", expires_at=later(server, seconds=5))
    server.rig.clock.pass_by(seconds=5)

    answer = await read(bob, said)

    assert (answer.status, answer.code) == (409, "message_expired")
    now = await shown(bob, said)
    assert (now["status"], now["read_at"]) == ("expired", None)


@pytest.mark.requirement("RFC21-2.5-NO-OTHER")
@with_server
async def test_what_was_read_stays_read(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob", expires_at=later(server, seconds=5))
    await read(bob, said)
    read_at = server.rig.at()

    server.rig.clock.pass_by(seconds=50)

    now = await shown(bob, said)
    assert (now["status"], now["read_at"]) == ("read", read_at)


@pytest.mark.requirement("RFC21-2.5-NO-OTHER")
@pytest.mark.parametrize("status", ["delivered", "pending", "expired", "unread", None])
@with_server
async def test_no_other_status_can_be_set(server: LiveServer, status: object) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    said = await send(alice, to="bob")

    answer = await bob.patch(f"{MESSAGES}/{said['id']}", {"status": status})

    assert answer.status == 422
    assert (await shown(bob, said))["status"] == "delivered"


@pytest.mark.requirement("RFC21-2.5-NO-OTHER")
@pytest.mark.parametrize(
    "change", [{"payload": {}}, {"sender": "bob"}, {"expires_at": "2030-01-01T00:00:00Z"}, {"to": "*"}, {"seq": 9}]
)
@with_server
async def test_a_message_never_changes(server: LiveServer, change: dict[str, object]) -> None:
    alice = await server.client("alice")
    said = await send(alice, to="bob")

    answer = await alice.patch(f"{MESSAGES}/{said['id']}", change)

    assert (answer.status, answer.code) == (422, "immutable_field")
    assert await shown(alice, said) == said
