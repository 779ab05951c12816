from __future__ import annotations

import asyncio
import re

import pytest

from parley.app.team.channels import reading
from parley.domain.directory.callers import KeyKind
from parley.surfaces.http import api
from parley.surfaces.http.route import PUBLIC, Route
from parley.surfaces.http.server import all_routes
from tests.conformance.ocip.governed import MESSAGES, admin_of, audit_of, pair, person, place, refused, said, tell
from tests.rigs.team import AT_ONCE, CHANNEL, Answer, Client, LiveServer, soon, with_server


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


# ---------------------------------------------------------------- nothing but its own status

GUARDED = [route for route in all_routes() if route.scope != PUBLIC]
VALID_KEY = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"  # of RFC 8037
OWN_STATUS = "/agents/{agent_id}/record"
# Computed from the two names, so that a suspended agent can send a message whose refusal is recorded.
DIRECT_CHANNEL = "/agents/{agent_id}/direct"


def path_of(route: Route, agent: str = "alice") -> str:
    """A path of the route, with the agent itself where one is named."""
    return re.sub(r"\{[^}]*\}", "something", route.path.replace("{agent_id}", agent))


def test_a_suspended_agent_reaches_its_status_the_ids_of_direct_channels_and_what_the_rules_judge() -> None:
    reached = {route.path for route in GUARDED if route.while_suspended}

    assert reached == {
        OWN_STATUS,
        DIRECT_CHANNEL,
        "/channels/{channel_id}/messages",
        "/channels/{channel_id}/messages/{message_id}/reply",
        "/channels/{channel_id}/messages/{message_id}/forward",
        "/channels/{channel_id}/batch",
        "/channels/{channel_id}/ask",
        "/intents/{intent_id}/channels/{name}/messages",
    }
    reads = (OWN_STATUS, DIRECT_CHANNEL)
    assert all(route.method == "POST" for route in GUARDED if route.while_suspended and route.path not in reads)


@pytest.mark.parametrize(
    ("what", "name"), [("agent", "alice"), ("org_unit", "engineering"), ("tenant", "")], ids=["agent", "unit", "tenant"]
)
@pytest.mark.requirement("GOV-SUSPENDED-READS", "GOV-SUSPENDED-KEYS")
@with_server
async def test_a_suspended_agent_reaches_no_route_but_its_own_status(
    server: LiveServer, what: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    alice, _ = await pair(server)
    service = await server.rig.key("", KeyKind.SERVICE)
    named = server.with_key(service)
    ann = await person(server, "ann")
    await suspend(await admin_of(server), what, name)

    for route in GUARDED:
        if route.path == OWN_STATUS:
            continue
        for client, headers, kind in (
            (alice, {}, KeyKind.AGENT),
            (named, {"X-Agent-ID": "alice"}, KeyKind.SERVICE),
            (ann, {"X-Agent-ID": "alice"}, KeyKind.HUMAN),
        ):
            if kind in route.scope:
                answer = await client.request(route.method, path_of(route), {} if route.body else None, headers)
                assert refused(answer) == (403, "suspended"), (route.method, route.path, kind)

    assert (await alice.get("/agents/alice/record")).status == 200


@pytest.mark.parametrize("verb", ["reply", "batch", "ask"])
@pytest.mark.requirement("GOV-SUSPENDED-READS")
@with_server
async def test_what_is_wrong_with_a_message_is_not_told_to_a_suspended_agent(server: LiveServer, verb: str) -> None:
    # Whether it is a request, what the channel is like, which field is missing: each of them would be read
    alice, bob = await pair(server)
    notice = await bob.post(MESSAGES, {"to": "alice", "message_type": "notify", "payload": {}})
    await suspend(await admin_of(server), "agent", "alice")
    path = f"{MESSAGES}/{notice.json['id']}/reply" if verb == "reply" else f"/channels/{CHANNEL}/{verb}"

    assert refused(await alice.post(path, {})) == (403, "suspended")
    assert refused(await alice.get("/agents/bob/record")) == (403, "suspended")


@pytest.mark.requirement("GOV-SUSPENDED-COMMITS")
@with_server
async def test_a_suspended_agent_deletes_nothing_registers_nothing_and_takes_nothing_along(server: LiveServer) -> None:
    alice, _ = await pair(server)
    service = await server.client("", KeyKind.SERVICE)
    made = (await alice.post("/intents/intent_1/channels", {"name": "evidence"})).json
    await alice.post(f"/channels/{made['id']}/messages", {"payload": {"text": "proof"}})
    admin = await admin_of(server)
    await suspend(admin, "agent", "alice")

    for client in (alice, service):
        calls = [
            await client.post("/agents/register", {"agent_id": "alice", "metadata": {"note": "leak"}}),
            await client.post("/agents/alice/heartbeat", {}),
            await client.request("PATCH", "/agents/alice/status", {"status": "draining"}),
            await client.delete("/agents/alice"),
            await client.post("/agents/alice/bookmarks/main/open", {}),
            await client.post("/agents/alice/identity", {"public_key": f"ed25519:{VALID_KEY}"}),
        ]
        assert [refused(answer) for answer in calls] == [(403, "suspended")] * len(calls)
    assert refused(await alice.delete(f"/channels/{made['id']}")) == (403, "suspended")
    assert refused(await alice.post("/subscriptions", {"intent_id": "intent_1"})) == (403, "suspended")

    assert len((await admin.get(f"/channels/{made['id']}/messages")).json) == 1
    assert (await admin.delete("/agents/alice")).status == 200


@pytest.mark.requirement("GOV-SUSPENDED-COMMITS", "GOV-SUSPENDED-KEYS")
@with_server
async def test_every_commit_is_refused_also_when_the_body_names_the_suspended_agent(server: LiveServer) -> None:
    await pair(server)
    service = await server.client("", KeyKind.SERVICE)
    await suspend(await admin_of(server), "agent", "alice")

    assert refused(await service.post("/intents", {"title": "t", "created_by": "alice"})) == (403, "suspended")
    body = {"sender": "alice", "to": "bob", "payload": {}}
    assert refused(await service.post(MESSAGES, body)) == (403, "suspended")
    assert (await service.post(MESSAGES, {**body, "sender": "bob", "to": "bob"})).status == 201


@pytest.mark.requirement("GOV-SUSPENDED-READS")
@with_server
async def test_what_was_answered_before_is_not_told_again_to_a_suspended_agent(server: LiveServer) -> None:
    alice, _ = await pair(server)
    body, key = {"to": "bob", "message_type": "notify", "payload": {}}, {"Idempotency-Key": "k"}
    assert (await alice.post(MESSAGES, body, key)).status == 201
    await suspend(await admin_of(server), "agent", "alice")

    assert refused(await alice.post(MESSAGES, body, key)) == (403, "suspended")


@pytest.mark.parametrize(
    "path", [f"/channels/{CHANNEL}/subscribe", "/intents/intent_1/subscribe", "/agents/alice/subscribe"]
)
@pytest.mark.requirement("GOV-SUSPENDED-STREAMS")
@with_server
async def test_the_open_streams_of_a_suspended_agent_end_at_once(server: LiveServer, path: str) -> None:
    alice, _ = await pair(server)
    admin = await admin_of(server)

    async with alice.events(path) as events:
        await suspend(admin, "agent", "alice")
        assert (await events.next(AT_ONCE)).event == "revoked"


@pytest.mark.requirement("GOV-SUSPENDED-STREAMS")
@with_server
async def test_a_long_poll_of_a_suspended_agent_ends_with_nothing(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = asyncio.create_task(alice.get(MESSAGES, wait=30))
    await soon(lambda: len(server.rig.team.tail) == 1)
    await suspend(await admin_of(server), "agent", "alice")

    async with asyncio.timeout(AT_ONCE):
        assert refused(await waiting) == (403, "suspended")


async def asked(server: LiveServer, client: Client, *, wait: str = "ask", **sender: str) -> asyncio.Task[Answer]:
    """An ask that has been posted and waits."""
    question = {"to": "bob", "payload": {}, **sender}
    call = (
        client.post(f"/channels/{CHANNEL}/ask", {**question, "timeout": 60})
        if wait == "ask"
        else client.post(f"{MESSAGES}?wait=60", {**question, "message_type": "request"})
    )
    task = asyncio.create_task(call)
    await soon(lambda: server.rig.team.waits.has_waits("default"))
    return task


@pytest.mark.parametrize("wait", ["ask", "post"])
@pytest.mark.parametrize(("what", "name"), [("agent", "alice"), ("org_unit", "engineering"), ("tenant", "")])
@with_server
async def test_an_open_ask_of_a_suspended_agent_ends_at_once(
    server: LiveServer, what: str, name: str, wait: str
) -> None:
    alice, _ = await pair(server)
    waiting = await asked(server, alice, wait=wait)
    await suspend(await admin_of(server), what, name)

    async with asyncio.timeout(AT_ONCE):
        assert refused(await waiting) == (403, "suspended")


@with_server
async def test_an_open_ask_in_the_name_of_a_suspended_agent_ends_at_once(server: LiveServer) -> None:
    await pair(server)
    waiting = await asked(server, await server.client("", KeyKind.SERVICE), sender="alice")
    await suspend(await admin_of(server), "agent", "alice")

    async with asyncio.timeout(AT_ONCE):
        assert refused(await waiting) == (403, "suspended")


@with_server
async def test_an_ask_that_was_taken_up_again_ends_at_once_too(server: LiveServer) -> None:
    alice, _ = await pair(server)
    body, key = {"to": "bob", "payload": {}, "timeout": 60}, {"Idempotency-Key": "k"}
    lost = asyncio.create_task(alice.post(f"/channels/{CHANNEL}/ask", body, key))
    await soon(lambda: server.rig.team.waits.has_waits("default"))
    await alice.close()
    await soon(lambda: not server.rig.team.waits.has_waits("default"))
    await asyncio.gather(lost, return_exceptions=True)
    again = asyncio.create_task((await server.client("alice")).post(f"/channels/{CHANNEL}/ask", body, key))
    await soon(lambda: server.rig.team.waits.has_waits("default"))
    await suspend(await admin_of(server), "agent", "alice")

    async with asyncio.timeout(AT_ONCE):
        assert refused(await again) == (403, "suspended")


@with_server
async def test_an_open_ask_ends_at_once_when_its_key_is_revoked(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = await asked(server, alice)
    await server.rig.revoke("alice")

    async with asyncio.timeout(AT_ONCE):
        assert (await waiting).status == 401


@with_server
async def test_an_open_ask_of_another_agent_goes_on_and_gets_its_answer(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await place(server, "dora")
    waiting = await asked(server, alice)
    await suspend(await admin_of(server), "agent", "dora")
    await server.rig.key("erin")
    (question,) = (await bob.get(MESSAGES)).json

    await bob.post(f"{MESSAGES}/{question['id']}/reply", {"payload": {"text": "here"}})

    async with asyncio.timeout(AT_ONCE):
        assert (await waiting).json["payload"] == {"text": "here"}


@with_server
async def test_a_list_that_is_held_for_an_answer_ends_at_once_for_a_suspended_agent(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HOLD_SECONDS", 60)
    alice, _ = await pair(server)
    await alice.post(MESSAGES, {"to": "bob", "message_type": "request", "payload": {}})
    waiting = asyncio.create_task(alice.get(MESSAGES))
    await soon(lambda: len(server.rig.team.tail) == 1)
    await suspend(await admin_of(server), "agent", "alice")

    async with asyncio.timeout(AT_ONCE):
        assert refused(await waiting) == (403, "suspended")


@with_server
async def test_what_a_suspension_would_halt_is_told_to_admins_before_it_is_added(server: LiveServer) -> None:
    alice, bob = await pair(server)
    admin = await admin_of(server)
    await said(alice, "bob", conversation_id="conv-1")

    found = await admin.get("/suspensions/preview?what=agent&name=bob")

    assert found.status == 200
    assert {name: found.json[name] for name in ("what", "name", "suspended", "agents", "exchanges")} == {
        "what": "agent",
        "name": "bob",
        "suspended": False,
        "agents": 1,
        "exchanges": 1,
    }
    assert (await bob.get("/suspensions/preview?what=agent&name=bob")).status == 403
    assert (await admin.get("/suspensions/preview?what=world")).status == 422
    assert (await admin.get("/suspensions")).json == []


@with_server
async def test_a_suspension_may_say_when_it_ends(server: LiveServer) -> None:
    admin = await admin_of(server)
    body = {"what": "agent", "name": "bob", "reason": "night", "until": "2099-01-01T00:00:00Z"}

    made = await admin.post("/suspensions", body)
    past = await admin.post("/suspensions", {**body, "until": "2001-01-01T00:00:00Z"})
    unclear = await admin.post("/suspensions", {**body, "until": "tomorrow"})

    assert (made.status, made.json["until"]) == (201, "2099-01-01T00:00:00.000000+00:00")
    assert [refused(answer) for answer in (past, unclear)] == [(422, "invalid"), (422, "invalid")]
    assert [one["until"] for one in (await admin.get("/suspensions")).json] == ["2099-01-01T00:00:00.000000+00:00"]
