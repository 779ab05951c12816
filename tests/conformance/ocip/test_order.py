"""Governance: the one order of checks. Each test offends against two rules, and is told of the first."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import (
    MESSAGES,
    audit_of,
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
    tell,
)
from tests.rigs.team import LiveServer, with_server

pytestmark = pytest.mark.both_stores


@pytest.mark.requirement("GOV-ORDER-AUTHENTICATE")
@with_server
async def test_authentication_comes_before_the_schema(server: LiveServer) -> None:
    answer = await server.with_key("wrong").post(MESSAGES, {"to": 7})

    assert answer.status == 401


@pytest.mark.requirement("GOV-ORDER-SCHEMA")
@with_server
async def test_the_schema_comes_before_the_tenant(server: LiveServer) -> None:
    alice, _ = await pair(server)

    answer = await alice.post(MESSAGES, {"to": "bob@globex-inc", "payload": "no object"})

    assert answer.status == 422


@pytest.mark.requirement("GOV-ORDER-TENANT", "GOV-TENANT-FIRST")
@with_server
async def test_the_tenant_comes_before_idempotency(server: LiveServer) -> None:
    alice, _ = await pair(server)
    body = {"to": "bob", "payload": {"text": "hello"}, "metadata": {"classification": "public"}}
    await alice.post(MESSAGES, body, {"Idempotency-Key": "k"})

    answers = [
        await alice.post(MESSAGES, {**body, "to": "bob@globex-inc"}, {"Idempotency-Key": key}) for key in ("new", "new")
    ]

    assert [refused(one) for one in answers] == [(403, "cross_enterprise_blocked")] * 2


@pytest.mark.requirement("GOV-ORDER-IDEMPOTENCY")
@with_server
async def test_idempotency_comes_before_the_state_of_the_exchange(server: LiveServer) -> None:
    alice, _ = await pair(server)
    body = {"to": "bob", "payload": {"text": "hello"}, "metadata": {"exchange_type": "information_query"}}
    first = await alice.post(MESSAGES, body, {"Idempotency-Key": "k"})
    await alice.post(f"/exchanges/{ext_of(first.json)['exchange_id']}/close")

    again = await alice.post(MESSAGES, body, {"Idempotency-Key": "k"})

    assert (again.status, again.json["id"]) == (201, first.json["id"])


@pytest.mark.requirement("GOV-ORDER-STATE")
@with_server
async def test_the_state_of_the_exchange_comes_before_the_directory(server: LiveServer) -> None:
    alice, _ = await pair(server)
    first = await said(alice, "bob")
    talk = envelope_of(first)["conversation_id"]
    await alice.post(f"/exchanges/{ext_of(first)['exchange_id']}/close")
    await place(server, "bob", can_receive_queries=False)

    assert refused(await tell(alice, "bob", conversation_id=talk)) == (409, "exchange_closed")
    assert refused(await tell(alice, "bob")) == (403, "receiver_refuses")


@pytest.mark.requirement("GOV-ORDER-DIRECTORY")
@pytest.mark.parametrize("flag", [{"can_receive_queries": False}, {"supported_exchange_types": ["meeting_scheduling"]}])
@with_server
async def test_the_directory_comes_before_policy(server: LiveServer, flag: dict[str, Any]) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "enabled: false")
    assert refused(await tell(alice, "bob")) == (403, "policy_denied")

    await place(server, "bob", **flag)

    assert refused(await tell(alice, "bob")) == (403, "receiver_refuses")


@pytest.mark.requirement("GOV-ORDER-POLICY")
@pytest.mark.parametrize(
    ("policy", "unit"),
    [
        ("enabled: false", "engineering"),
        ("exchange_types: [meeting_scheduling]", "engineering"),
        ("cross_org: false", "law"),
    ],
)
@with_server
async def test_policy_comes_before_classification(server: LiveServer, policy: str, unit: str) -> None:
    alice = await place(server, "alice")
    await place(server, "bob", org_unit=unit)
    await put_policy(server, policy)

    answer = await tell(alice, "bob", classification="restricted")

    assert refused(answer) == (403, "policy_denied")


@pytest.mark.requirement("GOV-ORDER-CLASSIFICATION", "GOV-ORDER-DENIALS")
@with_server
async def test_classification_comes_before_the_round(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", max_rounds=1)

    answer = await reply(bob, asked, "I promise.", classification="restricted")

    assert refused(answer) == (403, "classification_exceeded")
    assert (await exchange_of(alice, asked))["pending_approvals"] == []


@pytest.mark.requirement("GOV-ORDER-ROUND")
@with_server
async def test_the_round_comes_before_the_reply_policy(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "meeting_approval: responder\nmax_rounds: 1")
    asked = await said(alice, "bob", "When?", exchange_type="meeting_scheduling")

    answer = await reply(bob, asked, "I promise.")

    assert (answer.status, answer.json["cause"]) == (202, "round_limit")


@pytest.mark.requirement("GOV-ORDER-REPLY")
@with_server
async def test_the_reply_policy_comes_before_commitment(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "meeting_approval: responder")
    asked = await said(alice, "bob", "When?", exchange_type="meeting_scheduling")

    answer = await reply(bob, asked, "I promise.")

    assert (answer.status, answer.json["cause"]) == (202, "human_only")
    assert answer.json["detectedKeywords"] == ["promise"]


@pytest.mark.requirement("GOV-ORDER-DENIALS")
@with_server
async def test_nobody_is_asked_about_what_may_not_be(server: LiveServer) -> None:
    alice = await place(server, "alice", user_id="ann", org_unit="sales")
    await place(server, "bob", org_unit="law")
    await put_policy(server, "cross_org: approval")
    assert (await held(alice, "bob", "hello"))["cause"] == "cross_org"

    answer = await tell(alice, "bob", "I promise.", classification="restricted")

    assert refused(answer) == (403, "classification_exceeded")
    assert len((await (await person(server, "ann")).get("/approvals")).json) == 1


# ---------------------------------------------------------------- a policy that cannot be asked


@pytest.mark.requirement("GOV-FAILURE-DENIED", "GOV-FAILURE-RECORDED", "GOV-FAILURE-NO-ROUND", "GOV-POLICY-NONE")
@with_server
async def test_without_an_enterprise_policy_nothing_is_allowed(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    admin = await server.client(kind=KeyKind.ADMIN)
    assert (await admin.delete("/policies/enterprise/default")).status == 200

    answer = await reply(bob, asked)

    assert refused(answer) == (503, "policy_unavailable")
    assert [one["id"] for one in await inbox(alice)] == [asked["id"]]
    exchange = await exchange_of(alice, asked)
    assert (exchange["currentRound"], exchange["outcome"]) == (1, "in_progress")
    last = (await audit_of(bob))[-1]
    assert (last["outcome"], last["code"]) == ("denied", "policy_unavailable")
    # It goes on where it was when there is one again.
    await put_policy(server, "enabled: true")
    assert envelope_of((await reply(bob, asked)).json)["exchange_round"] == 2
