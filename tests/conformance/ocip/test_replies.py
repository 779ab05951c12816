"""OCIP: who may answer."""

from __future__ import annotations

import pytest

from tests.conformance.ocip.governed import (
    MESSAGES,
    Document,
    by_parties,
    decide,
    document,
    envelope_of,
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
    shown,
)
from tests.rigs.team import Answer, Client, LiveServer, with_server


async def as_human(human: Client, agent: str, asked: Document, text: str) -> Answer:
    return await human.post(f"{MESSAGES}/{asked['id']}/reply", {"sender": agent, "payload": {"text": text}})


@pytest.mark.requirement("OCIP-8-WHO", "OCIP-8-AGENT-OK")
@with_server
async def test_where_an_agent_may_answer_no_human_is_asked(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", exchange_type="information_query")

    assert envelope_of(asked)["reply_policy"] == "agent-ok"
    assert (await reply(bob, asked)).status == 201
    assert (await (await person(server, "ben")).get("/approvals")).json == []


@pytest.mark.requirement("OCIP-8-WHO", "OCIP-8-HUMAN-ONLY", "GOV-HUMAN-ONLY")
@with_server
async def test_where_only_a_human_answers_an_agents_reply_waits_for_one(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann, ben = await person(server, "ann"), await person(server, "ben")
    await put_policy(server, "enabled: true\nmeeting_approval: responder\nmax_rounds: 9")
    asked = await said(alice, "bob", "When?", exchange_type="meeting_scheduling")

    waiting = await reply(bob, asked, "On Monday.")
    assert (waiting.status, waiting.json["cause"]) == (202, "human_only")
    approved = await decide(ben, document(waiting), "approve")
    by_hand = await as_human(ben, "bob", asked, "Or on Tuesday.")

    assert (approved.status, by_hand.status) == (200, 201)
    texts = [(one["payload"]["text"], envelope_of(one)["message_type"]) for one in await inbox(alice)]
    assert texts[1:] == [("On Monday.", "agent-assisted"), ("Or on Tuesday.", "human")]
    assert (await exchange_of(ann, asked))["currentRound"] == 3


@pytest.mark.requirement("OCIP-8-HUMAN-ONLY")
@with_server
async def test_an_agent_that_does_not_respond_by_itself_waits_for_its_human(server: LiveServer) -> None:
    alice, bob = await pair(server, can_auto_respond=False)
    asked = await said(alice, "bob")

    waiting = await reply(bob, asked)

    assert (waiting.status, waiting.json["cause"]) == (202, "human_only")


@pytest.mark.requirement("OCIP-8-WHO", "OCIP-8-NO-REPLY", "GOV-NO-REPLY-RESOLVED", "GOV-NO-REPLY-REFUSED")
@with_server
async def test_where_no_reply_is_needed_it_is_over_with_its_delivery(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob")
    envelope = {**envelope_of(first), "reply_policy": "no-reply-needed", "conversation_id": "news"}
    notice = await said(alice, "bob", "Version 2 is out.", ocip=envelope)

    assert (await exchange_of(bob, notice))["outcome"] == "resolved"
    assert refused(await reply(bob, notice, "Fine.")) == (409, "no_reply_needed")
    assert len(await inbox(alice)) == 2


async def notice_from(alice: Client, ann: Client) -> Document:
    """A message of alice to bob that needs no reply, approved by ann where the policy asks for that."""
    metadata = {"classification": "public", "conversation_id": "news"}
    body = {"to": "bob", "message_type": "notify", "payload": {"text": "Version 2 is out."}, "metadata": metadata}
    answer = document(await alice.post(MESSAGES, body))
    if answer.get("status") == "held":
        assert (await decide(ann, answer, "approve")).status == 200
    return by_parties(await inbox(alice))[0]


async def says(human: Client, agent: str, to: str, text: str) -> Answer:
    metadata = {"conversation_id": "news"}
    body = {"sender": agent, "to": to, "message_type": "notify", "payload": {"text": text}, "metadata": metadata}
    return await human.post(MESSAGES, body)


@pytest.mark.requirement("OCIP-8-NO-REPLY", "GOV-NO-REPLY-PERSON")
@with_server
async def test_a_person_may_reply_where_no_reply_is_needed_and_the_exchange_stays_resolved(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann, ben = await person(server, "ann"), await person(server, "ben")
    envelope = {**envelope_of(await said(alice, "bob")), "reply_policy": "no-reply-needed", "conversation_id": "news"}
    notice = await said(alice, "bob", "Version 2 is out.", ocip=envelope)

    assert (await as_human(ben, "bob", notice, "Thank you.")).status == 201
    assert (await says(ann, "alice", "bob", "You are welcome.")).status == 201

    by_the_agent = await bob.post(
        MESSAGES, {"to": "alice", "message_type": "notify", "payload": {}, "metadata": {"conversation_id": "news"}}
    )
    assert refused(by_the_agent) == (409, "no_reply_needed")
    exchange = await exchange_of(alice, notice)
    assert (exchange["outcome"], exchange["currentRound"]) == ("resolved", 3)
    for side in (alice, bob):
        ends = await shown(side, "/audit", action="agent_exchange_ended", limit=1000)
        assert [entry["document"]["outcome"] for entry in ends["entries"]] == ["resolved"]


@pytest.mark.requirement("GOV-NO-REPLY-PERSON")
@with_server
async def test_a_persons_reply_to_a_notice_that_is_held_or_denied_reopens_nothing(server: LiveServer) -> None:
    alice, bob = await place(server, "alice", user_id="ann"), await place(server, "bob", org_unit="b", user_id="ben")
    ann, ben = await person(server, "ann"), await person(server, "ben")
    await put_policy(server, "enabled: true\ncross_org: approval")
    notice = await notice_from(alice, ann)

    secret = await says(ben, "bob", "alice", "card 4111 1111 1111 1111")
    waiting = [document(await says(ben, "bob", "alice", text)) for text in ("Thank you.", "Thanks again.")]
    assert refused(secret) == (403, "classification_exceeded")
    assert [one["status"] for one in waiting] == ["held", "held"]
    assert (await exchange_of(bob, notice))["outcome"] == "resolved"
    assert (await decide(ben, waiting[0], "reject")).status == 200
    assert (await decide(ben, waiting[1], "approve")).status == 200

    assert [one["payload"]["text"] for one in by_parties(await inbox(alice))] == ["Version 2 is out.", "Thanks again."]
    assert (await exchange_of(alice, notice))["outcome"] == "resolved"
    ends = await shown(bob, "/audit", action="agent_exchange_ended", limit=1000)
    assert len(ends["entries"]) == 1


@pytest.mark.requirement("OCIP-8-NO-REPLY")
@with_server
async def test_a_notification_without_a_purpose_needs_no_reply(server: LiveServer) -> None:
    alice, _ = await pair(server)

    answer = await alice.post(
        MESSAGES,
        {"to": "bob", "message_type": "notify", "payload": {"text": "Done."}, "metadata": {"classification": "public"}},
    )

    assert envelope_of(document(answer))["reply_policy"] == "no-reply-needed"
    assert (await exchange_of(alice, document(answer)))["outcome"] == "resolved"


@pytest.mark.requirement("GOV-MEETING-BOTH")
@with_server
async def test_about_a_meeting_both_humans_decide(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann, ben = await person(server, "ann"), await person(server, "ben")

    asking = await held(alice, "bob", "When?", exchange_type="meeting_scheduling")
    assert refused(await decide(ben, asking, "approve"))[0] in (403, 404)
    await decide(ann, asking, "approve")
    (asked,) = await inbox(bob)
    answering = document(await reply(bob, asked, "On Monday."))
    assert answering["status"] == "held"
    assert refused(await decide(ann, answering, "approve"))[0] in (403, 404)
    await decide(ben, answering, "approve")

    assert [one["payload"]["text"] for one in by_parties(await inbox(alice))] == ["When?", "On Monday."]


@pytest.mark.requirement("GOV-MEETING-RESPONDER")
@with_server
async def test_a_policy_may_ask_only_the_human_who_answers(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "meeting_approval: responder")

    asked = await said(alice, "bob", "When?", exchange_type="meeting_scheduling")

    assert (await reply(bob, asked, "On Monday.")).status == 202
