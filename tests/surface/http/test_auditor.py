"""An auditor's key: it reads the log, the policies and the exchanges of its tenant, and writes nothing."""

from __future__ import annotations

import re

import pytest

from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.surfaces.http.route import PUBLIC, Route
from parley.surfaces.http.server import all_routes
from tests.conformance.ocip.governed import admin_of, pair, refused, said
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server

pytestmark = pytest.mark.usefixtures("streams_refused_at_once")

GUARDED = [route for route in all_routes() if route.scope != PUBLIC]
# All that an auditor may use. Two of them are POST because their question is long: they write nothing.
READS = {
    ("GET", "/agents"),
    ("GET", "/whoami"),
    ("GET", "/policies"),
    ("GET", "/policies/diff"),
    ("GET", "/policies/effective"),
    ("GET", "/policies/history"),
    ("GET", "/policies/{scope}/{name}"),
    ("POST", "/policies/explain"),
    ("POST", "/policies/replay"),
    ("GET", "/intents"),
    ("GET", "/intents/{intent_id}/events"),
    ("GET", "/intents/{intent_id}/events/verify"),
    ("GET", "/intents/{intent_id}/events/{event_id}"),
    ("GET", "/checkpoints"),
    ("GET", "/checkpoints/{checkpoint_id}"),
    ("GET", "/checkpoints/{checkpoint_id}/proof/{event_id}"),
    ("GET", "/verify/consistency"),
    ("GET", "/audit"),
    ("GET", "/audit/export"),
    ("GET", "/audit/state"),
    ("GET", "/audit/counts"),
    ("GET", "/audit/{entry_id}/explain"),
    ("GET", "/audit/checkpoints"),
    ("GET", "/audit/checkpoints/{size}"),
    ("GET", "/audit/proof/{entry_id}"),
    ("GET", "/live"),
    ("GET", "/exchanges"),
    ("GET", "/exchanges/{exchange_id}"),
    ("GET", "/traffic"),
    ("GET", "/suspensions"),
}


def path_of(route: Route) -> str:
    known = {"intent_id": INTENT, "channel_id": CHANNEL, "scope": "enterprise", "name": "default", "size": "1"}
    return re.sub(r"\{([^}]*)\}", lambda match: known.get(match[1], "something"), route.path)


def test_an_auditor_reaches_exactly_these_operations() -> None:
    assert {(route.method, route.path) for route in GUARDED if KeyKind.AUDITOR in route.scope} == READS


@pytest.mark.parametrize(
    "route",
    [route for route in GUARDED if (route.method, route.path) not in READS],
    ids=lambda route: f"{route.method} {route.path}",
)
@with_server
async def test_every_other_operation_refuses_an_auditor(server: LiveServer, route: Route) -> None:
    auditor = await server.client("", KeyKind.AUDITOR)

    assert refused(await auditor.request(route.method, path_of(route), b"{}" if route.body else b"")) == (
        403,
        "scope_required",
    )


@with_server
async def test_what_an_auditor_reads_is_there_and_nothing_is_written(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await said(alice, "bob", conversation_id="conv-1")
    auditor, admin = await server.client("", KeyKind.AUDITOR), await admin_of(server)
    (exchange,) = (await auditor.request("GET", "/exchanges")).json
    head, audits = await server.rig.store.head(DEFAULT_TENANT), await server.rig.store.audit_size(DEFAULT_TENANT)

    statuses = {}
    for route in GUARDED:
        if (route.method, route.path) in READS:
            path = path_of(route).replace("/exchanges/something", f"/exchanges/{exchange['exchangeId']}")
            answer = await auditor.request(
                route.method, path, b'{"sender": "alice", "to": "bob"}' if route.body else b""
            )
            statuses[route.path] = answer.status

    assert {path: status for path, status in statuses.items() if status not in (200, 404, 422)} == {}
    for path in ("/audit", "/exchanges", "/exchanges/{exchange_id}", "/policies", "/policies/history", "/agents"):
        assert statuses[path] == 200, path
    assert (await auditor.request("GET", "/audit")).json == (await admin.request("GET", "/audit")).json
    assert (await server.rig.store.head(DEFAULT_TENANT), await server.rig.store.audit_size(DEFAULT_TENANT)) == (
        head,
        audits,
    )


@with_server
async def test_an_auditor_follows_exchanges_and_the_log_and_nothing_else(server: LiveServer) -> None:
    auditor = await server.client("", KeyKind.AUDITOR)

    for topics in ("approvals", "audit,approvals", "agents", "suspensions", f"audit,channel:{CHANNEL}"):
        assert refused(await auditor.get("/live", topics=topics)) == (403, "scope_required"), topics
    alice, _ = await pair(server)
    async with auditor.events("/api/v1/live?topics=audit,exchanges") as events:
        await said(alice, "bob", conversation_id="conv-1")
        names = {(await events.next()).event for _ in range(3)}
    assert names == {"audit", "exchange"}


@with_server
async def test_an_auditor_speaks_for_no_agent_and_sees_no_other_tenant(server: LiveServer) -> None:
    auditor = await server.client("", KeyKind.AUDITOR, speaks_as="alice")
    elsewhere = await server.client("", KeyKind.AUDITOR, "globex")
    alice, _ = await pair(server)
    await said(alice, "bob")

    assert (await auditor.request("GET", "/audit")).status == 403
    assert (await elsewhere.request("GET", "/exchanges")).json == []
