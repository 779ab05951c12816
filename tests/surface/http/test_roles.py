"""Roles over HTTP: granted by an admin, never taken."""

from __future__ import annotations

from parley.domain.directory.callers import KeyKind
from tests.rigs.team import LiveServer, with_server


@with_server
async def test_an_admin_grants_and_revokes_a_role(server: LiveServer) -> None:
    admin, alice = await server.client(kind=KeyKind.ADMIN), await server.client("alice")

    granted = await admin.post("/roles/billing/holders", {"agent_id": "alice"})

    assert (granted.status, granted.json) == (200, {"role_id": "billing", "holders": ["alice"]})
    assert (await alice.get("/roles")).json == [{"role_id": "billing", "holders": ["alice"]}]
    assert (await alice.get("/roles/billing/holders")).json["holders"] == ["alice"]
    assert (await admin.delete("/roles/billing/holders/alice")).json["holders"] == []
    assert (await admin.delete("/roles/billing/holders/alice")).status == 404


@with_server
async def test_nobody_grants_itself_a_role(server: LiveServer) -> None:
    alice = await server.client("alice")

    answer = await alice.post("/roles/billing/holders", {"agent_id": "alice"})

    assert (answer.status, answer.code) == (403, "scope_required")
    assert (await alice.delete("/roles/billing/holders/bob")).code == "scope_required"


@with_server
async def test_registering_with_somebodys_role_brings_none_of_its_mail(server: LiveServer) -> None:
    alice, mallory = await server.client("alice"), await server.client("mallory")
    body = {"message_type": "request", "to": "role:billing", "payload": {"iban": "secret"}}
    sent = await alice.post("/channels/chan_1/messages", body)
    assert sent.json["status"] == "pending"

    refused = await mallory.post("/agents/register", {"agent_id": "mallory", "role_id": "billing"})

    assert refused.status == 403
    assert (await mallory.get("/channels/chan_1/messages")).json == []
    assert (await mallory.get(f"/channels/chan_1/messages/{sent.json['id']}")).status == 404
    assert (await alice.get("/roles/billing/holders")).json["holders"] == []


@with_server
async def test_mail_that_waited_for_a_role_reaches_its_holder(server: LiveServer) -> None:
    admin, alice, bob = (
        await server.client(kind=KeyKind.ADMIN),
        await server.client("alice"),
        await server.client("bob"),
    )
    body = {"message_type": "request", "to": "role:billing", "payload": {}}
    sent = (await alice.post("/channels/chan_1/messages", body)).json

    async with bob.events("/subscribe/agents/bob") as events:
        await admin.post("/roles/billing/holders", {"agent_id": "bob"})
        heard = await events.next()

    assert heard.json["id"] == sent["id"]
    assert (await alice.get(f"/channels/chan_1/messages/{sent['id']}")).json["status"] == "delivered"


@with_server
async def test_a_role_has_a_name(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    assert (await admin.post("/roles/a%20b/holders", {"agent_id": "alice"})).status == 422
    assert (await admin.post("/roles/billing/holders", {"agent_id": "role:x"})).status == 422
    assert (await admin.get("/roles/a%20b/holders")).status == 422
