"""Authentication: which key calls, what it may do, and how often."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from parley.adapters.postgres.store import PostgresTeamStore
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Key, KeyKind, key_digest
from parley.domain.errors.errors import ParleyError
from parley.domain.store.limits import TeamLimits
from parley.domain.times import stamp
from parley.surfaces.entrance import authentication
from parley.surfaces.entrance.authentication import WRONG_KEY_SECONDS, Authenticator, TokenBucket
from parley.surfaces.http.api import credentials_of
from parley.surfaces.http.http1.message import Request
from parley.surfaces.http.proxies import TrustedProxies
from parley.surfaces.http.route import PUBLIC, Route
from parley.surfaces.http.server import all_routes
from tests.postgres.nodes import quiet
from tests.rigs.node import two_nodes
from tests.rigs.team import (
    CHANNEL,
    INTENT,
    Client,
    LiveServer,
    Rig,
    in_loop,
    live_server,
    open_rig,
    with_rig,
    with_server,
)

DEFAULTS = TeamLimits()
MESSAGES = f"/channels/{CHANNEL}/messages"
GUARDED = [route for route in all_routes() if route.scope != PUBLIC]
DECIDE, LIST_APPROVALS = [
    next(route for route in GUARDED if (route.method, route.path) == place)
    for place in (("POST", "/approvals/{approval_id}/decision"), ("GET", "/approvals"))
]
ONLY_ADMINS = [route for route in GUARDED if KeyKind.AGENT not in route.scope]


def path_of(route: Route) -> str:
    """A path of the route with something in every place."""
    filled = re.sub(r"\{[^}]*\}", "something", route.path)
    return filled if route.bare else f"/api/v1{filled}"


@asynccontextmanager
async def an_authenticator(
    folder: Path, limits: TeamLimits = DEFAULTS, *, limited: bool = True
) -> AsyncIterator[tuple[Rig, Authenticator]]:
    async with open_rig(folder, limits=limits) as rig:
        yield rig, Authenticator(rig.team, limited=limited, monotonic=lambda: rig.clock.uptime)


@with_server
async def test_no_wrong_revoked_or_expired_key_gets_the_same_answer(server: LiveServer) -> None:
    """A1."""
    rig = server.rig
    revoked, expired = await server.client("alice"), await server.client("bob")
    await rig.revoke("alice")
    soon = await rig.key("carol", expires_at=stamp(rig.clock.at))
    clients = [server.with_key(""), server.with_key("pk_wrong"), revoked, server.with_key(soon)]

    answers = [await client.get("/agents") for client in clients]

    assert [one.status for one in answers] == [401] * 4
    assert len({one.body for one in answers}) == 1
    assert all("www-authenticate" not in one.headers for one in answers)
    assert (await expired.get("/agents")).status == 200


@with_server
async def test_a_key_works_until_the_moment_it_expires(server: LiveServer) -> None:
    rig = server.rig
    rig.clock.pass_by(seconds=10)
    until = stamp(rig.clock.at)
    rig.clock.pass_by(seconds=-10)
    alice = server.with_key(await rig.key("alice", expires_at=until))
    assert (await alice.get("/agents")).status == 200

    rig.clock.pass_by(seconds=10)

    assert (await alice.get("/agents")).status == 401


@with_server
async def test_a_bearer_token_is_a_key_too(server: LiveServer) -> None:
    secret = await server.rig.key("alice")

    answer = await server.with_key("").get("/agents", headers={"Authorization": f"Bearer {secret}"})

    assert answer.status == 200


@with_server
async def test_the_sender_follows_from_the_key(server: LiveServer) -> None:
    """A2."""
    alice = await server.client("alice")
    body = {"payload": {}, "sender": "bob"}

    refused = await alice.post("/channels/chan_1/messages", body)
    disguised = await server.with_key(await server.rig.key("alice"), "bob").get("/agents")
    plain = await alice.post("/channels/chan_1/messages", {"payload": {}})

    assert (refused.status, refused.code) == (403, "sender_mismatch")
    assert (disguised.status, disguised.code) == (403, "sender_mismatch")
    assert plain.json["sender"] == "alice"


@with_server
async def test_one_service_key_speaks_for_its_whole_fleet(server: LiveServer) -> None:
    fleet = await server.client(kind=KeyKind.SERVICE, speaks_as="alice")

    by_header = await fleet.post("/channels/chan_1/messages", {"payload": {}})
    by_body = await fleet.post("/channels/chan_1/messages", {"payload": {}, "sender": "bob"})

    assert (by_header.json["sender"], by_body.json["sender"]) == ("alice", "bob")


@with_server
async def test_nobody_speaks_as_the_system(server: LiveServer) -> None:
    fleet = await server.client(kind=KeyKind.SERVICE)

    assert (await fleet.post("/channels/chan_1/messages", {"payload": {}, "sender": "system"})).status == 422
    assert (await fleet.get("/agents", headers={"X-Agent-ID": "system"})).status == 422
    assert (await fleet.get("/agents", headers={"X-Agent-ID": "a b"})).status == 422


@with_server
async def test_a_key_in_the_query_is_no_key(server: LiveServer) -> None:
    """A5."""
    secret = await server.rig.key("alice")
    nobody = server.with_key("")

    for name in ("api_key", "x-api-key", "key", "token"):
        assert (await nobody.get(f"/agents?{name}={quote(secret)}")).status == 401


@in_loop
async def test_who_guesses_keys_is_slowed_down_and_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6."""
    monkeypatch.setattr(authentication, "WRONG_KEY_SECONDS", 0)
    async with an_authenticator(tmp_path) as (rig, authenticator):
        await rig.key("alice")
        codes: dict[str, int] = {}
        for number in range(1_000):
            guess = Request("GET", "/", headers={b"x-api-key": b"pk_%043d" % number}, peer="192.0.2.1")
            code = await refusal(authenticator, guess)
            codes[code] = codes.get(code, 0) + 1

        assert codes == {"unauthorized": 10, "rate_limited": 990}
        other = Request("GET", "/", headers={b"x-api-key": b"pk_x"}, peer="192.0.2.2")
        assert await refusal(authenticator, other) == "unauthorized"
        rig.clock.pass_by(seconds=6)
        again = Request("GET", "/", headers={b"x-api-key": b"pk_x"}, peer="192.0.2.1")
        assert await refusal(authenticator, again) == "unauthorized"


@in_loop
async def test_who_guesses_does_not_lock_out_who_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "WRONG_KEY_SECONDS", 0)
    async with an_authenticator(tmp_path) as (rig, authenticator):
        secret = await rig.key("alice")
        for _ in range(50):
            await refusal(authenticator, Request("GET", "/", headers={b"x-api-key": b"pk_x"}, peer="192.0.2.1"))

        knowing = Request("GET", "/", headers={b"x-api-key": secret.encode()}, peer="192.0.2.1")

        assert (await authenticator.caller(*credentials_of(knowing, TrustedProxies()))).agent == "alice"


@with_rig
async def test_a_key_is_looked_up_by_the_hash_of_all_of_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A7: the time an answer takes depends on a hash, so a good beginning is worth as little as a bad one."""
    secret = await rig.key("alice")
    asked: list[str] = []
    named = rig.store.find_by_name

    async def noted(kind: type[Key], tenant: str, parent: str, name: str) -> Key | None:
        asked.append(name)
        return await named(kind, tenant, parent, name)

    monkeypatch.setattr(rig.store, "find_by_name", noted)
    authenticator = Authenticator(rig.team, limited=False, monotonic=lambda: 0.0)
    almost = secret[:-1] + "?"
    for guess in (almost, "?" * len(secret)):
        assert (
            await refusal(authenticator, Request("GET", "/", headers={b"x-api-key": guess.encode()})) == "unauthorized"
        )

    assert asked == [key_digest(almost), key_digest("?" * len(secret))]


@in_loop
async def test_a_key_may_call_so_often_and_is_told_when_to_come_back(tmp_path: Path) -> None:
    limits = TeamLimits(requests_per_second=10, requests_burst=20)
    async with an_authenticator(tmp_path, limits) as (rig, authenticator):
        alice = Request("GET", "/", headers={b"x-api-key": (await rig.key("alice")).encode()})
        bob = Request("GET", "/", headers={b"x-api-key": (await rig.key("bob")).encode()})
        codes = [await refusal(authenticator, alice) for _ in range(25)]

        assert codes == [""] * 20 + ["rate_limited"] * 5
        assert await refusal(authenticator, bob) == ""
        rig.clock.pass_by(seconds=1)
        assert [await refusal(authenticator, alice) for _ in range(11)] == [""] * 10 + ["rate_limited"]


@in_loop
async def test_on_this_machine_a_key_may_call_as_often_as_it_likes(tmp_path: Path) -> None:
    limits = TeamLimits(requests_per_second=1, requests_burst=1)
    async with an_authenticator(tmp_path, limits, limited=False) as (rig, authenticator):
        alice = Request("GET", "/", headers={b"x-api-key": (await rig.key("alice")).encode()})

        assert {await refusal(authenticator, alice) for _ in range(100)} == {""}


async def persons_key(rig: Rig, number: int, user: str) -> str:
    """The secret of one of a person's keys."""
    secret = f"secret {number} of {user}"
    key = Key(
        id=f"key_{user}_{number}",
        tenant_id=NO_TENANT,
        owner=DEFAULT_TENANT,
        key_kind=KeyKind.HUMAN,
        user_id=user,
        digest=key_digest(secret),
        created_at=rig.at(),
    )
    await rig.put(key)
    return secret


@in_loop
async def test_a_person_decides_so_often_a_minute_by_whichever_key_and_reads_on(tmp_path: Path) -> None:
    # S16
    async with an_authenticator(tmp_path) as (rig, authenticator):
        first, second = await persons_key(rig, 1, "ann"), await persons_key(rig, 2, "ann")
        other = await persons_key(rig, 1, "bob")

        async def code_of(operation: Route, secret: str) -> str:
            try:
                await authenticator.admit(operation, secret, "", "10.0.0.1")
            except ParleyError as error:
                return error.code
            return ""

        codes = [await code_of(DECIDE, secret) for secret in (first, second) * 16]
        assert codes == [""] * 30 + ["rate_limited"] * 2
        assert [await code_of(LIST_APPROVALS, first), await code_of(DECIDE, other)] == ["", ""]

        rig.clock.pass_by(seconds=2)
        assert [await code_of(DECIDE, second) for _ in range(2)] == ["", "rate_limited"]


def test_a_bucket_fills_up_to_its_brim_and_no_further() -> None:
    bucket = TokenBucket(rate=2.0, burst=3.0, now=0.0)

    assert [bucket.take(0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert [bucket.take(100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


async def knock(client: Client, route: Route) -> tuple[str, int, str]:
    """What a route says to a caller; on a connection of its own, because some answer slowly on purpose."""
    answer = await client.request(route.method, path_of(route), {} if route.body else None)
    return f"{route.method} {route.path}", answer.status, answer.code


@with_server
async def test_every_guarded_route_needs_a_key(server: LiveServer) -> None:
    server.rig.team.limits = server.rig.limits._replace(failed_logins_per_minute=100_000)

    answers = await asyncio.gather(*(knock(server.with_key(""), route) for route in GUARDED))

    assert len(answers) > 30
    assert [one for one in answers if one[1:] != (401, "unauthorized")] == []


@with_server
async def test_an_agents_key_is_refused_on_every_admin_route(server: LiveServer) -> None:
    """A75."""
    keys = {kind: await server.rig.key("alice" if kind is KeyKind.AGENT else "", kind) for kind in KeyKind}
    forbidden = [(keys[kind], route) for route in GUARDED for kind in KeyKind if kind not in route.scope]

    answers = await asyncio.gather(*(knock(server.with_key(secret), route) for secret, route in forbidden))

    assert {"/keys", "/tenants", "/roles/{role_id}/holders"} <= {route.path for route in ONLY_ADMINS}
    assert [one for one in answers if one[1:] != (403, "scope_required")] == []


@with_server
async def test_every_act_is_written_down_with_its_actor_and_key(server: LiveServer) -> None:
    """A42."""
    rig = server.rig
    admin, alice = await server.client(kind=KeyKind.ADMIN), await server.client("alice")
    made = (await admin.post("/keys", {"kind": "service", "user_id": "eva@example.com"})).json
    await acts(admin, alice, server.with_key(made["key"]))

    written = [one.entry for one in await rig.store.entries("default", 0, 100)]

    assert len(written) >= 6
    assert all(one.agent for one in written)
    assert all(one.facts.get("key") for one in written)
    assert "user:eva@example.com" in {one.agent for one in written}


async def acts(admin: Client, alice: Client, eva: Client) -> None:
    await alice.post("/agents/register", {"agent_id": "alice"})
    await eva.post("/agents/register", {"agent_id": "bob", "role_id": "r"})
    await admin.post("/roles/r/holders", {"agent_id": "alice"})
    await admin.delete("/roles/r/holders/alice")
    await eva.delete("/agents/bob")


async def refusal(authenticator: Authenticator, request: Request) -> str:
    """The code of the refusal, empty for none."""
    try:
        await authenticator.caller(*credentials_of(request, TrustedProxies()))
    except ParleyError as error:
        return error.code
    return ""


# ---------------------------------------------------------------- servers that share a store


@pytest.mark.both_stores
@in_loop
async def test_a_key_that_is_made_or_revoked_at_one_server_is_so_at_the_other_at_once(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        authenticator = Authenticator(b.team, limited=False, monotonic=lambda: b.clock.uptime)
        for agent in ("alice", "bob"):
            request = Request("GET", "/", headers={b"x-api-key": (await a.key(agent)).encode()})

            assert (await authenticator.caller(*credentials_of(request, TrustedProxies()))).agent == agent
            await a.revoke(agent)
            assert await refusal(authenticator, request) == "unauthorized"


@pytest.mark.both_stores
@pytest.mark.parametrize("body", [{"message_type": "notify", "payload": {}}, {"payload": 3}])
@in_loop
async def test_a_known_sender_whose_key_another_server_revoked_posts_nothing_more(
    tmp_path: Path, body: dict[str, object]
) -> None:
    async with two_nodes(tmp_path) as (a, b), live_server(b) as server:
        await a.intent()
        await a.channel()
        alice = server.with_key(await a.key("alice"))
        assert isinstance(b.store, PostgresTeamStore)
        await quiet(b.store)  # nobody tells it
        note = {"message_type": "notify", "payload": {}}
        answers = [await alice.post(MESSAGES, note) for _ in range(3)]
        asked = counted_catch_ups(b.store)
        answers.append(await alice.post(MESSAGES, note))
        assert ([answer.status for answer in answers], asked) == ([201] * 4, [])  # it is known, and was not asked for

        await a.revoke("alice")
        refused = await alice.post(MESSAGES, body)

        assert (refused.status, refused.code) == (401, "unauthorized")
        await a.store.catch_up(DEFAULT_TENANT)
        assert (await a.store.tally(DEFAULT_TENANT, CHANNEL)).total == 4


def counted_catch_ups(store: PostgresTeamStore) -> list[tuple[str, ...]]:
    """Grows with each request that asks what other nodes did."""
    asked: list[tuple[str, ...]] = []
    catch_up = store.catch_up

    async def counting(*tenants: str) -> None:
        asked.append(tenants)
        await catch_up(*tenants)

    store.catch_up = counting  # type: ignore[method-assign]
    return asked


@with_server
async def test_an_address_that_guesses_gets_one_answer_a_second_and_its_neighbours_are_not_held_up(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    guesser, alice = server.with_key("pk_wrong"), await server.client("alice")
    most = server.rig.limits.failed_logins_per_minute
    assert [(await guesser.get("/agents")).status for _ in range(most)] == [401] * most

    monkeypatch.setattr(authentication, "asyncio", SimpleNamespace(sleep=wait))
    refused = await guesser.get("/agents")

    assert (refused.status, waited) == (429, [WRONG_KEY_SECONDS])
    assert (await alice.get("/agents")).status == 200
    assert waited == [WRONG_KEY_SECONDS]


@pytest.mark.parametrize("kind", [KeyKind.SERVICE, KeyKind.ADMIN])
@with_server
async def test_a_key_of_the_tenant_speaks_and_acts_under_no_persons_name(server: LiveServer, kind: KeyKind) -> None:
    admin, client = await server.client("", KeyKind.ADMIN), await server.client("", kind)
    as_ann = {**client.headers, "X-Agent-ID": "ann"}
    note = {"to": "alice", "message_type": "notify", "payload": {}}
    assert (await client.post(MESSAGES, {**note, "sender": "ann"})).status == 201  # an agent, so far
    answer = await admin.post("/keys", {"kind": "human", "user_id": "ann"})
    person = server.with_key(answer.json["key"])

    answers = [
        await client.post(MESSAGES, {**note, "sender": "ann"}),
        await client.post(MESSAGES, note, as_ann),
        await client.post(f"/channels/{CHANNEL}/batch", {"messages": [{**note, "sender": "ann"}]}),
        await client.post(f"/channels/{CHANNEL}/ask", {"to": "alice", "payload": {}, "sender": "ann", "timeout": 1}),
        await client.post("/intents", {"title": "Launch", "created_by": "ann"}),
        await client.post(f"/intents/{INTENT}/channels", {"name": "goals", "created_by": "ann"}),
        await client.post(f"/intents/{INTENT}/events", {"event_type": "note", "actor": "ann", "payload": {}}),
        await client.post("/subscriptions", {"intent_id": INTENT, "subscriber_id": "ann"}),
        await client.get(MESSAGES, headers=as_ann),
    ]

    assert [(one.status, one.code) for one in answers] == [(403, "sender_mismatch")] * len(answers)
    assert "ann is a person" in answers[0].json["detail"]
    assert (await person.post(MESSAGES, note)).status == 201
