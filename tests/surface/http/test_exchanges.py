from __future__ import annotations

from typing import Any

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import admin_of, audit_of, ext_of, held, pair, person, place, refused, said, shown
from tests.rigs.team import Client, LiveServer, with_server


async def listed(client: Client, **query: Any) -> list[str]:  # noqa: ANN401  # texts and numbers
    answer = await client.get("/exchanges", **query)
    assert answer.status == 200, answer
    return [one["conversationId"] for one in answer.json]


@with_server
async def test_an_exchange_is_shown_with_its_state_in_the_words_of_the_specification(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", "Requested project status", conversation_id="conv-1")
    await said(bob, "alice", "Provided status update", conversation_id="conv-1")
    exchange_id = ext_of(first)["exchange_id"]

    found: dict[str, Any] = await shown(alice, f"/exchanges/{exchange_id}")

    specified = ("exchangeId", "conversationId", "currentRound", "maxRounds", "transcript")
    assert {key: found[key] for key in specified} == {
        "exchangeId": exchange_id,
        "conversationId": "conv-1",
        "currentRound": 2,
        "maxRounds": 3,
        "transcript": [
            {"round": 1, "sender": "alice", "summary": "Requested project status"},
            {"round": 2, "sender": "bob", "summary": "Provided status update"},
        ],
    }
    assert (found["outcome"], found["exchange_type"], found["pending_approvals"]) == (
        "in_progress",
        "information_query",
        [],
    )


@with_server
async def test_only_who_has_to_do_with_an_exchange_finds_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    dora = await place(server, "dora", user_id="dan")
    exchange_id = ext_of(await said(alice, "bob", conversation_id="conv-1"))["exchange_id"]

    for client in (alice, bob, await person(server, "ann"), await person(server, "ben"), await admin_of(server)):
        assert await listed(client) == ["conv-1"]
    foreign = await server.client("alice", tenant="globex")
    stranger = await person(server, "dan")
    for client in (dora, stranger, foreign, await server.client("", KeyKind.ADMIN, "globex")):
        assert await listed(client) == []
        there, nowhere = await client.get(f"/exchanges/{exchange_id}"), await client.get("/exchanges/exch_none")
        assert refused(there) == refused(nowhere) == (404, "not_found")
        assert refused(await client.post(f"/exchanges/{exchange_id}/close")) == (404, "not_found")


@with_server
async def test_exchanges_are_found_by_what_they_are_and_page_by_page(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await place(server, "dora")
    await said(alice, "bob", conversation_id="conv-1")
    await held(alice, "dora", conversation_id="conv-2")
    await said(alice, "dora", conversation_id="conv-3")

    assert await listed(alice, outcome="escalated") == ["conv-2"]
    assert await listed(alice, agent="dora") == ["conv-2", "conv-3"]
    assert await listed(alice, conversation_id="conv-3") == ["conv-3"]
    first = (await alice.get("/exchanges", limit=1)).json[0]
    assert await listed(alice, after=first["exchangeId"]) == ["conv-2", "conv-3"]
    assert (await alice.get("/exchanges", outcome="finished")).status == 422
    assert (await alice.get("/exchanges", limit=0)).status == 422


@with_server
async def test_who_closes_an_exchange_says_why_and_it_is_closed_once(server: LiveServer) -> None:
    alice, bob = await pair(server)
    exchange_id = ext_of(await said(alice, "bob", conversation_id="conv-1"))["exchange_id"]

    closed = await bob.post(f"/exchanges/{exchange_id}/close", {"reason": "done"})

    assert closed.status == 200
    assert (closed.json["outcome"], closed.json["ended_by"], closed.json["reason"]) == ("resolved", "bob", "done")
    assert refused(await alice.post(f"/exchanges/{exchange_id}/close")) == (409, "exchange_closed")
    assert (await alice.post(f"/exchanges/{exchange_id}/close", {"outcome": "denied"})).status == 422
    ended = [one for one in await audit_of(alice) if one["action"] == "agent_exchange_ended"]
    assert [(one["outcome"], one["actor"]) for one in ended] == [("resolved", "bob")]


@with_server
async def test_what_waits_for_a_person_only_a_person_closes(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    path = f"/exchanges/{waits['exchange_id']}/close"

    assert refused(await alice.post(path)) == (403, "human_required")
    assert refused(await (await admin_of(server)).post(path)) == (403, "human_required")
    closed = await (await person(server, "ann")).post(path)

    assert (closed.status, closed.json["outcome"], closed.json["pending_approvals"]) == (200, "resolved", [])
    assert (await shown(alice, f"/approvals/{waits['approval']}"))["status"] == "closed"
