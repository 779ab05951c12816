"""Access lists and access requests over HTTP, as the OpenIntent SDK calls them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, with_server

ACL = f"/intents/{INTENT}/acl"
REQUESTS = f"/intents/{INTENT}/access-requests"


async def closed(server: LiveServer) -> tuple[Client, Client]:
    """Alice's intent, closed, and bob outside of it."""
    await server.rig.access(policy=AccessPolicy.CLOSED)
    return await server.client("alice"), await server.client("bob")


async def log(client: Client) -> list[str]:
    return [one["event_type"] for one in (await client.get(f"/intents/{INTENT}/events")).json]


@with_server
async def test_an_access_list_is_open_to_begin_with(server: LiveServer) -> None:
    bob = await server.client("bob")

    assert (await bob.get(ACL)).json == {
        "intent_id": INTENT,
        "default_policy": "open",
        "entries": [],
        "org_unit": None,
    }


@with_server
async def test_a_whole_list_takes_the_place_of_the_old_one(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    carol = await server.client("carol")
    entries = [{"principal_id": "bob", "permission": "write", "granted_by": "the caller wrote this"}]

    answer = await alice.request("PUT", ACL, {"default_policy": "closed", "entries": entries})

    assert answer.status == 200
    assert answer.json["default_policy"] == "closed"
    (entry,) = answer.json["entries"]
    assert (entry["principal_id"], entry["permission"], entry["granted_by"]) == ("bob", "write", "alice")
    assert (await bob.get(ACL)).json == answer.json
    assert (await carol.get(ACL)).status == 404
    assert await log(alice) == ["access_granted"]


@with_server
async def test_an_entry_lets_in_and_its_removal_keeps_out(server: LiveServer) -> None:
    alice, bob = await closed(server)
    before = await bob.get(f"/intents/{INTENT}")

    entry = await alice.post(f"{ACL}/entries", {"principal_id": "bob", "principal_type": "agent", "permission": "read"})
    during = await bob.get(f"/intents/{INTENT}")
    writing = await bob.post(f"/intents/{INTENT}/state", {"patches": []}, {"If-Match": "1"})
    gone = await alice.delete(f"{ACL}/entries/{entry.json['id']}")
    again = await alice.delete(f"{ACL}/entries/{entry.json['id']}")

    assert (before.status, entry.status, during.status) == (404, 201, 200)
    assert (writing.status, writing.code) == (403, "forbidden")
    assert (gone.status, again.status) == (204, 404)
    assert (await bob.get(f"/intents/{INTENT}")).status == 404
    assert await log(alice) == ["access_granted", "access_revoked"]


@pytest.mark.both_stores
@with_server
async def test_an_entry_that_expires_gives_nothing_any_more(server: LiveServer) -> None:
    alice, bob = await closed(server)
    naive = (server.rig.clock.at + timedelta(minutes=1)).replace(tzinfo=None).isoformat()

    entry = await alice.post(f"{ACL}/entries", {"principal_id": "bob", "permission": "write", "expires_at": naive})
    during = await bob.get(f"/intents/{INTENT}")
    server.rig.clock.pass_by(minutes=1)

    assert entry.json["expires_at"] == naive + ".000000+00:00"
    assert during.status == 200
    assert (await bob.get(f"/intents/{INTENT}")).status == 404


@with_server
async def test_who_was_let_in_before_keeps_what_it_could_see(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {"text": "before"}})

    entries = [{"principal_id": "bob", "permission": "write"}]
    await alice.request("PUT", ACL, {"default_policy": "closed", "entries": entries})
    await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {"text": "after"}})

    heard = (await bob.get(f"/channels/{CHANNEL}/messages")).json
    assert [one["payload"]["text"] for one in heard] == ["before", "after"]


@with_server
async def test_who_is_let_in_late_does_not_hear_what_was_said_before(server: LiveServer) -> None:
    alice, bob = await closed(server)
    await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {"text": "before"}})

    await alice.post(f"{ACL}/entries", {"principal_id": "bob", "permission": "write"})
    await alice.post(f"/channels/{CHANNEL}/messages", {"payload": {"text": "after"}})

    heard = (await bob.get(f"/channels/{CHANNEL}/messages")).json
    assert [one["payload"]["text"] for one in heard] == ["after"]


@with_server
@pytest.mark.parametrize("principal_type", ["user", "group"])
async def test_an_entry_for_a_user_or_group_gives_an_agent_of_that_name_nothing(
    server: LiveServer, principal_type: str
) -> None:
    alice, bob = await closed(server)

    entry = await alice.post(f"{ACL}/entries", {"principal_id": "bob", "principal_type": principal_type})

    assert entry.status == 201
    assert (await bob.get(f"/intents/{INTENT}")).status == 404


@with_server
async def test_only_who_rules_the_intent_changes_its_list(server: LiveServer) -> None:
    await server.rig.access(grants=(server.rig.grant("carol", Permission.ADMIN),))
    bob, carol = await server.client("bob"), await server.client("carol")
    entry = {"principal_id": "bob", "permission": "admin"}

    refused = [
        await bob.request("PUT", ACL, {"default_policy": "closed"}),
        await bob.post(f"{ACL}/entries", entry),
        await bob.delete(f"{ACL}/entries/grant_carol"),
    ]
    allowed = await carol.post(f"{ACL}/entries", entry)

    assert [(one.status, one.code) for one in refused] == [(403, "forbidden")] * 3
    assert allowed.status == 201


@with_server
async def test_who_has_no_access_may_ask_for_it(server: LiveServer) -> None:
    alice, bob = await closed(server)
    body = {
        "principal_id": "bob",
        "principal_type": "agent",
        "requested_permission": "write",
        "reason": "I can help",
        "capabilities": ["x"],
    }

    asked = await bob.post(REQUESTS, body)
    again = await bob.post(REQUESTS, body)
    listed = await alice.get(REQUESTS)

    assert asked.status == 201
    assert asked.json.items() >= {**body, "intent_id": INTENT, "status": "pending", "decided_by": None}.items()
    assert again.json == asked.json
    assert listed.json == {"access_requests": [asked.json]}
    assert await log(alice) == ["access_requested"]


@with_server
async def test_a_request_that_is_approved_lets_in(server: LiveServer) -> None:
    alice, bob = await closed(server)
    asked = (await bob.post(REQUESTS, {"principal_id": "bob", "requested_permission": "write"})).json["id"]

    decided = await alice.post(f"{REQUESTS}/{asked}/approve", {"decided_by": "alice", "permission": "read"})
    again = await alice.post(f"{REQUESTS}/{asked}/deny", {"decided_by": "alice"})

    assert decided.status == 200
    assert (decided.json["status"], decided.json["decided_by"]) == ("approved", "alice")
    assert (again.status, again.code) == (409, "bad_transition")
    (entry,) = (await bob.get(ACL)).json["entries"]
    assert (entry["principal_id"], entry["permission"]) == ("bob", "read")
    assert await log(alice) == ["access_requested", "access_request_approved", "access_granted"]


@with_server
async def test_a_request_that_is_denied_changes_nothing(server: LiveServer) -> None:
    alice, bob = await closed(server)
    asked = (await bob.post(REQUESTS, {"principal_id": "bob"})).json["id"]

    decided = await alice.post(f"{REQUESTS}/{asked}/deny", {"reason": "no need"})

    assert (decided.json["status"], decided.json["decision_reason"]) == ("denied", "no need")
    assert (await bob.get(f"/intents/{INTENT}")).status == 404
    assert (await bob.get(REQUESTS)).json["access_requests"] == [decided.json]
    assert await log(alice) == ["access_requested", "access_request_denied"]


@with_server
async def test_nobody_lets_itself_in(server: LiveServer) -> None:
    _, bob = await closed(server)
    asked = (await bob.post(REQUESTS, {"principal_id": "bob", "requested_permission": "admin"})).json["id"]

    hidden = await bob.post(f"{REQUESTS}/{asked}/approve", {})
    await server.rig.access(policy=AccessPolicy.OPEN)
    seen = await bob.post(f"{REQUESTS}/{asked}/approve", {})

    assert hidden.status == 404
    assert (seen.status, seen.code) == (403, "forbidden")


@with_server
async def test_nobody_asks_in_the_name_of_another(server: LiveServer) -> None:
    _, bob = await closed(server)
    fleet = await server.client(kind=KeyKind.SERVICE)

    refused = await bob.post(REQUESTS, {"principal_id": "carol"})
    asked = await fleet.post(REQUESTS, {"principal_id": "carol"})

    assert (refused.status, refused.code) == (403, "sender_mismatch")
    assert asked.json["principal_id"] == "carol"


@with_server
async def test_requests_of_others_are_not_shown(server: LiveServer) -> None:
    alice, bob = await closed(server)
    carol = await server.client("carol")
    own = await bob.post(REQUESTS, {"principal_id": "bob"})

    nothing = await carol.get(REQUESTS)
    await carol.post(REQUESTS, {"principal_id": "carol"})

    assert nothing.status == 404
    assert (await bob.get(REQUESTS)).json["access_requests"] == [own.json]
    assert len((await alice.get(REQUESTS)).json["access_requests"]) == 2


@with_server
async def test_another_tenant_can_not_even_ask(server: LiveServer) -> None:
    stranger = await server.client("alice", tenant="other")

    answers = [
        await stranger.post(REQUESTS, {"principal_id": "alice"}),
        await stranger.get(REQUESTS),
        await stranger.get(ACL),
        await stranger.request("PUT", ACL, {"default_policy": "open"}),
    ]

    assert [answer.status for answer in answers] == [404] * 4


@with_server
@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"principal_id": "system"},
        {"principal_id": "../x"},
        {"principal_id": "bob", "permission": "root"},
        {"principal_id": "bob", "expires_at": "soon"},
    ],
)
async def test_what_is_no_entry_is_refused(server: LiveServer, entry: object) -> None:
    alice = await server.client("alice")

    one = await alice.post(f"{ACL}/entries", entry)
    all_of_them = await alice.request("PUT", ACL, {"entries": [entry]})

    assert (one.status, all_of_them.status) == (422, 422)
    assert (await alice.get(ACL)).json["entries"] == []
