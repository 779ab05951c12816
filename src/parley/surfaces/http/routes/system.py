"""Health, readiness, metrics and the description of the API."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from parley.domain.directory.callers import NO_TENANT, KeyKind, Saved
from parley.domain.errors.errors import NotFound, Unavailable
from parley.domain.store.changes import TeamChanges
from parley.surfaces.http import docs_page, openapi
from parley.surfaces.http.files import page_response
from parley.surfaces.http.http1.message import Response
from parley.surfaces.http.route import PUBLIC, Answer, Call, Route, encode, json
from parley.surfaces.http.routes import status
from parley.wire.api.records.directory import Health

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.surfaces.http.metrics import Metrics

_PROBE = "readyz"
# Addresses of one server that pages are rendered for.
_ADDRESSES_MAX = 16
_TAG = "system"
_Documents = dict[str, Any]


async def alive(call: Call) -> Response:
    del call
    return json(200, Health(status="ok"))


async def ready(call: Call) -> Response:
    """Write to the store, and read it back. A server that is about to stop says so while it still answers."""
    if call.team.nodes.leaving:
        raise Unavailable("this server is about to stop")
    if call.team.nodes.starting:
        raise Unavailable("this server is starting: it has no key yet")
    call.team.nodes.check_time()
    store = call.team.store
    written = Saved(_PROBE, call.team.new_id("probe"), _PROBE, call.team.at(), status=200, answer=b"ok")
    await store.commit(TeamChanges(NO_TENANT, saved=written))
    if await store.saved(_PROBE) is None:
        raise Unavailable("the store does not give back what was written")
    return json(200, Health(status="ready"))


def routes(metrics: Metrics, all_of_them: Callable[[], tuple[Route, ...]]) -> tuple[Route, ...]:
    """The system's routes; the description covers every route of the server, these included."""

    @cache
    def described() -> _Documents:
        return openapi.document(all_of_them())

    async def counted(call: Call) -> Response:
        status.check_operator(call)
        metrics.gauge("position", await call.team.store.head(call.caller.tenant))
        status.gauge(metrics, call.team)
        return Response(200, metrics.text().encode(), b"text/plain; version=0.0.4; charset=utf-8")

    # Anybody may ask for these, without a key: each is rendered once.
    @cache
    def rendered(name: str) -> bytes:
        components = described()["components"]["schemas"]
        if name == "/":
            return docs_page.front_page()
        if name == "/docs":
            return docs_page.page(described())
        if name == "/openapi.json":
            return encode(described())
        if name == "/schemas":
            return encode(components)
        document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **components[name]}
        return encode({**document, "$defs": components})

    addresses = {docs_page.DEFAULT_ADDRESS}

    @cache
    def rendered_at(name: str, address: str) -> bytes:
        return docs_page.for_reader(rendered(name), address)

    async def description(call: Call) -> Response:
        del call
        return Response(200, rendered("/openapi.json"))

    async def readable(call: Call) -> Response:
        policy = ((b"Content-Security-Policy", docs_page.CSP),)
        address = docs_page.address_of(
            call.request.header(b"host"), is_https=call.request.header(b"x-forwarded-proto") == "https"
        )
        # Without a key somebody could name any number of them, each of which is rendered and compressed.
        if address not in addresses and len(addresses) < _ADDRESSES_MAX:
            addresses.add(address)
        page = rendered_at(call.request.path, address if address in addresses else docs_page.DEFAULT_ADDRESS)
        return page_response(call.request, page, policy, is_static=True)

    async def schemas(call: Call) -> Response:
        del call
        return Response(200, rendered("/schemas"))

    async def schema(call: Call) -> Response:
        name = call.params["name"].removesuffix(".json")
        if name not in described()["components"]["schemas"]:
            raise NotFound.no_such("schema")
        return Response(200, rendered(name))

    return _table(counted, description, readable, schemas, schema)


def _table(
    counted: Answer, description: Answer, readable: Answer, schemas: Answer, schema: Answer
) -> tuple[Route, ...]:
    scrapers = frozenset({KeyKind.ADMIN, KeyKind.SERVICE})
    plain = "text/plain; version=0.0.4; charset=utf-8"
    return (
        Route("GET", "/healthz", alive, "Check that the process is alive", _TAG, {200: Health}, PUBLIC, bare=True),
        Route(
            "GET", "/readyz", ready, "Check that the server can write and read", _TAG, {200: Health}, PUBLIC, bare=True
        ),
        Route(
            "GET",
            "/metrics",
            counted,
            "Get metrics for Prometheus",
            _TAG,
            {200: str},
            scrapers,
            bare=True,
            untimed=True,
            content_type=plain,
        ),
        Route(
            "GET", "/openapi.json", description, "Get the OpenAPI document", _TAG, {200: _Documents}, PUBLIC, bare=True
        ),
        Route(
            "GET",
            "/",
            readable,
            "Read what this server is",
            _TAG,
            {200: str},
            PUBLIC,
            bare=True,
            content_type="text/html; charset=utf-8",
        ),
        Route(
            "GET",
            "/docs",
            readable,
            "Read the API documentation",
            _TAG,
            {200: str},
            PUBLIC,
            bare=True,
            content_type="text/html; charset=utf-8",
        ),
        Route(
            "GET",
            "/schemas",
            schemas,
            "Get the JSON Schemas of all objects",
            _TAG,
            {200: _Documents},
            PUBLIC,
            bare=True,
        ),
        Route("GET", "/schemas/{name}", schema, "Get one JSON Schema", _TAG, {200: _Documents}, PUBLIC, bare=True),
    )
