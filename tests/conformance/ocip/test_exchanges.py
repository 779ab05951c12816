"""OCIP: what an exchange is for, how it stands, and how a message flows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from parley.app.team.work.sweep import sweep
from tests.conformance.ocip.governed import (
    audit_of,
    decide,
    envelope_of,
    exchange_of,
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
    tell,
)
from tests.rigs.team import LiveServer, with_server

pytestmark = pytest.mark.both_stores

# ---------------------------------------------------------------- what it is for


@pytest.mark.requirement("OCIP-3-INFORMATION-QUERY", "OCIP-8-QUERY", "OCIP-3-TYPED")
@with_server
async def test_an_information_query_is_answered_by_an_agent_and_commits_nobody(server: LiveServer) -> None:
    alice, bob = await pair(server)

    asked = await said(alice, "bob", "What is the status of ticket ENG-1234?", exchange_type="information_query")
    answer = await reply(bob, asked, "It is in review.")

    assert (envelope_of(asked)["reply_policy"], envelope_of(asked)["requires_commitment"]) == ("agent-ok", False)
    assert answer.status == 201


@pytest.mark.requirement("OCIP-3-COMMITMENT-REQUEST", "OCIP-8-COMMITMENT", "OCIP-3-TYPED", "OCIP-6-FLAG-COMMITMENT")
@with_server
async def test_a_commitment_request_is_held_though_an_agent_may_answer_it(server: LiveServer) -> None:
    alice, bob = await pair(server)

    waiting = await held(alice, "bob", "Can you allocate 2 engineers to Project X?", exchange_type="commitment_request")
    exchange = await exchange_of(alice, waiting)

    assert (exchange["exchange_type"], exchange["reply_policy"]) == ("commitment_request", "agent-ok")
    assert exchange["requires_commitment"] is True
    assert waiting["reason"] == "The exchange requires a commitment. Human approval required."
    assert await inbox(bob) == []
    # Words are not needed for it: the type alone says so.
    assert (await tell(alice, "bob", "Two people, please.", exchange_type="commitment_request")).status == 202


@pytest.mark.requirement("OCIP-3-MEETING-SCHEDULING", "OCIP-8-MEETING", "OCIP-3-TYPED", "OCIP-6-FLAG-HUMAN-ONLY")
@with_server
async def test_a_meeting_is_for_humans_to_answer_and_commits(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "enabled: true\nmeeting_approval: responder")
    text = "Can we find an hour for the design on Thursday?"

    asked = await said(alice, "bob", text, exchange_type="meeting_scheduling")
    answer = await reply(bob, asked, "Thursday is fine.")

    assert (envelope_of(asked)["reply_policy"], envelope_of(asked)["requires_commitment"]) == ("human-only", True)
    assert (answer.status, answer.json["cause"]) == (202, "human_only")
    assert [one["id"] for one in await inbox(alice)] == [asked["id"]]


@pytest.mark.requirement("OCIP-3-MEETING-SCHEDULING")
@with_server
async def test_the_meeting_of_the_example_waits_for_a_human(server: LiveServer) -> None:
    alice, _ = await pair(server)

    waiting = await held(
        alice, "bob", "Can we schedule a design review for Thursday?", exchange_type="meeting_scheduling"
    )

    assert (await exchange_of(alice, waiting))["outcome"] == "escalated"


# ---------------------------------------------------------------- how it stands


@pytest.mark.requirement("OCIP-3-IN-PROGRESS", "OCIP-1-WITHIN")
@with_server
async def test_while_messages_are_exchanged_it_is_in_progress(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    assert (await exchange_of(alice, asked))["outcome"] == "in_progress"

    await reply(bob, asked)

    assert (await exchange_of(bob, asked))["outcome"] == "in_progress"


@pytest.mark.requirement("OCIP-3-RESOLVED")
@with_server
async def test_one_that_was_closed_is_resolved_and_takes_no_more(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")

    closed = await alice.post(f"/exchanges/{ext_of(asked)['exchange_id']}/close", {"reason": "thank you"})

    assert (closed.status, closed.json["outcome"], closed.json["reason"]) == (200, "resolved", "thank you")
    assert refused(await reply(bob, asked)) == (409, "exchange_closed")


@pytest.mark.requirement("OCIP-3-ESCALATED-ROUNDS")
@with_server
async def test_one_round_too_many_escalates_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", max_rounds=1)

    assert (await reply(bob, asked)).status == 202
    assert (await exchange_of(bob, asked))["outcome"] == "escalated"


@pytest.mark.requirement("OCIP-3-ESCALATED-COMMITMENT")
@with_server
async def test_a_commitment_escalates_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")

    assert (await reply(bob, asked, "I guarantee it.")).status == 202
    assert (await exchange_of(bob, asked))["outcome"] == "escalated"


@pytest.mark.requirement("OCIP-3-ESCALATED-ERROR")
@with_server
async def test_a_detector_that_breaks_escalates_it(server: LiveServer) -> None:
    def broken(_: Iterable[str]) -> Iterable[str]:
        raise ValueError("no idea")

    alice, bob = await pair(server)
    server.rig.team.governance.detectors = (broken,)

    waiting = await held(alice, "bob", "Good morning.")

    assert waiting["detectedKeywords"] == ["detector-failed"]
    assert (await exchange_of(alice, waiting))["outcome"] == "escalated"
    assert await inbox(bob) == []


@pytest.mark.requirement("OCIP-3-DENIED", "OCIP-0-GOVERNED")
@with_server
async def test_one_that_the_policy_denies_is_denied_and_over(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    await put_policy(server, "enabled: false")

    assert refused(await reply(bob, asked)) == (403, "policy_denied")

    exchange = await exchange_of(alice, asked)
    assert (exchange["outcome"], exchange["reason"]) == ("denied", "policy_denied")
    await put_policy(server, "enabled: true")
    assert refused(await reply(bob, asked)) == (409, "exchange_closed")


@pytest.mark.requirement("OCIP-3-EXPIRED", "GOV-EXPIRY-SWEPT")
@with_server
async def test_one_whose_time_has_passed_is_expired_by_the_sweep(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    server.rig.clock.pass_by(hours=24)

    await sweep(server.rig.team)

    exchange = await exchange_of(alice, asked)
    assert (exchange["outcome"], exchange["ended_by"]) == ("expired", "system")
    assert refused(await reply(bob, asked)) == (409, "exchange_expired")


# ---------------------------------------------------------------- the flow


@pytest.mark.requirement(
    "OCIP-11-POLICY-A",
    "OCIP-11-ENVELOPE-A",
    "OCIP-11-CLASSIFICATION",
    "OCIP-11-SENT",
    "OCIP-11-INCOMING",
    "OCIP-11-POLICY-B",
    "OCIP-11-COMMITMENT",
    "OCIP-11-ROUND",
    "OCIP-11-RESPONSE",
    "OCIP-11-ENVELOPE-B",
    "OCIP-11-REPLY",
    "OCIP-11-LOGS",
)
@with_server
async def test_a_question_and_its_answer_flow_as_drawn(server: LiveServer) -> None:
    alice = await place(server, "alice", user_id="ann", org_unit="engineering")
    bob = await place(server, "bob", user_id="ben", org_unit="marketing")
    label = await put_policy(server, "cross_org: true\nmax_rounds: 3\nmax_classification: internal")

    asked = await said(alice, "bob", "How far is it?", classification="internal")
    (arrived,) = await inbox(bob)
    answered = await reply(bob, arrived, "Half way.")

    assert answered.status == 201
    envelope, back = envelope_of(arrived), envelope_of(answered.json)
    assert arrived["metadata"] == asked["metadata"]
    assert (envelope["exchange_round"], envelope["classification"], envelope["max_rounds"]) == (1, "internal", 3)
    assert (back["exchange_round"], back["classification"], back["reply_policy"]) == (2, "internal", "agent-ok")
    assert ext_of(arrived)["policy_version"] == ext_of(answered.json)["policy_version"] == label
    assert answered.json["id"] in [one["id"] for one in await inbox(alice)]
    sides = [(one["side"], one["direction"], one["round"], one["policy"]) for one in await audit_of(alice)]
    assert sides == [("alice", "outgoing", 1, label), ("alice", "incoming", 2, label)]
    sides = [(one["side"], one["direction"], one["round"], one["keywords"]) for one in await audit_of(bob)]
    assert sides == [("bob", "incoming", 1, []), ("bob", "outgoing", 2, [])]


@pytest.mark.requirement("OCIP-11-LIMIT")
@with_server
async def test_the_fourth_message_goes_to_a_human_with_its_payload(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", "one")
    conversation = envelope_of(first)["conversation_id"]
    await reply(bob, first, "two")
    await said(alice, "bob", "three", conversation_id=conversation)

    waiting = await held(bob, "alice", "four", conversation_id=conversation)

    ben = await person(server, "ben")
    shown_to_ben = await shown(ben, f"/approvals/{waiting['approval']}")
    assert waiting["escalation"]["currentRound"] == 4
    assert shown_to_ben["escalation"] == waiting["escalation"]


@pytest.mark.requirement("OCIP-11-KEYWORD")
@with_server
async def test_a_commitment_goes_to_a_human_who_lets_it_pass(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waiting = await held(alice, "bob", "We will meet the deadline.")

    approved = await decide(await person(server, "ann"), waiting, "approve")

    assert (approved.status, approved.json["status"]) == (200, "approved")
    assert [one["id"] for one in await inbox(bob)] == [approved.json["message_id"]]


@pytest.mark.requirement("OCIP-11-ENTERPRISE")
@with_server
async def test_who_writes_to_another_tenant_is_blocked(server: LiveServer) -> None:
    alice, _ = await pair(server)

    assert refused(await tell(alice, "bob@globex-inc")) == (403, "cross_enterprise_blocked")
