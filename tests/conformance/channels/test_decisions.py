"""What Parley answers where RFC-0021 is open: decisions 1 to 11."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import KeyKind
from parley.domain.store.limits import TeamLimits
from parley.wire.proofs.event_log import event_hash
from tests.conformance.channels.talk import (
    CHANNELS,
    MESSAGES,
    channel,
    created,
    heard,
    listed,
    messages_of,
    read,
    reply,
    request,
    send,
    shown,
)
from tests.rigs.team import INTENT, Client, LiveServer, in_loop, live_server, open_rig, with_server

EVENTS = f"/intents/{INTENT}/events"


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-1-TOTAL", "CHAN-1-POSITION")
@with_server
async def test_parallel_senders_make_one_order_that_every_reader_sees(server: LiveServer) -> None:
    senders = [await server.client(f"agent-{number}") for number in range(8)]
    alice, bob = await server.client("alice"), await server.client("bob")

    async def talk(number: int) -> list[int]:
        return [(await send(senders[number], f"{number}.{turn}"))["seq"] for turn in range(5)]

    async with bob.events("/subscribe/channels/chan_1") as events:
        places = await asyncio.gather(*map(talk, range(8)))
        pushed = [(await events.next()).json for _ in range(40)]

    found = await listed(alice)
    assert [one["seq"] for one in found] == list(range(1, 41))
    assert [one["id"] for one in pushed] == [one["id"] for one in found]
    assert [one["id"] for one in await listed(bob)] == [one["id"] for one in found]
    assert all(own == sorted(own) for own in places)
    assert [one["created_at"] for one in found] == sorted(one["created_at"] for one in found)


@pytest.mark.requirement("CHAN-2-INTENT")
@with_server
async def test_with_access_one_sees_name_status_and_policy_of_intent_channels(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", label="hall")
    alice, carol = await server.client("alice"), await server.client("carol")
    await alice.patch("/channels/chan_2", {"status": "closed"})

    found = {one["name"]: (one["status"], one["member_policy"]) for one in (await carol.get(CHANNELS)).json}

    assert found == {"chan_1": ("open", "intent"), "hall": ("closed", "intent")}


@pytest.mark.requirement("CHAN-2-EXPLICIT")
@with_server
async def test_explicit_channels_are_known_to_members_creator_coordinator_and_admin_only(server: LiveServer) -> None:
    await server.rig.access(assignments=(server.rig.assignment("carol", "coordinator"), server.rig.assignment("dave")))
    await server.rig.channel("chan_2", "bob", label="closet", created_by="erin", policy=MemberPolicy.EXPLICIT)
    admin = await server.client("", KeyKind.ADMIN)
    agents = {name: await server.client(name) for name in ("alice", "bob", "carol", "dave", "erin")}

    async def knows(client: Client) -> bool:
        one = await client.get("/channels/chan_2")
        names = [item["name"] for item in (await client.get(CHANNELS)).json]
        assert (one.status == 200) == ("closet" in names)
        return "closet" in names

    # alice created the intent, not the channel; dave only works on the intent.
    assert {name: await knows(client) for name, client in agents.items()} == {
        "alice": False,
        "bob": True,
        "carol": True,
        "dave": False,
        "erin": True,
    }
    assert await knows(admin)
    # To know of it is not to hear what is said there.
    said = await send(agents["bob"], "among us", messages_of("chan_2"))
    assert (await agents["carol"].get(messages_of("chan_2"))).status == 403
    assert (await agents["carol"].get(f"{messages_of('chan_2')}/{said['id']}")).status == 403


@pytest.mark.requirement("CHAN-2-HIDDEN")
@with_server
async def test_what_may_not_be_known_answers_like_what_does_not_exist(server: LiveServer) -> None:
    await server.rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    await server.rig.intent("intent_2", "alice", policy=AccessPolicy.CLOSED)
    await server.rig.channel("chan_3", intent_id="intent_2")
    alice, eve = await server.client("alice"), await server.client("eve")
    said = await send(alice, path=messages_of("chan_3"))

    async def answers(channel_id: str, message_id: str) -> list[tuple[int, bytes]]:
        path = messages_of(channel_id)
        found = [
            await eve.get(f"/channels/{channel_id}"),
            await eve.patch(f"/channels/{channel_id}", {"status": "closed"}),
            await eve.delete(f"/channels/{channel_id}"),
            await eve.get(path),
            await eve.post(path, {"payload": {}}),
            await eve.get(f"{path}/{message_id}"),
            await eve.post(f"{path}/{message_id}/reply", {"payload": {}}),
            await eve.patch(f"{path}/{message_id}", {"status": "read"}),
        ]
        return [(one.status, one.body) for one in found]

    nowhere = await answers("chan_none", "msg_none")
    assert {status for status, _ in nowhere} == {404}
    assert await answers("chan_2", "msg_none") == nowhere
    assert await answers("chan_3", said["id"]) == nowhere


@pytest.mark.requirement("CHAN-3-ZERO")
@in_loop
async def test_without_a_retention_window_the_end_purges(tmp_path: Path) -> None:
    async with open_rig(tmp_path, limits=TeamLimits(retention_days=0)) as rig, live_server(rig) as server:
        await rig.intent()
        await rig.channel(options=Options(audit=True))
        alice = await server.client("alice")
        said = await send(alice)

        await alice.post(f"/intents/{INTENT}/status", {"status": "completed"}, {"If-Match": "1"})
        await sweep(rig.team)

        assert (await alice.get(f"{MESSAGES}/{said['id']}")).status == 404
        assert (await alice.get(CHANNELS)).json == []
        copies = (await alice.get(EVENTS, event_type="channel_message")).json
        assert [one["payload"]["message_id"] for one in copies] == [said["id"]]


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-3-DELETE")
@with_server
async def test_a_deleted_channel_is_purged_at_once(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(audit=True))
    alice = await server.client("alice")
    said = await send(alice, "gone soon", messages_of("chan_2"))

    await alice.delete("/channels/chan_2")

    assert (await alice.get(f"{messages_of('chan_2')}/{said['id']}")).status == 404
    assert (await alice.get("/messages/search", q="gone soon")).json == []
    assert await server.rig.store.post("default", said["id"]) is None
    copies = (await alice.get(EVENTS, event_type="channel_message")).json
    assert [one["payload"]["message_id"] for one in copies] == [said["id"]]


@pytest.mark.requirement("CHAN-4-JSON")
@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/octet-stream", b"\x00\x01", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("text/plain", b'{"payload": {}}', 415),
        ("application/json", b"\xff\xfe", 400),
        ("application/json", b"hello", 400),
        ("application/json", b"", 400),
        ("application/json; charset=utf-8", b'{"payload": {}}', 201),
    ],
)
@with_server
async def test_messages_are_json_and_nothing_else(
    server: LiveServer, content_type: str, body: bytes, status: int
) -> None:
    alice = await server.client("alice")

    answer = await alice.request("POST", MESSAGES, body, {"Content-Type": content_type})

    assert answer.status == status
    assert len(await listed(alice)) == (status == 201)


@pytest.mark.requirement("CHAN-5-PENDING", "CHAN-5-DELIVERED", "CHAN-5-LATER")
@with_server
async def test_a_message_to_a_role_waits_for_somebody_to_take_it(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    admin = await server.client("", KeyKind.ADMIN)
    waiting = await request(alice, "role:data")
    other = await send(alice, "in between")
    cursor = (await listed(bob))[-1]["id"]
    assert (waiting["status"], cursor) == ("pending", other["id"])

    async with bob.events("/subscribe/agents/bob") as events:
        granted = await admin.post("/roles/data/holders", {"agent_id": "bob"})
        pushed = (await events.next()).json

    assert granted.json["holders"] == ["bob"]
    # No cursor misses it: it comes after what was read already.
    after = await listed(bob, since=cursor)
    assert [(one["id"], one["status"]) for one in after] == [(waiting["id"], "delivered")]
    assert pushed["id"] == waiting["id"]
    assert (await shown(alice, waiting))["status"] == "delivered"
    assert (await reply(bob, waiting))["correlation_id"] == waiting["id"]
    assert (await channel(alice))["message_count"] == 3


@pytest.mark.requirement("CHAN-5-PENDING")
@with_server
async def test_a_role_whose_holders_are_not_here_is_a_role_nobody_holds(server: LiveServer) -> None:
    await server.rig.role("data", "bob")
    await server.rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    alice, bob = await server.client("alice"), await server.client("bob")

    waiting = await send(alice, "anyone?", messages_of("chan_2"), to="role:data")
    await alice.patch("/channels/chan_2", {"add_members": ["bob"]})

    assert waiting["status"] == "pending"
    assert await heard(bob, messages_of("chan_2")) == ["anyone?"]


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-5-NO-RESPONDERS", "CHAN-5-PENDING")
@pytest.mark.parametrize("to", ["nobdoy", "role:nobody"])
@with_server
async def test_an_ask_that_nobody_could_answer_is_refused_at_once_and_a_plain_request_waits(
    server: LiveServer, to: str
) -> None:
    alice, ask = await server.client("alice"), {"to": to, "payload": {}, "timeout": 3600}

    refused = await alice.post("/channels/chan_1/ask", ask)
    assert (refused.status, refused.code) == (404, "no_responders")
    required = {"to": to, "payload": {}, "message_type": "request"}
    refused = await alice.post("/channels/chan_1/messages?wait_for_responders=false", required)
    assert (refused.status, refused.code, refused.json["similar"]) == (404, "no_responders", [])
    assert await listed(alice) == []

    assert (await request(alice, to))["status"] == ("pending" if to.startswith("role:") else "delivered")
    waiting = await alice.post("/channels/chan_1/ask", {**ask, "timeout": 0.01, "wait_for_responders": True})
    assert (waiting.status, waiting.code) == (504, "ask_timeout")


@pytest.mark.requirement("CHAN-5-OWN")
@with_server
async def test_each_agent_sees_its_own_status(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    said = await send(alice, "all", message_type="broadcast")
    server.rig.clock.pass_by(seconds=3)

    await read(bob, said)

    mine = [(one["status"], one["read_at"]) for one in await listed(bob)]
    assert mine == [("read", server.rig.at())]
    for other in (carol, alice):
        assert [(one["status"], one["read_at"]) for one in await listed(other)] == [("delivered", None)]
        assert (await shown(other, said))["status"] == "delivered"


@pytest.mark.requirement("CHAN-7-TYPE")
@with_server
async def test_the_copy_of_a_message_is_called_channel_message_where_it_is_hashed(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(audit=True))
    alice = await server.client("alice")
    await send(alice, path=messages_of("chan_2"))

    (stored,) = await server.rig.store.events("default", INTENT)
    (event,) = (await alice.get(EVENTS)).json

    assert (stored.event_type, event["event_type"]) == ("channel_message", "channel_message")
    assert event_hash(event) == event["event_hash"] == stored.event_hash


@pytest.mark.requirement("CHAN-7-SDK")
@with_server
async def test_a_setting_spells_it_as_the_sdk_can_read_it(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(audit=True))
    alice = await server.client("alice")
    await send(alice, path=messages_of("chan_2"))
    (plain,) = (await alice.get(EVENTS)).json

    server.rig.team.sdk_event_names = True

    (spelled,) = (await alice.get(EVENTS)).json
    assert spelled == {**plain, "event_type": "channel.message"}
    assert (await alice.get(EVENTS, event_type="channel.message")).json == [spelled]
    assert event_hash({**spelled, "event_type": "channel_message"}) == spelled["event_hash"]
    assert (await alice.get(f"{EVENTS}/verify")).json["chain_valid"] is True


@pytest.mark.requirement("CHAN-8-ROUTE", "CHAN-8-PARALLEL")
@with_server
async def test_sixteen_first_messages_make_one_channel_with_sixteen_messages(server: LiveServer) -> None:
    agents = [await server.client(f"agent-{number}") for number in range(16)]
    path = f"/api/v1/intents/{INTENT}/channels/progress/messages"

    said = await asyncio.gather(*(send(one, f"from {number}", path) for number, one in enumerate(agents)))

    (place,) = {one["channel_id"] for one in said}
    found = [one for one in (await agents[0].get(CHANNELS)).json if one["name"] == "progress"]
    assert [(one["id"], one["message_count"]) for one in found] == [(place, 16)]
    assert sorted(await heard(agents[0], messages_of(place))) == sorted(f"from {number}" for number in range(16))


@pytest.mark.requirement("CHAN-8-UNKNOWN")
@with_server
async def test_an_unknown_channel_id_makes_no_channel(server: LiveServer) -> None:
    alice = await server.client("alice")

    answer = await alice.post(messages_of("progress"), {"payload": {}})

    assert answer.status == 404
    assert [one["name"] for one in (await alice.get(CHANNELS)).json] == ["chan_1"]


@pytest.mark.requirement("CHAN-9-TAKEN", "CHAN-9-CLOSED", "CHAN-9-DELETED")
@with_server
async def test_a_name_is_taken_until_its_channel_is_deleted(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    first = await created(alice, "hall")

    open_one = await bob.post(CHANNELS, {"name": "hall"})
    await alice.patch(f"/channels/{first['id']}", {"status": "closed"})
    closed_one = await bob.post(CHANNELS, {"name": "hall"})
    await alice.delete(f"/channels/{first['id']}")
    freed = await bob.post(CHANNELS, {"name": "hall"})

    for refused in (open_one, closed_one):
        assert (refused.status, refused.code, refused.json["channel_id"]) == (409, "name_taken", first["id"])
    assert freed.status == 201
    assert freed.json["id"] != first["id"]


@pytest.mark.requirement("CHAN-10-CREATOR")
@with_server
async def test_the_creator_is_always_a_member(server: LiveServer) -> None:
    bob = await server.client("bob")
    room = await created(bob, "room", members=["carol"], member_policy="explicit")
    place = f"/channels/{room['id']}"

    removed = await bob.patch(place, {"remove_members": ["bob"]})
    replaced = await bob.patch(place, {"members": ["dave"]})

    assert sorted(room["members"]) == ["bob", "carol"]
    assert (sorted(removed.json["members"]), sorted(replaced.json["members"])) == (["bob", "carol"], ["bob", "dave"])


@pytest.mark.requirement("CHAN-10-ALONE")
@with_server
async def test_an_explicit_channel_without_members_is_its_creators_alone(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    room = await created(bob, "diary", member_policy="explicit")
    await send(bob, "dear diary", messages_of(room["id"]))

    assert room["members"] == ["bob"]
    assert (await alice.get(messages_of(room["id"]))).status == 404


@pytest.mark.requirement("CHAN-10-MANAGE", "CHAN-10-CLOSE")
@pytest.mark.parametrize(
    ("who", "may"), [("erin", True), ("carol", True), ("admin", True), ("bob", False), ("dave", False)]
)
@with_server
async def test_creator_coordinator_and_admin_manage_and_close(server: LiveServer, who: str, may: bool) -> None:
    assigned = (server.rig.assignment("carol", "coordinator"), server.rig.assignment("dave"))
    await server.rig.access(assignments=assigned)
    await server.rig.channel("chan_2", "bob", created_by="erin")
    client = await (server.client("", KeyKind.ADMIN) if who == "admin" else server.client(who))

    added = await client.patch("/channels/chan_2", {"add_members": ["frank"]})
    shut = await client.patch("/channels/chan_2", {"status": "closed"})
    deleted = await client.delete("/channels/chan_2")

    expected = [200] * 3 if may else [403] * 3
    assert [one.status for one in (added, shut, deleted)] == expected


@pytest.mark.requirement("CHAN-11-REQUEST-TO")
@pytest.mark.parametrize("to", [{}, {"to": None}, {"to": "*"}, {"to": ""}])
@with_server
async def test_a_request_to_nobody_or_to_everybody_is_refused(server: LiveServer, to: dict[str, object]) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"message_type": "request", "payload": {}, **to})

    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "to")


@pytest.mark.requirement("CHAN-11-REQUEST-ROLE")
@with_server
async def test_a_request_may_go_to_a_role(server: LiveServer) -> None:
    await server.rig.role("data", "bob")
    alice, bob = await server.client("alice"), await server.client("bob")

    asked = await request(alice, "role:data")

    assert (asked["to"], asked["status"]) == ("role:data", "delivered")
    assert (await reply(bob, asked))["to"] == "alice"


@pytest.mark.requirement("CHAN-11-BROADCAST-TO")
@pytest.mark.parametrize("to", ["bob", "role:data"])
@with_server
async def test_a_broadcast_to_somebody_is_refused(server: LiveServer, to: str) -> None:
    alice = await server.client("alice")

    answer = await alice.post(MESSAGES, {"message_type": "broadcast", "payload": {}, "to": to})

    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "to")


@pytest.mark.requirement("CHAN-11-REPLY-REQUEST")
@pytest.mark.parametrize("kind", ["notify", "broadcast", "response"])
@with_server
async def test_only_a_request_is_replied_to(server: LiveServer, kind: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    if kind == "response":
        said = await reply(alice, await request(bob, "alice"))
    else:
        said = await send(alice, message_type=kind)

    answer = await bob.post(f"{MESSAGES}/{said['id']}/reply", {"payload": {}})

    assert (answer.status, answer.code) == (409, "not_a_request")


@pytest.mark.requirement("CHAN-11-REPLY-ADDRESSEE")
@pytest.mark.parametrize("to", ["bob", "role:data"])
@with_server
async def test_who_was_not_asked_does_not_reply(server: LiveServer, to: str) -> None:
    await server.rig.role("data", "bob")
    alice, carol = await server.client("alice"), await server.client("carol")
    asked = await request(alice, to)

    replied = await carol.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {}})
    body = {"message_type": "response", "correlation_id": asked["id"], "payload": {}}
    posted = await carol.post(MESSAGES, body)
    herself = await alice.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {}})

    assert [(one.status, one.code) for one in (replied, posted, herself)] == [(403, "not_addressee")] * 3
    assert [one["id"] for one in await listed(alice)] == [asked["id"]]


@pytest.mark.requirement("CHAN-11-RESPONSE-HERE")
@with_server
async def test_a_response_by_post_answers_a_request_of_this_channel(server: LiveServer) -> None:
    await server.rig.channel("chan_2")
    alice, bob = await server.client("alice"), await server.client("bob")
    here, there = await request(alice, "bob"), await request(alice, "bob", path=messages_of("chan_2"))
    body = {"message_type": "response", "payload": {}}

    right = await bob.post(MESSAGES, {**body, "correlation_id": here["id"]})
    wrong = await bob.post(MESSAGES, {**body, "correlation_id": there["id"]})

    assert (right.status, right.json["correlation_id"]) == (201, here["id"])
    assert (wrong.status, wrong.code) == (422, "bad_correlation")
