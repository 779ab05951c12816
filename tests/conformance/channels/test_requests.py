"""RFC-0021, section 3: a request, its responses, and what happens when none comes."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.channels.talk import MESSAGES, channel, later, listed, reply, request, send, shown
from tests.rigs.team import LiveServer, with_server

pytestmark = pytest.mark.both_stores

ASK = "/channels/chan_1/ask"


@pytest.mark.requirement("RFC21-3-1-SENT", "RFC21-3-2-DELIVERED", "RFC21-3-3-RECEIVED")
@with_server
async def test_a_request_is_delivered_to_its_target_by_pull_and_push(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events("/subscribe/agents/bob") as events:
        asked = await request(alice, "bob")
        pushed = (await events.next()).json

    (pulled,) = await listed(bob)
    assert asked["status"] == "delivered"
    assert pulled == asked
    assert (pushed["id"], pushed["status"], pushed["message_type"]) == (asked["id"], "delivered", "request")


@pytest.mark.requirement("RFC21-3-4-RESPONSE", "RFC21-3-5-MATCHED")
@with_server
async def test_the_response_comes_back_to_who_asked_by_pull_and_push(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    other = await request(alice, "bob", "another question")
    asked = await request(alice, "bob")

    async with alice.events("/subscribe/agents/alice") as events:
        answer = await reply(bob, asked, "v2.3")
        pushed = (await events.next()).json

    pulled = [one for one in await listed(alice) if one["correlation_id"] == asked["id"]]
    assert pulled == [answer]
    assert (pushed["correlation_id"], pushed["payload"]) == (asked["id"], {"text": "v2.3"})
    assert [one for one in await listed(alice) if one["correlation_id"] == other["id"]] == []


@pytest.mark.requirement("RFC21-3-4-RESPONSE")
@with_server
async def test_a_response_by_post_is_the_same_as_a_reply(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")

    posted = await send(bob, "v2.3", message_type="response", correlation_id=asked["id"])
    replied = await reply(bob, asked, "v2.3")

    differ = {name for name in posted if posted[name] != replied[name]}
    assert differ == {"id", "seq"}


@pytest.mark.requirement("RFC21-3.1-OPTIONAL")
@with_server
async def test_a_request_without_an_end_waits_for_ever(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob")

    server.rig.clock.pass_by(days=300)
    answer = await reply(bob, asked)

    assert asked["expires_at"] is None
    assert answer["correlation_id"] == asked["id"]


@pytest.mark.requirement("RFC21-3.1-EXPIRED")
@with_server
async def test_an_unanswered_request_expires(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, "bob", expires_at=later(server, seconds=30))

    server.rig.clock.pass_by(seconds=30)

    assert [(await shown(one, asked))["status"] for one in (alice, bob)] == ["expired"] * 2


@pytest.mark.requirement("RFC21-3.1-NO-RESPONSE")
@with_server
async def test_who_asks_in_vain_is_told_that_time_is_over(server: LiveServer) -> None:
    alice = await server.client("alice")

    answer = await alice.post(ASK, {"to": "bob", "payload": {}, "timeout": 0.05, "wait_for_responders": True})

    assert (answer.status, answer.code) == (504, "ask_timeout")
    (asked,) = await listed(alice)
    assert answer.json["request_id"] == asked["id"]
    assert [one["message_type"] for one in await listed(alice)] == ["request"]


@pytest.mark.requirement("RFC21-3.1-NO-RETRY")
@with_server
async def test_nothing_is_asked_again_by_itself(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events("/subscribe/agents/bob") as events:
        await alice.post(ASK, {"to": "bob", "payload": {}, "timeout": 0.05})
        await events.next()
        server.rig.clock.pass_by(hours=1)
        silent = await events.silence()

    assert silent
    assert (await channel(alice))["message_count"] == 1


@pytest.mark.requirement("RFC21-3.2-SEVERAL", "RFC21-3.2-SHARED")
@with_server
async def test_everyone_who_was_asked_by_role_may_answer(server: LiveServer) -> None:
    await server.rig.role("data", "bob", "carol")
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    asked = await request(alice, "role:data")

    await reply(bob, asked, "from bob")
    await reply(carol, asked, "from carol")
    await reply(carol, asked, "and once more")

    answers = [one for one in await listed(alice) if one["message_type"] == "response"]
    assert [one["payload"]["text"] for one in answers] == ["from bob", "from carol", "and once more"]
    assert {one["correlation_id"] for one in answers} == {asked["id"]}


@pytest.mark.requirement("RFC21-3.2-FIRST", "RFC21-0-ASK", "RFC21-S-ASK", "CHAN-SDK-ASK")
@with_server
async def test_ask_gives_the_first_response_to_its_own_request(server: LiveServer) -> None:
    await server.rig.role("data", "bob", "carol")
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]

    async with bob.events("/subscribe/agents/bob") as events:
        body = {"sender": "alice", "to": "role:data", "payload": {"text": "which?"}, "timeout": 20}
        asking = asyncio.create_task(alice.post(ASK, body))
        asked = (await events.next()).json
        await send(carol, "not an answer", to="alice")
        first = await reply(carol, asked, "first")
        await reply(bob, asked, "second")
        answer = await asking

    assert answer.status == 200
    assert answer.json == first


@pytest.mark.requirement("RFC21-3.2-FIRST")
@with_server
async def test_a_request_may_be_posted_and_waited_for_in_one(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events("/subscribe/agents/bob") as events:
        body = {"message_type": "request", "to": "bob", "payload": {}}
        asking = asyncio.create_task(alice.post(f"{MESSAGES}?wait=20", body))
        first = await reply(bob, (await events.next()).json)
        answer = await asking

    assert (answer.status, answer.json) == (200, first)


@pytest.mark.requirement("RFC21-3.2-ALL", "RFC21-S-ASK-ALL")
@with_server
async def test_all_responses_within_the_window_can_be_collected(server: LiveServer) -> None:
    await server.rig.role("data", "bob", "carol", "dave")
    alice, bob, carol, dave = [await server.client(name) for name in ("alice", "bob", "carol", "dave")]
    asked = await request(alice, "role:data", expires_at=later(server, seconds=30))

    collected: list[str] = []
    cursor = asked["id"]
    for who, name in ((bob, "bob"), (carol, "carol")):
        waiting = asyncio.create_task(alice.get(MESSAGES, since=cursor, to="alice", wait=20))
        await reply(who, asked, name)
        page = (await waiting).json
        collected += [one["payload"]["text"] for one in page if one["correlation_id"] == asked["id"]]
        cursor = page[-1]["id"]
    server.rig.clock.pass_by(seconds=30)
    late = await dave.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {}})

    assert collected == ["bob", "carol"]
    assert (late.status, late.code) == (409, "message_expired")
