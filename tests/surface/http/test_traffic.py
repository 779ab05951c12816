from __future__ import annotations

from typing import Any

from tests.conformance.ocip.governed import MESSAGES, admin_of, held, pair, person, said, tell
from tests.rigs.team import Client, LiveServer, with_server

SOON = "2099-01-01T00:00:00Z"


async def pairs(client: Client, query: str = "") -> dict[tuple[str, str], tuple[int, int, int]]:
    """What is counted, by who talked to whom: delivered, held and denied."""
    counted = (await client.get(f"/traffic?{query}")).json
    return {(pair["from"], pair["to"]): (pair["delivered"], pair["held"], pair["denied"]) for pair in counted["pairs"]}


async def three_talk(server: LiveServer) -> tuple[Client, Client]:
    """alice said three things to bob, one governed and one to everyone, and promised one more."""
    alice, bob = await pair(server)
    await said(alice, "bob")
    plain: dict[str, Any] = {"message_type": "notify", "payload": {}}
    assert (await alice.post(MESSAGES, {**plain, "to": "bob"})).status == 201
    assert (await alice.post(MESSAGES, plain)).status == 201
    await held(alice, "bob", "We promise it.")
    return alice, bob


@with_server
async def test_traffic_counts_all_messages_and_what_the_rules_held(server: LiveServer) -> None:
    _, bob = await three_talk(server)
    admin = await admin_of(server)

    assert await pairs(admin) == {("alice", "bob"): (3, 1, 0)}
    assert await pairs(admin, "by=user") == {("ann", "ben"): (3, 1, 0)}
    assert {key[1] for key in await pairs(admin, "by=org_unit")} == {"engineering"}
    assert await pairs(admin, f"since={SOON}") == {}
    assert await pairs(admin, "since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z") == {}
    await said(bob, "alice")
    counted = (await admin.get("/traffic?limit=1")).json
    assert (counted["complete"], [pair["to"] for pair in counted["pairs"]]) == (False, ["bob"])


@with_server
async def test_a_denied_message_counts_for_who_sent_it_and_for_whom_it_was_meant(server: LiveServer) -> None:
    alice, _ = await pair(server)
    admin = await admin_of(server)
    assert (await admin.post("/suspensions", {"what": "agent", "name": "bob", "reason": "night"})).status == 201
    assert (await tell(alice, "bob")).status == 403

    assert await pairs(admin) == {("alice", "bob"): (0, 0, 1)}


@with_server
async def test_people_see_what_their_agents_may_see_and_nobody_what_is_held_of_others(server: LiveServer) -> None:
    alice, bob = await three_talk(server)
    whole = {("alice", "bob"): (3, 1, 0)}

    assert await pairs(alice) == whole
    assert await pairs(await person(server, "ann")) == whole
    assert await pairs(bob) == {("alice", "bob"): (3, 0, 0)}
    assert await pairs(await person(server, "zoe")) == {}
    stranger = await server.client("eve")
    assert await pairs(stranger) == {}


@with_server
async def test_a_period_must_end_after_it_begins(server: LiveServer) -> None:
    admin = await admin_of(server)

    answer = await admin.get("/traffic?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z")

    assert (answer.status, answer.json["code"]) == (422, "invalid")
