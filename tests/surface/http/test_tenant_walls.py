"""Nothing comes through the wall between tenants: a long random walk with the ids of another one, told twice.

Two worlds, one walk. In the first, another tenant lives next door, under ids that the callers know, and is busy all the
time. In the second it was never there. Whatever is asked, with whatever key, both worlds give the same answer to the
last byte; and nothing that the neighbours wrote is in any of them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.surfaces.http import api
from parley.surfaces.http.route import Param, Route
from parley.surfaces.http.server import all_routes
from tests.conformance.ocip.governed import envelope_of, ext_of, held, person, place, put_policy, said
from tests.rigs.team import Answer, Client, LiveServer, Rig, live_server, open_rig, with_query

pytestmark = [pytest.mark.both_stores, pytest.mark.slow]

Pool = dict[str, list[str]]
CALLS = 20_000 if os.environ.get("PARLEY_FAULT") == "full" else 1_000
SEED = 22
NEIGHBOUR = "globex-inc"
# What the neighbours' ids begin with, which the callers know, and what is in everything that they wrote.
THEIRS, SECRET = "zzid", "zzsecret"
OURS = "ours"
BUSY_EVERY, SWEEP_EVERY = 40, 150


class Told(NamedTuple):
    """One call and its answer."""

    asked: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


# ---------------------------------------------------------------- a tenant with one of everything


async def furnish(server: LiveServer, tenant: str, mark: str, secret: str) -> Pool:
    """A tenant whose every text holds `secret`, and the ids of all that it has, which begin with `mark`."""
    rig = server.rig
    alice_id, bob_id, place_id = f"{mark}-alice", f"{mark}-bob", f"{mark}-chan"
    await rig.intent(f"{mark}-intent", tenant=tenant, created_by=alice_id)
    await rig.channel(
        place_id, bob_id, intent_id=f"{mark}-intent", tenant=tenant, created_by=alice_id, label=f"{mark}-talk"
    )
    await rig.role(f"{mark}-role", bob_id, tenant=tenant)
    described: dict[str, Any] = {"org_unit": f"{mark}-org", "name": secret, "metadata": {"note": secret}}
    alice = await place(server, alice_id, tenant, user_id=f"{mark}-ann", **described)
    await place(server, bob_id, tenant, user_id=f"{mark}-ben", capabilities=[secret], **described)
    await person(server, f"{mark}-ann", tenant)
    path = f"/channels/{place_id}/messages"
    first = await said(alice, bob_id, secret, path=path, conversation_id=f"{mark}-conv")
    waiting = await held(alice, bob_id, f"I promise {secret}.", path=path, conversation_id=f"{mark}-more")
    asked = (await alice.post(path, {"to": bob_id, "message_type": "request", "payload": {"q": secret}})).json
    admin = await server.client("", KeyKind.ADMIN, tenant)
    await put_policy(server, f"max_rounds: 3\n# {secret}", f"org/{mark}-org", tenant)
    await admin.post("/suspensions", {"what": "agent", "name": f"{mark}-carol", "reason": secret})
    key = (await admin.post("/keys", {"kind": "agent", "agent_id": f"{mark}-dave"})).json
    about = f"/intents/{mark}-intent"
    task = (await alice.post("/tasks", {"intent_id": f"{mark}-intent", "name": secret})).json
    logged = (await alice.post(f"{about}/events", {"event_type": "comment", "payload": {"a": secret}})).json
    granted = (await alice.post(f"{about}/acl/entries", {"principal_id": f"{mark}-eve", "reason": secret})).json
    eve = await place(server, f"{mark}-eve", tenant, user_id=f"{mark}-ann", **described)
    wanted = await eve.post(f"{about}/access-requests", {"reason": secret})
    checkpoint = (await admin.post("/admin/checkpoints", {"intent_id": f"{mark}-intent"})).json
    hooked = (await alice.post("/subscriptions", {"intent_id": f"{mark}-intent"})).json
    await admin.get("/audit/export")
    entries = (await admin.get("/audit", limit=1000)).json["entries"]
    return {
        "intent_id": [f"{mark}-intent"],
        "channel_id": [place_id],
        "message_id": [first["id"], asked["id"]],
        "agent_id": [alice_id, bob_id, f"{mark}-carol"],
        "role_id": [f"{mark}-role"],
        "task_id": [task["id"]],
        "key_id": [key["id"], f"key_{tenant}_agent_{mark}-eve"],
        "exchange_id": [ext_of(first)["exchange_id"], waiting["exchange_id"]],
        "approval_id": [waiting["approval"]],
        "digest": [waiting["digest"]],
        "conversation_id": [envelope_of(first)["conversation_id"], f"{mark}-more"],
        "entry_id": [*(one["id"] for one in entries), granted["id"], "1", "7"],
        "request_id": [wanted.json["id"]],
        "event_id": [logged["id"]],
        "checkpoint_id": [checkpoint["checkpoint_id"]],
        "subscription_id": [hooked["id"]],
        "name": [f"{mark}-talk", f"{mark}-org"],
        "scope": ["org", "enterprise", "user"],
        "size": ["1", "latest", str(len(entries))],
        "user_id": [f"{mark}-ann"],
        "tenant_id": [tenant],
        "label": [first["metadata"]["ocip_ext"]["policy_version"]],
        "address": [f"{who}@{tenant}" for who in (alice_id, f"role:{mark}-role", "*", "nobody")],
    }


async def bustle(server: LiveServer, turn: int) -> None:
    """What the neighbours do meanwhile: talk, decide, rule; under our names, too."""
    admin = await server.client("", KeyKind.ADMIN, NEIGHBOUR)
    alice = await server.client(f"{THEIRS}-alice", tenant=NEIGHBOUR)
    path = f"/channels/{THEIRS}-chan/messages"
    await alice.post(path, {"payload": {"text": f"{SECRET} {turn}"}}, {"Idempotency-Key": f"key-{turn % 3}"})
    talk = {"classification": "public", "conversation_id": f"{OURS}-conv"}
    await alice.post(path, {"to": f"{THEIRS}-bob", "payload": {"text": SECRET}, "metadata": talk})
    waiting = await alice.post(
        path, {"to": f"{THEIRS}-bob", "payload": {"text": f"I promise {SECRET}"}, "metadata": talk}
    )
    if waiting.status == 202:
        ann = await person(server, f"{THEIRS}-ann", NEIGHBOUR)
        decision = {"decision": ("approve", "reject")[turn % 2], "digest": waiting.json["digest"]}
        await ann.post(f"/approvals/{waiting.json['approval']}/decision", decision)
    text = f"agent-to-agent:\n  max_rounds: {2 + turn % 3}\n  # {SECRET} {turn}\n"
    await admin.request("PUT", f"/policies/org/{OURS}-org", {"text": text})
    await admin.post("/suspensions", {"what": "agent", "name": f"{OURS}-alice", "reason": SECRET})
    await admin.post(
        "/agents/register", {"agent_id": f"{OURS}-bob", "name": SECRET, "org_unit": f"{THEIRS}-{turn % 5}"}
    )


# ---------------------------------------------------------------- the walk

BODIES: dict[tuple[str, str], list[Any]] = {
    ("POST", "/agents/register"): [
        {"agent_id": "{agent_id}", "org_unit": "{name}", "user_id": "{user_id}"},
        {"agent_id": "{agent_id}", "tenant_id": "{tenant_id}"},
        {"agent_id": "{agent_id}", "role_id": "{role_id}"},
    ],
    ("PATCH", "/agents/{agent_id}/status"): [{"status": "draining"}, {"status": "deregistered"}],
    ("POST", "/intents/{intent_id}/channels"): [{"name": "{name}", "members": ["{agent_id}"], "task_id": "{task_id}"}],
    ("PATCH", "/channels/{channel_id}"): [{"add_members": ["{agent_id}"]}, {"status": "closed"}],
    ("PUT", "/agents/{agent_id}/bookmarks/{name}"): [{"holder": "hold_1", "position": 0}],
    ("POST", "/agents/{agent_id}/identity"): [{"public_key": "A" * 44}],
    ("POST", "/agents/{agent_id}/identity/verify"): [{"payload": {}, "signature": "A" * 88}],
    ("POST", "/tenants"): [{"id": "{tenant_id}"}],
    ("POST", "/keys"): [
        {"kind": "agent", "agent_id": "{agent_id}", "tenant_id": "{tenant_id}"},
        {"kind": "human", "user_id": "{user_id}"},
        {"kind": "service"},
    ],
    ("POST", "/roles/{role_id}/holders"): [{"agent_id": "{agent_id}"}],
    ("PUT", "/policies/{scope}/{name}"): [
        {"text": "agent-to-agent:\n  cross_org: true\n"},
        {"text": "agent-to-agent:\n  max_rounds: 2\n  approvers: [{user_id}]\n"},
    ],
    ("POST", "/intents"): [{"title": "x", "parent_intent_id": "{intent_id}"}, {"title": "x"}],
    ("POST", "/intents/{intent_id}/state"): [{"state": {"a": 1}}],
    ("POST", "/intents/{intent_id}/status"): [{"status": "active"}],
    ("POST", "/intents/{intent_id}/agents"): [{"agent_id": "{agent_id}"}],
    ("POST", "/intents/{intent_id}/events"): [{"event_type": "comment", "parent_event_id": "{event_id}"}],
    ("PUT", "/intents/{intent_id}/acl"): [{"default_policy": "open", "entries": [{"principal_id": "{agent_id}"}]}],
    ("POST", "/intents/{intent_id}/acl/entries"): [{"principal_id": "{agent_id}"}],
    ("POST", "/tasks"): [{"intent_id": "{intent_id}", "name": "x", "assigned_agent": "{agent_id}"}],
    ("PATCH", "/tasks/{task_id}"): [{"status": "completed"}],
    ("POST", "/admin/checkpoints"): [{"intent_id": "{intent_id}"}],
    ("POST", "/audit/erasures"): [{"conversation_id": "{conversation_id}"}, {"agent_id": "{agent_id}"}],
    ("POST", "/channels/{channel_id}/messages"): [
        {"to": "{address}", "payload": {"text": "hello"}},
        {"to": "{agent_id}", "payload": {"text": "hello"}},
        {"to": "role:{role_id}", "payload": {"text": "hello"}},
        {"to": "{agent_id}", "message_type": "response", "correlation_id": "{message_id}", "payload": {}},
        {
            "to": "{agent_id}",
            "payload": {"text": "hello"},
            "metadata": {"exchange_type": "information_query", "conversation_id": "{conversation_id}"},
        },
        {
            "to": "{agent_id}",
            "payload": {"text": "I promise."},
            "metadata": {"classification": "public", "parent_message_id": "{message_id}"},
        },
        {"sender": "{agent_id}", "to": "{agent_id}", "payload": {}},
        {"sender": f"{OURS}-alice", "to": "{agent_id}", "message_type": "request", "payload": {"text": "hello"}},
        {"sender": f"{OURS}-alice", "to": "{address}", "payload": {"text": "hello"}, "metadata": {"data": []}},
    ],
    ("POST", "/channels/{channel_id}/messages/{message_id}/reply"): [{"payload": {"text": "hello"}}],
    ("POST", "/channels/{channel_id}/messages/{message_id}/forward"): [{"to": "{agent_id}"}],
    ("PATCH", "/agents/{agent_id}/claims/{job_id}"): [{"lease": "x", "status": "done"}],
    ("POST", "/channels/{channel_id}/timers"): [
        {"to": "{agent_id}", "payload": {"text": "hello"}, "after_seconds": 60},
        {"sender": f"{OURS}-alice", "to": "{address}", "payload": {"text": "hello"}, "after_seconds": 60},
    ],
    ("POST", "/agents/{agent_id}/dead"): [{"position": 1, "error": "x"}],
    ("POST", "/channels/{channel_id}/batch"): [{"messages": [{"to": "{agent_id}"}, {"to": "{address}"}]}],
    ("POST", "/channels/{channel_id}/ask"): [{"to": "{agent_id}", "payload": {}, "timeout": 0.01}],
    ("POST", "/intents/{intent_id}/channels/{name}/messages"): [{"to": "{agent_id}", "payload": {}}, {"payload": {}}],
    ("PATCH", "/channels/{channel_id}/messages/{message_id}"): [{"status": "read"}],
    ("POST", "/approvals/{approval_id}/decision"): [
        {"decision": "approve", "digest": "{digest}"},
        {"decision": "answer", "digest": "{digest}", "answer": "no"},
        {"decision": "reject"},
    ],
    ("POST", "/suspensions"): [
        {"what": "agent", "name": "{agent_id}"},
        {"what": "org_unit", "name": "{name}"},
        {"what": "pair", "name": "{agent_id},{agent_id}"},
    ],
    ("POST", "/policies/explain"): [{"sender": "{agent_id}", "to": "{agent_id}", "text": "hello"}],
    ("POST", "/policies/replay"): [{"documents": {"org/{name}": "agent-to-agent:\n  enabled: false\n"}}],
    ("POST", "/subscriptions"): [{"intent_id": "{intent_id}"}, {"subscriber_id": "{agent_id}"}],
    ("PATCH", "/subscriptions/{subscription_id}"): [{"active": True}],
    ("POST", "/mcp"): [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "send", "arguments": arguments}}
        for arguments in ({"to": "{agent_id}", "text": "hello"}, {"to": "{address}", "text": "hello"})
    ],
    ("POST", "/streams/tickets"): [{"path": "/api/v1/channels/{channel_id}/subscribe"}],
}
# By the name of a query's field: which ids may stand there.
QUERIES = {
    "agent": "agent_id",
    "to": "agent_id",
    "side": "agent_id",
    "since": "message_id",
    "after": "exchange_id",
    "from_checkpoint": "checkpoint_id",
    "to_checkpoint": "checkpoint_id",
    "q": "agent_id",
    "last_event_id": "message_id",
}
# What counts or times the whole process is for whoever runs it.
LEFT_OUT = {"/metrics", "/status", "/status/history"}


class Walk:
    """A walk by chance, the same for the same seed."""

    def __init__(self, theirs: Pool, ours: Pool) -> None:
        self.random = random.Random(SEED)
        self.theirs = theirs
        self.ours = ours
        self.routes = [one for one in all_routes() if one.path not in LEFT_OUT]
        # How likely an id is one of theirs: in the path, and in the rest.
        self.share = 1.0

    def next(self, number: int) -> tuple[Route, str, Any, dict[str, str]]:
        # Each route in turn before chance has its way.
        route = self.routes[number] if number < len(self.routes) else self.random.choice(self.routes)
        path_share, self.share = self.random.choice(((1.0, 1.0), (1.0, 1.0), (0.5, 0.5), (0.0, 1.0), (0.0, 0.5)))
        query = {}
        for one in route.query:
            if one.name != "wait" and self.random.random() < 0.4:
                query[one.name] = self._field(one)
        body = None
        if route.body is not None:
            body = self._filled(self.random.choice(BODIES.get((route.method, route.path), [{}])))
        headers = {"If-Match": "1"} if self.random.random() < 0.3 else {}
        if route.method != "GET" and self.random.random() < 0.1:
            headers["Idempotency-Key"] = f"key-{self.random.randrange(3)}"
        # Of our own streams it would be told by what is said on them, and when.
        self.share = 1.0 if route.streams else path_share
        return route, with_query(self._filled(route.path), query), body, headers

    def _field(self, param: Param) -> str:
        if param.choices:
            return self.random.choice(param.choices)
        if param.type == "integer":
            return str(self.random.choice((1, 2, 100)))
        if param.type == "boolean":
            return "true"
        name = QUERIES.get(param.name, param.name)
        return self._one(name) if name in self.theirs else "x"

    def _one(self, name: str) -> str:
        pool = self.theirs if self.random.random() < self.share else self.ours
        return self.random.choice(pool[name]) if name in pool else "x"

    def _filled(self, given: Any) -> Any:  # noqa: ANN401
        if isinstance(given, dict):
            return {self._filled(name): self._filled(value) for name, value in given.items()}
        if isinstance(given, list):
            return [self._filled(one) for one in given]
        if not isinstance(given, str):
            return given
        return re.sub(r"\{(\w+)\}", lambda found: self._one(found[1]), given)


async def called(client: Client, route: Route, path: str, body: Any, headers: dict[str, str]) -> Answer:  # noqa: ANN401
    """One call. Of a stream that opens only the beginning is read."""
    if not route.streams:
        return await client.request(route.method, path, body, headers)
    async with client.events(path) as events:
        rest = b"" if events.status == 200 else await events.connection.body(events.headers)
        return Answer(events.status, events.headers, rest)


@contextmanager
def other_ids(rig: Rig, count: Iterator[int]) -> Iterator[None]:
    """The neighbours draw their ids elsewhere, so that ours are the same with and without them."""
    own, rig.ids._count = rig.ids._count, count  # type: ignore[assignment]
    try:
        yield
    finally:
        rig.ids._count = own


async def world(folder: Path, theirs: Pool | None, calls: int) -> tuple[Pool, list[Told]]:
    """The whole walk: beside neighbours, or, when their ids are known from elsewhere, without any."""
    elsewhere = itertools.count(10**12)
    async with open_rig(folder) as rig, live_server(rig) as server:
        await rig.tenant()
        ours = await furnish(server, DEFAULT_TENANT, OURS, "plain")
        beside = theirs is None
        if theirs is None:
            with other_ids(rig, elsewhere):
                await rig.tenant(NEIGHBOUR)
                theirs = await furnish(server, NEIGHBOUR, THEIRS, SECRET)
        callers = [
            await server.client(f"{OURS}-alice"),
            await server.client("", KeyKind.SERVICE, speaks_as=f"{OURS}-alice"),
            await server.client("", KeyKind.ADMIN),
            await server.client("", KeyKind.ADMIN, speaks_as=f"{OURS}-alice"),
            await person(server, f"{OURS}-ann"),
        ]
        walk, told = Walk(theirs, ours), list[Told]()
        for number in range(calls):
            rig.clock.pass_by(seconds=1)
            if beside and number % BUSY_EVERY == 0:
                with other_ids(rig, elsewhere):
                    await bustle(server, number)
            if number % SWEEP_EVERY == 0:
                await sweep(rig.team)
            route, path, body, headers = walk.next(number)
            client = walk.random.choice(callers)
            answer = await called(client, route, path, body, headers)
            asked = f"{route.method} {path} {body} {headers} by {callers.index(client)}"
            said = answer.body.replace(b":%d" % server.listener.port, b":0")
            told.append(Told(asked, answer.status, tuple(sorted(answer.headers.items())), said))
        return theirs, told


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pool, list[Told], list[Told]]:
    """Both worlds, for all that is asked about them."""
    patch = pytest.MonkeyPatch()
    patch.setattr(api, "_REFUSAL_SECONDS", 0)
    folder = tmp_path_factory.mktemp("worlds")
    for name in ("beside", "alone"):
        (folder / name).mkdir()
    theirs, beside = asyncio.run(world(folder / "beside", None, CALLS))
    _, alone = asyncio.run(world(folder / "alone", theirs, CALLS))
    patch.undo()
    return theirs, beside, alone


class Names:
    """Ids and hashes by the order in which they are told: what all tenants share is how many were drawn before."""

    def __init__(self, asked: list[Told]) -> None:
        self.asked = "\n".join(one.asked for one in asked)
        self.known: dict[bytes, bytes] = {}

    def of(self, one: Told) -> Told:
        headers = tuple((name, value) for name, value in one.headers if name not in ("content-length", "date"))
        said = repr(headers).encode() + one.body
        return one._replace(
            headers=(),
            # The tools of an agent show the end of an id.
            body=re.sub(rb"(?<=_)[0-9]{26,43}|(?<=\[)[0-9]{4}(?=\])|\b[0-9a-f]{64,}\b|sha256:[\w-]+", self._name, said),
        )

    def _name(self, found: re.Match[bytes]) -> bytes:
        # What the callers know beforehand stays as it is.
        if found[0].decode() in self.asked:
            return found[0]
        return self.known.setdefault(found[0], b"#%d" % len(self.known))


def test_no_byte_of_another_tenant_comes_out_whatever_is_asked(
    worlds: tuple[Pool, list[Told], list[Told]],
) -> None:
    # A84 A43
    theirs, beside, _ = worlds
    known = {one.encode() for ids in theirs.values() for one in ids}
    # Every id that the neighbours ever drew has this form; those that nobody was told of come back from nowhere.
    drawn = re.compile(rb"[a-z]+_0{13}1[0-9]{12}")

    found = []
    for one in beside:
        everything = one.body + repr(one.headers).encode()
        if SECRET.encode() in everything or set(drawn.findall(everything)) - known:
            found.append((one.asked, one.body[:300]))

    assert len([one for one in known if drawn.fullmatch(one)]) > 15
    assert found == []


def test_what_is_another_tenants_is_told_from_nothing_by_no_answer(
    worlds: tuple[Pool, list[Told], list[Told]],
) -> None:
    # A84 A44
    _, beside, alone = worlds

    here, there = Names(beside), Names(alone)
    # What is the same for every server, such as /docs with its examples, is the same here without naming its ids.
    told = [
        (one._replace(body=b""), other._replace(body=b"")) if one.body == other.body else (one, other)
        for one, other in zip(beside, alone, strict=True)
    ]
    pairs = [(here.of(one), there.of(other)) for one, other in told]
    different = [(one, other) for one, other in pairs if one != other]

    print(f"{len(beside)} calls, answers {sorted(Counter(one.status for one in beside).items())}")
    assert [
        (one.asked, one.status, one.body[:300], other.status, other.body[:300]) for one, other in different[:5]
    ] == []
    assert len(beside) == CALLS
    # It was a walk through all of the house: many doors were shut, and some were not.
    statuses = Counter(one.status for one in beside)
    assert statuses[404] > CALLS / 10
    assert statuses[200] + statuses[201] > CALLS / 10
    assert not [status for status in statuses if status >= 500 and status != 504]


def test_every_route_was_walked_with_the_ids_of_another(worlds: tuple[Pool, list[Told], list[Told]]) -> None:
    # A84
    _, beside, _ = worlds
    walked = {one.asked.split("?")[0].split(" ")[0] for one in beside}

    assert walked >= {"GET", "POST", "PUT", "PATCH", "DELETE"}
    for method, path in BODIES:
        shape = re.compile(rf"{method} " + re.sub(r"\\\{\w+\\\}", "[^/? ]+", re.escape(path)) + r"[ ?]")
        assert any(shape.match(one.asked) for one in beside), path


def test_a_route_with_a_body_has_one_here() -> None:
    # A84: a new route has to be added to the walk
    without = {
        (one.method, one.path)
        for one in all_routes()
        if one.body is not None and not one.body_optional and (one.method, one.path) not in BODIES
    }

    assert without <= {
        ("POST", "/agents/{agent_id}/identity/challenge"),
        ("POST", "/agents/{agent_id}/identity/rotate"),
        ("POST", "/intents/{intent_id}/access-requests"),
        ("POST", "/intents/{intent_id}/access-requests/{request_id}/approve"),
        ("POST", "/intents/{intent_id}/access-requests/{request_id}/deny"),
    }
