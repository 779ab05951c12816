from __future__ import annotations

import pytest

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import MESSAGES, admin_of, audit_of, pair, person, place, refused, said, tell
from tests.rigs.team import Client, LiveServer, with_server


async def suspend(client: Client, what: str, name: str = "", reason: str = "night") -> int:
    return (await client.post("/suspensions", {"what": what, "name": name, "reason": reason})).status


@pytest.mark.parametrize(
    ("what", "name"),
    [("agent", "bob"), ("agent", "alice"), ("pair", "bob,alice"), ("org_unit", "engineering"), ("tenant", "")],
)
@with_server
async def test_what_is_suspended_is_stopped_at_once_governed_or_not_and_goes_on_when_lifted(
    server: LiveServer, what: str, name: str
) -> None:
    alice, bob = await pair(server)
    admin = await admin_of(server)
    await said(alice, "bob", conversation_id="conv-1")
    plain = {"to": "bob", "message_type": "notify", "payload": {}}

    assert await suspend(admin, what, name) == 201
    assert refused(await tell(alice, "bob")) == (403, "suspended")
    assert refused(await tell(bob, "alice", conversation_id="conv-1")) == (403, "suspended")
    assert refused(await alice.post(MESSAGES, plain)) == (403, "suspended")
    lifted = await admin.delete(f"/suspensions?what={what}&name={name}")

    assert lifted.status == 200
    await said(bob, "alice", conversation_id="conv-1")
    assert (await alice.post(MESSAGES, plain)).status == 201


@with_server
async def test_others_go_on(server: LiveServer) -> None:
    alice, bob = await pair(server)
    dora = await place(server, "dora")
    assert await suspend(await admin_of(server), "pair", "alice,bob") == 201

    await said(alice, "dora")
    await said(dora, "bob")
    assert refused(await tell(bob, "alice")) == (403, "suspended")


@with_server
async def test_what_is_suspended_is_listed_with_who_and_why_and_is_on_record(server: LiveServer) -> None:
    admin = await admin_of(server)
    await suspend(admin, "org_unit", "sales")
    await suspend(admin, "org_unit", "sales", "again")

    (one,) = (await admin.get("/suspensions")).json

    assert (one["what"], one["name"], one["reason"]) == ("org_unit", "sales", "again")
    assert one["by"]
    assert [entry["action"] for entry in await audit_of(admin)] == ["suspended", "suspended"]


@with_server
async def test_only_an_admin_of_the_tenant_has_the_switch(server: LiveServer) -> None:
    alice, _ = await pair(server)
    service = await server.client("", KeyKind.SERVICE)

    for client in (alice, service, await person(server, "ann")):
        assert await suspend(client, "tenant") == 403
        assert (await client.get("/suspensions")).status == 403
        assert (await client.delete("/suspensions?what=tenant")).status == 403
    assert await suspend(await server.client("", KeyKind.ADMIN, "globex"), "tenant") == 201
    await said(alice, "bob")


@pytest.mark.parametrize(
    "body", [{}, {"what": "world"}, {"what": "agent"}, {"what": "pair", "name": "a"}, {"what": "agent", "name": "a b"}]
)
@with_server
async def test_what_cannot_be_is_not_suspended(server: LiveServer, body: dict[str, str]) -> None:
    assert (await (await admin_of(server)).post("/suspensions", body)).status == 422


@with_server
async def test_nothing_is_lifted_that_is_not_suspended(server: LiveServer) -> None:
    admin = await admin_of(server)

    assert refused(await admin.delete("/suspensions?what=agent&name=bob")) == (404, "not_found")
    assert (await admin.delete("/suspensions?what=world")).status == 422
    assert (await admin.delete("/suspensions")).status == 422
