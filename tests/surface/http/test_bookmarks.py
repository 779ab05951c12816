"""An agent's bookmarks over HTTP: what it opens and saves is what it finds after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from tests.rigs.team import Answer, Client, LiveServer, with_server

pytestmark = pytest.mark.both_stores

MARK = "/agents/bob/bookmarks/main"


async def opened(client: Client, start: str = "unanswered") -> dict[str, Any]:
    answer = await client.post(f"{MARK}/open", {"start": start})
    assert answer.status == 200
    shown: dict[str, Any] = answer.json
    return shown


async def put(client: Client, holder: str, position: object, still: Iterable[object] = ()) -> Answer:
    return await client.request("PUT", MARK, {"holder": holder, "position": position, "open": list(still)})


async def said(server: LiveServer, count: int = 5) -> None:
    for n in range(count):
        await server.rig.say("alice", str(n))


@with_server
async def test_an_agent_opens_its_bookmark_and_saves_how_far_it_is(server: LiveServer) -> None:
    bob = await server.client("bob")
    await said(server)

    first = await opened(bob, "beginning")
    answer = await put(bob, first["holder"], 4, [2])

    assert {name: first[name] for name in ("agent_id", "name", "position", "open", "head")} == {
        "agent_id": "bob",
        "name": "main",
        "position": 0,
        "open": [],
        "head": 5,
    }
    assert first["saved_at"].endswith("+00:00")
    assert answer.status == 200
    assert answer.json == {**first, "position": 4, "open": [2], "attempts": [0], "saved_at": answer.json["saved_at"]}
    assert (await bob.get(MARK)).json == answer.json


@with_server
async def test_an_opening_needs_no_body_and_begins_with_what_is_new(server: LiveServer) -> None:
    bob = await server.client("bob")
    await said(server)

    answer = await bob.request("POST", f"{MARK}/open")

    assert (answer.status, answer.json["position"]) == (200, 5)


@with_server
async def test_an_opening_begins_before_the_oldest_request_that_waits(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await said(server)
    body = {"message_type": "request", "to": "bob", "payload": {"q": 1}}
    asked = await alice.post("/channels/chan_1/messages", body)
    await said(server)

    mark = await opened(bob)
    async with bob.events("/agents/bob/subscribe", str(mark["position"])) as events:
        first = await events.next()

    assert (first.json["id"], first.id) == (asked.json["id"], "6")


@with_server
async def test_a_restarted_agent_on_a_restarted_server_goes_on_where_it_was(server: LiveServer) -> None:
    bob = await server.client("bob")
    await said(server)
    first = await opened(bob, "beginning")
    await put(bob, first["holder"], 5, [4])

    await server.restart()
    bob = await server.client("bob")
    again = await opened(bob, "now")

    assert (again["position"], again["open"]) == (5, [4])
    async with bob.events("/agents/bob/subscribe", str(again["open"][0] - 1)) as events:
        assert [(await events.next()).id, (await events.next()).id] == ["4", "5"]


@with_server
async def test_who_was_taken_over_from_is_told_so(server: LiveServer) -> None:
    bob = await server.client("bob")
    await said(server)
    first = await opened(bob, "beginning")
    later = await bob.post(f"{MARK}/open", {"process": "4711@vm"})

    answer = await put(bob, first["holder"], 1)

    assert (answer.status, answer.code) == (409, "bookmark_taken")
    assert answer.json["detail"] == "bob: taken over by pid 4711 on host vm, 0s ago"
    assert answer.json["process"] == later.json["process"] == "4711@vm"
    assert answer.json["opened_at"] == later.json["opened_at"]


@with_server
@pytest.mark.parametrize("process", ["vm", "x@vm", "1@", "1@a b", "1@\x1b[31m", f"1@{'h' * 256}"])
async def test_a_process_is_named_by_its_number_and_its_host(server: LiveServer, process: str) -> None:
    bob = await server.client("bob")

    assert (await bob.post(f"{MARK}/open", {"process": process})).status == 422


@with_server
async def test_an_opening_that_is_sent_again_with_its_key_is_one_opening(server: LiveServer) -> None:
    bob = await server.client("bob")
    key = {"Idempotency-Key": "start-1"}

    first = await bob.post(f"{MARK}/open", {}, key)
    again = await bob.post(f"{MARK}/open", {}, key)

    assert first.json["holder"] == again.json["holder"]
    assert (await put(bob, first.json["holder"], 0)).status == 200


@with_server
async def test_a_save_that_is_sent_again_is_answered_as_before(server: LiveServer) -> None:
    bob = await server.client("bob")
    await said(server)
    mark = await opened(bob, "beginning")

    first, again = await put(bob, mark["holder"], 4, [2]), await put(bob, mark["holder"], 4, [2])

    assert (again.status, again.body) == (200, first.body)


@pytest.mark.parametrize(
    ("position", "still", "field"),
    [
        (1, [], "position"),
        (6, [], "position"),
        (-1, [], "position"),
        ("2", [], "position"),
        (2**63, [], "position"),
        (3, [4], "open"),
        (3, [0], "open"),
        (3, list(range(4, 1005)), "open"),
        (3, ["2"], "open[0]"),
    ],
)
@with_server
async def test_a_place_that_cannot_be_is_422_with_its_field(
    server: LiveServer, position: object, still: list[object], field: str
) -> None:
    bob = await server.client("bob")
    await said(server)
    mark = await opened(bob, "beginning")
    await put(bob, mark["holder"], 2)

    answer = await put(bob, mark["holder"], position, still)

    assert (answer.status, answer.json["errors"][0]["field"]) == (422, field)
    assert (await bob.get(MARK)).json["position"] == 2


@with_server
async def test_as_much_as_may_be_open_is_kept(server: LiveServer) -> None:
    bob = await server.client("bob")
    await said(server, 1_001)
    mark = await opened(bob, "beginning")

    answer = await put(bob, mark["holder"], 1_001, range(1, 1_001))

    assert (answer.status, answer.json["open"]) == (200, list(range(1, 1_001)))


@with_server
async def test_a_body_that_says_something_else_is_422(server: LiveServer) -> None:
    bob = await server.client("bob")

    assert (await bob.post(f"{MARK}/open", {"start": "yesterday"})).status == 422
    assert (await bob.post(f"{MARK}/open", {"begin": "now"})).json["errors"][0]["code"] == "unknown_field"
    assert (await bob.request("PUT", MARK, {"position": 1})).status == 422
    assert (await bob.post("/agents/bob/bookmarks/a%20b/open")).status == 422


@with_server
async def test_a_bookmark_is_there_from_its_opening_until_it_is_deleted(server: LiveServer) -> None:
    bob = await server.client("bob")
    before = [(await bob.get(MARK)).status, (await put(bob, "hold_1", 0)).status, (await bob.delete(MARK)).status]
    await opened(bob)

    deleted = await bob.delete(MARK)

    assert before == [404, 404, 404]
    assert (deleted.status, deleted.body, (await bob.get(MARK)).status) == (204, b"", 404)


@with_server
async def test_another_agents_bookmark_is_403_and_another_tenants_is_not_there(server: LiveServer) -> None:
    bob, carol = await server.client("bob"), await server.client("carol")
    other = await server.client("bob", tenant="globex")
    mark = await opened(bob)

    for answer in (
        await carol.post(f"{MARK}/open"),
        await put(carol, mark["holder"], 0),
        await carol.get(MARK),
        await carol.delete(MARK),
    ):
        assert (answer.status, answer.code) == (403, "sender_mismatch")
    assert [(await other.get(MARK)).status, (await other.delete(MARK)).status] == [404, 404]
    assert (await bob.get(MARK)).json == mark


@pytest.mark.parametrize("kind", [KeyKind.SERVICE, KeyKind.ADMIN])
@with_server
async def test_a_service_and_an_admin_keep_bookmarks_for_any_agent(server: LiveServer, kind: KeyKind) -> None:
    client = await server.client(kind=kind)

    mark = await opened(client)

    assert (await put(client, mark["holder"], 0)).status == 200


@with_server
async def test_a_person_and_a_stranger_keep_none(server: LiveServer) -> None:
    person, stranger = await server.client("ann", KeyKind.HUMAN), server.with_key("nothing")

    assert [(await one.post(f"{MARK}/open")).status for one in (person, stranger)] == [403, 401]


@with_server
async def test_an_agent_that_deregisters_leaves_no_bookmark(server: LiveServer) -> None:
    bob = await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob"})
    await opened(bob)

    await bob.delete("/agents/bob")

    assert (await bob.get(MARK)).status == 404
