"""Attacks on what one may not see: other tenants, closed intents, revoked rights, and what an answer betrays."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from parley.app.team.directory import sessions
from parley.app.team.work import sweep
from parley.domain.channel.channel import Channel, MemberPolicy
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import NO_TENANT, Key, KeyKind
from parley.domain.message.message import Pattern
from parley.domain.times import stamp
from parley.surfaces.http import api
from parley.surfaces.http.route import Route
from parley.surfaces.http.server import all_routes
from tests.rigs.behind_the_server import tables
from tests.rigs.team import (
    AT_ONCE,
    CHANNEL,
    INTENT,
    Events,
    LiveServer,
    Rig,
    in_loop,
    live_server,
    open_rig,
    soon,
    with_server,
)
from tests.surface.http.attack import nothing_happens, refusal

PLACE = f"/channels/{CHANNEL}/messages"

# ---------------------------------------------------------------- every route, with real ids and with none

BODIES: dict[tuple[str, str], object] = {
    ("POST", "/tasks"): {"intent_id": "{intent_id}", "name": "x"},
    ("POST", "/intents"): {"title": "x", "parent_intent_id": "{intent_id}"},
    ("POST", "/subscriptions"): {"intent_id": "{intent_id}"},
    ("POST", "/admin/checkpoints"): {"intent_id": "{intent_id}"},
    ("POST", "/intents/{intent_id}/channels"): {"name": "x"},
    ("POST", "/intents/{intent_id}/events"): {"event_type": "comment"},
    ("POST", "/intents/{intent_id}/status"): {"status": "active"},
    ("POST", "/intents/{intent_id}/agents"): {"agent_id": "mallory"},
    ("POST", "/intents/{intent_id}/acl/entries"): {"principal_id": "mallory"},
    ("POST", "/channels/{channel_id}/batch"): {"messages": [{"sender": "mallory"}]},
    ("POST", "/channels/{channel_id}/ask"): {"to": "alice", "payload": {}, "sender": "mallory", "timeout": 1},
    ("POST", "/channels/{channel_id}/messages"): {"sender": "mallory"},
    ("POST", "/channels/{channel_id}/timers"): {"sender": "mallory", "after_seconds": 60},
    ("POST", "/channels/{channel_id}/messages/{message_id}/reply"): {"sender": "mallory"},
    ("POST", "/intents/{intent_id}/channels/{name}/messages"): {"sender": "mallory"},
    ("PATCH", "/channels/{channel_id}"): {"add_members": ["mallory"]},
    ("PATCH", "/channels/{channel_id}/messages/{message_id}"): {"status": "read"},
    ("PATCH", "/subscriptions/{subscription_id}"): {"active": True},
    ("PATCH", "/tasks/{task_id}"): {"status": "completed"},
    ("POST", "/approvals/{approval_id}/decision"): {"decision": "approve"},
}
# Whoever knows the name of an intent may ask to be let in; nothing else about it is told.
ASKING = "/intents/{intent_id}/access-requests"
# What is not looked up by an id that belongs to somebody.
WITHOUT_IDS = ("/agents/{agent_id}", "/roles/", "/schemas/", "/subscribe/agents/", "/policies/", "/audit/")


async def belongings(server: LiveServer) -> dict[str, str]:
    """One of everything, on an intent that is closed to all but alice."""
    rig = server.rig
    await rig.intent("intent_2", policy=AccessPolicy.CLOSED)
    await rig.channel("chan_2", intent_id="intent_2", label="talk")
    alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
    said = await rig.say("alice", "needle", to="alice", pattern=Pattern.REQUEST, channel_id="chan_2")
    task = (await alice.post("/tasks", {"intent_id": "intent_2", "name": "x"})).json
    entry = (await alice.post("/intents/intent_2/acl/entries", {"principal_id": "zed"})).json
    asked = (await (await server.client("yan")).post(ASKING.format(intent_id="intent_2"), {"principal_id": "yan"})).json
    logged = (await alice.post("/intents/intent_2/events", {"event_type": "comment"})).json
    checkpoint = (await admin.post("/admin/checkpoints", {"intent_id": "intent_2"})).json
    subscribed = (await alice.post("/subscriptions", {"intent_id": "intent_2"})).json
    timer = (await alice.post("/channels/chan_2/timers", {"payload": {"text": "needle"}, "after_seconds": 60})).json
    await rig.role("coder", "alice")
    await rig.say("alice", "needle", to="any:coder", channel_id="chan_2")
    (job,) = (await alice.post("/agents/alice/claims")).json
    await alice.patch(f"/agents/alice/claims/{job['id']}", {"lease": job["lease"], "status": "failed"})
    await rig.access("intent_2", grants=(rig.grant("bob"),))
    rules = {"to": "bob", "message_type": "request", "metadata": {"classification": "public"}}
    governed = (await alice.post("/channels/chan_2/messages", {**rules, "payload": {"text": "needle"}})).json
    waiting = (await alice.post("/channels/chan_2/messages", {**rules, "payload": {"text": "I promise."}})).json
    key = await rig.team.store.get(Key, NO_TENANT, "key_default_agent_alice")
    assert key is not None
    session = (await sessions.start(rig.team, key)).session
    return {
        "session_id": session.id,
        "exchange_id": governed["metadata"]["ocip_ext"]["exchange_id"],
        "conversation_id": governed["conversation_id"],
        "approval_id": waiting["approval"],
        "intent_id": "intent_2",
        "channel_id": "chan_2",
        "name": "talk",
        "message_id": said.id,
        "job_id": job["id"],
        "task_id": task["id"],
        "entry_id": entry["id"],
        "request_id": asked["id"],
        "event_id": logged["id"],
        "checkpoint_id": checkpoint["checkpoint_id"],
        "subscription_id": subscribed["id"],
        "timer_id": timer["id"],
        "key_id": "key_default_agent_alice",
        "key": "3f1f2d0e-9c8b-4d53-8a46-0c2a1f3b7e11",
    }


def filled(text: object, ids: dict[str, str]) -> object:
    if isinstance(text, dict):
        return {name: filled(value, ids) for name, value in text.items()}
    return re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], text) if isinstance(text, str) else text


async def told(server: LiveServer, secret: str, route: Route, ids: dict[str, str]) -> tuple[int, bytes]:
    """What a caller is told, on a connection of its own; what it sent itself does not count."""
    path = str(filled(route.path, ids))
    if route.path == "/verify/consistency":
        path += f"?from_checkpoint={ids['checkpoint_id']}&to_checkpoint={ids['checkpoint_id']}"
    if route.path in ("/subscriptions", "/checkpoints") and route.method == "GET":
        path += f"?intent_id={ids['intent_id']}"
    body = filled(BODIES.get((route.method, route.path), {}), ids) if route.body else None
    answer = await server.with_key(secret).request(route.method, path, body, {"If-Match": "1"})
    said = answer.body
    for one in ids.values():
        said = said.replace(one.encode(), b"...")
    return answer.status, said


def looked_up() -> list[Route]:
    routes = [
        route
        for route in all_routes()
        if ("{" in route.path or (route.method, route.path) in BODIES or route.path.startswith(("/verify", "/check")))
        and not any(word in route.path for word in WITHOUT_IDS)
    ]
    assert len(routes) > 40
    return routes


async def differences(server: LiveServer, secret: str, *, passed_over: str = "") -> list[str]:
    """The routes that answer otherwise for what is there than for what is not."""
    real = await belongings(server)
    # Of the same form: a text that is no id is looked up as a name.
    none = {name: f"{value.partition('_')[0]}_none" if name != "name" else value for name, value in real.items()}
    found = []
    for route in looked_up():
        if route.path == passed_over:
            continue
        there, not_there = await asyncio.gather(told(server, secret, route, real), told(server, secret, route, none))
        if there != not_there or there[0] < 400:
            found.append(f"{route.method} {route.path}: {there} {not_there}")
    return found


@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.SERVICE, KeyKind.ADMIN])
@with_server
async def test_what_is_anothers_is_on_no_route_told_from_what_does_not_exist(
    server: LiveServer, kind: KeyKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A43 A44
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    secret = await server.rig.key("mallory" if kind is KeyKind.AGENT else "", kind, "other")

    assert await differences(server, secret) == []


@with_server
async def test_a_closed_intent_is_on_no_route_told_from_none_but_to_ask_for_it(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A43
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    secret = await server.rig.key("mallory")

    assert await differences(server, secret, passed_over=ASKING) == []


@pytest.mark.both_stores
@with_server
async def test_nothing_of_anothers_is_on_a_list_in_a_search_or_in_a_trace(server: LiveServer) -> None:
    # A43
    await belongings(server)
    await server.rig.say("alice", "needle", metadata=b"{}")
    for tenant, lists_own in (("other", False), ("default", True)):
        mallory = await server.client("mallory", tenant=tenant)
        intents = (await mallory.get("/intents")).json["intents"]
        assert [one["id"] for one in intents] == ([INTENT] if lists_own else [])
        assert len((await mallory.get("/messages/search", q="needle")).json) == int(lists_own)
        for path in ("/subscriptions", "/checkpoints", f"/events?trace_id={'a' * 32}"):
            assert (await mallory.get(path)).json == []


# ---------------------------------------------------------------- two runs, one of them with busy neighbours


async def transcript(folder: Path, *, busy: bool) -> bytes:
    """All that one tenant's callers are ever told, while another tenant is busy or is not there at all."""
    async with open_rig(folder) as rig, live_server(rig) as server:
        alice, admin = await server.client("alice"), await server.client(kind=KeyKind.ADMIN)
        said: list[bytes] = []
        if busy:
            await bustle(server)
        async with alice.events("/subscribe/agents/alice") as events:
            for method, path, body in SCRIPT:
                if busy:
                    await bustle(server)
                for client in (alice, admin):
                    answer = await client.request(method, remembered(path, said), body, {"Idempotency-Key": "same"})
                    headers = sorted((name, value) for name, value in answer.headers.items() if name != "date")
                    said.append(f"{answer.status} {headers}".encode() + answer.body)
            await admin.post("/agents/register", {"agent_id": "bob"})
            intent, place = remembered("{intent}", said), remembered("/channels/{chan}/messages", said)
            for n in range(3):
                if busy:
                    await bustle(server)
                await admin.post(place, {"sender": "bob", "to": "alice", "payload": {"n": n}})
            for _ in range(3):
                event = await events.next()
                said.append(f"{event.id} {event.event} {event.data}".encode())
        said += [f"{one.position} {one.entry.action}".encode() for one in await rig.store.entries("default", 0, 1000)]
        assert intent
        return normalised(b"\n".join(said))


def remembered(path: str, said: list[bytes]) -> str:
    """A path with the first id of each kind that was told."""
    everything = b"".join(said).decode()

    def known(found: re.Match[str]) -> str:
        first = re.search(rf"{found[1]}_[0-9]{{26}}", everything)
        return first[0] if first else "none"

    return re.sub(r"\{(\w+)\}", known, path)


def normalised(text: bytes) -> bytes:
    """Ids by the order in which they appear; they are drawn from what all tenants share, and nobody can tell."""
    numbers: dict[bytes, bytes] = {}
    return re.sub(
        rb"(?<=_)[0-9]{26}|[0-9]{43}|sha256:[\w-]+",
        lambda found: numbers.setdefault(found[0], b"#%d" % len(numbers)),
        text,
    )


SCRIPT: list[tuple[str, str, object]] = [
    ("POST", "/intents", {"title": "ours", "access": "open"}),
    ("GET", "/intents", None),
    ("POST", "/intents/{intent}/channels", {"name": "talk", "options": {"max_messages": 3}}),
    ("POST", "/channels/{chan}/messages", {"sender": "alice", "payload": {"a": 1}}),
    ("POST", "/channels/{chan}/messages", {"sender": "alice", "to": "role:r", "payload": {}}),
    ("GET", "/channels/{chan}/messages", None),
    ("GET", "/channels/{chan}", None),
    ("GET", "/messages/search?q=a", None),
    ("POST", "/intents/{intent}/events", {"event_type": "comment"}),
    ("GET", "/intents/{intent}/events", None),
    ("GET", "/agents", None),
    ("GET", "/roles", None),
    ("GET", "/keys", None),
    ("POST", "/tenants", {"id": "x"}),
    ("GET", "/subscriptions", None),
    ("GET", "/checkpoints", None),
    ("GET", "/nowhere", None),
]


async def bustle(server: LiveServer) -> None:
    """Another tenant with agents, intents, channels and messages of the same names."""
    admin = await server.client(kind=KeyKind.ADMIN, tenant="other", speaks_as="alice")
    intent = (
        await admin.post(
            "/intents", {"title": "theirs", "access": "open"}, {"Idempotency-Key": str(len(server.clients))}
        )
    ).json
    place = f"/intents/{intent['id']}/channels/talk/messages"
    for _ in range(3):
        await admin.post(place, {"to": "role:r", "payload": {"a": "a"}})
        await admin.post(place, {"payload": {"a": "a"}}, {"Idempotency-Key": "same"})
    await admin.post("/agents/register", {"agent_id": "bob", "role_id": "r"})
    await admin.post("/keys", {"kind": "service"})
    await admin.post("/subscriptions", {"intent_id": intent["id"]})


@pytest.fixture
def two_folders(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "alone", tmp_path / "beside"
    for folder in folders:
        folder.mkdir()
    return folders


@in_loop
async def test_what_a_tenant_is_told_does_not_depend_on_another(two_folders: tuple[Path, Path]) -> None:
    # A44 A47
    alone = await transcript(two_folders[0], busy=False)
    beside = await transcript(two_folders[1], busy=True)

    assert alone == beside
    assert alone.count(b"\n") >= 2 * len(SCRIPT) + 3


@with_server
async def test_ids_are_too_many_to_be_guessed(server: LiveServer) -> None:
    # A44
    from parley.adapters.process import SystemIds

    drawn = [SystemIds().ulid() for _ in range(1000)]

    assert len({one[10:] for one in drawn}) == 1000
    assert {len(one) for one in drawn} == {26}


# ---------------------------------------------------------------- A46: rights that end


async def closed_to_all_but(rig: Rig, *agents: str, expires_at: str = "") -> None:
    grants = tuple(rig.grant(one, expires_at=expires_at) for one in agents)
    await rig.intent("intent_2", policy=AccessPolicy.CLOSED, grants=grants)
    await rig.channel("chan_2", *agents, intent_id="intent_2")


@pytest.mark.both_stores
@with_server
async def test_a_grant_that_expires_ends_its_streams_by_the_next_sweep(server: LiveServer) -> None:
    # A46: the server sweeps every second
    rig = server.rig
    rig.clock.pass_by(seconds=60)
    until = stamp(rig.clock.at)
    rig.clock.pass_by(seconds=-60)
    await closed_to_all_but(rig, "bob", expires_at=until)
    bob, alice = await server.client("bob"), await server.client("alice")

    async with bob.events("/intents/intent_2/subscribe") as one, bob.events("/channels/chan_2/subscribe") as two:
        rig.clock.pass_by(seconds=60)
        await sweep.sweep(rig.team)

        assert [(await stream.next(AT_ONCE)).event for stream in (one, two)] == ["revoked", "revoked"]
    assert (await alice.post("/channels/chan_2/messages", {"to": "bob"})).status == 403


@with_server
async def test_not_even_before_the_sweep_is_anything_told_after_the_end_of_a_grant(server: LiveServer) -> None:
    # A46
    rig = server.rig
    rig.clock.pass_by(seconds=60)
    until = stamp(rig.clock.at)
    rig.clock.pass_by(seconds=-60)
    await closed_to_all_but(rig, "bob", expires_at=until)
    bob, alice = await server.client("bob"), await server.client("alice")

    async with bob.events("/channels/chan_2/subscribe") as events:
        rig.clock.pass_by(seconds=60)
        await alice.post("/channels/chan_2/messages", {"payload": {"secret": 1}})

        assert (await events.next(AT_ONCE)).event == "revoked"


@with_server
async def test_a_stream_ends_when_its_key_does(server: LiveServer) -> None:
    # A46: though nobody says anything
    rig = server.rig
    rig.clock.pass_by(seconds=0.1)
    until = stamp(rig.clock.at)
    rig.clock.pass_by(seconds=-0.1)
    bob = server.with_key(await rig.key("bob", expires_at=until))

    async with bob.events(f"/subscribe/channels/{CHANNEL}") as events:
        rig.clock.pass_by(seconds=0.1)

        assert (await events.next(AT_ONCE)).event == "revoked"


@with_server
async def test_who_lost_a_role_gets_no_more_of_its_mail(server: LiveServer) -> None:
    # A46
    rig = server.rig
    await rig.role("billing", "bob", "carol")
    bob, carol = await server.client("bob"), await server.client("carol")
    admin, alice = await server.client(kind=KeyKind.ADMIN), await server.client("alice")

    async with bob.events("/subscribe/agents/bob") as lost, carol.events("/subscribe/agents/carol") as kept:
        await admin.delete("/roles/billing/holders/bob")
        sent = (await alice.post(PLACE, {"to": "role:billing", "payload": {"iban": 1}})).json

        assert (await kept.next()).json["id"] == sent["id"]
        assert await lost.silence(0.1)
    assert (await bob.get(f"{PLACE}/{sent['id']}")).status == 404


@pytest.mark.parametrize("act", ["closed_to_members", "deleted", "unassigned"])
@with_server
async def test_a_stream_ends_with_the_right_to_follow_it(server: LiveServer, act: str) -> None:
    # A46
    rig = server.rig
    await rig.intent("intent_2", policy=AccessPolicy.CLOSED, assignments=(rig.assignment("bob"),))
    channel = await rig.channel("chan_2", intent_id="intent_2")
    bob, alice = await server.client("bob"), await server.client("alice")

    async with bob.events("/channels/chan_2/subscribe") as events:
        if act == "closed_to_members":
            await rig.put(replace(channel, policy=MemberPolicy.EXPLICIT))
        elif act == "deleted":
            await alice.delete("/channels/chan_2")
        else:
            await alice.delete("/intents/intent_2/agents/bob")

        assert (await events.next(AT_ONCE)).event == "revoked"
        with pytest.raises(EOFError):
            await events.next(AT_ONCE)


@with_server
async def test_of_what_is_said_while_members_change_each_sees_exactly_its_share(server: LiveServer) -> None:
    # A46: a removal and messages at the same moment
    await server.rig.channel("chan_2", "bob", policy=MemberPolicy.EXPLICIT)
    alice, other, bob = await server.client("alice"), await server.client("alice"), await server.client("bob")
    seen: list[int] = []

    async def follow() -> None:
        while True:
            async with bob.events("/channels/chan_2/subscribe") as events:
                while (event := await events.next()).event != "revoked":
                    seen.append(event.json["seq"])
                return

    following = asyncio.ensure_future(follow())
    await soon(lambda: bool(server.rig.team.tail._listeners))
    posts = [other.post("/channels/chan_2/messages", {"payload": {}}) for _ in range(20)]
    for post in posts[:10]:
        await post
    removal = asyncio.ensure_future(alice.patch("/channels/chan_2", {"remove_members": ["bob"]}))
    for post in posts[10:]:
        await post
    assert (await removal).status == 200
    last = await server.rig.store.get(Channel, "default", "chan_2")
    await following

    # No gap, no repeat, and nothing after the end.
    assert seen == list(range(1, len(seen) + 1))
    assert last is not None
    assert last.member("bob") is None
    assert (await bob.get("/channels/chan_2/messages")).status == 404


@with_server
async def test_who_waits_for_a_message_does_not_get_it_with_a_key_that_was_revoked(server: LiveServer) -> None:
    # A46
    rig = server.rig
    bob, alice = await server.client("bob"), await server.client("alice")

    waiting = asyncio.ensure_future(bob.get(PLACE, wait=20))
    await soon(lambda: bool(rig.team.tail._listeners))
    await rig.revoke("bob")
    await alice.post(PLACE, {"payload": {"secret": 1}})
    answer = await waiting

    assert refusal(answer) == (401, "unauthorized")


@with_server
async def test_who_waits_for_a_message_waits_no_longer_than_its_key_is_good(server: LiveServer) -> None:
    # A46
    bob = await server.client("bob")

    waiting = asyncio.ensure_future(bob.get(PLACE, wait=60))
    await soon(lambda: bool(server.rig.team.tail._listeners))
    await server.rig.revoke("bob")
    async with asyncio.timeout(20):
        answer = await waiting

    assert refusal(answer) == (401, "unauthorized")


@with_server
async def test_who_asked_does_not_get_the_answer_with_a_key_that_was_revoked(server: LiveServer) -> None:
    # A46
    rig = server.rig
    bob, alice = await server.client("bob"), await server.client("alice")

    asking = asyncio.ensure_future(bob.post(f"/channels/{CHANNEL}/ask", {"to": "alice", "payload": {}, "timeout": 20}))
    await soon(lambda: rig.team.requests.unanswered("default", CHANNEL, "bob") is not None)
    asked = rig.team.requests.unanswered("default", CHANNEL, "bob")
    assert asked is not None
    await rig.revoke("bob")
    await alice.post(f"{PLACE}/{asked.id}/reply", {"payload": {"secret": 1}})

    assert refusal(await asking) == (401, "unauthorized")


@pytest.mark.both_stores
@with_server
async def test_an_idempotency_key_of_another_gives_nothing_of_theirs(server: LiveServer) -> None:
    # A47
    rig = server.rig
    await rig.intent(tenant="other", intent_id="intent_9")
    await rig.channel("chan_9", intent_id="intent_9", tenant="other")
    alice = await server.client("alice")
    namesake = await server.client("alice", tenant="other")
    ruler = await server.client(kind=KeyKind.ADMIN, tenant="other", speaks_as="alice")
    await alice.post(PLACE, {"payload": {"secret": 1}}, {"Idempotency-Key": "k"})
    # The answer is noted behind its back.
    await soon(lambda: "secret" in repr(tables(rig)["saved"]))

    async with nothing_happens(server):
        answers = [
            await client.post(PLACE, {"payload": {"secret": 1}}, {"Idempotency-Key": "k"})
            for client in (namesake, ruler)
        ]

    assert [refusal(one) for one in answers] == [(404, "not_found")] * 2
    by_fleet = await (await server.client(kind=KeyKind.SERVICE, speaks_as="alice")).post(
        PLACE, {"payload": {"secret": 1}}, {"Idempotency-Key": "k"}
    )
    assert by_fleet.status == 201
    assert "idempotent-replayed" not in by_fleet.headers


@with_server
async def test_a_message_for_one_is_on_the_stream_of_nobody_else(server: LiveServer) -> None:
    # A45: by a cursor of the past, too
    alice, carol = await server.client("alice"), await server.client("carol")
    await server.rig.say("alice", "secret", to="bob")

    paths = (f"/subscribe/channels/{CHANNEL}", f"/subscribe/intents/{INTENT}", "/subscribe/agents/carol")
    for path in paths:
        async with carol.events(path, last_event_id="0") as events:
            await alice.post(PLACE, {"to": "bob", "payload": {"secret": 1}})
            public = (await alice.post(PLACE, {"payload": {"public": 1}})).json

            assert await until(events, public["id"])


async def until(events: Events, message_id: str) -> bool:
    """Whether everything up to a message was for everyone."""
    while True:
        event = await events.next()
        if event.json["to"] is not None:
            return False
        if event.json["id"] == message_id:
            return True
