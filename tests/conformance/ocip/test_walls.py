"""OCIP: org units by policy, tenants never."""

from __future__ import annotations

import pytest

from parley.domain.directory.callers import KeyKind
from parley.surfaces.http.route import EVERYBODY
from tests.conformance.ocip.governed import (
    MESSAGES,
    audit_of,
    envelope_of,
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
from tests.rigs.behind_the_server import tables
from tests.rigs.team import Client, LiveServer, with_server

BLOCKED = (403, "cross_enterprise_blocked")


async def two_units(server: LiveServer) -> tuple[Client, Client]:
    alice = await place(server, "alice", org_unit="engineering", user_id="ann")
    return alice, await place(server, "bob", org_unit="marketing", user_id="ben")


# ---------------------------------------------------------------- org units


@pytest.mark.requirement("OCIP-7-SAME-ORG", "OCIP-7-ROW-SAME")
@pytest.mark.parametrize("cross_org", ["false", "true", "approval"])
@with_server
async def test_within_an_org_unit_the_wall_is_not_asked(server: LiveServer, cross_org: str) -> None:
    alice, bob = await pair(server)
    await put_policy(server, f"cross_org: {cross_org}")

    await said(alice, "bob")

    assert len(await inbox(bob)) == 1


@pytest.mark.requirement("GOV-SAME-ORG")
@with_server
async def test_within_an_org_unit_everything_else_applies(server: LiveServer) -> None:
    alice, _ = await pair(server)

    assert refused(await tell(alice, "bob", classification="restricted")) == (403, "classification_exceeded")
    assert (await tell(alice, "bob", "I promise.")).status == 202
    await put_policy(server, "enabled: false")
    assert refused(await tell(alice, "bob")) == (403, "policy_denied")


@pytest.mark.requirement("OCIP-7-CROSS-ORG", "OCIP-7-ROW-ORG", "OCIP-1-CROSS-ORG")
@with_server
async def test_between_org_units_the_policy_has_to_allow_it(server: LiveServer) -> None:
    alice, bob = await two_units(server)
    assert refused(await tell(alice, "bob")) == (403, "policy_denied")

    await put_policy(server, "cross_org: true")

    await said(alice, "bob")
    assert len(await inbox(bob)) == 1


@pytest.mark.requirement("OCIP-7-ACTION", "GOV-CROSS-ORG-CONTEXT")
@with_server
async def test_the_wall_is_asked_with_its_action_and_both_units(server: LiveServer) -> None:
    alice, _ = await two_units(server)

    answer = await tell(alice, "bob")

    assert answer.json["action"] == "agent_exchange_cross_org"
    assert (answer.json["sourceOrgUnit"], answer.json["targetOrgUnit"]) == ("engineering", "marketing")
    entry = (await audit_of(alice, action="agent_exchange"))[-1]
    assert (entry["source_org"], entry["code"]) == ("engineering", "policy_denied")


@pytest.mark.requirement("OCIP-7-REJECTED", "GOV-CROSS-ORG-DENY")
@with_server
async def test_what_the_policy_denies_is_delivered_to_nobody(server: LiveServer) -> None:
    alice, bob = await two_units(server)

    assert refused(await tell(alice, "bob")) == (403, "policy_denied")

    assert await inbox(alice) == await inbox(bob) == []
    assert (await bob.get("/exchanges")).json == []


@pytest.mark.requirement("GOV-CROSS-ORG-APPROVAL")
@with_server
async def test_where_the_policy_asks_for_approval_it_is_held(server: LiveServer) -> None:
    alice, bob = await two_units(server)
    await put_policy(server, "cross_org: approval")

    waiting = await held(alice, "bob", "hello")

    assert (waiting["cause"], waiting["detectedKeywords"]) == ("cross_org", [])
    assert await inbox(bob) == []


@pytest.mark.requirement("GOV-BOTH-POLICIES")
@pytest.mark.parametrize("unit", ["engineering", "marketing"])
@with_server
async def test_each_side_has_its_own_policy_and_both_have_to_allow_it(server: LiveServer, unit: str) -> None:
    alice, _ = await two_units(server)
    await put_policy(server, "cross_org: true\nmax_rounds: 5")
    assert envelope_of(await said(alice, "bob"))["max_rounds"] == 5

    await put_policy(server, "max_rounds: 2", f"org/{unit}")
    assert envelope_of(await said(alice, "bob"))["max_rounds"] == 2
    await put_policy(server, "cross_org: false", f"org/{unit}")
    assert refused(await tell(alice, "bob")) == (403, "policy_denied")


# ---------------------------------------------------------------- tenants


@pytest.mark.requirement(
    "OCIP-7-BLOCKED", "OCIP-7-ERROR", "OCIP-7-ROW-TENANT", "OCIP-1-CROSS-ENTERPRISE", "GOV-TENANT-NO-OVERRIDE"
)
@pytest.mark.parametrize("kind", sorted(EVERYBODY))
@with_server
async def test_no_policy_and_no_key_opens_the_way_to_another_tenant(server: LiveServer, kind: KeyKind) -> None:
    await pair(server)
    await server.rig.agent("bob", tenant="globex-inc")
    await put_policy(server, "cross_org: true\napplies_to: annotated\ncommitments: report")
    await put_policy(server, "cross_org: true", tenant="globex-inc")
    caller = await person(server, "ann") if kind is KeyKind.HUMAN else await server.client("alice", kind)
    before = tables(server.rig)

    for to in ("bob@globex-inc", "nobody@globex-inc", "role:any@globex-inc", "*@globex-inc"):
        answer = await caller.post(MESSAGES, {"sender": "alice", "to": to, "payload": {"text": "hello"}})
        assert refused(answer) == BLOCKED

    after = tables(server.rig)
    assert {name for name in after if after[name] != before.get(name)} <= {"audit", "tenant"}


@pytest.mark.requirement("GOV-TENANT-SAME-ANSWER", "GOV-APPLIES-TENANTS")
@with_server
async def test_what_is_there_in_another_tenant_makes_no_difference(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await server.rig.tenant("globex-inc")
    await server.rig.agent("bob", tenant="globex-inc")

    there = await tell(alice, "bob@globex-inc")
    bodies = {
        (await alice.post(MESSAGES, {"to": to, "payload": {}})).body
        for to in ("bob@globex-inc", "carol@globex-inc", "bob@nowhere", "role:x@nowhere")
    }

    assert bodies == {there.body}


@pytest.mark.requirement("OCIP-7-FIRST", "GOV-TENANT-FIRST", "GOV-ORDER-TENANT")
@with_server
async def test_the_tenant_is_looked_at_before_anything_else(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "enabled: false")
    admin = await server.client(kind=KeyKind.ADMIN)
    await admin.post("/suspensions", {"what": "agent", "name": "alice"})
    wrong = {"ocip": {"version": "9"}, "classification": "restricted"}

    for path in (MESSAGES, "/channels/none/messages"):
        answer = await alice.post(path, {"to": "bob@globex-inc", "payload": {"text": "I promise."}, "metadata": wrong})
        assert refused(answer) == (
            403,
            "suspended",
        )  # it is told nothing else; the record says what was looked at first
    entries = await audit_of(admin, side="alice", action="agent_exchange")
    assert [entry["code"] for entry in entries] == [BLOCKED[1]] * 2

    await admin.delete("/suspensions?what=agent&name=alice")
    answer = await alice.post(MESSAGES, {"to": "bob@globex-inc", "payload": {"text": "I promise."}, "metadata": wrong})
    assert refused(answer) == BLOCKED


@pytest.mark.requirement("GOV-TENANT-RECORDED")
@with_server
async def test_who_tried_has_it_on_record_and_the_other_tenant_has_nothing(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await tell(alice, "bob@globex-inc")

    entry = (await audit_of(alice, action="agent_exchange"))[-1]

    assert (entry["outcome"], entry["code"], entry["to"]) == ("denied", "cross_enterprise_blocked", "bob@globex-inc")
    assert await server.rig.store.audit_size("globex-inc") == 0


@pytest.mark.requirement("OCIP-7-BLOCKED")
@with_server
async def test_ones_own_tenant_may_be_named(server: LiveServer) -> None:
    alice, bob = await pair(server)

    await said(alice, "bob@default")

    assert [one["to"] for one in await inbox(bob)] == ["bob"]
