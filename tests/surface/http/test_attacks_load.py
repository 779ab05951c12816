"""Attacks by quantity: too many, too long, too often; and that one who does it does not take the others with them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from parley.adapters.postgres import cache as tenancy
from parley.adapters.postgres import reads as team_reads
from parley.adapters.postgres.store import PostgresTeamStore
from parley.adapters.sqlite.team import reads as file_reads
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.app.team.channels import reading
from parley.app.team.channels import streams as following
from parley.app.team.state.waits import Waits
from parley.domain.channel.channel import Channel, Options
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.team import CircularWait
from parley.domain.message.message import Pattern
from parley.domain.record import Record
from parley.domain.store.changes import Query, ReaderPost, TeamChanges
from parley.domain.store.limits import TeamLimits
from parley.ports.team import TeamStore
from parley.surfaces.entrance.authentication import Authenticator
from parley.surfaces.http.routes import streams
from tests.contract.team_store import a_post
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, Rig, in_loop, open_rig, with_rig, with_server
from tests.surface.http.attack import nothing_happens, refusal

PLACE = f"/channels/{CHANNEL}/messages"


# ---------------------------------------------------------------- A69: quotas, at the last that fits and the next one


async def made(client: Client, method: str, path: str, bodies: list[dict[str, object]]) -> list[tuple[int, str]]:
    """What becomes of each, with the code of a refusal."""
    found = []
    for body in bodies:
        answer = await client.request(method, path, body)
        found.append(refusal(answer) if answer.status >= 400 else (answer.status, ""))
    return found


def three(**fields: Callable[[int], object] | object) -> list[dict[str, object]]:
    """Three bodies; what can be called is given the number."""
    return [{name: one(n) if callable(one) else one for name, one in fields.items()} for n in range(3)]


QUOTAS: dict[str, tuple[TeamLimits, str, list[dict[str, object]], int]] = {
    "A69-channels": (
        TeamLimits(channels_per_intent=3),  # the channel that is there already is the first
        f"/intents/{INTENT}/channels",
        three(name=lambda n: f"c{n}"),
        201,
    ),
    "A69-intents": (TeamLimits(intents_per_tenant=3), "/intents", three(title="x"), 201),
    "A69-keys": (TeamLimits(keys_per_tenant=3), "/keys", three(kind="service"), 201),
    "A69-webhooks": (TeamLimits(webhooks_per_tenant=2), "/subscriptions", three(webhook_url=None), 201),
    "A69-agents": (TeamLimits(agents_per_tenant=2), "/agents/register", three(agent_id=lambda n: f"a{n}"), 200),
    "A69-tasks": (TeamLimits(tasks_per_intent=2), "/tasks", three(intent_id=INTENT, name="x"), 201),
    "A69-assigned": (TeamLimits(members=2), f"/intents/{INTENT}/agents", three(agent_id=lambda n: f"a{n}"), 200),
}


@pytest.mark.parametrize(("limits", "path", "bodies", "status"), QUOTAS.values(), ids=QUOTAS)
@with_server
async def test_of_everything_there_are_so_many_and_not_one_more(
    server: LiveServer, limits: TeamLimits, path: str, bodies: list[dict[str, object]], status: int
) -> None:
    # A69
    server.rig.team.limits = limits
    admin = await server.client(kind=KeyKind.ADMIN)

    assert await made(admin, "POST", path, bodies) == [(status, ""), (status, ""), (409, "quota_exceeded")]


@with_server
async def test_a_tenant_that_is_full_leaves_another_its_room(server: LiveServer) -> None:
    # A69
    server.rig.team.limits = TeamLimits(intents_per_tenant=1)
    alice, foreign = await server.client("alice"), await server.client("alice", tenant="other")

    assert refusal(await alice.post("/intents", {"title": "x"})) == (409, "quota_exceeded")
    assert (await foreign.post("/intents", {"title": "x"})).status == 201


@with_server
async def test_members_are_added_up_to_their_number_and_no_further(server: LiveServer) -> None:
    # A69
    alice = await server.client("alice")
    path = f"/channels/{CHANNEL}"

    full = await alice.patch(path, {"members": [f"a{n}" for n in range(255)]})
    one_more = await alice.patch(path, {"add_members": ["one-more"]})

    assert (full.status, len(full.json["members"])) == (200, 256)
    assert refusal(one_more) == (422, "invalid")


@pytest.mark.parametrize(
    ("path", "fits", "too_much"),
    [
        (f"/channels/{CHANNEL}/batch", {"messages": [{}] * 100}, {"messages": [{}] * 101}),
        ("/intents", {"title": "x" * 500}, {"title": "x" * 501}),
        (
            f"/intents/{INTENT}/access-requests",
            {"principal_id": "alice", "reason": "x" * 2000},
            {"principal_id": "alice", "reason": "x" * 2001},
        ),
        (
            f"/intents/{INTENT}/events",
            {"event_type": "c" * 64},
            {"event_type": "c" * 65},
        ),
        (
            "/agents/register",
            {"agent_id": "alice", "capabilities": [str(n) for n in range(256)]},
            {"agent_id": "alice", "capabilities": [str(n) for n in range(257)]},
        ),
    ],
)
@with_server
async def test_a_body_holds_so_much_and_not_one_more(
    server: LiveServer, path: str, fits: object, too_much: object
) -> None:
    # A69
    alice = await server.client("alice")

    assert (await alice.post(path, fits)).status < 300
    assert refusal(await alice.post(path, too_much)) == (422, "invalid")


@pytest.mark.parametrize(("count", "status"), [(1000, 200), (1001, 422)])
@with_server
async def test_an_access_list_has_a_thousand_entries(server: LiveServer, count: int, status: int) -> None:
    # A69
    server.rig.team.limits = TeamLimits(payload_keys=10_000)
    alice = await server.client("alice")
    entries = [{"principal_id": f"a{n}"} for n in range(count)]

    answer = await alice.request("PUT", f"/intents/{INTENT}/acl", {"entries": entries})

    assert answer.status == status


@with_server
async def test_a_state_grows_no_larger_than_one_request(server: LiveServer) -> None:
    # A69: patch by patch
    alice = await server.client("alice")
    answers = []
    for n in range(5):
        patch = {"op": "set", "path": f"p{n}", "value": "x" * 60_000}
        answers.append(await alice.post(f"/intents/{INTENT}/state", {"patches": [patch]}, {"If-Match": str(n + 1)}))

    assert [one.status for one in answers] == [200, 200, 200, 200, 422]
    assert refusal(answers[-1]) == (422, "invalid")


# ---------------------------------------------------------------- A71: one tenant does not stop another


@pytest.mark.both_stores
@with_server
async def test_who_searches_without_end_keeps_no_other_reader_waiting(server: LiveServer) -> None:
    # A71
    rig = server.rig
    await rig.intent("intent_9", tenant="other", created_by="bob")
    busy, other = await server.client("alice"), await server.client("bob", tenant="other")

    async with a_search_without_end(rig.store):
        searching = asyncio.ensure_future(busy.get("/messages/search", q="x"))
        await asyncio.sleep(0)
        # None of this is known without a look at the store.
        known_to(rig.store, "other").clear()
        assert (await other.get("/intents")).status == 200
        assert (await other.post("/intents/intent_9/channels", {"name": "c"})).status == 201
        assert not searching.done()
    assert (await searching).json == []


@asynccontextmanager
async def a_search_without_end(store: TeamStore) -> AsyncIterator[None]:
    """A tenant's searches are made one at a time: this one takes until the end of the block."""
    if isinstance(store, PostgresTeamStore):
        async with store._search_locks.setdefault(DEFAULT_TENANT, asyncio.Lock()):
            yield
        return
    assert isinstance(store, SqliteTeamStore)
    go_on = threading.Event()
    blocked = store._searcher.submit(go_on.wait)
    try:
        yield
    finally:
        go_on.set()
    assert blocked.result()


def known_to(store: TeamStore, tenant: str) -> dict[tuple[str, str, str], Record | None]:
    """The records that a store holds in memory, at least those of a tenant."""
    if isinstance(store, SqliteTeamStore):
        return store._cache.records
    assert isinstance(store, PostgresTeamStore)
    tenancy = store.follower.find_cache(tenant)
    assert tenancy is not None
    return tenancy.records


@in_loop
async def test_a_key_that_calls_too_often_slows_down_itself_alone(tmp_path: Path) -> None:
    # A71
    async with open_rig(tmp_path, limits=TeamLimits(requests_per_second=1, requests_burst=3)) as rig:
        authenticator = Authenticator(rig.team, limited=True, monotonic=lambda: rig.clock.uptime)
        busy, other = [await rig.key("alice", tenant=tenant) for tenant in ("default", "other")]

        assert [await admitted(authenticator, busy) for _ in range(5)] == [True, True, True, False, False]
        assert await admitted(authenticator, other)


async def admitted(authenticator: Authenticator, secret: str) -> bool:
    from parley.domain.errors.team import RateLimited

    try:
        await authenticator.caller(secret, "", "")
    except RateLimited:
        return False
    return True


@with_rig
async def test_a_long_list_is_read_a_piece_at_a_time_and_has_no_gap(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    # A71
    monkeypatch.setattr(reading, "_PIECE", 3)
    monkeypatch.setattr(reading, "_FIRST_BATCH", 3)
    await rig.intent()
    await rig.channel()
    for n in range(10):
        await rig.say("alice", str(n))
    read, asked = rig.store.page, list[int]()

    async def counted(tenant: str, query: Query) -> tuple[ReaderPost, ...]:
        asked.append(query.limit)
        return await read(tenant, query)

    monkeypatch.setattr(rig.store, "page", counted)
    whole = await reading.page(rig.team, rig.caller("bob"), CHANNEL, reading.MessageFilter())
    some = await reading.page(rig.team, rig.caller("bob"), CHANNEL, reading.MessageFilter(limit=7))

    assert [one.post.seq for one in whole.messages] == list(range(1, 11))
    assert [one.post.seq for one in some.messages] == list(range(1, 8))
    assert asked == [3, 3, 3, 3, 3, 3, 1]


@with_rig
async def test_what_is_evicted_while_a_list_is_read_leaves_no_gap(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    # A71
    monkeypatch.setattr(reading, "_PIECE", 3)
    monkeypatch.setattr(reading, "_FIRST_BATCH", 3)
    await rig.intent()
    await rig.channel(options=Options(max_messages=6))
    for n in range(6):
        await rig.say("alice", str(n))
    read = rig.store.page

    async def busy(tenant: str, query: Query) -> tuple[ReaderPost, ...]:
        found = await read(tenant, query)
        if query.after_seq == 0:
            for n in range(6, 11):
                await rig.say("alice", str(n))
        return found

    monkeypatch.setattr(rig.store, "page", busy)
    whole = await reading.page(rig.team, rig.caller("bob"), CHANNEL, reading.MessageFilter())

    assert [one.post.seq for one in whole.messages] == list(range(6, 12))


@with_server
async def test_a_long_list_is_one_list(server: LiveServer) -> None:
    # A71
    alice = await server.client("alice")
    for _ in range(11):
        assert (await alice.post(f"/channels/{CHANNEL}/batch", {"messages": [{"payload": {}}] * 100})).status == 201
    await server.rig.put(await with_room(server.rig))

    found = (await alice.get(PLACE)).json

    assert [one["seq"] for one in found] == list(range(101, 1101))


async def with_room(rig: Rig) -> Channel:
    found = await rig.store.get(Channel, "default", CHANNEL)
    assert found is not None
    return found


# ---------------------------------------------------------------- work that grows


def a_request(sender: str, *recipients: str, number: int = 0) -> Post:
    return a_post(f"msg_{sender}_{number}", sender=sender, pattern=Pattern.REQUEST, recipients=recipients)


@in_loop
async def test_agents_that_ask_each_other_layer_by_layer_do_not_stop_the_server() -> None:
    # A71: two to the sixtieth ways lead through here
    waits = Waits()
    for layer in range(60):
        for side in "ab":
            waits.begin("t", a_request(f"{side}{layer}", f"a{layer + 1}", f"b{layer + 1}"))

    waits.begin("t", a_request("nobody-in-a-circle", "a0", "b0"))
    waits.begin("t", a_request("a60", "first"))
    waits.begin("t", a_request("b60", "first"))

    with pytest.raises(CircularWait) as refused:
        waits.begin("t", a_request("first", "a0", "b0"))
    circle = refused.value.facts["agents"]
    assert isinstance(circle, list)
    assert (circle[0], circle[-2][1:], circle[-1], len(circle)) == ("first", "60", "first", 63)


# ---------------------------------------------------------------- memory that grows


@with_server
async def test_asking_for_what_is_not_there_fills_no_memory(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A60
    store, alice = server.rig.store, await server.client("alice")
    if isinstance(store, SqliteTeamStore):
        store._cache.max_items = 50
    monkeypatch.setattr(tenancy, "_RECORDS_LIMIT", 50)

    for n in range(120):
        assert (await alice.get(f"/channels/none{n}")).status == 404
        assert (await alice.get(f"/intents/{n}{'x' * 4000}")).status == 404

    known = known_to(store, DEFAULT_TENANT)
    assert 0 < len(known) <= 60
    assert max(len(record_id) for _, _, record_id in known) <= 128
    assert (await alice.post(PLACE, {})).status == 201


@with_server
async def test_what_was_asked_is_remembered_without_what_it_says(server: LiveServer) -> None:
    # A60
    alice = await server.client("alice")
    sent = (await alice.post(PLACE, {"message_type": "request", "to": "bob", "payload": {"x": "y" * 60_000}})).json

    remembered = server.rig.team.requests._requests[sent["id"]][1]

    assert (remembered.payload, remembered.metadata) == (b"", b"")
    bob = await server.client("bob")
    assert (await bob.post(f"{PLACE}/{sent['id']}/reply", {})).json["to"] == "alice"


@with_server
async def test_what_streams_share_is_bounded_and_comes_in_pieces(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A68
    monkeypatch.setattr(streams, "_REMEMBERED_BYTES", 100_000)
    monkeypatch.setattr(streams, "_PIECE_BYTES", 50_000)
    alice, bob = await server.client("alice"), await server.client("bob")
    for n in range(20):
        await alice.post(PLACE, {"payload": {"n": n, "x": "y" * 20_000}})

    async with bob.events(f"/subscribe/channels/{CHANNEL}", last_event_id="0") as events:
        sizes: list[int] = []
        while sum(sizes) < 20 * 20_000:
            sizes.append(len(await events.connection.chunk()))

    assert max(sizes) < 80_000


def small_portions(patch: pytest.MonkeyPatch, size: int = 5_000) -> None:
    """Of either store, which has its size in its queries."""
    patch.setattr(file_reads, "FEED_BYTES", size)
    for name in ("FEED_POSTS", "FEED_EVENTS"):
        patch.setattr(team_reads, name, getattr(team_reads, name).replace(f"{team_reads.FEED_BYTES}", f"{size}"))
    patch.setattr(team_reads, "FEED_BYTES", size)


@with_rig
async def test_a_feed_of_long_messages_comes_in_portions_without_a_gap(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A68: each stream holds its portion until its reader has taken it
    small_portions(monkeypatch)
    await rig.intent()
    await rig.channel()
    for n in range(12):
        await rig.say("alice", "x" * (3_000 if n % 3 else 10))
        event = rig.team.event(INTENT, "comment", "alice", b'{"text":"%b"}' % (b"y" * (n * 300)))
        await rig.store.commit(TeamChanges("default", events=(event,)))

    fed: list[int] = []
    longest = 0
    while portion := await rig.store.feed("default", fed[-1] if fed else 0):
        fed += [one.position for one in portion]
        longest = max(longest, len(portion))

    assert fed == list(range(1, 25))
    assert longest < 12
    async with asyncio.timeout(30):
        caught: list[int] = []
        await rig.key("bob")
        async for batch in following.follow(rig.team, rig.caller("bob"), following.Followed(intent_id=INTENT), 0):
            caught += [one.position for one in batch.items] if batch else []
            if len(caught) == 24:
                break
    assert caught == fed


def test_frames_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # A68
    monkeypatch.setattr(streams, "_REMEMBERED_BYTES", 10_000)
    openings = streams.Openings()
    for n in range(100):
        post = a_post(f"msg_{n}")._replace(position=n, payload=b'{"x":"%b"}' % (b"y" * 1000))
        list(openings.pieces("t", [FeedItem.of_post(post)], upper=False))

    assert sum(map(len, openings.frames.values())) < 12_000


# ---------------------------------------------------------------- connections


@with_server
async def test_who_stops_talking_is_taken_to_have_gone_and_others_go_on(server: LiveServer) -> None:
    # A60: half-closed sockets
    alice = await server.client("alice")
    async with nothing_happens(server):
        for _ in range(20):
            connection = await alice.connect()
            connection.writer.write(b"POST /api/v1" + PLACE.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Le")
            connection.writer.write_eof()
            assert await connection.reader.read() == b""
            await connection.close()


@pytest.mark.parametrize(("seconds", "status"), [(3600, 201), (3601, 422)])
@with_server
async def test_nobody_waits_longer_than_an_hour_for_an_answer(server: LiveServer, seconds: int, status: int) -> None:
    # A60
    await server.rig.intent("intent_2", policy=AccessPolicy.OPEN)
    alice, bob = await server.client("alice"), await server.client("bob")

    asking = asyncio.ensure_future(
        alice.post(f"{PLACE}?wait={seconds}", {"message_type": "request", "to": "bob", "payload": {}})
    )
    if status == 422:
        assert refusal(await asking) == (422, "invalid")
        return
    listed: list[dict[str, str]] = []
    while not listed:
        listed = (await bob.get(PLACE)).json
    assert (await bob.post(f"{PLACE}/{listed[0]['id']}/reply", {})).status == status
    assert (await asking).status == 200
