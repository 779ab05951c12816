"""RFC-0021, section 7: what the end of an intent, of an agent and of a task means for channels."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.directory.callers import KeyKind
from parley.domain.directory.intent import Task
from tests.conformance.channels.talk import (
    CHANNELS,
    MESSAGES,
    Document,
    a_task,
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
from tests.rigs.team import INTENT, Client, LiveServer, with_server

pytestmark = pytest.mark.both_stores


async def resolve(client: Client, status: str = "completed", intent_id: str = INTENT) -> None:
    version = (await client.get(f"/intents/{intent_id}")).json["version"]
    answer = await client.post(f"/intents/{intent_id}/status", {"status": status}, {"If-Match": str(version)})
    assert (answer.status, answer.json["status"]) == (200, status), answer


async def leave(client: Client, agent: str) -> None:
    answer = await client.patch(f"/agents/{agent}/status", {"status": "deregistered"})
    assert (answer.status, answer.json["status"]) == (200, "deregistered"), answer


async def finish(client: Client, task: Task, status: str = "completed") -> None:
    answer = await client.patch(f"/tasks/{task.id}", {"status": status}, {"If-Match": str(task.version)})
    assert (answer.status, answer.json["status"]) == (200, status), answer


def departures(found: list[Document]) -> list[Document]:
    return [one for one in found if one["sender"] == "system"]


# ---------------------------------------------------------------- 7.1 the intent


@pytest.mark.requirement("RFC21-7.1-COMPLETED", "RFC21-7.1-ABANDONED", "RFC21-1.3-INTENT", "RFC21-R-0001")
@pytest.mark.parametrize("status", ["completed", "abandoned"])
@with_server
async def test_the_end_of_an_intent_closes_all_its_channels(server: LiveServer, status: str) -> None:
    await server.rig.channel("chan_2", policy=MemberPolicy.EXPLICIT)
    await server.rig.intent("intent_2")
    await server.rig.channel("chan_3", intent_id="intent_2")
    alice = await server.client("alice")
    server.rig.clock.pass_by(minutes=1)

    await resolve(alice, status)

    for one in ("chan_1", "chan_2"):
        found = await channel(alice, one)
        assert (found["status"], found["closed_at"]) == ("closed", server.rig.at())
        refused = await alice.post(messages_of(one), {"payload": {}})
        assert (refused.status, refused.code) == (409, "channel_closed")
    assert (await channel(alice, "chan_3"))["status"] == "open"


@pytest.mark.requirement("RFC21-7.1-COMPLETED")
@pytest.mark.parametrize("status", ["blocked"])
@with_server
async def test_an_intent_that_goes_on_keeps_its_channels(server: LiveServer, status: str) -> None:
    alice = await server.client("alice")

    await resolve(alice, status)

    assert (await channel(alice))["status"] == "open"
    await send(alice, "still working")


@pytest.mark.requirement("RFC21-7.1-COMPLETED")
@with_server
async def test_a_resolved_intent_takes_no_new_channel(server: LiveServer) -> None:
    alice = await server.client("alice")
    await resolve(alice)

    made = await alice.post(CHANNELS, {"name": "late"})
    by_name = await alice.post(f"{CHANNELS}/late/messages", {"payload": {}})

    assert (made.status, by_name.status) == (409, 409)
    assert [one["name"] for one in (await alice.get(CHANNELS)).json] == ["chan_1"]


@pytest.mark.requirement("RFC21-7.1-EXPIRED", "CHAN-6-REQUESTS", "CHAN-6-PENDING", "CHAN-6-NOTIFIES")
@pytest.mark.parametrize("end", ["resolve", "close"])
@with_server
async def test_what_was_left_open_expires_and_what_was_delivered_stays(server: LiveServer, end: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    unanswered = await request(alice, "bob", "anyone?")
    answered = await request(alice, "bob", "and this?")
    answer = await reply(bob, answered)
    pending = await send(alice, "who can?", to="role:nobody")
    notify = await send(alice, "news", to="bob")
    seen = await send(alice, "seen", to="bob")
    await read(bob, seen)

    if end == "resolve":
        await resolve(alice)
    else:
        await alice.patch("/channels/chan_1", {"status": "closed"})

    stands = {
        name: (await shown(alice, one))["status"]
        for name, one in {
            "unanswered": unanswered,
            "answered": answered,
            "answer": answer,
            "pending": pending,
            "notify": notify,
            "seen": seen,
        }.items()
    }
    assert stands == {
        "unanswered": "expired",
        "answered": "delivered",
        "answer": "delivered",
        "pending": "expired",
        "notify": "delivered",
        "seen": "read",
    }
    late = await bob.post(f"{MESSAGES}/{unanswered['id']}/reply", {"payload": {}})
    assert late.status == 409


@pytest.mark.requirement("RFC21-7.1-EXPIRED")
@with_server
async def test_what_was_pending_is_not_delivered_after_the_end(server: LiveServer) -> None:
    alice, bob, admin = [await server.client(name) for name in ("alice", "bob")] + [
        await server.client("", KeyKind.ADMIN)
    ]
    pending = await send(alice, "who can?", to="role:data")
    await resolve(alice)

    granted = await admin.post("/roles/data/holders", {"agent_id": "bob"})

    assert granted.status == 200
    assert (await shown(alice, pending))["status"] == "expired"
    assert await listed(bob) == []


@pytest.mark.requirement("RFC21-0-EPHEMERAL", "CHAN-3-READABLE", "CHAN-3-PURGED")
@with_server
async def test_messages_are_readable_for_a_week_after_the_end_and_then_cleaned_up(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(audit=True))
    alice = await server.client("alice")
    said = [await send(alice, one, messages_of(one)) for one in ("chan_1", "chan_2")]
    await resolve(alice)

    server.rig.clock.pass_by(days=6, hours=23)
    await sweep(server.rig.team)
    assert await heard(alice) == ["chan_1"]
    server.rig.clock.pass_by(hours=1)
    await sweep(server.rig.team)

    assert [(await alice.get(f"{messages_of(one['channel_id'])}/{one['id']}")).status for one in said] == [404] * 2
    assert (await alice.get(CHANNELS)).json == []
    copies = (await alice.get(f"/intents/{INTENT}/events", event_type="channel_message")).json
    assert [one["payload"]["message_id"] for one in copies] == [said[1]["id"]]


@pytest.mark.requirement("RFC21-1.3-TTL", "CHAN-6-REQUESTS", "CHAN-6-PENDING")
@with_server
async def test_what_was_left_open_expires_with_the_channels_time(server: LiveServer) -> None:
    alice = await server.client("alice")
    room = await created(alice, "room", options={"ttl_seconds": 60})
    asked = await request(alice, "bob", path=messages_of(room["id"]))
    pending = await send(alice, "who can?", messages_of(room["id"]), to="role:nobody")
    notify = await send(alice, "news", messages_of(room["id"]), to="bob")

    server.rig.clock.pass_by(minutes=5)
    await sweep(server.rig.team)

    assert [(await shown(alice, one))["status"] for one in (asked, pending, notify)] == [
        "expired",
        "expired",
        "delivered",
    ]


@pytest.mark.requirement("RFC21-3.1-NO-RESPONSE", "RFC21-7.1-EXPIRED")
@pytest.mark.parametrize("end", ["resolve", "close", "delete", "leave"])
@with_server
async def test_who_waits_for_an_answer_that_cannot_come_is_told_at_once(server: LiveServer, end: str) -> None:
    await server.rig.agent("bob")
    alice, bob = await server.client("alice"), await server.client("bob")
    other = await server.client("alice")

    async with bob.events("/subscribe/agents/bob") as events:
        body = {"to": "bob", "payload": {}, "timeout": 25}
        asking = asyncio.create_task(alice.post("/channels/chan_1/ask", body))
        await events.next()
        if end == "resolve":
            await resolve(other)
        elif end == "close":
            await other.patch("/channels/chan_1", {"status": "closed"})
        elif end == "delete":
            await other.delete("/channels/chan_1")
        else:
            await leave(bob, "bob")
        async with asyncio.timeout(20):
            answer = await asking

    assert (answer.status, answer.code) == (409, "message_expired")


# ---------------------------------------------------------------- 7.2 the agent


@pytest.mark.requirement("RFC21-7.2-REMOVED", "CHAN-17-MEMBERS", "RFC21-R-0016-DEPARTURE")
@with_server
async def test_who_deregisters_is_on_no_member_list_any_more(server: LiveServer) -> None:
    await server.rig.intent("intent_2")
    await server.rig.channel("chan_2", "bob", "carol", policy=MemberPolicy.EXPLICIT)
    await server.rig.channel("chan_3", "bob", intent_id="intent_2")
    await server.rig.agent("bob")
    alice, bob = await server.client("alice"), await server.client("bob")

    await leave(bob, "bob")

    found = [sorted((await channel(alice, one))["members"]) for one in ("chan_1", "chan_2", "chan_3")]
    assert found == [["alice"], ["alice", "carol"], ["alice"]]
    assert (await bob.post(messages_of("chan_2"), {"payload": {}})).status == 404
    assert (await bob.post(messages_of("chan_3"), {"payload": {}})).code == "agent_departed"


@pytest.mark.requirement("RFC21-7.2-EXPIRED", "CHAN-17-REQUESTS")
@with_server
async def test_requests_to_who_left_expire_and_others_do_not(server: LiveServer) -> None:
    await server.rig.role("data", "bob", "carol")
    await server.rig.agent("bob")
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    unanswered = await request(alice, "bob")
    answered = await request(alice, "bob")
    await reply(bob, answered)
    to_carol = await request(alice, "carol")
    to_role = await request(alice, "role:data")
    notify = await send(alice, "news", to="bob")

    await leave(bob, "bob")

    found = [(await shown(alice, one))["status"] for one in (unanswered, answered, to_carol, to_role, notify)]
    assert found == ["expired", "delivered", "delivered", "delivered", "delivered"]
    # The role has another holder, who still answers.
    assert (await reply(carol, to_role))["to"] == "alice"
    refused = await alice.post(MESSAGES, {"message_type": "request", "to": "bob", "payload": {}})
    assert (refused.status, refused.code) == (409, "agent_departed")


@pytest.mark.requirement("RFC21-7.2-NOTIFY", "CHAN-17-NOTIFY")
@with_server
async def test_each_channel_is_told_once_that_somebody_left(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", "carol", policy=MemberPolicy.EXPLICIT)
    await server.rig.channel("chan_3", policy=MemberPolicy.EXPLICIT)
    await server.rig.agent("bob")
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    await send(bob, "I was here")

    async with carol.events("/subscribe/channels/chan_2") as events:
        await leave(bob, "bob")
        await leave(await server.client("", KeyKind.SERVICE), "bob")
        pushed = (await events.next()).json
        silent = await events.silence()

    (notice,) = departures(await listed(carol, messages_of("chan_2")))
    assert (notice["message_type"], notice["to"], notice["sender"]) == ("notify", "*", "system")
    assert notice["payload"] == {"event": "agent_departed", "agent_id": "bob"}
    assert (pushed["id"], silent) == (notice["id"], True)
    assert len(departures(await listed(alice))) == 1
    assert departures(await listed(alice, messages_of("chan_3"))) == []


@pytest.mark.requirement("CHAN-2-EXPLICIT", "CHAN-10-MANAGE", "RFC21-7.2-REMOVED")
@with_server
async def test_a_creator_that_left_and_came_back_knows_its_channel_and_joins_it_again(server: LiveServer) -> None:
    await server.rig.agent("bob")
    bob, carol = await server.client("bob"), await server.client("carol")
    room = await created(bob, "room", members=["carol"], member_policy="explicit")
    await leave(bob, "bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    await send(carol, "while bob was away", messages_of(room["id"]))

    back = await channel(bob, room["id"])
    unheard = await bob.get(messages_of(room["id"]))
    joined = await bob.patch(f"/channels/{room['id']}", {"add_members": ["bob"]})
    await send(carol, "welcome back", messages_of(room["id"]))

    assert (back["members"], unheard.status, unheard.code) == (["carol"], 403, "not_member")
    assert (joined.status, sorted(joined.json["members"])) == (200, ["bob", "carol"])
    assert await heard(bob, messages_of(room["id"])) == ["welcome back"]


@pytest.mark.requirement("CHAN-REG-AWAY")
@with_server
async def test_who_only_falls_silent_does_not_leave(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    await server.rig.agent("bob")
    alice, bob = await server.client("alice"), await server.client("bob")
    assert (await bob.post("/agents/bob/heartbeat")).status == 200
    asked = await request(alice, "bob", path=messages_of("chan_2"))

    server.rig.clock.pass_by(hours=8)
    await sweep(server.rig.team)

    assert (await channel(alice, "chan_2"))["members"] == ["alice", "bob"]
    assert (await shown(alice, asked))["status"] == "delivered"
    assert departures(await listed(alice, messages_of("chan_2"))) == []


@pytest.mark.requirement("RFC21-6-EVERY", "RFC21-7.2-NOTIFY")
@with_server
async def test_an_audited_channel_logs_that_somebody_left(server: LiveServer) -> None:
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT, options=Options(audit=True))
    await server.rig.agent("bob")
    alice, bob = await server.client("alice"), await server.client("bob")

    await leave(bob, "bob")

    (notice,) = departures(await listed(alice, messages_of("chan_2")))
    (copy,) = (await alice.get(f"/intents/{INTENT}/events", event_type="channel_message")).json
    assert (copy["actor"], copy["payload"]["message_id"]) == ("system", notice["id"])
    assert copy["payload"]["payload"] == {"event": "agent_departed", "agent_id": "bob"}


# ---------------------------------------------------------------- 7.3 the task


@pytest.mark.requirement("RFC21-7.3-CLOSES", "RFC21-7.3-OTHERS", "RFC21-R-0012", "CHAN-TASK-OVER")
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped"])
@with_server
async def test_the_end_of_a_task_closes_its_channels_and_no_others(server: LiveServer, status: str) -> None:
    task, _ = await a_task(server, "task_1"), await a_task(server, "task_2")
    alice, bob = await server.client("alice"), await server.client("bob")
    mine = await created(alice, "mine", task_id="task_1")
    others = await created(alice, "others", task_id="task_2")
    asked = await request(alice, "bob", path=messages_of(mine["id"]))

    await finish(alice, task, status)

    found = [(await channel(alice, one))["status"] for one in (mine["id"], others["id"], "chan_1")]
    assert found == ["closed", "open", "open"]
    assert (await shown(bob, asked))["status"] == "expired"
    late = await alice.post(CHANNELS, {"name": "late", "task_id": "task_1"})
    assert late.status == 409


@pytest.mark.requirement("RFC21-7.3-CLOSES")
@pytest.mark.parametrize("status", ["blocked"])
@with_server
async def test_a_task_that_goes_on_keeps_its_channels(server: LiveServer, status: str) -> None:
    task = await a_task(server)
    alice = await server.client("alice")
    mine = await created(alice, "mine", task_id="task_1")

    await finish(alice, task, status)

    assert (await channel(alice, mine["id"]))["status"] == "open"
