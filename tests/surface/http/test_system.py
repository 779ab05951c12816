"""The server about itself."""

import json
import re

import msgspec

from parley.domain.directory.callers import KeyKind
from parley.surfaces.http import openapi
from parley.surfaces.http.route import PUBLIC
from parley.surfaces.http.server import all_routes
from tests.rigs.team import CHANNEL, LiveServer, with_server

MESSAGES = f"/channels/{CHANNEL}/messages"


@with_server
async def test_the_process_answers_for_itself_and_the_store_for_its_readiness(server: LiveServer) -> None:
    alive = await server.with_key("").get("/healthz")
    ready = await server.with_key("").get("/readyz")

    assert (alive.status, alive.json) == (200, {"status": "ok"})
    assert (ready.status, ready.json) == (200, {"status": "ready"})


@with_server
async def test_counters_need_a_key_and_name_routes_but_nobody(server: LiveServer) -> None:
    secret = await server.rig.key("", KeyKind.ADMIN)
    refused = await server.with_key("").get("/metrics")

    shown = await server.with_key(secret).get("/metrics")

    assert refused.status == 401
    assert shown.status == 200
    assert b'parley_requests_total{method="GET",route="/metrics",status="401"} 1' in shown.body
    assert secret.encode() not in shown.body


@with_server
async def test_the_description_is_openapi_and_covers_every_route(server: LiveServer) -> None:
    described = (await server.with_key("").get("/openapi.json")).json

    named = {(path, method.upper()) for path, operations in described["paths"].items() for method in operations}
    there = {(route.path if route.bare else "/api/v1" + route.path, route.method) for route in all_routes()}
    assert described["openapi"] == "3.1.0"
    assert named == there


@with_server
async def test_every_schema_is_published_and_every_reference_leads_to_one(server: LiveServer) -> None:
    described = (await server.with_key("").get("/openapi.json")).json

    schemas = (await server.with_key("").get("/schemas")).json
    one = await server.with_key("").get("/schemas/ChannelMessage.json")
    missing = await server.with_key("").get("/schemas/Nothing")

    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert references <= set(schemas)
    assert one.json["properties"]["message_type"]
    assert missing.status == 404


@with_server
async def test_the_page_to_read_loads_nothing_and_lists_the_ten_endpoints(server: LiveServer) -> None:
    page = await server.with_key("").get("/docs")

    text = page.body.decode()
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"<(script|img|link|iframe)", text)
    assert "src=" not in text
    assert text.count("/api/v1/channels/{channel_id}/messages</code>") == 2


def test_operations_have_names_of_their_own_and_document_every_refusal_with_the_problem() -> None:
    described = openapi.document(all_routes())

    operations = [one for methods in described["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        refusals = {status: one for status, one in operation["responses"].items() if int(status) >= 400}
        assert {"400", "404", "422", "503"} <= set(refusals)
        for one in refusals.values():
            assert one["content"]["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/ProblemOut"}


def test_only_what_says_nothing_about_a_tenant_is_public() -> None:
    public = {route.path for route in all_routes() if route.scope == PUBLIC}

    assert {path for path in public if not path.startswith("/.well-known/")} <= {
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/schemas",
        "/schemas/{name}",
        "/server/config",
    }


def test_bodies_refuse_fields_that_nobody_knows() -> None:
    """Whoever sends one must not believe that it was heard; the exceptions are what the OpenIntent SDK adds."""
    loose = {
        route.body.__name__
        for route in all_routes()
        if route.body is not None
        and issubclass(route.body, msgspec.Struct)
        and not route.body.__struct_config__.forbid_unknown_fields
    }

    assert loose <= {"AgentIn", "GrantIn", "HeartbeatIn", "TaskIn", "TaskPatch"}


@with_server
async def test_a_server_whose_clock_is_far_off_decides_nothing_and_says_how_it_is(server: LiveServer) -> None:
    admin, bob = await server.client(kind=KeyKind.ADMIN), await server.client("bob")
    server.rig.team.nodes.skew = -3600.0

    refused = [
        await bob.post(MESSAGES, {}),
        await bob.get(MESSAGES),
        await admin.get("/keys"),
        await bob.get("/readyz"),
    ]

    assert {(one.status, one.code) for one in refused} == {(503, "unavailable")}
    assert [(await admin.get(path)).status for path in ("/healthz", "/status")] == [200, 200]
    server.rig.team.nodes.skew = 0.4
    assert (await bob.post(MESSAGES, {})).status == 201


@with_server
async def test_a_server_without_a_key_is_alive_but_not_ready(server: LiveServer) -> None:
    server.rig.team.nodes.starting = True
    client = server.with_key("")
    assert [(await client.get(path)).status for path in ("/healthz", "/readyz")] == [200, 503]

    server.rig.team.nodes.starting = False

    assert (await client.get("/readyz")).status == 200
