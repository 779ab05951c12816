"""Policies over HTTP: changed by admins, read by whom they concern, refused with the line of what is wrong."""

from __future__ import annotations

import pytest

from parley.domain.agents.party import Attributes
from parley.domain.directory.callers import KeyKind
from parley.domain.rules.policy import BrokenPolicy
from tests.rigs.team import Answer, Client, LiveServer, with_server

SALES = "agent-to-agent:\n  max_rounds: 2\n  cross_org: approval\n"


async def put(client: Client, path: str, text: str = SALES) -> Answer:
    return await client.request("PUT", f"/policies/{path}", {"text": text})


@with_server
async def test_a_fresh_server_has_a_policy_of_the_enterprise(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    listed = (await admin.get("/policies")).json

    assert [(one["scope"], one["name"]) for one in listed["policies"]] == [("enterprise", "default")]
    assert listed["broken"] == []


@with_server
async def test_an_admin_puts_shows_and_removes_a_policy(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    made = await put(admin, "org/sales")
    shown = await admin.get("/policies/org/sales")
    listed = (await admin.get("/policies")).json

    assert (made.status, made.json) == (200, shown.json)
    assert shown.json == {
        "scope": "org",
        "name": "sales",
        "label": listed["label"],
        "keys": {"max_rounds": 2, "cross_org": "approval"},
        "text": SALES,
    }
    removed = await admin.delete("/policies/org/sales")
    assert [one["name"] for one in removed.json["policies"]] == ["default"]
    assert (await admin.get("/policies/org/sales")).status == 404
    assert (await admin.delete("/policies/org/sales")).status == 404


@with_server
async def test_what_is_wrong_is_named_by_line_and_changes_nothing(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)
    before = (await admin.get("/policies")).json["label"]

    refused = await put(admin, "org/sales", "agent-to-agent:\n  max_round: 2\n  hop_limit: none\n")

    assert (refused.status, refused.code) == (422, "policy_invalid")
    assert [(one["line"], one["key"]) for one in refused.json["flaws"]] == [(2, "max_round"), (3, "hop_limit")]
    assert "org/sales.yaml:3: hop_limit: must be a whole number" in refused.json["detail"]
    assert [one["field"] for one in refused.json["errors"]] == ["max_round", "hop_limit"]
    assert (await admin.get("/policies")).json["label"] == before


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("orgs/sales", {"text": SALES}, 422),
        ("org/a%20b", {"text": SALES}, 422),
        ("org/.x", {"text": SALES}, 422),
        ("org/sales", {"text": ""}, 422),
        ("org/sales", {"text": "# nothing\n"}, 422),
        ("org/sales", {"text": 3}, 422),
        ("org/sales", {"text": SALES, "force": True}, 422),
        ("org/sales", {}, 422),
        ("org/sales", {"text": "agent-to-agent:\n  disclosure: nobody\n"}, 422),
    ],
)
@with_server
async def test_a_bad_request_is_refused(server: LiveServer, path: str, body: object, status: int) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    answer = await admin.request("PUT", f"/policies/{path}", body)

    assert answer.status == status, answer


@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.SERVICE, KeyKind.HUMAN])
@with_server
async def test_only_an_admin_changes_policies(server: LiveServer, kind: KeyKind) -> None:
    client = await server.client("alice" if kind is KeyKind.AGENT else "", kind)

    assert (await put(client, "org/sales")).code == "scope_required"
    assert (await client.delete("/policies/enterprise/default")).code == "scope_required"
    assert (await client.get("/policies/history")).code == "scope_required"


@with_server
async def test_an_agent_reads_what_concerns_it_and_nothing_else(server: LiveServer) -> None:
    await server.rig.agent("alice", attributes=Attributes(org_unit="sales"))
    admin, alice, bob = (
        await server.client(kind=KeyKind.ADMIN),
        await server.client("alice"),
        await server.client("bob"),
    )
    await put(admin, "org/sales")

    assert [one["name"] for one in (await alice.get("/policies")).json["policies"]] == ["default", "sales"]
    assert [one["name"] for one in (await bob.get("/policies")).json["policies"]] == ["default"]
    assert (await bob.get("/policies/org/sales")).body == (await bob.get("/policies/org/nowhere")).body


@with_server
async def test_what_is_in_force_comes_with_where_it_is_from(server: LiveServer) -> None:
    await server.rig.agent("alice", attributes=Attributes(org_unit="sales", user_id="ana"))
    admin, alice, bob = (
        await server.client(kind=KeyKind.ADMIN),
        await server.client("alice"),
        await server.client("bob"),
    )
    await put(admin, "org/sales")

    own = (await alice.get("/policies/effective")).json

    assert own == (await admin.get("/policies/effective", agent="alice")).json
    assert (own["org_unit"], own["user_id"]) == ("sales", "ana")
    assert (own["policy"]["max_rounds"], own["policy"]["cross_org"]) == (2, False)
    assert (own["origins"]["max_rounds"], own["origins"]["cross_org"]) == ("org/sales", "built in")
    assert (await bob.get("/policies/effective", agent="alice")).status == 404


@with_server
async def test_without_the_enterprises_policy_nothing_is_in_force(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)

    await admin.delete("/policies/enterprise/default")

    assert (await admin.get("/policies/effective")).json["policy"] is None


@with_server
async def test_what_was_in_force_is_found_by_its_label(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)
    first = (await admin.get("/policies")).json["label"]
    second = (await put(admin, "org/sales")).json["label"]
    third = (await admin.delete("/policies/org/sales")).json["label"]

    found = (await admin.get("/policies", label=second, texts="true")).json

    assert found["label"] == second
    assert {one["name"]: one["text"] for one in found["policies"]}["sales"] == SALES
    assert [one["label"] for one in (await admin.get("/policies/history")).json] == [third, second, first]
    assert (await admin.get("/policies", label="7-000000000000")).status == 404


@with_server
async def test_a_file_that_cannot_be_used_is_told_to_admins(server: LiveServer) -> None:
    admin, alice = await server.client(kind=KeyKind.ADMIN), await server.client("alice")
    flaw = {"file": "org/x.yaml", "line": 3, "key": "enabled", "code": "wrong_value", "detail": "must be true or false"}
    message = "org/x.yaml:3: enabled: must be true or false"
    server.rig.team.policies.broken["default"] = (BrokenPolicy("org/x.yaml", message, (flaw,)),)

    assert (await admin.get("/policies")).json["broken"] == [
        {"file": "org/x.yaml", "message": message, "flaws": [flaw]}
    ]
    assert (await alice.get("/policies")).json["broken"] == []


@with_server
async def test_another_tenant_s_policies_are_not_there(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)
    other = await server.client(kind=KeyKind.ADMIN, tenant="globex")
    await put(admin, "org/sales")

    assert [one["name"] for one in (await other.get("/policies")).json["policies"]] == ["default"]
    assert (await other.get("/policies/org/sales")).status == 404
    assert (await other.get("/policies", label=(await admin.get("/policies")).json["label"])).status == 404


@with_server
async def test_what_was_in_force_is_found_by_a_time_or_a_label(server: LiveServer) -> None:
    await server.rig.agent("alice", attributes=Attributes(org_unit="sales"))
    admin = await server.client(kind=KeyKind.ADMIN)
    before = (await admin.get("/policies")).json
    earlier = server.rig.clock.at.isoformat()
    server.rig.clock.pass_by(hours=1)
    after = (await put(admin, "org/sales")).json

    versions = (earlier, after["label"])
    effective = [(await admin.get("/policies/effective", agent="alice", at=at)).json for at in versions]
    listed = (await admin.get("/policies", at=earlier)).json

    assert [(answer["label"], answer["policy"]["max_rounds"]) for answer in effective] == [
        (before["label"], 3),
        (after["label"], 2),
    ]
    assert (listed["label"], [policy["name"] for policy in listed["policies"]]) == (before["label"], ["default"])
    assert (await admin.get("/policies", at="never")).status == 422
    assert (await admin.get("/policies", label="never")).status == 404


@with_server
async def test_two_versions_are_compared_key_by_key(server: LiveServer) -> None:
    admin = await server.client(kind=KeyKind.ADMIN)
    before = (await admin.get("/policies")).json["label"]
    after = (await put(admin, "org/sales")).json["label"]

    forth = (await admin.get("/policies/diff", **{"from": before})).json
    back = (await admin.get("/policies/diff", **{"from": after, "to": before})).json

    assert (forth["old_label"], forth["new_label"]) == (before, after)
    assert {"where": "org/sales", "key": "max_rounds", "old": None, "new": 2} in forth["documents"]
    assert {"where": "org/sales", "key": "max_rounds", "old": 3, "new": 2} in forth["effective"]
    assert {"where": "org/sales", "key": "max_rounds", "old": 2, "new": None} in back["documents"]
    assert (await (await server.client("alice")).get("/policies/diff", **{"from": before})).status == 403
