from __future__ import annotations

import json
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import (
    admin_of,
    audit_of,
    decide,
    envelope_of,
    ext_of,
    held,
    inbox,
    pair,
    person,
    place,
    put_policy,
    refused,
    said,
    shown,
)
from tests.rigs.team import Client, LiveServer, with_server

pytestmark = pytest.mark.both_stores

Document = dict[str, Any]


async def listed(client: Client, **query: Any) -> list[str]:  # noqa: ANN401  # texts and numbers
    answer = await client.get("/approvals", **query)
    assert answer.status == 200, answer
    return [one["id"] for one in answer.json]


@with_server
async def test_a_person_sees_exactly_what_will_be_sent_with_everything_hidden_made_visible(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob", "We prom\u200bise it\u202e.", classification="public", note="beside it")

    found = await shown(await person(server, "ann"), f"/approvals/{waits['approval']}")

    assert found["payload"] == {"text": "We prom\u200bise it\u202e."}
    assert found["metadata"]["note"] == "beside it"
    assert found["visible_text"] == '{"text":"We prom⟨U+200B⟩ise it⟨U+202E⟩."}'
    assert [one["code_point"] for one in found["hidden_characters"]] == ["U+200B", "U+202E"]
    assert (found["agent"], found["user"], found["to"], found["classification"]) == ("alice", "ann", "bob", "public")
    assert (found["status"], found["cause"], found["detectedKeywords"]) == ("pending", "commitment", ["promise"])
    assert found["digest"] == waits["digest"]


@with_server
async def test_who_may_decide_and_whether_the_one_who_asks_may_is_shown(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "enabled: true\nself_approval: false\napprovers: [ann, dee]")
    waits = await held(alice, "bob")
    path = f"/approvals/{waits['approval']}"
    ann, dee = await person(server, "ann"), await person(server, "dee")

    found = [await shown(client, path) for client in (alice, await admin_of(server), ann, dee)]

    assert waits["deciders"] == ["dee"]
    assert [one["deciders"] for one in found] == [["dee"]] * 4
    assert [one["barred"] for one in found] == ["human_required", "human_required", "self_approval", None]
    done = await decide(dee, waits, "reject")
    assert (done.json["deciders"], done.json["barred"]) == ([], None)


@with_server
async def test_what_is_approved_goes_out_once_as_assisted(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waits = await held(alice, "bob", "We promise it.")

    done = await decide(ann, waits, "approve", note="fine")
    again = await decide(ann, waits, "approve")

    assert done.status == 200
    assert (done.json["status"], done.json["decided_by"], done.json["note"]) == ("approved", "ann", "fine")
    assert refused(again) == (409, "approval_decided")
    (got,) = await inbox(bob)
    assert got["id"] == done.json["message_id"]
    assert got["payload"] == {"text": "We promise it."}
    assert envelope_of(got)["message_type"] == "agent-assisted"
    assert envelope_of(got)["capabilities"]["can_commit"] is True
    assert ext_of(got)["approval"] == {"id": waits["approval"], "by": "ann"}
    assert got["metadata"]["disclosure"]


@with_server
async def test_what_is_rejected_never_goes_out(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob", conversation_id="conv-1")

    done = await decide(await person(server, "ann"), waits, "reject", note="no")

    assert (done.status, done.json["status"], done.json["message_id"]) == (200, "rejected", None)
    assert await inbox(bob) == []
    assert (await shown(alice, f"/exchanges/{waits['exchange_id']}"))["outcome"] == "denied"
    decided = [one for one in await audit_of(alice) if one["action"] == "approval_decided"]
    assert [(one["actor"], one["decision"], one["note"]) for one in decided] == [("ann", "rejected", "no")]


@pytest.mark.parametrize("answer", ["I say it myself.", {"text": "I say it myself."}])
@with_server
async def test_a_person_answers_in_its_agents_place(server: LiveServer, answer: str | Document) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob")

    done = await decide(await person(server, "ann"), waits, "answer", answer=answer)

    assert (done.status, done.json["status"]) == (200, "answered")
    (got,) = await inbox(bob)
    assert (got["payload"], envelope_of(got)["message_type"]) == ({"text": "I say it myself."}, "human")
    assert "disclosure" not in got["metadata"]


@with_server
async def test_the_round_limit_is_answered_and_never_extended(server: LiveServer) -> None:
    alice, bob = await pair(server)
    for client, to in ((alice, "bob"), (bob, "alice"), (alice, "bob")):
        await said(client, to, conversation_id="conv-1")
    waits = await held(bob, "alice", "four", conversation_id="conv-1")
    ben = await person(server, "ben")

    assert refused(await decide(ben, waits, "approve")) == (409, "not_releasable")
    assert (await decide(ben, waits, "answer", answer="Let us talk.")).status == 200

    assert (await shown(bob, f"/exchanges/{waits['exchange_id']}"))["outcome"] == "resolved"
    assert [one["payload"]["text"] for one in await inbox(alice) if one["sender"] == "bob"] == ["hello", "Let us talk."]


@with_server
async def test_a_decision_is_about_what_was_seen(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waits = await held(alice, "bob")

    for digest in ("", "0" * 64):
        answer = await ann.post(f"/approvals/{waits['approval']}/decision", {"decision": "approve", "digest": digest})
        assert refused(answer) == (409, "approval_stale")
    await put_policy(server, "enabled: true\nmax_rounds: 2")
    stale = await decide(ann, waits, "approve")

    assert refused(stale) == (409, "approval_stale")
    assert await inbox(bob) == []
    now = await shown(ann, f"/approvals/{waits['approval']}")
    assert stale.json["digest"] == now["digest"] != waits["digest"]
    assert (await decide(ann, now, "approve")).status == 200


@with_server
async def test_only_a_person_whom_it_concerns_decides(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob")
    service = await server.client("", KeyKind.SERVICE)

    for client in (alice, bob, service, await admin_of(server)):
        assert refused(await decide(client, waits, "approve")) == (403, "human_required")
    for user in ("ben", "zoe"):
        assert refused(await decide(await person(server, user), waits, "approve")) == (404, "not_found")
    foreign = await person(server, "ann", "globex")
    assert refused(await decide(foreign, waits, "approve")) == (404, "not_found")
    in_seat = server.with_key(server.rig.secrets["key_default_human_ben"], "bob")
    assert refused(await decide(in_seat, waits, "approve")) == (404, "not_found")
    assert await inbox(bob) == []


@with_server
async def test_four_eyes_and_a_delegate(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "enabled: true\nself_approval: false\napprovers: [dee]")
    waits = await held(alice, "bob")
    dee = await person(server, "dee")

    assert refused(await decide(await person(server, "ann"), waits, "approve")) == (403, "self_approval")
    assert await listed(dee, status="pending") == [waits["approval"]]
    assert (await decide(dee, waits, "approve")).json["decided_by"] == "dee"


@with_server
async def test_approvals_are_listed_for_whom_they_concern(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await place(server, "dora", user_id="dan")
    first, second = await held(alice, "bob"), await held(alice, "dora")
    ann = await person(server, "ann")
    await decide(ann, first, "reject")

    assert await listed(ann, status="pending") == [second["approval"]]
    assert await listed(ann, status="rejected") == [first["approval"]]
    assert await listed(alice) == [first["approval"], second["approval"]]
    assert await listed(alice, limit=1) == [first["approval"]]
    assert await listed(alice, after=first["approval"]) == [second["approval"]]
    assert await listed(bob) == await listed(await person(server, "dan")) == []
    assert await listed(await server.client("", KeyKind.ADMIN, "globex")) == []
    assert (await ann.get("/approvals", status="open")).status == 422


@with_server
async def test_what_nobody_decides_in_time_is_denied(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "enabled: true\napproval_hours: 1")
    waits = await held(alice, "bob")
    server.rig.clock.pass_by(hours=1)

    late = await decide(await person(server, "ann"), waits, "approve")

    assert refused(late) == (409, "approval_decided")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "maybe"},
        {"decision": "approve", "digest": "d", "by": "boss"},
        {"decision": "answer"},
        {"decision": "approve", "digest": 7},
    ],
)
@with_server
async def test_a_decision_is_read_strictly(server: LiveServer, body: Document) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob")
    ann = await person(server, "ann")
    given = {**body, "digest": waits["digest"]} if body == {"decision": "answer"} else body

    assert (await ann.post(f"/approvals/{waits['approval']}/decision", given)).status == 422
    assert await inbox(bob) == []


@with_server
async def test_the_same_key_decides_once_and_is_answered_the_same(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waits = await held(alice, "bob")
    body = {"decision": "approve", "digest": waits["digest"]}
    path, key = f"/approvals/{waits['approval']}/decision", {"Idempotency-Key": "once-1"}

    first, again = await ann.post(path, body, key), await ann.post(path, body, key)

    assert first.status == again.status == 200
    assert json.loads(first.body)["message_id"] == json.loads(again.body)["message_id"]
    assert len(await inbox(bob)) == 1


@with_server
async def test_an_agents_stream_tells_it_what_became_of_what_was_held_and_no_other_does(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    waits = [await held(alice, "bob", text) for text in ("We promise more.", "We promise it.")]
    async with alice.events("/agents/alice/subscribe") as hers, bob.events("/agents/bob/subscribe") as his:
        rejected = await decide(ann, waits[0], "reject", note="not now")
        approved = await decide(ann, waits[1], "approve")
        heard = [(await hers.next()).json for _ in range(2)]
        passed = (await his.next()).json
        quiet = await his.silence()

    assert [(one["sender"], one["to"], one["message_type"]) for one in heard] == [("system", "alice", "notify")] * 2
    assert [one["payload"] for one in heard] == [
        {
            "event": "approval_decided",
            "approval_id": rejected.json["id"],
            "status": "rejected",
            "message_id": None,
            "note": "not now",
        },
        {
            "event": "approval_decided",
            "approval_id": approved.json["id"],
            "status": "approved",
            "message_id": passed["id"],
            "note": None,
        },
    ]
    assert (passed["payload"], quiet) == ({"text": "We promise it."}, True)
    assert [one["sender"] for one in await inbox(bob)] == ["alice"]
