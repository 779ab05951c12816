"""docs/reference/http.md: every route, refusal and object of a server."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from parley.domain.errors.errors import ParleyError
from parley.domain.store.limits import TeamLimits
from parley.surfaces.entrance.refusals import status_of
from parley.surfaces.http.http1.message import HttpLimits
from parley.surfaces.http.route import PUBLIC, Param, Route
from parley.surfaces.http.server import all_routes
from parley.wire.api.schemas import schema_components
from tools.reference.errors import called_name, error_tree, is_sent, pattern_of
from tools.reference.markdown import ROOT, table

BOUNDS = {"minLength": "characters or more", "maxLength": "at most", "minimum": "or more", "maximum": "at most"}
HTTP_INTRO = """\
# HTTP

A running server shows the same at `/docs`, with an example of every call, and as OpenAPI 3.1 at `/openapi.json`. Paths
are below `/api/v1`, or `/v1`, unless they are listed under [system](#system) or begin with `/.well-known`. How to use
it: [Your first channel over HTTP](../tutorial/first-channel-over-http.md),
[Receive webhooks](../how-to/receive-webhooks.md).

| header | what for |
|---|---|
| `X-API-Key` or `Authorization: Bearer` | the key. Never in the address |
| `X-Agent-ID` | the agent that a service or admin key speaks for |
| `Content-Type` | `application/json`, wherever there is a body |
| `Idempotency-Key` | your word for this POST, 1 to 255 characters: sent again, it is carried out once |
| `If-Match` | the version (`ETag`) that a change is for; intents and tasks demand it |
| `Last-Event-ID` | on a stream: go on after this event |
| `traceparent` | the trace of a message or event, as W3C has it |

Unknown fields, keys given twice, and text that is not Unicode are refused. All times are RFC 3339; the server writes
UTC with microseconds. A request that repeats an `Idempotency-Key` with the same body is answered as it was the first
time, with `Idempotent-Replayed: true`, for {hours} hours; with another body it is refused.
"""
HTTP_REFUSALS = """
## Refusals

A refusal is `application/problem+json` (RFC 9457). `code` is stable, `detail` is for people, `errors` names every
field with a code of its own; some codes add facts, such as `current_version`, or
`missing` of `not_found`: what was not found.

```json
{"type": "urn:parley:problem:channel_closed", "title": "Conflict", "status": 409, "code": "channel_closed",
 "detail": "the channel questions is closed", "message": "the channel questions is closed", "errors": []}
```

What a key may not know of does not exist: 404, with the same body as for what was never there. 4xx means that nothing
was done. After a 5xx or a broken connection it may have been done, once: send it again with the same
`Idempotency-Key`.
"""
HTTP_CONNECTION = """
The connection itself refuses, before any route is found (limits: headers {header_bytes} bytes and {header_count}
fields, address {url_bytes} bytes, {header_seconds:g} seconds for the headers, {body_seconds:g} for the body,
{connections} connections):
"""
HTTP_OBJECTS = """
## Objects

What bodies and answers hold. A field without *required* may be left out of a body.
"""


def http_page() -> Iterator[str]:
    routes = all_routes()
    yield HTTP_INTRO.format(hours=TeamLimits().idempotency_hours)
    tags = list(dict.fromkeys(route.tag for route in routes))
    yield "Operations: " + ", ".join(f"[{tag}](#{tag})" for tag in tags) + "."
    for tag in tags:
        yield ""
        yield f"## {tag}"
        yield ""
        of_tag = [route for route in routes if route.tag == tag]
        yield from table(("operation", "what it does", "keys", "body", "answers"), map(route_row, of_tag))
        parameters = [row for route in of_tag for row in parameter_rows(route)]
        if parameters:
            yield ""
            yield from table(("of", "parameter", "meaning"), parameters)
    yield HTTP_REFUSALS
    yield from table(("status", "code", "meaning"), sorted(set(map(refusal_row, filter(is_sent, error_tree())))))
    yield HTTP_CONNECTION.format(**HttpLimits()._asdict())
    yield from table(("status", "code", "says"), sorted(refusals_in_code()))
    yield HTTP_OBJECTS
    yield from objects(routes)


def route_row(route: Route) -> tuple[str, ...]:
    keys = "none" if route.scope == PUBLIC else ", ".join(sorted(route.scope))
    body = object_name(route.body) + (" (optional)" if route.body_optional else "") if route.body else ""
    answers = ", ".join(f"{status} {object_name(schema)}".strip() for status, schema in sorted(route.answers.items()))
    return f"`{route.method} {route.path}`", route.summary, keys, body, answers


def object_name(schema: object) -> str:
    """The name of what a body or an answer holds, with a link where it is explained below."""
    if schema is None or schema is str:
        return ""
    if isinstance(schema, type) and issubclass(schema, msgspec.Struct):
        return link_to(component_names()[schema])
    inside = [object_name(argument) for argument in getattr(schema, "__args__", ()) if isinstance(argument, type)]
    if getattr(schema, "__origin__", None) is list:
        return f"list of {inside[0]}"
    return "object"


@cache
def component_names() -> dict[Any, str]:
    """The component of each object: its name, or its module's too where two have the same."""
    structs = sorted(set(filter(is_struct, schemas(all_routes()))), key=str)
    references, _ = msgspec.json.schema_components(structs, ref_template="{name}")
    return {struct: reference["$ref"] for struct, reference in zip(structs, references, strict=True)}


def schemas(routes: Iterable[Route]) -> Iterator[Any]:
    for route in routes:
        for schema in (route.body, *route.answers.values()):
            if schema is not None and schema is not str:
                yield schema
                yield from (argument for argument in getattr(schema, "__args__", ()) if is_struct(argument))


def is_struct(schema: object) -> bool:
    return isinstance(schema, type) and issubclass(schema, msgspec.Struct)


def title_of(component: str) -> str:
    return ".".join(component.split(".")[-2:])


def link_to(component: str) -> str:
    title = title_of(component)
    return f"[{title}](#{title.replace('.', '').lower()})"


def parameter_rows(route: Route) -> Iterator[tuple[str, str, str]]:
    for parameter, where in (
        *((param, "") for param in route.query),
        *((param, " (header)") for param in route.headers),
    ):
        yield f"`{route.method} {route.path}`", f"`{parameter.name}`{where}", parameter_meaning(parameter)


def parameter_meaning(param: Param) -> str:
    bounds = [
        f"{word} {bound:.12g}" for word, bound in (("from", param.minimum), ("to", param.maximum)) if bound is not None
    ]
    choices = " or ".join(f"`{choice}`" for choice in param.choices)
    extra = ", ".join(filter(None, (" ".join(bounds), choices)))
    return param.about + (f" ({extra})" if extra else "")


def refusal_row(kind: type[ParleyError]) -> tuple[str, str, str]:
    return str(status_of(kind())), f"`{kind.code}`", kind.__doc__ or ""


def refusals_in_code() -> set[tuple[str, str, str]]:
    """Status, code and detail of what the connection and the dispatcher refuse by themselves."""
    refusals = set()
    for path in sorted((ROOT / "src" / "parley" / "surfaces" / "http").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and called_name(node) in {"Refused", "problem"} and len(node.args) == 3:
                status, code, detail = (pattern_of(argument, {}) for argument in node.args)
                if status.isdigit() and "…" not in code:
                    detail = "" if detail == "…" else detail
                    refusals.add((status, f"`{code}`", detail))
    return refusals


def objects(routes: Iterable[Route]) -> Iterator[str]:
    """Every object that a body or an answer holds, with its fields."""
    _, components = schema_components(sorted(set(schemas(routes)), key=str), "{name}")
    for name, schema in sorted(components.items(), key=lambda item: title_of(item[0])):
        if "properties" not in schema:
            continue
        yield f"### {title_of(name)}"
        yield ""
        if schema.get("description"):
            yield " ".join(schema["description"].split())
            yield ""
        required = set(schema.get("required", ()))
        rows = [
            (
                f"`{field}`",
                schema_type(property_schema, components),
                "yes" if field in required else "",
                property_schema.get("description", ""),
            )
            for field, property_schema in schema["properties"].items()
        ]
        yield from table(("field", "type", "required", "meaning"), rows)
        yield ""


def schema_type(schema: dict[str, Any], components: dict[str, Any]) -> str:
    """A JSON Schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"]
        if "enum" in components[name]:
            return " or ".join(f"`{choice}`" for choice in components[name]["enum"] if choice != "")
        return link_to(name)
    if "anyOf" in schema:
        return " or ".join(schema_type(option, components) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("type") == "array":
        inside = schema_type(schema.get("items", {}), components)
        return f"list of {inside}" if inside != "anything" else "list"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    kind = schema.get("type", "anything")
    bounds = [f"{schema[key]:,} {word}" for key, word in BOUNDS.items() if key in schema]
    return ", ".join([words.get(kind, kind), *bounds])
