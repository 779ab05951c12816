"""OCIP: what may be shared. The level of a message, of the data in it, and of those who talk."""

from __future__ import annotations

import itertools

import pytest

from parley.domain.content.classification import LEVELS, Classification, can_share
from tests.conformance.ocip.governed import (
    Document,
    audit_of,
    envelope_of,
    exchange_of,
    ext_of,
    inbox,
    pair,
    place,
    put_policy,
    refused,
    reply,
    said,
    tell,
)
from tests.rigs.team import LiveServer, with_server

CARD = "4111 1111 1111 1111"
IBAN = "DE89 3704 0044 0532 0130 00"


def item(level: str, *fields: str, source: str = "crm", description: str = "") -> Document:
    return {"source": source, "fields": list(fields), "classification": level, "description": description}


# ---------------------------------------------------------------- levels


@pytest.mark.requirement("OCIP-4-ORDER")
def test_the_levels_have_one_order() -> None:
    assert [(one.value, one.rank) for one in LEVELS] == [
        ("public", 0),
        ("internal", 1),
        ("confidential", 2),
        ("restricted", 3),
    ]
    assert all(low.rank < high.rank for low, high in itertools.pairwise(LEVELS))


@pytest.mark.requirement("OCIP-4-CAN-SHARE", "OCIP-4-IDENTITY", "GOV-SHARE-SENDER")
@pytest.mark.parametrize("most", ["public", "internal", "confidential", "restricted"])
@with_server
async def test_can_share_lists_everything_up_to_the_senders_maximum(server: LiveServer, most: str) -> None:
    alice = await place(server, "alice", max_classification=most)
    await place(server, "bob", max_classification="restricted")
    expected = ["public", "internal", "confidential", "restricted"]

    envelope = envelope_of(await said(alice, "bob", classification="public"))

    assert envelope["capabilities"]["can_share"] == expected[: expected.index(most) + 1]
    assert [one.value for one in can_share(Classification(most))] == envelope["capabilities"]["can_share"]


@pytest.mark.requirement(
    "OCIP-4-EXAMPLE-CAN-SHARE",
    "OCIP-4-EXAMPLE-PERMITTED",
    "OCIP-4-EXAMPLE-BLOCKED",
    "OCIP-4-MESSAGE",
    "OCIP-1-CLASSIFICATION",
)
@with_server
async def test_an_agent_of_internal_shares_public_and_internal_and_no_more(server: LiveServer) -> None:
    alice = await place(server, "alice", max_classification="internal")
    await place(server, "bob", max_classification="restricted")

    answers = {one.value: await tell(alice, "bob", classification=one.value) for one in LEVELS}

    assert {level: answer.status for level, answer in answers.items()} == {
        "public": 201,
        "internal": 201,
        "confidential": 403,
        "restricted": 403,
    }
    assert answers["restricted"].code == "classification_exceeded"
    assert envelope_of(answers["internal"].json)["capabilities"]["can_share"] == ["public", "internal"]


@pytest.mark.requirement("OCIP-4-SENDER-SIDE", "GOV-LEVEL-DENIED", "GOV-LEVEL-RECORDED")
@with_server
async def test_what_is_too_secret_is_denied_before_it_leaves_and_on_record_with_its_sender_only(
    server: LiveServer,
) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    seen = await inbox(bob)

    refusal = await reply(bob, asked, "the plan", classification="confidential")

    assert refused(refusal) == (403, "classification_exceeded")
    assert (refusal.json["classification"], refusal.json["maximum"]) == ("confidential", "internal")
    assert await inbox(bob) == seen
    assert [one["id"] for one in await inbox(alice)] == [asked["id"]]
    last = (await audit_of(bob, action="agent_exchange"))[-1]
    assert (last["outcome"], last["code"], last["classification"]) == (
        "denied",
        "classification_exceeded",
        "confidential",
    )
    told = [(one["action"], one["outcome"]) for one in await audit_of(alice)]
    assert told == [("agent_exchange", "delivered"), ("agent_exchange_ended", "denied")]
    assert (await exchange_of(alice, asked))["outcome"] == "denied"


@pytest.mark.requirement("GOV-BOTH-CLEARANCE", "GOV-SHARE-CLEARANCE")
@with_server
async def test_the_receivers_clearance_comes_from_the_directory(server: LiveServer) -> None:
    alice = await place(server, "alice", max_classification="restricted")
    await place(server, "bob", max_classification="internal")
    envelope = envelope_of(await said(alice, "bob", classification="internal"))
    claimed = {**envelope, "classification": "confidential", "conversation_id": "another"}

    assert refused(await tell(alice, "bob", classification="confidential")) == (403, "classification_exceeded")
    assert refused(await tell(alice, "bob", ocip=claimed)) == (403, "classification_exceeded")
    await place(server, "bob", max_classification="confidential")
    assert (await tell(alice, "bob", classification="confidential")).status == 201


# ---------------------------------------------------------------- data


@pytest.mark.requirement("OCIP-4-CONTENT", "GOV-DATA-BLOCK", "GOV-DATA-RECORDED")
@with_server
async def test_data_above_the_level_blocks_the_message_and_denies_the_exchange(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    secret = item("restricted", "salary", description="what she earns")

    answer = await bob.post(
        f"/channels/chan_1/messages/{asked['id']}/reply",
        {"payload": {"name": "Eva", "salary": 5}, "metadata": {"data": [secret]}},
    )

    assert refused(answer) == (403, "classification_exceeded")
    assert (await exchange_of(alice, asked))["outcome"] == "denied"
    assert (await audit_of(bob, action="agent_exchange"))[-1]["dataWithheld"] == [
        {"reason": "restricted is above internal", "description": "what she earns"}
    ]
    assert [one["id"] for one in await inbox(alice)] == [asked["id"]]


@pytest.mark.requirement(
    "GOV-DATA-WITHHOLD", "GOV-DATA-REDACT", "GOV-DATA-RECORDED", "OCIP-9-SHARED", "OCIP-9-WITHHELD"
)
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("withhold", {"name": "Eva", "pay": {"from": "May"}}),
        ("redact", {"name": "Eva", "pay": {"from": "May", "salary": "[redacted]"}}),
    ],
)
@with_server
async def test_data_above_the_level_is_taken_out_or_blackened(
    server: LiveServer, act: str, expected: dict[str, object]
) -> None:
    alice, bob = await pair(server)
    await put_policy(server, f"on_over_classified: {act}")
    data = [item("public", "name", source="hr"), item("confidential", "pay.salary", source="payroll")]
    body = {"name": "Eva", "pay": {"from": "May", "salary": 5}}

    message = await said(alice, "bob", payload=body, data=data)

    (read,) = await inbox(bob)
    assert read["payload"] == message["payload"] == expected
    assert [one["source"] for one in read["metadata"]["data"]] == ["hr"]
    for client in (alice, bob):
        (entry,) = await audit_of(client)
        assert entry["dataShared"] == [{"source": "hr", "fields": ["name"]}]
        assert entry["dataWithheld"] == [
            {"reason": "confidential is above internal", "description": "payroll: pay.salary"}
        ]


@pytest.mark.requirement("GOV-DATA-CEILING")
@pytest.mark.parametrize(
    ("sender", "receiver", "message", "policy", "passes"),
    [
        ("restricted", "restricted", "confidential", "restricted", True),
        ("confidential", "restricted", "confidential", "restricted", True),
        ("restricted", "confidential", "confidential", "restricted", True),
        ("restricted", "restricted", "confidential", "confidential", True),
        ("restricted", "restricted", "internal", "restricted", False),
        ("internal", "restricted", "internal", "restricted", False),
        ("restricted", "internal", "internal", "restricted", False),
        ("restricted", "restricted", "internal", "internal", False),
    ],
)
@with_server
async def test_the_ceiling_is_the_least_of_four(
    server: LiveServer, sender: str, receiver: str, message: str, policy: str, passes: bool
) -> None:
    alice = await place(server, "alice", max_classification=sender)
    await place(server, "bob", max_classification=receiver)
    await put_policy(server, f"max_classification: {policy}")
    secret = item("confidential", "text")

    answer = await tell(alice, "bob", classification=message, data=[secret])

    assert (answer.status == 201) is passes, answer


@pytest.mark.requirement("GOV-DATA-UNKNOWN")
@pytest.mark.parametrize("level", ["top-secret", "Internal", None, 0])
@with_server
async def test_data_of_a_level_that_nobody_knows_is_restricted(server: LiveServer, level: object) -> None:
    alice = await place(server, "alice", max_classification="confidential")
    await place(server, "bob", max_classification="confidential")
    unknown = {"source": "crm", "fields": ["text"], "classification": level}

    answer = await tell(alice, "bob", classification="confidential", data=[unknown])

    assert refused(answer) == (403, "classification_exceeded")
    assert (await audit_of(alice, action="agent_exchange"))[-1]["dataWithheld"][0][
        "reason"
    ] == "restricted is above confidential"


# ---------------------------------------------------------------- what is in a text


@pytest.mark.requirement("GOV-CONTENT-DETECTORS", "GOV-CONTENT-FLOOR")
@pytest.mark.parametrize(
    ("text", "level", "finding"),
    [
        (f"The card is {CARD}.", "restricted", "payment_card"),
        (f"To {IBAN}, please.", "confidential", "iban"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "restricted", "private_key"),
        ("key: AKIAIOSFODNN7EXAMPLE", "restricted", "api_token"),
        ("customer KD-123456", "confidential", "customer number"),
    ],
)
@with_server
async def test_what_is_found_in_a_text_raises_its_level(
    server: LiveServer, text: str, level: str, finding: str
) -> None:
    alice, _ = await pair(server)
    await put_policy(server, 'patterns: [{name: customer number, pattern: "KD-######", classification: confidential}]')

    answer = await tell(alice, "bob", text, classification="public")

    assert refused(answer) == (403, "classification_exceeded")
    assert answer.json["classification"] == level
    assert (await audit_of(alice, action="agent_exchange"))[-1]["findings"] == [finding]
    # The same digits that are no card number are nothing.
    assert (await tell(alice, "bob", "4111 1111 1111 1112", classification="public")).status == 201


@pytest.mark.requirement("GOV-CONTENT-FLOOR")
@with_server
async def test_nothing_that_is_found_lowers_what_was_declared(server: LiveServer) -> None:
    alice = await place(server, "alice", max_classification="restricted")
    await place(server, "bob", max_classification="restricted")

    declared = envelope_of(await said(alice, "bob", f"To {IBAN}", classification="restricted"))
    raised = envelope_of(await said(alice, "bob", f"To {IBAN}", classification="public"))

    assert (declared["classification"], raised["classification"]) == ("restricted", "confidential")


@pytest.mark.requirement("OCIP-4-IDENTITY")
@with_server
async def test_an_agent_does_not_raise_its_own_maximum(server: LiveServer) -> None:
    alice, _ = await pair(server)
    envelope = envelope_of(await said(alice, "bob"))
    boasts = {**envelope, "conversation_id": "another"}
    boasts["capabilities"] = {"can_commit": False, "can_share": ["public", "internal", "confidential"]}

    by_registering = await alice.post("/agents/register", {"agent_id": "alice", "max_classification": "restricted"})

    assert refused(by_registering) == (403, "scope_required")
    assert refused(await tell(alice, "bob", ocip=boasts)) == (403, "classification_exceeded")
    assert ext_of(await said(alice, "bob"))["exchange_id"]
