"""OCIP: rounds are counted, the limit is final, and a human gets the whole story."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from parley.domain.content.envelope import Purpose, ReplyPolicy
from parley.domain.exchange.exchange import Exchange, escalation
from tests.conformance.ocip.governed import (
    MESSAGES,
    Document,
    audit_of,
    decide,
    document,
    envelope_of,
    example,
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
from tests.rigs.team import Client, LiveServer, in_loop, live_server, open_rig, with_server

pytestmark = pytest.mark.both_stores

TALK = "conv-789-xyz"


async def the_example(server: LiveServer) -> tuple[Client, Client]:
    """agent-alice and agent-bob, and the exchange of the text with its id."""
    alice, bob = await place(server, "agent-alice"), await place(server, "agent-bob", user_id="ben")
    await server.rig.put(
        Exchange(
            id="exch-001",
            tenant_id="default",
            conversation_id=TALK,
            initiator="agent-alice",
            responder="agent-bob",
            channel_id="chan_1",
            purpose=Purpose.INFORMATION_QUERY,
            reply_policy=ReplyPolicy.AGENT_OK,
            requires_commitment=False,
            max_rounds=3,
            started_at=server.rig.at(),
            expires_at="2026-03-14T10:00:00.000000+00:00",
        )
    )
    return alice, bob


@pytest.mark.requirement("OCIP-5-STATE-EXAMPLE", "OCIP-5-TRANSCRIPT")
@with_server
async def test_the_state_of_the_example_comes_from_its_two_messages(server: LiveServer) -> None:
    alice, bob = await the_example(server)

    await said(alice, "agent-bob", "Requested project status", conversation_id=TALK)
    await said(bob, "agent-alice", "Provided status update", conversation_id=TALK)

    state = await shown(alice, "/exchanges/exch-001")
    expected = example("state")
    assert {name: state[name] for name in expected} == expected
    assert list(state)[: len(expected)] == list(expected)


@pytest.mark.requirement("OCIP-5-PAYLOAD-EXAMPLE", "OCIP-5-PAYLOAD", "GOV-ESCALATION-KEYS", "GOV-ESCALATION-LINES")
@with_server
async def test_the_payload_of_the_example_comes_from_its_four_messages(server: LiveServer) -> None:
    alice, bob = await the_example(server)
    await said(alice, "agent-bob", "Requested project status", conversation_id=TALK)
    await said(bob, "agent-alice", "Provided status update", conversation_id=TALK)
    await said(alice, "agent-bob", "Asked follow-up question", conversation_id=TALK)

    waiting = await held(bob, "agent-alice", "Provided additional context", conversation_id=TALK)

    approval = await shown(await person(server, "ben"), f"/approvals/{waiting['approval']}")
    assert waiting["escalation"] == approval["escalation"] == example("escalation")
    assert list(waiting["escalation"]) == list(example("escalation"))
    assert waiting["reason"] == example("escalation")["reason"]


# ---------------------------------------------------------------- the counter


async def three_rounds(alice: Client, bob: Client) -> Document:
    """alice asks, bob answers, alice asks again; her first message."""
    first = await said(alice, "bob", "one")
    talk = envelope_of(first)["conversation_id"]
    await said(bob, "alice", "two", conversation_id=talk)
    await said(alice, "bob", "three", conversation_id=talk)
    return first


@pytest.mark.requirement("OCIP-5-START", "OCIP-5-INCREMENT", "GOV-ROUND-SHARED")
@with_server
async def test_an_exchange_begins_at_nought_and_each_message_of_either_side_counts_one(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waiting = await held(alice, "bob", "We commit.")
    assert (await exchange_of(alice, waiting))["currentRound"] == 0
    assert (await exchange_of(alice, waiting))["maxRounds"] == 3

    first = await three_rounds(alice, bob)

    state = await exchange_of(bob, first)
    assert state["currentRound"] == 3
    assert [(one["round"], one["sender"]) for one in state["transcript"]] == [(1, "alice"), (2, "bob"), (3, "alice")]


@pytest.mark.requirement("OCIP-5-BOUNDED", "OCIP-5-ESCALATE", "OCIP-1-LOOPS", "GOV-LIMIT-EXACT", "GOV-LIMIT-ONE")
@with_server
async def test_three_are_delivered_and_the_fourth_is_held_once_whoever_tries_again(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await three_rounds(alice, bob)
    talk = envelope_of(first)["conversation_id"]

    tries = [
        document(await tell(client, to, f"four {n}", conversation_id=talk))
        for n, (client, to) in enumerate([(bob, "alice"), (alice, "bob"), (bob, "alice")])
    ]

    assert {one["approval"] for one in tries} == {tries[0]["approval"]}
    assert {one["escalation"]["currentRound"] for one in tries} == {4}
    # Each is told of its own words only: what was held is not for the other side to read.
    assert [one["escalation"]["conversationSummary"].splitlines()[3] for one in tries] == [
        "Round 4 (bob): four 0",
        "Round 4 (alice): four 1",
        "Round 4 (bob): four 2",
    ]
    assert len(await inbox(alice)) == 3
    ben = await person(server, "ben")
    assert [one["id"] for one in (await ben.get("/approvals")).json] == [tries[0]["approval"]]


@pytest.mark.requirement("OCIP-5-FIXED", "GOV-MAX-FIXED")
@with_server
async def test_nothing_extends_an_exchange_that_runs(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", max_rounds=2)
    envelope = envelope_of(first)
    more = {**envelope, "max_rounds": 3, "exchange_round": 2}
    less = {**envelope, "max_rounds": 1, "exchange_round": 2}

    for asked in (3, 1, 999_999):
        answer = await tell(alice, "bob", conversation_id=envelope["conversation_id"], max_rounds=asked)
        assert refused(answer) == (403, "max_rounds_fixed")
    for claimed in (more, less):
        assert refused(await tell(alice, "bob", ocip=claimed)) == (403, "max_rounds_fixed")

    # Neither does a wider policy.
    await put_policy(server, "max_rounds: 50")
    assert (await exchange_of(alice, first))["maxRounds"] == 2
    assert (await reply(bob, first)).status == 201
    assert (await tell(alice, "bob", conversation_id=envelope["conversation_id"])).status == 202


@pytest.mark.requirement("GOV-MAX-LEAST")
@pytest.mark.parametrize(
    ("asked", "policy", "mine", "yours", "expected"),
    [(2, 5, 5, 5, 2), (9, 4, 5, 5, 4), (9, 9, 3, 5, 3), (9, 9, 9, 2, 2), (None, 6, None, None, 6), (None, 6, 7, 1, 1)],
)
@with_server
async def test_an_exchange_gets_the_least_rounds_that_anybody_wants(
    server: LiveServer, asked: int | None, policy: int, mine: int | None, yours: int | None, expected: int
) -> None:
    limits: list[dict[str, Any]] = [{"max_rounds_accepted": one} if one else {} for one in (mine, yours)]
    wish: dict[str, Any] = {"max_rounds": asked} if asked else {}
    alice = await place(server, "alice", **limits[0])
    await place(server, "bob", **limits[1])
    await put_policy(server, f"max_rounds: {policy}")

    message = await said(alice, "bob", **wish)

    assert envelope_of(message)["max_rounds"] == expected


@pytest.mark.requirement("GOV-ROUND-CONSUMED")
@with_server
async def test_refused_held_and_repeated_messages_take_no_round(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob")
    talk = envelope_of(first)["conversation_id"]
    body = {
        "to": "alice",
        "payload": {"text": "two"},
        "metadata": {"conversation_id": talk, "classification": "internal"},
    }

    assert refused(await tell(bob, "alice", conversation_id=talk, max_rounds=9)) == (403, "max_rounds_fixed")
    assert (await tell(bob, "alice", "I promise.", conversation_id=talk)).status == 202
    once = await bob.post(MESSAGES, body, {"Idempotency-Key": "k"})
    again = await bob.post(MESSAGES, body, {"Idempotency-Key": "k"})

    assert (once.status, again.status, once.json["id"]) == (201, 201, again.json["id"])
    assert envelope_of(once.json)["exchange_round"] == 2
    assert (await exchange_of(alice, first))["currentRound"] == 2


@pytest.mark.requirement("GOV-ROUND-ASSIGNED", "GOV-LIMIT-PARALLEL", "GOV-LIMIT-ONE")
@with_server
async def test_of_32_that_speak_at_once_three_are_delivered_and_one_escalation_is_opened(server: LiveServer) -> None:
    await pair(server)
    senders = [(await server.client(name), to) for name, to in [("alice", "bob"), ("bob", "alice")] * 16]

    answers = await asyncio.gather(*[tell(client, to, conversation_id="crowd") for client, to in senders])

    assert Counter(one.status for one in answers) == {201: 3, 202: 29}
    rounds = sorted(envelope_of(one.json)["exchange_round"] for one in answers if one.status == 201)
    assert rounds == [1, 2, 3]
    assert len({one.json["approval"] for one in answers if one.status == 202}) == 1


@pytest.mark.requirement("GOV-LIMIT-NODES", "GOV-LIMIT-ONE")
@in_loop
async def test_of_all_who_speak_at_once_on_two_nodes_one_gets_the_last_round(database: str, tmp_path: Path) -> None:
    # A31
    async with (
        open_rig(tmp_path, dsn=database) as one,
        open_rig(tmp_path, dsn=database, first_id=10**6) as two,
        live_server(one) as here,
        live_server(two) as there,
    ):
        await one.intent()
        await one.channel()
        alice, bob = await pair(here)
        talk = envelope_of(await said(alice, "bob"))["conversation_id"]
        assert (await tell(bob, "alice", conversation_id=talk)).status == 201
        secret = one.secrets["key_default_agent_alice"]
        senders = [node.with_key(secret) for node in (here, there) * 16]

        answers = await asyncio.gather(*[tell(sender, "bob", conversation_id=talk) for sender in senders])

        assert Counter(answer.status for answer in answers) == {201: 1, 202: 31}
        assert [envelope_of(answer.json)["exchange_round"] for answer in answers if answer.status == 201] == [3]
        assert len({answer.json["approval"] for answer in answers if answer.status == 202}) == 1
        for node in (here, there):
            assert len(await inbox(node.with_key(secret))) == 3


@pytest.mark.requirement("GOV-LIMIT-RESTART", "GOV-APPROVAL-DURABLE")
@with_server
async def test_rounds_limits_and_what_waits_are_there_after_a_restart(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await three_rounds(alice, bob)
    talk = envelope_of(first)["conversation_id"]
    before = document(await tell(bob, "alice", "four", conversation_id=talk))

    await server.restart()

    bob = await server.client("bob")
    after = document(await tell(bob, "alice", "four", conversation_id=talk))
    assert after["approval"] == before["approval"]
    assert len(await inbox(bob)) == 3
    ben = await person(server, "ben")
    assert (await shown(ben, f"/approvals/{before['approval']}"))["digest"] == before["digest"]


# ---------------------------------------------------------------- what the human reads


@pytest.mark.requirement("GOV-ESCALATION-ONE-LINE", "GOV-ESCALATION-SHORT")
@with_server
async def test_each_line_of_the_story_is_one_line_of_at_most_200_characters(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", "one\nRound 9 (bob): forged\r\x1b[2J\u2028\u202etxt", max_rounds=1)

    waiting = document(await reply(bob, first, "x" * 500))

    lines = waiting["escalation"]["conversationSummary"].split("\n")
    assert lines[0] == r"Round 1 (alice): one\nRound 9 (bob): forged\r\x1b[2J\u2028\u202etxt"
    assert len(lines) == 2
    assert lines[1].removeprefix("Round 2 (bob): ") == "x" * 199 + "…"


@pytest.mark.requirement("GOV-ESCALATION-KEYS", "GOV-ESCALATION-LINES")
@with_server
async def test_the_story_has_six_keys_and_ends_with_what_was_refused(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", "one", max_rounds=1)
    exchange = await server.rig.store.get(Exchange, "default", ext_of(first)["exchange_id"])
    assert exchange is not None

    told = document(await reply(bob, first, "two"))["escalation"]

    assert sorted(told) == sorted(
        ["exchangeId", "conversationId", "currentRound", "maxRounds", "conversationSummary", "reason"]
    )
    assert told == escalation(exchange, "bob", "two")
    assert told["conversationSummary"].splitlines()[-1] == "Round 2 (bob): two"


@pytest.mark.requirement("GOV-APPROVAL-LIMIT")
@with_server
async def test_a_limit_is_answered_or_closed_by_a_human_and_never_extended(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ben = await person(server, "ben")
    limits = []
    for _ in range(3):
        asked = await said(alice, "bob", "one", max_rounds=1)
        limits.append((asked, document(await reply(bob, asked, "two"))))

    assert refused(await decide(ben, limits[0][1], "approve")) == (409, "not_releasable")
    answered = await decide(ben, limits[0][1], "answer", answer="Ask me instead.")
    rejected = await decide(ben, limits[1][1], "reject")
    by_agent = await bob.post(f"/exchanges/{limits[2][1]['exchange_id']}/close")
    closed = await ben.post(f"/exchanges/{limits[2][1]['exchange_id']}/close")

    assert (answered.status, rejected.status, closed.status) == (200, 200, 200)
    assert refused(by_agent) == (403, "human_required")
    outcomes = [(await exchange_of(alice, asked))["outcome"] for asked, _ in limits]
    assert outcomes == ["resolved", "denied", "resolved"]
    (last,) = [one for one in await inbox(alice) if one["payload"] == {"text": "Ask me instead."}]
    assert envelope_of(last)["message_type"] == "human"
    for asked, _ in limits:
        assert refused(await reply(bob, asked))[0] == 409
    assert {one.get("outcome") for one in await audit_of(bob)} >= {"delivered", "held"}
