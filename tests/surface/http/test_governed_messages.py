"""Messages under the rules, over HTTP: what a client may rely on, word for word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parley.domain.channel.channel import Options
from parley.domain.directory.callers import KeyKind
from parley.domain.hashes import digest
from parley.domain.rules.policy import CURRENT, PolicySnapshot
from tests.conformance.ocip.governed import (
    ENVELOPE_FIELDS,
    MESSAGES,
    audit_of,
    by_parties,
    decide,
    document,
    exchange_of,
    held,
    inbox,
    pair,
    person,
    place,
    put_policy,
    refused,
    reply,
    said,
    tell,
)
from tests.rigs.team import CHANNEL, INTENT, Client, LiveServer, with_server

Document = dict[str, Any]


# ---------------------------------------------------------------- 201


@with_server
async def test_a_delivered_message_is_answered_and_read_with_what_was_stamped(server: LiveServer) -> None:
    alice, bob = await pair(server)

    answer = await tell(
        alice,
        "bob",
        "What is the status?",
        classification="public",
        conversation_id="conv-1",
        max_rounds=2,
        expires_at="2026-03-13T20:00:00Z",
    )

    assert answer.status == 201
    shown = document(answer)
    stamped = shown["metadata"]["ocip"]
    assert list(stamped) == ENVELOPE_FIELDS
    assert stamped == {
        "version": "1.0",
        "message_type": "agent-generated",
        "source_agent": {
            "instance_id": "alice",
            "user_id": "ann",
            "org_unit": "engineering",
            "tenant_id": "default",
        },
        "classification": "public",
        "conversation_id": "conv-1",
        "exchange_round": 1,
        "max_rounds": 2,
        "capabilities": {"can_commit": False, "can_share": ["public", "internal"]},
        "reply_policy": "agent-ok",
        "requires_commitment": False,
        "expires_at": "2026-03-13T20:00:00.000Z",
    }
    assert shown["metadata"]["ocip_ext"]["exchange_type"] == "information_query"
    assert shown["metadata"]["disclosure"]
    (got,) = await inbox(bob)
    assert (got["payload"], got["metadata"]) == (shown["payload"], shown["metadata"])


@with_server
async def test_a_whole_envelope_that_says_the_truth_passes_and_is_answered_with_the_same(server: LiveServer) -> None:
    alice, _ = await pair(server)
    first = await said(alice, "bob", conversation_id="conv-1")

    second = await tell(alice, "bob", ocip={**first["metadata"]["ocip"], "exchange_round": 2})

    assert second.status == 201
    assert second.json["metadata"]["ocip"] == {**first["metadata"]["ocip"], "exchange_round": 2}


@with_server
async def test_a_message_that_is_for_a_role_or_for_everyone_is_stamped_and_disclosed_too(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await server.rig.role("ops", "bob")

    to_role = await said(alice, "role:ops")
    to_all = await tell(alice, "*", "hello", kind="broadcast")

    assert to_all.status == 201
    for one in (to_role, document(to_all)):
        assert one["metadata"]["disclosure"] == one["metadata"]["ocip_ext"]["disclosure"]["label"]
    assert len(await inbox(bob)) == 2


@with_server
async def test_what_is_said_to_everyone_reaches_those_who_may_have_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    carol = await place(server, "carol", org_unit="sales", user_id="cleo")

    plain = await alice.post(MESSAGES, {"message_type": "broadcast", "payload": {"text": "hello"}})
    governed = await tell(alice, "*", "hello again", kind="broadcast")

    assert (plain.status, governed.status) == (201, 201)
    assert len(await inbox(bob)) == 2
    assert await inbox(carol) == []
    excluded = [one["excluded"] for one in await audit_of(alice) if one.get("excluded")]
    assert excluded
    assert all(one == [{"agent": "carol", "reason": "policy_denied"}] for one in excluded)


@with_server
async def test_a_person_speaks_in_its_agents_place_without_a_label(server: LiveServer) -> None:
    _, bob = await pair(server, org_unit="default")
    ann = await person(server, "ann")

    answer = await tell(ann, "bob", "We promise it.")
    in_seat = await ann.post(
        MESSAGES,
        {
            "sender": "alice",
            "to": "bob",
            "message_type": "request",
            "payload": {"text": "We promise it."},
            "metadata": {"exchange_type": "information_query", "disclosure": "by an AI"},
        },
    )

    assert (answer.status, in_seat.status) == (201, 201)
    for one, sender in ((answer, "ann"), (in_seat, "alice")):
        shown = document(one)
        assert (shown["sender"], shown["metadata"]["ocip"]["message_type"]) == (sender, "human")
        assert "disclosure" not in shown["metadata"]
        assert shown["metadata"]["ocip_ext"]["disclosure"] is None
    assert len(await inbox(bob)) == 2
    foreign = await ann.post(MESSAGES, {"sender": "bob", "to": "alice", "message_type": "notify", "payload": {}})
    assert refused(foreign) == (403, "sender_mismatch")


@with_server
async def test_posting_by_name_is_under_the_same_rules(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await place(server, "carol", org_unit="sales")
    path = f"/intents/{INTENT}/channels/fresh/messages"

    denied = await tell(alice, "carol", path=path)
    waits = await tell(alice, "bob", "We promise it.", path=path)
    passed = await tell(alice, "bob", path=path)

    assert refused(denied) == (403, "policy_denied")
    assert waits.status == 202
    assert passed.status == 201
    assert passed.json["metadata"]["ocip"]


# ---------------------------------------------------------------- 202


@with_server
async def test_a_held_message_is_answered_with_everything_its_sender_has_to_know(server: LiveServer) -> None:
    alice, bob = await pair(server)

    answer = await tell(alice, "bob", "We promise to book it.", conversation_id="conv-1")

    shown = document(answer)
    assert answer.status == 202
    assert shown == {
        "status": "held",
        "approval": shown["approval"],
        "reason": "Commitment keywords detected: book, promise. Human approval required.",
        "cause": "commitment",
        "requiresHuman": True,
        "detectedKeywords": ["book", "promise"],
        "exchange_id": shown["exchange_id"],
        "conversation_id": "conv-1",
        "digest": shown["digest"],
        "expires_at": shown["expires_at"],
        "deciders": ["ann"],
    }
    assert await inbox(bob) == []
    assert await inbox(alice) == []


@with_server
async def test_the_round_limit_is_held_with_the_six_keys_of_its_escalation(server: LiveServer) -> None:
    alice, bob = await pair(server)
    for client, to, text in ((alice, "bob", "one"), (bob, "alice", "two"), (alice, "bob", "three")):
        await said(client, to, text, conversation_id="conv-1")

    first = await held(bob, "alice", "four", conversation_id="conv-1")
    await server.restart()
    alice, bob = await server.client("alice"), await server.client("bob")
    again = await held(alice, "bob", "five", conversation_id="conv-1")

    assert first["approval"] == again["approval"]
    assert first["escalation"] == {
        "exchangeId": first["exchange_id"],
        "conversationId": "conv-1",
        "currentRound": 4,
        "maxRounds": 3,
        "conversationSummary": "Round 1 (alice): one\nRound 2 (bob): two\nRound 3 (alice): three\nRound 4 (bob): four",
        "reason": "Exchange reached maximum round limit (3). Human review required.",
    }
    assert (first["reason"], first["detectedKeywords"]) == (first["escalation"]["reason"], [])
    # Guesses of what bob wanted to say cannot be tried by its digest.
    assert (bool(first["digest"]), again["digest"]) == (True, "")


@pytest.mark.parametrize(
    ("purpose", "reason"),
    [
        ("commitment_request", "The exchange requires a commitment. Human approval required."),
        ("meeting_scheduling", "The exchange requires a commitment. Human approval required."),
    ],
)
@with_server
async def test_a_purpose_that_commits_is_held_whatever_it_says(server: LiveServer, purpose: str, reason: str) -> None:
    alice, _ = await pair(server)

    shown = await held(alice, "bob", "hello", exchange_type=purpose)

    assert (shown["reason"], shown["detectedKeywords"]) == (reason, [])


@with_server
async def test_across_org_units_by_approval_nothing_passes_before_a_person_says_so(server: LiveServer) -> None:
    alice, _ = await pair(server)
    carol = await place(server, "carol", org_unit="sales", user_id="cleo")
    await put_policy(server, "enabled: true\ncross_org: approval")

    waits = await alice.post(MESSAGES, {"to": "carol", "message_type": "request", "payload": {"text": "hello"}})
    assert waits.status == 202
    assert waits.json["cause"] == "cross_org"
    assert await inbox(carol) == []
    assert (await decide(await person(server, "ann"), waits.json, "approve")).status == 200

    (got,) = await inbox(carol)
    assert got["metadata"]["ocip"]["message_type"] == "agent-assisted"
    # Her answer crosses as well.
    back = await reply(carol, got)
    assert (back.status, back.json["cause"]) == (202, "cross_org")


@with_server
async def test_the_same_key_again_gives_the_same_held_answer_and_holds_nothing_twice(server: LiveServer) -> None:
    alice, _ = await pair(server)
    ann = await person(server, "ann")
    body = {
        "to": "bob",
        "message_type": "request",
        "payload": {"text": "We promise it."},
        "metadata": {"exchange_type": "information_query"},
    }
    key = {"Idempotency-Key": "once-1"}

    first = await alice.post(MESSAGES, body, key)
    again = await alice.post(MESSAGES, body, key)
    other = await alice.post(MESSAGES, {**body, "payload": {"text": "other"}}, key)
    await server.restart()
    alice, ann = await server.client("alice"), await person(server, "ann")
    restarted = await alice.post(MESSAGES, body, key)

    assert first.status == again.status == restarted.status == 202
    assert first.json == again.json == restarted.json
    assert other.status in (409, 422)
    assert len((await ann.get("/approvals", status="pending")).json) == 1
    assert (await decide(ann, first.json, "approve")).status == 200
    assert (await alice.post(MESSAGES, body, key)).status == 202


@with_server
async def test_a_refusal_uses_up_no_key(server: LiveServer) -> None:
    alice, _ = await pair(server)
    key = {"Idempotency-Key": "once-1"}
    body = {"to": "bob", "message_type": "request", "payload": {}, "metadata": {"classification": "restricted"}}

    denied = await alice.post(MESSAGES, body, key)
    mended = await alice.post(MESSAGES, {**body, "metadata": {"classification": "public"}}, key)

    assert refused(denied) == (403, "classification_exceeded")
    assert mended.status == 201


@with_server
async def test_what_is_asked_and_held_is_not_waited_for(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ask = {"to": "bob", "payload": {"text": "Can you promise it?"}, "timeout": 20}
    metadata = {"metadata": {"exchange_type": "information_query"}}

    asked = await alice.post(f"/channels/{CHANNEL}/ask", {**ask, **metadata})
    waited = await alice.post(
        f"{MESSAGES}?wait=20",
        {"to": "bob", "message_type": "request", "payload": {"text": "I confirm."}, **metadata},
    )
    server.rig.clock.pass_by(minutes=5)
    done = await decide(await person(server, "ann"), asked.json, "approve")

    assert (asked.status, waited.status) == (202, 202)
    assert asked.json["status"] == waited.json["status"] == "held"
    assert done.status == 200
    assert [one["payload"]["text"] for one in await inbox(bob)] == ["Can you promise it?"]


@with_server
async def test_what_only_a_person_may_answer_is_held_for_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob", "Can we talk?", exchange_type="meeting_scheduling")
    await decide(await person(server, "ann"), waits, "approve")
    (asked,) = await inbox(bob)

    by_agent = await reply(bob, asked, "fine")
    ben = await person(server, "ben")
    body = {"sender": "bob", "payload": {"text": "We meet on Thursday."}}
    by_person = await ben.post(f"{MESSAGES}/{asked['id']}/reply", body)

    assert (by_agent.status, by_agent.json["cause"]) == (202, "human_only")
    assert by_agent.json["reason"] == "Only a human may respond. Human approval required."
    assert by_person.status == 201
    assert by_person.json["metadata"]["ocip"]["message_type"] == "human"
    assert (await decide(ben, by_agent.json, "approve")).status == 200
    answers = by_parties(await inbox(alice))[1:]
    assert [one["metadata"]["ocip"]["message_type"] for one in answers] == ["human", "agent-assisted"]


# ---------------------------------------------------------------- 403, 409, 422, 429


@with_server
async def test_every_denial_has_its_code_and_delivers_nothing(server: LiveServer) -> None:
    alice, bob = await pair(server)
    carol = await place(server, "carol", org_unit="sales")
    await place(server, "mute", can_receive_queries=False)
    await place(server, "picky", supported_exchange_types=["commitment_request"])
    true = (await said(alice, "bob", conversation_id="conv-t"))["metadata"]["ocip"]
    mine = {**true, "conversation_id": "conv-n", "exchange_round": 1}
    source = true["source_agent"]
    known = len(await inbox(bob))

    async def code(to: str = "bob", **metadata: Any) -> tuple[int, str]:  # noqa: ANN401  # whatever JSON holds
        return refused(await tell(alice, to, **metadata))

    assert await code("bob@globex") == (403, "cross_enterprise_blocked")
    assert await code("carol") == (403, "policy_denied")
    assert await code("mute") == (403, "receiver_refuses")
    assert await code("picky") == (403, "receiver_refuses")
    assert await code(classification="confidential") == (403, "classification_exceeded")
    assert await code(ocip={**mine, "message_type": "human"}) == (403, "message_type_forbidden")
    assert await code(ocip={**mine, "message_type": "agent-assisted"}) == (403, "message_type_forbidden")
    for field in source:
        assert await code(ocip={**mine, "source_agent": {**source, field: "other"}}) == (403, "identity_mismatch")
    commits = {"can_commit": True, "can_share": ["public"]}
    assert await code(ocip={**mine, "capabilities": commits}) == (403, "commit_forbidden")
    shares = {"can_commit": False, "can_share": ["restricted"]}
    assert await code(ocip={**mine, "capabilities": shares}) == (403, "classification_exceeded")
    assert await code(conversation_id="conv-t", max_rounds=9) == (403, "max_rounds_fixed")
    assert await code(conversation_id="conv-t", expires_at="2026-03-13T20:00:00Z") == (403, "expires_at_fixed")
    await put_policy(server, "enabled: false")
    assert await code() == (403, "policy_denied")
    assert len(await inbox(bob)) == known
    assert await inbox(carol) == []


@with_server
async def test_a_wrong_state_is_a_conflict_with_its_code(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", conversation_id="conv-1")
    true = first["metadata"]["ocip"]

    mismatch = await tell(alice, "bob", ocip={**true, "exchange_round": 1})
    assert refused(mismatch) == (409, "round_mismatch")
    assert mismatch.json["exchange_round"] == 2
    await alice.post(f"/exchanges/{first['metadata']['ocip_ext']['exchange_id']}/close")
    assert refused(await tell(bob, "alice", conversation_id="conv-1")) == (409, "exchange_closed")

    note = {"classification": "public", "conversation_id": "conv-2"}
    told = await alice.post(MESSAGES, {"to": "bob", "message_type": "notify", "payload": {}, "metadata": note})
    assert told.json["metadata"]["ocip"]["reply_policy"] == "no-reply-needed"
    assert refused(await tell(bob, "alice", conversation_id="conv-2")) == (409, "no_reply_needed")

    await said(alice, "bob", conversation_id="conv-3", expires_at="2026-03-13T15:00:00Z")
    server.rig.clock.pass_by(hours=1)
    assert refused(await tell(bob, "alice", conversation_id="conv-3")) == (409, "exchange_expired")


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"exchange_type": "chat"}, "exchange_type"),
        ({"classification": "secret"}, "classification"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": True}, "max_rounds"),
        ({"expires_at": "2020-01-01T00:00:00Z", "classification": "public"}, "expires_at"),
        ({"data": [{"source": "crm", "fields": 7}]}, "data[0].fields"),
        ({"ocip": {"version": "1.0"}}, "message_type"),
        ({"ocip": {"version": "2.0"}}, "message_type"),
        ({"ocip": "none"}, "ocip"),
        ({"ocip": None}, "ocip"),
    ],
)
@with_server
async def test_an_invalid_envelope_names_the_field_and_delivers_nothing(
    server: LiveServer, metadata: Document, field: str
) -> None:
    alice, bob = await pair(server)

    answer = await alice.post(MESSAGES, {"to": "bob", "message_type": "request", "payload": {}, "metadata": metadata})

    assert refused(answer) == (422, "envelope_invalid")
    assert field in answer.body.decode()
    assert await inbox(bob) == []
    assert [one["code"] for one in await audit_of(alice)] == ["envelope_invalid"]


@with_server
async def test_a_pair_that_has_said_enough_for_an_hour_is_told_when_to_come_again(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "enabled: true\npair_budget: 1")
    await said(alice, "bob")

    answer = await tell(alice, "bob")

    assert refused(answer) == (429, "pair_budget")
    assert answer.headers["retry-after"] == "1800"
    waits = (await (await person(server, "ann")).get("/approvals", status="pending")).json
    assert [one["cause"] for one in waits] == ["pair_budget"]


# ---------------------------------------------------------------- content


@pytest.mark.parametrize(
    ("on_over", "payload"),
    [("withhold", {"name": "Bob"}), ("redact", {"name": "Bob", "salary": "[redacted]"})],
)
@with_server
async def test_what_may_not_pass_is_not_delivered_and_the_audit_says_so(
    server: LiveServer, on_over: str, payload: Document
) -> None:
    alice, bob = await pair(server)
    await put_policy(server, f"enabled: true\non_over_classified: {on_over}")
    data = [
        {"source": "hr", "fields": ["salary"], "classification": "restricted", "description": "what he earns"},
        {"source": "crm", "fields": ["name"], "classification": "public"},
    ]

    answer = await tell(alice, "bob", payload={"name": "Bob", "salary": 4711}, data=data)

    assert answer.status == 201
    (got,) = await inbox(bob)
    assert got["payload"] == answer.json["payload"] == payload
    assert "4711" not in json.dumps(got)
    assert [one["source"] for one in got["metadata"]["data"]] == ["crm"]
    for client in (alice, bob):
        (entry,) = await audit_of(client)
        assert entry["dataShared"] == [{"source": "crm", "fields": ["name"]}]
        assert entry["dataWithheld"] == [{"reason": "restricted is above internal", "description": "what he earns"}]
        assert entry["content_digest"] == digest(json.dumps(payload, separators=(",", ":")).encode())


@with_server
async def test_data_above_the_ceiling_blocks_by_default_and_is_recorded(server: LiveServer) -> None:
    alice, bob = await pair(server)

    answer = await tell(alice, "bob", payload={"salary": 1}, data=[{"source": "hr", "fields": ["salary"]}])

    assert refused(answer) == (403, "classification_exceeded")
    assert await inbox(bob) == []
    (entry,) = await audit_of(alice, action="agent_exchange")
    assert entry["dataWithheld"] == [{"reason": "restricted is above internal", "description": "hr: salary"}]


@with_server
async def test_what_is_held_and_cut_is_cut_where_the_person_sees_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")
    await put_policy(server, "enabled: true\non_over_classified: withhold")
    data = [{"source": "hr", "fields": ["salary"], "classification": "restricted"}]

    waits = await held(alice, "bob", payload={"text": "We promise it.", "salary": 4711}, data=data)
    shown = (await ann.get(f"/approvals/{waits['approval']}")).json
    await decide(ann, waits, "approve")

    assert shown["payload"] == {"text": "We promise it."}
    (got,) = await inbox(bob)
    assert got["payload"] == shown["payload"]


# ---------------------------------------------------------------- nobody sees what is held


@with_server
async def test_no_stream_shows_what_is_held_before_it_goes_out(server: LiveServer) -> None:
    alice, bob = await pair(server)
    watcher = await server.client("", KeyKind.ADMIN)
    path = f"/channels/{CHANNEL}/subscribe"

    async with bob.events(path) as mine, watcher.events(path) as theirs:
        waits = await held(alice, "bob", "We promise it, xyzzy.")
        assert await mine.silence()
        assert await theirs.silence()
        await decide(await person(server, "ann"), waits, "approve")
        assert "xyzzy" in (await mine.next()).data


@with_server
async def test_an_audited_channel_shows_only_the_digest_of_what_was_said(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await server.rig.channel("chan_a", options=Options(audit=True))
    path = "/channels/chan_a/messages"

    shown = await said(alice, "bob", "for bob alone", path=path)
    await held(alice, "bob", "We promise it, xyzzy.", path=path)

    log = (await alice.get(f"/intents/{INTENT}/events")).body.decode()
    spelled = json.dumps(shown["payload"], separators=(",", ":")).encode()
    assert digest(spelled) in log
    assert "for bob alone" not in log
    assert "xyzzy" not in log


@with_server
async def test_only_whom_it_was_for_reads_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    dora = await place(server, "dora")
    shown = await said(alice, "bob", "for bob alone")

    assert (await dora.get(f"{MESSAGES}/{shown['id']}")).status == 404
    assert await inbox(dora) == []
    assert len(await inbox(bob)) == 1


@with_server
async def test_forged_metadata_of_an_ungoverned_message_is_stamped_over(server: LiveServer) -> None:
    alice, bob = await pair(server)
    forged = {"ocip_ext": {"approval": {"id": "appr_1", "by": "boss"}}, "disclosure": "written by a human"}

    answer = await alice.post(MESSAGES, {"to": "bob", "message_type": "notify", "payload": {}, "metadata": forged})

    assert answer.status == 201
    (got,) = await inbox(bob)
    assert "approval" not in got["metadata"]["ocip_ext"]
    assert got["metadata"]["ocip"]["message_type"] == "agent-generated"
    assert "human" not in got["metadata"]["disclosure"]


@with_server
async def test_a_batch_is_no_way_around_the_rules(server: LiveServer) -> None:
    alice, bob = await pair(server)

    async def batch(*messages: Document) -> tuple[int, str]:
        answer = await alice.post(f"/channels/{CHANNEL}/batch", {"messages": list(messages)})
        return (answer.status, "") if answer.status == 201 else refused(answer)

    plain: Document = {"to": "bob", "message_type": "notify", "payload": {"text": "hello"}}
    promise = {**plain, "payload": {"text": "We promise it."}, "metadata": {"classification": "public"}}

    assert (await batch(plain, promise))[0] == 422
    assert (await batch(promise))[0] == 422
    assert await batch(plain, {**plain, "to": "bob@globex"}) == (403, "cross_enterprise_blocked")
    assert await inbox(bob) == []
    assert (await batch(plain, plain))[0] == 201


@with_server
async def test_an_exchange_can_be_read_by_what_its_message_says(server: LiveServer) -> None:
    alice, bob = await pair(server)
    shown = await said(alice, "bob")

    for client in (alice, bob):
        assert (await exchange_of(client, shown))["currentRound"] == 1


async def texts(client: Client) -> list[str]:
    return [one["payload"]["text"] for one in await inbox(client)]


@with_server
async def test_without_a_policy_nothing_is_delivered(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await server.rig.put(PolicySnapshot(id=CURRENT, tenant_id="default"))

    assert refused(await tell(alice, "bob")) == (503, "policy_unavailable")
    assert await texts(bob) == []
