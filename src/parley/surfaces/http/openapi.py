"""The OpenAPI document, generated from the routes and their types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parley.domain.version import VERSION
from parley.surfaces.http.problem import ProblemOut
from parley.surfaces.http.route import PUBLIC
from parley.wire.api.schemas import schema_components

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.surfaces.http.route import Param, Route

_REF = "#/components/schemas/{name}"
_PART = re.compile(r"\{(\w+)\}")
# A recorded call of each operation, such as `POST /api/v1/intents`.
_EXAMPLES = Path(__file__).with_name("examples.json")
# Statuses that the connection may return before a route is found.
_ANYWHERE = (400, 403, 404, 413, 422, 429, 503, 507)
_WORDS = {
    200: "Done",
    201: "Created",
    202: "Accepted",
    204: "Done",
    400: "Malformed request",
    401: "No valid key",
    403: "Refused",
    404: "Not found, or not visible",
    409: "Conflict with the current state",
    410: "Gone",
    413: "Too large",
    415: "Not JSON",
    422: "Invalid request",
    428: "A version is required",
    429: "Too many requests or open streams",
    503: "Unavailable at the moment",
    504: "No answer in time",
    507: "The disk is full",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these routes."""
    routes = tuple(routes)
    types = {kind for route in routes for kind in _types(route)} | {ProblemOut}
    ordered = sorted((kind for kind in types if kind not in (str, None)), key=str)
    schemas, components = schema_components(ordered, _REF)
    schema_of = dict(zip(ordered, schemas, strict=True))
    examples = msgspec.json.decode(_EXAMPLES.read_bytes())
    paths: dict[str, Any] = {}
    for route in routes:
        path = route.path if route.bare else "/api/v1" + route.path
        operation = _operation(route, schema_of)
        _add_example(operation, examples.get(f"{route.method} {path}"))
        paths.setdefault(path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Parley",
            "version": VERSION,
            "description": "Channels for agents: OpenIntent RFC-0021 and what it needs from its neighbours.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _types(route: Route) -> list[Any]:
    types = [schema for schema in route.answers.values() if schema is not None]
    return [*types, route.body] if route.body is not None else types


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    parameters = [_parameter(param, "query") for param in route.query]
    parameters += [_parameter(param, "header") for param in route.headers]
    parameters += [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PART.findall(route.path)
    ]
    if route.scope:
        about = "The agent that a service or admin key speaks for."
        parameters.append({"name": "X-Agent-ID", "in": "header", "description": about, "schema": {"type": "string"}})
    if route.scope and route.method == "GET":
        about = "The same as X-Agent-ID. For a person: an agent that acts for you, to see what it sees."
        parameters.append({"name": "seat", "in": "query", "description": about, "schema": {"type": "string"}})
    if route.method == "POST":
        about = "The same key and body again: the same answer, carried out once."
        schema = {"type": "string", "minLength": 1, "maxLength": 255}
        parameters.append({"name": "Idempotency-Key", "in": "header", "description": about, "schema": schema})
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": parameters,
        "responses": _responses(route, schema_of),
        "security": [] if route.scope == PUBLIC else [{"key": []}, {"bearer": []}],
        "x-scope": sorted(route.scope),
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": schema_of[route.body]}},
        }
    return operation


def _add_example(operation: dict[str, Any], example: dict[str, Any] | None) -> None:
    """Put a recorded call where it belongs. `x-example` is its path and headers, which OpenAPI has no place for."""
    if example is None:
        return
    operation["x-example"] = {name: example[name] for name in ("path", "headers") if name in example}
    if "body" in example:
        operation["requestBody"]["content"]["application/json"]["example"] = example["body"]
    if "answer" in example:
        for content in operation["responses"][str(example["status"])]["content"].values():
            answer = example["answer"]
            streamed = isinstance(answer, list) and content["schema"] == {"type": "string"}
            content["example"] = "".join(answer) if streamed else answer


def _operation_id(route: Route) -> str:
    words = [word.strip("{}") for word in route.path.replace(".", "/").split("/") if word]
    return "_".join([route.method.lower(), *(words or ["front_page"])]).replace("-", "_")


def _parameter(param: Param, where: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": param.type}
    if param.minimum is not None:
        schema["minimum"] = param.minimum
    if param.maximum is not None:
        schema["maximum"] = param.maximum
    if param.choices:
        schema["enum"] = list(param.choices)
    return {"name": param.name, "in": where, "description": param.about, "schema": schema}


def _responses(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, schema in route.answers.items():
        described: dict[str, Any] = {"description": _WORDS[status]}
        if schema is not None:
            content = {"type": "string"} if schema is str else schema_of[schema]
            described["content"] = {route.content_type: {"schema": content}}
        responses[str(status)] = described
    statuses = {*_ANYWHERE, *route.refusals}
    statuses |= {401} if route.scope else set()
    statuses |= {415} if route.body is not None else set()
    statuses |= {409} if route.method != "GET" else set()
    problem = {"application/problem+json": {"schema": schema_of[ProblemOut]}}
    for status in sorted(statuses):
        described = responses.setdefault(str(status), {"description": _WORDS[status]})
        if status not in route.answers or status >= 400:
            described["content"] = {**described.get("content", {}), **problem}
    return responses
