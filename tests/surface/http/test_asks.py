"""Asks over HTTP: who waits for whose answer, who got none in time, and who sees which."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from parley.domain.agents.party import UNKNOWN_ATTRIBUTES
from parley.domain.directory.callers import KeyKind
from parley.domain.times import stamp
from tests.conformance.ocip.governed import person
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, with_server

pytestmark = pytest.mark.both_stores
PLACE = f"/channels/{CHANNEL}/messages"


async def ask(client: Client, to: str = "bob", text: str = "How is it?", place: str = PLACE, **body: Any) -> str:  # noqa: ANN401  # of a message
    answer = await client.post(place, {"message_type": "request", "to": to, "payload": {"text": text}, **body})
    assert answer.status == 201, answer.body
    return str(answer.json["id"])


async def ids(client: Client, **query: Any) -> list[str]:  # noqa: ANN401  # of a query
    answer = await client.get("/asks", **query)
    assert answer.status == 200, answer.body
    return [ask["message_id"] for ask in answer.json]


@with_server
async def test_an_ask_says_who_waits_for_whom_and_until_when(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    until = stamp(server.rig.clock.at + timedelta(minutes=10))
    asked = await ask(alice, expires_at=until)

    (waiting,) = (await bob.get("/asks")).json

    assert waiting == {
        "message_id": asked,
        "channel_id": CHANNEL,
        "intent_id": INTENT,
        "sender": "alice",
        "to": "bob",
        "recipients": ["bob"],
        "forwarded_to": None,
        "state": "waiting",
        "asked_at": server.rig.at(),
        "until": until,
        "summary": "How is it?",
    }
    assert (await bob.get("/asks/count")).json == {"waiting": 1, "late": 0}
    await bob.post(f"{PLACE}/{asked}/reply", {"payload": {"text": "fine"}})
    assert (await bob.get("/asks", state="waiting,late")).json == []
    assert (await alice.get("/asks/count")).json == {"waiting": 0, "late": 0}


@with_server
async def test_an_ask_is_late_when_its_time_has_passed_and_not_when_it_was_withdrawn(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    soon = stamp(server.rig.clock.at + timedelta(seconds=30))
    late, withdrawn, open_ended = [await ask(alice, expires_at=at) for at in (soon, soon, None)]
    await alice.delete(f"{PLACE}/{withdrawn}")
    assert await ids(bob) == [late, open_ended]

    server.rig.clock.pass_by(seconds=31)

    assert await ids(bob) == [open_ended]
    assert await ids(bob, state="late") == [late]
    assert await ids(bob, state="waiting,late") == [late, open_ended]
    assert (await bob.get("/asks", state="late")).json[0]["state"] == "late"
    assert (await bob.get("/asks/count")).json == {"waiting": 1, "late": 1}
    assert (await bob.get("/asks/count", since=server.rig.at())).json == {"waiting": 0, "late": 0}


@with_server
async def test_asks_are_known_after_a_restart(server: LiveServer) -> None:
    asked = await ask(await server.client("alice"))

    await server.restart()

    assert await ids(await server.client("bob")) == [asked]


@with_server
async def test_asks_come_in_pages_from_either_end(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = [await ask(alice, text=str(number)) for number in range(5)]

    assert await ids(bob, limit="2") == asked[:2]
    assert await ids(bob, limit="2", after=asked[1]) == asked[2:4]
    assert await ids(bob, order="newest", limit="2") == asked[:2:-1]
    assert await ids(bob, order="newest", after=asked[3]) == asked[2::-1]
    for wrong in ("after=msg_none", "state=old", "order=any", "limit=0", "since=tomorrow"):
        assert (await bob.get(f"/asks?{wrong}")).status in (400, 422), wrong


@with_server
async def test_an_ask_is_seen_by_its_sender_by_who_was_asked_and_by_who_sees_all(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    admin = await server.client(kind=KeyKind.ADMIN)
    first, second = await ask(alice), await ask(bob, "alice")

    assert await ids(alice) == await ids(bob) == await ids(admin) == [first, second]
    assert await ids(carol) == await ids(carol, agent="bob") == []
    assert (await carol.get("/asks/count")).json == {"waiting": 0, "late": 0}
    assert await ids(admin, agent="carol") == await ids(admin, channel_id="chan_9") == []
    assert await ids(admin, agent="bob", channel_id=CHANNEL) == [first, second]


@with_server
async def test_a_person_sees_the_asks_of_its_agents_and_no_others(server: LiveServer) -> None:
    ann, eve = await person(server, "ann"), await person(server, "eve")
    alice, bob = await server.client("alice"), await server.client("bob")
    await server.rig.agent("alice", attributes=replace(UNKNOWN_ATTRIBUTES, user_id="ann"))
    await server.rig.agent("dave", attributes=replace(UNKNOWN_ATTRIBUTES, user_id="ann"))
    sent, received, foreign = await ask(alice), await ask(bob, "dave"), await ask(bob, "carol")

    assert await ids(ann) == [sent, received]
    assert (await ann.get("/asks/count")).json["waiting"] == 2
    assert await ids(eve) == []
    as_dave = server.with_key(ann.headers["X-API-Key"], "dave")
    assert await ids(as_dave) == [received]
    assert await ids(await server.client(kind=KeyKind.ADMIN)) == [sent, received, foreign]


@with_server
async def test_an_agent_that_lost_a_channel_no_longer_sees_what_was_asked_there(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    body = {"name": "private", "member_policy": "explicit", "members": ["bob"]}
    channel = (await alice.post(f"/intents/{INTENT}/channels", body)).json["id"]
    asked = await ask(alice, place=f"/channels/{channel}/messages")
    assert await ids(bob) == [asked]

    await alice.request("PATCH", f"/channels/{channel}", {"remove_members": ["bob"]}, {"If-Match": "*"})

    assert await ids(bob) == []
    assert await ids(alice) == [asked]


@with_server
async def test_an_ask_that_was_handed_on_names_who_has_it_now(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    asked = await ask(alice)
    handed_on = (await bob.post(f"{PLACE}/{asked}/forward", {"to": "carol"})).json["id"]

    assert [(ask["message_id"], ask["to"], ask["forwarded_to"]) for ask in (await bob.get("/asks")).json] == [
        (asked, "bob", "carol"),
        (handed_on, "carol", None),
    ]
    assert await ids(carol) == [handed_on]
    await carol.post(f"{PLACE}/{handed_on}/reply", {"payload": {}})
    assert await ids(bob) == await ids(alice) == []


@with_server
async def test_an_ask_to_a_role_waits_for_each_of_its_holders(server: LiveServer) -> None:
    alice = await server.client("alice")
    await server.rig.role("qa", "bob", "carol")
    asked = await ask(alice, "role:qa")

    (waiting,) = (await (await server.client("carol")).get("/asks")).json

    assert (waiting["message_id"], waiting["to"], waiting["recipients"]) == (asked, "role:qa", ["bob", "carol"])


@with_server
async def test_an_auditor_reads_no_asks(server: LiveServer) -> None:
    auditor = await server.client(kind=KeyKind.AUDITOR)

    assert (await auditor.get("/asks")).status == (await auditor.get("/asks/count")).status == 403
