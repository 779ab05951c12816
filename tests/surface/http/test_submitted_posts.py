"""Posts that are answered by the completion of their commit: refused, limited and decided like all others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from parley.domain.channel.channel import Channel, ChannelStatus
from parley.domain.content.classification import Classification
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Unavailable
from parley.domain.store.changes import AuditQuery, Committed, TeamChanges
from tests.rigs.governed import place, put_policy
from tests.rigs.remembered import stopped
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

PATH = f"/channels/{CHANNEL}/messages"
NOTE = {"to": "bob", "payload": {"text": "hello"}}


async def warm(client: Client) -> None:
    """Said before: from now on the decision and the caller are known."""
    for _ in range(2):
        assert (await client.post(PATH, NOTE)).status == 201


def submits(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> list[TeamChanges]:
    """What is committed by the fast way from now on."""
    submit, seen = server.rig.store.submit, list[TeamChanges]()

    def noted(changes: TeamChanges, done: Callable[[Committed | Exception], None]) -> None:
        seen.append(changes)
        submit(changes, done)

    monkeypatch.setattr(server.rig.store, "submit", noted)
    return seen


async def closed(server: LiveServer) -> None:
    channel = await server.rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert channel is not None
    await server.rig.put(replace(channel, status=ChannelStatus.CLOSED))


@pytest.mark.sqlite_only
@with_server
async def test_the_answer_is_the_same_as_that_of_the_first_message(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await server.client("alice")
    first = (await alice.post(PATH, NOTE)).json
    seen = submits(server, monkeypatch)
    await alice.post(PATH, NOTE)

    answer = await alice.post(PATH, NOTE)

    assert len(seen) == 2
    changing = {"id": "", "seq": 0, "created_at": ""}
    assert answer.json | changing == first | changing
    assert answer.json == (await alice.get(f"{PATH}/{answer.json['id']}")).json | {"status": "delivered"}


@pytest.mark.parametrize(
    ("note", "status", "code"),
    [
        (b"{", 400, "malformed"),
        ({"payload": 1}, 422, "invalid"),
        ({"pay_load": {}}, 422, "invalid"),
        (b'{"payload":{"a":1,"a":2}}', 422, "duplicate_key"),
        ({**NOTE, "expires_at": "2020-01-01T00:00:00Z"}, 422, "invalid"),
        ({**NOTE, "sender": "carol"}, 403, "sender_mismatch"),
    ],
)
@with_server
async def test_what_is_wrong_with_a_message_is_said_as_ever(
    server: LiveServer, note: object, status: int, code: str
) -> None:
    alice = await server.client("alice")
    await warm(alice)

    answer = await alice.post(PATH, note)

    assert (answer.status, answer.code) == (status, code)
    assert (await alice.post(PATH, NOTE)).status == 201


@with_server
async def test_a_revoked_key_ends_at_once(server: LiveServer) -> None:
    alice = await server.client("alice")
    await warm(alice)

    await server.rig.revoke("alice")

    assert (await alice.post(PATH, NOTE)).status == 401


@with_server
async def test_a_key_of_the_tenant_does_not_get_the_name_of_a_new_person(server: LiveServer) -> None:
    service = await server.client(kind=KeyKind.SERVICE, speaks_as="dora")
    await server.rig.access(policy=AccessPolicy.OPEN)
    await warm(service)
    admin = await server.client(kind=KeyKind.ADMIN)
    assert (await admin.post("/keys", {"kind": "human", "user_id": "dora"})).status == 201

    answer = await service.post(PATH, NOTE)

    assert (answer.status, answer.code) == (403, "sender_mismatch")


@pytest.mark.sqlite_only
@with_server
async def test_a_change_before_the_commit_is_decided_again(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await server.client("alice")
    await warm(alice)
    submit = server.rig.store.submit

    def late(changes: TeamChanges, done: Callable[[Committed | Exception], None]) -> None:
        """The channel is closed in the queue before it."""
        closing = asyncio.ensure_future(closed(server))
        closing.add_done_callback(lambda _: submit(changes, done))

    monkeypatch.setattr(server.rig.store, "submit", late)

    answer = await alice.post(PATH, NOTE)

    assert (answer.status, answer.code) == (409, "channel_closed")


@pytest.mark.sqlite_only
@with_server
async def test_a_store_that_fails_is_said(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await server.client("alice")
    await warm(alice)
    monkeypatch.setattr(server.rig.store, "submit", lambda _, done: done(Unavailable("the disk is full")))
    assert (await alice.post(PATH, NOTE)).status == 503
    monkeypatch.setattr(server.rig.store, "submit", lambda _, done: done(ValueError("secret")))

    answer = await alice.post(PATH, NOTE)

    assert (answer.status, b"secret" in answer.body) == (500, False)


@with_server
async def test_pipelined_messages_keep_their_order(server: LiveServer) -> None:
    alice = await server.client("alice")
    await warm(alice)
    connection = await alice.connect()
    body = [json.dumps({**NOTE, "payload": {"n": number}}).encode() for number in range(50)]
    head = f"POST /api/v1{PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {alice.headers['X-API-Key']}\r\n"
    connection.writer.write(
        b"".join(
            [
                f"{head}Content-Type: application/json\r\nContent-Length: {len(one)}\r\n\r\n".encode() + one
                for one in body
            ]
        )
    )
    answers = []
    for _ in body:
        status, headers = await connection.head()
        answers.append((status, json.loads(await connection.body(headers))))

    assert [(status, answer["payload"]["n"], answer["seq"]) for status, answer in answers] == [
        (201, number, number + 3) for number in range(50)
    ]


@with_server
async def test_a_message_whose_client_is_gone_is_there_once(server: LiveServer) -> None:
    alice = await server.client("alice")
    await warm(alice)
    connection = await alice.connect()
    content = json.dumps(NOTE).encode()
    head = f"POST /api/v1{PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {alice.headers['X-API-Key']}\r\n"
    connection.writer.write(
        f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
    )
    await connection.writer.drain()
    await connection.close()

    assert (await alice.post(PATH, NOTE)).status == 201
    listed = (await alice.get(PATH)).json
    assert [message["seq"] for message in listed] == list(range(1, len(listed) + 1))


@with_server
async def test_every_post_is_counted(server: LiveServer) -> None:
    alice = await server.client("alice")
    await warm(alice)
    admin = await server.client(kind=KeyKind.ADMIN)

    counted = (await admin.get("/metrics")).body.decode()

    line = 'parley_requests_total{method="POST",route="/channels/{channel_id}/messages",status="201"} 2'
    assert line in counted.splitlines()


@pytest.mark.sqlite_only
@with_server
async def test_a_key_is_written_with_its_message_and_answers_again(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await server.client("alice")
    await warm(alice)
    seen = submits(server, monkeypatch)
    key = {"Idempotency-Key": "once"}

    first = await alice.post(PATH, NOTE, key)
    again = await alice.post(PATH, NOTE, key)
    other = await alice.post(PATH, {**NOTE, "payload": {}}, key)

    assert [changes.saved is not None for changes in seen] == [True, True, True]
    assert (first.status, first.headers.get("idempotent-replayed")) == (201, None)
    assert (again.status, again.json, again.headers["idempotent-replayed"]) == (201, first.json, "true")
    assert (other.status, other.code) == (422, "idempotency_mismatch")
    assert len((await alice.get(PATH)).json) == 3


@with_server
async def test_a_call_that_was_carried_out_is_answered_again_even_when_it_would_be_refused_now(
    server: LiveServer,
) -> None:
    alice = await server.client("alice")
    await warm(alice)
    key = {"Idempotency-Key": "once"}
    expiring = {**NOTE, "expires_at": "2026-03-13T14:30:10Z"}
    first = await alice.post(PATH, expiring, key)
    server.rig.clock.pass_by(seconds=60)

    again = await alice.post(PATH, expiring, key)

    assert (first.status, again.status, again.json["id"]) == (201, 201, first.json["id"])
    assert (await alice.post(PATH, expiring, {"Idempotency-Key": "another"})).status == 422


@with_server
async def test_a_key_of_no_or_too_many_characters_is_refused(server: LiveServer) -> None:
    alice = await server.client("alice")
    await warm(alice)

    answer = await alice.post(PATH, NOTE, {"Idempotency-Key": "k" * 256})

    assert (answer.status, answer.code) == (422, "invalid")


@with_server
async def test_the_same_key_at_the_same_moment_posts_once(server: LiveServer) -> None:
    clients = [await server.client("alice") for _ in range(8)]
    for client in clients:
        await warm(client)

    answers = await asyncio.gather(*[client.post(PATH, NOTE, {"Idempotency-Key": "once"}) for client in clients])

    assert {(answer.status, answer.json["id"]) for answer in answers} == {(201, answers[0].json["id"])}


ASK = {"to": "bob", "payload": {"text": "What is the status?"}, "metadata": {"exchange_type": "information_query"}}


async def governed(server: LiveServer, budget: int = 100) -> Client:
    """Two agents under a policy, one of whom has said the same three times."""
    for agent in ("alice", "bob"):
        await place(server.rig, agent, org_unit="engineering")
    await put_policy(server.rig, pair_budget=budget)
    alice = await server.client("alice")
    for _ in range(3):
        assert (await alice.post(PATH, ASK)).status == 201
    return alice


@with_server
async def test_a_governed_message_is_answered_from_its_commit(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await governed(server)
    first = (await alice.post(PATH, ASK)).json
    seen = submits(server, monkeypatch)

    answer = await alice.post(PATH, ASK, {"Idempotency-Key": "once"})
    again = await alice.post(PATH, ASK, {"Idempotency-Key": "once"})

    assert (answer.status, len(seen[0].audits), len(seen[0].creates)) == (201, 2, 1)
    assert again.json == answer.json
    assert again.headers["idempotent-replayed"] == "true"
    changing = {"id": "", "seq": 0, "created_at": "", "metadata": "", "conversation_id": ""}
    assert answer.json | changing == first | changing
    assert answer.json["conversation_id"] == answer.json["metadata"]["ocip"]["conversation_id"]
    assert answer.json["metadata"].keys() == first["metadata"].keys()
    ours = answer.json["metadata"]["ocip_ext"]["exchange_id"]
    trail = [json.loads(entry.document) for entry in await server.rig.store.audits(DEFAULT_TENANT, AuditQuery())]
    assert [entry["side"] for entry in trail if entry["exchange_id"] == ours] == ["alice", "bob"]


@pytest.mark.parametrize(("text", "status"), [("We promise it.", 202), ("password: hunter22", 403)])
@with_server
async def test_what_the_rules_look_for_is_found_in_what_is_said_again(
    server: LiveServer, text: str, status: int
) -> None:
    alice = await governed(server)
    await put_policy(server.rig, max_classification=Classification.INTERNAL)
    for _ in range(4):
        await alice.post(PATH, ASK)

    assert (await alice.post(PATH, ASK | {"payload": {"text": text}})).status == status


@with_server
async def test_a_spent_budget_is_refused_and_recorded(server: LiveServer) -> None:
    alice = await governed(server, budget=4)
    assert (await alice.post(PATH, ASK)).status == 201

    answer = await alice.post(PATH, ASK)

    assert (answer.status, answer.code) == (429, "pair_budget")
    (*_, entry) = await server.rig.store.audits(DEFAULT_TENANT, AuditQuery())
    assert json.loads(entry.document)["code"] == "pair_budget"


@with_server
async def test_a_suspended_agent_is_refused_at_once_also_where_it_said_the_same_before(server: LiveServer) -> None:
    alice = await governed(server)
    await stopped(server.rig, "bob")

    assert (await alice.post(PATH, ASK)).status == 403
