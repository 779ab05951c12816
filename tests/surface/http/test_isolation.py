"""Under `cross_org: false` no text of an agent reaches an agent of another org unit, whatever field it is put into.

The walk takes its routes and fields from the API's own description, so a new route or field is tried by itself: alice
(sales) writes a mark of its own into every field of every route, on her intent, on one of the tenant and on one of
engineering. Then bob (engineering) calls every route with every id there is, and follows every stream. No mark may be
in any answer. The same walk by amy, a colleague of alice, finds them: so it would have found a leak.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from parley.surfaces.http import api, openapi
from parley.surfaces.http.route import Route
from parley.surfaces.http.server import all_routes
from tests.conformance.ocip.governed import admin_of, person, place, put_policy, refused
from tests.rigs.team import Answer, Client, LiveServer, with_server

pytestmark = pytest.mark.slow

ROUTES = [route for route in all_routes() if KeyKind.AGENT in route.scope]
SCHEMAS: dict[str, Any] = openapi.document(ROUTES)["components"]["schemas"]
MARK = "zzmark"
Pool = dict[str, list[str]]

# What each body needs to be accepted, besides the field that is tried. Names in braces are ids of the pool.
NEEDED: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/agents/register"): {"agent_id": "alice"},
    ("PATCH", "/agents/{agent_id}/status"): {"status": "active"},
    ("PUT", "/agents/{agent_id}/bookmarks/{name}"): {"holder": "hold_1", "position": 0},
    ("POST", "/intents/{intent_id}/channels"): {"name": "{fresh}"},
    ("POST", "/agents/{agent_id}/identity"): {"public_key": "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
    ("POST", "/intents"): {"title": "{fresh}", "access": "open"},
    ("POST", "/intents/{intent_id}/state"): {"patches": [{"op": "set", "path": "a", "value": 1}]},
    ("POST", "/intents/{intent_id}/status"): {"status": "{status}"},
    ("POST", "/intents/{intent_id}/agents"): {"agent_id": "bob"},
    ("POST", "/intents/{intent_id}/events"): {"event_type": "comment"},
    ("PUT", "/intents/{intent_id}/acl"): {"default_policy": "open"},
    ("POST", "/intents/{intent_id}/acl/entries"): {"principal_id": "bob"},
    ("POST", "/tasks"): {"intent_id": "{intent_id}", "name": "{fresh}"},
    ("POST", "/channels/{channel_id}/messages"): {"payload": {"text": "hello"}},
    ("POST", "/channels/{channel_id}/timers"): {"payload": {"text": "hello"}, "after_seconds": 60},
    ("PATCH", "/channels/{channel_id}/messages/{message_id}"): {"status": "read"},
    ("POST", "/channels/{channel_id}/batch"): {"messages": [{"payload": {}}]},
    ("POST", "/channels/{channel_id}/ask"): {"to": "bob", "payload": {}, "timeout": 0.01},
    ("POST", "/intents/{intent_id}/channels/{name}/messages"): {"payload": {"text": "hello"}},
    ("POST", "/subscriptions"): {"intent_id": "{intent_id}"},
    ("POST", "/approvals/{approval_id}/decision"): {"decision": "reject"},
    ("POST", "/mcp"): {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "send", "arguments": {"to": "bob", "text": "{mark}"}},
    },
}
# Values that may be put where a schema lists them, so that the field beside them is tried in all of them.
NESTED: dict[str, Any] = {
    "patches": [{"op": "set", "path": "{mark}", "value": "{mark}"}],
    "entries": [{"principal_id": "bob", "permission": "read", "reason": "{mark}"}],
    "messages": [{"payload": {"{mark}": "{mark}"}, "to": "bob"}, {"payload": {"{mark}": "{mark}"}}],
}
# Routes that take no text of alice here: nothing was asked of her, it needs a proof, or it is already decided.
NOTHING_TO_WRITE = {
    "POST /agents/{agent_id}/identity/challenge",
    "POST /agents/{agent_id}/identity/verify",
    "POST /agents/{agent_id}/identity/rotate",
    "POST /channels/{channel_id}/messages/{message_id}/reply",
    "POST /channels/{channel_id}/messages/{message_id}/forward",
    "PATCH /agents/{agent_id}/claims/{job_id}",
    "POST /agents/{agent_id}/dead",
    "POST /channels/{channel_id}/ask",
    "POST /exchanges/{exchange_id}/close",
    "POST /approvals/{approval_id}/decision",
    "POST /intents/{intent_id}/access-requests/{request_id}/deny",
    "PATCH /channels/{channel_id}/messages/{message_id}",
    "PATCH /subscriptions/{subscription_id}",
    "PUT /agents/{agent_id}/bookmarks/{name}",
    "POST /streams/tickets",
}
_ID = re.compile(r'"((?:intent|chan|msg|task|evt|acl|areq|sub|ckpt|exch|appr)_[0-9a-z]+)"')
_PARAMETER = {
    "intent": "intent_id",
    "chan": "channel_id",
    "msg": "message_id",
    "task": "task_id",
    "evt": "event_id",
    "acl": "entry_id",
    "areq": "request_id",
    "sub": "subscription_id",
    "ckpt": "checkpoint_id",
    "exch": "exchange_id",
    "appr": "approval_id",
}


class Walk:
    """Marks and ids, as the walk goes on."""

    def __init__(self) -> None:
        self.fresh = (f"n{number}" for number in itertools.count())
        self.marks = (f"{MARK}{number}e" for number in itertools.count())
        self.tried: dict[str, str] = {}
        self.accepted: set[str] = set()
        self.pool: Pool = {
            "agent_id": ["alice", "bob"],
            "name": ["main", "talk"],
            "scope": ["org"],
            "size": ["latest"],
            "role_id": ["ops"],
        }

    def note(self, answer: Answer) -> None:
        """Remember the ids in an answer."""
        for found in _ID.findall(answer.body.decode("utf-8", "replace")):
            ids = self.pool.setdefault(_PARAMETER[found.partition("_")[0]], [])
            if found not in ids:
                ids.append(found)

    def paths(self, route: Route, pool: Pool) -> Iterator[str]:
        """The route's path with every combination of the first and the last ids."""
        names = re.findall(r"\{(\w+)\}", route.path)
        ids = [pool.get(name, ["none"]) for name in names]
        for values in itertools.product(*(dict.fromkeys((*known[:4], *known[-6:])) for known in ids)):
            yield with_ids(route.path, dict(zip(names, values, strict=True)))


def with_ids(text: str, ids: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], "none"), text)


def filled(value: Any, walk: Walk, known: dict[str, str]) -> Any:  # noqa: ANN401  # any JSON
    """A body with its placeholders filled in."""
    if isinstance(value, dict):
        return {filled(key, walk, known): filled(inner, walk, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, walk, known) for inner in value]
    if value == "{fresh}":
        return next(walk.fresh)
    return with_ids(value, known) if isinstance(value, str) else value


def candidates(name: str, schema: dict[str, Any]) -> Iterator[Any]:
    """Values with a mark in them that a field of this schema may take."""
    if name in NESTED:
        yield NESTED[name]
        return
    options = schema.get("anyOf", [schema])
    for option in options:
        kind = option.get("type")
        if kind in ("string", None) and "$ref" not in option:
            yield "{mark}"
        if kind in ("object", None) and "$ref" not in option:
            yield {"{mark}": "{mark}"}
        if kind == "array":
            yield ["{mark}"]


async def write_everywhere(walk: Walk, client: Client, intents: list[str]) -> None:
    """A mark in every field of every route that takes a body, and in every path that names something new."""
    for route in ROUTES:
        if route.method in ("GET", "DELETE"):
            continue
        fields = SCHEMAS[route.body.__name__]["properties"] if route.body else {}
        trials = [(name, value) for name, schema in fields.items() for value in candidates(name, schema)]
        trials.append(("nothing", None))
        trials += [("path name", None)] if route.path.endswith(("{name}", "{name}/open", "{name}/messages")) else []
        for (name, value), intent_id in itertools.product(trials, intents):
            mark = next(walk.marks)
            known = {name: ids[-1] for name, ids in walk.pool.items()} | {"intent_id": intent_id, "agent_id": "alice"}
            known |= {"mark": mark, "status": "blocked", "name": mark if name == "path name" else "talk"}
            needed = NEEDED.get((route.method, route.path), {})
            body = filled(needed if value is None else {**needed, name: value}, walk, known) if route.body else None
            path = with_ids(route.path, known)
            answer = await client.request(route.method, path, body, {"If-Match": "*"})
            walk.tried[mark] = f"{route.method} {route.path} {name}"
            walk.note(answer)
            if answer.status < 300:
                walk.accepted.add(f"{route.method} {route.path}")
            if name == "reason" and route.path.endswith("/status"):  # back, so that the next one changes it, too
                await client.request(route.method, path, {"status": "active"}, {"If-Match": "*"})


async def read_everything(walk: Walk, client: Client, agent: str) -> set[str]:
    """Every mark in what a client is told: by every route with every id, by search, and on every stream."""
    told: set[str] = set()

    def look(body: bytes) -> None:
        told.update(re.findall(rf"{MARK}\d+e", body.decode("utf-8", "replace")))

    pool = {**walk.pool, "agent_id": ["alice", agent]}
    for route in sorted(ROUTES, key=lambda one: one.method == "DELETE"):
        if route.method == "DELETE" and route.path.startswith("/agents"):
            continue
        for path in walk.paths(route, pool):
            if route.streams:
                with suppress(TimeoutError):
                    async with client.events(f"{path}?last_event_id=0") as events:
                        while events.status == 200:
                            look(json.dumps((await events.next(0.15))._asdict(), default=str).encode())
                continue
            where = f"{path}?q={MARK}" if path.endswith("search") else path
            body = filled(NEEDED.get((route.method, route.path), {}), walk, {"intent_id": walk.pool["intent_id"][0]})
            if route.method == "GET":
                look((await client.get(where)).body)
            elif "bob" not in str(body):
                look((await client.request(route.method, path, body if route.body else None, {"If-Match": "*"})).body)
    return told


async def stage(server: LiveServer, walk: Walk) -> tuple[Client, Client, list[str]]:
    """alice and bob in two units, an intent of each and one of the tenant, each with a channel, and all of it known."""
    alice = await place(server, "alice", org_unit="sales", user_id="ann")
    bob = await place(server, "bob", org_unit="engineering", user_id="ben")
    admin = await admin_of(server)
    ids = []
    for client in (alice, bob, admin):
        made = await client.post("/intents", {"title": "work", "status": "active", "access": "open"})
        assert made.status == 201, made
        ids.append(made.json["id"])
        channel = await client.post(f"/intents/{ids[-1]}/channels", {"name": "talk"})
        assert channel.status == 201, channel
        walk.note(made)
        walk.note(channel)
        walk.note(await client.post("/tasks", {"intent_id": ids[-1], "name": "part"}))
        walk.note(await client.post(f"/channels/{channel.json['id']}/messages", {"payload": {"text": "hello"}}))
    return alice, bob, ids


@pytest.mark.parametrize("reader", ["bob", "amy"])
@pytest.mark.requirement("GOV-ISOLATION-TEXT")
@with_server
async def test_no_field_of_any_route_carries_text_to_another_unit(
    server: LiveServer, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_REFUSAL_SECONDS", 0)
    walk = Walk()
    alice, bob, intents = await stage(server, walk)
    colleague = await place(server, "amy", org_unit="sales", user_id="ann")

    await write_everywhere(walk, alice, intents)
    told = await read_everything(walk, bob if reader == "bob" else colleague, reader)

    where = {walk.tried[mark] for mark in told if mark in walk.tried}
    if reader == "bob":
        assert where == set()
        writing = {f"{route.method} {route.path}" for route in ROUTES if route.body}
        assert writing - walk.accepted == NOTHING_TO_WRITE
    else:
        assert {
            "POST /intents title",
            "POST /intents description",
            "POST /intents constraints",
            "POST /intents state",
            "POST /intents/{intent_id}/state patches",
            "POST /intents/{intent_id}/status reason",
            "POST /intents/{intent_id}/events event_type",
            "POST /intents/{intent_id}/events payload",
            "POST /intents/{intent_id}/channels name",
            "POST /tasks name",
            "POST /intents/{intent_id}/acl/entries reason",
            "POST /agents/register name",
            "POST /agents/register capabilities",
            "POST /agents/register metadata",
        } <= where


# ---------------------------------------------------------------- what the rule says, one sentence each


@pytest.mark.requirement("GOV-ISOLATION-INTENT")
@with_server
async def test_an_open_intent_is_open_to_its_creators_unit_and_closed_to_the_others(server: LiveServer) -> None:
    alice = await place(server, "alice", org_unit="sales")
    amy, bob = await place(server, "amy", org_unit="sales"), await place(server, "bob", org_unit="engineering")
    await put_policy(server, "cross_org: true")
    made = (await alice.post("/intents", {"title": "t", "access": "open"})).json
    about = f"/intents/{made['id']}"

    assert (await amy.post(f"{about}/events", {"event_type": "comment"})).status == 201
    assert refused(await bob.get(about)) == (404, "not_found")
    acl = (await alice.get(f"{about}/acl")).json
    assert (acl["default_policy"], acl["org_unit"]) == ("closed", "sales")
    assert [(one["principal_type"], one["principal_id"], one["permission"]) for one in acl["entries"]] == [
        ("org_unit", "sales", "write")
    ]

    await alice.post(f"{about}/acl/entries", {"principal_id": "engineering", "principal_type": "org_unit"})

    assert (await bob.get(about)).status == 200
    assert refused(await bob.post(f"{about}/events", {"event_type": "comment"})) == (403, "forbidden")


@with_server
async def test_with_one_unit_an_open_intent_is_open_to_all(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    made = (await alice.post("/intents", {"title": "t", "access": "open"})).json

    assert (await bob.get(f"/intents/{made['id']}")).status == 200
    assert (await bob.get(f"/intents/{made['id']}/acl")).json["default_policy"] == "open"


@with_server
async def test_a_broadcast_on_the_intent_of_a_unit_reaches_that_unit(server: LiveServer) -> None:
    alice = await place(server, "alice", org_unit="sales")
    amy, bob = await place(server, "amy", org_unit="sales"), await place(server, "bob", org_unit="engineering")
    await put_policy(server, "cross_org: true")
    made = (await alice.post("/intents", {"title": "t", "status": "active", "access": "open"})).json
    channel = (await alice.post(f"/intents/{made['id']}/channels", {"name": "talk"})).json["id"]

    assert (await alice.post(f"/channels/{channel}/messages", {"payload": {"n": 1}})).status == 201
    assert (await alice.post(f"/channels/{channel}/messages", {"to": "amy", "payload": {"n": 2}})).status == 201

    assert [one["payload"] for one in (await amy.get(f"/channels/{channel}/messages")).json] == [{"n": 1}, {"n": 2}]
    assert (await bob.get(f"/channels/{channel}/messages")).status == 404
    assert refused(await alice.post(f"/channels/{channel}/messages", {"to": "bob", "payload": {}}))[0] == 403


@pytest.mark.requirement("GOV-ISOLATION-ASSIGNED")
@with_server
async def test_an_assignment_does_not_open_an_intent_to_a_unit_that_is_kept_apart(server: LiveServer) -> None:
    alice = await place(server, "alice", org_unit="sales")
    bob = await place(server, "bob", org_unit="engineering")
    made = (await alice.post("/intents", {"title": "t", "access": "open"})).json
    await alice.post(f"/intents/{made['id']}/agents", {"agent_id": "bob"})

    assert refused(await bob.get(f"/intents/{made['id']}")) == (404, "not_found")

    await put_policy(server, "cross_org: true")
    assert (await bob.get(f"/intents/{made['id']}")).status == 200


@with_server
async def test_an_intent_of_the_tenant_is_read_by_all_units_and_written_where_every_reader_may_be_told(
    server: LiveServer,
) -> None:
    alice, admin = await place(server, "alice", org_unit="sales"), await admin_of(server)
    amy, bob = await place(server, "amy", org_unit="sales"), await place(server, "bob", org_unit="engineering")
    about = f"/intents/{(await admin.post('/intents', {'title': 'news', 'access': 'open'})).json['id']}"
    comment = {"event_type": "comment", "payload": {"a": 1}}

    assert [(await one.get(about)).status for one in (alice, bob)] == [200, 200]
    assert refused(await alice.post(f"{about}/events", comment)) == (403, "forbidden")

    entries = [{"principal_id": name, "permission": "admin"} for name in ("alice", "amy")]
    await admin.request("PUT", f"{about}/acl", {"default_policy": "closed", "entries": entries})
    assert (await alice.post(f"{about}/events", comment)).status == 201
    assert len((await amy.get(f"{about}/events")).json) >= 2
    assert refused(await alice.post(f"{about}/acl/entries", {"principal_id": "bob"})) == (403, "forbidden")


@pytest.mark.requirement("GOV-ISOLATION-ASSIGNED")
@with_server
async def test_an_agent_of_another_unit_is_listed_by_name_with_what_an_admin_has_set(server: LiveServer) -> None:
    alice = await place(server, "alice", org_unit="sales")
    bob, admin = await place(server, "bob", org_unit="engineering"), await admin_of(server)
    about: dict[str, Any] = {"name": "Alice", "capabilities": ["leak"], "metadata": {"note": "leak"}}
    before = (await bob.get("/agents/alice/record")).json
    about |= {"capacity": {"max_concurrent_tasks": 31337}, "drain_timeout_seconds": 4242}
    about |= {"heartbeat_config": {"interval_seconds": 11, "unhealthy_after_seconds": 22, "dead_after_seconds": 33}}
    assert (await alice.post("/agents/register", {"agent_id": "alice", **about})).status == 200

    for shown in ((await bob.get("/agents/alice/record")).json, (await bob.get("/agents")).json[0]):
        assert (shown["agent_id"], shown["org_unit"], shown["status"]) == ("alice", "sales", "active")
        assert (shown["name"], shown["capabilities"], shown["metadata"]) == (None, [], {})
        assert {**shown, "version": before["version"]} == before  # numbers can be read as letters
    assert (await bob.get("/agents", capability="leak")).json == []
    assert (await admin.get("/agents/alice/record")).json["metadata"] == {"note": "leak"}
    assert (await alice.get("/agents/alice/record")).json["name"] == "Alice"


@with_server
async def test_a_person_belongs_to_the_unit_of_its_agents(server: LiveServer) -> None:
    alice = await place(server, "alice", org_unit="sales", user_id="ann")
    await place(server, "bob", org_unit="engineering", user_id="ben")
    ann = await person(server, "ann")
    made = (await alice.post("/intents", {"title": "t", "status": "active", "access": "open"})).json["id"]
    await alice.post(f"/intents/{made}/acl/entries", {"principal_id": "ann", "permission": "write"})
    channel = (await alice.post(f"/intents/{made}/channels", {"name": "talk"})).json["id"]

    answer = await ann.post(f"/channels/{channel}/messages", {"to": "alice", "payload": {"text": "well done"}})

    assert answer.status == 201


@with_server
async def test_a_message_to_a_unit_that_is_kept_apart_is_denied_by_the_rules_and_recorded(server: LiveServer) -> None:
    alice = await place(server, "alice", org_unit="sales")
    await place(server, "bob", org_unit="engineering")
    made = (await alice.post("/intents", {"title": "t", "status": "active", "access": "open"})).json["id"]
    channel = (await alice.post(f"/intents/{made}/channels", {"name": "talk"})).json["id"]

    answer = await alice.post(f"/channels/{channel}/messages", {"to": "bob", "payload": {}})

    assert refused(answer) == (403, "policy_denied")
    entries = (await (await admin_of(server)).get("/audit", side="alice")).json["entries"]
    assert entries[0]["document"]["code"] == "policy_denied"
