"""OCIP: the envelope, its seventeen fields and its example."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.ocip.governed import (
    ENVELOPE_FIELDS,
    MESSAGES,
    Document,
    decide,
    document,
    envelope_of,
    example,
    held,
    inbox,
    pair,
    person,
    place,
    refused,
    said,
    tell,
)
from tests.rigs.team import LiveServer, with_server

ACME = "acme-corp"


async def acme(server: LiveServer) -> str:
    """A channel of the example's tenant, a day before the example's exchange expires; where its messages go."""
    server.rig.clock.at = datetime(2026, 3, 13, 10, 0, 0, tzinfo=UTC)
    await server.rig.intent("intent_acme", tenant=ACME, created_by="agent-abc-123")
    await server.rig.channel("chan_acme", intent_id="intent_acme", tenant=ACME, created_by="agent-abc-123")
    return "/channels/chan_acme/messages"


@pytest.mark.requirement("OCIP-2-EXAMPLE", "GOV-IDENTITY-STAMPED", "GOV-ABSENT-STAMPED")
@with_server
async def test_the_envelope_of_the_example_is_stamped_field_by_field_in_its_order(server: LiveServer) -> None:
    path = await acme(server)
    sender = await place(server, "agent-abc-123", ACME, user_id="alice")
    await place(server, "agent-def-456", ACME)

    message = await said(sender, "agent-def-456", path=path, conversation_id="conv-789-xyz")

    assert envelope_of(message) == example("envelope")
    assert list(envelope_of(message)) == list(example("envelope")) == ENVELOPE_FIELDS


@pytest.mark.requirement("OCIP-2-EXAMPLE")
@with_server
async def test_whoever_sends_the_envelope_of_the_example_is_taken_at_its_word(server: LiveServer) -> None:
    path = await acme(server)
    sender = await place(server, "agent-abc-123", ACME, user_id="alice")
    await place(server, "agent-def-456", ACME)

    message = await said(sender, "agent-def-456", path=path, ocip=example("envelope"))

    assert envelope_of(message) == example("envelope")


# ---------------------------------------------------------------- each field


async def own_envelope(server: LiveServer) -> tuple[Any, Document]:
    """alice's client, and the envelope that the server would stamp for her."""
    alice, _ = await pair(server)
    message = await said(alice, "bob")
    return alice, {**envelope_of(message), "conversation_id": "another"}


def at(envelope: Document, path: str) -> tuple[Document, str]:
    """The object that holds a field, and the field's name in it."""
    outer, _, inner = path.partition(".")
    return (envelope[outer], inner) if inner else (envelope, outer)


FIELDS = [
    pytest.param(
        "version", [1.0, 1, None, "2.0", "0.9", "1", "1.x", ""], marks=pytest.mark.requirement("OCIP-2-VERSION")
    ),
    pytest.param(
        "message_type",
        ["agent", "Human", "", None, True, ["human"]],
        marks=pytest.mark.requirement("OCIP-2-MESSAGE-TYPE"),
    ),
    pytest.param("source_agent", ["alice", None, [], {}, 3], marks=pytest.mark.requirement("OCIP-2-SOURCE")),
    pytest.param("source_agent.instance_id", [7, None, "", {}], marks=pytest.mark.requirement("OCIP-2-INSTANCE")),
    pytest.param("source_agent.user_id", [7, None, "", []], marks=pytest.mark.requirement("OCIP-2-USER")),
    pytest.param("source_agent.org_unit", [7, None, "", False], marks=pytest.mark.requirement("OCIP-2-ORG")),
    pytest.param("source_agent.tenant_id", [7, None, "", "x" * 257], marks=pytest.mark.requirement("OCIP-2-TENANT")),
    pytest.param(
        "classification",
        ["secret", "INTERNAL", "", None, 1, ["public"]],
        marks=pytest.mark.requirement("OCIP-2-CLASSIFICATION"),
    ),
    pytest.param(
        "conversation_id", [7, None, "", "a b", "x" * 129, "a\n"], marks=pytest.mark.requirement("OCIP-2-CONVERSATION")
    ),
    pytest.param("exchange_round", ["1", 1.5, None, True, 0, -1], marks=pytest.mark.requirement("OCIP-2-ROUND")),
    pytest.param(
        "max_rounds",
        ["3", 3.5, None, True, 0, -3, 10**9],
        marks=pytest.mark.requirement("OCIP-2-MAX-ROUNDS", "GOV-MAX-INTEGER"),
    ),
    pytest.param("capabilities", ["all", None, [], {}], marks=pytest.mark.requirement("OCIP-2-CAPABILITIES")),
    pytest.param("capabilities.can_commit", ["false", 0, None, []], marks=pytest.mark.requirement("OCIP-2-CAN-COMMIT")),
    pytest.param(
        "capabilities.can_share",
        ["public", None, ["secret"], [1], {"public": True}],
        marks=pytest.mark.requirement("OCIP-2-CAN-SHARE"),
    ),
    pytest.param("reply_policy", ["agent_ok", "", None, 1, []], marks=pytest.mark.requirement("OCIP-2-REPLY-POLICY")),
    pytest.param(
        "requires_commitment", ["false", 0, None, []], marks=pytest.mark.requirement("OCIP-2-REQUIRES-COMMITMENT")
    ),
    pytest.param(
        "expires_at",
        ["tomorrow", "", None, 1, "2026-03-14", "2026-03-14T10:00:00", "2026-13-14T10:00:00Z"],
        marks=pytest.mark.requirement("OCIP-2-EXPIRES", "GOV-EXPIRY-MALFORMED"),
    ),
]


def test_there_are_the_seventeen_fields_of_the_text() -> None:
    named = [str(one.values[0]) for one in FIELDS]

    assert len(set(named)) == 17
    assert [name for name in named if "." not in name] == ENVELOPE_FIELDS == list(example("envelope"))


@pytest.mark.parametrize(("field", "wrong"), FIELDS)
@with_server
async def test_a_field_is_required_and_has_its_type(server: LiveServer, field: str, wrong: list[object]) -> None:
    alice, envelope = await own_envelope(server)
    missing = deepcopy(envelope)
    holder, name = at(missing, field)
    del holder[name]
    spoilt = [missing]
    for value in wrong:
        spoilt.append(deepcopy(envelope))
        holder, name = at(spoilt[-1], field)
        holder[name] = value
    before = await inbox(await server.client("bob"))

    for one in spoilt:
        answer = await tell(alice, "bob", ocip=one)
        assert refused(answer) == (422, "envelope_invalid"), one
        assert answer.json["errors"][0]["field"].startswith(field), one

    assert await inbox(await server.client("bob")) == before
    assert (await tell(alice, "bob", ocip=envelope)).status == 201


@pytest.mark.requirement("GOV-ABSENT-MALFORMED")
@pytest.mark.parametrize("where", ["", "source_agent", "capabilities"])
@with_server
async def test_a_field_too_many_makes_an_envelope_invalid(server: LiveServer, where: str) -> None:
    alice, envelope = await own_envelope(server)
    (envelope[where] if where else envelope)["exchange_type"] = "information_query"

    answer = await tell(alice, "bob", ocip=envelope)

    assert refused(answer) == (422, "envelope_invalid")
    assert answer.json["errors"][0]["field"] == f"{where}.exchange_type".removeprefix(".")


@pytest.mark.requirement("OCIP-2-CARRIED", "OCIP-0-ANNOTATIONS", "OCIP-1-TRANSPORT")
@with_server
async def test_every_governed_message_carries_its_envelope_as_metadata_of_an_ordinary_message(
    server: LiveServer,
) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", "one")
    plain = document(await alice.post(MESSAGES, {"to": "bob", "payload": {"text": "two"}}))
    await bob.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {"text": "three"}})

    read = {one["payload"]["text"]: one for one in await inbox(bob)}

    assert list(envelope_of(read["one"])) == list(envelope_of(read["three"])) == ENVELOPE_FIELDS
    assert envelope_of(read["one"]) == envelope_of(asked)
    assert "ocip" not in plain["metadata"]
    # With and without it is one message of one kind, on one way.
    assert set(read["one"]) == set(plain)


@pytest.mark.requirement("OCIP-1-VERSION", "GOV-ABSENT-VERSION")
@with_server
async def test_the_version_is_1_0_and_only_1_x_is_understood(server: LiveServer) -> None:
    alice, envelope = await own_envelope(server)

    answers = {
        version: (
            await tell(alice, "bob", ocip={**envelope, "version": version, "conversation_id": f"c-{version}"})
        ).status
        for version in ("1.0", "1.7", "2.0", "0.1", "11.0", "1.0.0")
    }

    assert envelope["version"] == "1.0"
    assert answers == {"1.0": 201, "1.7": 201, "2.0": 422, "0.1": 422, "11.0": 422, "1.0.0": 422}


@pytest.mark.requirement("OCIP-2-MESSAGE-TYPE", "OCIP-2-CAN-COMMIT", "OCIP-6-CAN-COMMIT")
@with_server
async def test_who_wrote_a_message_follows_from_the_credential_and_the_approval(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ann = await person(server, "ann")

    generated = await said(alice, "bob", "one")
    waiting = await held(alice, "bob", "I promise.")
    await decide(ann, waiting, "approve")
    written = await ann.post(
        MESSAGES,
        {
            "sender": "alice",
            "to": "bob",
            "payload": {"text": "three"},
            "metadata": {"exchange_type": "information_query"},
        },
    )

    assert written.status == 201, written
    types = [envelope_of(one)["message_type"] for one in await inbox(bob)]
    assert types == ["agent-generated", "agent-assisted", "human"]
    assert envelope_of(generated)["capabilities"]["can_commit"] is False


@pytest.mark.requirement(
    "OCIP-2-SOURCE",
    "OCIP-2-INSTANCE",
    "OCIP-2-USER",
    "OCIP-2-ORG",
    "OCIP-2-TENANT",
    "OCIP-2-CLASSIFICATION",
    "OCIP-2-CAN-SHARE",
)
@with_server
async def test_the_envelope_says_who_speaks_for_whom_from_where_and_how_secret_it_is(server: LiveServer) -> None:
    alice = await place(server, "alice", user_id="ann", org_unit="research", max_classification="confidential")
    await place(server, "bob", org_unit="research", max_classification="restricted")

    envelope = envelope_of(await said(alice, "bob", classification="confidential"))

    assert envelope["source_agent"] == {
        "instance_id": "alice",
        "user_id": "ann",
        "org_unit": "research",
        "tenant_id": "default",
    }
    assert envelope["classification"] == "confidential"
    assert envelope["capabilities"]["can_share"] == ["public", "internal", "confidential"]


@pytest.mark.requirement("OCIP-2-CONVERSATION", "OCIP-2-ROUND")
@with_server
async def test_a_conversation_groups_messages_and_counts_its_rounds(server: LiveServer) -> None:
    alice, bob = await pair(server)
    first = await said(alice, "bob", "one")
    conversation = envelope_of(first)["conversation_id"]
    second = await said(bob, "alice", "two", conversation_id=conversation)
    other = await said(alice, "bob", "three")

    assert [envelope_of(one)["exchange_round"] for one in (first, second, other)] == [1, 2, 1]
    # Whoever names another round than the one that comes next is told which that is.
    for claimed in (1, 2, 4):
        answer = await tell(alice, "bob", ocip={**envelope_of(first), "exchange_round": claimed})
        assert refused(answer) == (409, "round_mismatch")
        assert answer.json["exchange_round"] == 3
    assert envelope_of(second)["conversation_id"] == conversation != envelope_of(other)["conversation_id"]


@pytest.mark.requirement("OCIP-1-ROUNDS", "OCIP-2-MAX-ROUNDS", "OCIP-2-EXPIRES")
@with_server
async def test_an_exchange_has_three_rounds_and_a_day_unless_less_is_asked_for(server: LiveServer) -> None:
    alice, _ = await pair(server)

    usual = envelope_of(await said(alice, "bob"))
    short = envelope_of(await said(alice, "bob", max_rounds=2, expires_at="2026-03-13T15:00:00Z"))

    assert (usual["max_rounds"], usual["expires_at"]) == (3, "2026-03-14T14:30:00.000Z")
    assert (short["max_rounds"], short["expires_at"]) == (2, "2026-03-13T15:00:00.000Z")


@pytest.mark.requirement("OCIP-2-REPLY-POLICY", "OCIP-2-REQUIRES-COMMITMENT")
@pytest.mark.parametrize(
    ("policy", "commits", "purpose"),
    [
        ("agent-ok", False, "information_query"),
        ("no-reply-needed", False, "information_query"),
    ],
)
@with_server
async def test_who_may_reply_and_whether_it_commits_is_what_the_envelope_says(
    server: LiveServer, policy: str, commits: bool, purpose: str
) -> None:
    alice, envelope = await own_envelope(server)
    envelope |= {"reply_policy": policy, "requires_commitment": commits}

    message = await said(alice, "bob", ocip=envelope)

    assert (envelope_of(message)["reply_policy"], envelope_of(message)["requires_commitment"]) == (policy, commits)
    assert message["metadata"]["ocip_ext"]["exchange_type"] == purpose
