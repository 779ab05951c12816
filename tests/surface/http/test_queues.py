"""Work queues over HTTP: claim, keep, answer, fail."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from parley.domain.channel.job import Job, JobState
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.surfaces.entrance.authentication import Authenticator
from parley.surfaces.http.http1.connection import Connection
from tests.rigs.team import CHANNEL, Client, LiveServer, soon, with_server

pytestmark = pytest.mark.both_stores

MESSAGES = f"/channels/{CHANNEL}/messages"


async def stage(server: LiveServer) -> tuple[Client, Client, Client]:
    await server.rig.role("coder", "bob", "carol")
    return await server.client("alice"), await server.client("bob"), await server.client("carol")


async def enqueue(alice: Client, text: str = "work", message_type: str = "request") -> dict[str, Any]:
    answer = await alice.post(MESSAGES, {"to": "any:coder", "message_type": message_type, "payload": {"text": text}})
    assert answer.status == 201
    message: dict[str, Any] = answer.json
    return message


async def claim(client: Client, agent: str = "bob", key: str = "", **body: object) -> list[dict[str, Any]]:
    answer = await client.post(f"/agents/{agent}/claims", body, {"Idempotency-Key": key} if key else None)
    assert answer.status == 200, answer.body
    jobs: list[dict[str, Any]] = answer.json
    return jobs


@with_server
async def test_a_request_to_any_holder_is_claimed_and_answered_by_one(server: LiveServer) -> None:
    alice, bob, carol = await stage(server)
    asked = asyncio.ensure_future(
        alice.post(f"/channels/{CHANNEL}/ask", {"to": "any:coder", "payload": {"text": "how?"}, "timeout": 20})
    )
    (job,) = await claim(bob, wait=20)
    reply = f"{MESSAGES}/{job['item_id']}/reply"

    assert (job["queue"], job["event"], job["attempts"]) == ("any:coder", "channel_message", 1)
    assert job["data"]["payload"] == {"text": "how?"}
    assert (await carol.post(reply, {"payload": {}, "lease": job["lease"]})).code == "lease_lost"
    assert (await bob.post(reply, {"payload": {}})).code == "lease_lost"
    assert (await bob.post(reply, {"payload": {"answer": 42}, "lease": job["lease"]})).status == 201
    assert (await asked).json["payload"] == {"answer": 42}


@with_server
async def test_a_repeated_claim_gets_the_same_job_once(server: LiveServer) -> None:
    """The answer to the first one was lost on its way."""
    alice, bob, _ = await stage(server)
    await enqueue(alice, "one")
    await enqueue(alice, "two")
    first = await claim(bob, key="k1")
    again = await claim(bob, key="k1")

    assert [job["lease"] for job in again] == [job["lease"] for job in first]
    assert [job["data"]["payload"]["text"] for job in await claim(bob, key="k2")] == ["two"]


@with_server
async def test_a_repeated_claim_gets_its_job_also_when_no_other_waits(server: LiveServer) -> None:
    alice, bob, _ = await stage(server)
    await enqueue(alice)
    first = await claim(bob, key="k1", wait=20)
    again = await asyncio.wait_for(claim(bob, key="k1", wait=20), 10)

    assert [job["lease"] for job in again] == [job["lease"] for job in first]


@with_server
async def test_a_batch_answers_a_claimed_request_only_once(server: LiveServer) -> None:
    alice, bob, _ = await stage(server)
    await enqueue(alice)
    (job,) = await claim(bob)
    answer = {"message_type": "response", "correlation_id": job["id"], "lease": job["lease"], "payload": {}}

    refused = await bob.post(f"/channels/{CHANNEL}/batch", {"messages": [answer, answer]})

    assert (refused.status, refused.json["errors"][0]["code"]) == (422, "repeated")
    assert (await bob.post(f"/channels/{CHANNEL}/batch", {"messages": [answer]})).status == 201


@with_server
async def test_a_claim_ends_as_soon_as_its_client_has_gone(server: LiveServer) -> None:
    """It takes no job, and one that was posted at the same moment counts as never claimed."""
    alice, bob, carol = await stage(server)
    connection = await bob.connect()
    fields = {**bob.headers, "Content-Type": "application/json"}
    waits = asyncio.ensure_future(connection.ask("POST", "/api/v1/agents/bob/claims", fields, b'{"wait": 60}'))
    await soon(lambda: waiting_claims(server) == 1)
    connection.writer.write_eof()
    await enqueue(alice, message_type="notify")
    await enqueue(alice, message_type="notify")
    jobs = await claim(carol, "carol", max=2, wait=2)
    jobs += await claim(carol, "carol", wait=2) if len(jobs) < 2 else []

    assert [(job["attempts"], job["lost_readers"], job["holder"]) for job in jobs] == [(1, 0, "carol")] * 2
    with pytest.raises(asyncio.IncompleteReadError):
        await waits


@with_server
async def test_a_client_that_goes_while_its_key_is_checked_claims_nothing(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head came alone, so its key is checked before the body is read; with the body comes the end."""
    alice, bob, _ = await stage(server)
    message = await enqueue(alice, message_type="notify")
    begun, ended, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    check, eof_received = Authenticator.check, Connection.eof_received

    async def slow(self: Authenticator, secret: str, peer: str) -> None:
        begun.set()
        await go_on.wait()
        await check(self, secret, peer)

    def noted(self: Connection) -> bool:
        ended.set()
        return eof_received(self)

    monkeypatch.setattr(Authenticator, "check", slow)
    monkeypatch.setattr(Connection, "eof_received", noted)
    connection = await bob.connect()
    body = b'{"wait": 60}'
    fields = {**bob.headers, "Content-Type": "application/json", "Content-Length": str(len(body))}
    waits = asyncio.ensure_future(connection.ask("POST", "/api/v1/agents/bob/claims", fields, b""))
    await begun.wait()
    connection.writer.write(body)
    connection.writer.write_eof()
    await ended.wait()
    go_on.set()

    with pytest.raises(asyncio.IncompleteReadError):
        await waits
    job = await server.rig.store.get(Job, DEFAULT_TENANT, message["id"])
    assert job is not None
    assert (job.state, job.attempts) == (JobState.WAITING, 0)


def waiting_claims(server: LiveServer) -> int:
    queues = server.rig.team.queues.get(DEFAULT_TENANT)
    return 0 if queues is None else len(queues)


@with_server
async def test_who_has_no_access_does_not_learn_of_a_queued_request(server: LiveServer) -> None:
    """Neither by its own channel nor by the request's, with or without a lease."""
    alice, _, _ = await stage(server)
    await server.rig.intent("intent_2", policy=AccessPolicy.CLOSED, agents=("bob",))
    await server.rig.channel("chan_2", intent_id="intent_2")
    body = {"to": "any:coder", "message_type": "request", "payload": {}}
    queued, unknown = (await alice.post("/channels/chan_2/messages", body)).json["id"], "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"
    mallory = await server.client("mallory")
    intent = (await mallory.post("/intents", {"title": "own"})).json["id"]
    own = (await mallory.post(f"/intents/{intent}/channels", {"name": "own"})).json["id"]

    async def probe(message_id: str) -> list[tuple[int, bytes]]:
        answers = []
        for channel, body in itertools.product(("chan_2", own), ({}, {"lease": "guess"})):
            path = f"/channels/{channel}/messages"
            response = {"message_type": "response", "correlation_id": message_id, **body}
            answers += [
                await mallory.post(f"{path}/{message_id}/reply", body),
                await mallory.post(f"{path}/{message_id}/forward", {"to": "mallory", **body}),
                await mallory.post(path, response),
            ]
        return [(answer.status, answer.body) for answer in answers]

    assert await probe(queued) == await probe(unknown)


@with_server
async def test_an_empty_claim_does_not_use_up_its_key(server: LiveServer) -> None:
    alice, bob, _ = await stage(server)
    assert await claim(bob, key="k1") == []
    await enqueue(alice)

    assert len(await claim(bob, key="k1")) == 1


@with_server
async def test_a_claimed_job_is_kept_failed_and_finished(server: LiveServer) -> None:
    alice, bob, _ = await stage(server)
    await enqueue(alice, message_type="notify")
    (job,) = await claim(bob)
    path = f"/agents/bob/claims/{job['id']}"
    kept = await bob.patch(path, {"lease": job["lease"], "lease_seconds": 60})
    failed = await bob.patch(path, {"lease": job["lease"], "status": "failed", "error": "no disk", "retry_in": 0})
    (job,) = await claim(bob)
    done = await bob.patch(path, {"lease": job["lease"], "status": "done"})
    late = await bob.patch(path, {"lease": job["lease"], "status": "done"})

    assert (kept.status, kept.json["state"], kept.json["holder"]) == (200, "claimed", "bob")
    assert "lease" not in kept.json
    assert (failed.json["state"], failed.json["error"]) == ("waiting", "no disk")
    assert done.status == 200
    assert (late.status, late.code) == (409, "lease_lost")


@pytest.mark.parametrize(
    "body",
    [{"max": 0}, {"max": 101}, {"lease_seconds": 0.5}, {"lease_seconds": 3601}, {"wait": 61}, {"wait": -1}, {"x": 1}],
    ids=str,
)
def test_bounds_of_a_claim(body: dict[str, object], tmp_path: Any) -> None:  # noqa: ANN401
    @with_server
    async def refused(server: LiveServer) -> None:
        _, bob, _ = await stage(server)
        assert (await bob.post("/agents/bob/claims", body)).status == 422

    refused(tmp_path=tmp_path)


@with_server
async def test_an_address_names_a_role_that_can_be_one(server: LiveServer) -> None:
    alice = await server.client("alice")
    for address in ("any:", "any:a b", "any:*", "any:role:coder"):
        assert (await alice.post(MESSAGES, {"to": address, "payload": {}})).status == 422
    await server.rig.role("coder", "bob")
    assert (await alice.post(MESSAGES, {"to": "any:coder", "message_type": "broadcast"})).status == 422


@with_server
async def test_a_claim_ends_jobs_and_a_repeated_one_gets_the_same_next_one(server: LiveServer) -> None:
    alice, bob, _ = await stage(server)
    for text in ("first", "second"):
        await enqueue(alice, text, "notify")
    (first,) = await claim(bob)
    done = [{"id": first["id"], "lease": first["lease"]}]

    (second,) = await claim(bob, key="k1", done=done)
    (again,) = await claim(bob, key="k1", done=done)

    assert (second["lease"], second["attempts"]) == (again["lease"], 1)
    assert await server.rig.store.get(Job, DEFAULT_TENANT, first["id"]) is None
    refused = await bob.post("/agents/bob/claims", {"done": [{"id": first["id"]}]})
    assert refused.status == 422
