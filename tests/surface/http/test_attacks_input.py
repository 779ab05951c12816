"""Attacks by what is sent: forged fields, hostile names, queries and texts; and what the server writes about them."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from parley.adapters.sqlite.file import to_parley_error
from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.domain.directory.callers import KeyKind
from parley.domain.message.message import Pattern
from tests.postgres.cluster import shared_cluster
from tests.rigs.process import ADMIN_KEY, running
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, in_loop, live_server, open_rig, with_query, with_server
from tests.surface.http.attack import nothing_happens, refusal

PLACE = f"/channels/{CHANNEL}/messages"


# ---------------------------------------------------------------- fields


@with_server
async def test_a_response_answers_nothing_but_a_request_of_its_channel(server: LiveServer) -> None:
    # A4
    rig = server.rig
    await rig.channel("chan_2")
    await rig.intent("intent_3", "bob", tenant="other")
    await rig.channel("chan_3", intent_id="intent_3", created_by="bob", tenant="other")
    elsewhere = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, channel_id="chan_2")
    foreign = await rig.say("bob", to="bob", pattern=Pattern.REQUEST, channel_id="chan_3", tenant="other")
    notice = await rig.say("alice", to="bob")
    bob = await server.client("bob")

    async with nothing_happens(server):
        answers = [
            await bob.post(PLACE, {"message_type": "response", "correlation_id": forged})
            for forged in (elsewhere.id, foreign.id, notice.id, "msg_none", '","to":"x')
        ]

    assert [refusal(one) for one in answers] == [(422, "bad_correlation")] * 5


@with_server
async def test_a_response_by_post_comes_from_who_was_asked(server: LiveServer) -> None:
    # A3
    asked = await server.rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    mallory = await server.client("mallory")

    async with nothing_happens(server):
        posted = await mallory.post(PLACE, {"message_type": "response", "correlation_id": asked.id})
        replied = await mallory.post(f"{PLACE}/{asked.id}/reply", {})

    assert refusal(posted) == refusal(replied) == (403, "not_addressee")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", f"/channels/{CHANNEL}", {"created_by": "bob"}),
        ("PATCH", f"/channels/{CHANNEL}", {"tenant_id": "other"}),
        ("PATCH", f"/channels/{CHANNEL}", {"audit": False}),
        ("PATCH", f"/channels/{CHANNEL}", {"intent_id": "intent_2"}),
        ("PATCH", f"/channels/{CHANNEL}", {"options": {"audit": False, "floor": 7}}),
        ("POST", PLACE, {"recipients": ["bob"]}),
        ("POST", PLACE, {"intent_id": "intent_2"}),
        ("POST", "/intents", {"title": "x", "tenant_id": "other"}),
        ("POST", "/intents", {"title": "x", "version": 7}),
        ("POST", f"/intents/{INTENT}/events", {"event_type": "comment", "sequence": 1}),
        ("POST", f"/intents/{INTENT}/events", {"event_type": "comment", "event_hash": "sha256:x"}),
    ],
)
@with_server
async def test_a_field_that_is_not_offered_is_not_set(
    server: LiveServer, method: str, path: str, body: dict[str, object]
) -> None:
    # A76
    alice = await server.client("alice")

    async with nothing_happens(server):
        refused = await alice.request(method, path, body)

    assert refusal(refused) == (422, "invalid")


@with_server
async def test_what_comes_beside_an_entry_of_an_access_list_is_not_taken_over(server: LiveServer) -> None:
    # A76: the SDK passes on what its caller wrote
    alice = await server.client("alice")
    extras = {"id": "acl_mine", "granted_by": "eve", "granted_at": "2020-01-01T00:00:00Z", "since": 0}

    given = await alice.post(f"/intents/{INTENT}/acl/entries", {"principal_id": "bob", **extras})

    assert given.status == 201
    assert given.json["granted_by"] == "alice"
    assert [name for name, value in extras.items() if given.json.get(name) == value] == []


BAD_NAMES = [
    "a\r\nSet-Cookie: x",
    "a\n",
    "\na",
    "a\tb",
    "\x1b[31mred",
    "a\u2028b",
    "\u202eevil",
    "\u0430lice",
    "a b",
    "../x",
]


@pytest.mark.parametrize("name", [*BAD_NAMES, "system", "", "." * 3, "a" * 65, "con", "a/b", "%0d%0a"])
@with_server
async def test_a_name_that_could_forge_a_line_is_no_name(server: LiveServer, name: str) -> None:
    # A23
    admin, alice = await server.client(kind=KeyKind.ADMIN), await server.client("alice")
    tries: list[tuple[Client, str, dict[str, object]]] = [
        (admin, "/agents/register", {"agent_id": name}),
        (admin, "/keys", {"kind": "agent", "agent_id": name}),
        (admin, "/roles/r/holders", {"agent_id": name}),
        (admin, f"/intents/{INTENT}/agents", {"agent_id": name}),
        (alice, f"/intents/{INTENT}/channels", {"name": "x", "members": [name]}),
        (alice, f"/intents/{INTENT}/acl/entries", {"principal_id": name}),
    ]
    if name not in ("system",):  # a channel may be called so
        tries.append((alice, f"/intents/{INTENT}/channels", {"name": name}))

    async with nothing_happens(server):
        answers = [await client.post(path, body) for client, path, body in tries]

    assert {refusal(one)[0] for one in answers} == {422}


@pytest.mark.parametrize("name", ["eva\n", "eva\r\nx", "\x1b[0m", "a" * 129])
@with_server
async def test_a_person_in_the_ledger_is_one_line(server: LiveServer, name: str) -> None:
    # A41
    admin = await server.client(kind=KeyKind.ADMIN)

    async with nothing_happens(server):
        refused = await admin.post("/keys", {"kind": "human", "user_id": name})

    assert refusal(refused) == (422, "invalid")


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize(
    "word",
    [
        "revoked",
        "channel_message",
        "channel.message",
        "state_changed",
        "agent_assigned",
        "status_changed",
        "intent_completed",
        "error",
        "channel_message\n",
        "Channel_Message",
        "comment\n\nevent: revoked",
    ],
)
@with_server
async def test_nobody_says_in_a_log_what_a_stream_says_itself(server: LiveServer, word: str) -> None:
    # A22: our own client takes `revoked` for the end
    alice, bob = await server.client("alice"), await server.client("bob")

    async with bob.events(f"/subscribe/intents/{INTENT}") as events:
        async with nothing_happens(server):
            refused = await alice.post(f"/intents/{INTENT}/events", {"event_type": word})

        assert refusal(refused) == (422, "invalid")
        assert await events.silence(0.05)


# ---------------------------------------------------------------- queries

HOSTILE = [
    "' OR 1=1 --",
    '"; DROP TABLE post; --',
    "1 UNION SELECT digest FROM record",
    "$.payload",
    "%",
    "\x00",
    "-1",
    "1e999",
    "9" * 400,
    "١٢٣",
    "msg_%",
    "0x10",
]


@pytest.mark.parametrize("text", HOSTILE)
@with_server
async def test_what_is_written_into_a_query_stays_text(server: LiveServer, text: str) -> None:
    # A24
    await server.rig.say("alice", "hello")
    bob = await server.client("bob")

    async with nothing_happens(server):
        since = await bob.get(PLACE, since=text)
        others = [
            await bob.request("GET", with_query(path, {field: text}))
            for path, field in (
                (PLACE, "limit"),
                (PLACE, "wait"),
                (PLACE, "on_evicted"),
                ("/intents", "status"),
                ("/intents", "limit"),
                ("/intents", "offset"),
                (f"/intents/{INTENT}/events", "after"),
                (f"/intents/{INTENT}/events", "since"),
                (f"/intents/{INTENT}/tasks", "status"),
                ("/events", "trace_id"),
                ("/agents", "status"),
            )
        ]
        found = [
            await bob.request("GET", with_query(path, {field: text}))
            for path, field in (
                ("/messages/search", "q"),
                (f"/channels/{CHANNEL}/search", "q"),
                ("/agents", "role_id"),
                ("/agents", "capability"),
                (f"/intents/{INTENT}/events", "event_type"),
            )
        ]

        to = await bob.get(PLACE, to=f"{text} ")

    if "\x00" in text:  # which no database takes for text
        assert {refusal(one) for one in (since, to, *others, *found)} == {(422, "invalid")}
        return
    assert refusal(since) == (400, "bad_cursor")
    assert refusal(to) == (422, "invalid")
    assert {refusal(one) for one in others} == {(422, "invalid")}
    assert {(one.status, one.body) for one in found if len(text) <= 200} <= {(200, b"[]")}


@pytest.mark.parametrize(("count", "status"), [(100, 200), (101, 422)])
@with_server
async def test_a_query_has_at_most_a_hundred_fields(server: LiveServer, count: int, status: int) -> None:
    # A60
    bob = await server.client("bob")

    answer = await bob.get(f"{PLACE}?{'&'.join(f'a{n}=1' for n in range(count))}")

    assert answer.status == status


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/" + "a/" * 2000,
        "/api/v1/channels/../keys",
        "/api/v1/channels/%2e%2e/keys",
        "/api/v1//channels",
        "/api/v1/channels//messages",
        "/api/v1/channels/%f0%9f%92%a9",
        "/api/v1/channels/" + "x" * 8000,
        "/API/V1/keys",
        "/api/v1/keys/",
        "/..;/metrics",
    ],
)
@with_server
async def test_a_path_that_leads_nowhere_is_not_found(server: LiveServer, path: str) -> None:
    # A24
    bob = await server.client("bob")

    async with nothing_happens(server):
        answer = await bob.get(path)

    assert refusal(answer) == (404, "not_found")


@pytest.mark.parametrize(
    "path", ["/channels/%00", "/channels/a%0d%0ab", "/channels/%ff", "/channels/%zz", "/channels/%"]
)
@with_server
async def test_a_path_that_cannot_be_read_is_refused(server: LiveServer, path: str) -> None:
    # A20
    bob = await server.client("bob")

    async with nothing_happens(server):
        answer = await bob.get(path)

    assert refusal(answer) == (400, "bad_request")


@with_server
async def test_what_is_looked_for_is_a_text_and_no_pattern(server: LiveServer) -> None:
    # A70
    await server.rig.say("alice", "a" * 60_000 + "!")
    await server.rig.say("alice", "(a+)+$")
    bob = await server.client("bob")
    began = time.process_time()

    found = (await bob.get("/messages/search", q="(A+)+$")).json
    name = await bob.post(f"/intents/{INTENT}/channels", {"name": "a" * 60_000 + "!"})

    assert [one["payload"]["text"] for one in found] == ["(a+)+$"]
    assert refusal(name) == (422, "invalid")
    # A pattern that goes back and forth would need longer than the world has existed.
    assert time.process_time() - began < 5


# ---------------------------------------------------------------- what the server writes


@pytest.mark.slow
def test_the_output_of_a_server_holds_no_body_no_key_and_no_line_of_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # A5 A41 A48
    secret, forged = "s3cret-in-a-body", "\n\x1b[31mERROR forged"
    with running(tmp_path / "data") as server:
        asyncio.run(provoke(server.port, secret, forged))
        server.stop()

    shown = capfd.readouterr()
    everything = shown.out + shown.err
    assert secret not in everything
    assert "pk_wrong" not in everything
    assert ADMIN_KEY not in everything
    assert "forged" not in everything
    assert "\x1b" not in everything


async def provoke(port: int, secret: str, forged: str) -> None:
    """Give the server every reason to write something down."""
    admin, stranger = Client(port, ADMIN_KEY), Client(port, "pk_wrong")
    intent = (await admin.post("/intents", {"title": secret + forged, "access": "open"})).json["id"]
    sent = {"sender": "alice", "payload": {"text": secret + forged}}
    assert (await admin.post(f"/intents/{intent}/channels/talk/messages", sent)).status == 201
    await admin.post(f"/intents/{intent}/channels/talk/messages", {**sent, "to": forged})
    await admin.post("/intents", b"{" + secret.encode())
    await admin.get("/channels/" + secret)
    await stranger.get(f"/agents?api_key={ADMIN_KEY}")
    await admin.post("/subscriptions", {"webhook_url": f"https://{secret}.invalid/{ADMIN_KEY}"})
    await admin.post("/agents/register", {"agent_id": "bob", "endpoint": f"https://127.0.0.1:9/{secret}"})
    await admin.post(f"/intents/{intent}/channels/talk/messages", {**sent, "to": "bob"})
    for head in (f"GET /{secret}\x1b[31m HTTP/1.1", f"{secret} / HTTP/9.9", "GET / HTTP/1.1\r\nHost: a\r\nHost: b"):
        connection = await admin.connect()
        connection.writer.write(f"{head}\r\nX-API-Key: {ADMIN_KEY}\r\n\r\n".encode("latin-1"))
        assert await connection.reader.read(1024)
    await asyncio.sleep(1.5)  # for what is done beside the answers
    for client in (admin, stranger):
        await client.close()


@pytest.mark.sqlite_only
@pytest.mark.parametrize("opened", ["reader", "writer"])
@with_server
async def test_what_is_wrong_with_the_machine_is_not_told_to_the_caller(
    server: LiveServer, opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A48: too many open files, a file system that became read-only
    rig, alice = server.rig, await server.client("alice")
    assert (await alice.get(PLACE)).status == 200

    unopened = sqlite3.OperationalError("unable to open database file")
    unopened.sqlite_errorname = "SQLITE_CANTOPEN"

    def fails(*_: object, **__: object) -> None:
        raise to_parley_error(unopened, str(rig.path))

    def cannot_write(_: object) -> None:
        raise unopened

    if opened == "reader":
        monkeypatch.setattr(team_file, "connect", fails)
        answer = await alice.get("/messages/search", q="x")  # by a thread that has not read yet
    else:
        assert isinstance(rig.store, SqliteTeamStore)
        monkeypatch.setattr(rig.store._writer, "_transaction", cannot_write)
        answer = await alice.post(PLACE, {})

    assert (answer.status, answer.code) == (503, "unavailable")
    assert str(rig.path.parent) not in answer.body.decode()


@pytest.mark.slow
@in_loop
async def test_what_is_wrong_with_the_database_is_not_told_to_the_caller(database: str, tmp_path: Path) -> None:
    # A48
    name, cluster = database.rpartition("/")[2], shared_cluster()
    async with open_rig(tmp_path, dsn=database) as rig, live_server(rig) as server:
        await rig.intent()
        await rig.channel()
        alice = await server.client("alice")
        assert (await alice.get(PLACE)).status == 200

        cluster.ask(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        cluster.ask("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1", name)
        answers = [await alice.get(PLACE), await alice.post(PLACE, {})]

        for answer in answers:
            assert (answer.status, answer.code) == (503, "unavailable")
            for inside in (name, str(cluster.port), "postgres", "accepting connections"):
                assert inside not in answer.body.decode()
