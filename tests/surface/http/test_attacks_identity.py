"""Attacks on who one is and what one may: keys, names, roles, hosts, and the machine itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from parley.domain.directory.access import Access, AccessPolicy, Permission, needed_to_assign
from parley.domain.directory.callers import NO_TENANT, Key, KeyKind
from tests.conformance.ocip.governed import person
from tests.rigs.process import ROOT
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, key_id, with_server
from tests.surface.http.attack import nothing_happens, refusal

PLACE = f"/channels/{CHANNEL}/messages"


# ---------------------------------------------------------------- A8: tokens that nobody here issues


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def token(header: dict[str, object], claims: dict[str, object], key: bytes = b"") -> str:
    """A JSON Web Token, signed with HMAC where there is a key."""
    head = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{head}.{encoded(hmac.digest(key, head.encode(), hashlib.sha256)) if key else ''}"


GOOD: dict[str, object] = {"sub": "alice", "aud": "parley", "iss": "parley", "exp": 4_000_000_000}
TOKENS = {
    "A8-no-signature": token({"alg": "none"}, GOOD),
    "A8-public-key-as-secret": token({"alg": "HS256"}, GOOD, b"-----BEGIN PUBLIC KEY-----"),
    "A8-other-audience": token({"alg": "HS256"}, {**GOOD, "aud": "other"}, b"k"),
    "A8-other-issuer": token({"alg": "HS256"}, {**GOOD, "iss": "other"}, b"k"),
    "A8-expired": token({"alg": "HS256"}, {**GOOD, "exp": 1}, b"k"),
    "A8-path-as-key-id": token({"alg": "HS256", "kid": "../../x"}, GOOD, b""),
}


@pytest.mark.parametrize("bearer", TOKENS.values(), ids=TOKENS)
@with_server
async def test_a_token_of_any_kind_is_no_key(server: LiveServer, bearer: str) -> None:
    stranger = server.with_key("")

    async with nothing_happens(server):
        as_bearer = await stranger.post(PLACE, {}, {"Authorization": f"Bearer {bearer}"})
        as_key = await stranger.post(PLACE, {}, {"X-API-Key": bearer})
        without = await stranger.post(PLACE, {})

    assert refusal(as_bearer) == refusal(as_key) == (401, "unauthorized")
    assert as_bearer.body == as_key.body == without.body


# ---------------------------------------------------------------- one request, one caller


@with_server
async def test_a_wrong_key_is_not_made_good_by_a_second_one(server: LiveServer) -> None:
    # A1
    good = await server.rig.key("alice")
    stranger = server.with_key("")

    both = await stranger.get(PLACE, headers={"X-API-Key": "wrong", "Authorization": f"Bearer {good}"})
    twice = await raw(server, f"X-API-Key: wrong\r\nX-API-Key: {good}")

    assert refusal(both) == (401, "unauthorized")
    assert b" 400 " in twice.split(b"\r\n")[0]


async def raw(server: LiveServer, fields: str) -> bytes:
    """The beginning of what comes back for a GET with these header fields, as they are."""
    connection = await server.with_key("").connect()
    connection.writer.write(f"GET /api/v1{PLACE} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n".encode("latin-1"))
    answer = await connection.reader.read(4096)
    await connection.close()
    return answer


@pytest.mark.parametrize(
    ("kind", "named", "expected"),
    [
        (KeyKind.AGENT, "bob", (403, "sender_mismatch")),
        (KeyKind.AGENT, "Alice", (403, "sender_mismatch")),
        (KeyKind.SERVICE, "system", (422, "bad_agent_name")),
        (KeyKind.SERVICE, "role:billing", (422, "bad_agent_name")),
        (KeyKind.SERVICE, "*", (422, "bad_agent_name")),
        (KeyKind.ADMIN, "a" * 65, (422, "bad_agent_name")),
        (KeyKind.ADMIN, "al\xefce", (422, "bad_agent_name")),
    ],
)
@with_server
async def test_a_header_names_no_speaker_that_the_key_does_not_allow(
    server: LiveServer, kind: KeyKind, named: str, expected: tuple[int, str]
) -> None:
    # A2
    caller = await server.client("alice" if kind is KeyKind.AGENT else "", kind)

    async with nothing_happens(server):
        refused = await caller.post(PLACE, {}, {"X-Agent-ID": named})

    assert refusal(refused) == expected


# ---------------------------------------------------------------- keys and their scopes


@with_server
async def test_an_admin_of_the_same_tenant_does_not_become_the_operator(server: LiveServer) -> None:
    # A75: whoever replaces a key is given its rights
    rig = server.rig
    operator, admin = await server.client("root", KeyKind.ADMIN), await server.client(kind=KeyKind.ADMIN)
    first = key_id("root", KeyKind.ADMIN, "default")
    found = await rig.store.get(Key, NO_TENANT, first)
    assert found is not None
    await rig.put(replace(found, operator=True, agent_id=""))

    async with nothing_happens(server):
        rotated = await admin.post(f"/keys/{first}/rotate")
        revoked = await admin.delete(f"/keys/{first}")
        tenant = await admin.post("/tenants", {"id": "mine"})

    assert refusal(rotated) == refusal(tenant) == (403, "scope_required")
    assert refusal(revoked)[0] == 409
    assert (await operator.post("/tenants", {"id": "mine"})).status == 201
    assert (await operator.post(f"/keys/{first}/rotate")).status == 201


@pytest.mark.parametrize("extra", [{"operator": True}, {"owner": "other"}, {"digest": "x"}, {"id": "key_1"}])
@with_server
async def test_a_key_gets_no_right_by_asking_for_it(server: LiveServer, extra: dict[str, object]) -> None:
    # A76
    admin = await server.client(kind=KeyKind.ADMIN)

    async with nothing_happens(server):
        refused = await admin.post("/keys", {"kind": "admin", **extra})

    assert refusal(refused) == (422, "invalid")


@with_server
async def test_what_was_lent_for_a_while_cannot_be_made_ones_own(server: LiveServer) -> None:
    # A46: an entry that is taken away leaves nothing behind
    rig = server.rig
    await rig.intent("intent_2", policy=AccessPolicy.CLOSED, grants=(rig.grant("eve"),))
    eve = await server.client("eve")

    async with nothing_happens(server):
        refused = await eve.post("/intents/intent_2/agents", {"agent_id": "eve"})
    await rig.access("intent_2", grants=())

    assert refusal(refused) == (403, "forbidden")
    assert (await eve.get("/intents/intent_2")).status == 404


def test_only_what_stays_may_be_made_an_assignment_without_an_admin() -> None:
    # A78
    access = Access(id=INTENT, tenant_id="default", created_by="alice")

    assert needed_to_assign(access, "eve", "worker", "") is Permission.WRITE
    assert needed_to_assign(replace(access, policy=AccessPolicy.CLOSED), "eve", "worker", "") is Permission.ADMIN
    assert needed_to_assign(access, "eve", "coordinator", "") is Permission.ADMIN


@with_server
async def test_a_counter_of_all_tenants_is_not_for_each_of_them(server: LiveServer) -> None:
    # A48
    for kind in (KeyKind.ADMIN, KeyKind.SERVICE):
        foreign = await server.client(kind=kind, tenant="other")
        assert refusal(await foreign.get("/metrics")) == (403, "scope_required")
        assert (await (await server.client(kind=kind)).get("/metrics")).status == 200
    assert refusal(await server.with_key("").get("/metrics")) == (401, "unauthorized")


# ---------------------------------------------------------------- A58: names of the server, pages of other sites


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "[::2]",
        "localhost.",
        "0.0.0.0",
    ],
)
@with_server
async def test_the_server_does_not_answer_to_the_name_of_another(server: LiveServer, host: str) -> None:
    # A58
    alice = await server.client("alice")

    async with nothing_happens(server):
        answers = [await alice.post(PLACE, {}, {"Host": host}), await alice.get("/healthz", headers={"Host": host})]

    assert [refusal(one) for one in answers] == [(403, "host_forbidden")] * 2


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "",
        "file://",
        "localhost",
        "http://evil.example:80@localhost",
    ],
)
@with_server
async def test_a_page_of_another_site_writes_nothing(server: LiveServer, origin: str) -> None:
    # A58
    alice = await server.client("alice")

    async with nothing_happens(server):
        refused = await alice.post(PLACE, {}, {"Origin": origin})

    assert refusal(refused) == (403, "origin_forbidden")
    assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]", "[::1]:80"])
@with_server
async def test_the_server_answers_to_its_own_names(server: LiveServer, host: str) -> None:
    # A58
    alice = await server.client("alice")

    assert (await alice.get(PLACE, headers={"Host": host, "Origin": f"http://{host}"})).status == 200


# ---------------------------------------------------------------- A86: what other users of the machine could read


def start(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`parley up`, which is expected to refuse."""
    command = [sys.executable, "-m", "parley.cli.main", "up", "--port", "0", "--data", str(data), *options]
    environment = {"PATH": os.defpath, "HOME": str(data.parent)}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["", "parley.db", "parley.db-wal", "parley.db-shm", "lock"])
def test_what_others_could_read_is_not_served(tmp_path: Path, name: str) -> None:
    # A86
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    open_to_others = data / name if name else data
    if name:
        open_to_others.touch()
    open_to_others.chmod(0o755 if not name else 0o644)

    ended = start(data)

    assert ended.returncode == 78
    assert ended.stdout == ""
    assert "open to other users" in ended.stderr
    assert "chmod" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_serves_nobody_but_this_machine(tmp_path: Path) -> None:
    # A86
    ended = start(tmp_path / "data", "--host", "0.0.0.0", "--behind-proxy")  # that is the attack

    assert ended.returncode == 78
    assert "root" in ended.stderr


def test_nobody_is_served_in_the_clear_from_elsewhere(tmp_path: Path) -> None:
    # A86
    ended = start(tmp_path / "data", "--host", "0.0.0.0")  # that is the attack

    assert ended.returncode == 78
    assert "in the clear" in ended.stderr


# ---------------------------------------------------------------- A40: who sent what, and who got it


@with_server
async def test_neither_sender_nor_reader_can_deny_what_was_audited(server: LiveServer) -> None:
    # A40
    alice, bob = await server.client("alice"), await server.client("bob")
    channel = (await alice.post(f"/intents/{INTENT}/channels", {"name": "x", "options": {"audit": True}})).json
    place = f"/channels/{channel['id']}/messages"
    sent = (await alice.post(place, {"to": "bob", "payload": {"order": 7}})).json
    await bob.patch(f"{place}/{sent['id']}", {"status": "read"})

    shown = (await alice.get(f"{place}/{sent['id']}")).json
    logged = (await bob.get(f"/intents/{INTENT}/events", event_type="channel_message")).json[0]
    verified = (await bob.get(f"/intents/{INTENT}/events/verify")).json

    assert (shown["status"], shown["read_at"] is not None) == ("read", True)
    assert (logged["actor"], logged["payload"]["message_id"]) == ("alice", sent["id"])
    assert logged["payload"]["payload"] == {"order": 7}
    assert verified["valid"]
    assert await cannot_unsay(alice, place, sent["id"])


async def cannot_unsay(client: Client, place: str, message_id: str) -> bool:
    return refusal(await client.delete(f"{place}/{message_id}")) == (409, "not_a_request")


# ---------------------------------------------------------------- people and agents of one name


@with_server
async def test_what_an_admin_of_a_persons_name_creates_is_not_the_agents_of_that_name(server: LiveServer) -> None:
    # A43
    admin = await server.client("", KeyKind.ADMIN)
    made = (await admin.post("/keys", {"kind": "admin", "user_id": "carol"})).json
    person, agent = server.with_key(made["key"]), await server.client("carol")
    intent = (await person.post("/intents", {"title": "private"})).json
    about = f"/intents/{intent['id']}"
    assert (await person.request("PUT", f"{about}/acl", {"default_policy": "closed"})).status == 200

    assert intent["created_by"] == "user:carol"
    assert (await agent.get(about)).status == 404
    assert (await agent.post(f"{about}/events", {"event_type": "comment"})).status == 404


@with_server
async def test_a_person_reads_nothing_that_was_said_to_an_agent_of_its_name(server: LiveServer) -> None:
    # A43
    alice, admin = await server.client("alice"), await server.client("", KeyKind.ADMIN)
    ghost = (await admin.post("/keys", {"kind": "agent", "agent_id": "ghost"})).json
    twin = await admin.post("/keys", {"kind": "human", "user_id": "ghost"})
    await alice.post(PLACE, {"to": "ghost", "payload": {"text": "for the agent"}})

    assert (twin.status, twin.code) == (409, "name_taken")
    assert len((await server.with_key(ghost["key"]).get(PLACE)).json) == 1


@pytest.mark.parametrize("claimed", [{}, {"sender_kind": "agent"}, {"sender_kind": "human", "topic": "x"}])
@with_server
async def test_a_message_of_a_person_is_marked_and_no_agent_can_forge_the_mark(
    server: LiveServer, claimed: dict[str, str]
) -> None:
    # A13
    alice, ann = await server.client("alice"), await person(server, "ann")
    body = {"payload": {"text": "hello"}, "metadata": claimed}

    by_agent, by_person = (await alice.post(PLACE, body)).json, (await ann.post(PLACE, body)).json

    rest = {name: value for name, value in claimed.items() if name != "sender_kind"}
    assert by_agent["metadata"] == rest
    assert by_person["metadata"] == {**rest, "sender_kind": "human"}
