"""Every POST of the API, sent again after a server that carried it out and died before it stored its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from parley.domain.directory.callers import KeyKind
from parley.surfaces.entrance.idempotency import Idempotency
from parley.surfaces.http.route import Route
from parley.surfaces.http.server import all_routes
from tests.conformance.ocip.governed import ext_of, held, pair, person, said
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, with_server
from tests.surface.http.test_identity import ONE, TWO, identify
from tests.surface.http.test_keys import operator

pytestmark = pytest.mark.both_stores

KEY = {"Idempotency-Key": "k1", "If-Match": '"1"'}
ACL = f"/intents/{INTENT}/acl/entries"
REQUESTS = f"/intents/{INTENT}/access-requests"
MESSAGES = f"/channels/{CHANNEL}/messages"
Body = dict[str, Any]


class Wanted(NamedTuple):
    """A request of this client, and what may happen between the first time and the second."""

    client: Client
    path: str
    body: Body
    meanwhile: Callable[[], Awaitable[object]] | None = None


async def admin(server: LiveServer) -> Client:
    return await server.client("", KeyKind.ADMIN)


async def registered(server: LiveServer) -> Client:
    await (await admin(server)).post("/agents/register", {"agent_id": "bob"})
    return await server.client("bob")


async def asked_for_access(server: LiveServer) -> str:
    eve = await server.client("eve")
    return str((await eve.post(REQUESTS, {"principal_id": "eve", "requested_permission": "write"})).json["id"])


async def asked(server: LiveServer, to: str) -> str:
    alice = await server.client("alice")
    posted = await alice.post(MESSAGES, {"to": to, "message_type": "request", "payload": {"text": "work"}})
    return str(posted.json["id"])


async def queued(server: LiveServer) -> tuple[Client, str]:
    await server.rig.role("coder", "bob")
    return await server.client("bob"), await asked(server, "any:coder")


async def dead(server: LiveServer) -> tuple[Client, str]:
    bob, _ = await queued(server)
    (claimed,) = (await bob.post("/agents/bob/claims", {})).json
    job, lease = claimed["id"], claimed["lease"]
    assert (await bob.patch(f"/agents/bob/claims/{job}", {"lease": lease, "status": "failed"})).status == 200
    return bob, job


# ---------------------------------------------------------------- one of each


async def grant(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), ACL, {"principal_id": "eve", "permission": "read"})


async def request_access(server: LiveServer) -> Wanted:
    client = await admin(server)

    async def decided() -> None:
        (made,) = (await client.get(REQUESTS)).json["access_requests"]
        await client.post(f"{REQUESTS}/{made['id']}/deny", {})

    body = {"principal_id": "eve", "requested_permission": "write"}
    return Wanted(await server.client("eve"), REQUESTS, body, decided)


async def approve_access(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), f"{REQUESTS}/{await asked_for_access(server)}/approve", {"reason": "fine"})


async def deny_access(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), f"{REQUESTS}/{await asked_for_access(server)}/deny", {"reason": "not now"})


async def register(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), "/agents/register", {"agent_id": "carol", "role_id": "critic"})


async def heartbeat(server: LiveServer) -> Wanted:
    async def later() -> None:
        server.rig.clock.pass_by(seconds=40)

    return Wanted(await registered(server), "/agents/bob/heartbeat", {"current_load": 3}, later)


async def decide(server: LiveServer) -> Wanted:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    ann = await person(server, "ann")
    body = {"decision": "approve", "digest": waits["digest"]}
    return Wanted(ann, f"/approvals/{waits['approval']}/decision", body)


async def erase(server: LiveServer) -> Wanted:
    await server.rig.say("alice", "a secret")
    return Wanted(await admin(server), "/audit/erasures", {"agent_id": "alice"})


async def open_bookmark(server: LiveServer) -> Wanted:
    path = "/agents/bob/bookmarks/main/open"
    return Wanted(await server.client("bob"), path, {"start": "now", "process": "7@vm"})


async def create_channel(server: LiveServer) -> Wanted:
    return Wanted(await server.client("alice"), f"/intents/{INTENT}/channels", {"name": "new"})


async def checkpoint(server: LiveServer) -> Wanted:
    client = await admin(server)
    await client.post(f"/intents/{INTENT}/events", {"event_type": "comment"})
    return Wanted(client, "/admin/checkpoints", {"intent_id": INTENT})


async def append_event(server: LiveServer) -> Wanted:
    body = {"event_type": "comment", "payload": {"n": 1}}
    return Wanted(await server.client("alice"), f"/intents/{INTENT}/events", body)


async def close_exchange(server: LiveServer) -> Wanted:
    alice, _ = await pair(server)
    exchange = ext_of(await said(alice, "bob"))["exchange_id"]
    return Wanted(await admin(server), f"/exchanges/{exchange}/close", {})


async def challenge(server: LiveServer) -> Wanted:
    bob = await registered(server)
    path, body = "/agents/bob/identity", {"public_key": ONE.public_key}

    async def again() -> None:
        await bob.post(path, body)

    return Wanted(bob, path, body, again)


async def answer_challenge(server: LiveServer) -> Wanted:
    bob = await registered(server)
    text = (await bob.post("/agents/bob/identity", {"public_key": ONE.public_key})).json["challenge"]
    body = {"challenge": text, "signature": ONE.sign(text.encode())}
    return Wanted(bob, "/agents/bob/identity/challenge", body)


async def verify(server: LiveServer) -> Wanted:
    bob = await registered(server)
    await identify(bob, "bob")
    body = {"payload": {"n": 1}, "signature": ONE.signed({"n": 1})}
    return Wanted(bob, "/agents/bob/identity/verify", body)


async def rotate_identity(server: LiveServer) -> Wanted:
    bob = await registered(server)
    await identify(bob, "bob")
    signed = {"action": "rotate", "new_public_key": TWO.public_key, "old_public_key": ONE.public_key}
    return Wanted(bob, "/agents/bob/identity/rotate", {**signed, "signature": ONE.signed(signed)})


async def create_intent(server: LiveServer) -> Wanted:
    return Wanted(await server.client("alice"), "/intents", {"title": "A new one"})


async def set_state(server: LiveServer) -> Wanted:
    client = await admin(server)

    async def changed() -> None:
        await client.post(f"/intents/{INTENT}/state", {"state": {"report": "late"}}, {"If-Match": '"2"'})

    return Wanted(client, f"/intents/{INTENT}/state", {"state": {"report": "done"}}, changed)


async def set_status(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), f"/intents/{INTENT}/status", {"status": "completed"})


async def assign(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), f"/intents/{INTENT}/agents", {"agent_id": "bob"})


async def create_tenant(server: LiveServer) -> Wanted:
    return Wanted(await operator(server), "/tenants", {"id": "acme"})


async def create_key(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), "/keys", {"kind": "agent", "agent_id": "bob"})


async def rotate_key(server: LiveServer) -> Wanted:
    client = await admin(server)
    made = await client.post("/keys", {"kind": "agent", "agent_id": "bob"})
    return Wanted(client, f"/keys/{made.json['id']}/rotate", {})


async def post(server: LiveServer) -> Wanted:
    return Wanted(await server.client("alice"), MESSAGES, {"to": "bob", "payload": {"n": 1}})


async def reply(server: LiveServer) -> Wanted:
    return Wanted(await server.client("bob"), f"{MESSAGES}/{await asked(server, 'bob')}/reply", {"payload": {"n": 1}})


async def batch(server: LiveServer) -> Wanted:
    body = {"messages": [{"payload": {"n": 1}}, {"payload": {"n": 2}, "to": "bob"}]}
    return Wanted(await server.client("alice"), f"/channels/{CHANNEL}/batch", body)


async def ask(server: LiveServer) -> Wanted:
    body = {"to": "bob", "payload": {"n": 1}, "timeout": 0.2, "wait_for_responders": True}
    return Wanted(await server.client("alice"), f"/channels/{CHANNEL}/ask", body)


async def post_by_name(server: LiveServer) -> Wanted:
    return Wanted(await server.client("alice"), f"/intents/{INTENT}/channels/new/messages", {"payload": {"n": 1}})


async def forward(server: LiveServer) -> Wanted:
    await server.rig.agent("carol")
    return Wanted(await server.client("bob"), f"{MESSAGES}/{await asked(server, 'bob')}/forward", {"to": "carol"})


async def claim(server: LiveServer) -> Wanted:
    bob, _ = await queued(server)
    return Wanted(bob, "/agents/bob/claims", {})


async def retry_dead(server: LiveServer) -> Wanted:
    bob, job = await dead(server)

    async def claimed_again() -> None:
        await bob.post("/agents/bob/claims", {})

    return Wanted(bob, f"/dead/{job}/retry", {}, claimed_again)


async def report_dead(server: LiveServer) -> Wanted:
    asked_for = await asked(server, "bob")
    bob = await server.client("bob")
    position = (await server.rig.store.post("default", asked_for)).position  # type: ignore[union-attr]

    async def dropped() -> None:
        (letter,) = (await bob.get("/dead")).json
        assert (await bob.delete(f"/dead/{letter['id']}")).status == 204

    body = {"position": position, "error": "boom", "attempts": 3}
    return Wanted(bob, "/agents/bob/dead", body, dropped)


async def grant_role(server: LiveServer) -> Wanted:
    client = await admin(server)

    async def revoked() -> None:
        assert (await client.delete("/roles/critic/holders/bob")).status == 200

    return Wanted(client, "/roles/critic/holders", {"agent_id": "bob"}, revoked)


async def subscribe(server: LiveServer) -> Wanted:
    server.rig.team.outbound = FakeOutbound()
    alice = await server.client("alice")

    async def deleted() -> None:
        (made,) = (await alice.get("/subscriptions")).json
        assert (await alice.delete(f"/subscriptions/{made['id']}")).status == 204

    return Wanted(alice, "/subscriptions", {"webhook_url": "https://hooks.example/", "intent_id": INTENT}, deleted)


async def renew_secret(server: LiveServer) -> Wanted:
    wanted = await subscribe(server)
    made = await wanted.client.post(wanted.path, wanted.body)
    path = f"/subscriptions/{made.json['id']}/secret"

    async def again() -> None:
        await wanted.client.post(path)

    return Wanted(wanted.client, path, {}, again)


async def send_test(server: LiveServer) -> Wanted:
    wanted = await subscribe(server)
    made = await wanted.client.post(wanted.path, wanted.body)
    return Wanted(wanted.client, f"/subscriptions/{made.json['id']}/test", {})


async def suspend(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), "/suspensions", {"what": "agent", "name": "eve", "reason": "to look"})


async def create_task(server: LiveServer) -> Wanted:
    return Wanted(await server.client("alice"), "/tasks", {"intent_id": INTENT, "name": "measure"})


async def set_timer(server: LiveServer) -> Wanted:
    alice = await server.client("alice")
    path = f"/channels/{CHANNEL}/timers"

    async def cancelled() -> None:
        (timer,) = (await alice.get("/timers")).json
        assert (await alice.delete(f"/timers/{timer['id']}")).status == 204

    return Wanted(alice, path, {"to": "bob", "payload": {"n": 1}, "after_seconds": 60}, cancelled)


async def explain(server: LiveServer) -> Wanted:
    await pair(server)
    body = {"sender": "alice", "to": "bob", "exchange_type": "information_query"}
    return Wanted(await admin(server), "/policies/explain", body)


async def replay(server: LiveServer) -> Wanted:
    return Wanted(await admin(server), "/policies/replay", {"documents": {}})


async def issue_ticket(server: LiveServer) -> Wanted:
    return Wanted(await server.client("alice"), "/streams/tickets", {"path": f"/api/v1/channels/{CHANNEL}/subscribe"})


async def create_approval_link(server: LiveServer) -> Wanted:
    server.rig.team.approval_links = True
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    return Wanted(await person(server, "ann"), f"/approvals/{waits['approval']}/link", {})


async def create_link(server: LiveServer) -> Wanted:
    return Wanted(await server.client("alice"), "/sessions/once", {})


async def call_tool(server: LiveServer) -> Wanted:
    call = {"name": "send", "arguments": {"to": "bob", "text": "mTLS or JWT?"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    await (await server.client("bob")).post("/agents/register", {"agent_id": "bob"})
    return Wanted(await server.client("alice"), "/mcp", body)


OPERATIONS: dict[str, Callable[[LiveServer], Awaitable[Wanted]]] = {
    "/agents/register": register,
    "/agents/{agent_id}/heartbeat": heartbeat,
    "/agents/{agent_id}/bookmarks/{name}/open": open_bookmark,
    "/agents/{agent_id}/claims": claim,
    "/agents/{agent_id}/dead": report_dead,
    "/agents/{agent_id}/identity": challenge,
    "/agents/{agent_id}/identity/challenge": answer_challenge,
    "/agents/{agent_id}/identity/verify": verify,
    "/agents/{agent_id}/identity/rotate": rotate_identity,
    "/admin/checkpoints": checkpoint,
    "/approvals/{approval_id}/decision": decide,
    "/approvals/{approval_id}/link": create_approval_link,
    "/audit/erasures": erase,
    "/channels/{channel_id}/messages": post,
    "/channels/{channel_id}/messages/{message_id}/reply": reply,
    "/channels/{channel_id}/messages/{message_id}/forward": forward,
    "/channels/{channel_id}/batch": batch,
    "/channels/{channel_id}/ask": ask,
    "/channels/{channel_id}/timers": set_timer,
    "/dead/{job_id}/retry": retry_dead,
    "/exchanges/{exchange_id}/close": close_exchange,
    "/intents": create_intent,
    "/intents/{intent_id}/state": set_state,
    "/intents/{intent_id}/status": set_status,
    "/intents/{intent_id}/agents": assign,
    "/intents/{intent_id}/events": append_event,
    "/intents/{intent_id}/acl/entries": grant,
    "/intents/{intent_id}/access-requests": request_access,
    "/intents/{intent_id}/access-requests/{request_id}/approve": approve_access,
    "/intents/{intent_id}/access-requests/{request_id}/deny": deny_access,
    "/intents/{intent_id}/channels": create_channel,
    "/intents/{intent_id}/channels/{name}/messages": post_by_name,
    "/keys": create_key,
    "/keys/{key_id}/rotate": rotate_key,
    "/policies/explain": explain,
    "/policies/replay": replay,
    "/roles/{role_id}/holders": grant_role,
    "/mcp": call_tool,
    "/sessions/once": create_link,
    "/streams/tickets": issue_ticket,
    "/subscriptions": subscribe,
    "/subscriptions/{subscription_id}/secret": renew_secret,
    "/subscriptions/{subscription_id}/test": send_test,
    "/suspensions": suspend,
    "/tasks": create_task,
    "/tenants": create_tenant,
}
POSTS = [route for route in all_routes() if route.method == "POST"]


async def crash(server: LiveServer, client: Client) -> Client:
    """End the server, start it again, and give this client a connection to it."""
    headers = client.headers
    await server.restart()
    again = server.with_key(headers["X-API-Key"])
    again.headers = headers
    return again


@pytest.mark.parametrize("route", POSTS, ids=[route.path for route in POSTS])
@with_server
async def test_a_request_is_answered_as_before_by_a_server_that_died_after_its_commit(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, route: Route
) -> None:
    async def store_nothing(*_: object) -> None: ...

    client, path, body, _ = await OPERATIONS[route.path](server)
    monkeypatch.setattr(Idempotency, "_store", store_nothing)

    first = await client.post(path, body, KEY)
    again = await (await crash(server, client)).post(path, body, KEY)

    assert first.status in (200, 201, 504), first.body
    if route.path in ("/streams/tickets", "/sessions/once"):
        assert again.status == 201  # another one: it is for one use, within seconds or minutes
    elif route.confidential:
        # Its answer holds a secret, which is stored nowhere: it says so, and is not carried out twice.
        assert (again.status, again.code) == (409, "stale")
    else:
        assert (again.status, again.body) == (first.status, first.body)


CHANGED = [route for route in POSTS if route.written is not None]


@pytest.mark.parametrize("route", CHANGED, ids=[route.path for route in CHANGED])
@with_server
async def test_what_happened_meanwhile_does_not_change_the_answer(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, route: Route
) -> None:
    async def store_nothing(*_: object) -> None: ...

    client, path, body, meanwhile = await OPERATIONS[route.path](server)
    monkeypatch.setattr(Idempotency, "_store", store_nothing)

    first = await client.post(path, body, KEY)
    if meanwhile is not None:
        await meanwhile()
    again = await (await crash(server, client)).post(path, body, KEY)

    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["idempotent-replayed"] == "true"
