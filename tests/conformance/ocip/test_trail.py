"""Governance: what the log says of ends, denials and keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from parley.app.team.work import sweep
from tests.conformance.ocip.governed import (
    Document,
    admin_of,
    audit_of,
    decide,
    document,
    held,
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
from tests.rigs.team import Client, LiveServer, with_server

# ---------------------------------------------------------------- ends

Ended = Callable[[LiveServer, Client, Client], Awaitable[None]]


async def closed(_: LiveServer, alice: Client, bob: Client) -> None:
    asked = await said(alice, "bob")
    await reply(bob, asked)
    await alice.post(f"/exchanges/{asked['metadata']['ocip_ext']['exchange_id']}/close", {})


async def closed_by_who_only_asked(_: LiveServer, alice: Client, bob: Client) -> None:
    del bob
    asked = await said(alice, "bob")
    await alice.post(f"/exchanges/{asked['metadata']['ocip_ext']['exchange_id']}/close", {})


async def rejected(server: LiveServer, alice: Client, bob: Client) -> None:
    del bob
    await said(alice, "bob", conversation_id="c1")
    waiting = await held(alice, "bob", conversation_id="c1")
    await decide(await person(server, "ann"), waiting, "reject")


async def the_others_reply_rejected(server: LiveServer, alice: Client, bob: Client) -> None:
    asked = await said(alice, "bob")
    waiting = (await reply(bob, asked, "I promise it.")).json
    await decide(await person(server, "ben"), waiting, "reject")


async def answered_at_the_limit(server: LiveServer, alice: Client, bob: Client) -> None:
    del bob
    await said(alice, "bob", conversation_id="c1", max_rounds=1)
    waiting = await held(alice, "bob", "and now?", conversation_id="c1")
    await decide(await person(server, "ann"), waiting, "answer", answer={"text": "I take it from here."})


async def denied_in_between(_: LiveServer, alice: Client, bob: Client) -> None:
    del bob
    await said(alice, "bob", conversation_id="c1")
    assert (await tell(alice, "bob", conversation_id="c1", classification="restricted")).status == 403


async def expired(server: LiveServer, alice: Client, bob: Client) -> None:
    asked = await said(alice, "bob")
    await reply(bob, asked, "I promise it.")
    server.rig.clock.pass_by(hours=25)
    for _ in range(2):
        await sweep.sweep(server.rig.team)


ENDS: dict[str, tuple[Ended, str]] = {
    one.__name__: (one, outcome)
    for one, outcome in (
        (closed, "resolved"),
        (closed_by_who_only_asked, "resolved"),
        (rejected, "denied"),
        (the_others_reply_rejected, "denied"),
        (answered_at_the_limit, "resolved"),
        (denied_in_between, "denied"),
        (expired, "expired"),
    )
}


@pytest.mark.requirement("OCIP-9-ENDS")
@pytest.mark.parametrize("name", ENDS)
@with_server
async def test_every_end_is_recorded_once_on_both_sides_with_the_outcome_of_the_exchange(
    server: LiveServer, name: str
) -> None:
    story, outcome = ENDS[name]
    alice, bob = await pair(server)

    await story(server, alice, bob)

    for side in (alice, bob):
        (entry,) = await audit_of(side, action="agent_exchange_ended")
        assert (entry["outcome"], (await audit_of(side))[-1]) == (outcome, entry)
        exchange = await shown(side, f"/exchanges/{entry['exchange_id']}")
        assert exchange["outcome"] == outcome


@pytest.mark.requirement("OCIP-9-ENDS")
@with_server
async def test_who_never_knew_of_an_exchange_does_not_learn_of_it_by_its_end(server: LiveServer) -> None:
    alice, bob = await pair(server)

    await decide(await person(server, "ann"), await held(alice, "bob"), "reject")

    assert [one["outcome"] for one in await audit_of(alice, action="agent_exchange_ended")] == ["denied"]
    assert await audit_of(bob) == []


# ---------------------------------------------------------------- denials


async def too_secret(server: LiveServer, alice: Client) -> Document:
    del server
    return document(await tell(alice, "carol", classification="restricted", conversation_id="c1"))


async def another_unit(server: LiveServer, alice: Client) -> Document:
    await put_policy(server, "cross_org: false")
    return document(await tell(alice, "carol", classification="public", conversation_id="c1"))


async def of_the_wrong_round(server: LiveServer, alice: Client) -> Document:
    del server
    await said(alice, "carol", conversation_id="c1", max_rounds=2)
    return document(await tell(alice, "carol", classification="public", conversation_id="c1", max_rounds=3))


async def stopped(server: LiveServer, alice: Client) -> Document:
    await (await admin_of(server)).post("/suspensions", {"what": "agent", "name": "carol"})
    return document(await tell(alice, "carol", classification="confidential", conversation_id="c1"))


@pytest.mark.requirement("GOV-DENIAL-FACTS")
@pytest.mark.parametrize(
    ("attempt", "level"),
    [
        (too_secret, "restricted"),
        (another_unit, "public"),
        (of_the_wrong_round, "public"),
        (stopped, "confidential"),
    ],
)
@with_server
async def test_every_denial_names_its_level_its_policy_its_ids_and_both_org_units(
    server: LiveServer, attempt: Callable[[LiveServer, Client], Awaitable[Document]], level: str
) -> None:
    await put_policy(server, "cross_org: true")
    alice, _ = await pair(server)
    await place(server, "carol", org_unit="marketing", user_id="cat")

    assert (await attempt(server, alice))["status"] in (403, 409)

    entry = (await audit_of(alice, action="agent_exchange", outcome="denied"))[-1]
    assert (entry["classification"], entry["source_org"], entry["target_org"]) == (level, "engineering", "marketing")
    assert entry["policy"] == (await shown(await admin_of(server), "/policies"))["label"]
    assert (entry["conversation_id"], entry["receivers"], entry["to"]) == ("c1", ["carol"], "carol")
    assert all(entry[name] for name in ("message_id", "content_digest", "code", "reason", "key"))
    # A message that could not be judged was denied before there was an exchange.
    assert bool(entry["exchange_id"]) == (attempt is not stopped)
    assert entry["evaluations"] == [
        {"action": "agent_exchange_cross_org", "sourceOrgUnit": "engineering", "targetOrgUnit": "marketing"}
    ]


@pytest.mark.requirement("GOV-DENIAL-FACTS")
@with_server
async def test_a_message_to_another_tenant_is_recorded_with_all_that_its_sender_said(server: LiveServer) -> None:
    label = await put_policy(server, "cross_org: true")
    alice, _ = await pair(server)
    await server.rig.tenant("acme")
    entries = []

    for target in ("bob@acme", "bob@nowhere"):
        answer = await tell(alice, target, classification="confidential", conversation_id="c1")
        assert refused(answer) == (403, "cross_enterprise_blocked")
        entries.append((await audit_of(alice, action="agent_exchange"))[-1])

    assert [one["target_tenant"] for one in entries] == ["acme", "nowhere"]
    for entry in entries:
        assert (entry["classification"], entry["policy"], entry["conversation_id"]) == ("confidential", label, "c1")
        assert (entry["source_org"], entry["target_org"], entry["exchange_id"]) == ("engineering", "", "")
        assert (entry["dataShared"], entry["dataWithheld"], bool(entry["message_id"])) == ([], [], True)


@pytest.mark.requirement("OCIP-7-ACTION")
@with_server
async def test_a_delivered_message_between_org_units_is_recorded_with_its_evaluation(server: LiveServer) -> None:
    await put_policy(server, "cross_org: true")
    alice, bob = await pair(server)
    carol = await place(server, "carol", org_unit="marketing", user_id="cat")
    await said(alice, "carol")
    await said(alice, "bob")

    expected = {"action": "agent_exchange_cross_org", "sourceOrgUnit": "engineering", "targetOrgUnit": "marketing"}
    assert [one.get("evaluations") for one in await audit_of(alice)] == [[expected], None]
    assert [one.get("evaluations") for one in await audit_of(carol)] == [[expected]]
    assert [one.get("evaluations") for one in await audit_of(bob)] == [None]


# ---------------------------------------------------------------- keys


@pytest.mark.requirement("GOV-AUDIT-KEYS")
@pytest.mark.parametrize(
    ("kind", "whose"),
    [("admin", {}), ("service", {}), ("agent", {"agent_id": "alice"}), ("human", {"user_id": "ann"})],
)
@with_server
async def test_a_key_of_any_kind_is_on_record_when_it_is_created_rotated_and_revoked(
    server: LiveServer, kind: str, whose: dict[str, str]
) -> None:
    admin = await admin_of(server)

    made = (await admin.post("/keys", {"kind": kind, **whose})).json
    rotated = (await admin.post(f"/keys/{made['id']}/rotate")).json
    await admin.delete(f"/keys/{rotated['id']}")

    entries = await audit_of(admin, side="@tenant")
    assert [(one["action"], one["made_key"], one.get("replaces")) for one in entries] == [
        ("key_created", made["id"], None),
        ("key_rotated", rotated["id"], made["id"]),
        ("key_revoked", rotated["id"], None),
    ]
    assert {one["kind"] for one in entries} == {kind}
    assert all(one[name] == value for one in entries for name, value in whose.items())
    assert all(made["key"] not in str(one) and rotated["key"] not in str(one) for one in entries)


# ---------------------------------------------------------------- data


@pytest.mark.requirement("OCIP-9-EXCHANGE-DATA")
@with_server
async def test_an_exchange_records_the_data_that_was_shared_and_withheld_in_it(server: LiveServer) -> None:
    await put_policy(server, "on_over_classified: withhold")
    alice, bob = await pair(server)
    admin = await admin_of(server)
    items = [
        {"source": "crm", "fields": ["secret"], "classification": "restricted", "description": "the margin"},
        {"source": "tracker", "fields": ["state"], "classification": "internal"},
    ]
    asked = await said(alice, "bob", payload={"secret": "40 %", "state": "half"}, data=items)
    await reply(bob, asked, "fine", data=[{"source": "wiki", "fields": ["text"], "classification": "public"}])

    exchange: Document = {}
    exchange_id = asked["metadata"]["ocip_ext"]["exchange_id"]
    for client in (alice, bob, admin):
        exchange = await shown(client, f"/exchanges/{exchange_id}")
        assert exchange["dataShared"] == [
            {"source": "tracker", "fields": ["state"]},
            {"source": "wiki", "fields": ["text"]},
        ]
        assert exchange["dataWithheld"] == [{"reason": "restricted is above internal", "description": "the margin"}]
        assert "40 %" not in str(exchange)

    await admin.post("/audit/erasures", {"conversation_id": exchange["conversationId"]})
    exchange = await shown(admin, f"/exchanges/{exchange_id}")
    assert (exchange["dataShared"], exchange["dataWithheld"]) == ([], [])


@pytest.mark.requirement("OCIP-9-EXCHANGE-DATA")
@with_server
async def test_data_for_which_a_message_was_denied_is_known_to_its_sender_only(server: LiveServer) -> None:
    alice, bob = await pair(server)
    items = [{"source": "crm", "fields": ["secret"], "classification": "restricted", "description": "the margin"}]
    asked = await said(alice, "bob", conversation_id="c1")
    answer = await tell(alice, "bob", payload={"secret": "40 %"}, data=items, conversation_id="c1")
    assert refused(answer) == (403, "classification_exceeded")

    path = f"/exchanges/{asked['metadata']['ocip_ext']['exchange_id']}"
    assert [one["description"] for one in (await shown(alice, path))["dataWithheld"]] == ["the margin"]
    assert (await shown(bob, path))["dataWithheld"] == []


# ---------------------------------------------------------------- what waits


@pytest.mark.requirement("GOV-HELD-UNSEEN")
@with_server
async def test_the_other_side_is_not_told_that_a_message_is_held(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob")
    path = f"/exchanges/{asked['metadata']['ocip_ext']['exchange_id']}"
    before = await shown(alice, path)

    waiting = (await reply(bob, asked, "I promise it.")).json

    assert await shown(alice, path) == before
    assert (await alice.get("/exchanges", outcome="escalated")).json == []
    assert waiting["approval"] not in str([await audit_of(alice), (await alice.get("/approvals")).json])
    mine = await shown(bob, path)
    assert (mine["outcome"], mine["pending_approvals"]) == ("escalated", [waiting["approval"]])
    assert [one["exchangeId"] for one in (await bob.get("/exchanges", outcome="escalated")).json] == [
        mine["exchangeId"]
    ]
    # Another message of hers arrives there as usual, and her own log says nothing else.
    await said(alice, "bob", "and?", conversation_id=mine["conversationId"])
    assert {one["exchange_outcome"] for one in await audit_of(alice, action="agent_exchange")} == {"in_progress"}
    # And she may end it, without learning what it ends.
    closed = await alice.post(f"{path}/close", {})
    assert (closed.status, closed.json["outcome"]) == (200, "resolved")


@pytest.mark.requirement("GOV-HELD-UNSEEN")
@with_server
async def test_at_the_limit_who_has_tried_knows_that_it_waits(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", max_rounds=1)
    path = f"/exchanges/{asked['metadata']['ocip_ext']['exchange_id']}"
    conversation = (await shown(alice, path))["conversationId"]
    waiting = await held(alice, "bob", "and now?", conversation_id=conversation)
    assert (await shown(bob, path))["outcome"] == "in_progress"
    assert refused(await bob.post(f"{path}/close", {})) == (403, "human_required")

    assert (await reply(bob, asked, "fine")).json["approval"] == waiting["approval"]

    assert (await shown(bob, path))["pending_approvals"] == [waiting["approval"]]


@pytest.mark.requirement("GOV-HELD-ONCE")
@pytest.mark.parametrize("conversation", [{}, {"conversation_id": "c1"}])
@with_server
async def test_a_message_that_is_sent_again_while_it_is_held_waits_once(
    server: LiveServer, conversation: dict[str, str]
) -> None:
    alice, _ = await pair(server)
    first, again = [await held(alice, "bob", **conversation) for _ in range(2)]
    other = await held(alice, "bob", "I commit to more.", **conversation)
    ann = await person(server, "ann")

    assert first["approval"] == again["approval"] != other["approval"]
    assert first["exchange_id"] == again["exchange_id"]
    assert len((await ann.get("/approvals")).json) == 2
    held_entries = await audit_of(alice, action="agent_exchange", outcome="held")
    assert [one["approval"] for one in held_entries] == [first["approval"], first["approval"], other["approval"]]

    await decide(ann, first, "approve")
    later = await held(alice, "bob", **conversation)

    assert later["approval"] not in (first["approval"], other["approval"])


@pytest.mark.requirement("GOV-REJECT-CLOSES")
@with_server
async def test_who_rejects_is_told_what_else_that_closes_before_and_after(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", conversation_id="c1")
    waiting = [await held(alice, "bob", f"I commit to {n}.", conversation_id="c1") for n in range(3)]
    theirs = (await reply(bob, asked, "I promise it.")).json
    ann = await person(server, "ann")
    others = [one["approval"] for one in waiting[1:]]

    before = await shown(ann, f"/approvals/{waiting[0]['approval']}")
    rejected = await decide(ann, waiting[0], "reject")
    after = await shown(ann, f"/approvals/{waiting[0]['approval']}")

    assert (before["closes"], rejected.json["closes"], after["closes"]) == (others, others, others)
    assert {(await shown(ann, f"/approvals/{one}"))["status"] for one in others} == {"closed"}
    # What the other side had waiting is closed, too, and she is not told of it.
    assert (await shown(await person(server, "ben"), f"/approvals/{theirs['approval']}"))["status"] == "closed"
