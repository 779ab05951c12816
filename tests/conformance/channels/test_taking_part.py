"""Who takes part in an intent, and what that means for what is said to everyone or to a role."""

from __future__ import annotations

import asyncio

import pytest

from parley.domain.directory.callers import KeyKind
from tests.rigs.team import Client, LiveServer, with_server


async def an_intent(client: Client, access: object = None) -> tuple[str, str]:
    """The id of a new intent, and the place of its messages."""
    body = {"title": "T"} if access is None else {"title": "T", "access": access}
    intent = (await client.post("/intents", body)).json["id"]
    return intent, f"/intents/{intent}/channels/talk/messages"


async def say(client: Client, place: str, text: str, **fields: object) -> dict[str, object]:
    answer = await client.post(place, {"payload": {"text": text}, **fields})
    assert answer.status == 201, answer.body
    said: dict[str, object] = answer.json
    return said


async def first_text(client: Client, agent: str) -> str:
    """The first message that an agent's own stream shows, from the beginning."""
    async with client.events(f"/subscribe/agents/{agent}", "0") as events:
        while True:
            event = await events.next()
            if event.event == "channel_message":
                text: str = event.json["payload"]["text"]
                return text


@pytest.mark.requirement("CHAN-TEAM-CLOSED")
@with_server
async def test_a_new_intent_is_for_its_creator_and_those_it_names(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]

    async def seen_by_others(access: object) -> list[int]:
        intent, _ = await an_intent(alice, access)
        return [(await client.get(f"/intents/{intent}")).status for client in (bob, carol)]

    assert await seen_by_others(None) == [404, 404]
    assert await seen_by_others("closed") == [404, 404]
    assert await seen_by_others("open") == [200, 200]
    assert await seen_by_others(["carol"]) == [404, 200]


@pytest.mark.requirement("CHAN-TEAM-HEARS", "CHAN-TEAM-READS")
@with_server
async def test_an_open_intent_is_read_by_all_and_pushed_to_those_who_take_part(server: LiveServer) -> None:
    names = ("assigned", "granted", "member", "spoke", "named", "other")
    alice = await server.client("alice")
    clients = {name: await server.client(name) for name in names}
    intent, place = await an_intent(alice, "open")
    channel = (await alice.post(f"/intents/{intent}/channels", {"name": "talk", "members": ["member"]})).json["id"]
    await alice.post(f"/intents/{intent}/agents", {"agent_id": "assigned"})
    await alice.post(f"/intents/{intent}/acl/entries", {"principal_id": "granted"})
    await say(clients["spoke"], place, "from spoke", to="alice")
    await say(alice, place, "to named", to="named")

    await say(alice, place, "for all", to="*", message_type="broadcast")
    for name in names:
        await say(alice, f"/channels/{channel}/messages", f"for {name}", to=name)

    pushed = await asyncio.gather(*[first_text(clients[name], name) for name in names])
    assert dict(zip(names, pushed, strict=True)) == {
        **dict.fromkeys(("assigned", "granted", "member", "spoke"), "for all"),
        "named": "to named",
        "other": "for other",
    }
    listed = (await clients["other"].get(f"/channels/{channel}/messages")).json
    assert [message["payload"]["text"] for message in listed] == ["for all", "for other"]


@pytest.mark.requirement("CHAN-TEAM-ROLE")
@with_server
async def test_a_role_waits_for_a_holder_that_takes_part(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    admin = await server.client(kind=KeyKind.ADMIN)
    await admin.post("/roles/data/holders", {"agent_id": "bob"})
    _, place = await an_intent(alice, "open")

    waiting = await say(alice, place, "for data", to="role:data")
    assert waiting["status"] == "pending"
    await say(bob, place, "here")

    found = (await alice.get(f"/channels/{waiting['channel_id']}/messages/{waiting['id']}")).json
    assert found["status"] == "delivered"
    assert await first_text(bob, "bob") == "for data"


@pytest.mark.requirement("CHAN-TEAM-REFUSED")
@with_server
async def test_an_agent_without_access_is_not_written_to(server: LiveServer) -> None:
    alice = await server.client("alice")
    intent, place = await an_intent(alice)

    refused = await alice.post(place, {"to": "bob", "payload": {}})

    assert (refused.status, refused.code) == (403, "not_member")
    assert f"parley intent assign {intent} bob" in refused.body.decode()
