"""The server about itself."""

import json
import re
import subprocess
import sys
from html import escape
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from parley.domain.directory.callers import KeyKind
from parley.surfaces.http import docs_page, openapi
from parley.surfaces.http.route import PUBLIC
from parley.surfaces.http.server import all_routes
from tests.rigs.browser import a_browser, needs_browser
from tests.rigs.team import CHANNEL, LiveServer, with_server

ROOT = Path(__file__).resolve().parents[3]

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
    assert text.count("<code>/api/v1/channels/{channel_id}/messages</code>") == 2


@with_server
async def test_a_browser_at_the_address_of_the_server_gets_a_page(server: LiveServer) -> None:
    page = await server.with_key("").get("/")

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<a href='/docs'>" in page.body.decode()


@needs_browser
@with_server
async def test_a_link_to_an_operation_or_an_object_opens_it(server: LiveServer) -> None:
    async with a_browser(server.rig.path.parent / "profile") as page:
        for name in ("post_channels_channel_id_ask", "ChannelMessage"):
            await page.open(f"http://127.0.0.1:{server.listener.port}/docs#{name}")

            assert await page.run(f"document.getElementById('{name}').closest('details').open")


@with_server
async def test_the_calls_on_the_page_go_to_the_address_that_its_reader_came_to(server: LiveServer) -> None:
    alice = await server.client("alice")
    port = server.listener.port
    hosts = {
        f"127.0.0.1:{port}": f"http://127.0.0.1:{port}",
        "localhost": "http://localhost",
    }

    for host, address in hosts.items():
        alice.headers["Host"] = host
        page = (await alice.request("GET", "/docs")).body.decode()
        assert f"curl -X POST &#x27;{address}/api/v1/intents&#x27;" in page
        assert ("127.0.0.1:8420" in page, "{{server}}" in page) == (False, False)
    alice.headers["X-Forwarded-Proto"] = "https"
    assert "&#x27;https://localhost/api/v1/" in (await alice.request("GET", "/docs")).body.decode()


@pytest.mark.parametrize("host", ["", "a'b", "x;rm -rf ~", "<script>", "a b", "h:99999999", "$(id)", "`id`"])
def test_a_host_that_is_none_is_not_repeated_on_the_page(host: str) -> None:
    assert docs_page.address_of(host, is_https=True) == "http://127.0.0.1:8420"


def test_every_operation_shows_a_recorded_call_that_fits_its_schema() -> None:
    described = openapi.document(all_routes())
    text = docs_page.page(described).decode()

    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            assert "x-example" in operation, (method, path)
            sent = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            answers = [
                one for response in operation["responses"].values() for one in response.get("content", {}).values()
            ]
            shown = [one for one in (sent, *answers) if "example" in one]
            assert bool(sent) == ("example" in sent)
            for one in shown:
                schema = {**one["schema"], "components": described["components"]}
                jsonschema_rs.Draft202012Validator(schema).validate(one["example"])
            assert escape(operation["x-example"]["path"]) in text


def test_the_examples_are_what_the_golden_stories_recorded() -> None:
    checked = subprocess.run(
        [sys.executable, "tools/gen_examples.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stderr) == (0, "")


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
        "/",
        "/docs",
        "/schemas",
        "/schemas/{name}",
        "/server/config",
    }


def test_bodies_refuse_fields_that_nobody_knows() -> None:
    """Whoever sends one must not believe that it was heard; the exceptions are what OpenIntent and MCP add."""
    loose = {
        route.body.__name__
        for route in all_routes()
        if route.body is not None
        and issubclass(route.body, msgspec.Struct)
        and not route.body.__struct_config__.forbid_unknown_fields
    }

    assert loose <= {"AgentIn", "GrantIn", "HeartbeatIn", "McpRequest", "TaskIn", "TaskPatch"}


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


@with_server
async def test_the_first_example_of_the_api_has_a_title_that_says_something(server: LiveServer) -> None:
    document = (await server.with_key("").get("/openapi.json")).json
    example = document["paths"]["/api/v1/intents"]["post"]["requestBody"]["content"]["application/json"]["example"]

    assert example["title"].strip()
