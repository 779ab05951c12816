"""Requests over HTTP: how one stands, and how its sender takes it back."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, Client, LiveServer, soon, with_server

PLACE = f"/channels/{CHANNEL}/messages"
ASK = f"/channels/{CHANNEL}/ask"


async def request(client: Client, **body: Any) -> str:  # noqa: ANN401  # of a message
    """The id of a request to bob."""
    answer = await client.post(PLACE, {"message_type": "request", "to": "bob", "payload": {"q": 1}, **body})
    assert answer.status == 201, answer.body
    return str(answer.json["id"])


@with_server
async def test_a_request_is_shown_with_its_state_and_its_answers(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    asked = await request(alice)

    before = await bob.get(f"{PLACE}/{asked}/request")
    answer = await bob.post(f"{PLACE}/{asked}/reply", {"payload": {"a": 1}})
    after = await alice.get(f"{PLACE}/{asked}/request")

    assert (before.json["state"], before.json["answers"]) == ("open", [])
    assert (after.json["state"], after.json["answers"]) == ("answered", [answer.json["id"]])
    assert (after.json["sender"], after.json["to"], after.json["withdrawn_at"]) == ("alice", "bob", None)
    assert (await carol.get(f"{PLACE}/{asked}/request")).status == 404


@with_server
async def test_a_withdrawn_request_is_gone_for_who_was_asked(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice)

    done = await alice.delete(f"{PLACE}/{asked}")

    assert (done.status, done.json["state"]) == (200, "withdrawn")
    late = await bob.post(f"{PLACE}/{asked}/reply", {"payload": {}})
    assert (late.status, late.json["code"]) == (409, "request_withdrawn")
    seen = (await bob.get(PLACE)).json
    assert [one["payload"].get("event") for one in seen] == ["request_withdrawn"]
    assert (await bob.delete(f"{PLACE}/{asked}")).status == 403


@with_server
async def test_an_ask_is_withdrawn_by_its_idempotency_key(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    again = await server.client("alice")
    body = {"to": "bob", "payload": {}, "timeout": 60}
    asking = asyncio.create_task(alice.post(ASK, body, {"Idempotency-Key": "k-1"}))

    async def arrived() -> bool:
        return bool((await bob.get(PLACE)).json)

    await soon(arrived)

    assert (await bob.delete(f"/channels/{CHANNEL}/asks/k-1")).status == 404
    assert (await again.delete(f"/channels/{CHANNEL}/asks/k-2")).status == 404
    assert (await again.delete(f"/channels/{CHANNEL}/asks/k-1")).json["state"] == "withdrawn"
    ended = await asking
    repeated = await alice.post(ASK, body, {"Idempotency-Key": "k-1"})
    for answer in (ended, repeated):
        assert (answer.status, answer.json["code"]) == (409, "request_withdrawn")


def in_a_header(key: str) -> str:
    """As clients send it: a header is bytes, and this one holds UTF-8."""
    return key.encode().decode("latin-1")


@pytest.mark.parametrize("prefixes", [("/api/v1", "/v1"), ("/v1", "/api/v1"), ("/v1", "/v1")])
@pytest.mark.parametrize("key", ["k-1", "batch/7", "100%", "né", "a/../b", "Ã©"])
@with_server
async def test_a_request_is_withdrawn_by_whatever_key_it_was_sent_with(
    server: LiveServer, prefixes: tuple[str, str], key: str
) -> None:
    alice = await server.client("alice")
    first, second = prefixes
    body = {"message_type": "request", "to": "bob", "payload": {}}
    sent = await alice.post(first + PLACE, body, {"Idempotency-Key": in_a_header(key)})

    done = await alice.delete(f"{second}/channels/{CHANNEL}/asks/{quote(key, safe='')}")

    assert (done.status, done.json["id"], done.json["state"]) == (200, sent.json["id"], "withdrawn")


@with_server
async def test_a_key_is_of_one_operation_under_both_prefixes(server: LiveServer) -> None:
    alice = await server.client("alice")
    key = {"Idempotency-Key": "k-1"}

    first = await alice.post("/api/v1" + PLACE, {"payload": {"n": 1}}, key)
    again = await alice.post("/v1" + PLACE, {"payload": {"n": 1}}, key)
    escaped = await alice.post("/v1" + PLACE.replace("chan", "ch%61n"), {"payload": {"n": 1}}, key)
    reused = await alice.post("/v1" + PLACE, {"payload": {"n": 2}}, key)

    assert {one.json["id"] for one in (first, again, escaped)} == {first.json["id"]}
    assert (reused.status, reused.code) == (422, "idempotency_mismatch")


@with_server
async def test_an_escaped_slash_is_part_of_a_name_and_no_step_of_the_path(server: LiveServer) -> None:
    alice = await server.client("alice")

    nowhere = await alice.get(f"/channels/{CHANNEL}%2Fmessages")

    assert (nowhere.status, nowhere.json["detail"]) == (404, "no such channel")


@with_server
async def test_a_guessed_lease_tells_nothing_of_a_request_that_one_may_not_see(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    await server.rig.role("worker", "bob")
    direct, queued = await request(alice), await request(alice, to="any:worker")
    body = {"to": "dave", "lease": "guessed"}

    hidden = [await carol.post(f"{PLACE}/{one}/forward", body) for one in (direct, queued, "msg_none")]
    lost = [await bob.post(f"{PLACE}/{one}/forward", body) for one in (direct, queued)]

    assert [(one.status, one.code, one.json["detail"]) for one in hidden] == [
        (404, "not_found", hidden[2].json["detail"])
    ] * 3
    assert [(one.status, one.code) for one in lost] == [(409, "lease_lost")] * 2


@with_server
async def test_a_key_for_several_agents_names_the_sender(server: LiveServer) -> None:
    service = await server.client(kind=KeyKind.SERVICE)
    asked = await request(service, sender="alice")

    assert (await service.delete(f"{PLACE}/{asked}")).status == 422
    assert (await service.delete(f"{PLACE}/{asked}?sender=bob")).status == 403
    assert (await service.delete(f"{PLACE}/{asked}?sender=alice")).json["state"] == "withdrawn"


@with_server
async def test_a_request_that_is_handed_on_is_answered_to_its_first_sender(server: LiveServer) -> None:
    alice, bob, carol = [await server.client(name) for name in ("alice", "bob", "carol")]
    asking = asyncio.create_task(alice.post(ASK, {"to": "bob", "payload": {"q": 1}, "timeout": 60}))

    async def arrived() -> bool:
        return bool((await bob.get(PLACE)).json)

    await soon(arrived)
    asked = (await bob.get(PLACE)).json[0]["id"]
    body = {"to": "carol", "metadata": {"forwarded": {"by": ["nobody"]}}}

    first = await bob.post(f"{PLACE}/{asked}/forward", body, {"Idempotency-Key": "f-1"})
    again = await bob.post(f"{PLACE}/{asked}/forward", body, {"Idempotency-Key": "f-1"})
    assert (first.status, first.json["payload"]) == (201, {"q": 1})
    assert first.json["id"] == again.json["id"]
    assert first.json["metadata"]["forwarded"] == {"request_id": asked, "asker": "alice", "by": ["bob"]}
    shown = (await bob.get(f"{PLACE}/{asked}/request")).json
    assert (shown["state"], shown["forwards"][0]["to"]) == ("forwarded", "carol")
    answer = await carol.post(f"{PLACE}/{first.json['id']}/reply", {"payload": {"a": 1}})

    got = await asking
    assert (got.status, got.json["id"], got.json["correlation_id"]) == (200, answer.json["id"], asked)


@pytest.mark.parametrize("to", ["carlo", "role:expret", "any:expret"])
@with_server
async def test_a_request_is_not_handed_on_to_somebody_whom_nobody_knows(server: LiveServer, to: str) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    await server.rig.agent("carol")
    await server.rig.role("expert", "carol")
    asked = await request(alice)

    refused = await bob.post(f"{PLACE}/{asked}/forward", {"to": to})
    still = (await alice.get(f"{PLACE}/{asked}/request")).json["state"]
    waiting = await bob.post(f"{PLACE}/{asked}/forward", {"to": to, "wait_for_responders": True})

    assert (refused.status, refused.code, still) == (404, "no_responders", "open")
    meant = to.replace("carlo", "carol").replace("expret", "expert")
    assert refused.json["similar"] == [meant]
    assert f'did you mean "{meant}"?' in refused.json["detail"]
    assert waiting.status == 201


@with_server
async def test_a_request_in_a_direct_channel_is_not_handed_on_and_the_error_says_what_to_do(
    server: LiveServer,
) -> None:
    alice, bob, _ = [await server.client(name) for name in ("alice", "bob", "carol")]
    direct = (await alice.get("/agents/bob/direct")).json["channel_id"]
    body = {"message_type": "request", "to": "bob", "payload": {"q": 1}}
    asked = (await alice.post(f"/channels/{direct}/messages", body)).json["id"]
    await server.rig.agent("carol")

    refused = await bob.post(f"/channels/{direct}/messages/{asked}/forward", {"to": "carol"})

    assert (refused.status, refused.code) == (403, "not_member")
    assert refused.json["detail"] == (
        "carol gets nothing from the direct channel of two other agents"
        ' (ask it yourself: parley ask carol, or in Python client.direct("carol").ask(...);'
        " then answer with what it says)"
    )


@with_server
async def test_who_forwards_cannot_sign_for_what_the_server_adds(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice)

    refused = await bob.post(f"{PLACE}/{asked}/forward", {"to": "carol", "metadata": {"proof": {}}})

    assert (refused.status, refused.json["code"]) == (422, "invalid")


@with_server
async def test_partial_answers_are_taken_only_where_they_are_understood(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    plain, streamed = await request(alice), await request(alice, metadata={"accepts_partial": True})
    part = {"payload": {"p": 1}, "metadata": {"partial": "artifact"}}

    assert (await bob.post(f"{PLACE}/{plain}/reply", part)).json["code"] == "partial_not_accepted"
    assert (await bob.post(f"{PLACE}/{streamed}/reply", part)).status == 201
    wrong = await bob.post(f"{PLACE}/{streamed}/reply", {"payload": {}, "metadata": {"partial": "chunk"}})
    assert (wrong.status, wrong.json["errors"][0]["field"]) == (422, "metadata.partial")
    shown = (await alice.get(f"{PLACE}/{streamed}/request")).json
    assert (shown["state"], shown["parts"], shown["answers"]) == ("partially_answered", 1, [])


@with_server
async def test_two_agents_talk_without_an_intent(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    mine, theirs = (await alice.get("/agents/bob/direct")).json, (await bob.get("/agents/alice/direct")).json
    place = f"/channels/{mine['channel_id']}/messages"
    assert mine == theirs
    assert mine["agents"] == ["alice", "bob"]
    assert (await alice.get(place)).status == 404

    sent = await alice.post(place, {"to": "bob", "payload": {"text": "hi"}})

    assert (sent.status, (await bob.get(place)).json[0]["payload"]) == (201, {"text": "hi"})
    assert (await alice.get("/agents/alice/direct")).status == 422
    carol = await server.client("carol")
    assert (await carol.get(place)).status == 404
    assert (await alice.patch(f"/channels/{mine['channel_id']}", {"status": "closed"})).status == 403


@with_server
async def test_a_batch_adds_no_partial_answer_beside_another_answer(server: LiveServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    asked = await request(alice, metadata={"accepts_partial": True})
    answer = {"message_type": "response", "correlation_id": asked, "payload": {}}
    part = {**answer, "metadata": {"partial": "artifact"}}

    refused = await bob.post(f"/channels/{CHANNEL}/batch", {"messages": [answer, part]})

    assert (refused.status, refused.json["errors"][0]["code"]) == (422, "repeated")
    assert (await alice.get(f"{PLACE}/{asked}/request")).json["state"] == "open"
