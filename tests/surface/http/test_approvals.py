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
    reply,
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


# ---------------------------------------------------------------- lists, summaries and counts


@with_server
async def test_approvals_are_listed_by_agent_person_receiver_cause_and_order(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await held(alice, "bob", "We promise it.")
    second = await held(bob, "alice", "We commit to it.")
    third = await held(alice, "bob", "We guarantee it.")
    ids = [one["approval"] for one in (first, second, third)]
    admin, ann = await admin_of(server), await person(server, "ann")

    assert await listed(admin) == ids
    assert await listed(admin, order="newest") == ids[::-1]
    assert await listed(admin, before=ids[2], limit=1) == [ids[1]]
    assert await listed(admin, order="expiring", after=ids[0]) == ids[1:]
    assert await listed(admin, agent="alice") == [ids[0], ids[2]] == await listed(admin, user="ann")
    assert await listed(admin, to="alice", cause="commitment") == [ids[1]]
    assert await listed(admin, cause="rule") == []
    assert await listed(ann) == [ids[0], ids[2]]
    assert await listed(ann, agent="bob") == await listed(ann, user="ben") == []
    assert await listed(bob) == [ids[1]]
    await decide(ann, first, "reject")
    assert await listed(admin, status="decided") == [ids[0]]
    assert refused(await admin.get("/approvals", order="newest", after=ids[0])) == (422, "invalid")


@with_server
async def test_what_waits_is_counted_for_those_who_may_see_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "enabled: true\napprovers: [dee]")
    waits = [await held(alice, "bob", f"We promise it, {n}.") for n in range(3)]
    await held(bob, "alice")
    people = [await person(server, name) for name in ("ann", "ben", "dee", "eve")]
    clients = (await admin_of(server), alice, *people)

    counts = [(await shown(client, "/approvals/count", status="pending"))["count"] for client in clients]
    await decide(people[0], waits[0], "approve")

    assert counts == [4, 3, 3, 1, 4, 0]
    assert await shown(people[2], "/approvals/count", status="decided") == {"count": 1, "more": False}
    assert await shown(people[2], "/approvals/count", agent="bob") == {"count": 1, "more": False}


@with_server
async def test_a_summary_says_what_it_is_about_without_the_content(server: LiveServer) -> None:
    alice, _ = await pair(server)
    text = "We prom\u200bise it. " + "More of it. " * 100
    waits = await held(alice, "bob", text)
    ann = await person(server, "ann")

    (summary,) = (await ann.get("/approvals", summary="true")).json
    whole = await shown(ann, f"/approvals/{waits['approval']}")

    content = {"payload", "metadata", "visible_text", "hidden_characters", "confusable", "detected", "escalation"}
    assert whole.keys() - summary.keys() == content | {"closes"}
    assert {name: whole[name] for name in summary} == summary
    assert summary["summary"].startswith("We prom\\u200bise it.")
    assert len(summary["summary"]) <= 200
    assert summary["hidden"] == 1
    assert summary["bytes"] == len(text.encode()) + len(b'{"text":""}')


# ---------------------------------------------------------------- what there is to decide


@with_server
async def test_the_words_are_shown_at_their_places_and_look_alikes_are_pointed_out(server: LiveServer) -> None:
    alice, _ = await pair(server)
    payload = {"text": "We ag\u200bree. See https://\u0430pple.com", "deadline": ["on Friday"]}
    waits = await held(alice, "bob", payload=payload)

    found = await shown(await person(server, "ann"), f"/approvals/{waits['approval']}")

    assert found["detected"] == [
        {"where": "/payload/text", "position": 3, "length": 6, "keyword": "agree"},
        {"where": "/payload/deadline#", "position": 0, "length": 8, "keyword": "deadline"},
    ]
    assert found["confusable"] == [
        {"where": "/payload/text", "position": 23, "length": 5, "scripts": ["Cyrillic", "Latin"]}
    ]


@with_server
async def test_the_decisions_are_those_that_the_caller_may_make(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob")
    await put_policy(server, "enabled: true\nmax_rounds: 1")
    asked = await said(bob, "alice", "one?")
    limit = (await reply(alice, asked)).json["approval"]
    ann, admin = await person(server, "ann"), await admin_of(server)

    async def decisions(client: Client, approval: str) -> list[str]:
        return list((await shown(client, f"/approvals/{approval}"))["decisions"])

    assert await decisions(ann, waits["approval"]) == ["approve", "reject", "answer"]
    assert await decisions(ann, limit) == ["reject", "answer"]
    assert await decisions(admin, waits["approval"]) == await decisions(alice, waits["approval"]) == []
    await decide(ann, waits, "reject")
    assert await decisions(ann, waits["approval"]) == []


@with_server
async def test_an_approval_is_stale_once_the_policies_have_changed(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    ann, path = await person(server, "ann"), f"/approvals/{waits['approval']}"
    before = (await shown(ann, path))["stale"]
    await put_policy(server, "enabled: true\nmax_rounds: 5")

    after = await shown(ann, path)

    assert (before, after["stale"]) == (False, True)
    assert refused(await decide(ann, after, "approve")) == (409, "approval_stale")
    assert (await shown(ann, path))["stale"] is False


@with_server
async def test_the_exchange_comes_with_an_approval_when_it_is_asked_for(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(bob, "alice", "When?")
    waits = (await reply(alice, asked, "I promise: Friday.")).json
    ann = await person(server, "ann")

    found = await shown(ann, f"/approvals/{waits['approval']}", expand="exchange")

    assert [turn["summary"] for turn in found["exchange"]["transcript"]] == ["When?"]
    assert "exchange" not in await shown(ann, f"/approvals/{waits['approval']}")
    assert refused(await ann.get(f"/approvals/{waits['approval']}", expand="all")) == (422, "invalid")


# ---------------------------------------------------------------- who is asking


@with_server
async def test_a_person_is_told_which_agents_act_for_it_and_whether_it_decides_for_others(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await place(server, "amy", user_id="ann")
    await put_policy(server, "enabled: true\napprovers: [dee]")
    clients = (await person(server, "ann"), await person(server, "dee"), alice, await admin_of(server))

    holders = [await shown(client, "/whoami") for client in clients]

    assert [holder["agents"] for holder in holders] == [["alice", "amy"], [], [], []]
    assert [holder["is_approver"] for holder in holders] == [False, True, False, False]
