"""Governance: who one is follows from the credential, and an envelope is believed only where it is true."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.content.envelope import Purpose, ReplyPolicy, purpose_of
from tests.conformance.ocip.governed import (
    ENVELOPE_FIELDS,
    MESSAGES,
    Document,
    audit_of,
    decide,
    document,
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
    tell,
)
from tests.rigs.team import Client, LiveServer, with_server


async def mine(server: LiveServer) -> tuple[Client, Document]:
    """alice's client, and an envelope that is true."""
    alice, _ = await pair(server)
    return alice, {**envelope_of(await said(alice, "bob")), "conversation_id": "another"}


@pytest.mark.requirement("GOV-IDENTITY-OTHER")
@pytest.mark.parametrize("field", ["instance_id", "user_id", "org_unit", "tenant_id"])
@with_server
async def test_whoever_names_somebody_else_is_refused(server: LiveServer, field: str) -> None:
    alice, envelope = await mine(server)
    envelope["source_agent"] = {**envelope["source_agent"], field: "bob"}

    answer = await tell(alice, "bob", ocip=envelope)

    assert refused(answer) == (403, "identity_mismatch")
    assert answer.json["field"] == field
    assert len(await inbox(alice)) == 1


@pytest.mark.requirement("GOV-IDENTITY-HUMAN")
@with_server
async def test_to_be_human_takes_a_humans_key(server: LiveServer) -> None:
    alice, envelope = await mine(server)
    ann = await person(server, "ann")
    human = {**envelope, "message_type": "human"}
    body: dict[str, Any] = {"sender": "alice", "to": "bob", "message_type": "request", "payload": {"text": "hi"}}

    for kind in ("human", "agent-assisted"):
        assert refused(await tell(alice, "bob", ocip={**envelope, "message_type": kind})) == (
            403,
            "message_type_forbidden",
        )
    assert (await ann.post(MESSAGES, {**body, "metadata": {"ocip": human}})).status == 201
    human["conversation_id"] = "third"
    by_agent = {**human, "message_type": "agent-generated"}
    assert refused(await ann.post(MESSAGES, {**body, "metadata": {"ocip": by_agent}})) == (
        403,
        "message_type_forbidden",
    )


@pytest.mark.requirement("GOV-ABSENT-MALFORMED")
@pytest.mark.parametrize(
    "envelope", [{}, [], "1.0", None, {"version": "1.0"}, {"version": "1.0", "message_type": "human"}]
)
@with_server
async def test_what_is_no_envelope_is_refused_and_recorded_and_makes_nobody_human(
    server: LiveServer, envelope: object
) -> None:
    alice, bob = await pair(server)

    answer = await tell(alice, "bob", "I promise.", ocip=envelope)

    assert refused(answer) == (422, "envelope_invalid")
    assert await inbox(bob) == []
    (entry,) = await audit_of(alice)
    assert (entry["outcome"], entry["code"], entry["actor"]) == ("denied", "envelope_invalid", "alice")


@pytest.mark.requirement("GOV-TYPE-DERIVED")
@pytest.mark.parametrize(
    ("policy", "commits", "purpose"),
    [
        ("agent-ok", False, "information_query"),
        ("no-reply-needed", False, "information_query"),
        ("human-only", False, "information_query"),
        ("agent-ok", True, "commitment_request"),
        ("human-only", True, "meeting_scheduling"),
    ],
)
@with_server
async def test_what_an_envelope_is_for_follows_from_two_of_its_fields(
    server: LiveServer, policy: str, commits: bool, purpose: str
) -> None:
    alice, envelope = await mine(server)
    await put_policy(server, "commitments: report")
    envelope |= {"reply_policy": policy, "requires_commitment": commits}

    message = await said(alice, "bob", ocip=envelope)

    assert ext_of(message)["exchange_type"] == purpose
    assert purpose_of(ReplyPolicy(policy), requires_commitment=commits) is Purpose(purpose)


@pytest.mark.requirement("GOV-TYPE-BESIDE")
@with_server
async def test_everything_else_travels_beside_the_envelope(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waiting = await held(alice, "bob", "I promise.")
    await decide(await person(server, "ann"), waiting, "approve")

    (read,) = await inbox(bob)

    assert list(envelope_of(read)) == ENVELOPE_FIELDS
    ext = ext_of(read)
    assert ext["exchange_id"] == waiting["exchange_id"]
    assert ext["exchange_type"] == "information_query"
    assert ext["approval"] == {"id": waiting["approval"], "by": "ann"}
    assert ext["disclosure"]["ai"] is True


@pytest.mark.both_stores
@pytest.mark.requirement("GOV-EXPIRY-FIXED", "GOV-BOTH-EXPIRY", "GOV-EXPIRY-CHECKED")
@with_server
async def test_when_an_exchange_expires_is_fixed_and_counts_for_both(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", expires_at="2026-03-13T15:00:00Z")
    talk = envelope_of(first)["conversation_id"]
    back = await said(bob, "alice", conversation_id=talk)

    assert envelope_of(back)["expires_at"] == envelope_of(first)["expires_at"] == "2026-03-13T15:00:00.000Z"
    for later in ("2026-03-13T16:00:00Z", "2026-03-13T14:45:00Z"):
        answer = await tell(alice, "bob", conversation_id=talk, expires_at=later)
        assert refused(answer) == (403, "expires_at_fixed")
    server.rig.clock.pass_by(minutes=30)
    for client, to in ((alice, "bob"), (bob, "alice")):
        assert refused(await tell(client, to, conversation_id=talk)) == (409, "exchange_expired")


@pytest.mark.requirement("GOV-EXPIRY-CHECKED")
@with_server
async def test_nothing_is_approved_in_an_exchange_that_has_expired(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waiting = await held(alice, "bob", "I promise.", expires_at="2026-03-13T15:00:00Z")
    server.rig.clock.pass_by(minutes=30)

    answer = await decide(await person(server, "ann"), waiting, "approve")

    assert answer.status == 409
    assert await inbox(bob) == []


@pytest.mark.requirement("GOV-EXPIRY-MALFORMED")
@pytest.mark.parametrize("moment", ["tomorrow", "2026-03-14T10:00:00", "2020-01-01T00:00:00Z", 5, None])
@with_server
async def test_a_moment_that_cannot_be_is_an_invalid_envelope(server: LiveServer, moment: object) -> None:
    alice, _ = await pair(server)

    answer = await tell(alice, "bob", expires_at=moment)

    assert refused(answer) == (422, "envelope_invalid")
    assert answer.json["errors"][0]["field"] == "expires_at"


# ---------------------------------------------------------------- which messages the rules concern


async def plain(client: Client, to: str, text: str = "hello") -> Document:
    return document(await client.post(MESSAGES, {"to": to, "payload": {"text": text}}))


@pytest.mark.requirement("GOV-APPLIES-ANNOTATED")
@with_server
async def test_annotated_only_what_asks_for_the_rules_is_under_them(server: LiveServer) -> None:
    await put_policy(server, "applies_to: annotated\ncross_org: true")
    alice = await place(server, "alice", org_unit="sales")
    await place(server, "bob", org_unit="law")

    assert "ocip" not in (await plain(alice, "bob", "I promise."))["metadata"]
    for wish in ({"exchange_type": "information_query"}, {"classification": "public"}, {"max_rounds": 2}):
        answer = await alice.post(MESSAGES, {"to": "bob", "payload": {"text": "hello"}, "metadata": wish})
        assert envelope_of(document(answer))["exchange_round"] == 1
    assert refused(await tell(alice, "bob", ocip={})) == (422, "envelope_invalid")


@pytest.mark.requirement("GOV-APPLIES-CROSS-ORG")
@with_server
async def test_by_default_everything_between_org_units_is_under_the_rules(server: LiveServer) -> None:
    await put_policy(server, "cross_org: true")
    alice = await place(server, "alice", org_unit="sales")
    await place(server, "bob", org_unit="law")
    await place(server, "carol", org_unit="sales")

    assert envelope_of(await plain(alice, "bob"))["exchange_round"] == 1
    assert (await plain(alice, "bob", "I promise."))["status"] == "held"
    assert "ocip" not in (await plain(alice, "carol", "I promise."))["metadata"]


@pytest.mark.requirement("GOV-APPLIES-ALL")
@with_server
async def test_everything_may_be_under_the_rules(server: LiveServer) -> None:
    alice, _ = await pair(server)
    assert "ocip" not in (await plain(alice, "bob"))["metadata"]

    await put_policy(server, "applies_to: all")

    assert envelope_of(await plain(alice, "bob"))["exchange_round"] == 1
