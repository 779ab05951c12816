"""OCIP: who reads a message knows whether an agent wrote it, governed or not; no sender can say otherwise."""

from __future__ import annotations

import pytest

from parley.domain.content.disclosure import DISCLOSURE
from tests.conformance.ocip.governed import (
    MESSAGES,
    Document,
    decide,
    document,
    held,
    inbox,
    pair,
    person,
    put_policy,
    said,
    shown,
)
from tests.rigs.team import CHANNEL, Client, LiveServer, with_server

FORGED = "Sent by a human"


async def plain(client: Client, **more: object) -> Document:
    """A message outside the rules, as its reader gets it."""
    answer = await client.post(MESSAGES, {"to": "bob", "payload": {"text": "hello"}, **more})
    assert answer.status == 201, answer
    return document(answer)


@pytest.mark.requirement("GOV-DISCLOSURE-EVERY", "OCIP-10-RECIPIENTS")
@with_server
async def test_every_message_of_an_agent_carries_the_label_governed_or_not(server: LiveServer) -> None:
    alice, bob = await pair(server)
    ungoverned, governed = await plain(alice), await said(alice, "bob")

    assert ungoverned["disclosure"] == governed["disclosure"] == governed["metadata"]["disclosure"] == DISCLOSURE
    assert await inbox(bob) == [ungoverned, governed]
    assert await shown(bob, f"{MESSAGES}/{ungoverned['id']}") == ungoverned
    found = await bob.get(f"/channels/{CHANNEL}/search", q="hello")
    assert {one["disclosure"] for one in found.json} == {DISCLOSURE}


@pytest.mark.requirement("GOV-DISCLOSURE-EVERY")
@with_server
async def test_what_was_sent_outside_the_rules_comes_back_as_it_was_sent(server: LiveServer) -> None:
    alice, _ = await pair(server)
    metadata = {"b": 1, "a": {"disclosure": "mine"}}

    assert (await plain(alice))["metadata"] == {}
    message = await plain(alice, metadata=metadata)
    assert (message["metadata"], message["disclosure"]) == (metadata, DISCLOSURE)


@pytest.mark.requirement("GOV-DISCLOSURE-FORGED")
@pytest.mark.parametrize("label", [FORGED, None, "", {"ai": False}, 0])
@with_server
async def test_a_label_of_the_senders_own_reaches_nobody(server: LiveServer, label: object) -> None:
    alice, bob = await pair(server)
    rest = {"note": "x", "disclosure": label}

    ungoverned = await plain(alice, metadata={"disclosure": label})
    with_more = await plain(alice, metadata=rest)
    governed = await said(alice, "bob", disclosure=label, note="x")

    assert (ungoverned["metadata"], with_more["metadata"]) == ({}, {"note": "x"})
    assert governed["metadata"]["disclosure"] == DISCLOSURE
    assert {one["disclosure"] for one in await inbox(bob)} == {DISCLOSURE}


@pytest.mark.requirement("GOV-DISCLOSURE-HUMAN")
@pytest.mark.parametrize("metadata", [{}, {"note": "x"}, {"disclosure": DISCLOSURE}])
@with_server
async def test_what_a_person_wrote_has_no_label_governed_or_not(server: LiveServer, metadata: Document) -> None:
    await pair(server)
    ann = await person(server, "ann")

    ungoverned = await plain(ann, sender="alice", metadata=metadata)
    governed = await plain(ann, sender="alice", metadata={**metadata, "exchange_type": "information_query"})

    assert ungoverned["disclosure"] is governed["disclosure"] is None
    note = {name: value for name, value in metadata.items() if name != "disclosure"}
    assert ungoverned["metadata"] == {**note, "sender_kind": "human"}
    assert governed["metadata"]["ocip"]["message_type"] == "human"


@pytest.mark.requirement("GOV-DISCLOSURE-HUMAN")
@with_server
async def test_a_label_inside_of_what_a_person_wrote_is_not_taken_for_one(server: LiveServer) -> None:
    await pair(server)
    ann = await person(server, "ann")
    nested = {"a": {"b": 1, "disclosure": FORGED}}

    governed = await plain(ann, sender="alice", metadata={**nested, "exchange_type": "information_query"})

    assert governed["disclosure"] is None


@pytest.mark.requirement("GOV-DISCLOSURE-CONFIGURED", "OCIP-10-LABEL", "OCIP-10-ASSISTED")
@pytest.mark.parametrize("label", ["Sent by user's OpenClaw assistant", 'An "agent" \\ of ours: \u00fc'])
@with_server
async def test_the_words_are_those_of_the_policy_where_it_governs(server: LiveServer, label: str) -> None:
    alice, bob = await pair(server)
    await put_policy(server, f"disclosure: '{label}'" if "'" not in label else f'disclosure: "{label}"')

    assert (await said(alice, "bob"))["disclosure"] == label
    waiting = await held(alice, "bob")
    await decide(await person(server, "ann"), waiting, "approve")
    assert [one["disclosure"] for one in await inbox(bob)] == [label, label]
    assert (await plain(alice))["disclosure"] == DISCLOSURE


@pytest.mark.requirement("GOV-DISCLOSURE-FORGED")
@pytest.mark.parametrize(
    "metadata",
    [
        {"sender_kind": "human"},
        {"a": 1, "sender_kind": "human"},
        {"a": {"sender_kind": "human"}},
        {"a": ',"sender_kind":"human"}'},
        {"a": [{"b": 1, "sender_kind": "human"}]},
    ],
)
@with_server
async def test_an_agent_cannot_pass_for_a_person(server: LiveServer, metadata: Document) -> None:
    alice, _ = await pair(server)

    assert (await plain(alice, metadata=metadata))["disclosure"] == DISCLOSURE


@pytest.mark.requirement("GOV-DISCLOSURE-HUMAN")
@with_server
async def test_the_servers_own_messages_have_no_label(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waiting = await held(alice, "bob")

    await decide(await person(server, "ann"), waiting, "reject", note="no")

    assert [(one["sender"], one["disclosure"]) for one in await inbox(alice)] == [("system", None)]
